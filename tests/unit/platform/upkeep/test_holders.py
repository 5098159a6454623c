"""Leases of processes that have ended: who knows it, and whose lease is never released."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakewright.platform.tables.declarations import WriteKind
from lakewright.platform.upkeep import holders
from lakewright.platform.upkeep.holders import has_ended, here
from lakewright.platform.upkeep.leases import maintaining, writing
from lakewright.storage import Catalog, LeaseKind, Table
from lakewright.storage.errors import LeaseHeld
from lakewright.storage.operations.leases.leases import LeaseRequest, acquire_lease, whole_table
from tests.support.tables.builders import new_table
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc of Linux")

# Says who it is, and waits to be killed.
_LIVES = """
import sys
from lakewright.platform.upkeep.holders import here
print(here("respec of a dead run"), flush=True)
sys.stdin.read()
"""


@contextmanager
def process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that lives, and the text that it would enter as the holder of a lease."""
    with subprocess.Popen(
        [sys.executable, "-c", _LIVES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        try:
            yield started, started.stdout.readline().rstrip("\n")
        finally:
            started.kill()


def killed_holder() -> str:
    with process() as (started, holder):
        started.kill()
    return holder


@pytest.fixture(scope="module")
def dead() -> str:
    return killed_holder()


@pytest.fixture
def table() -> Table:
    return new_table(Catalog.open(memory_uri(), env=FixedEnv()), partitions=("day",))


def hold(table: Table, holder: str, kind: LeaseKind) -> str:
    scope = whole_table(table.table_files)
    request = LeaseRequest(kind=kind, scope=scope, holder=holder, duration_ms=86_400_000)
    return acquire_lease(table.table_files, request).id


def maintain(table: Table, said: list[str]) -> None:
    scope = whole_table(table.table_files)
    with maintaining(table, LeaseKind.COMPACT, scope, run="next", warn=said.append):
        (lease,) = table.upkeep.leases()
        assert lease.holder.startswith("next on ")


def test_a_process_has_ended_once_it_is_killed_also_before_its_parent_asks_for_it() -> None:
    with process() as (started, holder):
        assert holder.startswith("respec of a dead run on ")
        assert not has_ended(holder)
        started.kill()
        os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{started.pid}").exists()
        assert has_ended(holder)
        started.wait()
        assert has_ended(holder)


def test_maintenance_goes_on_at_once_past_a_lease_of_a_killed_process(
    table: Table, dead: str
) -> None:
    said: list[str] = []
    lease = hold(table, dead, LeaseKind.OVERWRITE)
    maintain(table, said)
    assert said == [f"lease {lease} of {dead} was released, since its process has ended"]
    assert not table.upkeep.leases()


def test_a_writer_does_not_wait_for_a_killed_one(table: Table, dead: str) -> None:
    said: list[str] = []
    lease = hold(table, dead, LeaseKind.OVERWRITE)
    with writing(table, WriteKind.OVERWRITE, None, commit_user="next", warn=said.append) as own:
        assert own is not None
        assert table.upkeep.leases() == (own,)
    assert said == [f"lease {lease} of {dead} was released, since its process has ended"]


def numbered(holder: str, process: int) -> str:
    before, _, after = holder.partition(", process ")
    return f"{before}, process {process} {after.partition(' ')[2]}"


def lasting(dead: str) -> dict[str, str]:
    """Holders that are not known to have ended, though nothing answers for some of them."""
    host = socket.gethostname()
    machine = dead.rpartition("(")[2].partition("-")[0]
    return {
        "this process": here("at work"),
        "another host": dead.replace(f" on {host}, ", f" on {host}-2, "),
        "another boot, or container": dead.replace(f"({machine}-", "(0123456789ab-"),
        "an earlier release": dead.rpartition(" (")[0],
        "a text of somebody": "run 17 on host h",
        "no text": "",
        "more after it": f"{dead} and more",
        "no process": numbered(dead, 0),
        "a number beyond all": numbered(dead, 10**30),
    }


@pytest.mark.parametrize("which", lasting("x on h, process 1 (0-1)"))
def test_the_lease_of_a_holder_that_may_live_is_not_released(
    table: Table, dead: str, which: str
) -> None:
    holder, said = lasting(dead)[which], list[str]()
    assert not has_ended(holder)
    lease = hold(table, holder, LeaseKind.OVERWRITE)
    with pytest.raises(LeaseHeld):
        maintain(table, said)
    assert not said
    assert [each.id for each in table.upkeep.leases()] == [lease]


def test_the_lease_of_a_live_process_is_not_released(table: Table) -> None:
    with process() as (_, holder):
        hold(table, holder, LeaseKind.OVERWRITE)
        with pytest.raises(LeaseHeld):
            maintain(table, [])
    maintain(table, [])


def test_a_later_process_with_the_number_of_a_dead_one_is_another(dead: str) -> None:
    assert has_ended(numbered(dead, os.getpid()))


def test_where_the_system_tells_no_start_a_lease_runs_out_as_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dead: str
) -> None:
    monkeypatch.setattr(holders, "_PROC", tmp_path)
    assert here("work") == f"work on {socket.gethostname()}, process {os.getpid()}"
    assert not has_ended(dead)


def test_the_process_of_another_user_is_not_taken_for_dead(
    monkeypatch: pytest.MonkeyPatch, dead: str
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    assert not has_ended(dead)
