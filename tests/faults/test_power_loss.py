"""A power loss at every call of every verb: what was not flushed is lost, no row is."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from tests.faults.local_trials import folder_as_long, in_memory, laid_out
from tests.faults.test_every_call import cases_that_move, trial_of
from tests.faults.trials import READS, _tables, opened
from tests.faults.verbs import Case, Place
from tests.support.stores.disks import LOSSES, RANDOM_LOSSES, LossyDisk
from tests.support.tables.builders import compact, content, events, expire, new_table, rows
from tests.support.tables.fixtures import empty_memory
from tests.support.tables.invariants import assert_nothing_missing
from tests.support.tally import tally


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    empty_memory()


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_as_long() as made:
        yield made


@pytest.mark.sampled(24)
@cases_that_move
def test_what_a_verb_did_outlives_a_power_loss_once_it_has_returned(
    case: Case, kind: str, folder: Path
) -> None:
    trial = trial_of(case, kind)
    disk = LossyDisk(str(folder))
    catalog = laid_out(trial, folder)
    with disk.under():
        case.verb(Place(catalog, trial.ready))
        lost = {
            loss.name: in_memory(disk.after(loss), folder) for loss in (*LOSSES, *RANDOM_LOSSES)
        }
    for name, left in lost.items():
        assert trial.seen_in(left) == trial.after, name
        left.restore()
        for table in _tables(opened(READS)):
            assert_nothing_missing(table)
    tally("power losses after a verb", len(lost))


@pytest.mark.sampled(14)
@cases_that_move
def test_a_power_loss_amid_a_verb_leaves_the_table_as_it_was_or_as_it_is_to_be(
    case: Case, kind: str, folder: Path
) -> None:
    trial = trial_of(case, kind)
    count = 0

    def look(name: str, path: str) -> None:
        nonlocal count
        for loss in (*LOSSES, *RANDOM_LOSSES[:1]):
            count += 1
            left = in_memory(disk.after(loss), folder)
            try:
                trial.check_whole(trial.seen_in(left))
            except Exception as error:
                at = path.removeprefix(str(folder))
                error.add_note(f"{case.name}: {loss.name} before {name} of {at}")
                raise

    disk = LossyDisk(str(folder), look)
    catalog = laid_out(trial, folder)
    with disk.under():
        case.verb(Place(catalog, trial.ready))
    tally("power losses during a verb", count)


@pytest.mark.deep
def test_on_a_copy_of_an_ext4_image_every_row_is_there(ext4: Ext4) -> None:
    """What the image holds is what the disk has: the copy is made without a flush of ours."""
    table = new_table(Catalog.open(str(ext4.mounted / "warehouse")), partitions=("day",))
    for day in "aab":
        table.write(rows(table, events(0, 50, day=day)))
        ext4.check(table)
    compact(table, full=True)
    ext4.check(table)
    expire(table, keep=1)
    ext4.check(table)
    table.history.create_tag("now")
    table.write(rows(table, events(0, 5, day="c")), mode="overwrite", partition={"day": "c"})
    ext4.check(table)
    table.history.run(table.history.plan_rollback(tag="now", grace_ms=0))
    ext4.check(table)


@dataclass(frozen=True)
class Ext4:
    """An ext4 file system in a file, and where a copy of it is mounted."""

    image: Path
    mounted: Path
    copy: Path

    def check(self, table: Table) -> None:
        """Hold what a copy of the image has against the table."""
        copied = self.image.with_name("copied-image")
        shutil.copyfile(self.image, copied)
        _mount(copied, self.copy)
        try:
            there = Catalog.open(str(self.copy / "warehouse")).table(table.name)
            assert content(there) == content(table)
            assert [each.id for each in there.history.snapshots()] == [
                each.id for each in table.history.snapshots()
            ]
            assert_nothing_missing(there)
        finally:
            subprocess.run(["umount", str(self.copy)], check=True)


@pytest.fixture
def ext4(tmp_path: Path) -> Iterator[Ext4]:
    made = Ext4(tmp_path / "image", tmp_path / "mounted", tmp_path / "copy")
    made.mounted.mkdir()
    made.copy.mkdir()
    if shutil.which("mkfs.ext4") is None:
        pytest.skip(
            "a real journal needs mkfs.ext4 of e2fsprogs, which is not installed; the model of a "
            "disk in this file stands for it otherwise"
        )
    with made.image.open("wb") as image:
        image.truncate(96 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(made.image)], check=True)
    _mount(made.image, made.mounted)
    try:
        yield made
    finally:
        subprocess.run(["umount", str(made.mounted)], check=True)


def _mount(image: Path, place: Path) -> None:
    how = ["mount", "-o", "loop", str(image), str(place)]
    mounted = subprocess.run(how, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(
            f"a real journal needs the right to mount: {mounted.stderr.strip()}; "
            "run as root; the model of a disk in this file stands for it otherwise"
        )
