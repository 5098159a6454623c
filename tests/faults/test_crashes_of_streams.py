"""A stream into a table that fails at a call of its store: its next run has every row once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.connectors import ExternalTables
from lakewright.connectors.planning.plan_sink import WriteRequest, plan_write
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.stream import run_stream
from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.errors import CommitOutcomeUnknownError, StorageError
from tests.support.sampling import sampled
from tests.support.stores.watched_files import Call, Crashed, Fault, WatchedFiles
from tests.support.tables.builders import remove_orphans
from tests.support.tables.invariants import assert_only_reachable_files

_FILES = 3
_FAULTS: dict[Fault, Callable[[Call], bool]] = {
    Fault.DIES_BEFORE: lambda call: call.changes,
    Fault.DIES_AFTER: lambda call: call.changes,
    Fault.FAILS_BEFORE: lambda call: True,
    Fault.FAILS_AFTER: lambda call: call.changes,
}


def prepare(folder: Path) -> Catalog:
    catalog = Catalog.open(str(folder / "warehouse"))
    catalog.create_database("db")
    feed = folder / "feed"
    feed.mkdir()
    for number in range(_FILES):
        (feed / f"{number}.json").write_text(f'{{"id": {number}}}\n{{"id": {number + 100}}}\n')
    Session(catalog).sql(f"""
        CREATE TABLE db.feed (id BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json',
          'path' = '{feed}', 'source.monitor-interval' = '1 s');
        CREATE TABLE db.kept (id BIGINT)
    """)
    return catalog


def drain(catalog: Catalog, folder: Path) -> None:
    externals = ExternalTables(catalog)
    scan = plan_scan(externals.context("db.feed"), ScanRequest())
    sink = plan_write(externals.managed_context("db.kept"), WriteRequest(mode=scan.mode))
    place = str(folder / "checkpoint")
    for _ in run_stream(scan, sink, catalog.env, checkpoint=place, max_rows=1, available_now=True):
        pass


def drained_at(catalog: Catalog, folder: Path, fault: Fault, step: int) -> bool:
    """Drain with a fault; whether it came to it."""
    fs = WatchedFiles(catalog.fs, fail_at=step, fault=fault, counts=_FAULTS[fault])
    with suppress(Crashed, StorageError):
        drain(replace(catalog, fs=fs), folder)
    return fs.failed is not None


def steps(tmp_path: Path, fault: Fault) -> int:
    folder = tmp_path / "count"
    folder.mkdir()
    fs = WatchedFiles(prepare(folder).fs, counts=_FAULTS[fault])
    drain(replace(Catalog.open(str(folder / "warehouse")), fs=fs), folder)
    return fs.counted


# What dies leaves its files open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.mission("FS21")
@pytest.mark.parametrize(
    "most", [5, pytest.param(None, marks=pytest.mark.deep)], ids=["some", "all"]
)
@pytest.mark.parametrize("fault", _FAULTS, ids=lambda fault: fault.name)
def test_a_stream_that_fails_at_any_call_has_each_row_once_in_the_end(
    tmp_path: Path, fault: Fault, most: int | None
) -> None:
    every = range(1, steps(tmp_path, fault) + 1)
    assert len(every) > 20
    for step in every if most is None else sampled(every, most, seed=fault.name):
        folder = tmp_path / str(step)
        folder.mkdir()
        catalog = prepare(folder)
        assert drained_at(catalog, folder, fault, step)
        table = Catalog.open(str(folder / "warehouse")).table("db.kept")
        with suppress(CommitOutcomeUnknownError):
            drain(Catalog.open(str(folder / "warehouse")), folder)
        drain(Catalog.open(str(folder / "warehouse")), folder)
        found = sorted(table.read().column("id").to_pylist())
        assert found == [0, 1, 2, 100, 101, 102], (fault, step)
        remove_orphans(table)
        assert_only_reachable_files(table)
