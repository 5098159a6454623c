"""Statistics files: round trips, and the form of other writers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.arrow_values import value_of
from lakewright.storage.codec.statistics_json import (
    column_statistics_text,
    decode_statistics,
    encode_bound,
    encode_statistics,
)
from lakewright.storage.errors import CorruptionError
from lakewright.storage.spec.data_types import DataField, TypeRoot, parse_data_type
from lakewright.storage.spec.table_statistics import ColumnStatistics, TableStatistics
from lakewright.storage.spec.values import Value, from_python
from tests.support.values.every_type import ATOMS

FULL = TableStatistics(
    snapshot_id=3,
    schema_id=1,
    merged_record_count=10,
    merged_record_size=1000,
    columns=(
        ColumnStatistics(
            name="id",
            field_id=0,
            distinct_count=10,
            minimum="1",
            maximum="10",
            null_count=0,
            avg_len=8,
            max_len=8,
        ),
        ColumnStatistics(name="ä", field_id=4, null_count=2),
    ),
)
WRITTEN = """\
{
  "snapshotId" : 3,
  "schemaId" : 1,
  "mergedRecordCount" : 10,
  "mergedRecordSize" : 1000,
  "colStats" : {
    "id" : {
      "colId" : 0,
      "distinctCount" : 10,
      "min" : "1",
      "max" : "10",
      "nullCount" : 0,
      "avgLen" : 8,
      "maxLen" : 8
    },
    "ä" : {
      "colId" : 4,
      "nullCount" : 2
    }
  }
}"""


def test_statistics_are_written_as_other_writers_of_the_format_write_them() -> None:
    assert encode_statistics(FULL).decode() == WRITTEN
    assert decode_statistics(WRITTEN.encode(), name="stat-1") == FULL


def test_statistics_without_columns_are_an_empty_object() -> None:
    bare = TableStatistics(snapshot_id=1, schema_id=0)
    assert encode_statistics(bare).decode().endswith('"colStats" : { }\n}')
    assert decode_statistics(encode_statistics(bare), name="stat-1") == bare
    assert column_statistics_text(bare) == "{ }"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"snapshotId": 1}', b'{"snapshotId": 1, "schemaId": 0, "colStats": 3}']
)
def test_a_file_that_holds_no_statistics_is_named(data: bytes) -> None:
    with pytest.raises(CorruptionError, match="stat-1 holds no statistics"):
        decode_statistics(data, name="stat-1")


def read_back(text: str, field: DataField) -> Value:
    counted = field.type.root in (TypeRoot.DATE, TypeRoot.TIME)
    return int(text) if counted else from_python(text, field.type)


@pytest.mark.parametrize("type_name", list(ATOMS))
def test_bounds_of_every_type_come_back_from_their_text(type_name: str) -> None:
    field = DataField(0, "c", parse_data_type(type_name))
    arrow: Any = to_arrow_type(field.type)
    for scalar in pa.array(ATOMS[type_name], arrow):
        value = value_of(scalar, field.type)
        text = encode_bound(value, field)
        if isinstance(value, bytes):
            assert text is None
        else:
            # NaN is no bound and equals nothing, so texts are compared.
            assert text is not None
            assert encode_bound(read_back(text, field), field) == text
            assert text == "NaN" or read_back(text, field) == value


def test_nothing_is_known_of_a_bound_that_is_not_there() -> None:
    field = DataField(0, "c", parse_data_type("INT"))
    assert encode_bound(None, field) is None
