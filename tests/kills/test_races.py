"""Real processes that write to one table at once, beside its upkeep: every commit counts, once.

`LAKEWRIGHT_TEST_WAREHOUSE` puts the tables into another store, `LAKEWRIGHT_TEST_WRITERS` and
`LAKEWRIGHT_TEST_COMMITS` say how many there are.
"""

from __future__ import annotations

import os
import sys

import pytest

from lakewright.storage import Catalog
from tests.kills.kinds import COLUMNS, KINDS, counted, expected_of
from tests.support.builders import compact, expire, new_table
from tests.support.invariants import assert_sound
from tests.support.racing import race
from tests.support.tally import tally


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    ("writers", "commits", "compactions"),
    # So many compactions get their turn among writers that never pause, at least.
    [
        pytest.param(4, 15, 1, id="some"),
        pytest.param(8, 100, 4, id="many", marks=pytest.mark.deep),
    ],
)
@pytest.mark.mission("FS10", "FS21")
def test_of_writers_beside_upkeep_none_fails_and_no_commit_is_lost(
    warehouse: str, kind: str, writers: int, commits: int, compactions: int
) -> None:
    writers = int(os.environ.get("LAKEWRIGHT_TEST_WRITERS", writers))
    commits = int(os.environ.get("LAKEWRIGHT_TEST_COMMITS", commits))
    table = new_table(Catalog.open(warehouse), COLUMNS, **KINDS[kind])

    found = race(table.files.fs.uri(warehouse), table.name, writers=writers, commits=commits)

    sys.stdout.write(f"{kind}: {found}\n")
    tally("commits raced", found.commits)
    assert found.commits == writers * commits
    assert counted(table) == expected_of(table, dict.fromkeys(range(writers), commits))
    assert found.upkeep["compact"].useful >= compactions
    assert found.upkeep["expire"].done > 0
    assert found.upkeep["remove orphans"].done == 0
    # Nor has what upkeep did meanwhile left anything that stands in the way of more of it.
    compact(table, full=True)
    expire(table)
    assert counted(table) == expected_of(table, dict.fromkeys(range(writers), commits))
    assert_sound(table)
