"""The job `validate_schema`: a sample of every schema version, read under the current schema."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import dagster as dg
import pytest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from lakewright.storage import AddColumn, ChangeType, RenameColumn, SetOption
from tests.pipelines.lake import EVENTS, Lake, events
from tests.support.tables.builders import ANY_LOSS

CHECK = "stored_rows_fit_schema"


@pytest.fixture
def filled(lake: Lake) -> Lake:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3, 500.0))
    lake.materialize(partitions="2024-01-01")
    table = lake.table().alter(RenameColumn("amount", "price"), AddColumn("city", "STRING"))
    lake.declare(
        EVENTS.replace("amount", "price").replace(
            "    partition_keys", "      - {name: city, type: STRING}\n    partition_keys"
        )
    )
    lake.give([{"dt": "2024-01-02", "id": 9, "price": 2.0, "city": "Ulm"}])
    lake.materialize(partitions="2024-01-02")
    assert {each.schema_id for each in table.upkeep.plan_validate_rows().files} == {0, 1}
    return lake


def test_the_job_reports_every_schema_version_and_passes(filled: Lake) -> None:
    outcome = filled.run_checks("validate_schema")
    assert outcome.materializations == {}
    assert sorted(outcome.checks) == ["schema_matches", CHECK]
    told = outcome.checks[CHECK]
    assert told.passed
    assert told.description == (
        "shop.events: 4 rows of 2 files and 2 schema versions read under schema 1, all fit"
    )
    assert [each.data for each in told.metadata["versions"].value.records] == [
        {
            "schema_id": schema_id,
            "files": 1,
            "rows": rows,
            "sampled_files": 1,
            "sampled_rows": rows,
            "misfits": 0,
        }
        for schema_id, rows in ((0, 3), (1, 1))
    ]


def test_values_that_a_cast_loses_fail_the_check_with_the_file_and_its_schema(filled: Lake) -> None:
    filled.table().alter(SetOption("lakewright.cast-mode", "explicit"))
    filled.table().alter(ChangeType("price", "TINYINT"), rules=ANY_LOSS)
    outcome = filled.check(CHECK)
    told = outcome.checks[CHECK]
    assert (told.passed, told.severity) == (False, dg.AssetCheckSeverity.ERROR)
    # The check shows; it stops nothing.
    assert not told.blocking
    (line,) = told.metadata["reasons"].value.splitlines()
    assert line.startswith("- schema 0, file dt=2024-01-01/data-")
    assert "3 of the sampled values change as they are read, such as 500.0" in line
    assert "DOUBLE to TINYINT" in line
    versions = {row.data["schema_id"]: row.data for row in told.metadata["versions"].value.records}
    assert (versions[0]["misfits"], versions[1]["misfits"]) == (1, 0)


def test_rows_that_cannot_be_read_are_told(filled: Lake) -> None:
    filled.table().alter(SetOption("lakewright.cast-mode", "explicit"))
    filled.table().alter(ChangeType("city", "INT"), rules=ANY_LOSS)
    told = filled.check(CHECK).checks[CHECK]
    assert not told.passed
    assert "'Ulm' cannot be read as INT" in told.metadata["reasons"].value
    filled.table().alter(ChangeType("city", "STRING"), rules=ANY_LOSS)


def test_the_sample_is_as_large_as_the_declaration_says_or_the_run(lake: Lake) -> None:
    lake.declare(EVENTS + "    schema: {validation: {rows_per_file: 2, schedule: '0 5 * * 1'}}\n")
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    assert "2 rows of 1 file" in lake.check(CHECK).checks[CHECK].description
    config = {"ops": {"shop__events__checks": {"config": {"rows_per_file": 1}}}}
    asked = lake.run_checks("validate_schema", config=config)
    assert "1 row of 1 file" in asked.checks[CHECK].description


def declare_two(lake: Lake) -> None:
    """Two tables with rows."""
    for name in ("shop.events", "shop.orders"):
        lake.declare(EVENTS.replace("shop.events", name), f"{name}.yaml")
    for name in ("shop.events", "shop.orders"):
        lake.give(events("2024-01-01", 0, 3), name)
        lake.materialize(name, partitions="2024-01-01")


def test_the_results_of_one_run_stand_on_the_assets_of_its_tables(lake: Lake) -> None:
    declare_two(lake)
    done = lake.run_checks("validate_schema", "shop.events", "shop.orders")
    for name in ("shop.events", "shop.orders"):
        for check in ("schema_matches", CHECK):
            # As the check's own step tells it.
            (newest, *_) = lake.check_records(check, name)
            assert newest.run_id == done.run_id
            alone = lake.check(check, name).checks[check]
            found = newest.evaluation
            assert found is not None
            assert (found.passed, found.severity) == (True, alone.severity)
            assert found.description == alone.description
            assert found.metadata == alone.metadata


def test_a_table_that_cannot_be_read_hides_no_result_of_the_others(lake: Lake) -> None:
    declare_two(lake)
    lake.declare(EVENTS.replace("shop.events", "shop.damaged"), "damaged.yaml")
    lake.give(events("2024-01-01", 0, 3), "shop.damaged")
    lake.materialize("shop.damaged", partitions="2024-01-01")
    schema = lake.folder / "warehouse" / "shop.db" / "damaged" / "schema" / "schema-0"
    whole = schema.read_text()
    schema.write_text("{")

    done = lake.run_checks(
        "validate_schema", "shop.events", "shop.damaged", "shop.orders", fails=True
    )

    schema.write_text(whole)
    assert "CorruptionError" in done.failure
    for name in ("shop.events", "shop.orders"):
        for check in ("schema_matches", CHECK):
            newest = lake.check_records(check, name)[0]
            assert newest.run_id == done.run_id
            assert newest.status is AssetCheckExecutionRecordStatus.SUCCEEDED
    for check in ("schema_matches", CHECK):
        told = lake.check_records(check, "shop.damaged")
        assert done.run_id not in [each.run_id for each in told]


def ask(lake: Lake, schedule: str, at: str) -> list[dg.RunRequest]:
    """The runs that a schedule asks for at a moment."""
    found = lake.definitions.get_repository_def().get_schedule_def(schedule)
    moment = dt.datetime.fromisoformat(at)
    context = dg.build_schedule_context(lake.instance, scheduled_execution_time=moment)
    return list(found.evaluate_tick(context).run_requests or ())


def test_a_tick_asks_for_the_tables_that_are_due_in_few_runs(lake: Lake) -> None:
    for number in range(60):
        lake.declare(EVENTS.replace("shop.events", f"shop.t{number:02}"), f"t{number:02}.yaml")
    weekly = EVENTS + "    schema: {validation: {schedule: '0 5 * * 1'}}\n"
    lake.declare(weekly)
    lake.declare(
        EVENTS.replace("shop.events", "shop.never")
        + "    schema: {validation: {enabled: false}}\n",
        "never.yaml",
    )
    berlin = "    schema: {validation: {timezone: Europe/Berlin}}\n"
    lake.declare(EVENTS.replace("shop.events", "shop.berlin") + berlin, "berlin.yaml")
    schedules = {each.name: each for each in lake.definitions.get_repository_def().schedule_defs}
    utc, zone = "validate_schema_schedule", "validate_schema_schedule__Europe_Berlin"
    assert set(schedules) == {utc, zone}
    assert schedules[utc].cron_schedule == ["0 5 * * 1", "47 4 * * *"]
    assert schedules[zone].cron_schedule == "47 4 * * *"

    daily = ask(lake, utc, "2026-11-23T04:47:00+00:00")
    assert [len(_tables(each)) for each in daily] == [25, 25, 10]
    asked = [table for each in daily for table in _tables(each)]
    assert asked == [f"shop.t{number:02}" for number in range(60)]
    assert all(each.tags["lakewright/table"] == ", ".join(_tables(each)) for each in daily)
    assert len({each.run_key for each in daily}) == 3
    (monday,) = ask(lake, utc, "2026-11-23T05:00:00+00:00")
    assert _tables(monday) == ["shop.events"]
    (berlins,) = ask(lake, zone, "2026-11-23T04:47:00+01:00")
    assert _tables(berlins) == ["shop.berlin"]
    assert {each.name for each in monday.asset_check_keys or ()} == {"schema_matches", CHECK}


def _tables(request: dg.RunRequest) -> list[str]:
    keys = request.asset_check_keys or ()
    return list(dict.fromkeys(".".join(each.asset_key.path) for each in keys))


def test_what_a_schedule_writes_leaves_the_step_of_checks_out(lake: Lake) -> None:
    lake.declare(EVENTS + "    schedule: '0 5 * * *'\n")
    (schedule,) = [
        each
        for each in lake.definitions.get_repository_def().schedule_defs
        if each.name == "ingest_schedule__shop__events"
    ]
    ingest = lake.definitions.resolve_job_def(schedule.job_name)
    steps = {node.name for node in ingest.graph.nodes}
    assert steps == {"shop__events"}


def test_the_check_has_no_dry_run_which_would_replace_the_last_result(lake: Lake) -> None:
    lake.declare(EVENTS)
    config = {"ops": {"shop__events__checks": {"config": {"dry_run": True}}}}
    with pytest.raises(dg.DagsterInvalidConfigError, match="dry_run"):
        lake.run_checks("validate_schema", config=config)


def test_a_table_that_others_write_is_validated_too(lake: Lake) -> None:
    lake.declare("table: shop.events\n")
    told = lake.run_checks("validate_schema").checks
    assert told[CHECK].description == "table shop.events does not exist yet"
    assert "schema_matches" not in told


def test_a_rejected_day_does_not_make_the_check_of_the_published_ones_red(lake: Lake) -> None:
    lake.with_checks = True
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 4, amount=-1.0))
    outcome = lake.materialize(partitions=("2024-01-01", "2024-01-02"), fails=True)
    assert "rejected 1 partition of shop.events" in outcome.failure
    (record,) = lake.check_records(CHECK)
    assert record.status is AssetCheckExecutionRecordStatus.SUCCEEDED
    told = outcome.checks[CHECK]
    assert told.passed
    assert told.description == (
        "shop.events: 3 rows of 1 file and 1 schema version read under schema 0, all fit"
    )

    # A rejection of all rows leaves the table as it is, and the check too.
    lake.give(events("2024-01-02", 3, 4, amount=-1.0))
    rejected = lake.materialize(partitions="2024-01-02", fails=True)
    assert "nothing was published" in rejected.failure
    assert rejected.checks[CHECK].description == told.description


def test_a_write_that_fails_before_its_rows_tells_that_the_check_was_not_evaluated(
    lake: Lake,
) -> None:
    lake.with_checks = True
    lake.declare(EVENTS)

    def broken(*_: object) -> None:
        raise ConnectionError("no connection to the source")

    lake.give(broken)
    outcome = lake.materialize(partitions="2024-01-01", fails=True)
    assert "no connection to the source" in outcome.failure
    told = outcome.checks[CHECK]
    assert told.passed
    assert told.description == "not evaluated: the write failed"


def test_a_failed_write_of_the_ingest_job_which_lacks_the_check_evaluates_it_not(
    lake: Lake,
) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-02", 3, 4, amount=-1.0))
    outcome = lake.materialize(partitions="2024-01-02", fails=True)
    assert "nothing was published" in outcome.failure
    assert CHECK not in outcome.checks


def test_a_run_that_writes_reads_stored_rows_only_after_a_change_of_the_schema(lake: Lake) -> None:
    lake.with_checks = True
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    first = lake.materialize(partitions="2024-01-01").checks[CHECK]
    assert "3 rows of 1 file" in first.description

    lake.give(events("2024-01-02", 3, 5))
    again = lake.materialize(partitions="2024-01-02").checks[CHECK]
    assert (again.passed, again.description) == (True, first.description)
    # Who asks for the check gets a sample of now.
    assert "5 rows of 2 files" in lake.check(CHECK).checks[CHECK].description

    lake.table().alter(AddColumn("note", "STRING"))
    lake.give(events("2024-01-03", 5, 6))
    altered = lake.materialize(partitions="2024-01-03").checks[CHECK]
    assert "read under schema 1" in altered.description


def test_stored_rows_are_judged_without_great_expectations(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    code = (
        "import sys\n"
        "from lakewright.platform.ingest.validate_schema import VALIDATE_SCHEMA, ValidateRun\n"
        "from lakewright.platform.upkeep.procedure import Work, carry_out\n"
        "from lakewright.storage import Catalog\n"
        "table = Catalog.open(sys.argv[1]).table('shop.events')\n"
        "work = Work(run='it', session=None)\n"
        "assert carry_out(VALIDATE_SCHEMA, table, ValidateRun(), work).result.has_passed\n"
        "assert not [name for name in sys.modules if name.startswith('great_expectations')]\n"
    )
    warehouse = str(lake.folder / "warehouse")
    subprocess.run([sys.executable, "-c", code, warehouse], check=True)
