"""Pipelines on Spark: the same declarations, with rows and work that go through a session."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.platform.ingest import validate_staged
from tests.pipelines import sources
from tests.pipelines.lake import EVENTS, Lake, events

pytestmark = pytest.mark.spark

ON_SPARK = EVENTS.replace("{engine: local}", "{engine: spark}")


def as_dataframe(rows: list[dict[str, Any]]) -> Any:
    def source(request: Any) -> Any:
        wanted = [row for row in rows if row["dt"] in request.values("dt")]
        return request.spark.createDataFrame(wanted, "dt string, id bigint, amount double")

    return source


def test_a_dataframe_is_validated_and_published(lake: Lake) -> None:
    lake.declare(ON_SPARK)
    rows = events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5)
    sources.give("shop.events", as_dataframe(rows))

    outcome = lake.materialize(partitions=("2024-01-01", "2024-01-02"))

    assert lake.rows() == rows
    told = outcome.materializations["2024-01-01"]
    assert told["lakewright/engine"] == "spark"
    assert told["dagster/partition_row_count"] == 3
    assert outcome.checks["amount_between"].passed

    sources.give("shop.events", lambda request: as_dataframe(rows)(request).drop("amount"))
    lake.materialize(partitions="2024-01-01")
    assert lake.rows() == [{**row, "amount": None} for row in rows[:3]] + rows[3:]


def test_many_rows_are_validated_in_spark_with_the_same_verdict(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate_staged, "PANDAS_ROW_LIMIT", 0)
    lake.declare(ON_SPARK)
    sources.give("shop.events", as_dataframe(events("2024-01-01", 0, 3)))
    first = lake.materialize(partitions="2024-01-01")
    assert first.materializations["2024-01-01"]["lakewright/validation_engine"] == "spark"

    worse = events("2024-01-01", 0, 3) + events("2024-01-01", 3, 5, amount=-1.0)
    sources.give("shop.events", as_dataframe(worse))
    outcome = lake.materialize(partitions="2024-01-01", fails=True)

    check = outcome.checks["amount_between"]
    assert not check.passed
    assert check.metadata["offending_rows"].value == 2
    assert [record.data for record in check.metadata["sample"].records] == [
        {"amount": -1.0},
        {"amount": -1.0},
    ]
    assert lake.rows() == events("2024-01-01", 0, 3)


def test_a_compaction_on_spark_does_what_a_local_one_does(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    lake.write_small_files("2024-01-01", 3)
    before = lake.rows()

    outcome = lake.run("compact", engine="spark")

    assert outcome.observations[None]["lakewright/engine"] == "spark"
    assert lake.rows() == before
    assert lake.table().at().partitions()[0].file_count == 1


def test_a_derived_table_is_computed_in_spark_from_its_upstream(lake: Lake) -> None:
    lake.declare(EVENTS, "events.yaml")
    lake.declare(
        """
        table: shop.totals
        columns: [{name: dt, type: STRING NOT NULL}, {name: total, type: DOUBLE}]
        partition_keys: [dt]
        partitions: {daily: {column: dt, start: 2024-01-01, end: 2024-02-01}}
        source: {python: "tests.pipelines.sources:all_rows"}
        depends_on: [shop.events]
        """,
        "totals.yaml",
    )
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5))
    sources.give(
        "shop.totals",
        lambda request: request.spark.sql(
            "SELECT dt, sum(amount) AS total FROM {events} GROUP BY dt",
            events=request.upstream_dataframe("shop.events"),
        ),
    )
    lake.materialize("shop.events", "shop.totals", partitions=("2024-01-01", "2024-01-02"))
    assert lake.rows("shop.totals") == [
        {"dt": "2024-01-01", "total": 3.0},
        {"dt": "2024-01-02", "total": 2.0},
    ]
    lake.materialize("shop.totals", partitions="2024-01-02")
    assert sources.REQUESTS[-1].partitions == ({"dt": "2024-01-02"},)
    assert len(lake.rows("shop.totals")) == 2


def test_files_are_read_by_spark_where_spark_is_declared(lake: Lake) -> None:
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    rows = events("x", 0, 3) + events("y", 3, 5)
    pa_csv.write_csv(pa.Table.from_pylist(rows), lake.folder / "all.csv")
    text = ON_SPARK.replace('python: "tests.pipelines.sources:rows"', f'csv: "{lake.folder}/*.csv"')
    text = text.replace(
        "daily: {column: dt, start: 2024-01-01, end: 2024-02-01}",
        "static: {column: dt, values: [x, y]}",
    )
    lake.declare(text)

    outcome = lake.materialize(partitions="y")

    assert outcome.materializations["y"]["lakewright/engine"] == "spark"
    assert lake.rows() == events("y", 3, 5)


QUERIES = """
      - name: known_customers
        show: 2
        sql: >
          SELECT batch.dt, batch.id FROM batch LEFT ANTI JOIN shop.customers ON
          shop.customers.id = batch.id
      - name: no_sudden_drop
        sql: >
          SELECT count(*) AS n FROM batch
          HAVING n < 0.5 * (SELECT count(*) / 30 FROM shop.events)
      - {name: few_large, severity: warning, sql: "SELECT count(*) FROM batch WHERE amount > 2"}
    maintenance:"""
CUSTOMERS = """
    table: shop.customers
    columns: [{name: id, type: BIGINT}]
    source: {python: "tests.pipelines.sources:rows"}
"""


def judge_by_queries(lake: Lake) -> None:
    """Declared queries refuse a batch, and warn of another, before rows are published."""
    lake.give(events("2024-01-01", 0, 5))
    lake.give([{"id": 0}, {"id": 1}], "shop.customers")

    unknown = lake.materialize(partitions="2024-01-01", fails=True)
    assert "could not be evaluated: no table shop.customers" in unknown.failure

    lake.materialize("shop.customers")
    refused = lake.materialize(partitions="2024-01-01", fails=True)
    assert "shop.customers.id = batch.id: the query finds 3 rows; the staged" in refused.failure
    told = refused.checks["known_customers"]
    assert told.metadata["offending_rows"].value == 3
    (by_partition,) = told.metadata["offending_rows_by_partition"].value.records
    assert by_partition.data == {"partition": "dt=2024-01-01", "offending rows": 3}
    assert len(told.metadata["sample"].value.records) == 2
    assert not lake.table().history.snapshots()

    lake.give([{"id": each} for each in range(5)], "shop.customers")
    lake.materialize("shop.customers")
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-01", 3, 5, amount=7.0))
    warned = lake.materialize(partitions="2024-01-01")
    assert warned.checks["known_customers"].passed
    assert not warned.checks["few_large"].passed
    assert warned.checks["few_large"].metadata["offending_rows"].value == 2
    assert len(lake.rows()) == 5


def test_queries_of_the_batch_and_other_tables_judge_before_anything_is_published(
    lake: Lake,
) -> None:
    lake.declare(CUSTOMERS, "customers.yaml")
    text = EVENTS.replace("{engine: local}", "{engine: spark}")
    lake.declare(text.replace("\n    maintenance:", QUERIES))
    judge_by_queries(lake)

    lake.give(events("2024-01-02", 0, 3))
    empty = lake.materialize(partitions="2024-01-03", config={"allow_empty": True}, fails=True)
    assert empty.checks["no_sudden_drop"].metadata["sample"].value.records[0].data["n"] == 0
