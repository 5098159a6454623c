"""The demo of streams: what its shop does, and the whole of it with a database or without."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.definitions import build_definitions
from lakewright.demo import stream_story
from lakewright.demo.narrator import Narrator
from lakewright.demo.postgres import lacks_postgres
from lakewright.demo.stream_story import open_shop, run_stream_demo
from lakewright.platform.orchestration.names import TableNames
from lakewright.project.serve import ServedProject
from lakewright.storage.env import SystemEnv
from tests.pipelines.lake import opened


def test_the_tables_of_the_demo_have_what_the_shop_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a database, and without processes of Dagster."""
    monkeypatch.setattr(stream_story, "lacks_postgres", lambda: "this test has none")
    project = ServedProject(tmp_path, str(tmp_path / "warehouse"), (tmp_path / "tables",))
    for lake in opened(tmp_path):
        with open_shop(project, Narrator(SystemEnv(), 0)) as (shop, _):
            for _ in range(12):
                shop.trade()
            assert lake.tick_of(TableNames("live.orders").stream_sensor).run_requests
            lake.materialize("live.orders", "live.revenue")
        found = {each["id"]: each for each in lake.rows("live.orders")}
        assert found == shop.orders
        assert {each["state"] for each in found.values()} == {"placed", "paid", "shipped"}
        revenue = lake.rows("live.revenue")
        assert sum(each["orders"] for each in revenue) == shop.row_count() < 12 * 40
        assert sum(each["amount"] for each in revenue) == sum(
            each["amount"] for each in shop.orders.values()
        )


@pytest.mark.deep
@pytest.mark.parametrize("source", ["database", "folder"])
def test_the_demo_of_streams_ends_by_itself_with_equal_rows(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if source == "folder":
        monkeypatch.setattr(stream_story, "lacks_postgres", lambda: "this test has none")
    elif (why_not := lacks_postgres()) is not None:
        # The folder of change events, which the demo takes instead, is the other case.
        pytest.skip(f"the demo of a database needs PostgreSQL: {why_not}")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    run_stream_demo(str(tmp_path / "warehouse"), seconds=40)
    told = capsys.readouterr().out
    assert "after 0 compactions" not in told
    assert "derived  live.revenue adds up to" in told
    assert "postgres" in told.lower() or "come as files: this test has none" in told


def test_the_declarations_of_the_demo_are_right() -> None:
    definitions = build_definitions([Path(stream_story.__file__).parent / "streamed"])
    graph = definitions.resolve_asset_graph()
    orders, revenue = (TableNames(f"live.{name}").asset_key for name in ("orders", "revenue"))
    assert graph.get(revenue).parent_keys == {orders}
    (source,) = graph.get(orders).parent_keys
    assert source.path == ["sources", "postgres-cdc", "shop", "public", "orders"]
