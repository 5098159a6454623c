"""SIGKILL of a command with a lease: the same command goes on at once, and so does upkeep."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from tests.kills.processes import kill
from tests.support.tables.builders import EVENTS, content, events, new_table, rows
from tests.support.tables.invariants import assert_sound

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc of Linux")

POLICY = "warehouse:\n  respec: {keys: [day, v]}\n"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = new_table(Catalog.open(str(tmp_path / "warehouse")), EVENTS, partitions=["day"])
    for number in range(3):
        given = [
            {**each, "day": f"{day:02}"}
            for day in range(15)
            for each in events(100 * number, 100 * number + 20)
        ]
        made.write(rows(made, given))
    return made


def command(table: Table, *arguments: str) -> subprocess.Popen[str]:
    warehouse = str(Path(table.table_files.paths.root, "../.."))
    return subprocess.Popen(
        [sys.executable, "-m", "lakewright.cli", *arguments],
        env={**os.environ, "LAKEWRIGHT_WAREHOUSE": warehouse},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed(table: Table, *arguments: str) -> str:
    """Kill a command once it has a lease, and return the holder of that lease."""
    process = command(table, *arguments)
    try:
        while not table.upkeep.leases():
            assert process.poll() is None, "it ended before it took a lease"
            time.sleep(0.001)
    finally:
        kill(process.pid)
        process.communicate()
    (lease,) = table.upkeep.leases()
    return lease.holder


def test_the_same_command_goes_on_at_once(table: Table) -> None:
    due = content(table)
    respec = ("respec", table.name, "--keys", "day,v")
    holder = killed(table, *respec)
    again = command(table, *respec)
    _, told = again.communicate(timeout=300)
    assert (again.returncode, told.count("\n")) == (0, 1), told
    assert told.startswith("lakewright: warning: lease ")
    assert told.endswith(f"of {holder} was released, since its process has ended\n")
    now = Catalog.open(str(Path(table.table_files.paths.root, "../.."))).table(table.name)
    assert now.schema.partition_keys == ("day", "v")
    assert not now.upkeep.leases()
    assert content(now) == due
    assert_sound(now)


@pytest.mark.deep
def test_upkeep_is_not_beaten_by_a_killed_command(table: Table, tmp_path: Path) -> None:
    holder = killed(table, "sort-compact", table.name, "--by", "id")
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    upkeep = command(table, "upkeep", "--policy", str(policy))
    out, told = upkeep.communicate(timeout=300)
    assert upkeep.returncode == 0, told
    assert f"of {holder} was released, since its process has ended" in told
    assert "beaten" not in out
    now = Catalog.open(str(Path(table.table_files.paths.root, "../.."))).table(table.name)
    assert now.schema.partition_keys == ("day", "v")
    assert not now.upkeep.leases()
