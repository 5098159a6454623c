"""Index manifests and deletion vectors, byte for byte where the format says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakewright.storage.codec.deletion_vectors import (
    decode_deletion_vector,
    encode_deletion_vectors,
)
from lakewright.storage.codec.index_manifest import decode_index_manifest, encode_index_manifest
from lakewright.storage.errors import CorruptionError
from lakewright.storage.spec.index import (
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    DeletionVectorRange,
    IndexEntry,
    IndexFileMeta,
)
from lakewright.storage.spec.manifest import EMPTY_ROW

# What Java Paimon 0.9 wrote for rows 0 and 2 of one data file.
JAVA_BYTES = bytes.fromhex("01000000185e43f2d03a300000010000000000010010000000000002007b8a0ff7")

# What Java Paimon 1.4.2 wrote for rows 2 and 3 of one data file, with `deletion-vectors.bitmap64`.
JAVA_BYTES_64 = bytes.fromhex(
    "0100000024d1d339640100000000000000000000003a300000010000000000010010000000020003007a813847"
)


@pytest.mark.parametrize(
    ("deleted", "bitmap64", "java_bytes", "length"),
    [([0, 2], False, JAVA_BYTES, 24), ([2, 3], True, JAVA_BYTES_64, 44)],
)
def test_two_deleted_rows_are_the_bytes_that_java_writes(
    deleted: list[int], *, bitmap64: bool, java_bytes: bytes, length: int
) -> None:
    vectors = {"data-0.parquet": np.array(deleted)}
    data, ranges = encode_deletion_vectors(vectors, bitmap64=bitmap64)
    assert data == java_bytes
    assert ranges == (
        DeletionVectorRange(data_file="data-0.parquet", offset=1, length=length, cardinality=2),
    )


@given(
    st.lists(st.sets(st.integers(0, 2**31 - 1), min_size=1), min_size=1, max_size=4), st.booleans()
)
def test_positions_survive_the_round_trip(deleted: list[set[int]], bitmap64: bool) -> None:
    vectors = {
        f"data-{number}": np.array(sorted(each), dtype=np.int64)
        for number, each in enumerate(deleted)
    }
    data, ranges = encode_deletion_vectors(vectors, bitmap64=bitmap64)
    for where in ranges:
        read = decode_deletion_vector(data, where, name="index-0")
        assert read.tolist() == vectors[where.data_file].tolist()


def test_a_64_bit_vector_is_read() -> None:
    # Magic number and bitmap are little-endian, and the range counts the frame.
    import struct
    import zlib

    vector = struct.pack("<i", 1681511377) + BitMap64([3, 2**33]).serialize()
    data = b"\x01" + struct.pack(">i", len(vector)) + vector
    data += struct.pack(">I", zlib.crc32(vector))
    where = DeletionVectorRange(data_file="data-0", offset=1, length=len(vector) + 8)
    assert decode_deletion_vector(data, where, name="index-0").tolist() == [3, 2**33]


@pytest.mark.parametrize("position", [3, 10, 32])
def test_a_damaged_vector_is_refused_by_name(position: int) -> None:
    damaged = bytearray(JAVA_BYTES)
    damaged[position] ^= 0x40
    where = DeletionVectorRange(data_file="data-0.parquet", offset=1, length=24)
    with pytest.raises(CorruptionError, match=r"data-0\.parquet in index-7"):
        decode_deletion_vector(bytes(damaged), where, name="index-7")


def test_an_index_manifest_survives_the_round_trip() -> None:
    vectors = (DeletionVectorRange(data_file="d", offset=1, length=24, cardinality=2),)
    entries = (
        IndexEntry(
            partition=EMPTY_ROW,
            bucket=1,
            file=IndexFileMeta(
                index_type=HASH_INDEX, file_name="index-a", file_size=8, row_count=2
            ),
        ),
        IndexEntry(
            partition=EMPTY_ROW,
            bucket=2,
            file=IndexFileMeta(
                index_type=DELETION_VECTORS_INDEX,
                file_name="index-b",
                file_size=33,
                row_count=1,
                deletion_vectors=vectors,
            ),
        ),
    )
    data = encode_index_manifest(entries, compression="zstandard")
    assert decode_index_manifest(data, name="index-manifest-0") == entries
    with pytest.raises(CorruptionError, match="index-manifest-0"):
        decode_index_manifest(data[:-9], name="index-manifest-0")
