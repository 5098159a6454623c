"""The upkeep sensor over many tables: few runs, budgets, shadows, and no stuck state."""

from __future__ import annotations

import re

import dagster as dg
import pytest
from dagster._core.definitions.definitions_load_context import (
    DefinitionsLoadContext,
    DefinitionsLoadType,
)
from dagster._core.test_utils import create_run_for_test

from lakewright.cli import main
from lakewright.definitions import build_definitions
from lakewright.jobs import upkeep_sensor
from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.ledger.action import Verdict
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.orchestration import past_runs as past_runs_module
from lakewright.platform.orchestration.names import UpkeepNames
from lakewright.platform.orchestration.past_runs import _RUNS, past_runs
from lakewright.storage import LeaseKind
from lakewright.storage.env import SystemEnv
from lakewright.storage.operations.leases.leases import LeaseRequest, leased, whole_table
from tests.pipelines.lake import EVENTS, Lake, events
from tests.support.processes.alert_receivers import webhook
from tests.support.tables.builders import rows

SHARED = "maintenance: {compaction: {min_bytes: 0 b, small_files: 3}}"


@pytest.fixture
def many(lake: Lake) -> Lake:
    """Ten tables that others write, each with four small files."""
    lake.declare(
        "tables:\n" + "".join(f"  - {{table: shop.t{at}, {SHARED}}}\n" for at in range(10))
    )
    for at in range(10):
        fill(lake, f"shop.t{at}", 4)
    return lake


def fill(lake: Lake, name: str, files: int) -> None:
    table = lake.catalog.create_table(name, {"k": "INT"}, if_not_exists=True)
    for number in range(files):
        table.write(rows(table, [{"k": number}]))


def asked(request: dg.RunRequest) -> list[str]:
    (config,) = request.run_config["ops"][request.job_name]["config"]["verb"].values()
    return list(config["tables"])


def test_ten_due_tables_take_one_run_and_then_nothing_is_due(many: Lake) -> None:
    (request,) = many.tick().run_requests
    assert asked(request) == [f"shop.t{at}" for at in range(10)]
    many.request(request)
    for at in range(10):
        assert many.table(f"shop.t{at}").at().partitions()[0].file_count == 1
    recorded = Ledger(many.catalog).actions(verb="compact")
    assert [each.verdict for each in recorded] == [Verdict.DONE] * 10
    assert all(each.predicted_cost and each.predicted_cost.files == 4 for each in recorded)
    assert many.tick().skip_message == "looked at 10 tables: nothing is due"


def test_a_tick_logs_what_has_changed_and_a_quiet_one_nothing(
    lake: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    lake.declare(f"tables:\n  - {{table: shop.t0, {SHARED}}}\n")
    fill(lake, "shop.t0", 1)
    lake.tick()
    (warning,) = capfd.readouterr().err.splitlines()
    # The instances of tests have none.
    assert "run_monitoring is not enabled in dagster.yaml" in warning
    quiet = lake.tick()
    assert quiet.skip_message == "looked at 1 table: nothing is due"
    assert not capfd.readouterr().err
    fill(lake, "shop.t0", 4)
    assert lake.tick().run_requests
    (line,) = capfd.readouterr().err.splitlines()
    assert "shop.t0" in line


def test_a_run_over_tables_shows_what_came_of_each_and_of_one_table_its_plan(many: Lake) -> None:
    (request,) = many.tick().run_requests
    shown = many.request(request).outputs
    assert list(shown) == [f"shop.t{at}" for at in range(10)]
    assert "4 files became 1" in shown["shop.t3"]
    fill(many, "shop.t3", 4)
    alone = many.run("compact", "shop.t3").outputs
    assert alone["table"] == "shop.t3"
    assert "5 files became 1" in alone["result"]
    assert alone["lakewright/files_before"] == 5


def test_a_table_that_cannot_be_kept_keeps_no_other_from_its_upkeep(many: Lake) -> None:
    (request,) = many.tick().run_requests
    schema = many.folder / "warehouse" / "shop.db" / "t4" / "schema" / "schema-0"
    kept = schema.read_text()
    schema.write_text("no JSON")
    outcome = many.request(request, fails=True)
    schema.write_text(kept)
    assert "1 table of 10 could not be kept: shop.t4: " in outcome.failure
    counts = [many.table(f"shop.t{at}").at().partitions()[0].file_count for at in range(10)]
    assert counts == [1, 1, 1, 1, 4, 1, 1, 1, 1, 1]


def test_a_table_whose_lease_is_held_is_left_to_a_later_run_and_the_others_are_done(
    many: Lake,
) -> None:
    (request,) = many.tick().run_requests
    files = many.table("shop.t4").table_files
    held = LeaseRequest(kind=LeaseKind.OVERWRITE, scope=whole_table(files), holder="a writer")
    with leased(files, held):
        outcome = many.request(request)
    assert outcome.success, outcome.failure
    counts = [many.table(f"shop.t{at}").at().partitions()[0].file_count for at in range(10)]
    assert counts == [1, 1, 1, 1, 4, 1, 1, 1, 1, 1]
    assert "a writer has all of the table to overwrite" in outcome.outputs["deferred"]
    answer = many.tick()
    assert not answer.run_requests
    assert "and is again from " in answer.skip_message


def test_a_run_begins_with_no_table_in_the_second_half_of_its_time(many: Lake) -> None:
    (request,) = many.tick().run_requests
    assert request.tags["dagster/max_runtime"] == "21600"
    tags = {**request.tags, "dagster/max_runtime": "0"}
    outcome = many.run_job("upkeep", request.run_config, **tags)
    counts = [many.table(f"shop.t{at}").at().partitions()[0].file_count for at in range(10)]
    assert counts == [1, *[4] * 9]
    assert outcome.outputs["deferred"].startswith("shop.t1: half of the run's time is over; ")


def test_what_a_run_left_to_a_later_one_is_not_done(many: Lake) -> None:
    (request,) = many.tick().run_requests
    many.run_job("upkeep", request.run_config, **{**request.tags, "dagster/max_runtime": "0"})
    now_ms = SystemEnv().now_ms()
    past = past_runs(many.instance, UpkeepNames(), [], ["compact"], now_ms=now_ms)
    assert list(past.done_ms) == [("shop.t0", "compact")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("status", [dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.SUCCESS])
def test_however_a_run_ends_a_commit_to_its_table_makes_it_due_again(
    many: Lake, status: dg.DagsterRunStatus
) -> None:
    (request,) = many.tick().run_requests
    create_run_for_test(
        many.instance,
        job_name="upkeep",
        status=status,
        run_config=dict(request.run_config),
        tags=request.tags,
    )
    assert not many.tick().run_requests
    fill(many, "shop.t3", 1)
    (again,) = many.tick().run_requests
    assert asked(again) == ["shop.t3"]


def test_a_run_that_was_killed_is_made_up_for_at_once_and_one_killed_again_later(
    many: Lake,
) -> None:
    keys = set()
    for _ in range(2):
        (request,) = many.tick().run_requests
        keys.add(request.run_key)
        # A tick that is evaluated again asks for the same run.
        (again,) = many.tick().run_requests
        assert again.run_key == request.run_key
        is_killed(many, request)
    # Dagster launches a key once.
    assert len(keys) == 2
    answer = many.tick()
    assert not answer.run_requests
    assert "was asked for already in this state, and is again from " in answer.skip_message


def is_killed(many: Lake, request: dg.RunRequest) -> None:
    """What is left of a run that the daemon launched for a request, and that was killed."""
    create_run_for_test(
        many.instance,
        job_name="upkeep",
        status=dg.DagsterRunStatus.FAILURE,
        run_config=dict(request.run_config),
        tags={**request.tags, "dagster/run_key": str(request.run_key)},
    )


def others_ran(many: Lake) -> None:
    """More runs of the verb than a look reads, all of other tables."""
    for _ in range(_RUNS):
        create_run_for_test(
            many.instance,
            job_name="upkeep",
            tags={"lakewright/verb": "compact"},
            status=dg.DagsterRunStatus.SUCCESS,
        )


def test_the_tries_of_a_killed_run_are_known_after_many_runs_of_other_tables(many: Lake) -> None:
    for _ in range(2):
        (request,) = many.tick().run_requests
        is_killed(many, request)
        others_ran(many)
    answer = many.tick()
    assert not answer.run_requests
    assert "was asked for already in this state, and is again from " in answer.skip_message


def test_what_is_asked_for_again_has_a_new_key_after_many_runs_of_other_tables(
    many: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a day after, when no delay depends on those runs any more.
    monkeypatch.setattr(past_runs_module, "_MOST_RUNS", _RUNS)
    keys = set()
    for _ in range(3):
        (request,) = many.tick().run_requests
        keys.add(request.run_key)
        is_killed(many, request)
        others_ran(many)
    assert len(keys) == 3


def test_another_policy_is_tried_at_once_where_runs_came_to_nothing(lake: Lake) -> None:
    lake.declare(f"table: shop.events\n{SHARED}\n")
    fill(lake, "shop.events", 4)
    (request,) = lake.tick().run_requests
    is_killed(lake, request)
    (request,) = lake.tick().run_requests
    is_killed(lake, request)
    assert "was asked for already in this state" in lake.tick().skip_message
    lake.declare(f"table: shop.events\n{SHARED.replace('3}', '4}')}\n")
    (request,) = lake.tick().run_requests
    lake.request(request)


def test_a_dropped_and_a_recreated_table_are_decided_anew(many: Lake) -> None:
    many.tick()
    many.catalog.drop_table("shop.t1")
    (request,) = many.tick().run_requests
    assert "shop.t1" not in asked(request)
    fill(many, "shop.t1", 5)
    (request,) = many.tick().run_requests
    assert "shop.t1" in asked(request)


def test_a_declaration_in_shadow_is_decided_and_recorded_and_never_asked_for(lake: Lake) -> None:
    lake.declare(
        "table: shop.events\n"
        "maintenance: {mode: shadow, compaction: {min_bytes: 0 b, small_files: 3}}\n"
    )
    fill(lake, "shop.events", 4)
    answer = lake.tick()
    assert not answer.run_requests
    assert answer.skip_message.startswith(
        "looked at 1 table: 1 verb is due in tables in shadow mode, "
    )
    lake.tick()
    (action,) = Ledger(lake.catalog).actions()
    assert (action.verdict, action.verb) == (Verdict.SHADOW, "compact")


def test_policies_are_read_again_when_their_file_changes(lake: Lake) -> None:
    fill(lake, "shop.events", 4)
    policy = lake.folder / "policy.yaml"
    policy.write_text("warehouse: {compaction: {min_bytes: 0 b, small_files: 9}}\n")
    lake.declare("table: shop.other\n")
    built = build_definitions(
        [lake.folder / "tables"], warehouse=lake.warehouse, policies=[policy], adopted=["*"]
    )
    lake.definitions_are(built)
    assert lake.tick().skip_message == "looked at 1 table: nothing is due"
    policy.write_text("warehouse: {compaction: {min_bytes: 0 b, small_files: 3}}\n# longer\n")
    (request,) = lake.tick().run_requests
    assert asked(request) == ["shop.events"]
    lake.request(request)
    lake.tick()
    fill(lake, "shop.events", 4)
    policy.write_text("warehouse: {compaction: {small_flies: 3}}\n")
    assert "1 verb due, for which the next tick asks" in lake.failure_of(UpkeepNames().sensor)
    (by_before,) = lake.tick().run_requests
    assert asked(by_before) == ["shop.events"]
    policy.write_text("warehouse: {compaction: {min_bytes: 0 b, small_files: 4}}\n")
    (again,) = lake.tick().run_requests
    assert asked(again) == ["shop.events"]


@pytest.mark.parametrize(
    ("declared", "policy", "seconds"),
    [
        ("", "{}", 30),
        ("", "{interval: 5min}", 300),
        ("interval: 20s", "{}", 20),
        ("interval: 2min", "{}", 120),
        ("interval: 2min", "{interval: 5min}", 120),
        ("interval: 2min", "{interval: 10s}", 10),
    ],
)
def test_the_sensor_looks_as_often_as_is_written_and_else_every_half_minute(
    lake: Lake, declared: str, policy: str, seconds: int
) -> None:
    lake.declare(
        f"tables:\n  - {{table: shop.t0, maintenance: {{compaction: {{{declared}}}}}}}\n"
        "  - table: shop.t1\n"
    )
    (lake.folder / "policy.yaml").write_text(f"warehouse: {policy}\n")
    built = build_definitions(
        [lake.folder / "tables"],
        warehouse=lake.warehouse,
        policies=[lake.folder / "policy.yaml"],
        adopted=["*"],
    )
    sensor = built.get_repository_def().get_sensor_def(UpkeepNames().sensor)
    assert sensor.minimum_interval_seconds == seconds


def test_a_look_that_takes_long_goes_on_with_the_rest_at_the_next_one(
    many: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep_sensor, "_LOOK_MS", 0)
    answer = many.tick()
    assert answer.skip_message == (
        "looked at 0 tables: nothing is due; 10 tables left for the next look"
    )
    monkeypatch.undo()
    (request,) = many.tick().run_requests
    assert len(asked(request)) == 10


def test_reports_that_take_long_come_table_by_table_and_none_is_left_out(
    many: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep_sensor, "_TELL_MS", 0)
    told = [{each.asset_key for each in many.tick().asset_events} for _ in range(10)]
    assert all(len(each) == 1 for each in told)
    assert len(set.union(*told)) == 10


def test_a_run_that_waited_does_what_the_policy_of_its_tick_asked_for(lake: Lake) -> None:
    lake.declare(f"table: shop.events\n{SHARED}\n")
    fill(lake, "shop.events", 4)
    (request,) = lake.tick().run_requests
    asked = request.run_config["ops"]["upkeep"]["config"]["verb"]["compact"]["tables"][
        "shop.events"
    ]
    assert (asked["min_files"], asked["verify"]) == (3, "checksums")
    # Edited while the run waits: by this, nothing would be due.
    lake.declare("table: shop.events\nmaintenance: {compaction: {small_files: 99}}\n")
    lake.request(request)
    assert lake.table("shop.events").at().partitions()[0].file_count == 1


@pytest.mark.parametrize(
    "policy", ["freeze: true", "mode: shadow", "compaction: {enabled: false, small_files: 3}"]
)
def test_a_run_that_waited_leaves_a_table_alone_whose_policy_changed(
    lake: Lake, policy: str
) -> None:
    lake.declare(f"table: shop.events\n{SHARED}\n")
    fill(lake, "shop.events", 4)
    (request,) = lake.tick().run_requests
    lake.declare(f"table: shop.events\nmaintenance: {{{policy}}}\n")
    lake.request(request)
    assert lake.table("shop.events").at().partitions()[0].file_count == 4


def test_what_runs_in_flight_may_read_counts_as_spent(lake: Lake) -> None:
    for at in range(3):
        fill(lake, f"shop.t{at}", 4)
    size = lake.table("shop.t0").at().partitions()[0].size_bytes
    policy = lake.folder / "policy.yaml"
    policy.write_text(
        "warehouse: {compaction: {min_bytes: 0 b, small_files: 3}, "
        f"budget: {{bytes: {size + 50} b}}}}\n"
    )
    lake.definitions_are(
        build_definitions([], warehouse=lake.warehouse, policies=[policy], adopted=["*"])
    )
    (request,) = lake.tick().run_requests
    assert len(asked(request)) == 1
    create_run_for_test(
        lake.instance,
        job_name="upkeep",
        status=dg.DagsterRunStatus.STARTED,
        run_config=dict(request.run_config),
        tags=request.tags,
    )
    answer = lake.tick()
    assert not answer.run_requests
    assert ": shop.t1: " in answer.skip_message
    assert "left of the day's budget" in answer.skip_message


def test_the_page_of_a_table_names_the_budget_that_keeps_it_waiting(lake: Lake) -> None:
    for at in range(2):
        fill(lake, f"shop.t{at}", 4)
    size = lake.table("shop.t0").at().partitions()[0].size_bytes
    policy = lake.folder / "policy.yaml"
    policy.write_text(
        "warehouse: {compaction: {min_bytes: 0 b, small_files: 3}}\n"
        f"databases:\n  shop: {{budget: {{bytes: {size + 50} b}}}}\n"
    )
    lake.definitions_are(
        build_definitions([], warehouse=lake.warehouse, policies=[policy], adopted=["*"])
    )
    answer = lake.tick()
    (request,) = answer.run_requests
    (table,) = asked(request)
    (page,) = [
        each
        for each in answer.asset_events
        if isinstance(each, dg.AssetCheckEvaluation)
        and each.asset_key != dg.AssetKey(table.split("."))
        and each.asset_key.path[0] == "shop"
    ]
    waits = str(page.metadata["deferred"].value)
    assert "left of the day's budget of database shop" in waits
    assert f"{policy}:3)" in waits


def test_the_cursor_is_the_time_of_the_tick_as_a_person_reads_it(many: Lake) -> None:
    answer = many.tick()
    assert answer.cursor is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", answer.cursor)


def test_while_a_policy_file_is_wrong_ticks_fail_and_the_policies_of_before_decide(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    policy = lake.folder / "policy.yaml"

    def load(load_type: DefinitionsLoadType = DefinitionsLoadType.INITIALIZATION) -> dg.Definitions:
        with DefinitionsLoadContext.scoped(DefinitionsLoadContext(load_type=load_type)):
            return build_definitions(
                [lake.folder / "tables"], warehouse=lake.warehouse, policies=[policy]
            )

    right = (
        "warehouse:\n  alerts: {webhook: '${OUR_HOOK}'}\n"
        "  compaction: {min_bytes: 0 b, small_files: 3}\n"
    )
    policy.write_text(right)
    lake.definitions_are(load())
    lake.materialize(partitions="2024-01-01")
    lake.tick()
    policy.write_text(right.replace("small_files", "small_flies"))
    with webhook() as (url, texts):
        monkeypatch.setenv("OUR_HOOK", url)
        lake.write_small_files("2024-01-01", 4)
        failure = lake.failure_of(UpkeepNames().sensor)
        # What fails loses its requests and events: the next tick has them.
        ticked = lake.tick()
        told = [each for each in ticked.asset_events if "**Policy**" in each.description]
        assert "policy.yaml:3: " in told[0].description
        assert len(ticked.run_requests) == 1
        assert "policy.yaml:3: " in failure
        assert "did you mean 'small_files'" in failure
        assert "upkeep uses the last valid policies" in failure
        (text,) = texts
        assert "policies are wrong: " in text
        assert "policy.yaml:3: " in text

        # A code server that starts now, and the processes of its runs, never read the right ones.
        lake.definitions_are(load())
        lake.failure_of(UpkeepNames().sensor)
        (request,) = lake.tick().run_requests
        lake.definitions_are(load(DefinitionsLoadType.RECONSTRUCTION))
        lake.request(request)
        assert lake.table().at().partitions()[0].file_count == 1
        checked = lake.check("healthy").result.get_asset_check_evaluations()
        assert "**Policy**" in checked[0].description

        policy.write_text(right)
        lake.tick()
        policy.write_text(right.replace("small_files", "small_flies"))
        lake.failure_of(UpkeepNames().sensor)
        assert len(texts) == 2


def test_commands_use_the_last_valid_policies_that_the_sensor_has_kept(
    stored: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = stored
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    policy = lake.folder / "policy.yaml"
    policy.write_text("warehouse: {compaction: {min_bytes: 0 b, small_files: 3}}\n")
    lake.definitions_are(
        build_definitions([lake.folder / "tables"], warehouse=lake.warehouse, policies=[policy])
    )
    lake.materialize(partitions="2024-01-01")
    lake.tick()
    lake.write_small_files("2024-01-01", 4)
    policy.write_text("warehouse: {compaction: {min_bytes: 0 b, small_flies: 3}}\n")
    upkeep = ["--warehouse", lake.warehouse.uri, "upkeep", "--policy", str(policy)]
    monkeypatch.chdir(lake.folder)

    assert main(upkeep) == 2
    refused = capsys.readouterr().err
    assert "policy.yaml:1: " in refused
    assert "no valid policies of before are known" in refused

    monkeypatch.setenv("DAGSTER_HOME", lake.instance.root_directory)
    assert main(upkeep) == 0
    assert "upkeep uses the last valid policies until this is right" in capsys.readouterr().err
    assert lake.table().at().partitions()[0].file_count == 1


def test_a_policy_that_was_never_right_fails_ticks_and_runs_and_tables_are_written(
    lake: Lake,
) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    policy = lake.folder / "policy.yaml"
    policy.write_text("warehouse: {mod: live}\n")
    with DefinitionsLoadContext.scoped(
        DefinitionsLoadContext(load_type=DefinitionsLoadType.INITIALIZATION)
    ):
        lake.definitions_are(
            build_definitions([lake.folder / "tables"], warehouse=lake.warehouse, policies=[policy])
        )
    with pytest.raises(DeclarationError, match="did you mean 'mode'"):
        lake.tick()
    lake.materialize(partitions="2024-01-01")
    assert "policy.yaml:1: " in lake.run("compact", fails=True).failure
