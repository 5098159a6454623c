"""Snapshot and schema files: wrong hints are not trusted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.codec.schema_json import encode_schema
from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    SchemaNotFound,
    SnapshotNotFound,
    UnsupportedError,
)
from tests.support.stores.watched_files import interrupted
from tests.support.tables.builders import content, events, new_table, rows, values_of


@pytest.fixture
def table(unchecked_catalog: Catalog) -> Table:
    """Snapshots 3, 4 and 5."""
    created = new_table(unchecked_catalog)
    for number in range(5):
        created.write(rows(created, events(number, number + 1)))
    created.upkeep.run(
        created.upkeep.plan_expire_snapshots(retain_min=3, time_retained_ms=0, grace_ms=0)
    )
    assert [each.id for each in created.history.snapshots()] == [3, 4, 5]
    return created


def hint(table: Table, name: str) -> Path:
    return Path(table.table_files.paths.root) / "snapshot" / name


@pytest.mark.parametrize("lie", ["1", "3", "4", "6", "99", "0", "-5", "", "x", " 5 ", None])
def test_the_latest_snapshot_is_found_whatever_the_hint_says(table: Table, lie: str | None) -> None:
    path = hint(table, "LATEST")
    path.unlink() if lie is None else path.write_text(lie)
    latest = table.history.latest_snapshot()
    assert latest is not None
    assert latest.id == 5
    assert values_of(table, "id") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("lie", ["1", "6", "99", "", "x", None])
def test_the_earliest_snapshot_is_found_whatever_the_hint_says(
    table: Table, lie: str | None
) -> None:
    path = hint(table, "EARLIEST")
    path.unlink() if lie is None else path.write_text(lie)
    assert table.table_files.snapshots.earliest_id() == 3


def test_a_commit_mends_a_wrong_hint(table: Table) -> None:
    hint(table, "LATEST").write_text("2")
    table.write(rows(table, events(9, 10)))
    assert hint(table, "LATEST").read_text() == "6"


def test_files_of_other_names_are_no_snapshots(table: Table) -> None:
    folder = hint(table, "x").parent
    for name in ("snapshot-7.tmp", ".snapshot-8.abc.tmp", "snapshot-", "snapshot-x", "snapshot--1"):
        (folder / name).write_text("{}")
    hint(table, "LATEST").unlink()
    assert table.table_files.snapshots.ids() == [3, 4, 5]


def test_a_latest_snapshot_that_was_away_for_a_moment_is_found(table: Table) -> None:
    """A rollback deletes it, and puts it back if it gives up."""
    path = Path(table.table_files.paths.snapshot(5))
    aside = path.with_name(".aside")
    away, took = interrupted(
        table,
        when=lambda call: call.name == "read_bytes" and call.path == str(path),
        meanwhile=lambda: path.rename(aside),
    )
    back, gave = interrupted(
        away, when=lambda call: aside.exists(), meanwhile=lambda: aside.rename(path)
    )
    assert values_of(back, "id") == [0, 1, 2, 3, 4]
    assert took.has_happened
    assert gave.has_happened


def test_a_snapshot_that_is_not_there_is_told_with_those_that_are(table: Table) -> None:
    with pytest.raises(
        SnapshotNotFound, match=r"snapshot 1 does not exist in .*; there are 3 to 5"
    ):
        table.at(snapshot=1).read()


def test_a_table_without_snapshots_is_empty(catalog: Catalog) -> None:
    table = new_table(catalog)
    assert table.history.latest_snapshot() is None
    assert table.read().num_rows == 0
    assert table.read().column_names == ["id", "day", "v"]
    assert table.history.snapshots() == ()
    assert table.at(time=0).read().num_rows == 0
    with pytest.raises(SnapshotNotFound, match="the table has none"):
        table.at(snapshot=1).read()


@pytest.mark.mission("SE25")
def test_schemas_are_put_once_and_the_highest_is_current(table: Table) -> None:
    store = table.table_files.schemas
    assert store.put_schema(replace(table.schema, id=1, comment="new")) is True
    assert store.put_schema(replace(table.schema, id=1, comment="other")) is False
    assert store.ids() == [0, 1]
    assert store.latest(table="db.t").comment == "new"
    assert store.read(0) == table.schema
    with pytest.raises(SchemaNotFound, match="schema 7 is missing"):
        store.read(7)


@pytest.mark.mission("SE22")
def test_the_latest_schema_is_found_though_the_listed_one_was_taken_back(table: Table) -> None:
    """An alter does so if a fast-forward replaced the version before."""
    schemas = table.table_files.schemas
    schemas.put_schema(replace(table.schema, id=1))
    path = Path(table.table_files.paths.schema(1))
    beside, taken_back = interrupted(
        table,
        when=lambda call: call.name == "read_bytes" and call.path == str(path),
        meanwhile=path.unlink,
    )
    assert beside.table_files.schemas.latest(table="db.t") == table.schema
    assert taken_back.has_happened


DAMAGES = {
    "snapshot/snapshot-5": (b"{", CorruptionError, "snapshot-5 is not a snapshot"),
    "schema/schema-0": (b"[]", CorruptionError, "schema-0 is not a schema"),
}


@pytest.mark.parametrize("name", list(DAMAGES))
def test_damaged_metadata_is_told_by_its_path(
    unchecked_catalog: Catalog, table: Table, name: str
) -> None:
    data, kind, words = DAMAGES[name]
    (Path(table.table_files.paths.root) / name).write_bytes(data)
    with pytest.raises(kind, match=words):
        unchecked_catalog.table("db.t").read()


@pytest.mark.parametrize(
    ("data", "why"),
    [(b'{"version": 3, "id', "Unterminated string"), (b'{"version": 3}', "cannot|lacks|is not")],
)
def test_a_damaged_snapshot_is_told_in_words_and_with_a_way_out(
    unchecked_catalog: Catalog, table: Table, data: bytes, why: str
) -> None:
    (Path(table.table_files.paths.root) / "snapshot" / "snapshot-5").write_bytes(data)
    with pytest.raises(CorruptionError, match=rf"({why}).*; restore it from a copy") as raised:
        unchecked_catalog.table("db.t").read()
    assert "Error(" not in str(raised.value)


def test_a_table_goes_on_without_a_damaged_latest_snapshot_as_the_message_says(
    unchecked_catalog: Catalog, table: Table
) -> None:
    before = content(table.at(snapshot=4))
    path = Path(table.table_files.paths.root) / "snapshot" / "snapshot-5"
    path.write_text("{")
    path.unlink()
    again = unchecked_catalog.table("db.t")
    assert content(again) == before
    again.write(rows(again, []))


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        ('"VARIANT NOT NULL"', "VARIANT NOT NULL"),
        ('{"type": "VECTOR", "element": "FLOAT", "length": 3}', "VECTOR<FLOAT, 3>"),
        ('{"type": "ARRAY", "element": "H3CELL(5)"}', "ARRAY<H3CELL(5)>"),
    ],
)
def test_a_type_of_later_stays_in_the_schema_as_it_is_and_its_column_is_not_decoded(
    unchecked_catalog: Catalog, table: Table, held: str, shown: str
) -> None:
    path = Path(table.table_files.paths.root) / "schema" / "schema-0"
    before, _, after = path.read_text().rpartition('"STRING"')
    path.write_text(before + held + after)
    opened = unchecked_catalog.table("db.t")
    (field,) = opened.schema.opaque_fields
    assert str(field.type) == shown
    written = json.loads(encode_schema(opened.schema))["fields"]
    assert written == json.loads(path.read_text())["fields"]
    with pytest.raises(UnsupportedError, match=f"column {field.name} is of type"):
        opened.read()


def test_a_schema_whose_key_is_of_a_type_of_later_is_refused_and_not_called_damaged(
    unchecked_catalog: Catalog, table: Table
) -> None:
    path = Path(table.table_files.paths.root) / "schema" / "schema-0"
    held = json.loads(path.read_text())
    held["fields"][0]["type"] = "VARIANT NOT NULL"
    held["primaryKeys"] = [held["fields"][0]["name"]]
    path.write_text(json.dumps(held))
    with pytest.raises(UnsupportedError, match=r"key .* is of type VARIANT"):
        unchecked_catalog.table("db.t")


def test_damaged_and_missing_manifests_and_data_are_told_apart(table: Table) -> None:
    root = Path(table.table_files.paths.root)
    latest = table.history.latest_snapshot()
    assert latest is not None
    (entry, *_) = table.at().files()
    data = Path(table.table_files.data_file_path(entry.place, entry.file))
    kept = data.read_bytes()
    data.write_bytes(kept[: len(kept) // 2])
    with pytest.raises(CorruptionError, match="cannot be read"):
        table.read()
    data.unlink()
    with pytest.raises(
        FileMissing,
        match=r"though snapshot \d+ of db\.t names it, .*roll back to the last snapshot",
    ):
        table.read()
    data.write_bytes(kept)
    delta = root / "manifest" / latest.delta_manifest_list
    content = delta.read_bytes()
    delta.write_bytes(content[:-20])
    with pytest.raises(CorruptionError, match="bytes where its snapshot says"):
        table.read()
    delta.unlink()
    with pytest.raises(CorruptionError, match="is missing though a snapshot names it"):
        table.read()


def test_a_data_file_with_other_rows_than_its_manifest_says_is_told(table: Table) -> None:
    first, second = list(table.at().files())[:2]
    paths = [
        Path(table.table_files.data_file_path(each.place, each.file)) for each in (first, second)
    ]
    table.write(rows(table, events(20, 25)))
    *_, larger = table.at().files()
    target = Path(table.table_files.data_file_path(larger.place, larger.file))
    paths[0].write_bytes(target.read_bytes())
    with pytest.raises(CorruptionError, match="holds 5 rows, its manifest says 1"):
        table.read()
