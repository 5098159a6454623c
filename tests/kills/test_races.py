"""Real processes that write to one table at once, beside its upkeep: every commit counts, once.

`LAKEWRIGHT_TEST_WAREHOUSE` puts the tables into another store, `LAKEWRIGHT_TEST_WRITERS` and
`LAKEWRIGHT_TEST_COMMITS` say how many there are.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.processes.ordeals import KINDS, race_through
from tests.support.tally import tally


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    ("writers", "commits", "compactions"),
    # So many compactions get their turn among writers that never pause, at least.
    [pytest.param(4, 10, 1, id="some"), pytest.param(8, 100, 4, id="many", marks=pytest.mark.deep)],
)
@pytest.mark.mission("FS10", "FS21")
@pytest.mark.sampled(1)
def test_of_writers_beside_upkeep_none_fails_and_no_commit_is_lost(
    warehouse: str, kind: str, writers: int, commits: int, compactions: int
) -> None:
    writers = int(os.environ.get("LAKEWRIGHT_TEST_WRITERS", writers))
    commits = int(os.environ.get("LAKEWRIGHT_TEST_COMMITS", commits))
    found = race_through(warehouse, kind, writers=writers, commits=commits)

    sys.stdout.write(f"{kind}: {found}\n")
    tally("commits raced", found.commits)
    assert found.upkeep["compact"].useful >= compactions
