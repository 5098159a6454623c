"""decode ∘ encode = identity, for everything that is written to disk or sent to a task."""

from __future__ import annotations

import math
import pickle
import struct
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.codec.arrow_types import (
    columns_from_arrow,
    from_arrow_field,
    to_arrow_field,
    to_arrow_type,
)
from lakewright.storage.codec.arrow_values import scalar_of, value_of
from lakewright.storage.codec.binary_row import decode_row, encode_row, unscaled_bytes
from lakewright.storage.codec.bucket_hash import buckets_of, hashes_of
from lakewright.storage.codec.commit_json import decode_message, encode_message
from lakewright.storage.codec.manifest_avro import (
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
)
from lakewright.storage.codec.schema_json import (
    decode_schema,
    encode_schema,
    type_from_json,
    type_to_json,
)
from lakewright.storage.codec.snapshot_json import decode_snapshot, encode_snapshot
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.data_types import (
    AtomicType,
    DataField,
    DataType,
    TypeRoot,
    parse_data_type,
)
from lakewright.storage.spec.file_names import is_place_below
from lakewright.storage.spec.manifest import (
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from lakewright.storage.spec.partition import escape_path
from lakewright.storage.spec.schema import Column, SchemaSpec, new_schema
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.spec.values import Value, from_python, to_python
from tests.support.values.strategies import (
    AWKWARD,
    FIRST_MICROS,
    LAST_MICROS,
    atomic_types,
    data_types,
    names,
    text,
    values,
)

LONGS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**63 - 1)
FILE_NAMES = text().filter(lambda name: is_place_below(name) and "/" not in name)
MOMENTS_MS = st.integers(FIRST_MICROS // 1000, LAST_MICROS // 1000)


def metadata_value(value: Any, data_type: AtomicType) -> Value:
    """A drawn value as metadata holds it: timestamps in nanoseconds."""
    if value is None or not data_type.root.is_timestamp:
        return value  # type: ignore[no-any-return]
    unit = {"ms": 10**6, "us": 10**3, "ns": 1}[to_arrow_type(data_type).unit]
    return int(value) * unit


@st.composite
def typed_rows(draw: st.DrawFn) -> tuple[list[AtomicType], list[Value]]:
    types = draw(st.lists(atomic_types(nanoseconds=True), max_size=70))
    row = [metadata_value(draw(values(each)), each) for each in types]
    return types, row


def same(left: Value, right: Value) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right) or (
            math.isnan(left) and math.isnan(right)
        )
    return left == right and type(left) is type(right)


@given(typed_rows())
def test_a_binary_row_decodes_to_what_was_encoded(case: tuple[list[AtomicType], Any]) -> None:
    types, row = case
    decoded = decode_row(encode_row(row, types), types)
    assert all(same(left, right) for left, right in zip(row, decoded, strict=True)), decoded


@given(typed_rows())
def test_a_binary_row_is_made_of_whole_words(case: tuple[list[AtomicType], Any]) -> None:
    types, row = case
    assert len(encode_row(row, types)) % 8 == 4


@given(st.integers(-(10**38), 10**38))
def test_unscaled_bytes_are_the_fewest_that_hold_the_number(number: int) -> None:
    data = unscaled_bytes(number)
    assert int.from_bytes(data, "big", signed=True) == number
    if len(data) > 1:
        with pytest.raises(OverflowError):
            number.to_bytes(len(data) - 1, "big", signed=True)


def _java_hash(data: bytes) -> int:
    """The hash as the specification words it, one word at a time."""
    mask = 0xFFFFFFFF
    hashed = 42
    for (word,) in struct.iter_unpack("<I", data):
        mixed = word * 0xCC9E2D51 & mask
        mixed = (mixed << 15 | mixed >> 17) & mask
        hashed ^= mixed * 0x1B873593 & mask
        hashed = (hashed << 13 | hashed >> 19) & mask
        hashed = (hashed * 5 + 0xE6546B64) & mask
    hashed ^= len(data)
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & mask
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & mask
    hashed ^= hashed >> 16
    return hashed - 2**32 if hashed >= 2**31 else hashed


@given(
    st.lists(atomic_types(nanoseconds=True), min_size=1, max_size=4).flatmap(
        lambda types: st.tuples(
            st.just(types), st.lists(st.tuples(*map(values, types)), min_size=1, max_size=12)
        )
    ),
    st.integers(1, 64),
)
@pytest.mark.mission("BK2")
def test_hashing_many_rows_is_hashing_each_binary_row(
    case: tuple[list[AtomicType], list[tuple[Any, ...]]], count: int
) -> None:
    types, rows = case
    keys = [DataField(index, f"c{index}", each) for index, each in enumerate(types)]
    arrays = [
        pa.array([row[index] for row in rows], to_arrow_type(each))
        for index, each in enumerate(types)
    ]
    table = pa.table(arrays, names=[key.name for key in keys])
    expected = [
        _java_hash(
            encode_row(
                [metadata_value(value, each) for value, each in zip(row, types, strict=True)], types
            )[4:]
        )
        for row in rows
    ]
    assert hashes_of(table, keys).tolist() == expected
    # A slice keeps the parent's buffers, and must not read its neighbours.
    assert hashes_of(table.slice(len(rows) // 2), keys).tolist() == expected[len(rows) // 2 :]
    java_buckets = [abs(int(math.fmod(each, count))) for each in expected]
    assert buckets_of(table, keys, count).tolist() == java_buckets


@given(data_types(nanoseconds=True))
@pytest.mark.mission("SE28")
def test_a_printed_type_reads_back(data_type: DataType) -> None:
    assert parse_data_type(str(data_type)) == data_type


@given(data_types(nanoseconds=True))
@pytest.mark.mission("SE29")
def test_a_type_in_a_schema_file_reads_back(data_type: DataType) -> None:
    spec = SchemaSpec(columns=(Column("c", data_type),))
    numbered = new_schema(spec, time_millis=0).fields[0].type
    assert type_from_json(type_to_json(numbered)) == numbered


@given(
    st.lists(
        st.builds(Column, names(), data_types(nanoseconds=True), st.none() | text()),
        min_size=1,
        max_size=5,
        unique_by=lambda column: column.name,
    ),
    st.dictionaries(text(), text(), max_size=3),
    text(),
    MOMENTS_MS,
)
@pytest.mark.mission("SE32", "SE21")
def test_a_schema_file_reads_back(
    columns: list[Column], options: dict[str, str], comment: str, time: int
) -> None:
    options = {**options, "bucket": "-1"}
    spec = SchemaSpec(columns=tuple(columns), options=options, comment=comment)
    schema = new_schema(spec, time_millis=time)
    assert decode_schema(encode_schema(schema), name="x") == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


@given(
    st.builds(
        Snapshot,
        id=st.integers(1, 2**63 - 1),
        schema_id=COUNTS,
        base_manifest_list=FILE_NAMES,
        delta_manifest_list=FILE_NAMES,
        commit_user=text(),
        commit_identifier=LONGS,
        commit_kind=st.sampled_from(CommitKind),
        time_millis=MOMENTS_MS,
        total_record_count=LONGS,
        delta_record_count=LONGS,
        base_manifest_list_size=st.none() | COUNTS,
        delta_manifest_list_size=st.none() | COUNTS,
        changelog_manifest_list=st.none() | FILE_NAMES,
        changelog_manifest_list_size=st.none() | COUNTS,
        index_manifest=st.none() | FILE_NAMES,
        changelog_record_count=st.none() | COUNTS,
        watermark=st.none() | LONGS,
        statistics=st.none() | FILE_NAMES,
        properties=st.none() | st.dictionaries(text(), text(), max_size=3),
        next_row_id=st.none() | COUNTS,
    )
)
def test_a_snapshot_file_reads_back(snapshot: Snapshot) -> None:
    assert decode_snapshot(encode_snapshot(snapshot), name="x") == snapshot


def optional_names() -> st.SearchStrategy[tuple[str, ...] | None]:
    return st.none() | st.lists(text(), max_size=3).map(tuple)


STATS = st.builds(
    SimpleStats,
    st.binary(max_size=30),
    st.binary(max_size=30),
    st.lists(st.none() | COUNTS, max_size=3).map(tuple),
)
DATA_FILES = st.builds(
    DataFileMeta,
    file_name=FILE_NAMES,
    file_size=COUNTS,
    row_count=COUNTS,
    min_key=st.binary(max_size=30),
    max_key=st.binary(max_size=30),
    key_stats=STATS,
    value_stats=STATS,
    min_sequence_number=LONGS,
    max_sequence_number=LONGS,
    schema_id=COUNTS,
    level=st.integers(0, 5),
    extra_files=st.lists(FILE_NAMES, max_size=2).map(tuple),
    creation_time=st.none() | st.integers(0, LAST_MICROS // 1000),
    delete_row_count=st.none() | COUNTS,
    embedded_file_index=st.none() | st.binary(max_size=10),
    file_source=st.none() | st.sampled_from(FileSource),
    value_stats_cols=optional_names(),
    external_path=st.none() | text(),
    first_row_id=st.none() | COUNTS,
    write_cols=optional_names(),
)
ENTRIES = st.builds(
    ManifestEntry,
    kind=st.sampled_from(FileKind),
    partition=st.binary(max_size=30),
    bucket=st.integers(-2, 2**31 - 1),
    total_buckets=st.integers(-2, 2**31 - 1),
    file=DATA_FILES,
)
CODECS = st.sampled_from(["zstandard", "null", "deflate"])


@given(st.lists(ENTRIES, max_size=4), CODECS)
@pytest.mark.mission("SE34", "SE26")
def test_a_manifest_reads_back_in_order(entries: list[ManifestEntry], codec: str) -> None:
    assert list(decode_manifest(encode_manifest(entries, compression=codec), name="x")) == entries


@given(
    st.lists(
        st.builds(
            ManifestFileMeta,
            file_name=FILE_NAMES,
            file_size=COUNTS,
            num_added_files=COUNTS,
            num_deleted_files=COUNTS,
            partition_stats=STATS,
            schema_id=COUNTS,
            min_bucket=st.none() | st.integers(-2, 100),
            max_bucket=st.none() | st.integers(-2, 100),
            min_level=st.none() | st.integers(0, 5),
            max_level=st.none() | st.integers(0, 5),
        ),
        max_size=4,
    ),
    CODECS,
)
def test_a_manifest_list_reads_back_in_order(metas: list[ManifestFileMeta], codec: str) -> None:
    data = encode_manifest_list(metas, compression=codec)
    assert decode_manifest_list(data, name="x") == tuple(metas)


@given(
    st.builds(
        CommitMessage,
        partition=st.binary(max_size=30),
        bucket=st.integers(0, 100),
        total_buckets=st.integers(-1, 100),
        new_files=st.lists(DATA_FILES, max_size=2).map(tuple),
        compact_before=st.lists(DATA_FILES, max_size=2).map(tuple),
        compact_after=st.lists(DATA_FILES, max_size=2).map(tuple),
    )
)
@pytest.mark.mission("FS8")
def test_a_commit_message_crosses_processes(message: CommitMessage) -> None:
    assert decode_message(encode_message(message)) == message
    assert pickle.loads(pickle.dumps(message)) == message


@given(st.text(st.one_of(st.sampled_from(AWKWARD), st.characters(exclude_categories=["Cs"]))))
def test_an_escaped_path_reads_back_and_names_one_folder(value: str) -> None:
    escaped = escape_path(value)
    assert unquote(escaped) == value
    assert not set(escaped) & set("/\\\x00\n:*?\"'#={}[]^\x7f")


@given(data_types())
def test_an_arrow_type_reads_back_as_the_type_it_was_made_for(data_type: DataType) -> None:
    again = from_arrow_field(to_arrow_field(DataField(0, "c", data_type)))
    assert to_arrow_type(again) == to_arrow_type(data_type)
    assert again.nullable == data_type.nullable
    (column,) = columns_from_arrow(pa.schema([to_arrow_field(DataField(0, "c", data_type))]))
    assert column == Column("c", again)


@given(atomic_types(nanoseconds=True).flatmap(lambda each: st.tuples(st.just(each), values(each))))
def test_an_arrow_value_is_the_metadata_value_and_back(case: tuple[AtomicType, Any]) -> None:
    data_type, drawn = case
    scalar = pa.scalar(drawn, to_arrow_type(data_type))
    value = value_of(scalar, data_type)
    assert same(
        value, metadata_value(scalar.as_py() if isinstance(drawn, float) else drawn, data_type)
    )
    back = scalar_of(value, data_type)
    assert back.equals(scalar) or same(back.as_py(), scalar.as_py())


@given(atomic_types().flatmap(lambda each: st.tuples(st.just(each), values(each))))
def test_a_value_shown_to_people_is_taken_back(case: tuple[AtomicType, Any]) -> None:
    data_type, drawn = case
    value = metadata_value(drawn, data_type)
    shown = to_python(value, data_type)
    assert same(from_python(shown, data_type), value)
    # Plans and URLs carry values as text.
    if not data_type.root.is_bytes and shown is not None and data_type.root is not TypeRoot.BOOLEAN:
        assert same(from_python(str(shown), data_type), value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-999, max_value=999))
def test_a_decimal_keeps_its_scale(number: Decimal) -> None:
    data_type = AtomicType(TypeRoot.DECIMAL, precision=10, scale=5)
    stored = from_python(number, data_type)
    assert isinstance(stored, Decimal)
    assert stored == number
    assert stored.as_tuple().exponent == -5


def test_the_range_of_timestamps_drawn_is_that_of_python() -> None:
    micros = AtomicType(TypeRoot.TIMESTAMP, precision=6)
    assert str(to_python(FIRST_MICROS * 1000, micros)) == "0001-01-01 00:00:00"
    assert str(to_python(LAST_MICROS * 1000, micros)) == "9999-12-31 23:59:59.999999"
