"""Streams as assets: a run takes what is new, each row once, and tells what it wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakewright.platform.orchestration.names import TableNames
from lakewright.storage import AddColumn
from tests.pipelines.lake import Lake, Outcome, opened
from tests.support.tables.builders import new_table, rows

pytestmark = pytest.mark.spark
Row = Mapping[str, Any]

CLICKS = """
    table: logs.clicks
    columns:
      - {name: dt, type: STRING NOT NULL}
      - {name: id, type: BIGINT NOT NULL}
      - {name: v, type: STRING}
    partition_keys: [dt]
    source:
      stream:
        json: FEED
        files_per_batch: 1
        partition: {dt: {event_time: at, delay: 30min}}
    expectations:
      - {expect: expect_column_values_to_be_between, column: id, min_value: 0}
"""


@dataclass
class Stream:
    """The declared stream of a lake, and the folder in which its files arrive."""

    lake: Lake
    name: str = "logs.clicks"

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.declare()

    @property
    def folder(self) -> Path:
        return self.lake.folder / "feed"

    def declare(self, old: str = "", new: str = "") -> None:
        self.lake.declare(CLICKS.replace("FEED", str(self.folder)).replace(old, new))

    def add(self, name: str, *rows: Mapping[str, Any]) -> None:
        path = self.folder / name
        again = path.exists()
        path.write_text("\n".join(map(json.dumps, rows)))
        if not again:
            # Spark takes files in the order of their times, which may be equal otherwise.
            os.utime(path, (1_700_000_000 + len(list(self.folder.iterdir())),) * 2)

    def run(self, *, fails: bool = False, **tags: str) -> Outcome:
        return self.lake.materialize(self.name, tags=tags, fails=fails)

    @property
    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.lake.table(self.name).read().to_pylist())


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    for lake in opened(tmp_path):
        yield Stream(lake)


def click(number: int, at: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "v": f"v{number}", "at": f"2024-06-{at}Z", **more}


def test_two_runs_of_a_stream_wait_for_the_one_place_of_its_pool(stream: Stream) -> None:
    key = TableNames(stream.name).asset_key
    graph = stream.lake.definitions.resolve_asset_graph()
    assert graph.get(key).assets_def.op.pool == TableNames(stream.name).writers_pool


@pytest.mark.mission("PT13", "PT48", "PT49", "PT59")
def test_a_run_takes_what_is_new_and_tells_the_partitions_that_it_wrote(stream: Stream) -> None:
    stream.add("a.json", click(1, "01T10:00:00"), click(2, "02T00:10:00"))
    stream.add("b.json", click(3, "02T00:40:00"))
    first = stream.run()
    told = first.materializations
    assert {key: one["lakewright/partition_rows_written"] for key, one in told.items() if key} == {
        "2024-06-01": 1,
        "2024-06-02": 1,
    }
    assert told[None]["lakewright/batches"] == 2
    assert told[None]["lakewright/rows_written"] == 3
    assert told[None]["lakewright/watermark"] == 1_717_287_000.0
    assert told[None]["partitions done"] == ["dt=2024-06-01"]
    dynamic = stream.lake.instance.get_dynamic_partitions("lakewright/logs.clicks/dt")
    assert sorted(dynamic) == ["2024-06-01", "2024-06-02"]
    assert first.checks["id_between"].passed
    assert first.checks["id_between"].metadata["checked_rows"].value == 3

    idle = stream.run()
    assert idle.materializations == {}
    assert idle.observations[None]["lakewright/batches"] == 0
    assert idle.checks["id_between"].passed

    # The run died before Spark noted that the batch has ended, and before Dagster was told.
    checkpoint = stream.lake.table(stream.name).table_files.paths.root + "/.lakewright/checkpoint"
    for name in ("1", ".1.crc"):
        Path(checkpoint, "commits", name).unlink(missing_ok=True)
    stream.add("c.json", click(4, "03T09:00:00"))
    asked = stream.run(**{"dagster/partition": "2024-06-01"})
    assert stream.ids == [1, 2, 3, 4]
    rows_of = {
        key: one.get("lakewright/partition_rows_written")
        for key, one in asked.materializations.items()
    }
    assert (rows_of["2024-06-02"], rows_of["2024-06-03"]) == (1, 1)
    assert asked.materializations["2024-06-01"]["lakewright/rows_written"] == 2


@pytest.mark.mission("PT13")
def test_a_batch_that_fails_an_expectation_is_not_committed_and_comes_again(stream: Stream) -> None:
    days = "partitions: {daily: {column: dt, start: 2024-06-01, end: 2024-07-01}}"
    stream.declare("source:\n", f"{days}\n    source:\n")
    stream.add("a.json", click(1, "01T10:00:00"))
    stream.add("b.json", click(-2, "02T10:00:00"), click(3, "02T11:00:00"))
    stream.add("c.json", click(4, "03T10:00:00"))
    told: dict[str | None, Any] = {}
    for _ in range(2):
        refused = stream.run(fails=True)
        told |= refused.materializations
        assert "1 of 2 rows fails; the batch was not committed" in refused.failure
        assert not refused.checks["id_between"].passed
        assert stream.ids == [1]
    # The first one tells of the batch before it, and how long it took.
    assert told[None]["lakewright/rows_written"] == 1
    assert told[None]["lakewright/seconds"] > 0
    assert not list(stream.lake.folder.glob("warehouse/**/dt=2024-06-02/bucket-0/*.parquet"))
    # A person corrects the file, which the next run reads again.
    stream.add("b.json", click(2, "02T10:00:00"), click(3, "02T11:00:00"))
    again = stream.run()
    assert again.checks["id_between"].passed
    assert {*again.materializations} == {None, "2024-06-02", "2024-06-03"}
    assert stream.ids == [1, 2, 3, 4]


@pytest.mark.mission("PT13")
def test_a_new_column_of_the_files_ends_the_run_and_leaves_nothing_half_done(
    stream: Stream,
) -> None:
    stream.add("a.json", click(1, "01T10:00:00"))
    stream.add("b.json", click(2, "01T11:00:00", city="Ulm"))
    refused = stream.run(fails=True)
    assert "b.json: the file has unknown column city" in refused.failure
    assert stream.ids == [1]
    assert len(list(stream.lake.folder.glob("warehouse/**/bucket-0/*.parquet"))) == 1
    stream.declare("source:\n", "source:\n      extra_columns: ignore\n")
    stream.run()
    assert stream.ids == [1, 2]


COPY = """
    table: shop.copy
    columns:
      - {name: id, type: BIGINT NOT NULL}
      - {name: day, type: STRING}
      - {name: v, type: STRING}
    primary_key: [id]
    source: {stream: {table: shop.orders, consumer: to-copy}}
    automation: eager
"""


@pytest.mark.mission("PT13", "PT49")
def test_the_changes_of_a_table_follow_its_materializations(lake: Lake) -> None:
    lake.declare("table: shop.orders", "orders.yaml")
    lake.declare(COPY, "copy.yaml")
    catalog = lake.catalog
    orders = new_table(catalog, name="shop.orders", keys=["id"], options={"bucket": "1"})
    sensor = TableNames("shop.copy").stream_sensor

    def tell() -> None:
        lake.instance.report_runless_asset_event(dg.AssetMaterialization(["shop", "orders"]))

    assert lake.tick_of(sensor).skip_message
    for number, kinds in enumerate((["+I", "+I"], ["+U", "-D"])):
        values = [{"id": each, "day": "a", "v": f"v{number}"} for each in (1, 2)]
        orders.write(rows(orders, values, kinds))
        tell()
        (request,) = lake.tick_of(sensor).run_requests
        lake.materialize("shop.copy", tags=request.tags)
        assert lake.tick_of(sensor).skip_message
    assert lake.rows("shop.copy") == [{"id": 1, "day": "a", "v": "v1"}]

    altered = orders.alter(AddColumn("city", "STRING"))
    altered.write(rows(altered, [{"id": 3, "day": "a", "v": "w", "city": "Ulm"}], ["+I"]))
    refused = lake.materialize("shop.copy", fails=True)
    assert "shop.orders has columns that shop.copy lacks: city; nothing was read" in refused.failure
    lake.declare(COPY.replace("to-copy}", "to-copy}, extra_columns: ignore"), "copy.yaml")
    lake.materialize("shop.copy")
    assert [row["id"] for row in lake.rows("shop.copy")] == [1, 3]


ACCOUNTS = """
    table: bank.accounts
    columns:
      - {name: id, type: BIGINT NOT NULL}
      - {name: owner, type: STRING}
      - {name: amount, type: "DECIMAL(10, 2)"}
    primary_key: [id]
    source:
      stream:
        connector: filesystem
        options:
          path: FEED
          format: debezium-json
          source.monitor-interval: 1 s
    expectations:
      - {expect: expect_column_values_to_be_between, column: amount, min_value: 0}
"""


@pytest.mark.mission("LG5")
def test_change_events_of_a_connector_go_into_a_keyed_table_each_once(lake: Lake) -> None:
    folder = lake.folder / "events"
    folder.mkdir()
    lake.declare(ACCOUNTS.replace("FEED", str(folder)))

    def add(name: str, *events: tuple[str, Row | None, Row | None]) -> None:
        lines = [json.dumps({"op": op, "before": b, "after": a}) for op, b, a in events]
        (folder / name).write_text("\n".join(lines))

    def content() -> list[tuple[int, str, str]]:
        found = lake.table("bank.accounts").read().to_pylist()
        return sorted((row["id"], row["owner"], str(row["amount"])) for row in found)

    ann, bob = {"id": 1, "owner": "ann", "amount": 5}, {"id": 2, "owner": "bob", "amount": 7}
    add("0.json", ("c", None, ann), ("c", None, bob), ("u", ann, {**ann, "amount": 9}))
    lake.materialize("bank.accounts")
    assert content() == [(1, "ann", "9.00"), (2, "bob", "7.00")]
    add("1.json", ("d", bob, None), ("u", {**ann, "amount": 9}, {**ann, "amount": -1}))
    lake.materialize("bank.accounts", fails=True)
    assert content() == [(1, "ann", "9.00"), (2, "bob", "7.00")]
    # The batch comes again, from the files as they are then.
    add("1.json", ("d", bob, None), ("u", {**ann, "amount": 9}, {**ann, "amount": 1}))
    lake.materialize("bank.accounts")
    lake.materialize("bank.accounts")
    assert content() == [(1, "ann", "1.00")]


VISITS = """
    table: bank.visits
    columns:
      - {name: day, type: STRING NOT NULL}
      - {name: id, type: BIGINT}
      - {name: at, type: TIMESTAMP(3)}
    partition_keys: [day]
    partitions: {monthly: {column: day, start: "2024-01"}}
    source:
      stream:
        connector: filesystem
        options:
          path: FEED
          format: json
          source.monitor-interval: 1 s
        partition: {day: {event_time: at, layout: yyyy-MM, delay: 1min}}
"""


def test_rows_of_a_connector_get_the_partitions_of_their_times_without_spark(lake: Lake) -> None:
    folder = lake.folder / "clicks"
    folder.mkdir()
    lake.declare(VISITS.replace("FEED", str(folder)))
    (folder / "0.json").write_text(
        '{"id": 1, "at": "2024-01-31 23:59:00"}\n{"id": 2, "at": "2024-02-03 00:00:00"}'
    )
    lake.materialize("bank.visits", partitions="2024-01")
    table = lake.table("bank.visits")
    assert {(row["day"], row["id"]) for row in table.read().to_pylist()} == {
        ("2024-01", 1),
        ("2024-02", 2),
    }
    # The first month is over by the times of the rows.
    (stream,) = table.history.streams()
    assert stream.waiting == ("2024-02",)


def test_a_stream_of_changes_needs_a_key(lake: Lake) -> None:
    (lake.folder / "events").mkdir()
    text = ACCOUNTS.replace("FEED", str(lake.folder / "events"))
    lake.declare(text.replace("    primary_key: [id]\n", ""))
    told = lake.materialize("bank.accounts", fails=True)
    assert "gives rows of kinds +I -U +U -D, and bank.accounts takes +I" in told.failure
