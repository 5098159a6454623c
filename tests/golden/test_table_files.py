"""The metadata files of one table, kept beside: read as they were meant, written as they were.

Avro files begin with a random marker, and sizes of Parquet files change with its version, so what
is compared is the records of files and their declared schema.
"""

from __future__ import annotations

import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakewright.storage.codec.binary_row import decode_row
from lakewright.storage.codec.manifest_avro import (
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
)
from lakewright.storage.codec.schema_json import decode_schema, encode_schema
from lakewright.storage.codec.snapshot_json import decode_snapshot, encode_snapshot
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spec.manifest import FileKind, FileSource
from lakewright.storage.spec.snapshot import CommitKind
from tests.golden.make_table import TABLE, make, metadata_files

FILES = metadata_files(TABLE)
MANIFESTS = [n for n in FILES if n.startswith("manifest/manifest-") and "list" not in n]
LISTS = [n for n in FILES if n.startswith("manifest/manifest-list-")]
SNAPSHOTS = [n for n in FILES if n.startswith("snapshot/snapshot-")]

STATS = ["_MIN_VALUES", "_MAX_VALUES", "_NULL_COUNTS"]
LIST_FIELDS = [
    "_VERSION",
    "_FILE_NAME",
    "_FILE_SIZE",
    "_NUM_ADDED_FILES",
    "_NUM_DELETED_FILES",
    "_PARTITION_STATS",
    "_SCHEMA_ID",
    "_MIN_BUCKET",
    "_MAX_BUCKET",
    "_MIN_LEVEL",
    "_MAX_LEVEL",
]
ENTRY_FIELDS = ["_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS", "_FILE"]
FILE_FIELDS = {
    "_FILE_NAME": "string",
    "_FILE_SIZE": "long",
    "_ROW_COUNT": "long",
    "_MIN_KEY": "bytes",
    "_MAX_KEY": "bytes",
    "_KEY_STATS": STATS,
    "_VALUE_STATS": STATS,
    "_MIN_SEQUENCE_NUMBER": "long",
    "_MAX_SEQUENCE_NUMBER": "long",
    "_SCHEMA_ID": "long",
    "_LEVEL": "int",
    "_EXTRA_FILES": "array",
    "_CREATION_TIME": "long?",
    "_DELETE_ROW_COUNT": "long?",
    "_EMBEDDED_FILE_INDEX": "bytes?",
    "_FILE_SOURCE": "int?",
    "_VALUE_STATS_COLS": "array?",
    "_EXTERNAL_PATH": "string?",
    "_FIRST_ROW_ID": "long?",
    "_WRITE_COLS": "array?",
}


def avro_schema(data: bytes) -> Any:
    return json.loads(fastavro.reader(BytesIO(data)).metadata["avro.schema"])


def records(data: bytes) -> list[Any]:
    return list(fastavro.reader(BytesIO(data)))


def kind_of(declared: Any) -> Any:
    """An Avro type in short: records as their field names, nullable ones with a question mark."""
    if isinstance(declared, list):
        assert declared[0] == "null"
        return f"{kind_of(declared[1])}?"
    if isinstance(declared, dict):
        if declared["type"] == "record":
            return [field["name"] for field in declared["fields"]]
        return kind_of(declared["type"])
    return declared


@pytest.mark.mission("SE34", "FS10")
def test_a_manifest_declares_its_fields_by_the_names_and_in_the_order_of_the_format() -> None:
    for name in MANIFESTS:
        declared = avro_schema(FILES[name])
        assert [field["name"] for field in declared["fields"]] == ENTRY_FIELDS
        (file,) = [field for field in declared["fields"] if field["name"] == "_FILE"]
        found = {field["name"]: kind_of(field["type"]) for field in file["type"]["fields"]}
        assert found == FILE_FIELDS
        assert list(found) == list(FILE_FIELDS)
        # A field that may be null says so by its default, or older readers stumble.
        for field in file["type"]["fields"]:
            assert ("default" in field) == isinstance(field["type"], list)


def test_a_manifest_list_declares_its_fields_likewise() -> None:
    for name in LISTS:
        declared = avro_schema(FILES[name])
        assert [field["name"] for field in declared["fields"]] == LIST_FIELDS


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_written_again_as_it_was(name: str) -> None:
    entries = list(decode_manifest(FILES[name], name=name))
    again = encode_manifest(entries, compression="null")
    assert records(again) == records(FILES[name])
    assert avro_schema(again) == avro_schema(FILES[name])
    assert len(again) == len(FILES[name])


@pytest.mark.parametrize("name", LISTS)
def test_a_manifest_list_is_written_again_as_it_was(name: str) -> None:
    again = encode_manifest_list(decode_manifest_list(FILES[name], name=name), compression="null")
    assert records(again) == records(FILES[name])
    assert avro_schema(again) == avro_schema(FILES[name])


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_snapshot_is_written_again_byte_by_byte(name: str) -> None:
    assert encode_snapshot(decode_snapshot(FILES[name], name=name)) == FILES[name]


@pytest.mark.mission("SE29", "SE32", "SE42")
def test_a_schema_is_written_again_byte_by_byte() -> None:
    data = FILES["schema/schema-0"]
    schema = decode_schema(data, name="schema-0")
    assert encode_schema(schema) == data
    assert [field.id for field in schema.fields] == [0, 1, 2, 3, 4, 5]
    # Members of the row take ids too.
    assert schema.highest_field_id == 7
    assert schema.trimmed_primary_keys == ("id",)


def test_the_files_tell_the_story_of_the_table() -> None:
    snapshots = [decode_snapshot(FILES[name], name=name) for name in SNAPSHOTS]
    assert [each.commit_kind for each in snapshots] == [
        CommitKind.APPEND,
        CommitKind.APPEND,
        CommitKind.COMPACT,
        CommitKind.APPEND,
    ]
    assert [each.total_record_count for each in snapshots] == [8, 10, 6, 7]
    assert [each.delta_record_count for each in snapshots] == [8, 2, -4, 1]
    assert (FILES["snapshot/EARLIEST"], FILES["snapshot/LATEST"]) == (b"1", b"4")


def test_a_compaction_removes_before_it_adds_and_moves_rows_to_the_top_level() -> None:
    snapshot = decode_snapshot(FILES["snapshot/snapshot-3"], name="snapshot-3")
    (meta,) = decode_manifest_list(FILES[f"manifest/{snapshot.delta_manifest_list}"], name="delta")
    entries = list(decode_manifest(FILES[f"manifest/{meta.file_name}"], name=meta.file_name))
    removed = [each for each in entries if each.kind is FileKind.DELETE]
    added = [each for each in entries if each.kind is FileKind.ADD]
    assert (meta.num_added_files, meta.num_deleted_files) == (len(added), len(removed))
    assert {each.file.level for each in removed} == {0}
    assert {each.file.level for each in added} == {5}
    # A file that meets no other keeps its bytes, its name, and how it came to be.
    before = {each.file.file_name: each.file for each in removed}
    moved = [each.file for each in added if each.file.file_name in before]
    assert moved
    assert all(replace(file, level=0) == before[file.file_name] for file in moved)
    written = [each.file for each in added if each.file.file_name not in before]
    assert {file.file_source for file in written} == {FileSource.COMPACT}
    assert all(each.file.delete_row_count == 0 for each in added)
    assert all(each.total_buckets == 2 for each in entries)


def test_statistics_bound_keys_and_values_of_a_file() -> None:
    schema = decode_schema(FILES["schema/schema-0"], name="schema-0")
    snapshot = decode_snapshot(FILES["snapshot/snapshot-1"], name="snapshot-1")
    (meta,) = decode_manifest_list(FILES[f"manifest/{snapshot.delta_manifest_list}"], name="delta")
    types = [field.type for field in schema.fields]
    bigint = [types[0]]
    for entry in decode_manifest(FILES[f"manifest/{meta.file_name}"], name=meta.file_name):
        file = entry.file
        (low,), (high,) = decode_row(file.min_key, bigint), decode_row(file.max_key, bigint)
        assert decode_row(file.key_stats.min_values, bigint) == (low,)
        assert decode_row(file.key_stats.max_values, bigint) == (high,)
        (day,) = decode_row(entry.partition, [types[1]])
        smallest = decode_row(file.value_stats.min_values, types)
        largest = decode_row(file.value_stats.max_values, types)
        # Text is cut to sixteen characters; nested columns have no bounds.
        assert smallest == (low, day, None, "a rather long no", None, None)
        assert largest == (high, day, None, "a rather long np", None, None)
        rows = file.row_count
        assert file.value_stats.null_counts == (0, 0, rows, 0, rows, rows)
        assert file.value_stats_cols is None


def without_sizes(value: Any) -> Any:
    if isinstance(value, list):
        return [without_sizes(each) for each in value]
    if isinstance(value, dict):
        return {
            key: without_sizes(each)
            for key, each in value.items()
            if not key.lower().endswith("size")
        }
    return value


def comparable(name: str, data: bytes) -> Any:
    if name.startswith("manifest/"):
        return without_sizes(records(data))
    return without_sizes(json.loads(data))


def test_making_the_table_anew_gives_the_same_files(tmp_path: Path) -> None:
    make(str(tmp_path))
    fresh = metadata_files(tmp_path / "db.db" / "t")
    assert set(fresh) == set(FILES)
    for name, data in fresh.items():
        assert comparable(name, data) == comparable(name, FILES[name]), name


@pytest.mark.mission("SE42")
def test_files_of_a_later_version_are_refused_by_name() -> None:
    schema = json.loads(FILES["schema/schema-0"]) | {"version": 4}
    with pytest.raises(UnsupportedError, match="schema-0 is of version 4"):
        decode_schema(json.dumps(schema).encode(), name="schema-0")
    snapshot = json.loads(FILES["snapshot/snapshot-1"]) | {"version": 4}
    with pytest.raises(UnsupportedError, match="snapshot-1 is of version 4"):
        decode_snapshot(json.dumps(snapshot).encode(), name="snapshot-1")
    manifest = FILES[MANIFESTS[0]]
    parsed = fastavro.reader(BytesIO(manifest)).writer_schema
    buffer = BytesIO()
    fastavro.writer(buffer, parsed, [{**each, "_VERSION": 3} for each in records(manifest)])
    with pytest.raises(UnsupportedError, match="of version 3"):
        list(decode_manifest(buffer.getvalue(), name="manifest-x"))


@pytest.mark.mission("SE42")
def test_schemas_of_earlier_versions_are_read_with_the_defaults_of_their_time() -> None:
    now = json.loads(FILES["schema/schema-0"])
    for version in (1, 2):
        old = {**now, "version": version, "options": {}}
        schema = decode_schema(json.dumps(old).encode(), name="schema-0")
        assert schema.options["file.format"] == "orc"
        assert schema.version == version
    # The first ones named no version at all.
    first = {key: value for key, value in now.items() if key != "version"}
    assert decode_schema(json.dumps(first).encode(), name="schema-0").version == 1


def test_fields_that_are_not_known_here_are_named_and_change_no_other() -> None:
    snapshot = json.loads(FILES["snapshot/snapshot-1"]) | {"somethingNew": {"a": 1}}
    known = decode_snapshot(FILES["snapshot/snapshot-1"], name="x")
    found = decode_snapshot(json.dumps(snapshot).encode(), name="x")
    assert found.unknown_fields == ("somethingNew",)
    assert replace(found, unknown_fields=()) == known
