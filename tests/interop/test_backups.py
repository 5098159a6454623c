"""Backups: a copy made in any order, while writers and upkeep run, is the table of its tag."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.errors import (
    AlreadyExistsError,
    CorruptionError,
    TagNotFound,
    UnsupportedError,
)
from tests.oracles.arrow_values import canonical_rows
from tests.oracles.client import LatestJavaOracle
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    remove_orphans,
    rows,
)
from tests.support.tables.invariants import assert_sound

KINDS: dict[str, dict[str, Any]] = {
    "append": {"partitions": ("day",)},
    "keyed": {"partitions": ("day",), "keys": ("day", "id"), "options": {"bucket": "2"}},
    "deletion vectors": {
        "keys": ("id",),
        "options": {"bucket": "1", "deletion-vectors.enabled": "true"},
    },
    "changelog": {"keys": ("id",), "options": {"bucket": "1", "changelog-producer": "input"}},
}


def busy(table: Table, done: Event) -> None:
    """Write and keep a table until the event comes."""
    first = 100
    while not done.is_set():
        table.write(rows(table, events(first, first + 3)))
        first += 2
        compact(table.refresh(), full=True)
        expire(table)
        remove_orphans(table, age_ms=60_000)


def copied(table: Table, tag: str, to: Path, chosen: random.Random) -> Catalog:
    """A copy of the listed files, in any order, in which some were copied in part at first."""
    found = list(table.history.backup_files(tag))
    chosen.shuffle(found)
    root = Path(table.table_files.paths.root)
    below = to / "db.db" / root.name
    for file in found:
        target = below / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"cut off" if chosen.random() < 0.2 else b"")
        shutil.copyfile(root / file.path, target)
    return Catalog.open(str(to))


@pytest.mark.interop
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_made_while_others_write_is_the_table_of_its_tag(
    kind: str, unchecked_catalog: Catalog, java_latest: LatestJavaOracle, tmp_path: Path
) -> None:
    table = new_table(unchecked_catalog, **KINDS[kind])
    for first in range(0, 12, 3):
        table.write(rows(table, events(first, first + 5)))
    table = table.alter(AddColumn("late", "INT"))
    compact(table, full=True)
    table.write(rows(table, events(2, 6, v="new")))
    table.history.create_tag("monday")
    wanted = canonical_rows(table.at(tag="monday").read())
    done = Event()
    writer = Thread(target=busy, args=(table, done))
    writer.start()
    try:
        copy = copied(table, "monday", tmp_path / "copy", random.Random(kind))
    finally:
        done.set()
        writer.join()
    there = copy.table("db.t")
    there.history.check_backup("monday")
    there.history.restore_backup("monday")
    restored = copy.table("db.t")
    assert sorted(map(str, canonical_rows(restored.read()))) == sorted(map(str, wanted))
    by_java = java_latest.read(copy.root, "db.t")
    assert sorted(map(str, by_java)) == sorted(map(str, wanted))
    # It is a table like any other.
    restored.write([{**row, "late": 1} for row in events(50, 52)])
    compact(restored, full=True)
    assert_sound(restored)
    with pytest.raises(AlreadyExistsError, match="has snapshot"):
        restored.history.restore_backup("monday")


def test_a_copy_that_lacks_files_is_not_restored(catalog: Catalog, tmp_path: Path) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    with pytest.raises(TagNotFound, match="has no tag monday"):
        table.history.backup_files("monday")
    table.history.create_tag("monday")
    copy = copied(table, "monday", tmp_path / "copy", random.Random(0))
    data = next(Path(copy.root).rglob("data-*"))
    whole = data.read_bytes()
    there = copy.table("db.t")
    for damage in (lambda: data.write_bytes(whole[:-1]), data.unlink):
        damage()
        with pytest.raises(CorruptionError, match=r"1 of the \d+ files of tag monday .* again"):
            there.history.restore_backup("monday")
        assert there.history.latest_snapshot() is None
    data.write_bytes(whole)
    there.history.restore_backup("monday")
    assert copy.table("db.t").read().num_rows == 3


@pytest.mark.parametrize("keyed", [False, True])
def test_a_tag_from_before_the_keys_changed_is_restored_with_its_own(
    unchecked_catalog: Catalog, tmp_path: Path, keyed: bool
) -> None:
    table = new_table(
        unchecked_catalog,
        {"id": "BIGINT NOT NULL", "day": "STRING NOT NULL", "v": "STRING"},
        partitions=["day"] if keyed else (),
        keys=["id", "day"] if keyed else (),
        options={"bucket": "1" if keyed else "-1"},
    )
    table.write(rows(table, events(0, 3)))
    table.history.create_tag("monday")
    wanted = content(table)
    if keyed:
        table.upkeep.run(table.upkeep.plan_respec(keys=[]))
    else:
        table.upkeep.run(table.upkeep.plan_add_primary_key(keys=["id"]))
    table = unchecked_catalog.table("db.t")
    copy = copied(table, "monday", tmp_path / "copy", random.Random(0))
    copy.table("db.t").history.restore_backup("monday")
    restored = copy.table("db.t")
    assert content(restored) == wanted
    restored.write(rows(restored, events(3, 6)))
    assert len(content(restored)) == 6
    assert_sound(restored)
    # A copy of the whole folder has the schema of the other keys as well.
    whole = tmp_path / "whole"
    shutil.copytree(unchecked_catalog.root.removeprefix("file://"), whole)
    folder = next(whole.rglob("snapshot"))
    shutil.rmtree(folder)
    there = Catalog.open(str(whole)).table("db.t")
    with pytest.raises(UnsupportedError, match="delete the schemas after 0 from this copy"):
        there.history.restore_backup("monday")
