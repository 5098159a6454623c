"""A wrong declaration stops its own table; its error has its line, and other tables work."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.definitions_load_context import (
    DefinitionsLoadContext,
    DefinitionsLoadType,
)
from dagster_graphql.test.utils import execute_dagster_graphql

from lakewright.definitions import build_definitions
from lakewright.demo.dagster_server import DagsterServer
from lakewright.platform.documents.variables import STRICT_VARIABLE
from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.orchestration.names import TableNames
from lakewright.project.new import SETTINGS
from lakewright.storage import Catalog
from tests.pipelines.describe import describe
from tests.pipelines.lake import EVENTS, Lake, events, ingest_job, loaded

WRONG = TableNames("shop.wrong")
STREAM = """
    table: shop.wrong
    columns: [{name: id, type: BIGINT}]
    source:
      stream: {connector: datagen, options: {number-of-rows: "3"}}
    automation: {continuous: 1m}
"""
# What is in the file, and what is said of it.
MISTAKES = {
    "a key that is unknown": (
        STREAM.replace("automation:", "automatoin:"),
        "wrong.yaml:6: automatoin: unknown key 'automatoin'",
    ),
    "a value that does not fit": (
        STREAM.replace("1m", "1s"),
        "wrong.yaml:6: automation",
    ),
    "no YAML": (STREAM + "    columns: [\n", "wrong.yaml:"),
    "no declaration": ("- 1\n", "a declaration is a mapping"),
    "a table that another file declares": (
        STREAM.replace("shop.wrong", "shop.more"),
        "table shop.more is declared in",
    ),
    "what Dagster refuses": (
        STREAM + "    owners: [nobody]\n",
        "wrong.yaml:7: owners[0]: 'nobody' is no owner",
    ),
    "a password": (
        STREAM.replace('number-of-rows: "3"', "password: hunter2"),
        "wrong.yaml:5: source.stream.options.password: option password of the source holds a sec",
    ),
    "policies": ("warehouse: {mode: live}\n", "these are policies of upkeep"),
}
MORE = "table: shop.more\n"


def declared(lake: Lake, text: str = STREAM) -> None:
    lake.declare(EVENTS, "events.yaml")
    lake.declare(MORE, "more.yaml")
    lake.declare(text, "wrong.yaml")


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.sampled(3)
def test_a_wrong_declaration_is_told_with_its_line_and_stops_no_other_table(
    lake: Lake, mistake: str
) -> None:
    text, told = MISTAKES[mistake]
    declared(lake, text)
    lake.give(events("2024-01-01", 0, 3))

    lake.materialize(partitions="2024-01-01")

    assert len(lake.rows()) == 3
    said = lake.wrong
    assert told in said
    assert "hunter2" not in said
    assert "shop.events" not in said


def test_a_test_may_ask_that_all_declarations_are_right(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared(lake, STREAM.replace("automation", "automatoin"))
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    with pytest.raises(DeclarationError, match="did you mean 'automation'"):
        _ = lake.definitions


def test_the_table_keeps_its_page_whose_runs_and_sensor_say_why(lake: Lake) -> None:
    declared(lake, STREAM.replace("automation:", "automatoin:"))
    told = "wrong.yaml:6: automatoin: unknown key 'automatoin'; did you mean 'automation'?"

    spec = lake.definitions.resolve_asset_graph().get(WRONG.asset_key)
    assert told in (spec.description or "")
    (reference,) = spec.metadata["dagster/code_references"].code_references
    assert reference.line_number == 6
    assert told in lake.materialize("shop.wrong", fails=True).failure
    replay = {"ops": {"replay_rejects": {"config": {"table": "shop.wrong"}}}}
    assert told in lake.run_job("replay_rejects", replay, fails=True).failure
    said = lake.failure_of(WRONG.stream_sensor)
    assert told in said


def test_a_declaration_that_is_put_right_is_served_after_a_reload(lake: Lake) -> None:
    declared(lake, STREAM.replace("automation", "automatoin"))
    before = lake.definitions
    declared(lake)
    lake.definitions_are(before)
    said = lake.wrong
    assert "reload it" in said
    lake.forget_what_was_read()
    assert "3 declarations: nothing is wrong" in lake.tick_of("declarations_sensor").skip_message
    lake.materialize("shop.wrong")
    assert len(lake.rows("shop.wrong")) == 3


def test_a_declaration_that_becomes_wrong_fails_its_own_runs_and_is_told_at_once(
    lake: Lake,
) -> None:
    declared(lake)
    lake.give(events("2024-01-01", 0, 3))
    before = lake.definitions
    assert "nothing is wrong" in lake.tick_of("declarations_sensor").skip_message
    declared(lake, STREAM.replace("automation", "automatoin"))
    # The code server has the definitions of before, and asks for runs by them.
    lake.definitions_are(before)
    said = lake.wrong
    assert "wrong.yaml:6: automatoin" in said
    (request,) = lake.tick_of(WRONG.stream_sensor).run_requests
    assert request is not None

    # The process of a run loads them anew, with the job of this sensor.
    with DefinitionsLoadContext.scoped(
        DefinitionsLoadContext(load_type=DefinitionsLoadType.RECONSTRUCTION)
    ):
        in_run = build_definitions([lake.folder / "tables"], warehouse=lake.warehouse)
    repository = in_run.get_repository_def()
    (target,) = repository.get_sensor_def(WRONG.stream_sensor).targets
    job = repository.get_job(target.job_name)
    failed_run = job.execute_in_process(instance=lake.instance, raise_on_error=False)
    assert not failed_run.success
    (failure,) = failed_run.filter_events(lambda each: each.event_type_value == "STEP_FAILURE")
    assert "wrong.yaml:6: automatoin" in str(failure.step_failure_data.user_failure_data)
    assert (
        ingest_job(in_run, dg.AssetKey(["shop", "events"]))
        .execute_in_process(instance=lake.instance, partition_key="2024-01-01")
        .success
    )


def test_tables_that_depend_on_a_wrong_one_go_on(lake: Lake) -> None:
    lake.declare(EVENTS, "events.yaml")
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    lake.declare(EVENTS.replace("DOUBLE", "DUBLE"), "events.yaml")
    lake.declare(
        """
        table: shop.daily
        columns: [{name: n, type: BIGINT, from: [shop.events.id]}]
        source: {python: "tests.pipelines.sources:rows"}
        depends_on: [shop.events]
        """,
        "daily.yaml",
    )
    # A name that is declared, if wrongly, is no slip of the pen for another one.
    lake.declare("table: shop.event\n", "event.yaml")
    lake.give([{"n": 1}], "shop.daily")
    lake.materialize("shop.daily")
    assert lake.rows("shop.daily") == [{"n": 1}]
    said = describe(lake.definitions)
    assert "asset shop/daily in shop\n    after shop/events" in said
    assert "asset shop/events in shop\n" in said


def test_of_tables_in_a_circle_one_is_wrong(lake: Lake) -> None:
    one = "table: a.one\ncolumns: [{name: x, type: INT}]\nsource: {python: 'a:b'}\ndepends_on: [%s]"
    lake.declare(one % "a.two", "one.yaml")
    lake.declare((one % "a.one").replace("table: a.one", "table: a.two"), "two.yaml")
    said = lake.wrong
    assert "in a circle: a.one → a.two → a.one" in said
    describe(lake.definitions)


# --- upkeep ---------------------------------------------------------------------------------------


@pytest.fixture
def kept(lake: Lake) -> Callable[[], dg.Definitions]:
    """A warehouse of three tables with small files, which a policy keeps."""
    (lake.folder / "policy.yaml").write_text(
        "warehouse: {mode: live, compaction: {small_files: 2, min_bytes: 0 b}}\n"
    )
    lake.catalog.create_database("shop")
    for name in ("events", "wrong", "other"):
        table = lake.catalog.create_table(f"shop.{name}", {"id": "BIGINT"})
        for number in range(4):
            table.write(pa.Table.from_pylist([{"id": number}], table.arrow_schema))

    def load() -> dg.Definitions:
        built = build_definitions(
            [lake.folder / "tables"],
            warehouse=lake.warehouse,
            policies=[lake.folder / "policy.yaml"],
            adopted=["*"],
        )
        lake.definitions_are(built)
        return built

    return load


def asked(lake: Lake) -> set[str]:
    config = [each.run_config["ops"]["compact"]["config"] for each in lake.tick().run_requests]
    return {table for each in config for table in each["tables"] if table.startswith("shop.")}


EVENTS_OF_OTHERS = "table: shop.events\n"
KEEPING_ALL = "table: shop.wrong\nmaintenance: {compaction: {enabled: false}, snapshot: {}}\n"


def test_a_table_whose_declaration_is_wrong_is_not_kept_by_what_the_policies_say(
    lake: Lake, kept: Callable[[], dg.Definitions]
) -> None:
    lake.declare(EVENTS_OF_OTHERS, "events.yaml")
    lake.declare(KEEPING_ALL, "wrong.yaml")
    kept()
    assert asked(lake) == {"shop.events", "shop.other"}
    assert "wrong.yaml:2: " in lake.run("compact", "shop.wrong", fails=True).failure
    lake.run("compact", "shop.other")


def test_where_it_is_unknown_which_table_is_meant_tables_without_a_declaration_wait(
    lake: Lake, kept: Callable[[], dg.Definitions]
) -> None:
    lake.declare(EVENTS_OF_OTHERS, "events.yaml")
    lake.declare("tabel: shop.wrong\n", "wrong.yaml")
    kept()
    assert asked(lake) == {"shop.events"}
    assert "wrong.yaml:1: " in lake.run("compact", "shop.other", fails=True).failure
    lake.run("compact", "shop.events")


def test_a_change_of_a_schema_asks_what_a_wrong_declaration_may_use(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    without = EVENTS.replace("      - {name: amount, type: DOUBLE}\n", "").split("    expectations")
    lake.declare(without[0] + "    schema: {on_destructive: allow}\n")
    lake.declare("table: shop.daily\ndepends: [shop.events]\n", "daily.yaml")
    outcome = lake.run("evolve_schema", dry_run=True, fails=None)
    assert "daily.yaml:2" in f"{outcome.failure} {outcome.outputs}"


def test_wrong_policies_stop_the_upkeep_alone_from_the_start(
    lake: Lake, kept: Callable[[], dg.Definitions]
) -> None:
    lake.declare(EVENTS, "events.yaml")
    (lake.folder / "policy.yaml").write_text("warehouse: {mod: live}\n")
    kept()
    said = lake.failure_of("upkeep_sensor")
    assert "policy.yaml:1: " in said
    assert "policy.yaml:1: " in lake.run("compact", "shop.other", fails=True).failure
    assert "nothing is wrong" in lake.tick_of("declarations_sensor").skip_message


# --- the pages of Dagster -------------------------------------------------------------------------

SENSORS = """{
  workspaceOrError { ... on Workspace { locationEntries { locationOrLoadError { __typename } } } }
  sensorsOrError(repositorySelector: {
    repositoryName: "__repository__", repositoryLocationName: "LOCATION"
  }) { ... on Sensors { results { name } } ... on PythonError { message } }
}"""


@pytest.mark.filterwarnings("ignore:Property `ScheduleDefinition.environment_vars` is deprecated")
def test_the_page_of_sensors_answers(tmp_path: Path) -> None:
    home, folder = tmp_path / "dagster", tmp_path / "lake"
    home.mkdir()
    folder.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        lake = Lake(folder, instance)
        declared(lake, STREAM.replace("automation", "automatoin"))
        with loaded(lake) as context:
            request = context.create_request_context()
            (name,) = request.code_location_names
            answer: Any = execute_dagster_graphql(request, SENSORS.replace("LOCATION", name))
    assert answer.errors is None, answer.errors
    (entry,) = answer.data["workspaceOrError"]["locationEntries"]
    assert entry["locationOrLoadError"]["__typename"] == "RepositoryLocation"
    sensors = {each["name"] for each in answer.data["sensorsOrError"]["results"]}
    assert {"declarations_sensor", "schema_sensor", WRONG.stream_sensor} <= sensors


TICKS = """query Ticks($name: String!) { sensorOrError(sensorSelector: {
  repositoryName: "__repository__", repositoryLocationName: "lakewright.definitions",
  sensorName: $name
}) { ... on Sensor {
  sensorState { ticks(limit: 1) { status error { causes { message } } } }
} } }"""


@pytest.mark.deep
def test_the_daemon_runs_other_streams_while_a_declaration_is_wrong(tmp_path: Path) -> None:
    """From the start, and after a file was edited while the location runs."""
    for name in ("home", "tables"):
        (tmp_path / name).mkdir()
    (tmp_path / "home" / "dagster.yaml").write_bytes(SETTINGS.read_bytes())
    tables = tmp_path / "tables"
    right, wrong = dedent(STREAM), dedent(STREAM.replace("automation", "automatoin"))
    (tables / "first.yaml").write_text(right.replace("shop.wrong", "shop.first"))
    (tables / "edited.yaml").write_text(right.replace("shop.wrong", "shop.edited"))
    (tables / "wrong.yaml").write_text(wrong)
    environment = {
        "LAKEWRIGHT_TABLES": str(tables),
        "LAKEWRIGHT_WAREHOUSE": str(tmp_path / "warehouse"),
    }
    catalog = Catalog.open(str(tmp_path / "warehouse"))

    def until(holds: Callable[[], bool]) -> None:
        for _ in range(1200):
            if holds():
                return
            time.sleep(0.5)
        raise AssertionError("it did not happen within ten minutes")

    def is_filled(table: str) -> bool:
        return catalog.table_exists(table) and catalog.table(table).read().num_rows == 3

    with DagsterServer(None, tmp_path / "home", environment) as server:

        def fails_with(sensor: str, told: str) -> bool:
            state = server.query(TICKS, name=sensor)["sensorOrError"]["sensorState"]
            return any(tick["status"] == "FAILURE" and told in str(tick) for tick in state["ticks"])

        until(lambda: is_filled("shop.first") and is_filled("shop.edited"))
        until(lambda: fails_with("declarations_sensor", "wrong.yaml:6: automatoin"))
        until(lambda: fails_with(WRONG.stream_sensor, "wrong.yaml:6: automatoin"))
        (tables / "edited.yaml").write_text(wrong.replace("shop.wrong", "shop.edited"))
        until(lambda: fails_with("declarations_sensor", "edited.yaml:6: automatoin"))
        # The process of the next run loads the declarations anew.
        catalog.drop_table("shop.first")
        until(lambda: is_filled("shop.first"))
    assert not catalog.table_exists("shop.wrong")
