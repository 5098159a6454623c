"""Footers of joined Parquet files: a reader finds in them the rows of the files, in order."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.codec.parquet_footer import (
    CODECS,
    MAGIC,
    FileFooter,
    NotCopied,
    joined_footer,
    read_file_footer,
)


def written(rows: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, **options)
    return sink.getvalue()


def footer_of(data: bytes) -> FileFooter:
    length = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - length
    return read_file_footer(data[start:-8], ends_at=start)


def joined(*parts: bytes) -> bytes:
    footers = [footer_of(each) for each in parts]
    groups = b"".join(
        part[len(MAGIC) : footer.end] for part, footer in zip(parts, footers, strict=True)
    )
    data = joined_footer(footers)
    return MAGIC + groups + data + len(data).to_bytes(4, "little") + MAGIC


COLUMNS = {
    "number": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    "text": st.one_of(st.none(), st.text(max_size=20)),
    "truth": st.one_of(st.none(), st.booleans()),
    "list": st.one_of(st.none(), st.lists(st.floats(allow_nan=False), max_size=3)),
    "both": st.one_of(st.none(), st.fixed_dictionaries({"a": st.integers(0, 9)})),
}
SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("text", pa.string()),
        ("truth", pa.bool_()),
        ("list", pa.list_(pa.float64())),
        ("both", pa.struct([("a", pa.int32())])),
        # Lists of 15 and more have their length in bytes of its own.
        *((f"more-{number}", pa.int32()) for number in range(12)),
    ]
)
ROWS = st.lists(st.fixed_dictionaries(COLUMNS), min_size=1, max_size=12)


@given(
    parts=st.lists(ROWS, min_size=1, max_size=4),
    group_rows=st.integers(1, 12),
    codec=st.sampled_from(sorted(CODECS)),
    index=st.booleans(),
    dictionary=st.booleans(),
)
def test_a_joined_file_has_the_rows_of_its_parts_in_order(
    parts: list[list[dict[str, Any]]], group_rows: int, codec: str, *, index: bool, dictionary: bool
) -> None:
    tables = [pa.Table.from_pylist(part, SCHEMA) for part in parts]
    files = [
        written(
            each,
            row_group_size=group_rows,
            compression=codec,
            write_page_index=index,
            use_dictionary=dictionary,
            write_page_checksum=True,
        )
        for each in tables
    ]
    assert {number for each in files for number in footer_of(each).codecs} == {CODECS[codec]}
    file = pq.ParquetFile(pa.BufferReader(joined(*files)), page_checksum_verification=True)
    assert file.read().equals(pa.concat_tables(tables))
    wholes = [pq.ParquetFile(pa.BufferReader(each)) for each in files]
    assert file.metadata.num_row_groups == sum(each.metadata.num_row_groups for each in wholes)
    found = iter(range(file.metadata.num_row_groups))
    for whole in wholes:
        for group in range(whole.metadata.num_row_groups):
            number = next(found)
            assert file.read_row_group(number).equals(whole.read_row_group(group))
            assert (
                file.metadata.row_group(number).column(0).statistics
                == whole.metadata.row_group(group).column(0).statistics
            )


def test_a_joined_file_can_be_joined_again() -> None:
    rows = pa.table({"a": list(range(100))})
    once = joined(written(rows), written(rows))
    twice = joined(once, written(rows), once)
    assert pq.read_table(pa.BufferReader(twice)).num_rows == 500


def test_encrypted_and_scattered_files_are_not_copied() -> None:
    whole = written(pa.table({"a": [1, 2, 3]}))
    length = int.from_bytes(whole[-8:-4], "little")
    start = len(whole) - 8 - length
    with pytest.raises(NotCopied, match="outside of the row groups"):
        read_file_footer(whole[start:-8], ends_at=start - 1)
    # Field 8 tells the algorithm of encryption; 7, the orders of columns, is before it.
    with pytest.raises(NotCopied, match="encrypted"):
        read_file_footer(whole[start:-9] + b"\x1c\x00\x00", ends_at=start)
    for cut in range(1, length):
        with pytest.raises(NotCopied):
            read_file_footer(whole[start : len(whole) - 8 - cut], ends_at=start)
