"""Real processes that write to tables in stores at once, beside upkeep and between kills.

`LAKEWRIGHT_TEST_WRITERS` and `LAKEWRIGHT_TEST_COMMITS` say how many writers there are, and how
often each commits.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.support.processes.ordeals import KINDS, besiege, race_through
from tests.support.processes.racing import Race
from tests.support.stores.faulty_proxy import FaultyProxy, Trouble
from tests.support.tally import tally


def race_in(warehouse: str, kind: str, *, writers: int, commits: int) -> Race:
    found = race_through(
        warehouse,
        kind,
        writers=int(os.environ.get("LAKEWRIGHT_TEST_WRITERS", writers)),
        commits=int(os.environ.get("LAKEWRIGHT_TEST_COMMITS", commits)),
    )
    scheme = warehouse.partition(":")[0]
    sys.stdout.write(f"{kind} on {scheme}: {found}\n")
    tally(f"commits raced on {scheme}", found.commits)
    return found


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.mission("FS10")
def test_of_writers_beside_upkeep_on_s3_none_fails_and_no_commit_is_lost(
    careful_s3: str, kind: str
) -> None:
    race_in(careful_s3, kind, writers=8, commits=5)


@pytest.mark.mission("FS10")
def test_writers_of_a_store_without_conditions_lose_no_commit_under_a_lock(
    s3: str, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.make(Trouble.STRIPPED, method="PUT", times=1_000_000)
    monkeypatch.setenv("LAKEWRIGHT_LOCK", f"sqlite://{tmp_path}/lock")
    race_in(s3, "keyed", writers=4, commits=5)
    assert proxy.made


@pytest.mark.mission("FS10")
def test_writers_behind_ftp_lose_no_commit_under_a_lock(ftp: str) -> None:
    race_in(ftp, "append", writers=4, commits=5)


@pytest.mark.parametrize("kind", ["append", "keyed"])
@pytest.mark.mission("FS9", "FS10")
def test_processes_killed_at_random_on_s3_lose_no_commit_and_make_none_twice(
    careful_s3: str, tmp_path: Path, kind: str
) -> None:
    notes = tmp_path / "notes"
    made = besiege(careful_s3, kind, notes, kills=12, least_seconds=0.5, most_seconds=4)
    sys.stdout.write(f"{made}\n")
