"""Container files of records: files that repeat the one before are decoded as others are."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.codec.avro_records import SimilarRecords, decode_records
from lakewright.storage.errors import UnreadableManifest, UnsupportedError

FIELDS = [
    {"name": "_VERSION", "type": "int"},
    {"name": "name", "type": "string"},
    {"name": "size", "type": ["null", "long"], "default": None},
]
SCHEMA = {"type": "record", "name": "meta", "fields": FIELDS}
# As Java declares it, and with the fields of a later version.
OTHERS: list[Any] = [
    ["null", SCHEMA],
    {**SCHEMA, "fields": [*FIELDS, {"name": "more", "type": "int", "default": 7}]},
]


def encoded(numbers: list[int], schema: Any = SCHEMA, **how: Any) -> bytes:
    buffer = BytesIO()
    records = [
        {"_VERSION": 2, "name": f"manifest-{each}", "size": each or None, "more": 7}
        for each in numbers
    ]
    fastavro.writer(buffer, schema, records, **how)
    return buffer.getvalue()


def plain(record: dict[str, Any]) -> tuple[str, int | None]:
    return record["name"], record["size"]


def similar() -> SimilarRecords[tuple[str, int | None]]:
    return SimilarRecords(plain, 2)


@given(
    lists=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 3))),
    codec=st.sampled_from(["null", "deflate", "zstandard"]),
    block=st.sampled_from([1, 40, 16_000]),
)
def test_files_that_grow_shrink_and_are_merged_are_decoded_as_each_by_itself(
    lists: list[tuple[int, int, int]], codec: str, block: int
) -> None:
    decoder = similar()
    for begin, end, of in lists:
        schema = [SCHEMA, SCHEMA, *OTHERS][of]
        data = encoded(list(range(begin, end)), schema, codec=codec, sync_interval=block)
        each_by_itself = tuple(decode_records(data, plain, version=2, name="list"))
        assert decoder.decode(data, name="list") == each_by_itself


def test_what_a_file_repeats_is_not_decoded_again() -> None:
    decoder = similar()
    before = decoder.decode(encoded(list(range(20))), name="list")
    # A delta comes between two lists of a state.
    decoder.decode(encoded([20]), name="delta")
    after = decoder.decode(encoded(list(range(21))), name="list")
    assert all(each is known for each, known in zip(after, before, strict=False))
    assert len(after) == 21


@pytest.mark.parametrize("codec", ["null", "zstandard"])
def test_a_file_that_is_cut_short_or_damaged_is_told_at_every_byte(codec: str) -> None:
    decoder = similar()
    whole = decoder.decode(encoded(list(range(20)), codec=codec), name="list")
    data = encoded(list(range(30)), codec=codec)
    for end in range(len(data)):
        try:
            found = decoder.decode(data[:end], name="list")
        except UnreadableManifest:
            continue
        # Without a block, the file is one of no records.
        assert found == ()
    assert decoder.decode(data, name="list")[:20] == whole


def test_a_damaged_schema_of_a_file_is_told_as_any_damage() -> None:
    decoder = similar()
    decoder.decode(encoded(list(range(20))), name="list")
    data = encoded(list(range(21))).replace(b'"name": "_VERSION"', b'"nbme": "_VERSION"')
    with pytest.raises(UnreadableManifest, match="list cannot be read as Avro"):
        decoder.decode(data, name="list")


def test_another_version_is_refused_also_after_records_that_are_known() -> None:
    decoder = similar()
    decoder.decode(encoded(list(range(20))), name="list")
    buffer = BytesIO()
    records = [{"_VERSION": 2, "name": f"manifest-{each}", "size": each} for each in range(1, 20)]
    records.insert(0, {"_VERSION": 2, "name": "manifest-0", "size": None})
    fastavro.writer(buffer, SCHEMA, [*records, {"_VERSION": 3, "name": "new", "size": 1}])
    with pytest.raises(UnsupportedError, match="list is of version 3"):
        decoder.decode(buffer.getvalue(), name="list")
