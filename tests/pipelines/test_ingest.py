"""Ingest: what a run of a table's asset publishes, and when it publishes nothing."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
import pytest

from lakewright.assets.check_history import NOT_MET
from lakewright.platform.upkeep.words import size_text
from lakewright.storage import Column, RenameColumn, SchemaSpec, parse_data_type
from tests.pipelines import sources
from tests.pipelines.lake import EVENTS, Lake, events


def files_on_disk(lake: Lake) -> list[str]:
    return sorted(
        path.name for path in (lake.folder / "warehouse").rglob("*.parquet") if path.is_file()
    )


@pytest.mark.mission("PT11")
def test_a_partition_key_writes_that_partition_of_the_table(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5))

    outcome = lake.materialize(partitions="2024-01-02")

    assert [stats.spec for stats in lake.table().at().partitions()] == [{"dt": "2024-01-02"}]
    assert outcome.materializations["2024-01-02"]["dagster/partition_row_count"] == 2
    assert sources.REQUESTS[0].partitions == ({"dt": "2024-01-02"},)


def test_one_run_over_many_days_makes_one_snapshot_and_tells_each_day(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-03", 3, 5))

    outcome = lake.materialize(partitions=("2024-01-01", "2024-01-03"))

    told = outcome.materializations
    assert {key: one["dagster/partition_row_count"] for key, one in told.items()} == {
        "2024-01-01": 3,
        "2024-01-02": 0,
        "2024-01-03": 2,
    }
    assert len(lake.table().history.snapshots()) == 1
    assert told["2024-01-01"]["lakewright/snapshot_id"] == 1
    assert told["2024-01-01"]["dagster/row_count"] == 5
    assert told["2024-01-01"]["dagster/table_name"] == "shop.events"
    columns = told["2024-01-01"]["dagster/column_schema"].columns
    assert [(column.name, column.type) for column in columns] == [
        ("dt", "STRING"),
        ("id", "BIGINT"),
        ("amount", "DOUBLE"),
    ]
    assert not columns[0].constraints.nullable
    assert columns[0].constraints.other == ["partition key"]


@pytest.mark.mission("PT27")
def test_running_again_replaces_the_days_asked_for_and_no_other(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5))
    lake.materialize(partitions=("2024-01-01", "2024-01-02"))

    lake.give(events("2024-01-02", 7, 8))
    lake.materialize(partitions="2024-01-02")

    assert lake.rows() == events("2024-01-01", 0, 3) + events("2024-01-02", 7, 8)


def test_a_day_that_has_no_rows_any_more_is_emptied_where_that_is_meant(lake: Lake) -> None:
    lake.declare(EVENTS.replace('sources:rows"', 'sources:rows", allow_empty: true'))
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5))
    lake.materialize(partitions=("2024-01-01", "2024-01-02"))

    lake.give(events("2024-01-02", 3, 5))
    lake.materialize(partitions=("2024-01-01", "2024-01-02"))

    assert lake.rows() == events("2024-01-02", 3, 5)


def test_a_critical_expectation_that_is_not_met_publishes_nothing(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    before = files_on_disk(lake)

    lake.give(events("2024-01-01", 0, 5) + events("2024-01-01", 5, 7, amount=-1.0))
    outcome = lake.materialize(partitions=("2024-01-01", "2024-01-02"), fails=True)

    assert "nothing was published to shop.events" in outcome.failure
    assert lake.rows() == events("2024-01-01", 0, 3)
    assert files_on_disk(lake) == before
    assert not outcome.materializations
    check = outcome.checks["amount_between"]
    assert not check.passed
    assert check.severity.value == "ERROR"
    told = {key: one.value for key, one in check.metadata.items()}
    assert told["offending_rows"] == 2
    assert told["checked_rows"] == 7
    (by_partition,) = told["offending_rows_by_partition"].records
    assert by_partition.data == {"partition": "dt=2024-01-01", "offending rows": 2}
    assert [record.data for record in told["sample"].records] == [
        {"dt": "2024-01-01", "amount": -1.0},
        {"dt": "2024-01-01", "amount": -1.0},
    ]


def test_one_bad_day_is_rejected_and_the_others_are_published(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(
        events("2024-01-01", 0, 5)
        + events("2024-01-02", 5, 7, amount=-1.0)
        + events("2024-01-03", 7, 9)
    )
    outcome = lake.materialize(partitions=("2024-01-01", "2024-01-04"), fails=True)

    rejected = "dt=2024-01-02 (amount_between: 2 failing rows)"
    assert f"rejected 1 partition of shop.events, with 2 rows: {rejected}" in outcome.failure
    assert "published 2 other partitions, with 7 rows" in outcome.failure
    assert {row["dt"] for row in lake.rows()} == {"2024-01-01", "2024-01-03"}
    told = outcome.materializations
    rows_by_day = {day: each["dagster/partition_row_count"] for day, each in told.items()}
    assert rows_by_day == {"2024-01-01": 5, "2024-01-03": 2, "2024-01-04": 0}
    assert told["2024-01-01"]["dagster/row_count"] == 7
    check = outcome.checks["amount_between"]
    assert not check.passed
    assert check.severity.value == "ERROR"
    assert list(check.metadata[NOT_MET].value) == ["2024-01-02"]
    # A check that is met has no failing partition to show.
    assert NOT_MET not in outcome.checks["amount_not_null"].metadata
    (step,) = outcome.result.get_step_failure_events()
    shown = step.event_specific_data.user_failure_data.metadata["lakewright/partitions_rejected"]
    assert [each.data for each in shown.records] == [
        {
            "partition": "dt=2024-01-02",
            "rows": 2,
            "not met": "amount_between: 2 failing rows",
        }
    ]
    # What Dagster counts as written, which is what a backfill counts, too.
    key = dg.AssetKey(["shop", "events"])
    assert lake.instance.get_materialized_partitions(key) == set(told)

    lake.give(events("2024-01-02", 5, 7))
    again = lake.materialize(partitions="2024-01-02")
    assert again.checks["amount_between"].passed


@pytest.mark.mission("PT5")
def test_a_run_that_is_resumed_writes_the_rejected_day_and_no_other_again(lake: Lake) -> None:
    lake.declare(EVENTS.replace("write: {", "write: {mode: append, "))
    days = ("2024-01-01", "2024-01-02")
    lake.give(events("2024-01-01", 0, 2) + events("2024-01-02", 2, 4, amount=-1.0))
    failed = lake.materialize(partitions=days, fails=True)

    lake.give(events("2024-01-01", 0, 2) + events("2024-01-02", 2, 4))
    resumed = {"dagster/root_run_id": failed.run_id, "dagster/is_resume_retry": "true"}
    again = lake.materialize(partitions=days, tags=resumed)
    assert lake.rows() == events("2024-01-01", 0, 2) + events("2024-01-02", 2, 4)
    written = "lakewright/partition_rows_written"
    assert written not in again.materializations["2024-01-01"]
    assert again.materializations["2024-01-02"][written] == 2


def test_a_warning_is_shown_and_the_rows_are_published(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-01", 3, 4, amount=None))

    outcome = lake.materialize(partitions="2024-01-01")

    assert lake.table().read().num_rows == 4
    assert outcome.checks["amount_between"].passed
    check = outcome.checks["amount_not_null"]
    assert not check.passed
    assert check.severity.value == "WARN"


def test_an_expectation_that_cannot_be_evaluated_publishes_nothing(lake: Lake) -> None:
    lake.declare(
        EVENTS.replace(
            "expect_column_values_to_be_between, column: amount, min_value: 0",
            "expect_column_values_to_match_regex, column: amount, regex: '('",
        )
    )
    lake.give(events("2024-01-01", 0, 3))

    outcome = lake.materialize(partitions="2024-01-01", fails=True)

    assert "could not be evaluated" in outcome.checks["amount_matches_regex"].description
    assert not lake.table().history.snapshots()


def test_rows_of_days_that_were_not_asked_for_are_refused(lake: Lake) -> None:
    lake.declare(EVENTS.replace("sources:rows", "sources:all_rows"))
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 0, 1) + events("2024-01-09", 3, 5))

    outcome = lake.materialize(partitions=("2024-01-01", "2024-01-02"), fails=True)

    assert (
        "2 rows of 1 partitions that were not requested, such as dt=2024-01-09" in outcome.failure
    )
    assert not lake.table().history.snapshots()
    assert not files_on_disk(lake)


def test_rows_with_a_key_are_upserted(lake: Lake) -> None:
    lake.declare(
        """
        table: shop.products
        columns: [{name: id, type: INT}, {name: name, type: STRING}]
        primary_key: [id]
        source: {python: "tests.pipelines.sources:rows"}
        """
    )
    lake.give([{"id": 1, "name": "tea"}, {"id": 2, "name": "jam"}], "shop.products")
    lake.materialize("shop.products")
    lake.give([{"id": 2, "name": "honey"}, {"id": 3, "name": "bread"}], "shop.products")

    lake.materialize("shop.products")

    assert [row["name"] for row in lake.rows("shop.products")] == ["tea", "honey", "bread"]


def test_a_table_that_is_not_as_declared_is_left_alone(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")

    lake.declare(
        EVENTS.replace("type: DOUBLE", "type: INT").replace(
            "{name: id, type: BIGINT NOT NULL}",
            "{name: id, type: BIGINT NOT NULL}\n      - {name: shop, type: STRING}",
        )
    )
    outcome = lake.materialize(partitions="2024-01-01", fails=True)

    assert "change the type of column amount to INT" in outcome.failure
    assert "add column shop STRING" in outcome.failure
    assert len(lake.table().history.snapshots()) == 1


@pytest.mark.mission("PT12", "RS4")
def test_partitions_that_turn_up_in_the_rows_become_partitions_of_the_asset(lake: Lake) -> None:
    lake.declare(
        """
        table: shop.visits
        columns:
          - {name: country, type: STRING}
          - {name: site, type: STRING}
          - {name: id, type: INT}
        partition_keys: [country, site]
        source: {python: "tests.pipelines.sources:rows"}
        """
    )
    lake.give(
        [
            {"country": "no", "site": "a/b|c", "id": 1},
            {"country": "no", "site": "", "id": 2},
            {"country": None, "site": "x...y", "id": 3},
        ],
        "shop.visits",
    )

    outcome = lake.materialize("shop.visits")

    keys = ["country=%null/site=x%2E%2E%2Ey", "country=no/site=%empty", "country=no/site=a%2Fb%7Cc"]
    name = "lakewright/shop.visits/country_site"
    assert sorted(lake.instance.get_dynamic_partitions(name)) == keys
    assert {key for key in outcome.materializations if key} == set(keys)

    lake.give([{"country": "no", "site": "a/b|c", "id": 9}], "shop.visits")
    lake.materialize("shop.visits", partitions=keys[2])
    assert sorted(row["id"] for row in lake.rows("shop.visits")) == [2, 3, 9]


def test_a_derived_table_reads_the_days_it_was_asked_for_from_its_upstream(lake: Lake) -> None:
    lake.declare(EVENTS, "events.yaml")
    lake.declare(
        """
        table: shop.totals
        columns: [{name: dt, type: STRING NOT NULL}, {name: total, type: DOUBLE}]
        partition_keys: [dt]
        partitions: {daily: {column: dt, start: 2024-01-01, end: 2024-02-01}}
        source: {python: "tests.pipelines.sources:totals"}
        depends_on: [shop.events]
        """,
        "totals.yaml",
    )
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5) + events("2024-01-03", 5, 6))

    lake.materialize("shop.events", partitions=("2024-01-01", "2024-01-03"))
    lake.materialize("shop.totals", partitions=("2024-01-01", "2024-01-02"))

    assert lake.rows("shop.totals") == [
        {"dt": "2024-01-01", "total": 3.0},
        {"dt": "2024-01-02", "total": 2.0},
    ]


def test_a_retry_that_finds_its_own_commit_writes_nothing_again(lake: Lake) -> None:
    lake.declare(EVENTS.replace("write: {engine: local}", "write: {engine: local, mode: append}"))
    lake.give(events("2024-01-01", 0, 3))
    first = lake.materialize(partitions="2024-01-01")

    continued = {"dagster/root_run_id": first.run_id, "dagster/is_resume_retry": "true"}
    again = lake.materialize(partitions="2024-01-01", tags=continued)

    assert again.materializations["2024-01-01"]["lakewright/already_committed"]
    assert lake.table().read().num_rows == 3
    assert len(lake.table().history.snapshots()) == 1


def test_a_retry_finds_its_own_commit_in_a_table_that_was_altered_meanwhile(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    first = lake.materialize(partitions="2024-01-01")
    lake.table().alter(RenameColumn("amount", "price"))

    continued = {"dagster/root_run_id": first.run_id, "dagster/is_resume_retry": "true"}
    again = lake.materialize(partitions="2024-01-01", tags=continued)

    assert again.materializations["2024-01-01"]["lakewright/already_committed"]
    lake.materialize(partitions="2024-01-01", fails=True)


def test_a_source_that_returns_something_else_is_told_what_to_return(lake: Lake) -> None:
    lake.declare(EVENTS)
    sources.give("shop.events", lambda request: 7)

    outcome = lake.materialize(partitions="2024-01-01", fails=True)

    assert "returned a int; return a pyarrow.Table, a DataFrame of pandas or S" in outcome.failure


def test_files_are_a_source_too(lake: Lake) -> None:
    import pyarrow.parquet as pq

    rows = events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5)
    pq.write_table(pa.Table.from_pylist(rows), lake.folder / "all.parquet")
    source = f'parquet: "{lake.folder}/*.parquet"'
    lake.declare(EVENTS.replace('python: "tests.pipelines.sources:rows"', source))

    lake.materialize(partitions="2024-01-02")

    assert lake.rows() == events("2024-01-02", 3, 5)


@pytest.mark.mission("FS11")
def test_a_run_may_compact_what_it_has_written_to(lake: Lake) -> None:
    lake.declare(EVENTS.replace("{engine: local}", "{engine: local, mode: append, compact: true}"))
    for first in (0, 1):
        lake.give(events("2024-01-01", first, first + 1))
        lake.materialize(partitions="2024-01-01")
    assert len(lake.table().at().files()) == 2

    lake.give(events("2024-01-01", 2, 3))
    outcome = lake.materialize(partitions="2024-01-01")

    told = outcome.materializations["2024-01-01"]
    assert told["lakewright/compacted_files_before"] == 3
    assert told["lakewright/compacted_files_after"] == 1
    assert len(lake.table().at().files()) == 1
    assert lake.rows() == events("2024-01-01", 0, 3)


@pytest.mark.mission("FS11")
def test_a_run_that_may_not_compact_publishes_nothing(lake: Lake) -> None:
    lake.declare(EVENTS + '    options: {write-only: "TRUE"}\n')
    lake.give(events("2024-01-01", 0, 3))
    outcome = lake.materialize(partitions="2024-01-01", config={"compact": True}, fails=True)
    assert "write-only=true" in outcome.failure
    assert lake.table().history.latest_snapshot() is None


def test_an_option_in_other_units_is_the_option_that_the_table_has(lake: Lake) -> None:
    lake.declare(
        EVENTS.replace("partition_keys", "options: {target-file-size: 8 mb}\n    partition_keys")
    )
    columns = (Column("dt", parse_data_type("STRING NOT NULL")),)
    columns += tuple(
        Column(name, parse_data_type(kind))
        for name, kind in (("id", "BIGINT NOT NULL"), ("amount", "DOUBLE"))
    )
    lake.catalog.create_table(
        "shop.events",
        SchemaSpec(
            columns=columns, partition_keys=("dt",), options={"target-file-size": "8388608"}
        ),
    )
    lake.give(events("2024-01-01", 0, 3))

    lake.materialize(partitions="2024-01-01")


def test_the_overview_of_a_table_shows_its_figures_as_of_the_write(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    lake.write_small_files("2024-01-01", 1)
    lake.give(events("2024-01-02", 3, 5))
    written = lake.materialize(partitions="2024-01-02").materializations["2024-01-02"]
    figures = dict(tuple(each.data.values()) for each in written["overview"].records)
    assert figures == {
        "size": size_text(sum(each.size_bytes for each in lake.table().at().partitions())),
        "files": "3",
        "small files": "3",
        "snapshots": "3",
    }
