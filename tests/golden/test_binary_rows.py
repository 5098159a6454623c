"""Row bytes and bucket hashes that Java makes, byte for byte."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import parse_data_type
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.binary_row import decode_row, encode_row
from lakewright.storage.codec.bucket_hash import buckets_of, hashes_of
from lakewright.storage.errors import CorruptionError
from lakewright.storage.spec.data_types import AtomicType, DataField
from lakewright.storage.spec.manifest import EMPTY_ROW
from lakewright.storage.spec.values import from_python

# 2024-01-02T03:04:05.678901 as stored.
MOMENT = "2024-01-02T03:04:05.678901"

# Types, values, and the bytes that `SerializationUtils.serializeBinaryRow` gives for them.
ROWS: list[tuple[list[str], list[Any], str]] = [
    ([], [], "00000000 0000000000000000"),
    (["BIGINT"], [1], "00000001 0000000000000000 0100000000000000"),
    (["STRING"], ["a"], "00000001 0000000000000000 6100000000000081"),
    (["STRING"], [""], "00000001 0000000000000000 0000000000000080"),
    (["STRING"], ["abcdefg"], "00000001 0000000000000000 6162636465666787"),
    (["STRING"], ["abcdefgh"], "00000001 0000000000000000 0800000010000000 6162636465666768"),
    (
        ["STRING"],
        ["2024-01-01"],
        "00000001 0000000000000000 0a00000010000000 323032342d30312d3031000000000000",
    ),
    (["STRING"], [None], "00000001 0001000000000000 0000000000000000"),
    (
        ["STRING", "DATE", "INT"],
        ["a/b:c=d e%", "2024-01-02", 5],
        (
            "00000003 0000000000000000 0a00000020000000 0c4d000000000000 0500000000000000"
            "612f623a633d64206525000000000000"
        ),
    ),
    (
        ["STRING", "DATE", "INT"],
        [None, None, None],
        "00000003 0007000000000000 0000000000000000 0000000000000000 0000000000000000",
    ),
    (
        ["STRING", "DATE", "INT"],
        ["", None, None],
        "00000003 0006000000000000 0000000000000080 0000000000000000 0000000000000000",
    ),
    (["TIMESTAMP(6)"], [MOMENT], "00000001 0000000000000000 88bf0d0010000000 2edb20c88c010000"),
    (["TIMESTAMP(6)"], [None], "00000001 0001000000000000 0000000010000000 0000000000000000"),
    (
        ["DECIMAL(30, 5)"],
        [Decimal("-1.00000")],
        "00000001 0000000000000000 0300000010000000 fe796000000000000000000000000000",
    ),
    (
        ["DECIMAL(30, 5)"],
        [None],
        "00000001 0001000000000000 0000000010000000 00000000000000000000000000000000",
    ),
    (
        ["BIGINT", "STRING", "DOUBLE", "STRING"],
        [1, "a", 1.0, "2024-01-01"],
        (
            "00000004 0000000000000000 0100000000000000 6100000000000081 000000000000f03f"
            "0a00000028000000 323032342d30312d3031000000000000"
        ),
    ),
]
ROW_IDS = [f"{types} {values}" for types, values, _ in ROWS]


def atomic(names: list[str]) -> list[AtomicType]:
    types = [parse_data_type(name) for name in names]
    assert all(isinstance(each, AtomicType) for each in types)
    return types  # type: ignore[return-value]


@pytest.mark.parametrize(("names", "given", "expected"), ROWS, ids=ROW_IDS)
@pytest.mark.mission("SE35", "FS20")
def test_a_row_has_the_bytes_that_java_gives_it(
    names: list[str], given: list[Any], expected: str
) -> None:
    types = atomic(names)
    values = [from_python(value, kind) for value, kind in zip(given, types, strict=True)]
    encoded = encode_row(values, types)
    assert encoded.hex() == expected.replace(" ", "")
    assert decode_row(encoded, types) == tuple(values)


def test_the_row_of_unpartitioned_tables_is_the_empty_one() -> None:
    assert encode_row([], []) == EMPTY_ROW == bytes(12)


def test_null_bits_go_on_in_a_second_word_after_56_fields() -> None:
    for arity, words in ((56, 1), (57, 2), (120, 2), (121, 3)):
        types = atomic(["INT"] * arity)
        encoded = encode_row([None] * arity, types)
        assert len(encoded) == 4 + 8 * words + 8 * arity
        assert decode_row(encoded, types) == (None,) * arity


@pytest.mark.parametrize(
    ("data", "names", "what"),
    [
        (b"", ["INT"], "lacks the number of its fields"),
        (bytes(12), ["INT"], "0 fields"),
        (bytes.fromhex("00000001 0000000000000000"), ["INT"], "ends after"),
        (bytes.fromhex("00000001 0000000000000000 0800000010000000"), ["STRING"], "past its end"),
        (bytes.fromhex("00000001 0000000000000000 08000000f0ffff7f"), ["STRING"], "past its end"),
        (
            bytes.fromhex("00000001 0000000000000000 08000000f0ffffff"),
            ["STRING"],
            "127 bytes in a slot",
        ),
        (
            bytes.fromhex("00000001 0000000000000000 ff00000000000081"),
            ["STRING"],
            "where text should be",
        ),
    ],
)
def test_damaged_row_bytes_are_told_and_not_guessed_at(
    data: bytes, names: list[str], what: str
) -> None:
    with pytest.raises(CorruptionError, match=what):
        decode_row(data, atomic(names))


# Types, values and `BinaryRow.hashCode()`, then the buckets of 2, 4 and 16 where known.
HASHES: list[tuple[list[str], list[Any], int, list[int] | None]] = [
    (["BIGINT"], [0], -300363099, [1, 3, 11]),
    (["BIGINT"], [1], 1465514398, [0, 2, 14]),
    (["INT"], [1], 1465514398, [0, 2, 14]),
    (["BIGINT"], [2], 1340390384, [0, 0, 0]),
    (["BIGINT"], [3], -771300025, [1, 1, 9]),
    (["BIGINT"], [4], 1447522506, [0, 2, 10]),
    (["BIGINT"], [-1], -821098432, [0, 0, 0]),
    (["BIGINT"], [10**12], -754092879, [1, 3, 15]),
    (["STRING"], [""], 302122119, [1, 3, 7]),
    (["STRING"], ["a"], 943281246, [0, 2, 14]),
    (["STRING"], ["abcdefg"], -1431907323, [1, 3, 11]),
    (["STRING"], ["abcdefgh"], -843760178, [0, 2, 2]),
    (["BIGINT", "STRING"], [7, "x"], -1252423430, None),
    (["BIGINT"], [None], -1748325344, None),
    (["STRING"], [None], -1748325344, None),
    (["TIMESTAMP(6)"], [MOMENT], 828821739, None),
    (["DECIMAL(30, 5)"], [Decimal("-1.00000")], -1936344773, None),
]


@pytest.mark.parametrize(
    ("names", "given", "expected", "buckets"),
    HASHES,
    ids=[f"{types} {values}" for types, values, _, _ in HASHES],
)
@pytest.mark.mission("BK2", "BK10")
def test_a_key_is_hashed_as_java_hashes_it(
    names: list[str], given: list[Any], expected: int, buckets: list[int] | None
) -> None:
    types = atomic(names)
    keys = [DataField(index, f"c{index}", kind) for index, kind in enumerate(types)]
    arrays = []
    for value, kind in zip(given, types, strict=True):
        stored = from_python(value, kind)
        if kind.root.is_timestamp and isinstance(stored, int):
            stored //= 1000
        arrays.append(pa.array([stored], to_arrow_type(kind)))
    rows = pa.table(arrays, names=[key.name for key in keys])
    assert hashes_of(rows, keys).tolist() == [expected]
    if buckets is not None:
        assert [buckets_of(rows, keys, count).tolist() for count in (2, 4, 16)] == [
            [bucket] for bucket in buckets
        ]
