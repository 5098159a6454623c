"""SIGKILL of a command with a lease: on its machine the same command goes on at once."""

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


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = new_table(Catalog.open(str(tmp_path / "warehouse")), EVENTS, partitions=["day"])
    for number in range(3):
        given = [
            {**each, "day": f"{day:02}"}
            for day in range(6)
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


def killed(table: Table, *arguments: str) -> None:
    """Kill a command once it has a lease."""
    process = command(table, *arguments)
    try:
        while not table.upkeep.leases():
            assert process.poll() is None, "it ended before it took a lease"
            time.sleep(0.001)
    finally:
        kill(process.pid)
        process.communicate()


def test_the_same_command_goes_on_at_once(table: Table) -> None:
    due = content(table)
    respec = ("respec", table.name, "--keys", "day,v")
    killed(table, *respec)
    assert table.upkeep.leases() == ()
    again = command(table, *respec)
    _, told = again.communicate(timeout=300)
    assert again.returncode == 0, told
    now = Catalog.open(str(Path(table.table_files.paths.root, "../.."))).table(table.name)
    assert now.schema.partition_keys == ("day", "v")
    assert not now.upkeep.leases()
    assert content(now) == due
    assert_sound(now)
