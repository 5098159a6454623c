"""Metadata that contradicts its own name is named, and no verb goes round in circles over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.env import FileStatus, FileSystem
from lakewright.storage.errors import CorruptionError, UnavailableError
from tests.support.tables.builders import compact, content, events, expire, remove_orphans, rows
from tests.support.tables.foreign_metadata import change_json, root_of, table_of_everything

VERBS: dict[str, Callable[[Table], object]] = {
    "read": lambda table: table.read(),
    "write": lambda table: table.write(rows(table, events(3, 4))),
    "compact": lambda table: compact(table, full=True),
    "expire": expire,
    "remove orphans": remove_orphans,
    "roll back": lambda table: table.history.run(
        table.history.plan_rollback(snapshot=1, grace_ms=0)
    ),
    "snapshots": lambda table: table.history.snapshots(),
    "tag": lambda table: table.history.create_tag("new"),
    "analyze": lambda table: table.upkeep.run(table.upkeep.plan_analyze()),
}


@pytest.fixture
def table(unchecked_catalog: Catalog) -> Table:
    made = table_of_everything(unchecked_catalog)
    made.history.delete_consumer("reader")
    return made


@pytest.mark.parametrize("verb", list(VERBS))
def test_a_snapshot_that_says_it_is_another_is_named_by_every_verb(table: Table, verb: str) -> None:
    path = root_of(table) / "snapshot/snapshot-9"
    before = sorted(root_of(table).rglob("data-*"))
    change_json(path, lambda data: data.update(id=5))
    with pytest.raises(CorruptionError, match=r"snapshot-9 holds the id 5") as told:
        VERBS[verb](table)
    assert told.value.details["path"] == str(path)
    left = sorted(root_of(table).rglob("data-*"))
    assert set(before) <= set(left)


@pytest.mark.parametrize("file", ["snapshot/snapshot-4", "branch/branch-side/snapshot/snapshot-3"])
def test_nothing_is_deleted_beside_a_snapshot_that_says_it_is_another(
    table: Table, file: str
) -> None:
    change_json(root_of(table) / file, lambda data: data.update(id=1_000))
    before = sorted(root_of(table).rglob("*"))
    for verb in (expire, remove_orphans):
        with pytest.raises(CorruptionError, match="holds the id 1000"):
            verb(table)
    assert {each for each in before if each.is_file()} <= set(root_of(table).rglob("*"))
    assert content(table)


def test_a_schema_that_says_it_is_another_is_named(
    table: Table, unchecked_catalog: Catalog
) -> None:
    change_json(root_of(table) / "schema/schema-0", lambda data: data.update(id=4))
    with pytest.raises(CorruptionError, match="schema-0 holds the id 4"):
        unchecked_catalog.table("db.t")


def test_a_changelog_that_says_it_is_another_is_named(table: Table) -> None:
    expire(table, keep=1)
    (first, *_) = sorted(root_of(table).glob("changelog/changelog-*"))
    change_json(first, lambda data: data.update(id=77))
    with pytest.raises(CorruptionError, match=f"{first.name} holds the id 77"):
        table.history.changelogs()


@pytest.mark.parametrize(
    "hint", [b"9" * 5_000, b"99", b"-1", b"0", b"007", "٣".encode(), b"\xff", b"", b"1 2", b"1e3"]
)
@pytest.mark.parametrize("which", ["LATEST", "EARLIEST"])
@pytest.mark.sampled(6)
def test_a_hint_that_is_junk_or_points_beyond_is_not_believed(
    table: Table, which: str, hint: bytes
) -> None:
    was = content(table)
    (root_of(table) / "snapshot" / which).write_bytes(hint)
    assert content(table) == was
    table.write(rows(table, events(5, 6)))
    assert table.table_files.snapshots.latest_id() == 10
    # With deletion vectors rows are seen once they are compacted.
    compact(table)
    expire(table)
    remove_orphans(table)
    assert len(content(table)) == len(was) + 1


@pytest.mark.parametrize("number", ["007", "٣", "9" * 30, "-1"])
def test_a_file_whose_number_is_spelled_in_another_way_is_none(table: Table, number: str) -> None:
    was, held = content(table), table.upkeep.leases()
    root = root_of(table)
    for path in ("snapshot/snapshot-", "schema/schema-", ".lakewright/leases/book-"):
        copied = Path(root, f"{path}{number}")
        copied.parent.mkdir(parents=True, exist_ok=True)
        if not copied.exists():
            copied.write_bytes(b"{}")
    assert content(table) == was
    assert table.table_files.snapshots.latest_id() == 9
    assert table.upkeep.leases() == held
    compact(table)
    remove_orphans(table)


class Ghosts:
    """A store that lists a book of leases which it does not have."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def list_dir(self, path: str) -> list[FileStatus]:
        listed = self._fs.list_dir(path)
        return [*listed, FileStatus(f"{path}/book-7", 2, 0)] if path.endswith("/leases") else listed


def test_a_store_that_lists_what_it_does_not_have_is_told_after_a_while(table: Table) -> None:
    haunted = Table(replace(table.table_files, fs=cast("FileSystem", Ghosts(table.table_files.fs))))
    with pytest.raises(UnavailableError, match="other processes changed the leases"):
        haunted.upkeep.leases()
