"""Events of many partitions in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.storage.event_log import SqliteEventLogStorage

from lakewright.platform.orchestration.event_log import BatchedSqliteEventLog
from lakewright.storage.errors import InvalidRequestError

DAYS = dg.StaticPartitionsDefinition([f"day {each}" for each in range(40)])
KEY = dg.AssetKey("sales")


@dg.asset(
    partitions_def=DAYS,
    backfill_policy=dg.BackfillPolicy.single_run(),
    check_specs=[dg.AssetCheckSpec("positive", asset=KEY)],
)
def sales() -> Iterator[Any]:
    results = [dg.AssetCheckResult(passed=True, check_name="positive")]
    yield dg.MaterializeResult(metadata={"rows": 3}, tags={"kind": "test"}, check_results=results)


@contextmanager
def home(folder: Path, monkeypatch: pytest.MonkeyPatch, *, batched: bool) -> Iterator[Any]:
    """An instance; with batches, as `dagster_home/dagster.yaml` sets them up."""
    folder.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    if batched:
        settings = Path(__file__).parents[4] / "dagster_home" / "dagster.yaml"
        log = yaml.safe_load(settings.read_text())["event_log_storage"]
        (folder / "dagster.yaml").write_text(yaml.safe_dump({"event_log_storage": log}))
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        yield instance


def materialize_all(instance: dg.DagsterInstance) -> str:
    days = DAYS.get_partition_keys()
    ended = dg.materialize(
        [sales],
        instance=instance,
        tags={
            "dagster/asset_partition_range_start": days[0],
            "dagster/asset_partition_range_end": days[-1],
        },
    )
    assert ended.success
    return ended.run_id


def told(instance: dg.DagsterInstance, run: str) -> dict[str, Any]:
    """What an instance knows afterwards, but for times and ids."""
    latest = instance.get_latest_materialization_event(KEY)
    assert latest is not None
    events = [each.dagster_event for each in instance.all_logs(run)]
    of_type = dg.DagsterEventType.ASSET_MATERIALIZATION
    records = instance.fetch_materializations(KEY, limit=1000).records
    return {
        "of the run": sorted((e.event_type_value, e.partition or "") for e in events if e),
        "of the asset": sorted(str(each.partition_key) for each in records),
        "partitions": instance.get_materialized_partitions(KEY),
        "latest": latest.get_dagster_event().partition,
        "counts": instance.event_log_storage.get_materialized_partitions(KEY),
        "tags": instance.get_event_tags_for_asset(KEY, {"kind": "test"}),
        "stored for the asset": len(
            instance.event_log_storage.get_event_records(dg.EventRecordsFilter(of_type))
        ),
    }


def test_a_run_in_batches_leaves_the_events_that_it_leaves_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with home(tmp_path / "one by one", monkeypatch, batched=False) as instance:
        expected = told(instance, materialize_all(instance))
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "16")
    with home(tmp_path / "in batches", monkeypatch, batched=True) as instance:
        assert isinstance(instance.event_log_storage, BatchedSqliteEventLog)
        run = materialize_all(instance)
        assert told(instance, run) == expected
    # Dagster's own class reads the same files.
    (tmp_path / "in batches" / "dagster.yaml").unlink()
    with dg.DagsterInstance.from_config(str(tmp_path / "in batches")) as instance:
        assert told(instance, run) == expected


@pytest.mark.parametrize(("size", "at_most"), [("0", 1000), ("500", 2 * 2 + 30)])
def test_a_batch_is_one_transaction_for_each_database(
    size: str, at_most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planned events, materializations, and what a run tells besides."""
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", size)
    connections: list[str] = []
    connect = SqliteEventLogStorage._connect

    def counted(self: SqliteEventLogStorage, shard: str) -> Any:
        connections.append(shard)
        return connect(self, shard)

    with home(tmp_path / "home", monkeypatch, batched=True) as instance:
        monkeypatch.setattr(SqliteEventLogStorage, "_connect", counted)
        materialize_all(instance)
    assert len(connections) <= at_most
    assert size != "0" or len(connections) > 4 * 40


def test_a_batch_that_fails_is_stored_one_by_one_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "500")

    store = SqliteEventLogStorage._store_asset_event_tags
    refused: list[int] = []

    def store_but_once(self: SqliteEventLogStorage, index: Any, events: Any, ids: Any) -> None:
        if len(events) > 1 and not refused:
            refused.append(len(events))
            raise OSError("the disk is full")
        store(self, index, events, ids)

    with home(tmp_path / "home", monkeypatch, batched=True) as instance:
        # After the events, and before what is known of the asset.
        monkeypatch.setattr(SqliteEventLogStorage, "_store_asset_event_tags", store_but_once)
        run = materialize_all(instance)
        assert refused == [40]
        planned = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
        assert (
            len(instance.event_log_storage.get_event_records(dg.EventRecordsFilter(planned))) == 40
        )
        assert len(told(instance, run)["of the asset"]) == 40
    assert "the disk is full" in capfd.readouterr().err


def test_without_a_home_the_log_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with pytest.raises(InvalidRequestError, match="set DAGSTER_HOME, or base_dir"):
        BatchedSqliteEventLog.from_config_value(None, {})
