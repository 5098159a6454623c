"""The rows that writes take besides Arrow tables: mappings, pandas, readers and generators."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRows

COLUMNS = {
    "id": "BIGINT",
    "day": "DATE",
    "local": "TIMESTAMP(6)",
    "at": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "amount": "DECIMAL(10, 2)",
    "tags": "ARRAY<STRING>",
    "counts": "MAP<STRING, INT>",
    "item": "ROW<n INT, days ARRAY<ROW<day DATE>>>",
    "bag": "MULTISET<STRING>",
    "sure": "MAP<STRING, INT NOT NULL>",
    "fine": "TIMESTAMP(9)",
}
NANOS = pd.Timestamp("1969-12-31 23:59:59.123456789")
MOMENT = dt.datetime(2024, 1, 31, 12, 30)
ROW: dict[str, Any] = {
    "id": 1,
    "day": dt.date(2024, 1, 31),
    "local": MOMENT,
    "at": MOMENT.replace(tzinfo=dt.UTC),
    "amount": Decimal("1.50"),
    "tags": ["a", None],
    "counts": [("x", 1), ("y", None)],
    "item": {"n": 2, "days": [{"day": dt.date(2024, 1, 1)}, {"day": None}]},
    "bag": [("a", 2)],
    "sure": [("b", 1)],
    "fine": NANOS,
}
EMPTY: dict[str, Any] = dict.fromkeys(COLUMNS)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Catalog.open(str(tmp_path)).create_table("shop.orders", COLUMNS)


def test_mappings_are_rows_and_what_they_lack_is_null(table: Table) -> None:
    as_mapping = {**ROW, "counts": {"x": 1, "y": None}, "bag": {"a": 2}, "sure": {"b": 1}}
    as_texts = {**as_mapping, "day": "2024-01-31", "local": "2024-01-31 12:30:00", "amount": "1.5"}

    def given() -> Iterator[dict[str, Any]]:
        yield as_mapping
        yield {**as_texts, "at": "2024-01-31T13:30:00+01:00"}
        yield {"tags": None}

    table.write(given())
    assert table.read().to_pylist() == [ROW, ROW, EMPTY]


def test_a_frame_of_pandas_is_rows_and_nan_is_null(table: Table) -> None:
    frame = pd.DataFrame(
        {
            "id": [1.0, np.nan],
            "local": pd.to_datetime([MOMENT, None]),
            "amount": [Decimal("1.50"), np.nan],
            "tags": [["a", None], None],
        },
        index=[7, 8],
    )
    table.write(frame)
    names = list(frame.columns)
    expected = [{name: row[name] for name in names} for row in (ROW, EMPTY)]
    assert table.read(columns=names).to_pylist() == expected


def test_readers_and_mixed_parts_are_rows(table: Table) -> None:
    ids = [pa.record_batch({"id": pa.array([each])}) for each in (1, 2)]
    table.write(pa.RecordBatchReader.from_batches(ids[0].schema, ids))
    table.write([{"id": 3}, ids[0], pd.DataFrame({"id": [4]}), {"id": 5}])
    assert sorted(table.read().column("id").to_pylist()) == [1, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([{"id": 1}, {"id": "x"}], "row 2: column id is BIGINT, and 'x' is not a valid BIGINT"),
        ([{"item": {"m": 1}}], "row 1: column item is .* and holds the unknown member m"),
        ([{"item": {"days": [{"day": "no"}]}}], r"column item.days\[\].day is DATE, and 'no' is"),
        ([{"tags": "abc"}], "column tags needs a list, and holds 'abc'"),
        ([{"counts": [1]}], r"column counts needs a mapping, and holds \[1\]"),
        ([{"at": MOMENT}], "has no zone; give it one"),
        ([{"at": "2024-01-31T12:30:00"}], "'2024-01-31T12:30:00' has no zone"),
        ([{"local": ROW["at"]}], "it has a time zone, the column has none"),
        ([{"amount": 1.555}], "has more than 2 digits after the point"),
        ([{"idd": 1}], "unknown column idd"),
        ([{}], "mappings without a column"),
        (pd.DataFrame({"id": [1, 1.5]}), "row 2: column id is BIGINT, and 1.5 is not a valid"),
        (pd.DataFrame({"id": ["x"]}), "row 1: column id is BIGINT, and 'x' is not a valid"),
        (
            [{"bag": {"a": None}}],
            "row 1: column bag is MULTISET<STRING>, and a value of it is null",
        ),
        ([{"sure": {"a": 1}}, {"sure": {"a": 1, "b": None}}], "row 2: column sure is .* is null"),
        ([{"local": NANOS}], r"is not a valid TIMESTAMP\(6\): the column holds 6 digits"),
        (pd.DataFrame({"id": [1 + 2j]}), "column id holds complex128 of pandas"),
        ({"id": [1]}, "is no rows; give an Arrow table, batch or reader"),
    ],
)
def test_what_does_not_fit_is_named_by_row_and_column(table: Table, given: Any, said: str) -> None:
    with pytest.raises(InvalidRows, match=said):
        table.write(given)
    assert not table.history.snapshots()
