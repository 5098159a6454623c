"""The job `backfill`: many partitions in one run, wherever they lie."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.storage.partition_status_cache import AssetPartitionStatus

from lakewright.cli import main
from lakewright.cli.exit_codes import CONFLICT, INVALID_REQUEST
from lakewright.platform.ingest.sources import SourceRequest
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.reports import OF_THE_COMMIT
from tests.pipelines import sources
from tests.pipelines.lake import EVENTS, Lake, Outcome, events

SCATTERED = ["2024-01-01", "2024-01-03", "2024-01-05", "2024-01-09"]


def test_scattered_partitions_are_one_run_of_batches_and_each_has_its_own_event(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give([row for day in SCATTERED for row in events(day, 0, 2)])

    done = _backfill(lake, partitions=SCATTERED, batch=3)

    assert [_days(each) for each in sources.REQUESTS] == [SCATTERED[:3], SCATTERED[3:]]
    assert len(lake.table().history.snapshots()) == 2
    assert _states(lake) == dict.fromkeys(SCATTERED, AssetPartitionStatus.MATERIALIZED)
    told = _materialized(lake, done)
    assert set(told) == set(SCATTERED)
    assert told["2024-01-05"]["dagster/partition_row_count"].value == 2
    assert told["2024-01-05"]["dagster/table_name"].value == "shop.events"


def test_a_rejected_partition_is_told_shown_as_failed_and_alone_written_again(lake: Lake) -> None:
    lake.declare(EVENTS)
    bad = events("2024-01-03", 0, 2, amount=-1.0)
    good = [row for day in SCATTERED if day != "2024-01-03" for row in events(day, 0, 2)]
    lake.give([*good, *bad])

    done = _backfill(lake, partitions=SCATTERED, batch=2, fails=True)

    assert "1 partition of shop.events could not be published: 2024-01-03 (amount" in done.failure
    assert "published 3 other partitions, with 6 rows" in done.failure
    others = dict.fromkeys(SCATTERED, AssetPartitionStatus.MATERIALIZED)
    assert _states(lake) == others | {"2024-01-03": AssetPartitionStatus.FAILED}
    lake.give([*good, *events("2024-01-03", 0, 2)])
    sources.REQUESTS.clear()
    _backfill(lake, failed=True)
    assert [_days(each) for each in sources.REQUESTS] == [["2024-01-03"]]
    assert _states(lake) == others
    assert len(lake.rows()) == 8


def test_a_run_that_goes_on_after_a_failure_writes_only_what_is_left(lake: Lake) -> None:
    lake.declare(EVENTS)

    def broken(request: SourceRequest) -> pa.Table:
        if "2024-01-05" in request.values("dt"):
            raise ConnectionError("the server is gone")
        return _rows_of(request)

    sources.give("shop.events", broken)
    first = _backfill(lake, partitions=SCATTERED, batch=1, mode="append", fails=True)
    assert "2024-01-05 (ConnectionError: the server is gone)" in first.failure
    sources.give("shop.events", _rows_of)
    sources.REQUESTS.clear()

    _backfill(
        lake,
        {"dagster/root_run_id": first.run_id, "dagster/is_resume_retry": "true"},
        partitions=SCATTERED,
        batch=4,
        mode="append",
    )

    assert [_days(each) for each in sources.REQUESTS] == [["2024-01-05"]]
    assert len(lake.rows()) == len(SCATTERED)


def test_partitions_are_chosen_by_a_filter_and_by_what_the_table_lacks(lake: Lake) -> None:
    lake.declare(EVENTS)
    sources.give("shop.events", _rows_of)
    _backfill(lake, partitions=["2024-01-02"])
    sources.REQUESTS.clear()

    told = lake.run_job(
        "backfill", _config({"where": "dt <= '2024-01-03'", "missing": True}, dry_run=True)
    )
    assert [each.data["partition"] for each in told.outputs["shop.events"].records] == [
        "2024-01-01",
        "2024-01-03",
    ]
    assert not sources.REQUESTS
    _backfill(lake, where="dt <= '2024-01-03'", missing=True)
    assert sorted({row["dt"] for row in lake.rows()}) == ["2024-01-01", "2024-01-02", "2024-01-03"]


def test_a_choice_that_names_nothing_or_what_is_no_partition_is_refused(lake: Lake) -> None:
    lake.declare(EVENTS)
    for choice, said in (
        ({}, "no partitions of shop.events are chosen"),
        ({"partitions": ["2023-01-01"]}, "2023-01-01: no partitions of the asset shop.events"),
        ({"where": "amount > 1"}, "amount"),
        ({"missing": True, "batch": 0}, "batch is 0"),
    ):
        refused = _backfill(lake, **choice, fails=True)
        assert said in refused.failure
    unknown = lake.run_job(
        "backfill", {"ops": {"backfill": {"config": {"tables": {"a.b": {}}}}}}, fails=True
    )
    assert "a.b is no table that is written here by partition; there are shop.events" in (
        unknown.failure
    )
    assert not lake.catalog.table_exists("shop.events")


@pytest.mark.parametrize(
    ("choice", "begins"),
    [({"missing": True}, {}), ({"where": "shop = 'north'"}, {"partitions": ["north"]})],
)
def test_the_first_backfill_of_partitions_found_in_data_names_the_ways_to_begin(
    lake: Lake, choice: dict[str, Any], begins: dict[str, Any]
) -> None:
    lake.declare(
        EVENTS.replace("partition_keys: [dt]", "partition_keys: [shop]")
        .replace("- {name: amount", "- {name: shop, type: STRING NOT NULL}\n      - {name: amount")
        .replace(
            "daily: {column: dt, start: 2024-01-01, end: 2024-02-01}", "dynamic: {columns: [shop]}"
        )
    )
    lake.give([{**row, "shop": "north"} for row in events("2024-01-02", 0, 3)])

    refused = _backfill(lake, **choice, fails=True)
    assert "no partition of shop.events is known yet" in refused.failure
    assert "lakewright backfill shop.events --partitions KEY,KEY, in run config" in refused.failure

    # Each of both ways makes the partition known.
    _backfill(lake, **begins)
    assert lake.instance.get_materialized_partitions(TableNames("shop.events").asset_key) == {
        "north"
    }
    _backfill(lake, **choice)


def test_keys_of_two_dimensions_and_new_ones_of_a_dynamic_one_are_written(lake: Lake) -> None:
    lake.declare(
        EVENTS.replace("partition_keys: [dt]", "partition_keys: [dt, shop]")
        .replace("- {name: amount", "- {name: shop, type: STRING NOT NULL}\n      - {name: amount")
        .replace(
            "daily: {column: dt, start: 2024-01-01, end: 2024-02-01}",
            "daily: {column: dt, start: 2024-01-01, end: 2024-02-01}\n"
            "      dynamic: {columns: [shop]}",
        )
    )
    found = [{**row, "shop": "north"} for row in events("2024-01-02", 0, 3)]
    lake.give(found)

    done = _backfill(lake, partitions=["2024-01-02|north"])

    assert lake.rows() == sorted(found, key=str)
    assert set(_materialized(lake, done)) == {"2024-01-02|north"}
    assert lake.instance.get_dynamic_partitions("lakewright/shop.events/shop") == ["north"]
    refused = _backfill(lake, partitions=["2024-01-02|%C3%85"], fails=True)
    assert "2024-01-02|%C3%85 (whose key is 2024-01-02|Å)" in refused.failure


def test_a_source_of_crossed_partitions_is_asked_for_the_chosen_pairs_alone(lake: Lake) -> None:
    lake.declare(
        EVENTS.replace("partition_keys: [dt]", "partition_keys: [dt, shop]")
        .replace("- {name: amount", "- {name: shop, type: STRING NOT NULL}\n      - {name: amount")
        .replace(
            "daily: {column: dt, start: 2024-01-01, end: 2024-02-01}",
            "daily: {column: dt, start: 2024-01-01, end: 2024-02-01}\n"
            "      static: {column: shop, values: [north, south]}",
        )
    )
    lake.give([{**row, "shop": "north"} for row in events("2024-01-02", 0, 3)])
    sources.REQUESTS.clear()
    _backfill(lake, partitions=["2024-01-02|north", "2024-01-03|south"])
    (request,) = sources.REQUESTS
    assert request.partitions == (
        {"dt": "2024-01-02", "shop": "north"},
        {"dt": "2024-01-03", "shop": "south"},
    )
    assert (request.values("dt"), request.values("shop")) == (
        ("2024-01-02", "2024-01-03"),
        ("north", "south"),
    )


def test_partitions_without_rows_in_the_source_are_told_and_reasons_stand_once(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 2))

    done = _backfill(lake, partitions=SCATTERED, batch=2, fails=True)

    said = "published 1 other partition, with 2 rows; 1 partition had no rows in the source"
    assert said in done.failure
    assert "shop.events could not be published: 2024-01-05, 2024-01-09 (InvalidRows" in done.failure
    (failed,) = [e for e in done.result.all_events if e.event_type_value == "STEP_FAILURE"]
    metadata = failed.event_specific_data.user_failure_data.metadata
    told = {e.data["partition"]: e.data["result"] for e in metadata["shop.events"].records}
    assert told["2024-01-03"] == "no rows in the source"
    assert told["2024-01-01"] == "published"
    assert told["2024-01-05"].startswith("not published: InvalidRows: ")
    own = _materialized(lake, done)["2024-01-01"]
    assert own["dagster/partition_row_count"].value == 2
    assert not OF_THE_COMMIT & own.keys()
    lake.give(events("2024-01-04", 0, 2))
    again = _backfill(lake, partitions=["2024-01-03"], fails=True)
    assert "1 partition of shop.events could not be published" in again.failure


def test_a_mode_that_needs_a_primary_key_is_refused_before_the_table_is_made(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 2))
    refused = _backfill(lake, partitions=["2024-01-01"], mode="upsert", fails=True)
    assert "mode upsert does not fit shop.events, which has no primary key" in refused.failure
    assert "could not be published" not in refused.failure
    assert not lake.catalog.table_exists("shop.events")


FOUND_IN_DATA = EVENTS.replace("partition_keys: [dt]", "partition_keys: [dt, id]").replace(
    "partitions:\n      daily: {column: dt, start: 2024-01-01, end: 2024-02-01}\n", "\n"
)


def test_partitions_that_are_found_in_data_are_known_after_the_first_run(lake: Lake) -> None:
    lake.declare(FOUND_IN_DATA)
    lake.give(events("2024-01-01", 0, 2))
    for choice in ({"missing": True}, {"where": "dt > '2024'"}, {"failed": True}):
        refused = _backfill(lake, **choice, fails=True)
        assert "backfill the table without a choice of partitions" in refused.failure
        assert "keys such as dt=…/id=…" in refused.failure
    refused = _backfill(lake, partitions=["2024-01-01|0"], fails=True)
    assert "2024-01-01|0: no partitions of the asset shop.events; keys look like dt=…/id=…" in (
        refused.failure
    )
    _backfill(lake)
    _backfill(lake, where="id = 1")
    _backfill(lake, partitions=["dt=2024-01-01/id=0"])
    sources.give("shop.events", _broken)
    _backfill(lake, partitions=["dt=2024-01-09/id=4"], fails=True)
    lake.give(events("2024-01-09", 4, 5))
    sources.REQUESTS.clear()
    _backfill(lake, failed=True)
    assert [_days(each) for each in sources.REQUESTS] == [["2024-01-09"]]


def _broken(request: SourceRequest) -> pa.Table:
    raise ConnectionError("the server is gone")


def test_the_command_says_what_a_caller_of_it_can_do(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.declare(EVENTS)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    declared = str(tmp_path / "tables")

    def lakewright(*arguments: str, table: str = "shop.events") -> tuple[int, str]:
        capsys.readouterr()
        command = ["--warehouse", lake.warehouse.location, "backfill", table, "--tables", declared]
        with warnings.catch_warnings():
            warnings.simplefilter("error", dg.BetaWarning)
            code = main([*command, *arguments])
        return code, "".join(capsys.readouterr())

    lake.give(events("2024-01-05", 0, 2))
    code, told = lakewright("--partitions", "2024-01-01,2024-01-03")
    assert code == CONFLICT
    assert told.count("InvalidRows") == 1
    assert "2024-01-03        failed with 2024-01-01\n" in told
    assert "2 partitions of shop.events could not be published; published 0 other" in told
    assert "shop.events was created, without rows; run again with --partitions" in told
    assert "--failed needs DAGSTER_HOME" in told
    assert "failed: true" not in told
    code, told = lakewright("--missing", "--mode", "upsert", "--dry-run")
    assert code == INVALID_REQUEST
    assert "has no primary key; write append or overwrite" in told
    code, told = lakewright("--where", "amount > 1")
    assert code == INVALID_REQUEST
    assert "the filter looks at amount, and partitions are chosen by partition keys alone" in told
    _, told = lakewright("--missing", table="shop.other")
    assert f"shop.other is not declared in {declared}; declared there: shop.events" in told


def test_the_command_runs_the_job_in_the_dagster_that_is_named(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.declare(EVENTS)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LAKEWRIGHT_TABLES", str(tmp_path / "tables"))
    lake.give([*events("2024-01-01", 0, 2), *events("2024-01-03", 0, 2, amount=-1.0)])

    def lakewright(*arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = main(["--warehouse", lake.warehouse.location, "backfill", "shop.events", *arguments])
        out = capsys.readouterr().out
        return code, json.loads(out) if "json" in arguments else out

    which = ("--where", "dt IN ('2024-01-01', '2024-01-03')")
    code, told = lakewright(*which, "--missing", "--batch", "1", "--dry-run")
    assert (code, told.splitlines()[:2]) == (0, ["2024-01-01", "2024-01-03"])
    assert "2 partitions, 1 at a time; dry run: nothing was written" in told
    code, told = lakewright(*which, "--format", "json")
    assert code == CONFLICT
    assert [(each["partition"], each["rows"]) for each in told["partitions"]] == [
        ("2024-01-03", None),
        ("2024-01-01", 2),
    ]
    assert "1 partition of shop.events could not be published" in told["failure"]
    assert told["failure"].endswith("run again with --failed to write only these")
    lake.give(events("2024-01-03", 0, 2))
    code, told = lakewright("--failed")
    assert code == 0, told
    assert "2024-01-03" in told
    assert {row["dt"] for row in lake.rows()} == {"2024-01-01", "2024-01-03"}
    code, told = lakewright("--failed")
    assert (code, told) == (0, "no partition is chosen: there is nothing to write\n")


def _rows_of(request: SourceRequest) -> pa.Table:
    rows = [row for day in request.values("dt") for row in events(str(day), 0, 1)]
    return pa.Table.from_pylist(rows)


def _days(request: SourceRequest) -> list[object]:
    return list(request.values("dt"))


def _config(choice: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    return {"ops": {"backfill": {"config": {"tables": {"shop.events": dict(choice)}, **others}}}}


def _backfill(
    lake: Lake, tags: Mapping[str, str] | None = None, *, fails: bool = False, **choice: Any
) -> Outcome:
    return lake.run_job("backfill", _config(choice), fails=fails, **(tags or {}))


def _materialized(lake: Lake, done: Outcome) -> dict[str | None, Mapping[str, Any]]:
    logs = lake.instance.all_logs(done.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    found: Sequence[Any] = [each.asset_materialization for each in logs]
    return {each.partition: each.metadata for each in found}


def _states(lake: Lake) -> dict[str, AssetPartitionStatus]:
    """What the asset's page shows of the partitions that were ever tried."""
    key = TableNames("shop.events").asset_key
    known = lake.definitions.get_repository_def().asset_graph.get(key).partitions_def
    assert known is not None
    found = lake.instance.get_status_by_partition(key, known.get_partition_keys(), known)
    return {name: each for name, each in (found or {}).items() if each is not None}


_DAYS = """
    table: shop.days
    columns:
      - {name: id, type: BIGINT}
    source:
      connector: datagen
      options: {number-of-rows: "7", fields.id.min: LEAST}
    expectations:
      - {expect: expect_column_values_to_be_between, column: id, min_value: 5}
"""


def test_the_command_writes_a_table_without_partitions_whole(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)

    def lakewright(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        command = ["--warehouse", lake.warehouse.location, "backfill", "shop.days"]
        code = main([*command, "--tables", str(tmp_path / "tables"), *arguments])
        return code, "".join(capsys.readouterr())

    lake.declare(_DAYS.replace("LEAST", '"5"'))
    code, told = lakewright("--dry-run")
    assert (code, told) == (0, "all of the source; dry run: nothing was written\n")
    code, told = lakewright("--missing")
    assert code == INVALID_REQUEST
    assert "without a choice of partitions, all that its source gives is written" in told
    code, told = lakewright()
    assert code == 0, told
    assert told.startswith("7 rows written into shop.days\nrun: ")
    assert lake.table("shop.days").at().scan().count() == 7
    lake.declare(_DAYS.replace("LEAST", '"0"').replace('"7"', '"7", fields.id.max: "3"'))
    code, told = lakewright()
    assert code == INVALID_REQUEST
    assert "expect_column_values_to_be_between" in told
    assert lake.table("shop.days").at().scan().count() == 7
