"""Continuous streams: a sensor asks for bounded drains, and tells how far the table is behind."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.test_utils import create_run_for_test

from lakewright.assets.following import Following
from lakewright.jobs.ingest import VERB
from lakewright.platform.ingest.drain_stream import StreamDrain
from lakewright.platform.orchestration.names import CONTINUOUS_TAG, TableNames
from lakewright.storage.env import SystemEnv
from lakewright.storage.spec.stream import CommittedBatch
from tests.pipelines.lake import Lake, Outcome, ingest_job, opened
from tests.support.stores.servers import free_port
from tests.support.tables.builders import new_table, rows

pytestmark = pytest.mark.spark

ORDERS = """\
table: shop.orders
columns:
  - {name: id, type: BIGINT NOT NULL}
  - {name: amount, type: DOUBLE}
primary_key: [id]
options:
  bucket: 1
  write-only: true
  num-sorted-run.compaction-trigger: 2
  num-sorted-run.stop-trigger: 3
source:
  stream:
    connector: filesystem
    options: {path: FEED, format: json, source.monitor-interval: 1 s}
automation: {continuous: DELAY}
"""
NAMES = TableNames("shop.orders")


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
        """A file of orders, which appears whole."""
        waiting = self.lake.folder / f"{ids[0]}.json"
        waiting.write_text("\n".join(json.dumps({"id": each, "amount": 1.0}) for each in ids))
        waiting.rename(self.folder / waiting.name)

    def tick(self) -> Any:
        return self.lake.tick_of(NAMES.stream_sensor)

    def run(self, request: dg.RunRequest | None = None, *, fails: bool = False) -> Outcome:
        tags = {} if request is None else request.tags
        return self.lake.materialize("shop.orders", tags=tags, fails=fails)

    @property
    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.lake.rows("shop.orders"))

    @property
    def lag(self) -> dg.AssetCheckEvaluation:
        """The last result of the check."""
        found = self.lake.check_records("lag", "shop.orders")[0].evaluation
        assert found is not None
        return found

    @property
    def version(self) -> str:
        """The data version of the source, as Dagster knows it."""
        (key,) = self.lake.definitions.resolve_asset_graph().get(NAMES.asset_key).parent_keys
        assert key.path[:2] == ["sources", "filesystem"]
        found = self.lake.instance.fetch_observations(key, limit=1).records[0].asset_observation
        assert found is not None
        return found.tags["dagster/data_version"]


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    for lake in opened(tmp_path):
        yield Feed(lake)


def run_in(lake: Lake, status: dg.DagsterRunStatus, **tags: str) -> dg.DagsterRun:
    origin = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("here"), "__repository__")
    return create_run_for_test(
        lake.instance,
        job_name="__ASSET_JOB",
        status=status,
        tags=tags,
        remote_job_origin=RemoteJobOrigin(origin, "__ASSET_JOB"),
    )


def test_new_rows_at_the_source_ask_for_one_run_which_tells_how_far_it_came(feed: Feed) -> None:
    # A first run notes where the stream begins.
    assert feed.tick().run_requests
    feed.add(1, 2)
    (request,) = feed.tick().run_requests
    assert feed.tick().run_requests[0].run_key == request.run_key
    behind = feed.version
    assert feed.lag.description is not None
    assert feed.lag.description.startswith("rows behind the source, for up to")

    # A run that a person starts ends when it has what is there.
    outcome = feed.run()
    told = outcome.materializations[None]
    assert told["lakewright/rows_written"] == 2
    assert told["lakewright/batches"] == 1
    assert told["lakewright/position"] == {"files": ["1.json"]}
    assert told["lakewright/lag_seconds"] == told["lakewright/lag_rows"] == 0
    assert outcome.checks["lag"].passed
    assert feed.version == behind
    assert "has all rows" in feed.tick().skip_message
    # Dagster says that the table is in step with its source.
    record = feed.lake.instance.get_latest_data_version_record(NAMES.asset_key)
    assert record is not None
    (read,) = dg.DataProvenance.from_tags(record.event_log_entry.tags).input_data_versions.values()
    assert read.value == feed.version

    feed.add(3)
    (again,) = feed.tick().run_requests
    assert feed.version != behind
    assert again.run_key != request.run_key
    second = feed.run()
    assert second.materializations[None]["lakewright/began_at"] == {"files": ["1.json"]}
    assert feed.ids == [1, 2, 3]


def test_a_run_of_the_sensor_stays_while_its_source_has_more(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Less than may be declared.
    monkeypatch.setattr(Following, "_stays_ms", 12_000)
    feed.add(1)
    (request,) = feed.tick().run_requests
    later = threading.Timer(1, feed.add, [2, 3])
    later.start()
    outcome = feed.run(request)
    assert outcome.materializations[None]["lakewright/batches"] == 2
    assert feed.ids == [1, 2, 3]


def test_a_run_of_the_sensor_gives_its_place_to_a_run_that_waits(feed: Feed) -> None:
    feed.declare(delay="1h")
    feed.add(1)
    (request,) = feed.tick().run_requests
    run_in(feed.lake, dg.DagsterRunStatus.QUEUED)
    feed.run(request)
    assert feed.ids == [1]


@pytest.mark.parametrize(
    "status",
    [
        dg.DagsterRunStatus.QUEUED,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.CANCELING,
    ],
)
def test_no_second_run_is_asked_for_while_one_writes(
    feed: Feed, status: dg.DagsterRunStatus
) -> None:
    feed.add(1)
    (request,) = feed.tick().run_requests
    run = run_in(feed.lake, status, **request.tags)
    assert "a run writes the table" in feed.tick().skip_message
    # Its process dies, which says nothing of the work.
    feed.lake.instance.report_run_failed(run)
    assert feed.tick().run_requests


@pytest.mark.parametrize("is_known", [True, False])
def test_a_run_that_meets_another_one_of_its_stream_is_skipped_and_names_it(
    feed: Feed, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """Two daemons launch the run of a tick, or two instances of Dagster have one warehouse."""
    file = feed.lake.folder / "tables" / "tables.yaml"
    file.write_text(file.read_text().replace("  stream:\n", "  stream:\n    rows_per_batch: 2\n"))
    for first in (1, 3, 5):
        feed.add(first, first + 1)
    definitions, told = feed.lake.definitions, StreamDrain._told
    known = run_in(feed.lake, dg.DagsterRunStatus.STARTED, **NAMES.tags(VERB)) if is_known else None
    others: list[bool] = []

    def told_and_overtaken(drain: StreamDrain, batch: CommittedBatch) -> None:
        told(drain, batch)
        if not others:
            others.append(False)
            with dg.DagsterInstance.ephemeral() as instance:
                job = ingest_job(definitions, NAMES.asset_key)
                others[0] = job.execute_in_process(instance=instance).success

    monkeypatch.setattr(StreamDrain, "_told", told_and_overtaken)
    outcome = feed.run()

    assert others == [True]
    assert feed.ids == [1, 2, 3, 4, 5, 6]
    other = f"run {known.run_id}" if known else "a process that this Dagster does not know"
    skipped = f"{other} runs the stream into shop.orders, and writes what this run leaves"
    assert outcome.materializations[None]["skipped"] == skipped
    assert outcome.materializations[None]["lakewright/batches"] == 1
    assert outcome.checks["lag"].passed


def test_after_a_run_that_failed_the_next_one_waits_a_while(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    (feed.folder / "bad.json").write_text("{")
    (request,) = feed.tick().run_requests
    failed = feed.run(request, fails=True)
    assert f"run {failed.run_id} ended as FAILURE; the next one" in feed.tick().skip_message
    with monkeypatch.context() as later:
        later.setattr(SystemEnv, "now_ms", lambda _: int(time.time() * 1000) + 301_000)
        assert feed.tick().run_requests
    (feed.folder / "bad.json").write_text('{"id": 1}')
    # A person starts a run.
    feed.run()
    feed.add(2)
    assert feed.tick().run_requests


def test_the_lag_of_rows_that_wait_is_told_and_an_idle_source_has_none(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.declare("freshness: {within: 10min, warn_after: 2min}\n")
    spec = feed.lake.definitions.resolve_asset_graph().get(NAMES.asset_key)
    assert spec.freshness_policy is None
    now_ms = SystemEnv().now_ms

    def later(minutes: int) -> None:
        monkeypatch.setattr(SystemEnv, "now_ms", lambda _: now_ms() + minutes * 60_000)

    feed.run()
    feed.tick()
    later(60)
    assert "has all rows" in feed.tick().skip_message
    assert feed.lag.passed
    later(0)
    feed.add(1)
    for minutes, severity in ((3, dg.AssetCheckSeverity.WARN), (11, dg.AssetCheckSeverity.ERROR)):
        later(minutes)
        assert feed.tick().run_requests
        assert (feed.lag.passed, feed.lag.severity) == (False, severity)
        assert feed.lag.metadata["lakewright/lag_seconds"].value == pytest.approx(
            minutes * 60, abs=20
        )
    assert feed.run().checks["lag"].passed


def test_a_source_that_cannot_be_asked_is_told_by_its_sensor_and_its_check(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setenv("CAPTURE_PASSWORD", "secret-word")
    lake.declare(f"""
        table: shop.orders
        columns: [{{name: id, type: BIGINT NOT NULL}}]
        primary_key: [id]
        source:
          stream:
            connector: postgres-cdc
            options:
              hostname: 127.0.0.1
              port: "{free_port()}"
              username: keeper
              password: ${{env:CAPTURE_PASSWORD}}
              database-name: shop
              schema-name: public
              table-name: orders
              slot.name: orders
              scan.startup.mode: latest-offset
        automation: {{continuous: 1m}}
    """)
    answer = lake.tick_of(NAMES.stream_sensor)
    assert answer.skip_message.startswith("UnavailableError: database shop at 127.0.0.1")
    assert not answer.run_requests
    found = lake.check_records("lag", "shop.orders")[0].evaluation
    assert found is not None
    assert not found.passed
    assert "secret-word" not in f"{answer.skip_message} {found}"
    lake.tick_of(NAMES.stream_sensor)
    assert len(lake.check_records("lag", "shop.orders")) == 1
    graph = lake.definitions.resolve_asset_graph()
    source = dg.AssetKey(["sources", "postgres-cdc", "shop", "public", "orders"])
    assert graph.get(NAMES.asset_key).parent_keys == {source}


def test_the_snapshots_of_a_table_that_is_followed_ask_for_runs(lake: Lake) -> None:
    orders = new_table(lake.catalog, name="shop.orders", keys=["id"], options={"bucket": "1"})
    lake.declare("table: shop.orders", "orders.yaml")
    lake.declare("""
        table: shop.copy
        columns:
          - {name: id, type: BIGINT NOT NULL}
          - {name: day, type: STRING}
          - {name: v, type: STRING}
        primary_key: [id]
        source: {stream: {table: shop.orders, consumer: to-copy}}
        automation: {continuous: true}
    """)
    sensor = TableNames("shop.copy").stream_sensor
    assert "has all rows" in lake.tick_of(sensor).skip_message
    orders.write(rows(orders, [{"id": 1, "day": "a", "v": "w"}], ["+I"]))
    (request,) = lake.tick_of(sensor).run_requests
    assert request.tags[CONTINUOUS_TAG]
    outcome = lake.materialize("shop.copy")
    assert outcome.materializations[None]["lakewright/position"]["snapshot"] == 1
    assert lake.rows("shop.copy") == lake.rows("shop.orders")
    assert "has all rows" in lake.tick_of(sensor).skip_message
    # Rows that the other table lost are in the copy, so it is not green.
    orders.write(rows(orders, [{"id": 2, "day": "a", "v": "w"}], ["+I"]))
    lake.materialize("shop.copy")
    orders.history.rollback(snapshot=1, grace_ms=0)
    refused = lake.tick_of(sensor).skip_message
    assert "StalePlan: shop.orders was rolled back behind snapshot 2" in refused
    assert "a new consumer" in refused


def test_a_stream_that_is_ahead_of_compaction_waits_for_it_and_goes_on(feed: Feed) -> None:
    """The upkeep sensor asks for the compaction although its policy would be content."""
    feed.declare("maintenance: {compaction: {small_files: 50, quiet_for: 1h}}\n", delay="30s")
    for number in range(3):
        assert not [
            each
            for each in feed.lake.tick().run_requests
            if each.tags.get("lakewright/verb") == "compact"
        ]
        feed.add(number)
        feed.run()
    (asked,) = [
        each
        for each in feed.lake.tick().run_requests
        if each.tags.get("lakewright/verb") == "compact"
    ]
    feed.add(3)
    (request,) = feed.tick().run_requests

    def compact() -> None:
        feed.lake.request(asked)
        # For whose sake the run ends.
        run_in(feed.lake, dg.DagsterRunStatus.QUEUED)

    compacting = threading.Timer(1, compact)
    compacting.start()
    slowed = feed.run(request)
    compacting.join()
    assert slowed.materializations[None]["lakewright/waited_seconds"] >= 2
    assert feed.ids == [0, 1, 2, 3]
    (partition,) = feed.lake.table("shop.orders").at().partitions()
    assert partition.buckets[0].sorted_run_count == 2


def test_rows_that_a_rollback_took_away_are_asked_for_again(feed: Feed) -> None:
    for number in (1, 2):
        feed.add(number)
        feed.run()
    assert "has all rows" in feed.tick().skip_message
    feed.lake.table("shop.orders").history.rollback(snapshot=1, grace_ms=0)
    assert feed.ids == [1]
    assert feed.tick().run_requests
    feed.run()
    assert feed.ids == [1, 2]
