"""A check shows what is wrong with any partition, not only with those that were judged last."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from tests.pipelines.lake import EVENTS, Lake, events

ASSET = dg.AssetKey(["shop", "events"])
CRITICAL = "amount_between"
WARNING = "amount_not_null"


def latest(lake: Lake, check: str = CRITICAL) -> dg.AssetCheckEvaluation:
    """What Dagster shows of a check."""
    record = lake.instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(ASSET, check))
    assert record is not None
    assert record.evaluation is not None
    return record.evaluation


def ingest(lake: Lake, day: Any, rows: list[dict[str, Any]], *, fails: bool = False) -> Any:
    lake.give(rows)
    return lake.materialize(partitions=day, fails=fails)


def test_a_partition_that_failed_is_shown_until_its_rows_pass(lake: Lake) -> None:
    lake.declare(EVENTS)
    ingest(lake, "2024-01-01", events("2024-01-01", 0, 3, amount=-1.0), fails=True)
    assert not latest(lake).passed
    assert latest(lake).description.startswith("2024-01-01: ")

    ingest(lake, "2024-01-02", events("2024-01-02", 0, 3))
    # Its own rows are good, so they are published and nothing is held up.
    assert lake.rows() == events("2024-01-02", 0, 3)
    shown = latest(lake)
    assert not shown.passed
    assert shown.severity is dg.AssetCheckSeverity.ERROR
    assert "2024-01-02: " in shown.description
    assert "2024-01-01: 3 failing rows" in shown.description

    ingest(lake, "2024-01-01", events("2024-01-01", 0, 3))
    assert latest(lake).passed
    assert "earlier rows" not in latest(lake).description


def test_a_warning_of_one_partition_outlasts_runs_of_others(lake: Lake) -> None:
    lake.declare(EVENTS)
    ingest(lake, "2024-01-01", events("2024-01-01", 0, 3, amount=None))
    ingest(lake, "2024-01-02", events("2024-01-02", 0, 3))
    assert not latest(lake, WARNING).passed
    assert latest(lake, WARNING).severity is dg.AssetCheckSeverity.WARN
    # The other check has met nothing bad.
    assert latest(lake).passed


def test_a_run_of_several_partitions_says_which_of_them_failed(lake: Lake) -> None:
    lake.declare(EVENTS)
    days = ("2024-01-01", "2024-01-03")
    rows = events("2024-01-01", 0, 2) + events("2024-01-03", 2, 4, amount=-1.0)
    ingest(lake, days, rows, fails=True)
    said = latest(lake).description
    assert said.startswith("3 partitions from 2024-01-01 to 2024-01-03: ")
    assert said.endswith("2 of 4 rows fail. Failing rows: 2024-01-03: 2 failing rows")
    both = events("2024-01-01", 0, 2) + events("2024-01-02", 0, 2)
    ingest(lake, ("2024-01-01", "2024-01-02"), both)
    assert not latest(lake).passed
    assert "2024-01-03: 2 failing rows" in latest(lake).description
    assert "2 partitions from 2024-01-01 to 2024-01-02: " in latest(lake).description
    rows = [row for day in ("01", "02", "03") for row in events(f"2024-01-{day}", 0, 2)]
    ingest(lake, days, rows)
    assert latest(lake).passed


def test_a_check_points_at_the_materialization_that_it_judged(lake: Lake) -> None:
    lake.declare(EVENTS)
    for day in ("2024-01-01", "2024-01-02", ("2024-01-03", "2024-01-05")):
        first = day if isinstance(day, str) else day[0]
        run = ingest(lake, day, events(first, 0, 3))
        target = latest(lake).target_materialization_data
        assert target is not None
        assert target.run_id == run.run_id
    # Rows that are rejected are of no materialization.
    ingest(lake, "2024-01-01", events("2024-01-01", 0, 3, amount=-1.0), fails=True)
    assert latest(lake).target_materialization_data is None


def test_a_partition_that_is_none_any_more_is_not_shown(lake: Lake) -> None:
    lake.declare(EVENTS)
    ingest(lake, "2024-01-01", events("2024-01-01", 0, 3, amount=-1.0), fails=True)
    lake.declare(EVENTS.replace("start: 2024-01-01", "start: 2024-01-02"))
    ingest(lake, "2024-01-02", events("2024-01-02", 0, 3))
    assert latest(lake).passed


def test_a_run_without_rows_forgets_no_partition(lake: Lake) -> None:
    lake.declare(EVENTS)
    ingest(lake, "2024-01-01", events("2024-01-01", 0, 3, amount=-1.0), fails=True)
    # Of no partition that anybody named.
    lake.give(pa.Table.from_pylist(events("2024-01-02", 0, 1)).slice(1))
    lake.materialize(config={"allow_empty": True})
    ingest(lake, "2024-01-04", events("2024-01-04", 0, 3))
    assert not latest(lake).passed
    assert "2024-01-01: " in latest(lake).description


DAYS = ("2024-01-01", "2024-01-03")
UPSERTED = EVENTS.replace("partition_keys: [dt]", "partition_keys: [dt]\n    primary_key: [dt, id]")
APPENDED = EVENTS.replace("write: {engine: local}", "write: {engine: local, mode: append}")


def with_a_null_on_the_second_day(lake: Lake, declaration: str) -> None:
    """A warning is not met, so the row is published."""
    lake.declare(declaration)
    good = events("2024-01-01", 0, 1) + events("2024-01-03", 0, 1)
    ingest(lake, DAYS, good + events("2024-01-02", 0, 1, amount=None))
    assert not latest(lake, WARNING).passed


def holds_a_null(lake: Lake) -> bool:
    return any(row["amount"] is None for row in lake.rows())


@pytest.mark.parametrize("declaration", [UPSERTED, APPENDED], ids=["upsert", "append"])
@pytest.mark.parametrize("days", [DAYS, "2024-01-02"], ids=["range", "day"])
@pytest.mark.sampled(1)
def test_a_partition_that_a_write_had_no_rows_for_is_still_shown(
    lake: Lake, declaration: str, days: Any
) -> None:
    with_a_null_on_the_second_day(lake, declaration)
    rows = events("2024-01-01", 1, 2) + events("2024-01-03", 1, 2)
    lake.give(pa.Table.from_pylist(rows))

    lake.materialize(partitions=days, config={"allow_empty": True})

    assert holds_a_null(lake)
    shown = latest(lake, WARNING)
    assert not shown.passed
    assert "Earlier failing rows: 2024-01-02: 1 failing row" in shown.description
    # The check that met nothing bad has passed.
    assert latest(lake).passed

    # What replaces the row, or comes beside it, is judged.
    ingest(lake, "2024-01-02", events("2024-01-02", 0, 1))
    assert latest(lake, WARNING).passed
    assert holds_a_null(lake) is (declaration == APPENDED)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("days", [DAYS, "2024-01-02"], ids=["range", "day"])
def test_a_partition_overwritten_with_nothing_is_no_longer_shown(lake: Lake, days: Any) -> None:
    with_a_null_on_the_second_day(lake, EVENTS)
    lake.give(pa.Table.from_pylist(events("2024-01-01", 0, 1)))
    lake.materialize(partitions=days, config={"allow_empty": True})
    assert not holds_a_null(lake)
    assert latest(lake, WARNING).passed


@pytest.mark.sampled(1)
@pytest.mark.parametrize("declaration", [EVENTS, UPSERTED], ids=["overwrite", "upsert"])
def test_good_rows_that_are_rejected_for_another_reason_end_no_failure(
    lake: Lake, declaration: str
) -> None:
    with_a_null_on_the_second_day(lake, declaration)
    ingest(lake, "2024-01-02", events("2024-01-02", 0, 1, amount=-1.0), fails=True)
    assert holds_a_null(lake)
    assert not latest(lake, WARNING).passed
    assert "Earlier failing rows: 2024-01-02: 1 failing row" in latest(lake, WARNING).description
    ingest(lake, "2024-01-02", events("2024-01-02", 0, 1))
    assert latest(lake, WARNING).passed
    assert latest(lake).passed


@pytest.mark.sampled(1)
@pytest.mark.parametrize("declaration", [EVENTS, UPSERTED], ids=["overwrite", "upsert"])
def test_a_retry_that_writes_nothing_ends_only_what_its_overwrite_replaced(
    lake: Lake, declaration: str
) -> None:
    lake.declare(declaration)
    ingest(lake, DAYS, events("2024-01-02", 0, 1, amount=-1.0), fails=True)
    # The try published, and died before it told what it judged.
    lake.give(pa.Table.from_pylist(events("2024-01-01", 0, 1)))
    dead = lake.materialize(partitions=DAYS)
    ingest(lake, "2024-01-02", events("2024-01-02", 0, 1))
    assert latest(lake).passed
    ingest(lake, "2024-01-02", events("2024-01-02", 0, 1, amount=-1.0), fails=True)

    continued = {"dagster/root_run_id": dead.run_id, "dagster/is_resume_retry": "true"}
    lake.materialize(partitions=DAYS, tags=continued)

    assert latest(lake).passed is (declaration == EVENTS)
