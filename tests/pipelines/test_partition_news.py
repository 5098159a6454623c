"""Partitions of tables that others write: Dagster knows all, and is told of some at each look."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from lakewright.definitions import build_definitions
from lakewright.jobs.refresh_assets import Refresh
from lakewright.platform.decide.adopted import read_adopted
from tests.pipelines.lake import Lake

KEY = dg.AssetKey(["crm", "visits"])
NAME = "lakewright/crm.visits/dt_shop"
DAILY = """
    table: shop.daily
    columns:
      - {name: dt, type: STRING NOT NULL}
      - {name: n, type: BIGINT}
    partition_keys: [dt]
    partitions:
      daily: {column: dt, start: 2024-01-01, end: 2024-02-01}
    depends_on: [crm.visits]
    source: {python: "tests.pipelines.sources:rows"}
"""


@pytest.fixture
def visits(lake: Lake) -> Lake:
    """An adopted table of two partition keys, with 30 partitions."""
    lake.catalog.create_database("crm")
    columns = {"dt": "STRING", "shop": "INT", "id": "BIGINT"}
    lake.catalog.create_table("crm.visits", columns, partition_keys=["dt", "shop"])
    write(lake, range(30))
    load(lake)
    return lake


def write(lake: Lake, shops: range, day: str = "2024-01-01") -> None:
    table = lake.table("crm.visits")
    rows = [{"dt": day, "shop": shop, "id": 1} for shop in shops]
    table.write(pa.Table.from_pylist(rows, table.arrow_schema))


def load(lake: Lake, refresh: Refresh | None = None) -> None:
    """What the start of a code server does."""
    folder = lake.folder / "tables"
    lake.definitions_are(
        build_definitions(
            [folder] if any(folder.iterdir()) else [],
            warehouse=lake.warehouse,
            adopted=["crm.*"],
            adopted_tables=read_adopted(lake.catalog, ["crm.*"]),
            refresh=refresh,
        )
    )


def told(ticked: Any) -> list[str | None]:
    return [
        each.partition for each in ticked.asset_events if isinstance(each, dg.AssetMaterialization)
    ]


def test_an_adopted_table_has_its_partitions_and_each_that_exists_is_reported(visits: Lake) -> None:
    graph = visits.definitions.get_repository_def().asset_graph
    assert graph.get(KEY).partitions_def == dg.DynamicPartitionsDefinition(name=NAME)

    # More than a few are left to the end of the look, and the table as a whole comes again.
    first = told(visits.tick())
    assert first[0] is None
    assert first[-1] is None
    keys = {f"dt=2024-01-01/shop={shop}" for shop in range(30)}
    assert set(first[1:-1]) == keys
    assert set(visits.instance.get_dynamic_partitions(NAME)) == keys
    assert visits.instance.get_materialized_partitions(KEY) == keys
    assert told(visits.tick()) == []

    write(visits, range(29, 31), "2024-01-01")
    *days, whole = told(visits.tick())
    assert (set(days), whole) == ({"dt=2024-01-01/shop=29", "dt=2024-01-01/shop=30"}, None)
    assert len(visits.instance.get_dynamic_partitions(NAME)) == 31


def test_a_look_reports_a_bounded_number_of_partitions_and_the_next_one_goes_on(
    visits: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakewright.platform.orchestration.table_news.MOST_EVENTS", 12)
    first = visits.tick()
    assert len([each for each in told(first) if each is not None]) == 12
    assert len(visits.instance.get_dynamic_partitions(NAME)) == 30
    assert first.asset_events[-1].metadata["lakewright/partitions_left"].value == 18
    # A commit between two looks is added to what is left, and a restart forgets nothing of it.
    write(visits, range(30, 40), "2024-01-02")
    assert len(told(visits.tick())) == 14
    visits.forget_what_was_read()
    load(visits)
    seen = [told(visits.tick()) for _ in range(3)]
    assert [len(each) for each in seen] == [13, 5, 0]
    assert len(visits.instance.get_materialized_partitions(KEY)) == 40
    last = visits.instance.get_latest_materialization_event(KEY)
    assert last is not None
    assert last.asset_materialization is not None
    assert last.asset_materialization.partition is None
    assert "lakewright/partitions_left" not in last.asset_materialization.metadata


def test_partitions_of_a_table_that_was_reported_as_a_whole_before_are_reported(
    visits: Lake,
) -> None:
    visits.instance.report_runless_asset_event(
        dg.AssetMaterialization(KEY, metadata={"lakewright/snapshot_id": 1})
    )
    first = told(visits.tick())
    assert len([each for each in first if each is not None]) == 30


def test_of_a_table_with_too_many_partitions_none_is_shown(
    visits: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakewright.platform.orchestration.table_news.MOST_PARTITIONS", 29)
    assert told(visits.tick()) == [None]
    assert visits.instance.get_dynamic_partitions(NAME) == []


def test_a_declared_table_by_day_may_be_made_of_an_adopted_table_by_other_keys(
    visits: Lake,
) -> None:
    visits.declare(DAILY)
    load(visits)
    graph = visits.definitions.get_repository_def().asset_graph
    mapping = graph.get_partition_mapping(dg.AssetKey(["shop", "daily"]), KEY)
    assert isinstance(mapping, dg.AllPartitionMapping)


def test_after_a_change_of_keys_all_partitions_of_the_new_ones_are_reported(visits: Lake) -> None:
    visits.tick()
    visits.table("crm.visits").upkeep.respec(["dt"])
    assert "2024-01-01" in told(visits.tick())
    write(visits, range(2), day="2024-01-02")
    assert told(visits.tick()) == ["2024-01-02", None]

    # A code server that starts has nothing more to tell, and its asset has the new partitions.
    load(visits)
    assert told(visits.tick()) == []
    graph, name = visits.definitions.get_repository_def().asset_graph, "lakewright/crm.visits/dt"
    assert graph.get(KEY).partitions_def == dg.DynamicPartitionsDefinition(name=name)
    days = {"2024-01-01", "2024-01-02"}
    assert set(visits.instance.get_dynamic_partitions(name)) == days
    assert days <= visits.instance.get_materialized_partitions(KEY)


def test_after_a_change_of_keys_a_run_is_asked_for_that_lists_the_table_anew(visits: Lake) -> None:
    def asked() -> list[str | None]:
        names = [each.job_name for each in visits.tick().run_requests]
        return [each for each in names if each == "refresh_assets"]

    load(visits, refresh=lambda _: None)
    assert asked() == []
    visits.table("crm.visits").upkeep.respec(["dt"])
    assert asked() == ["refresh_assets"]
    load(visits, refresh=lambda _: None)
    assert asked() == []
