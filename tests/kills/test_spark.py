"""Executors and Python workers of Spark killed in the middle: no row is lost or there twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from tests.kills.processes import command_of, descendants, kill, of_session
from tests.kills.spark_driver import ROWS
from tests.support.tables.builders import events, new_table, remove_orphans, rows, values_of
from tests.support.tables.invariants import (
    assert_only_reachable_files,
    assert_sound,
    unreachable_files,
)
from tests.support.tally import tally

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 900

pytestmark = [pytest.mark.deep, pytest.mark.spark]

KINDS = {
    "append": {"partitions": ("day",)},
    "keyed": {"partitions": ("day",), "keys": ("day", "id"), "options": {"bucket": "2"}},
}


def table_of(warehouse: Path, kind: str) -> Table:
    return new_table(Catalog.open(str(warehouse)), {"id": "BIGINT", "day": "STRING"}, **KINDS[kind])


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("victim", ["executor", "worker"])
@pytest.mark.mission("PT50", "PT55")
def test_a_write_outlives_what_spark_lost_and_leaves_no_file_of_it(
    tmp_path: Path, kind: str, victim: str
) -> None:
    table = table_of(tmp_path / "warehouse", kind)
    with application("write", tmp_path) as driver:
        wait_for_work(driver, tmp_path, at_least=6)
        kill_one(driver, VICTIMS[victim])
        answer = answer_of(driver)
    assert answer == {"already_committed": False} | {"seconds": answer["seconds"]}
    assert values_of(table, "id") == list(range(ROWS))
    assert_sound(table)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.mission("PT50", "PT55")
def test_a_write_whose_driver_died_is_made_by_the_next_one(tmp_path: Path, kind: str) -> None:
    table = table_of(tmp_path / "warehouse", kind)
    with application("write", tmp_path) as driver:
        wait_for_work(driver, tmp_path, at_least=6)
        driver.kill()
        tally("kills survived")
        driver.wait()
    assert table.history.latest_snapshot() is None
    for _ in range(2):
        # The third time it has been made already.
        with application("write", tmp_path) as driver:
            answer = answer_of(driver)
    assert answer["already_committed"]
    assert values_of(table, "id") == list(range(ROWS))
    assert len(table.history.snapshots()) == 1
    remove_orphans(table)
    assert_sound(table)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.mission("PT50", "PT55")
def test_a_compaction_outlives_an_executor_and_leaves_no_file_of_it(
    tmp_path: Path, kind: str
) -> None:
    table = table_of(tmp_path / "warehouse", kind)
    for first in range(0, 400, 50):
        for day in ("d0", "d1"):
            given = events(first, first + 50, day=day)
            table.write(rows(table, [{"id": each["id"], "day": day} for each in given]))
    before = values_of(table, "id")
    with application("compact", tmp_path) as driver:
        wait_for_work(driver, tmp_path, at_least=1)
        written = unreachable_files(table)
        kill_one(driver, VICTIMS["executor"])
        answer = answer_of(driver)
    assert written
    assert answer["files_after"] < answer["files_before"]
    assert values_of(table, "id") == before
    assert_only_reachable_files(table)
    assert_sound(table)


# --- the application and its processes --------------------------------------------------------


@contextmanager
def application(verb: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The application as a process group of its own, none of which is left afterwards."""
    notes = folder / "notes"
    notes.mkdir(exist_ok=True)
    for old in notes.iterdir():
        old.unlink()
    with (folder / "spark.log").open("a") as log:
        driver = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.kills.spark_driver"),
                *(verb, str(folder / "warehouse"), str(notes)),
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*python_path(), str(ROOT)])},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    everyone: set[int] = set()
    try:
        yield driver
    finally:
        everyone |= {driver.pid, *descendants(driver.pid), *of_session(driver.pid)}
        for pid in everyone:
            kill(pid)
        driver.wait()
        assert driver.stdout is not None
        driver.stdout.close()


def python_path() -> list[str]:
    return [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]


def answer_of(driver: subprocess.Popen[str]) -> dict[str, object]:
    said, _ = driver.communicate(timeout=PATIENCE_SECONDS)
    assert driver.returncode == 0, said
    found: dict[str, object] = json.loads(said.splitlines()[-1])
    return found


def wait_for_work(driver: subprocess.Popen[str], folder: Path, *, at_least: int) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while len(list((folder / "notes").glob("working-*"))) < at_least:
        assert driver.poll() is None, (folder / "spark.log").read_text()[-3000:]
        assert time.monotonic() < until, (folder / "spark.log").read_text()[-3000:]
        time.sleep(0.1)


def kill_one(driver: subprocess.Popen[str], is_victim: Callable[[str], bool]) -> None:
    found = [pid for pid in descendants(driver.pid) if is_victim(command_of(pid))]
    assert found, [command_of(pid)[:80] for pid in descendants(driver.pid)]
    kill(found[0])
    tally("kills survived")


VICTIMS: dict[str, Callable[[str], bool]] = {
    "executor": lambda command: "CoarseGrainedExecutorBackend" in command,
    "worker": lambda command: "pyspark.daemon" in command,
}
