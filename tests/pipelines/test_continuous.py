"""Continuous streams: a sensor asks for bounded drains, and tells how far the table is behind."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakewright.platform.orchestration.names import TableNames
from tests.pipelines.lake import Lake, Outcome, opened
from tests.support.tables.builders import new_table, rows

pytestmark = pytest.mark.spark

ORDERS = """
    table: shop.orders
    columns:
      - {name: id, type: BIGINT NOT NULL}
      - {name: amount, type: DOUBLE}
    primary_key: [id]
    options: {bucket: 1}
    source:
      stream:
        connector: filesystem
        options: {path: FEED, format: json, source.monitor-interval: 1 s}
    automation: {continuous: DELAY}
"""
SENSOR = TableNames("shop.orders").stream_sensor
SOURCE = "FEED"


@dataclass
class Feed:
    """A continuous stream of a lake, and the folder that its connector reads."""

    lake: Lake

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.declare()

    @property
    def folder(self) -> Path:
        return self.lake.folder / "feed"

    def declare(self, more: str = "", delay: str = "1m") -> None:
        text = ORDERS.replace("FEED", str(self.folder)).replace("DELAY", delay)
        self.lake.declare(text + more)

    def add(self, *ids: int) -> None:
        """A file of orders; it appears whole."""
        lines = "\n".join(json.dumps({"id": each, "amount": 1.0}) for each in ids)
        waiting = self.lake.folder / f"{ids[0]}.json"
        waiting.write_text(lines)
        waiting.rename(self.folder / waiting.name)

    def tick(self) -> Any:
        return self.lake.tick_of(SENSOR)

    def run(self, request: dg.RunRequest | None = None) -> Outcome:
        return self.lake.materialize("shop.orders", tags={} if request is None else request.tags)

    @property
    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.lake.rows("shop.orders"))

    @property
    def source(self) -> dg.AssetKey:
        graph = self.lake.definitions.resolve_asset_graph()
        (key,) = graph.get(TableNames("shop.orders").asset_key).parent_keys
        return key

    def version(self) -> str:
        """The data version of the source, as Dagster knows it."""
        found = self.lake.instance.fetch_observations(self.source, limit=1).records[0]
        return found.asset_event.tags["dagster/data_version"]


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    for lake in opened(tmp_path):
        yield Feed(lake)


def last_lag(feed: Feed) -> Any:
    return feed.lake.check_records("lag", "shop.orders")[0].evaluation


def test_new_rows_at_the_source_ask_for_one_run_which_tells_how_far_it_came(feed: Feed) -> None:
    assert "has all rows" in feed.tick().skip_message
    feed.add(1, 2)
    (request,) = feed.tick().run_requests
    assert feed.tick().run_requests[0].run_key == request.run_key
    behind = feed.version()
    assert last_lag(feed).description.startswith("rows behind the source, for up to")

    # A person's run ends when it has what is there.
    outcome = feed.run()
    assert outcome.success, outcome.failure
    told = outcome.materializations[None]
    assert told["lakewright/rows_written"] == 2
    assert told["lakewright/batches"] == 1
    assert told["lakewright/position"] == {"files": ["1.json"]}
    assert told["lakewright/lag_seconds"] == told["lakewright/lag_rows"] == 0
    assert outcome.checks["lag"].passed
    assert feed.version() == behind
    assert "has all rows" in feed.tick().skip_message

    feed.add(3)
    (again,) = feed.tick().run_requests
    assert feed.version() != behind
    assert again.run_key != request.run_key
    second = feed.run()
    assert second.materializations[None]["lakewright/began_at"] == {"files": ["1.json"]}
    assert feed.ids == [1, 2, 3]


def test_a_run_of_the_sensor_takes_what_comes_until_its_time_is_over(feed: Feed) -> None:
    feed.declare(delay="30s")
    feed.add(1)
    (request,) = feed.tick().run_requests
    ended = threading.Event()

    def add_more() -> None:
        number = 1
        while not ended.wait(1):
            feed.add(number := number + 1)

    adding = threading.Thread(target=add_more)
    adding.start()
    begun = time.monotonic()
    outcome = feed.run(request)
    seconds = time.monotonic() - begun
    ended.set()
    adding.join()
    assert outcome.success, outcome.failure
    assert outcome.materializations[None]["lakewright/batches"] > 2
    assert 20 < seconds < 60
    assert len(feed.ids) > 10


def test_a_run_ends_when_its_source_has_nothing_more_or_another_run_waits(feed: Feed) -> None:
    feed.declare(delay="1h")
    feed.add(1)
    (request,) = feed.tick().run_requests
    feed.lake.instance.create_run_for_job(
        feed.lake.definitions.resolve_job_def("compact"), status=dg.DagsterRunStatus.QUEUED
    )
    assert feed.run(request).success
    assert feed.ids == [1]


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.QUEUED])
def test_no_second_run_is_asked_for_while_one_writes(
    feed: Feed, status: dg.DagsterRunStatus
) -> None:
    feed.add(1)
    (request,) = feed.tick().run_requests
    job = feed.lake.definitions.resolve_implicit_global_asset_job_def()
    run = feed.lake.instance.create_run_for_job(job, status=status, tags=request.tags)
    assert "a run writes the table" in feed.tick().skip_message
    feed.lake.instance.report_run_failed(run)
    assert f"run {run.run_id} ended as FAILURE; the next one" in feed.tick().skip_message


def test_a_source_that_cannot_be_reached_is_told_by_its_sensor_and_its_check(feed: Feed) -> None:
    feed.add(1)
    feed.tick()
    checkpoint = feed.lake.folder / "checkpoint"
    feed.declare(f"freshness: 1h\n".rjust(4))
    shutil.rmtree(feed.folder)
    del checkpoint


def test_an_idle_source_leaves_the_table_fresh_and_rows_that_wait_do_not(feed: Feed) -> None:
    feed.declare("    freshness: {within: 2min, warn_after: 1min}\n")
    spec = feed.lake.definitions.resolve_asset_graph().get(TableNames("shop.orders").asset_key)
    assert spec.freshness_policy is None
