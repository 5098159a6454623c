"""A streaming query killed again and again, beside upkeep: every row is there once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import CommitConflictError
from tests.kills.processes import descendants, kill, of_session
from tests.pipelines.lake import opened
from tests.support.tables.builders import compact, expire, new_table, remove_orphans, values_of
from tests.support.tables.invariants import assert_only_reachable_files, assert_sound
from tests.support.tally import tally

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 1200
FILES, ROWS, KILLS = 24, 20, 5

pytestmark = [pytest.mark.deep, pytest.mark.spark]


@pytest.mark.mission("PT13", "PT48", "PT49", "PT50")
@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_a_stream_that_is_killed_amid_batches_beside_upkeep_has_every_row_once(
    tmp_path: Path, kind: str
) -> None:
    keyed = {"keys": ("day", "id"), "options": {"bucket": "2"}} if kind == "keyed" else {}
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    table = new_table(catalog, {"id": "BIGINT", "day": "STRING"}, partitions=("day",), **keyed)
    feed = tmp_path / "feed"
    feed.mkdir()
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        lines = [json.dumps({"id": each, "day": f"d{each % 3}"}) for each in ids]
        (feed / f"{number:03}.json").write_text("\n".join(lines))
    chance = random.Random(kind)
    for _ in range(KILLS):
        with query(tmp_path, feed) as process:
            wait_for_batches(table, process, 2, tmp_path)
            upkeep(table)
            time.sleep(chance.uniform(0, 2))
            if process.poll() is None:
                tally("kills survived")
    with query(tmp_path, feed) as process:
        while process.poll() is None:
            upkeep(table)
            time.sleep(0.5)
        assert process.returncode == 0, (tmp_path / "stream.log").read_text()[-3000:]
    assert values_of(table, "id") == list(range(FILES * ROWS))
    (stream,) = table.history.streams()
    # Spark makes one batch of two files if it dies after it noted the first one in the source's log
    # and before it noted the batch.
    ended = [int(each.name) for each in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")]
    assert stream.batch == max(ended)
    remove_orphans(table)
    assert_only_reachable_files(table)
    assert_sound(table)


STREAM = """
    table: db.t
    columns: [{name: id, type: BIGINT}, {name: day, type: STRING NOT NULL}]
    partition_keys: [day]
    source: {stream: {json: FEED, files_per_batch: 1}}
"""


@pytest.mark.mission("PT13", "PT49", "PT54")
def test_a_run_of_a_declared_stream_killed_between_commit_and_checkpoint_repeats_nothing(
    tmp_path: Path,
) -> None:
    feed = tmp_path / "feed"
    feed.mkdir()
    for number in range(3):
        path = feed / f"{number}.json"
        path.write_text(json.dumps({"id": number, "day": f"d{number}"}))
        os.utime(path, (1_700_000_000 + number,) * 2)
    for lake in opened(tmp_path):
        lake.declare(STREAM.replace("FEED", str(feed)))
        for number in range(2):
            arguments = (str(tmp_path / "tables"), str(tmp_path / "warehouse"), str(number))
            with started("tests.kills.stream_run_driver", *arguments, folder=tmp_path) as process:
                process.wait(PATIENCE_SECONDS)
                said = (tmp_path / "stream.log").read_text()[-3000:]
                assert process.returncode == -signal.SIGKILL, said
                tally("kills survived")
            table = lake.table("db.t")
            assert values_of(table, "id") == list(range(number + 1))
            checkpoint = Path(table.table_files.paths.checkpoint)
            assert not (checkpoint / "commits" / str(number)).exists()
            upkeep(table)
        outcome = lake.materialize("db.t")
        assert outcome.success, outcome.failure
        # The last batch of the dead is told by the run that comes after it.
        assert {*outcome.materializations} == {None, "d1", "d2"}
        assert values_of(lake.table("db.t"), "id") == [0, 1, 2]
        assert lake.materialize("db.t").materializations == {}
        assert_only_reachable_files(lake.table("db.t"))


def upkeep(table: Table) -> None:
    """Compact and expire beside the query; what lost a race against it is left to the next time."""
    try:
        compact(table, full=True)
        expire(table, keep=2)
    except CommitConflictError:
        pass


def wait_for_batches(
    table: Table, process: subprocess.Popen[bytes], count: int, folder: Path
) -> None:
    """Wait until a query that runs has committed so many more batches, or has ended."""
    first = last_batch(table)
    until = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and last_batch(table) < first + count:
        assert time.monotonic() < until, (folder / "stream.log").read_text()[-3000:]
        time.sleep(0.05)


def last_batch(table: Table) -> int:
    return max((each.batch for each in table.history.streams()), default=-1)


def query(folder: Path, feed: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """The query as a process group of its own, which is killed at the end of the block."""
    places = (str(folder / "warehouse"), str(feed), str(folder / "checkpoint"))
    return started("tests.kills.stream_driver", *places, folder=folder)


@contextmanager
def started(module: str, *arguments: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    path = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    with (folder / "stream.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*path, str(ROOT)])},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for pid in {process.pid, *descendants(process.pid), *of_session(process.pid)}:
            kill(pid)
        process.wait()
