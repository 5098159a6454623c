"""A local disk that fails at any call: the error is ours, and it is true."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import CommitOutcomeUnknownError, StorageError, UnavailableError
from tests.faults.local_trials import folder_as_long, in_memory, laid_out, what_lies_in
from tests.faults.test_every_call import trial_of
from tests.faults.trials import Disk, Trial
from tests.faults.verbs import CASES, Case, Place
from tests.support.sampling import sampled
from tests.support.stores.disks import FailingDisk
from tests.support.tables.builders import content, events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import check_all_tables, empty_memory
from tests.support.tally import tally

ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EDQUOT)
# Verbs that make one snapshot: what they tell is whether it is there.
ONE_COMMIT = (
    "write",
    "write deletions",
    "write to a branch",
    "overwrite by partition",
    "overwrite one partition",
    "overwrite all",
    "truncate",
    "commit",
    "commit numbered again",
    "keep and commit batches",
    "compact what was written",
    "compact",
    "compact levels",
    "compact again",
    "sort",
    "analyze",
)


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    empty_memory()


@dataclass(frozen=True)
class How:
    """Which calls fail, and how."""

    name: str
    counts: Callable[[str, str], bool] = lambda name, path: True
    afterwards: bool = False
    for_good: bool = False


HOWS = (
    How("once"),
    How("once, having done it", lambda name, path: name not in ("write", "open"), afterwards=True),
    How("from then on", for_good=True),
)
# One of each sort in `make test`: a disk is slow, and what calls leave in memory is tried for all.
QUICK = (
    "write",
    "commit numbered again",
    "keep and commit batches",
    "overwrite one partition",
    "compact",
    "analyze",
    "expire compacted",
    "fast-forward",
    "respec to finer keys",
    "respec of a keyed table to no keys",
    "settle",
)


# So many calls of each in `make test`; all of them where it is deep.
SOME = 8


def _tries() -> Iterator[Any]:
    for case in (each for each in CASES if not each.names_places):
        for place, kind in enumerate(dict.fromkeys(case.on)):
            for how in HOWS:
                name = f"{case.name}, {kind}, {how.name}"
                if case.name in QUICK and not place and how is HOWS[0]:
                    yield pytest.param(case, kind, how, SOME, id=f"{name}, some")
                yield pytest.param(case, kind, how, None, id=name, marks=pytest.mark.deep)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("case", "kind", "how", "most"), list(_tries()))
def test_a_disk_that_fails_at_any_call_is_told_truly_and_tried_again_without_loss_or_doubling(
    case: Case, kind: str, how: How, most: int | None
) -> None:
    trial = trial_of(case, kind)
    disk = FailingDisk(ERRORS[0], how.counts, afterwards=how.afterwards)
    told, _ = _run(trial, case, disk)
    assert told is None, f"the verb fails where nothing does: {told!r}"
    numbers = range(1, disk.counted + 1)
    for number in numbers if most is None else sampled(numbers, most, seed=case.name):
        disk = FailingDisk(
            # A disk that is full says so before it does anything.
            errno.EIO if how.afterwards else ERRORS[number % len(ERRORS)],
            how.counts,
            fail_at=number,
            for_good=how.for_good,
            afterwards=how.afterwards,
        )
        told, left = _run(trial, case, disk)
        assert disk.failed is not None, "the verb makes fewer calls than before"
        tally("calls at which a disk failed")
        try:
            _check(trial, case, told, left)
            if disk.failed[0] in ("open", "write") and _snapshots(left) == _snapshots(trial.start):
                assert not isinstance(told, CommitOutcomeUnknownError), "it is known"
        except Exception as error:
            name, path = disk.failed
            error.add_note(f"{case.name}: {name} of {path}, {told!r}")
            raise


def _run(trial: Trial, case: Case, disk: FailingDisk) -> tuple[StorageError | None, Disk]:
    told: StorageError | None = None
    with folder_as_long() as folder:
        catalog = laid_out(trial, folder)
        with disk.under():
            try:
                case.verb(Place(catalog, trial.ready))
            except StorageError as error:
                told = error
        return told, in_memory(what_lies_in(folder), folder)


def _check(trial: Trial, case: Case, told: StorageError | None, left: Disk) -> None:
    found = trial.seen_in(left)
    trial.check_whole(found)
    if told is None:
        trial.check_all_there(found)
    elif case.name in ONE_COMMIT and not isinstance(told, CommitOutcomeUnknownError):
        assert _snapshots(left) == _snapshots(trial.start), f"it is there, and was told {told!r}"
    trial.try_again(left)


def _snapshots(disk: Disk) -> set[str]:
    return {path for path in disk.files if "/snapshot/snapshot-" in path}


# --- by name ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", ["open", "write", "close", "fsync", "rename"])
def test_a_write_whose_hint_cannot_be_written_has_succeeded(
    catalog: Catalog, call: str, error: int
) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 2)))
    disk = FailingDisk(
        error, lambda name, path: name == call and "LATEST" in path, fail_at=1, for_good=True
    )
    with disk.under():
        result = table.write(rows(table, events(2, 4)))
    assert disk.failed is not None
    assert result.snapshot is not None
    assert len(content(table)) == 4
    # The next write sets it right.
    table.write(rows(table, events(4, 5)))


def test_a_commit_whose_snapshot_may_not_outlive_a_power_loss_says_so(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 2)))
    disk = FailingDisk(
        errno.EIO,
        lambda name, path: name == "fsync" and path.endswith("/snapshot"),
        fail_at=1,
        for_good=True,
    )
    with disk.under(), pytest.raises(CommitOutcomeUnknownError, match="Input/output error"):
        table.write(rows(table, events(2, 4)), commit_user="job", commit_identifier=1)
    assert len(content(table)) == 4
    assert table.write(
        rows(table, events(2, 4)), commit_user="job", commit_identifier=1
    ).already_committed
    table.write(rows(table, events(4, 5)))


def test_a_full_disk_is_told_with_a_way_out_and_nothing_is_published(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 2)))
    disk = FailingDisk(errno.ENOSPC, lambda name, path: name == "write", fail_at=1, for_good=True)
    with disk.under(), pytest.raises(UnavailableError, match="disk is full; free space") as told:
        table.write(rows(table, events(2, 4)))
    assert isinstance(told.value.__cause__, OSError)
    assert len(content(table)) == 2
    table.write(rows(table, events(2, 4)))
    assert len(content(table)) == 4


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_disk_that_is_full_amid_a_large_file_is_told_in_every_format(
    catalog: Catalog, file_format: str
) -> None:
    table = new_table(catalog, options={"file.format": file_format})
    large = rows(table, [{**each, "v": token_hex(500)} for each in events(0, 2000)])
    disk = FailingDisk(
        errno.ENOSPC,
        lambda name, path: name == "write" and "/bucket-" in path,
        fail_at=3,
        for_good=True,
    )
    with disk.under(), pytest.raises(UnavailableError, match="disk is full"):
        table.write(large)
    assert disk.failed is not None
    assert table.history.latest_snapshot() is None


def test_a_small_disk_that_is_full_refuses_and_goes_on_once_there_is_space(
    small_disk: Path, env: FixedEnv
) -> None:
    catalog = Catalog.open(str(small_disk / "warehouse"), env=env)
    table = new_table(catalog)
    table.write(rows(table, events(0, 2)))
    ballast = small_disk / "ballast"
    refused = 0
    # From full to the last page to as good as empty, a write fails somewhere else each time.
    for free_pages in range(12):
        _fill(small_disk, ballast, free_pages * 4096)
        before = len(content(table))
        told = _told(lambda before=before: table.write(rows(table, events(before, before + 1))))
        if told is not None:
            assert "disk is full" in told.message
            refused += 1
        assert len(content(table)) == before + (told is None)
        ballast.unlink()
    assert 0 < refused < 12
    table.upkeep.remove_orphans(older_than_ms=0, even_recent=True, grace_ms=0)
    check_all_tables(catalog)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of half a megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(place)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(
            f"a full disk needs the right to mount: {mounted.stderr.strip()}; "
            "run as root; failing calls stand for it otherwise"
        )
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _told(verb: Callable[[], object]) -> UnavailableError | None:
    try:
        verb()
    except UnavailableError as error:
        return error
    return None


def _fill(disk: Path, ballast: Path, free_bytes: int) -> None:
    there = os.statvfs(disk)
    ballast.write_bytes(bytes(max(0, there.f_bavail * there.f_frsize - free_bytes)))
