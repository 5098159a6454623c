"""A workspace of declared tables in a temporary warehouse, run in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.storage.asset_check_execution_record import (
    COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES,
    AssetCheckExecutionRecord,
)
from dagster._core.test_utils import InProcessTestWorkspaceLoadTarget
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext

from lakewright.definitions import build_definitions
from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.orchestration.check_events import HEALTHY
from lakewright.platform.orchestration.names import UPKEEP, TableNames, UpkeepNames
from lakewright.platform.orchestration.resources import SparkResource, WarehouseResource
from lakewright.platform.tables.declaration_checks import SCHEMA_MATCHES, STORED_ROWS_FIT
from lakewright.storage import Catalog, Table
from tests.pipelines import sources
from tests.support.tables.invariants import assert_sound

LOCATION = """
import dagster as dg
from lakewright.definitions import build_definitions
from lakewright.platform.orchestration.resources import WarehouseResource

defs = dg.Definitions.merge(
    build_definitions([{tables!r}], warehouse=WarehouseResource(uri={warehouse!r})),
    dg.Definitions(executor=dg.in_process_executor),
)
"""
_OF_THE_STORED_TABLE = (SCHEMA_MATCHES, STORED_ROWS_FIT, HEALTHY)
EVENTS = """
    table: shop.events
    columns:
      - {name: dt, type: STRING NOT NULL}
      - {name: id, type: BIGINT NOT NULL}
      - {name: amount, type: DOUBLE}
    partition_keys: [dt]
    partitions:
      daily: {column: dt, start: 2024-01-01, end: 2024-02-01}
    source: {python: "tests.pipelines.sources:rows"}
    write: {engine: local}
    expectations:
      - {expect: expect_column_values_to_be_between, column: amount, min_value: 0}
      - {expect: expect_column_values_to_not_be_null, column: amount, severity: warning}
    maintenance:
      compaction: {min_bytes: 0 b, small_files: 3}
"""


def events(day: str, first: int, last: int, amount: float | None = 1.0) -> list[dict[str, Any]]:
    return [{"dt": day, "id": number, "amount": amount} for number in range(first, last)]


def ingest_job(
    definitions: dg.Definitions, *keys: dg.AssetKey, with_checks: bool = False
) -> dg.JobDefinition:
    """What Dagster runs to materialize assets; `with_checks` also those of the stored tables."""
    job = definitions.resolve_implicit_global_asset_job_def()
    asked = {
        each
        for each in job.asset_layer.asset_graph.asset_check_keys
        if each.asset_key in keys and (with_checks or each.name not in _OF_THE_STORED_TABLE)
    }
    return job.get_subset(asset_selection={*keys}, asset_check_selection=asked)


@dataclass
class Outcome:
    """What a run in this process did."""

    result: Any

    @property
    def success(self) -> bool:
        return bool(self.result.success)

    @property
    def run_id(self) -> str:
        return str(self.result.run_id)

    @property
    def failure(self) -> str:
        """Message of the step that failed, with the description on its page."""
        for event in self.result.all_events:
            if event.event_type_value == "STEP_FAILURE":
                data = event.event_specific_data
                said = data.user_failure_data.description if data.user_failure_data else ""
                return f"{said} {data.error.to_string() if data.error else ''}"
        return ""

    @property
    def materializations(self) -> dict[str | None, dict[str, Any]]:
        """By partition; those of rejects tables are not among them."""
        found = {}
        for event in self.result.all_events:
            if event.event_type_value == "ASSET_MATERIALIZATION":
                one = event.event_specific_data.materialization
                if one.asset_key.path[-1] == "rejects":
                    continue
                found[one.partition] = {key: each.value for key, each in one.metadata.items()}
        return found

    @property
    def observations(self) -> dict[str | None, dict[str, Any]]:
        found = {}
        for event in self.result.all_events:
            if event.event_type_value == "ASSET_OBSERVATION":
                one = event.event_specific_data.asset_observation
                found[one.partition] = {key: each.value for key, each in one.metadata.items()}
        return found

    @property
    def checks(self) -> dict[str, Any]:
        return {
            event.event_specific_data.check_name: event.event_specific_data
            for event in self.result.all_events
            if event.event_type_value == "ASSET_CHECK_EVALUATION"
        }

    @property
    def outputs(self) -> dict[str, Any]:
        """Metadata of the step's output."""
        found: dict[str, Any] = {}
        for event in self.result.all_events:
            if event.event_type_value == "STEP_OUTPUT":
                found |= {
                    key: each.value for key, each in event.event_specific_data.metadata.items()
                }
        return found


@dataclass
class Lake:
    """Declarations, the definitions made of them, and the instance that runs them.

    Assets are materialized `with_checks` of the stored table, which take as long as the rest, only
    where a test looks at them.
    """

    folder: Path
    instance: dg.DagsterInstance
    with_checks: bool = False
    cursors: dict[str, str | None] = field(default_factory=dict)
    _built: dict[tuple[tuple[str, bytes], ...], dg.Definitions] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "tables").mkdir()
        sources.forget()

    def declare(self, text: str, name: str = "tables.yaml") -> None:
        (self.folder / "tables" / name).write_text(dedent(text))

    @property
    def definitions(self) -> dg.Definitions:
        """Built once for what is declared, as a code server builds them once."""
        folder = self.folder / "tables"
        declared = tuple((path.name, path.read_bytes()) for path in sorted(folder.iterdir()))
        if declared not in self._built:
            spark = SparkResource(conf={"spark.sql.shuffle.partitions": "2"})
            self._built[declared] = build_definitions(
                [folder], warehouse=self.warehouse, spark=spark
            )
        return self._built[declared]

    def definitions_are(self, built: dg.Definitions) -> None:
        """Take these definitions for what is declared now."""
        folder = self.folder / "tables"
        declared = tuple((path.name, path.read_bytes()) for path in sorted(folder.iterdir()))
        self._built[declared] = built

    def forget_what_was_read(self) -> None:
        """What a restart of the code server forgets."""
        self._built.clear()

    @property
    def warehouse(self) -> WarehouseResource:
        return WarehouseResource(uri=str(self.folder / "warehouse"))

    @property
    def catalog(self) -> Catalog:
        return self.warehouse.catalog()

    def table(self, name: str = "shop.events") -> Table:
        return self.catalog.table(name)

    def rows(self, name: str = "shop.events") -> list[dict[str, Any]]:
        """All rows of a table, in a fixed order."""
        return sorted(self.table(name).read().to_pylist(), key=str)

    def give(self, rows: Sequence[Mapping[str, Any]] | pa.Table, name: str = "shop.events") -> None:
        """What the source returns from here on."""
        sources.give(name, rows)

    def materialize(
        self,
        *names: str,
        partitions: tuple[str, str] | str | None = None,
        config: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
        fails: bool | None = False,
    ) -> Outcome:
        """Run assets as the UI would: without a job, over a range of partitions or one."""
        tables = names or ("shop.events",)
        run_tags = dict(tags or {})
        if isinstance(partitions, str):
            run_tags["dagster/partition"] = partitions
        elif partitions is not None:
            run_tags["dagster/asset_partition_range_start"] = partitions[0]
            run_tags["dagster/asset_partition_range_end"] = partitions[1]
        run_config: dict[str, Any] = {}
        if config is not None:
            step = TableNames(tables[0]).identifier
            run_config = {"ops": {step: {"config": dict(config)}}}
        keys = [TableNames(name).asset_key for name in tables]
        job = ingest_job(self.definitions, *keys, with_checks=self.with_checks)
        return self._ran(job, fails, tags=run_tags, run_config=run_config)

    def _ran(self, job: dg.JobDefinition, fails: bool | None, **how: Any) -> Outcome:
        """Run a job, which fails or not as expected; None leaves that to the test."""
        result = job.execute_in_process(instance=self.instance, raise_on_error=False, **how)
        outcome = Outcome(result)
        assert fails is None or outcome.success is not fails, outcome.failure
        return outcome

    def check(
        self, check: str, name: str = "shop.events", *, fails: bool | None = False
    ) -> Outcome:
        """Run one check of a table alone, as the UI would: no asset is materialized."""
        key = dg.AssetCheckKey(TableNames(name).asset_key, check)
        job = self.definitions.resolve_implicit_global_asset_job_def()
        alone = job.get_subset(asset_selection=set(), asset_check_selection={key})
        return self._ran(alone, fails)

    def check_records(
        self, check: str, name: str = "shop.events"
    ) -> Sequence[AssetCheckExecutionRecord]:
        """The evaluations on the check's page, newest first."""
        key = dg.AssetCheckKey(TableNames(name).asset_key, check)
        return self.instance.event_log_storage.get_asset_check_execution_history(
            key, limit=100, status=COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES
        )

    def run(
        self, verb: str, name: str = "shop.events", *, fails: bool | None = False, **config: Any
    ) -> Outcome:
        """Run the job of a verb for a table."""
        dry_run = {key: config.pop(key) for key in ("dry_run",) if key in config}
        return self.run_verb(verb, {"tables": {name: config}, **dry_run}, fails=fails)

    def run_verb(
        self, verb: str, config: Mapping[str, Any], *, fails: bool | None = False, **tags: str
    ) -> Outcome:
        """Run a verb by the job of all verbs."""
        return self.run_job(UPKEEP, UpkeepNames().run_config(verb, config), fails=fails, **tags)

    def request(self, request: dg.RunRequest, *, fails: bool | None = False) -> Outcome:
        """Run what a sensor asked for, as the daemon would launch it."""
        assert request.job_name is not None
        return self.run_job(request.job_name, request.run_config, fails=fails, **request.tags)

    def run_checks(
        self,
        job: str,
        *names: str,
        config: Mapping[str, Any] | None = None,
        fails: bool | None = False,
    ) -> Outcome:
        """Run the checks of tables in a job of checks, as a schedule or the UI asks for them."""
        definition = self.definitions.resolve_job_def(job)
        assets = {TableNames(name).asset_key for name in names or ("shop.events",)}
        checks = {
            each
            for each in definition.asset_layer.asset_graph.asset_check_keys
            if each.asset_key in assets
        }
        chosen = definition.get_subset(asset_selection=set(), asset_check_selection=checks)
        return self._ran(chosen, fails, run_config=dict(config or {}))

    def run_job(
        self, job: str, run_config: Mapping[str, Any], *, fails: bool | None = False, **tags: str
    ) -> Outcome:
        definition = self.definitions.resolve_job_def(job)
        return self._ran(definition, fails, run_config=dict(run_config), tags=tags)

    def tick(self) -> Any:
        """Let the upkeep sensor look once."""
        return self.tick_of(UpkeepNames().sensor)

    def tick_of(self, sensor_name: str) -> Any:
        """Let a sensor look once, with the cursor of its last look.

        What it reports on assets goes to the instance, as the daemon would do.
        """
        sensor = self.definitions.get_repository_def().get_sensor_def(sensor_name)
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursors.get(sensor_name),
            sensor_name=sensor_name,
            resources={"lakewright_warehouse": self.warehouse},
        )
        answer = sensor.evaluate_tick(context)
        self.cursors[sensor_name] = answer.cursor
        for event in answer.asset_events:
            self.instance.report_runless_asset_event(event)
        return answer

    def failure_of(self, sensor_name: str) -> str:
        """What the tick of a sensor says, which must fail."""
        with pytest.raises((DeclarationError, dg.Failure)) as failed:
            self.tick_of(sensor_name)
        error = failed.value
        return str(error.description if isinstance(error, dg.Failure) else error)

    @property
    def wrong(self) -> str:
        """What is said of declarations that are wrong."""
        return self.failure_of(UpkeepNames().declarations_sensor)

    def write_small_files(self, day: str, count: int, name: str = "shop.events") -> None:
        """Commits of one row each, as somebody outside this platform would make them."""
        table = self.table(name)
        start = len(table.history.snapshots()) * 1000
        for number in range(count):
            rows = [{"dt": day, "id": start + number, "amount": 1.0}]
            table.write(pa.Table.from_pylist(rows, table.arrow_schema))

    def check_soundness(self) -> None:
        for database in self.catalog.list_databases():
            for table in self.catalog.list_tables(database):
                assert_sound(self.table(f"{database}.{table}"))


def opened(folder: Path) -> Iterator[Lake]:
    """A lake whose tables are checked when the test is over."""
    with dg.DagsterInstance.ephemeral() as instance:
        lake = Lake(folder, instance)
        yield lake
        lake.check_soundness()


@contextmanager
def loaded(lake: Lake) -> Iterator[WorkspaceProcessContext]:
    """The code location as the web server and the daemon load it."""
    # Python would import a file of one name once.
    file = lake.folder / f"location_{len(list(lake.folder.iterdir()))}.py"
    tables, warehouse = str(lake.folder / "tables"), str(lake.folder / "warehouse")
    file.write_text(LOCATION.format(tables=tables, warehouse=warehouse))
    origin = LoadableTargetOrigin(python_file=str(file), executable_path=sys.executable)
    target = InProcessTestWorkspaceLoadTarget(InProcessCodeLocationOrigin(origin))
    # Loading in this process names the location to all that is loaded later.
    load = DefinitionsLoadContext(load_type=DefinitionsLoadType.INITIALIZATION)
    with (
        DefinitionsLoadContext.scoped(load),
        WorkspaceProcessContext(lake.instance, target) as context,
    ):
        yield context
