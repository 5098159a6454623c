"""Every verb there is, on S3, where the answer to each of its changes is lost once.

The client sends each again, and then meets what it did itself: a file that is there already, one
that is gone already. `tests/faults/verbs.py` lists the verbs.
"""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from tests.faults.trials import seen
from tests.faults.verbs import CASES, KINDS, NAME, Case, Place, make_table
from tests.stores.conftest import settings
from tests.support.stores.faulty_proxy import FaultyProxy
from tests.support.tables.fixtures import empty_memory, memory_uri
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_true_hints,
    unreachable_files,
)
from tests.support.tally import tally


def place_for(uri: str, case: Case) -> Place:
    """A warehouse in which the case may be tried."""
    catalog = Catalog.open(uri)
    make_table(catalog, case.on[0])
    ready = case.ready(catalog.table(NAME)) if case.on[0] in KINDS else None
    return Place(catalog, ready)


# A database is a folder, and object stores have none but those of files.
TRIED = [case for case in CASES if case.name not in ("create a database", "drop a database")]


@pytest.mark.parametrize("case", TRIED, ids=lambda case: case.name)
@pytest.mark.mission("FS10")
def test_a_verb_whose_every_answer_is_lost_once_does_its_work_once(
    case: Case, s3: str, proxy: FaultyProxy
) -> None:
    undisturbed = place_for(memory_uri(), case)
    case.verb(undisturbed)
    disturbed = place_for(s3, case)

    # The lower half of the client waits long before it asks again, the upper half does not.
    with settings(AWS_MAX_ATTEMPTS="1"), proxy.losing_every_answer_once():
        case.verb(disturbed)

    tally("S3 answers lost, requests refused or cut", len(proxy.made))
    assert proxy.made
    assert but_databases(disturbed.catalog) == but_databases(undisturbed.catalog)
    assert files_left(disturbed.catalog) == files_left(undisturbed.catalog)
    for table in tables_of(disturbed.catalog):
        assert_nothing_missing(table)
        assert_true_hints(table)
    empty_memory()


def but_databases(catalog: Catalog) -> dict[str, Any]:
    """What a reader sees of a warehouse, but for empty databases."""
    return {name: each for name, each in seen(catalog).items() if not name.startswith("database ")}


def tables_of(catalog: Catalog) -> list[Table]:
    return [
        catalog.table(f"{database}.{name}")
        for database in catalog.list_databases()
        for name in catalog.list_tables(database)
    ]


def files_left(catalog: Catalog) -> list[int]:
    """How many files nothing refers to, such as those that a verb staged."""
    return [len(unreachable_files(table)) for table in tables_of(catalog)]
