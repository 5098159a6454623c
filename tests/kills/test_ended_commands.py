"""Signals that end a command: it removes the files that it began with, and releases its lease."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from tests.kills.processes import kill
from tests.support.tables.builders import EVENTS, content, events, new_table, rows
from tests.support.tables.invariants import assert_sound

# More than a process rewrites between two looks at its files.
PARTITIONS, FILES = 60, 3
COMMANDS = {
    "compact": ("compact", "db.t", "--full", "--min-files", "2"),
    "sort": ("sort-compact", "db.t", "--by", "id"),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = new_table(Catalog.open(str(tmp_path / "warehouse")), EVENTS, partitions=["day"])
    for number in range(FILES):
        given = [
            {**each, "day": f"{day:02}"}
            for day in range(PARTITIONS)
            for each in events(100 * number, 100 * number + 20)
        ]
        made.write(rows(made, given))
    return made


def data_files(table: Table) -> set[Path]:
    return set(Path(table.table_files.paths.root).glob("**/bucket-*/data-*"))


@pytest.mark.sampled(each="command")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"]
)
@pytest.mark.sampled(1)
def test_a_command_that_is_ended_when_its_first_file_appears_leaves_no_file_and_no_lease(
    table: Table, command: str, sent: signal.Signals, code: int
) -> None:
    before, due = data_files(table), content(table)
    process = subprocess.Popen(
        [sys.executable, "-m", "lakewright.cli", *COMMANDS[command]],
        env={
            **os.environ,
            "LAKEWRIGHT_WAREHOUSE": str(Path(table.table_files.paths.root, "../..")),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        while data_files(table) == before:
            assert process.poll() is None, "it ended before it wrote a file"
            time.sleep(0.001)
        assert table.upkeep.leases()
        process.send_signal(sent)
        told = process.communicate(timeout=120)[1]
    finally:
        kill(process.pid)
    assert (process.returncode, told) == (code, b"")
    assert data_files(table) == before
    assert table.upkeep.leases() == ()
    assert len(table.history.snapshots()) == FILES
    assert_sound(table)
    assert content(table) == due
