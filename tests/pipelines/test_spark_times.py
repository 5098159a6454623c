"""Times through pipelines on Spark stay what they are, whatever zone the machine is in."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lakewright.platform.ingest import validate_staged
from lakewright.platform.orchestration.names import TableNames
from lakewright.storage.spark import build_session, dataframe_of, fits_spark
from tests.pipelines import sources
from tests.pipelines.lake import Lake

pytestmark = pytest.mark.spark

# Hours that clocks skip or tell twice in New York and in Berlin.
HOURS = [
    dt.datetime(2024, 3, 10, 2, 0),
    dt.datetime(2024, 3, 31, 2, 0),
    dt.datetime(2024, 10, 27, 2, 0),
    dt.datetime(2024, 11, 3, 1, 0),
]
READINGS = """
table: shop.readings
columns:
  - {name: at, type: TIMESTAMP(6) NOT NULL}
  - {name: moment, type: TIMESTAMP(6) WITH LOCAL TIME ZONE}
  - {name: fine, type: TIMESTAMP(9)}
  - {name: day, type: DATE}
partition_keys: [at]
source: {python: "tests.pipelines.sources:all_rows"}
write: {mode: overwrite, engine: spark}
expectations:
  - {expect: expect_column_values_to_be_between, column: at, min_value: 2024-03-10 02:00:00, max_value: 2024-11-03 01:00:00}
  - {expect: expect_column_values_to_be_in_set, column: at, value_set: [2024-03-10 02:00:00, 2024-03-31 02:00:00, 2024-10-27 02:00:00, 2024-11-03 01:00:00]}
  - {expect: expect_column_values_to_be_between, column: moment, min_value: 2024-03-10T02:00:00Z, max_value: 2024-11-03T01:00:00Z}
"""  # noqa: E501
DERIVED = """
table: shop.derived
columns: [{name: at, type: TIMESTAMP(6) NOT NULL}, {name: readings, type: BIGINT}]
partition_keys: [at]
source: {python: "tests.pipelines.sources:all_rows"}
depends_on: [shop.readings]
"""


def readings(*, nanos: int = 0) -> pa.Table:
    return pa.table(
        {
            "at": pa.array(HOURS, pa.timestamp("us")),
            "moment": pa.array(
                [h.replace(tzinfo=dt.UTC) for h in HOURS], pa.timestamp("us", "UTC")
            ),
            "fine": pa.array([nanos] * len(HOURS), pa.int64()).cast(pa.timestamp("ns")),
            "day": pa.array([hour.date() for hour in HOURS]),
        }
    )


def test_times_are_written_validated_and_read_as_they_are(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate_staged, "PANDAS_ROW_LIMIT", 0)
    lake.declare(READINGS)
    lake.declare(DERIVED, "derived.yaml")
    given = readings()
    sources.give("shop.readings", lambda _: given)

    first = lake.materialize("shop.readings")

    found = lake.table("shop.readings").read().sort_by("at")
    assert found.to_pylist() == given.to_pylist()
    assert first.materializations[None]["lakewright/engine"] == "spark"
    assert first.materializations[None]["lakewright/validation_engine"] == "spark"
    assert all(check.passed for check in first.checks.values())

    def counted(request: Any) -> Any:
        frame = request.upstream_dataframe("shop.readings")
        return frame.groupBy("at").count().withColumnRenamed("count", "readings")

    sources.give("shop.derived", counted)
    keys = [hour.isoformat() for hour in HOURS]
    named = TableNames("shop.derived").dynamic_partitions
    lake.instance.add_dynamic_partitions(f"{named}/at", keys)
    for key in keys:
        lake.materialize("shop.derived", partitions=key)
    assert sorted(row["at"] for row in lake.rows("shop.derived")) == HOURS


def test_rows_finer_than_spark_holds_are_written_without_it(lake: Lake) -> None:
    lake.declare(READINGS)
    sources.give("shop.readings", lambda _: readings(nanos=1_001))
    lake.materialize("shop.readings")
    told = lake.table("shop.readings").read().column("fine").cast(pa.int64()).to_pylist()
    assert told == [1_001] * len(HOURS)
    assert fits_spark(readings(nanos=-1_000))
    assert not fits_spark(readings(nanos=-1))
    nested = pa.array([[-1]], pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("ns")))
    assert not fits_spark(pa.table({"a": nested}))


def test_a_dataframe_of_arrow_rows_keeps_both_kinds_of_times() -> None:
    given = readings().select(["at", "moment", "day"])
    frame = dataframe_of(build_session("lakewright-tests", master="local[2]"), given)
    assert frame.toArrow().to_pylist() == given.to_pylist()
