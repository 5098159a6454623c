"""A crash or failure at every change that a run with bad rows makes, and a replay of them.

After a second try each row is in the table or among the rejects, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.platform.ingest.replay_rejects import replay_rejects
from lakewright.platform.tables.declarations import WriteKind
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError
from tests.faults.trials import HOUR_MS, Disk
from tests.property.test_bad_rows import amounts, declared, rejected, run
from tests.support.stores.watched_files import Call, Crashed, Fault, Meanwhile, WatchedFiles
from tests.support.tables.environment import START_MS, FixedClock, FixedEnv, SeededIds
from tests.support.tables.fixtures import empty_memory, memory_catalog

ROWS = "amount,name,day\n1,a,2024-01-01\n-,b,2024-01-01\nx,c,2024-01-01\n4,d,2024-01-01\n"
BAD = ["-,b,2024-01-01", "x,c,2024-01-01"]
FAULTS = (Fault.DIES_BEFORE, Fault.DIES_AFTER, Fault.FAILS_AFTER, Fault.GOES_AWAY)
faults = pytest.mark.parametrize("fault", FAULTS)


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    empty_memory()


@pytest.fixture
def source(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "a.csv").write_text(ROWS)
    return {"csv": str(tmp_path / "a.csv")}


def failed_at_each_change(
    catalog: Catalog, work: Callable[[Catalog], object], fault: Fault
) -> Iterator[Catalog]:
    """The warehouse after the work has failed at its first change, its second, and so on."""
    before, number = Disk.now(), 0

    def changes(call: Call) -> bool:
        return call.changes

    while True:
        number += 1
        before.restore()
        fs = WatchedFiles(catalog.fs, fail_at=number, fault=fault, counts=changes)
        with suppress(Crashed, StorageError):
            work(replace(catalog, fs=fs))
        if fs.failed is None:
            assert number > 10
            return
        # By then the lease of a process that died is over.
        clock = FixedClock(START_MS + number * HOUR_MS)
        yield replace(catalog, env=FixedEnv(clock, SeededIds(number)))


@faults
@pytest.mark.sampled(1)
def test_a_run_that_failed_anywhere_is_made_whole_by_its_retry(
    source: dict[str, str], fault: Fault
) -> None:
    def work(catalog: Catalog) -> object:
        # An overwrite would hide rows that are written twice.
        return run(catalog, declared(**source), "run-1", WriteKind.APPEND)

    for catalog in failed_at_each_change(memory_catalog(), work, fault):
        if catalog.table_exists("shop.sales") and amounts(catalog):
            assert rejected(catalog, "open") == BAD
        work(catalog)
        assert amounts(catalog) == [1, 4]
        assert rejected(catalog, "open") == BAD


@faults
@pytest.mark.sampled(1)
def test_a_replay_that_failed_anywhere_is_finished_by_the_next_one(
    source: dict[str, str], fault: Fault
) -> None:
    catalog = memory_catalog()
    run(catalog, declared(**source), "run-1")

    def work(catalog: Catalog) -> object:
        return replay_rejects(catalog, declared(**source, nulls=["-", ""]))

    for failed in failed_at_each_change(catalog, work, fault):
        assert amounts(failed) in ([1, 4], [1, 4, None])
        work(failed)
        assert amounts(failed) == [1, 4, None]
        assert rejected(failed, "replayed") == BAD[:1]
        assert rejected(failed, "open") == BAD[1:]


@pytest.mark.parametrize("at", ["sales/snapshot/", "sales__rejects/snapshot/"])
def test_a_replay_that_was_taken_for_dead_appends_nothing_twice(
    source: dict[str, str], at: str
) -> None:
    catalog = memory_catalog()
    run(catalog, declared(**source), "run-1")
    fixed = declared(**source, nulls=["-", ""])

    def other() -> None:
        # Its lease is over, though it goes on.
        clock = FixedClock(START_MS + 100 * HOUR_MS)
        replay_rejects(replace(catalog, env=FixedEnv(clock, SeededIds(9))), fixed)

    def commits(call: Call) -> bool:
        return call.name == "put_if_absent" and at in call.path

    meanwhile = Meanwhile(commits, other)
    with suppress(StorageError):
        replay_rejects(replace(catalog, fs=WatchedFiles(catalog.fs, before=meanwhile)), fixed)
    assert meanwhile.has_happened
    assert amounts(catalog) == [1, 4, None]
    assert (
        replay_rejects(
            replace(catalog, env=FixedEnv(FixedClock(START_MS + 999 * HOUR_MS), SeededIds(8))),
            fixed,
        ).appended
        == 0
    )
    assert amounts(catalog) == [1, 4, None]
    assert rejected(catalog, "replayed") == BAD[:1]
