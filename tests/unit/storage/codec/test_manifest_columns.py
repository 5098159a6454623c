"""Columns of manifests: what is damaged or unusual has the entries or the errors of one by one."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pytest

from lakewright.storage.codec import manifest_columns
from lakewright.storage.codec.avro_container import (
    encode_block,
    encode_header,
    read_block,
    read_block_head,
    read_header,
)
from lakewright.storage.codec.manifest_avro import MANIFEST_SCHEMA, decode_manifest, encode_manifest
from lakewright.storage.codec.manifest_columns import (
    NO_NUMBER,
    EntryColumns,
    ObjectEntries,
    PackedEntries,
    decode_entry_columns,
    decode_together,
)
from lakewright.storage.errors import StorageError
from lakewright.storage.spec.manifest import (
    EMPTY_ROW,
    DataFileMeta,
    FileKind,
    ManifestEntry,
    SimpleStats,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RARE_FIELDS = ("_EMBEDDED_FILE_INDEX", "_VALUE_STATS_COLS", "_EXTERNAL_PATH", "_WRITE_COLS")


@pytest.fixture(autouse=True)
def _columns_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_columns, "LEAST_BLOCKS", 0)


def entry(number: int, **file: Any) -> ManifestEntry:
    """An entry with null counts of several lengths."""
    counts = ((), (0, None, 3), tuple(range(9)), (200, 0, 0, 0, 0, 0))[number % 4]
    described: dict[str, Any] = {
        "file_name": f"data-{number}.parquet",
        "file_size": 2**33 + number,
        "row_count": number,
        "min_sequence_number": number * 1000,
        "max_sequence_number": number * 1000 + 1,
        "schema_id": 0,
        "value_stats": SimpleStats(EMPTY_ROW, EMPTY_ROW, counts),
        "creation_time": 1_700_000_000_000 if number % 3 else None,
        "write_cols": ("a", "b") if number % 5 == 0 else None,
    }
    return ManifestEntry(
        kind=FileKind.ADD,
        partition=EMPTY_ROW,
        bucket=number % 3,
        total_buckets=3,
        file=DataFileMeta(**{**described, **file}),
    )


ENTRIES = [entry(number) for number in range(40)]


def records(entries: list[ManifestEntry]) -> list[dict[str, Any]]:
    return list(fastavro.reader(BytesIO(encode_manifest(entries, compression="null"))))  # type: ignore[arg-type] # fastavro types records as any JSON


def encoded(
    made: list[dict[str, Any]], schema: Any = MANIFEST_SCHEMA, codec: str = "null"
) -> bytes:
    """The records in many small blocks."""
    buffer = BytesIO()
    fastavro.writer(buffer, schema, made, codec, sync_interval=300)
    return buffer.getvalue()


def decoded(data: bytes) -> EntryColumns:
    return decode_entry_columns(data, name="m")


def test_every_field_that_plans_need_is_found_in_columns() -> None:
    packed = decoded(encoded(records(ENTRIES)))
    assert isinstance(packed, PackedEntries)
    objects = ObjectEntries(tuple(ENTRIES))
    rows = np.array([7, 3, 3, 39, 0, 12, 5])
    for name in ("_KIND", "_BUCKET", "_FILE._ROW_COUNT", "_FILE._CREATION_TIME"):
        assert np.array_equal(packed.numbers(name), objects.numbers(name))
        assert np.array_equal(packed.numbers(name, rows), objects.numbers(name, rows))
    for name in ("_PARTITION", "_FILE._FILE_NAME"):
        assert packed.texts(name, rows) == objects.texts(name, rows)
    for index in (0, 1, 5, 8, 20):
        name = "_FILE._VALUE_STATS._NULL_COUNTS"
        found = packed.null_counts(name, index, rows)
        assert np.array_equal(found, objects.null_counts(name, index, rows))
    assert np.array_equal(packed.layouts(rows) > 0, objects.layouts(rows) > 0)
    assert np.array_equal(packed.are_plain(rows), objects.are_plain(rows))


def test_some_entries_taken_hold_on_to_no_others() -> None:
    packed = decoded(encoded(records(ENTRIES), codec="zstandard"))
    taken = packed.take(np.array([30, 2, 17]))
    assert [taken.entry(row) for row in range(3)] == [ENTRIES[30], ENTRIES[2], ENTRIES[17]]
    assert taken.size_bytes < packed.size_bytes / 8


def test_fields_of_later_versions_are_stepped_over() -> None:
    schema = copy.deepcopy(MANIFEST_SCHEMA)
    later = {"type": "record", "name": "later", "fields": [{"name": "x", "type": "double"}]}
    schema["fields"][:0] = [
        {"name": "_LATER", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "_NEW", "type": later},
        {"name": "_FLAG", "type": "boolean"},
    ]
    made = [
        {
            **record,
            "_LATER": [None, ["x" * 70] * number][number % 2],
            "_NEW": {"x": 1.5},
            "_FLAG": True,
        }
        for number, record in enumerate(records(ENTRIES))
    ]
    found = decoded(encoded(made, fastavro.parse_schema(schema)))
    assert isinstance(found, PackedEntries)
    assert [found.entry(row) for row in range(len(found))] == ENTRIES


def test_fields_that_older_writers_leave_out_are_unknown() -> None:
    schema = copy.deepcopy(MANIFEST_SCHEMA)
    (file,) = (field["type"] for field in schema["fields"] if field["name"] == "_FILE")
    gone = (*RARE_FIELDS, "_CREATION_TIME", "_FIRST_ROW_ID")
    file["fields"] = [field for field in file["fields"] if field["name"] not in gone]
    data = encoded(records(ENTRIES), fastavro.parse_schema(schema))
    found = decoded(data)
    assert isinstance(found, PackedEntries)
    assert (found.numbers("_FILE._CREATION_TIME") == NO_NUMBER).all()
    assert found.are_plain(np.arange(40)).all()
    assert [found.entry(row) for row in range(40)] == list(decode_manifest(data, name="m"))


@pytest.mark.parametrize(
    "unusual",
    [{"min_sequence_number": 2**60}, {"row_count": -(2**62)}],
    ids=["nine bytes", "negative"],
)
def test_numbers_of_any_size_have_the_same_entries(unusual: dict[str, int]) -> None:
    entries = [*ENTRIES, entry(40, **unusual)]
    found = decoded(encoded(records(entries)))
    assert [found.entry(row) for row in range(len(found))] == entries


@pytest.mark.parametrize(
    "change",
    [
        {"_VERSION": 3},
        {"_KIND": 7},
        {"_FILE": {"_FILE_NAME": "../out"}},
        {"_FILE": {"_FILE_NAME": ""}},
    ],
    ids=["version", "kind", "place", "no name"],
)
def test_what_no_entry_may_hold_is_refused_when_the_manifest_is_decoded(
    change: dict[str, Any],
) -> None:
    made = records(ENTRIES)
    last = made[-1]
    made[-1] = {**last, **change, "_FILE": {**last["_FILE"], **change.get("_FILE", {})}}
    data = encoded(made)
    with pytest.raises(StorageError) as expected:
        list(decode_manifest(data, name="m"))
    with pytest.raises(type(expected.value), match=str(expected.value)[:20]):
        decoded(data)


def unstated(block: bytes) -> bytes:
    compressor = zstd.ZstdCompressor()
    return compressor.compress(block) + compressor.flush()


@pytest.mark.parametrize(
    "pack",
    [
        zstd.compress,
        unstated,
        lambda block: zstd.compress(block[:9]) + zstd.compress(block[9:]),
        lambda block: zstd.compress(block) + zstd.compress(b""),
    ],
    ids=["size", "no size", "two frames", "empty frame"],
)
def test_blocks_of_any_zstd_frames_have_the_same_entries(pack: Callable[[bytes], bytes]) -> None:
    source = BytesIO(encoded(records(ENTRIES)))
    header = read_header(source, path="m")
    packed = encode_header(replace(header, codec="zstandard"))
    while (head := read_block_head(source, path="m")) is not None:
        block = pack(read_block(source, head, header, path="m"))
        packed += encode_block(block, head.row_count, header, level=1)
    found = decoded(packed)
    assert isinstance(found, PackedEntries)
    assert [found.entry(row) for row in range(len(found))] == ENTRIES


@pytest.mark.parametrize("codec", ["null", "zstandard", "deflate"])
def test_damage_anywhere_has_the_entries_or_the_error_of_one_by_one(codec: str) -> None:
    data = encoded(records(ENTRIES), codec=codec)
    # Behind the header, which ends with the first of the marks.
    begin = data.index(data[-16:]) + 16
    for at in range(begin, len(data), 41):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]):
            expected = outcome(damaged, by_columns=False)
            assert outcome(damaged, by_columns=True) == expected


def outcome(data: bytes, *, by_columns: bool) -> Any:
    try:
        if not by_columns:
            return list(decode_manifest(data, name="m"))
        found = decoded(data)
        return [found.entry(row) for row in range(len(found))]
    except StorageError as error:
        return type(error)


def test_small_manifests_together_have_the_entries_of_each_in_order() -> None:
    manifests = [
        encode_manifest(some, compression="zstandard")
        for some in (ENTRIES[:7], ENTRIES[7:8], [], ENTRIES[8:])
    ]
    together = decode_together(manifests, names=list("abcd"))
    assert together is not None
    part, counts = together
    assert counts == (7, 1, 0, 32)
    assert [part.entry(row) for row in range(len(part))] == ENTRIES


def test_manifests_of_different_writers_or_too_few_are_decoded_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = encode_manifest(ENTRIES[:3], compression="zstandard")
    other = encode_manifest(ENTRIES[3:], compression="deflate")
    assert decode_together([one, other], names=["a", "b"]) is None
    assert decode_together([one], names=["a"]) is None
    assert decode_together([one, one[:-1]], names=["a", "b"]) is None
    monkeypatch.setattr(manifest_columns, "LEAST_BLOCKS", 3)
    assert decode_together([one, one], names=["a", "b"]) is None
