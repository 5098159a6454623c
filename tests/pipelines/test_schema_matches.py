"""The check `schema_matches`: drift between table and declaration, before it does harm."""

from __future__ import annotations

import json

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationPlanned,
)
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from lakewright.platform.tables.declaration_checks import SCHEMA_MATCHES
from lakewright.storage import AddColumn, ChangeComment, RenameColumn, SetOption
from tests.pipelines import sources
from tests.pipelines.lake import EVENTS, Lake, events

CHECK = "schema_matches"
APPENDED = EVENTS.replace("{engine: local}", "{engine: local, mode: append}")
WRAPS = "values beyond -2147483648 to 2147483647 wrap around"
CHANGED = EVENTS.replace(
    "      - {name: amount, type: DOUBLE}\n",
    "      - {name: price, type: DOUBLE, was: amount}\n      - {name: city, type: STRING}\n",
).replace("column: amount", "column: price")


@pytest.fixture
def filled(lake: Lake) -> Lake:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    return lake


def test_the_check_runs_alone_and_passes_while_the_table_is_as_declared(lake: Lake) -> None:
    lake.declare(EVENTS)
    early = lake.check(CHECK)
    assert early.checks[CHECK].description == "table shop.events does not exist yet"
    assert not lake.catalog.table_exists("shop.events")
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    alone = lake.check(CHECK)
    assert alone.materializations == {}
    assert alone.checks[CHECK].passed
    assert alone.checks[CHECK].description == "schema 0 is as declared"


def test_a_run_whose_rows_would_not_fit_ends_at_the_failed_check(filled: Lake) -> None:
    filled.declare(CHANGED)
    filled.give([{"dt": "2024-01-02", "id": 9, "price": 2.0, "city": "Ulm"}])
    before = sorted(filled.folder.rglob("*")), len(sources.REQUESTS)
    refused = filled.materialize(partitions="2024-01-02", fails=True)
    told = refused.checks[CHECK]
    assert (told.passed, told.severity, told.blocking) == (False, dg.AssetCheckSeverity.ERROR, True)
    for reason in ("rename column amount to price", "add column city STRING"):
        assert reason in told.description
        assert reason in refused.failure
    # Neither a file was written nor the source asked.
    assert (sorted(filled.folder.rglob("*")), len(sources.REQUESTS)) == before
    # The page of the check shows this run, once.
    latest, *earlier = filled.check_records(CHECK)
    assert latest.status is AssetCheckExecutionRecordStatus.FAILED
    assert latest.run_id == refused.run_id
    assert refused.run_id not in {each.run_id for each in earlier}


def test_the_plan_is_a_table_of_changes_with_the_calls_that_make_them(filled: Lake) -> None:
    filled.declare(CHANGED.replace("id, type: BIGINT", "id, type: INT"))
    metadata = filled.check(CHECK).checks[CHECK].metadata
    assert metadata["plan"].value.splitlines() == [
        "| change | declared rows fit without it | what is lost |",
        "| --- | --- | --- |",
        "| rename column amount to price | no |  |",
        "| add column city STRING | no |  |",
        f"| change the type of column id to INT | no | {WRAPS} |",
    ]
    line = "lakewright alter shop.events --rename amount:price --add 'city STRING' --type id:INT"
    assert metadata["command line"].value == f"```sh\n{line}\n```"
    evolve = filled.definitions.resolve_job_def("upkeep")
    for entry, begins in (
        ("run config, as declared", {"shop.events": {}}),
        ("run config", {"shop.events": {"rename": ["amount:price"]}}),
    ):
        config = json.loads(metadata[entry].value.removeprefix("```json").removesuffix("```"))
        (asked,) = config["ops"]["upkeep"]["config"]["verb"]["evolve_schema"]["tables"].items()
        assert asked[0] == "shop.events"
        assert begins["shop.events"].items() <= asked[1].items()
        dg.validate_run_config(evolve, config)
    assert "verdict: deny" in metadata["gate"].value
    assert "explicit" in metadata["gate"].value


def test_drift_that_harms_no_row_is_a_warning_and_the_run_goes_on(filled: Lake) -> None:
    filled.declare(APPENDED)
    filled.table().alter(AddColumn("extra", "STRING"), ChangeComment("id", "who"))
    filled.give(events("2024-01-02", 3, 5))
    outcome = filled.materialize(partitions="2024-01-02")
    told = outcome.checks[CHECK]
    assert (told.passed, told.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert told.description == (
        "schema 1 has 1 difference from its declaration: drop column extra. Run the job `upkeep` "
        f"with `evolve_schema` for shop.events, or declare in "
        f"`{filled.folder}/tables/tables.yaml` what the table has"
    )
    assert "| drop column extra | yes | " in told.metadata["plan"].value
    # What the gate would say of a change is no matter of a run that writes rows.
    assert "gate" not in told.metadata
    runs = [each.run_id for each in filled.check_records(CHECK)]
    assert runs.count(outcome.run_id) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("upserts", [False, True])
def test_rows_are_replaced_beside_a_new_column_until_it_holds_values_there(
    lake: Lake, upserts: bool
) -> None:
    keyed = "    primary_key: [dt, id]\n" if upserts else ""
    lake.declare(EVENTS + keyed)
    for day in ("2024-01-01", "2024-01-02"):
        lake.give(events(day, 0, 3))
        lake.materialize(partitions=day)
    ahead = lake.table().alter(AddColumn("extra", "STRING"))
    lake.give(events("2024-01-01", 0, 4, 7.0))
    replaced = lake.materialize(partitions="2024-01-01")
    assert (replaced.checks[CHECK].passed, replaced.checks[CHECK].severity) == (
        False,
        dg.AssetCheckSeverity.WARN,
    )
    theirs = {"dt": "2024-01-02", "id": 1, "amount": 1.0, "extra": "theirs"}
    ahead.write(pa.Table.from_pylist([theirs], ahead.arrow_schema))
    lake.give(events("2024-01-02", 0, 4))
    refused = lake.materialize(partitions="2024-01-02", fails=True)
    assert "drop column extra" in refused.failure
    # The other partition has no value to lose.
    lake.give(events("2024-01-01", 0, 5, 8.0))
    lake.materialize(partitions="2024-01-01")
    assert theirs in lake.rows()
    assert sum(row["amount"] == 8.0 for row in lake.rows()) == 5


def test_a_run_that_overwrites_a_table_of_appends_asks_for_values_too(filled: Lake) -> None:
    filled.declare(APPENDED)
    ahead = filled.table().alter(AddColumn("extra", "STRING"))
    rows = [{"dt": "2024-01-02", "id": 9, "amount": 1.0, "extra": "theirs"}]
    ahead.write(pa.Table.from_pylist(rows, ahead.arrow_schema))
    filled.give(events("2024-01-02", 0, 4))
    refused = filled.materialize(partitions="2024-01-02", config={"mode": "overwrite"}, fails=True)
    assert "drop column extra" in refused.failure
    filled.materialize(partitions="2024-01-02")


UNPARTITIONED = (
    EVENTS.replace("    partition_keys: [dt]\n", "").split("    partitions:")[0]
    + """\
    source: {python: "tests.pipelines.sources:rows"}
    write: {engine: local}
"""
)


@pytest.mark.parametrize("with_checks", [True, False])
def test_a_run_that_publishes_in_another_mode_succeeds_with_one_result(
    lake: Lake, with_checks: bool
) -> None:
    lake.with_checks = with_checks
    lake.declare(UNPARTITIONED)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize()
    ahead = lake.table().alter(AddColumn("extra", "STRING"))
    theirs = [{"dt": "2024-01-01", "id": 9, "amount": 1.0, "extra": "theirs"}]
    ahead.write(pa.Table.from_pylist(theirs, ahead.arrow_schema))
    # The declared mode would replace the value of another client.
    lake.materialize(fails=True)
    config = {"mode": "append"}
    appended = lake.materialize(config=config)
    assert len(lake.rows()) == 7
    results = [
        (each.event_specific_data.passed, each.event_specific_data.severity)
        for each in appended.result.all_events
        if each.event_type_value == "ASSET_CHECK_EVALUATION"
        and each.event_specific_data.check_name == CHECK
    ]
    assert set(results) == {(False, dg.AssetCheckSeverity.WARN)}
    assert len(results) == (2 if with_checks else 1)


def test_a_table_that_others_write_shows_its_drift_and_refuses_nothing(filled: Lake) -> None:
    columns = EVENTS.split("partition_keys")[0]
    filled.declare(columns.replace("amount", "price"))
    told = filled.check(CHECK).checks[CHECK]
    assert (told.passed, told.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "refused" not in told.description


def test_the_verdict_of_the_check_counts_who_uses_a_column(filled: Lake) -> None:
    (filled.folder / "tables" / "daily.sql").write_text("SELECT amount FROM shop.events")
    filled.declare(CHANGED)
    gate = filled.check(CHECK).checks[CHECK].metadata["gate"].value
    assert "verdict: deny" in gate
    assert "daily.sql" in gate


def test_a_gate_that_cannot_answer_stops_neither_check_nor_sensor(filled: Lake) -> None:
    filled.table().alter(SetOption("alter-column-null-to-not-null.disabled", "false"))
    filled.tick_of("schema_sensor")
    (manifest,) = filled.folder.rglob("manifest/manifest-[!l]*-0")
    content = manifest.read_bytes()
    manifest.unlink()
    # Only manifests say whether there are nulls.
    filled.declare(EVENTS.replace("amount, type: DOUBLE", "amount, type: DOUBLE NOT NULL"))
    told = filled.check(CHECK)
    ticked = filled.tick_of("schema_sensor")
    manifest.write_bytes(content)
    assert "the gate could not be asked: " in told.checks[CHECK].metadata["gate"].value
    assert ticked.asset_events


def test_a_late_result_about_an_older_schema_is_replaced_and_nothing_is_proposed_again(
    filled: Lake,
) -> None:
    filled.tick_of("schema_sensor")
    early = filled.check_records(CHECK)[0].evaluation
    assert early is not None
    assert early.passed
    filled.declare(CHANGED)
    assert len(filled.tick_of("schema_sensor").asset_events) == 2
    filled.instance.report_runless_asset_event(early)
    (again,) = filled.tick_of("schema_sensor").asset_events
    assert isinstance(again, dg.AssetCheckEvaluation)
    assert not again.passed
    assert filled.tick_of("schema_sensor").skip_message is not None


@pytest.mark.mission("SE2")
def test_an_edited_declaration_is_proposed_on_the_asset_when_it_is_loaded_again(
    filled: Lake,
) -> None:
    def proposals() -> list[str]:
        key = dg.AssetKey(["shop", "events"])
        found = filled.instance.fetch_observations(key, limit=10).records
        seen = [each.asset_observation for each in found]
        return [
            str(each.metadata["command line"].value)
            for each in seen
            if each is not None and "plan" in each.metadata
        ]

    filled.tick_of("schema_sensor")
    assert proposals() == []
    filled.declare(CHANGED)
    filled.tick_of("schema_sensor")
    (proposed,) = proposals()
    assert "--rename amount:price --add 'city STRING'" in proposed
    assert filled.check_records(CHECK)[0].status is AssetCheckExecutionRecordStatus.FAILED
    assert filled.tick_of("schema_sensor").skip_message is not None
    assert len(proposals()) == 1

    filled.run("evolve_schema")
    filled.tick_of("schema_sensor")
    assert filled.check_records(CHECK)[0].status is AssetCheckExecutionRecordStatus.SUCCEEDED
    # Another client alters the table ahead of its declaration.
    filled.table().alter(RenameColumn("city", "town"))
    filled.tick_of("schema_sensor")
    assert "--drop town --add 'city STRING'" in proposals()[0]


def test_a_check_of_the_declaration_cannot_take_the_name(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWRIGHT_STRICT", "1")
    lake.declare(
        EVENTS.replace(
            "column: amount, min_value: 0", f"column: amount, min_value: 0, name: {CHECK}"
        )
    )
    with pytest.raises(Exception, match="'schema_matches' is a check of every table"):
        _ = lake.definitions


def test_a_run_that_has_only_planned_the_check_does_not_stop_the_sensor(lake: Lake) -> None:
    lake.catalog.create_database("shop")
    lake.catalog.create_table("shop.orders", {"id": "BIGINT"})
    lake.declare("table: shop.orders\ncolumns: [{name: id, type: BIGINT}]")
    assert lake.tick_of("schema_sensor").asset_events
    run = lake.instance.create_run_for_job(dg.GraphDefinition(name="queued").to_job())
    planned = AssetCheckEvaluationPlanned(
        asset_key=dg.AssetKey(["shop", "orders"]), check_name=SCHEMA_MATCHES
    )
    lake.instance.report_dagster_event(
        dg.DagsterEvent(
            dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value,
            "queued",
            event_specific_data=planned,
        ),
        run.run_id,
    )
    lake.forget_what_was_read()

    assert not lake.tick_of("schema_sensor").asset_events
    lake.catalog.table("shop.orders").alter(RenameColumn("id", "number"))
    assert lake.tick_of("schema_sensor").asset_events


def test_one_sensor_compares_many_tables_some_in_a_tick_with_a_cursor_of_a_few_bytes(
    lake: Lake,
) -> None:
    names = [f"shop.t{number:02}" for number in range(60)]
    lake.catalog.create_database("shop")
    for name in names:
        lake.catalog.create_table(name, {"id": "BIGINT"})
    told = "\n---\n".join(f"table: {each}\ncolumns: [{{name: id, type: BIGINT}}]" for each in names)
    lake.declare(told)
    first, second = lake.tick_of("schema_sensor"), lake.tick_of("schema_sensor")
    assert [len(each.asset_events) for each in (first, second)] == [50, 10]
    assert first.cursor is None
    assert len(second.cursor) == 16
    # Nothing is compared again after a restart.
    lake.forget_what_was_read()
    assert not lake.tick_of("schema_sensor").asset_events
    # A table that cannot be compared keeps no other from it.
    (lake.folder / "warehouse/shop.db/t00/schema/schema-0").write_text("{")
    lake.table("shop.t01").alter(RenameColumn("id", "number"))
    evaluation, proposed = lake.tick_of("schema_sensor").asset_events
    assert isinstance(proposed, dg.AssetObservation)
    assert evaluation.asset_key == dg.AssetKey(["shop", "t01"])
    lake.catalog.drop_table("shop.t00", grace_ms=0)
