"""A metastore that moves the folder of a table whose partition keys changed before.

What a real one does is tried in `tests/stores/test_hive_catalog.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.catalog_places import Places
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.hive_names import HiveNames
from tests.support.stores.watched_files import Call, Crashed, WatchedFiles
from tests.support.tables.builders import compact, content, expire, new_table, remove_orphans, rows
from tests.support.tables.deleted_rows import delete_first_rows
from tests.support.tables.invariants import assert_only_reachable_files

COLUMNS = {"dt": "STRING", "hh": "INT", "v": "INT"}


@dataclass(frozen=True)
class MovingNames(HiveNames):
    """Names that are folders, and move with them, as those of managed tables do."""

    fs: FileSystem = field(kw_only=True)

    def has_table(self, database: str, table: str) -> bool:
        return (Path(self.root) / f"{database}.db" / table / "schema").exists()

    def place(self, database: str, table: str) -> tuple[FileSystem, str]:
        return self.fs, f"{self.root}/{database}.db/{table}"

    def keeps_files(self, database: str, table: str) -> bool:
        return False

    def schema_registry(self, database: str, table: str) -> None:
        return None

    def rename_table(self, database: str, table: str, to_database: str, to_table: str) -> None:
        place = Path(self.place(to_database, to_table)[1])
        place.parent.mkdir(exist_ok=True)
        Path(self.place(database, table)[1]).rename(place)


def rename(catalog: Catalog, name: str, to: str) -> Table:
    none = cast(Any, None)
    names = MovingNames(none, none, catalog.root, fs=catalog.fs)
    Places(catalog.fs, catalog.root, names).rename(names, name, to, catalog.env, None)
    return catalog.table(to)


def given(table: Table) -> None:
    table.write(rows(table, [{"dt": d, "hh": h, "v": 10 * h} for d in "ab" for h in (1, 2)]))


def with_other_keys(catalog: Catalog, keys: Sequence[str] = ("hh",), **options: str) -> Table:
    table = new_table(catalog, COLUMNS, partitions=["dt"], options=options)
    given(table)
    table.upkeep.respec(keys)
    return catalog.table("db.t")


def leave_no_orphans(table: Table) -> None:
    """What lies at places that snapshots of before the rename named goes when no manifest does."""
    expire(table)
    table.upkeep.rewrite_manifests()
    expire(table)
    remove_orphans(table)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("vectors", ["false", "true"])
@pytest.mark.parametrize("keys", [("dt", "hh"), ("hh",), ()], ids=str)
def test_a_table_is_renamed_once_its_files_are_home_and_those_of_each_branch(
    catalog: Catalog, keys: Sequence[str], vectors: str
) -> None:
    table = with_other_keys(catalog, keys, **{"deletion-vectors.enabled": vectors})
    if vectors == "true":
        delete_first_rows(table)
    side = table.history.create_branch("side", snapshot=table.history.snapshots()[-1].id)
    side.write(rows(side, [{"dt": "side", "hh": 7, "v": 7}]))
    due = content(table), content(side)
    for each in (table, side):
        with pytest.raises(UnsupportedError, match=rf"lakewright settle '{re.escape(each.name)}'"):
            rename(catalog, "db.t", "other.u")
        each.upkeep.settle()
        expire(each)
    renamed = rename(catalog, "db.t", "other.u")
    side = renamed.history.at_branch("side")
    assert (content(renamed), content(side)) == due
    given(renamed)
    compact(renamed, full=True)
    for each in (renamed, side):
        expire(each)
    remove_orphans(renamed)
    assert_only_reachable_files(renamed)
    assert len(content(renamed)) == len(due[0]) + 4
    assert content(side) == due[1]


def test_a_table_without_such_files_is_renamed_with_its_tags_and_no_snapshot(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, COLUMNS, partitions=["dt"])
    given(table)
    table.history.create_tag("kept")
    renamed = rename(catalog, "db.t", "db.u")
    assert [each.id for each in renamed.history.snapshots()] == [1]
    assert len(content(renamed.at(tag="kept"))) == 4


def test_a_tag_that_names_files_by_their_places_keeps_the_name_of_its_table(
    catalog: Catalog,
) -> None:
    table = with_other_keys(catalog)
    table.history.create_tag("first", snapshot=1)
    table.history.create_tag("second")
    table.upkeep.settle()
    with pytest.raises(UnsupportedError, match=r"1 tags of db\.t \(second\) .* tag delete 'db\.t'"):
        rename(catalog, "db.t", "db.u")
    assert content(catalog.table("db.t").at(tag="second")) == content(table)
    table.history.delete_tags("second", grace_ms=0)
    renamed = rename(catalog, "db.t", "db.u")
    # Files of before the change lie in the folders of their partitions, and are found there.
    assert content(renamed.at(tag="first")) == content(renamed)
    # Snapshots of before name the former place, and can be expired.
    leave_no_orphans(renamed)


def test_a_table_whose_keys_are_changing_keeps_its_name(catalog: Catalog) -> None:
    table = with_other_keys(catalog)

    def die(call: Call) -> None:
        if call.changes and "/schema/schema-" in call.path:
            raise Crashed

    watched = replace(catalog, fs=WatchedFiles(catalog.fs, before=die))
    with pytest.raises(Crashed):
        watched.table("db.t").upkeep.respec(["hh", "dt"])
    with pytest.raises(UnsupportedError, match=r"lakewright respec 'db\.t' --keys 'hh'"):
        rename(catalog, "db.t", "db.u")
    table.upkeep.respec(["hh"])
    table.upkeep.settle()
    due = content(table)
    renamed = rename(catalog, "db.t", "db.u")
    assert content(renamed) == due
    leave_no_orphans(renamed)
