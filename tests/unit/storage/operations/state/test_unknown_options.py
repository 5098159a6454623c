"""A table with an option of later: what deletes leaves it alone, for who knows what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import UnsupportedError
from tests.support.stores.watched_files import WatchedFiles
from tests.support.tables.builders import events, new_table, rows, with_options
from tests.support.tables.fixtures import empty_memory, memory_uri

Plan = Callable[[Table], Any]
Run = Callable[[Table, Any], object]

VERBS: dict[str, tuple[Plan, Run]] = {
    "expire snapshots": (
        lambda table: table.upkeep.plan_expire_snapshots(retain_min=1, retain_max=1, grace_ms=0),
        lambda table, plan: table.upkeep.run(plan),
    ),
    "expire changelogs": (
        lambda table: table.upkeep.plan_expire_changelogs(every=True, grace_ms=0),
        lambda table, plan: table.upkeep.run(plan),
    ),
    "remove orphans": (
        lambda table: table.upkeep.plan_remove_orphans(older_than_ms=0, even_recent=True),
        lambda table, plan: table.upkeep.run(plan),
    ),
    "collect": (
        lambda table: table.upkeep.plan_collect(early=True),
        lambda table, plan: table.upkeep.run(plan),
    ),
    "roll back": (
        lambda table: table.history.plan_rollback(snapshot=1, grace_ms=0),
        lambda table, plan: table.history.run(plan),
    ),
    "delete tags": (
        lambda table: table.history.plan_delete_tags("held", grace_ms=0),
        lambda table, plan: table.history.run(plan),
    ),
    "delete a branch": (
        lambda table: table.history.plan_delete_branch("side", grace_ms=0),
        lambda table, plan: table.history.run(plan),
    ),
}


@pytest.fixture
def known() -> Iterator[Table]:
    """A table with something to take away for every verb."""
    table = new_table(Catalog.open(memory_uri()))
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
    table.history.create_tag("held", snapshot=2)
    table.history.create_branch("side")
    for _ in range(2):
        table.stage(rows(table, events(5, 6)))
        table.upkeep.run(table.upkeep.plan_remove_orphans(older_than_ms=0, even_recent=True))
    table.stage(rows(table, events(6, 7)))
    yield table
    empty_memory()


@pytest.mark.parametrize("verb", VERBS)
def test_what_deletes_leaves_a_table_with_an_option_of_later_alone(known: Table, verb: str) -> None:
    plan, run = VERBS[verb]
    planned = plan(known)
    fs = WatchedFiles(known.table_files.fs)
    later = with_options(Table(replace(known.table_files, fs=fs)), row_tracking__of__later="true")
    for refused in (lambda: plan(later), lambda: run(later, planned)):
        with pytest.raises(UnsupportedError, match="and was not changed"):
            refused()
    assert fs.changes == []
    # The plan was good.
    run(known, planned)
