"""Flushes to a local disk: which process flushes which files, and how to turn flushing off."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path

import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError, UnavailableError
from lakewright.storage.files.durability import folders_to
from lakewright.storage.files.local_files import LocalFiles
from tests.support.stores.disks import LOSSES, FailingDisk, LossyDisk, heard
from tests.support.tables.builders import content, events, expire, new_table, rows
from tests.support.tables.environment import FixedEnv

FLUSHES = ("fsync", "syncfs")
losses = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


def after_power_loss(disk: LossyDisk, loss: object, folder: Path) -> Catalog:
    left = disk.after(loss)  # type: ignore[arg-type]
    for path in left.folders:
        (folder / path).mkdir(parents=True, exist_ok=True)
    for path, data in left.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return Catalog.open(str(folder), env=FixedEnv())


@pytest.fixture(autouse=True)
def _flushing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warehouses flush here, whatever the other tests do."""
    monkeypatch.setenv("LAKEWRIGHT_DURABLE", "true")


@losses
def test_a_committer_flushes_what_others_have_staged(tmp_path: Path, loss: object) -> None:
    disk = LossyDisk(str(tmp_path / "disk"))
    (tmp_path / "disk").mkdir()
    with disk.under():
        # A task never flushes.
        tasks = Catalog.open(disk.root, env=FixedEnv(), durable=False)
        committer = Catalog.open(disk.root, env=FixedEnv())
        table = new_table(committer, partitions=("day",))
        staged = tasks.table("db.t").stage(rows(table, events(0, 4, day="a")))
        table.commit(pickle.loads(pickle.dumps(staged)))
        there = after_power_loss(disk, loss, tmp_path / "after")
    assert len(content(there.table("db.t"))) == 4


@losses
def test_a_batch_that_is_kept_outlives_a_power_loss_and_is_committed_then(
    tmp_path: Path, loss: object
) -> None:
    disk = LossyDisk(str(tmp_path / "disk"))
    (tmp_path / "disk").mkdir()
    with disk.under():
        table = new_table(Catalog.open(disk.root, env=FixedEnv()), partitions=("day",))
        new = rows(table, events(0, 4, day="a"))
        table.keep_pending(table.stage(new, commit_user="job", commit_identifier=1))
        there = after_power_loss(disk, loss, tmp_path / "after")
    there.table("db.t").commit_pending("job")
    assert len(content(there.table("db.t"))) == 4


@losses
def test_an_expiry_takes_nothing_for_the_sake_of_a_snapshot_that_was_not_flushed(
    tmp_path: Path, loss: object
) -> None:
    disk = LossyDisk(str(tmp_path / "disk"))
    (tmp_path / "disk").mkdir()
    with disk.under():
        # As other clients write, of whom most flush nothing.
        careless = Catalog.open(disk.root, env=FixedEnv(), durable=False)
        table = new_table(careless)
        for number in range(3):
            table.write(rows(table, events(number, number + 1)))
        expire(Catalog.open(disk.root, env=FixedEnv()).table("db.t"), keep=1)
        there = after_power_loss(disk, loss, tmp_path / "after")
    assert len(content(there.table("db.t"))) == 3


def test_a_table_whose_writer_flushes_nothing_is_lost_with_the_power(tmp_path: Path) -> None:
    disk = LossyDisk(str(tmp_path / "disk"))
    (tmp_path / "disk").mkdir()
    with disk.under():
        table = new_table(Catalog.open(disk.root, env=FixedEnv(), durable=False))
        table.write(rows(table, events(0, 4)))
        there = after_power_loss(disk, LOSSES[0], tmp_path / "after")
    assert there.list_databases() == ()


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_a_writer_that_is_told_so_flushes_nothing(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "variable":
        monkeypatch.setenv("LAKEWRIGHT_DURABLE", "false")
    catalog = Catalog.open(str(tmp_path), durable=False if how == "argument" else None)
    calls: list[str] = []
    with heard(lambda name, path: calls.append(name)):
        table = new_table(pickle.loads(pickle.dumps(catalog)))
        table.write(rows(table, events(0, 4)))
        table.history.create_tag("first")
        table.history.run(table.history.plan_delete_tags("first", grace_ms=0))
    assert "link" in calls
    assert not {*calls} & {*FLUSHES}


def test_a_variable_that_says_neither_yes_nor_no_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWRIGHT_DURABLE", "maybe")
    with pytest.raises(InvalidRequestError, match="'maybe' is neither true nor false"):
        Catalog.open(str(tmp_path))


def test_many_files_are_flushed_together_and_each_is_asked_for_its_failure(tmp_path: Path) -> None:
    fs = LocalFiles()
    paths = [f"{tmp_path}/f{number}" for number in range(200)]
    for path in paths:
        fs.write_bytes(path, b"1")
    calls: list[tuple[str, str]] = []
    with heard(lambda name, path: calls.append((name, path))):
        fs.make_durable(paths)
    assert [name for name, _ in calls].count("syncfs") == 1
    assert {path for name, path in calls if name == "fsync"} == {*paths, str(tmp_path)}
    disk = FailingDisk(errno.EIO, lambda name, path: path == paths[77], fail_at=1)
    with disk.under(), pytest.raises(UnavailableError, match="its disk failed"):
        fs.make_durable(paths)


def test_a_file_system_that_cannot_flush_folders_is_written_to(tmp_path: Path) -> None:
    disk = FailingDisk(
        errno.EINVAL,
        lambda name, path: name == "fsync" and Path(path).is_dir(),
        fail_at=1,
        for_good=True,
    )
    with disk.under():
        assert LocalFiles().put_if_absent(f"{tmp_path}/a/b", b"1")
    assert disk.failed is not None


def test_what_is_gone_is_no_reason_to_fail(tmp_path: Path) -> None:
    LocalFiles().make_durable([f"{tmp_path}/gone/with/its/folder"], below=str(tmp_path))
    LocalFiles().make_all_durable(f"{tmp_path}/gone/with/its/folder")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.EIO, errno.EROFS])
def test_what_a_disk_says_is_told_with_what_it_means(tmp_path: Path, code: int) -> None:
    disk = FailingDisk(code, lambda name, path: name == "open", fail_at=1)
    with disk.under(), pytest.raises(UnavailableError) as told:
        LocalFiles().write_bytes(f"{tmp_path}/file", b"1")
    assert f"{tmp_path}/file cannot be reached: " in told.value.message
    assert "; " in told.value.message


@pytest.mark.parametrize("below", ["/w/t", "/w/t/"])
def test_folders_are_flushed_up_to_the_one_that_is_named(below: str) -> None:
    assert folders_to("/w/t/b/f", below) == ["/w/t/b", "/w/t"]
    assert folders_to("/x/b/f", below) == ["/x/b"]
    assert folders_to("/w/f", "/") == ["/w", "/"]
