"""Tables that are made by a query: their upstreams, their partitions, and what a run reads."""

from __future__ import annotations

import dagster as dg
import pytest

from lakewright.platform.orchestration.names import TableNames
from tests.pipelines.lake import EVENTS, Lake, events

QUERY = "SELECT dt, sum(id) AS total, count(*) AS n FROM shop.events GROUP BY dt"
TOTALS = """
    table: shop.totals
    columns:
      - {name: dt, type: STRING NOT NULL}
      - {name: total, type: BIGINT}
      - {name: n, type: BIGINT}
    partition_keys: [dt]
    partitions:
      daily: {column: dt, start: 2024-01-01, end: 2024-02-01}
    source: {sql: "SQL"}
    write: {engine: ENGINE}
"""
KEY = TableNames("shop.totals").asset_key


def declare(lake: Lake, query: str = QUERY, engine: str = "local", more: str = TOTALS) -> None:
    lake.declare(EVENTS, "events.yaml")
    lake.declare(more.replace("SQL", query).replace("ENGINE", engine), "totals.yaml")


def written(lake: Lake) -> None:
    lake.give([*events("2024-01-01", 0, 3), *events("2024-01-02", 10, 12)])
    lake.materialize(partitions=("2024-01-01", "2024-01-02"))


def totals(lake: Lake) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in lake.rows("shop.totals"))


def test_a_query_fills_the_partitions_that_are_asked_for(lake: Lake) -> None:
    declare(lake)
    written(lake)
    lake.materialize("shop.totals", partitions="2024-01-02")
    assert totals(lake) == [("2024-01-02", 21, 2)]
    lake.materialize("shop.totals", partitions=("2024-01-01", "2024-01-02"))
    assert totals(lake) == [("2024-01-01", 3, 3), ("2024-01-02", 21, 2)]


def test_a_run_reads_no_file_of_other_partitions(lake: Lake) -> None:
    declare(lake)
    written(lake)
    for file in lake.folder.rglob("events/dt=2024-01-01/*/data-*"):
        file.write_bytes(b"no data file")
    lake.materialize("shop.totals", partitions="2024-01-02")
    assert totals(lake) == [("2024-01-02", 21, 2)]
    lake.materialize("shop.totals", partitions="2024-01-01", fails=True)
    lake.catalog.drop_table("shop.events")


@pytest.mark.parametrize("query", [QUERY, QUERY.replace("id", "`id`")])
def test_a_query_says_the_upstreams_the_lineage_and_the_partitions(lake: Lake, query: str) -> None:
    declare(lake, query)
    spec = lake.definitions.resolve_asset_graph().get(KEY)
    assert spec.parent_keys == {TableNames("shop.events").asset_key}
    lineage = spec.metadata["dagster/column_lineage"].deps_by_column
    found = {
        name: [(each.asset_key.path[-1], each.column_name) for each in deps]
        for name, deps in lineage.items()
    }
    assert found == {"dt": [("events", "dt")], "total": [("events", "id")]}
    assert not spec.partition_mappings


def test_a_query_without_the_partition_column_depends_on_all_partitions(lake: Lake) -> None:
    declare(lake, "SELECT '2024-01-01' AS dt, sum(id) AS total, count(*) AS n FROM shop.events")
    mappings = lake.definitions.resolve_asset_graph().get(KEY).partition_mappings
    (mapping,) = mappings.values()
    assert isinstance(mapping, dg.AllPartitionMapping)


def test_a_query_may_stand_in_a_file_beside_the_declaration(lake: Lake) -> None:
    (lake.folder / "tables" / "totals.sql").write_text(f"-- by day\n{QUERY}; -- all of it\n")
    declare(lake, "totals.sql")
    written(lake)
    lake.materialize("shop.totals", partitions="2024-01-02")
    assert totals(lake) == [("2024-01-02", 21, 2)]


def test_a_query_runs_on_spark_where_the_declaration_says_so(lake: Lake) -> None:
    declare(lake, engine="spark")
    written(lake)
    lake.materialize("shop.totals", partitions="2024-01-02")
    assert totals(lake) == [("2024-01-02", 21, 2)]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT dt FROM events", "name tables as database.table"),
        ("DROP TABLE shop.events", "the text is not one query"),
        ("SELECT dt, FROM FROM", "the query cannot be parsed"),
        ("SELECT dt, idd AS total, 1 AS n FROM shop.events", "shop.events has no column 'idd'"),
        ("nowhere.sql", "the file cannot be read"),
    ],
)
def test_a_query_that_is_wrong_is_a_finding_of_its_declaration(
    lake: Lake, query: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWRIGHT_STRICT", "1")
    declare(lake, query)
    with pytest.raises(Exception, match=told):
        _ = lake.definitions


HOSTILE = """
    table: shop.names
    columns:
      - {name: name, type: STRING NOT NULL}
      - {name: id, type: BIGINT}
    partition_keys: [name]
    partitions:
      static: {column: name, values: ["o'clock", "a\\\\b", plain]}
    source: {sql: "SELECT label AS name, id FROM shop.labels"}
    write: {engine: ENGINE}
"""


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_values_of_partitions_are_quoted_as_the_engine_reads_them(lake: Lake, engine: str) -> None:
    names = ["o'clock", "a\\b", "plain"]
    labels = lake.catalog.create_table("shop.labels", {"label": "STRING", "id": "BIGINT"})
    labels.write([{"label": name, "id": at} for at, name in enumerate(names)])
    lake.declare(HOSTILE.replace("ENGINE", engine))
    for at, (name, key) in enumerate(zip(names, ["o'clock", "a%5Cb"], strict=False)):
        lake.materialize("shop.names", partitions=key)
        assert {"name": name, "id": at} in lake.rows("shop.names")
    assert len(lake.rows("shop.names")) == 2
