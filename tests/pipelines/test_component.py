"""The component: the same definitions in a project that is not ours."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
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
from dagster._core.definitions.repository_definition import RepositoryLoadData
from dagster._core.test_utils import create_run_for_test
from dagster.components.component_scaffolding import scaffold_object
from dagster.components.core.component_tree import ComponentTreeException

from lakewright.component import LakehouseTables, Table
from lakewright.definitions import build_definitions
from lakewright.platform.decide.adopted import parse_adopted, read_adopted, write_adopted
from lakewright.platform.documents.variables import STRICT_VARIABLE
from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.storage import Catalog
from lakewright.storage.errors import CorruptionError
from tests.pipelines import sources
from tests.pipelines.describe import describe
from tests.pipelines.lake import EVENTS, events, ingest_job


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project as `create-dagster project` lays it out."""
    root = tmp_path / "their_project"
    package = root / "src" / "their_project"
    (package / "defs" / "lake" / "tables").mkdir(parents=True)
    (root / "pyproject.toml").write_text(
        '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "their_project"\n'
    )
    (package / "__init__.py").touch()
    (package / "defs" / "__init__.py").touch()
    (package / "defs" / "lake" / "tables" / "events.yaml").write_text(dedent(EVENTS))
    monkeypatch.syspath_prepend(str(root / "src"))
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == "their_project"]:
        del sys.modules[name]


def write_component(project: Path, folder: str, attributes: str) -> None:
    (project / "defs" / folder).mkdir(exist_ok=True)
    (project / "defs" / folder / "defs.yaml").write_text(
        f"type: lakewright.component.LakehouseTables\nattributes:\n{attributes}"
    )


def wrong_in(loaded: dg.Definitions) -> str:
    """What the sensor of declarations fails with."""
    sensors = loaded.get_repository_def().sensor_defs
    (sensor,) = (each for each in sensors if each.name.endswith("declarations_sensor"))
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_sensor_context(
            instance=instance, resources={"lakewright_warehouse": WarehouseResource()}
        ) as context,
        pytest.raises(DeclarationError) as raised,
    ):
        sensor.evaluate_tick(context)
    return str(raised.value)


def test_a_defs_yaml_gives_asset_checks_jobs_sensor_and_schedule(project: Path) -> None:
    write_component(project, "lake", f"  warehouse: {project}/warehouse\n")

    loaded = dg.load_from_defs_folder(path_within_project=project)

    said = describe(loaded)
    assert "asset shop/events in shop, 31 partitions, single run" in said
    assert "blocking check amount_between" in said
    for job in ("lake__upkeep", "lake__undo"):
        assert f"job {job} " in said
    assert "sensor lake__upkeep_sensor: " in said
    # The project's own executor is the project's business.
    assert loaded.executor is None
    warehouse = loaded.resources["lakewright_warehouse"]
    assert warehouse.location == f"{project}/warehouse"


def test_a_scaffolded_component_can_be_run_at_once(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project.parent.parent
    monkeypatch.chdir(root)
    folder = project / "defs" / "fresh"
    component = "lakewright.component.LakehouseTables"
    # What `dg scaffold defs` calls.
    scaffold_object(folder, component, None, "yaml", root)

    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()
    # Runs begin in folders of their own.
    monkeypatch.chdir(elsewhere)
    loaded = dg.load_from_defs_folder(path_within_project=project)
    job = ingest_job(loaded, dg.AssetKey(["shop", "orders"]))
    with dg.DagsterInstance.ephemeral() as instance:
        assert job.execute_in_process(instance=instance).success
    assert Catalog.open(str(root / "warehouse")).table("shop.orders").read().num_rows == 3
    # A second one leaves the tables of a person as they are.
    (folder / "tables" / "orders.yaml").write_text("table: shop.mine\n")
    scaffold_object(folder, component, None, "yaml", root)
    assert (folder / "tables" / "orders.yaml").read_text() == "table: shop.mine\n"


def test_a_component_without_tables_is_no_error(project: Path) -> None:
    folder = project / "defs" / "lake"
    (folder / "tables" / "events.yaml").unlink()
    write_component(project, "lake", "  warehouse: wh\n")
    loaded = dg.load_from_defs_folder(path_within_project=project)
    assert loaded.resources["lakewright_warehouse"].location == str(folder / "wh")
    # A checkout has no empty folder.
    (folder / "tables").rmdir()
    dg.Definitions.validate_loadable(dg.load_from_defs_folder(path_within_project=project))
    write_component(project, "lake", "  warehouse: s3://bucket/wh\n  tables: [tables]\n")
    assert "no such file or folder" in wrong_in(
        dg.load_from_defs_folder(path_within_project=project)
    )
    (folder / "tables").mkdir()
    loaded = dg.load_from_defs_folder(path_within_project=project)
    assert loaded.resources["lakewright_warehouse"].location == "s3://bucket/wh"


def test_values_may_come_from_the_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEIR_WAREHOUSE", "/data/theirs")
    write_component(project, "lake", "  warehouse: '{{ env.THEIR_WAREHOUSE }}'\n")
    loaded = dg.load_from_defs_folder(path_within_project=project)
    assert loaded.resources["lakewright_warehouse"].location == "/data/theirs"


def test_two_components_share_a_warehouse_or_have_one_each(project: Path) -> None:
    other = project / "defs" / "other"
    (other / "tables").mkdir(parents=True)
    (other / "tables" / "more.yaml").write_text("table: shop.more\n")
    write_component(project, "lake", "  warehouse: /data/one\n")

    write_component(project, "other", "  warehouse: /data/one\n")
    said = describe(dg.load_from_defs_folder(path_within_project=project))
    assert "asset shop/events" in said
    assert "asset shop/more" in said

    write_component(project, "other", "  warehouse: /data/two\n  resource_prefix: second\n")
    loaded = dg.load_from_defs_folder(path_within_project=project)
    assert loaded.resources["second_warehouse"].location == "/data/two"


def test_an_asset_refers_to_the_line_of_its_declaration_and_names_the_upkeep_sensor(
    project: Path,
) -> None:
    file = project / "defs" / "lake" / "tables" / "events.yaml"
    file.write_text("\n# The events of the shop.\n" + dedent(EVENTS).lstrip())
    write_component(project, "lake", f"  warehouse: {project}/warehouse\n")
    loaded = dg.load_from_defs_folder(path_within_project=project)
    graph = loaded.get_repository_def().asset_graph
    metadata = graph.get(dg.AssetKey(["shop", "events"])).metadata
    references = metadata["dagster/code_references"].code_references
    assert dg.LocalFileCodeReference(file_path=str(file), line_number=3) in references
    assert metadata["lakewright/upkeep_sensor"] == dg.MetadataValue.text("lake__upkeep_sensor")
    assert metadata["job of upkeep"] == dg.MetadataValue.text("lake__upkeep")
    assert metadata["job of validate_schema"] == dg.MetadataValue.text("lake__validate_schema")


def test_what_is_wrong_with_a_declaration_names_its_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_component(project, "lake", "  tables: [tables]\n")
    file = project / "defs" / "lake" / "tables" / "events.yaml"
    file.write_text(file.read_text().replace("DOUBLE", "DUBLE"))
    loaded = dg.load_from_defs_folder(path_within_project=project)
    assert "events.yaml:6: columns[2].type: " in wrong_in(loaded)
    # `dg check defs` of a test is to fail.
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    with pytest.raises(ComponentTreeException) as raised:
        dg.load_from_defs_folder(path_within_project=project)
    assert "events.yaml:6: columns[2].type: " in str(raised.value.__cause__)


def test_a_table_whose_declaration_is_wrong_keeps_its_key(project: Path) -> None:
    write_component(project, "lake", f"  warehouse: {project}/warehouse\n  key_prefix: [ours]\n")
    file = project / "defs" / "lake" / "tables" / "events.yaml"
    file.write_text(file.read_text().replace("DOUBLE", "DUBLE"))
    loaded = dg.load_from_defs_folder(path_within_project=project)
    assert "asset ours/shop/events in shop\n" in describe(loaded)


@pytest.mark.parametrize("wrong", ["adoptt: ['crm.*']", "tables: tables", "spark_conf: {a: [1]}"])
def test_an_attribute_that_is_unknown_or_of_another_type_is_refused_by_name(
    project: Path, wrong: str
) -> None:
    write_component(project, "lake", f"  {wrong}\n")
    with pytest.raises(ComponentTreeException) as raised:
        dg.load_from_defs_folder(path_within_project=project)
    assert wrong.split(":", maxsplit=1)[0] in str(raised.value.__cause__)


@pytest.fixture
def orders(tmp_path: Path) -> Catalog:
    """A warehouse with a table that is not declared."""
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    catalog.create_database("crm")
    columns = {"id": "BIGINT NOT NULL", "city": "STRING"}
    table = catalog.create_table(
        "crm.orders",
        columns,
        primary_keys=["id"],
        comment="All orders.",
        options={"owner": "sales@shop.example"},
    )
    table.write(pa.Table.from_pylist([{"id": 1, "city": "Oslo"}], table.arrow_schema))
    return catalog


def test_adopted_tables_are_assets_from_a_state_file_without_looking_at_the_warehouse(
    project: Path, orders: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_component(project, "lake", f"  warehouse: {orders.uri}\n  adopt: ['crm.*']\n")
    before = dg.load_from_defs_folder(path_within_project=project)
    assert "asset crm/orders" not in describe(before)

    component = LakehouseTables(warehouse=orders.uri, adopt=["crm.*"])
    asyncio.run(component.refresh_state(project.parent.parent))
    monkeypatch.setattr(Catalog, "list_tables", _refuse)
    monkeypatch.setattr(Catalog, "table", _refuse)
    loaded = dg.load_from_defs_folder(path_within_project=project)

    said = describe(loaded)
    assert "asset crm/orders in crm\n    pools none\n    check healthy\n" in said
    assert "asset shop/events in shop" in said
    graph = loaded.get_repository_def().asset_graph
    node = graph.get(dg.AssetKey(["crm", "orders"]))
    assert node.is_external
    assert node.description.startswith("All orders.\n\nPrimary key `id`, ")
    assert "merged by `deduplicate`" in node.description
    assert node.metadata["dagster/table_name"] == "crm.orders"
    # Files of a keyed table may hold several versions of a row.
    assert "dagster/row_count" not in node.metadata
    sensor = dg.MetadataValue.text("lake__upkeep_sensor")
    assert node.metadata["lakewright/upkeep_sensor"] == sensor
    columns = node.metadata["dagster/column_schema"].columns
    assert [(each.name, each.type) for each in columns] == [("id", "BIGINT"), ("city", "STRING")]


def test_the_asset_of_an_adopted_table_tells_who_owns_it_and_which_line_keeps_it(
    tmp_path: Path, orders: Catalog
) -> None:
    options = {"comment": "Of the notebook.", "owner": "ada"}
    orders.create_table("crm.notes", {"id": "BIGINT"}, options=options)
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "warehouse: {mode: live}\ntables:\n  crm.orders:\n    compaction: {small_files: 7}\n"
    )
    definitions = build_definitions(
        [],
        warehouse=WarehouseResource(uri=orders.uri),
        policies=[policy],
        adopted=["crm.*"],
        adopted_tables=read_adopted(orders, ["crm.*"]),
    )
    graph = definitions.get_repository_def().asset_graph
    notes, kept = (graph.get(dg.AssetKey(["crm", each])) for each in ("notes", "orders"))
    told, keys, times, _ = kept.description.split("\n\n")
    (commit,) = orders.table("crm.orders").history.snapshots()
    assert (told, kept.owners) == ("All orders.", ["sales@shop.example"])
    assert keys == "Primary key `id`, rows of a key are merged by `deduplicate`."
    assert times.startswith(f"Written by `{commit.commit_user}`, last at ")
    assert ". Created at " in times
    assert kept.metadata["lakewright/small_files_policy"] == 7
    assert kept.metadata["lakewright/upkeep_sensor"].value == "upkeep_sensor"
    # Dagster takes no bare name of a user for an owner.
    assert (notes.description.split("\n\n")[0], notes.owners) == ("Of the notebook.", [])
    assert notes.metadata["owner"] == "ada"
    for node, line in ((notes, 1), (kept, 3)):
        references = node.metadata["dagster/code_references"].code_references
        place = dg.LocalFileCodeReference(file_path=str(policy), line_number=line)
        assert references == [place]


def test_assets_link_the_jobs_and_the_sensor_that_keep_them(project: Path, orders: Catalog) -> None:
    policy = project / "policy.yaml"
    policy.write_text("warehouse: {mode: live}\n")
    orders.create_table("crm.notes", {"id": "BIGINT"})
    data = RepositoryLoadData(code_location_name="our lake")
    served = DefinitionsLoadContext(DefinitionsLoadType.INITIALIZATION, data)
    with DefinitionsLoadContext.scoped(served):
        definitions = build_definitions(
            [project / "defs" / "lake" / "tables"],
            warehouse=WarehouseResource(uri=orders.uri),
            policies=[policy],
            adopted=["crm.*"],
            adopted_tables=read_adopted(orders, ["crm.*"]),
        )
    graph = definitions.get_repository_def().asset_graph
    for key in (["shop", "events"], ["crm", "notes"]):
        metadata = graph.get(dg.AssetKey(key)).metadata
        sensor = dg.MetadataValue.url("/locations/our%20lake/sensors/upkeep_sensor")
        assert metadata["lakewright/upkeep_sensor"] == sensor
    # It has no comment.
    told = graph.get(dg.AssetKey(["crm", "notes"])).description
    *_, kept = told.split("\n\n")
    assert kept == f"Kept by `{policy}`, mode live; no declaration names it."


def test_the_sensor_asks_for_a_run_that_makes_an_asset_of_a_new_table(
    project: Path, orders: Catalog
) -> None:
    write_component(project, "lake", f"  warehouse: {orders.uri}\n  adopt: ['crm.*']\n")
    resources = {"lakewright_warehouse": WarehouseResource(uri=orders.uri)}
    with dg.DagsterInstance.ephemeral() as instance:

        def tick(loaded: dg.Definitions) -> list[dg.RunRequest]:
            sensor = loaded.get_repository_def().get_sensor_def("lake__upkeep_sensor")
            context = dg.build_sensor_context(instance=instance, resources=resources)
            answer = sensor.evaluate_tick(context)
            return [each for each in answer.run_requests if each.job_name == "lake__refresh_assets"]

        loaded = dg.load_from_defs_folder(path_within_project=project)
        (request,) = tick(loaded)
        # Dagster launches a key once: a run that could not make the asset is not asked for again.
        assert [each.run_key for each in tick(loaded)] == [request.run_key]
        job = loaded.resolve_job_def("lake__refresh_assets")
        assert job.execute_in_process(instance=instance).success
        # The server of code loads again what the run has written.
        loaded = dg.load_from_defs_folder(path_within_project=project)
        assert "asset crm/orders in crm" in describe(loaded)
        assert tick(loaded) == []

        orders.create_table("crm.notes", {"id": "BIGINT"})
        # Many tables may come one after the other.
        assert tick(loaded) == []
        assert not list(project.rglob("state.*"))


OUR_TABLES = """
import dagster as dg
from lakewright.component import LakehouseTables, Table

class OurTables(LakehouseTables):
    def get_asset_spec(self, table):
        spec = super().get_asset_spec(table)
        if table.adopted is not None:
            return spec.replace_attributes(group_name="theirs")
        return spec.replace_attributes(owners=["team:lake"], group_name="ours")

    def execute(self, context, run):
        for event in super().execute(context, run):
            if isinstance(event, dg.MaterializeResult):
                event = event._replace(metadata={**event.metadata, "ticket": "LAKE-7"})
            yield event
        context.log.info(f"{run.declaration.table} is written")
        with open(PATH, "a") as log:
            log.write(f"{run.declaration.table} {run.partitions}\\n")
"""


def write_subclass(project: Path, orders: Catalog) -> None:
    folder = project / "defs" / "lake"
    code = OUR_TABLES.replace("PATH", repr(str(project / "written")))
    (folder / "component.py").write_text(code)
    (folder / "defs.yaml").write_text(
        "type: their_project.defs.lake.component.OurTables\n"
        f"attributes:\n  warehouse: {orders.uri}\n  adopt: ['crm.*']\n"
    )


def test_a_subclass_changes_the_specs_of_declared_and_adopted_tables_and_wraps_each_write(
    project: Path, orders: Catalog
) -> None:
    write_subclass(project, orders)
    component = LakehouseTables(warehouse=orders.uri, adopt=["crm.*"])
    asyncio.run(component.refresh_state(project.parent.parent))
    sources.forget()
    sources.give("shop.events", events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5))
    loaded = dg.load_from_defs_folder(path_within_project=project)
    graph = loaded.get_repository_def().asset_graph
    declared = graph.get(dg.AssetKey(["shop", "events"]))
    assert (declared.group_name, declared.owners) == ("ours", ["team:lake"])
    assert graph.get(dg.AssetKey(["crm", "orders"])).group_name == "theirs"

    with dg.DagsterInstance.ephemeral() as instance:
        job = ingest_job(loaded, dg.AssetKey(["shop", "events"]))
        assert job.execute_in_process(instance=instance, partition_key="2024-01-01").success
        told = instance.get_latest_materialization_event(dg.AssetKey(["shop", "events"]))
        assert told is not None
        assert told.asset_materialization is not None
        assert told.asset_materialization.metadata["ticket"].value == "LAKE-7"
        assert orders.table("shop.events").read().num_rows == 3
        config = {"tables": {"shop.events": {"partitions": ["2024-01-02"]}}}
        backfill = loaded.resolve_job_def("lake__backfill")
        run_config = {"ops": {"lake__backfill": {"config": config}}}
        assert backfill.execute_in_process(instance=instance, run_config=run_config).success
    assert orders.table("shop.events").read().num_rows == 5
    assert (project / "written").read_text().splitlines() == [
        "shop.events None",
        "shop.events ('2024-01-02',)",
    ]


DAILY = """
    table: shop.daily
    columns:
      - {name: dt, type: STRING NOT NULL}
      - {name: total, type: DOUBLE, from: [shop.events.amount]}
    partition_keys: [dt]
    partitions:
      daily: {column: dt, start: 2024-01-01, end: 2024-02-01}
    source: {python: "tests.pipelines.sources:totals"}
    depends_on: [shop.events, crm.orders, web.pages]
    automation: eager
    write: {engine: local}
"""
OUR_KEYS = """
from lakewright.component import LakehouseTables, Table

class OurTables(LakehouseTables):
    def get_asset_spec(self, table):
        spec = super().get_asset_spec(table)
        team = "sales" if table.adopted is not None else "lake"
        return spec.replace_attributes(key=spec.key.with_prefix(team))
"""
POLICY = """
warehouse:
  compaction: {min_bytes: 0 b, small_files: 3}
  snapshots: {enabled: false}
  orphans: {enabled: false}
"""


@dataclass
class Moved:
    """A project whose component gives each asset the key of a team."""

    project: Path
    catalog: Catalog
    instance: dg.DagsterInstance

    @cached_property
    def loaded(self) -> dg.Definitions:
        return dg.load_from_defs_folder(path_within_project=self.project)

    def run(self, job: str, **given: Any) -> Any:
        done = self.loaded.resolve_job_def(job).execute_in_process(instance=self.instance, **given)
        assert done.success
        return done

    def ingest(self, key: dg.AssetKey) -> None:
        """Materialize one day of an asset."""
        job = ingest_job(self.loaded, key)
        assert job.execute_in_process(instance=self.instance, partition_key="2024-01-01").success

    def tick(self, sensor: str) -> Any:
        """Let a sensor look once, and report its events as the daemon does."""
        context = dg.build_sensor_context(
            instance=self.instance,
            resources={"lakewright_warehouse": WarehouseResource(uri=self.catalog.uri)},
        )
        found = self.loaded.get_repository_def().get_sensor_def(sensor)
        answer = found.evaluate_tick(context)
        for event in answer.asset_events:
            self.instance.report_runless_asset_event(event)
        return answer

    def write(self, table: str, *values: dict[str, Any]) -> None:
        opened = self.catalog.table(table)
        for each in values:
            opened.write(pa.Table.from_pylist([each], opened.arrow_schema))


@pytest.fixture
def moved(project: Path, orders: Catalog) -> Iterator[Moved]:
    folder = project / "defs" / "lake"
    (folder / "component.py").write_text(OUR_KEYS)
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "tables" / "daily.yaml").write_text(dedent(DAILY))
    (folder / "defs.yaml").write_text(
        "type: their_project.defs.lake.component.OurTables\n"
        f"attributes:\n  warehouse: {orders.uri}\n  adopt: ['crm.*']\n  policies: [policy.yaml]\n"
    )
    component = LakehouseTables(warehouse=orders.uri, adopt=["crm.*"])
    asyncio.run(component.refresh_state(project.parent.parent))
    orders.create_database("web")
    orders.create_table("web.pages", {"id": "BIGINT"})
    sources.forget()
    rows = events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5)
    sources.give("shop.events", rows)
    with dg.DagsterInstance.ephemeral() as instance:
        yield Moved(project, orders, instance)


EVENTS_KEY = dg.AssetKey(["lake", "shop", "events"])
DAILY_KEY = dg.AssetKey(["lake", "shop", "daily"])
ORDERS_KEY = dg.AssetKey(["sales", "crm", "orders"])


def test_a_subclass_gives_assets_other_keys_and_dependencies_follow(moved: Moved) -> None:
    graph = moved.loaded.get_repository_def().asset_graph
    pages = dg.AssetKey(["web", "pages"])
    # It is of no table.
    report = dg.AssetKey(["lake__warehouse_report"])
    assert {*graph.get_all_asset_keys()} == {EVENTS_KEY, DAILY_KEY, ORDERS_KEY, pages, report}
    daily = graph.get(DAILY_KEY)
    # What another project writes has the key that is made of its name.
    assert daily.parent_keys == {EVENTS_KEY, ORDERS_KEY, pages}
    lineage = daily.metadata["dagster/column_lineage"].deps_by_column["total"]
    assert [(each.asset_key, each.column_name) for each in lineage] == [(EVENTS_KEY, "amount")]
    assert {key.asset_key for key in graph.asset_check_keys} == {EVENTS_KEY, DAILY_KEY, ORDERS_KEY}


def test_runs_checks_and_automations_work_at_the_changed_key(moved: Moved) -> None:
    instance = moved.instance
    moved.ingest(EVENTS_KEY)
    told = instance.get_latest_materialization_event(EVENTS_KEY)
    assert told is not None
    assert told.asset_materialization is not None
    assert told.asset_materialization.partition == "2024-01-01"
    check = dg.AssetCheckKey(EVENTS_KEY, "amount_between")
    storage = instance.event_log_storage
    assert storage.get_latest_asset_check_execution_by_key([check])[check].evaluation.passed
    moved.run("lake__validate_schema")
    validated = dg.AssetCheckKey(EVENTS_KEY, "schema_matches")
    found = storage.get_latest_asset_check_execution_by_key([validated])[validated]
    assert found.evaluation.passed

    config = {"tables": {"shop.events": {"missing": True, "where": "dt = '2024-01-02'"}}}
    moved.run("lake__backfill", run_config={"ops": {"lake__backfill": {"config": config}}})
    assert instance.get_materialized_partitions(EVENTS_KEY) == {"2024-01-01", "2024-01-02"}

    moved.ingest(DAILY_KEY)
    assert instance.get_materialized_partitions(DAILY_KEY) == {"2024-01-01"}
    assert moved.catalog.table("shop.daily").read().to_pylist() == [
        {"dt": "2024-01-01", "total": 3.0}
    ]
    sensor = moved.loaded.get_repository_def().get_sensor_def("lake__automation_sensor")
    assert sensor.asset_selection == dg.AssetSelection.assets(DAILY_KEY)

    moved.tick("lake__schema_sensor")
    matches = dg.AssetCheckKey(EVENTS_KEY, "schema_matches")
    assert storage.get_latest_asset_check_execution_by_key([matches])[matches].evaluation.passed
    seen = {*instance.all_asset_keys()}
    assert seen == {EVENTS_KEY, DAILY_KEY}


def test_what_upkeep_sees_and_does_lands_at_the_changed_key(moved: Moved) -> None:
    moved.ingest(EVENTS_KEY)
    for number in range(3):
        moved.write("shop.events", {"dt": "2024-01-01", "id": number, "amount": 1.0})
    # This one has come since the assets were listed.
    moved.catalog.create_table("crm.notes", {"id": "BIGINT"})
    moved.write("crm.notes", {"id": 1})

    answer = moved.tick("lake__upkeep_sensor")

    notes = dg.AssetKey(["sales", "crm", "notes"])
    own = {
        each.asset_key for each in answer.asset_events if "lakewright" not in each.asset_key.path
    }
    assert own == {EVENTS_KEY, ORDERS_KEY, notes}
    told = moved.instance.get_latest_materialization_event(ORDERS_KEY)
    assert told is not None
    assert told.asset_materialization is not None
    assert told.asset_materialization.metadata["lakewright/snapshot_id"].value == 1
    # Looked at again, nothing is new: what was reported last is found at the changed key.
    again = dg.load_from_defs_folder(path_within_project=moved.project)
    moved.loaded = again
    events_again = moved.tick("lake__upkeep_sensor").asset_events
    assert not any(isinstance(each, dg.AssetMaterialization) for each in events_again)

    (request,) = [
        each for each in answer.run_requests if each.tags.get("lakewright/verb") == "compact"
    ]
    done = moved.run("lake__upkeep", run_config=request.run_config, tags=request.tags)
    observed = {each.asset_key for each in done.get_asset_observation_events()}
    assert observed == {EVENTS_KEY}
    (whole, *_) = moved.instance.fetch_observations(EVENTS_KEY, limit=1).records
    assert whole.asset_observation.metadata["lakewright/verb"].value == "compact"
    # A page's own check, run by a person.
    healthy = dg.AssetCheckKey(ORDERS_KEY, "healthy")
    job = moved.loaded.resolve_implicit_global_asset_job_def()
    alone = job.get_subset(asset_selection=set(), asset_check_selection={healthy})
    assert alone.execute_in_process(instance=moved.instance).success

    undone = moved.run(
        "lake__undo", run_config={"ops": {"lake__undo": {"config": {"run": done.run_id}}}}
    )
    assert {each.asset_key for each in undone.get_asset_observation_events()} == {EVENTS_KEY}


def test_a_run_of_the_asset_at_its_changed_key_holds_upkeep_of_the_table_back(moved: Moved) -> None:
    moved.ingest(EVENTS_KEY)
    for number in range(3):
        moved.write("shop.events", {"dt": "2024-01-01", "id": number, "amount": 1.0})
    create_run_for_test(
        moved.instance,
        job_name="__ASSET_JOB",
        status=dg.DagsterRunStatus.STARTED,
        asset_selection=frozenset({EVENTS_KEY}),
    )
    answer = moved.tick("lake__upkeep_sensor")
    assert not [
        each for each in answer.run_requests if each.tags.get("lakewright/verb") == "compact"
    ]


def test_the_attribute_key_prefix_prefixes_the_key_of_each_asset(project: Path) -> None:
    write_component(
        project, "lake", f"  warehouse: {project}/warehouse\n  key_prefix: [team, lake]\n"
    )
    loaded = dg.load_from_defs_folder(path_within_project=project)
    said = describe(loaded)
    assert "asset team/lake/shop/events in shop" in said
    assert "asset shop/events" not in said


@pytest.mark.parametrize(
    ("text", "wrong", "told"),
    [
        (
            "spec.key.with_prefix(team)",
            '["lake", "all"]',
            "gave crm.orders and shop.daily the same key lake/all",
        ),
        (
            "key=spec.key.with_prefix(team)",
            "partitions_def=None",
            "changed the partitions_def of shop/",
        ),
    ],
)
def test_a_subclass_that_changes_keys_or_partitions_wrongly_is_refused_by_names(
    moved: Moved, text: str, wrong: str, told: str
) -> None:
    code = moved.project / "defs" / "lake" / "component.py"
    code.write_text(code.read_text().replace(text, wrong))
    with pytest.raises(ComponentTreeException) as raised:
        moved.loaded  # noqa: B018  # it is loaded here
    assert f"OurTables.get_asset_spec {told}" in str(raised.value.__cause__)


def test_the_check_of_an_adopted_table_runs_for_it_alone(project: Path, orders: Catalog) -> None:
    orders.create_table("crm.notes", {"id": "BIGINT"})
    found = read_adopted(orders, ["crm.*"])
    assert [each.table for each in found] == ["crm.notes", "crm.orders"]
    assert parse_adopted(write_adopted(found)) == found
    for damaged in ("", "[]", '{"format": 1}', '{"format": 1, "tables": [{"x": 1}]}', "[" * 10**5):
        with pytest.raises(CorruptionError, match=r"^a/file does not hold .* refresh-defs-state"):
            parse_adopted(damaged, name="a/file")
    named = read_adopted(orders, ["crm.*"], most_seconds=0)
    assert [(each.table, each.columns) for each in named] == [("crm.notes", ()), ("crm.orders", ())]
    definitions = build_definitions(
        [], warehouse=WarehouseResource(uri=orders.uri), adopted=["crm.*"], adopted_tables=found
    )
    key = dg.AssetCheckKey(dg.AssetKey(["crm", "orders"]), "healthy")
    job = definitions.resolve_implicit_global_asset_job_def()
    alone = job.get_subset(asset_selection=set(), asset_check_selection={key})
    with dg.DagsterInstance.ephemeral() as instance:
        done = alone.execute_in_process(instance=instance)
    (evaluation,) = done.get_asset_check_evaluations()
    assert evaluation.asset_check_key == key
    assert evaluation.passed
    assert evaluation.metadata["dagster/row_count"].value == 1


def _refuse(*_: object) -> None:
    raise AssertionError("loading looked at the warehouse")


TABLE = """\
type: lakewright.component.Table
attributes:
  table: shop.daily
  columns:
    - {name: dt, type: STRING NOT NULL}
    - {name: total, type: DOUBLE}
  partition_keys: [dt]
  partitions:
    daily: {column: dt, start: 2024-01-01, end: 2024-02-01}
  depends_on: [shop.events]
  source: {csv: "{{ env.DAYS }}/days.csv"}
"""
DAILY_TABLE = dg.AssetKey(["shop", "daily"])


def test_a_component_that_is_a_table_joins_the_tables_of_its_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "defs" / "daily").mkdir()
    (project / "defs" / "daily" / "defs.yaml").write_text(TABLE)
    write_component(project, "lake", f"  warehouse: {project}/warehouse\n")
    (project / "days.csv").write_text("dt,total\n2024-01-02,3.5\n")
    monkeypatch.setenv("DAYS", str(project))

    loaded = dg.load_from_defs_folder(path_within_project=project)

    graph = loaded.get_repository_def().asset_graph
    assert graph.get(DAILY_TABLE).parent_keys == {dg.AssetKey(["shop", "events"])}
    place = graph.get(DAILY_TABLE).metadata["dagster/code_references"].code_references[0]
    assert (Path(place.file_path).parent.name, place.line_number) == ("daily", 3)
    names = [each.name for each in loaded.get_repository_def().sensor_defs]
    assert sorted(names) == [
        "lake__declarations_sensor",
        "lake__schema_sensor",
        "lake__upkeep_sensor",
    ]
    sources.forget()
    sources.give("shop.events", events("2024-01-02", 0, 3))
    with dg.DagsterInstance.ephemeral() as instance:
        for key in (dg.AssetKey(["shop", "events"]), DAILY_TABLE):
            job = ingest_job(loaded, key)
            assert job.execute_in_process(instance=instance, partition_key="2024-01-02").success
    rows = Catalog.open(f"{project}/warehouse").table("shop.daily").read().to_pylist()
    assert rows == [{"dt": "2024-01-02", "total": 3.5}]


def test_a_scaffolded_table_is_written_without_another_component(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", f"{project}/warehouse")
    for name in ("orders", "returns"):
        folder = project / "defs" / name
        scaffold_object(folder, "lakewright.component.Table", None, "yaml", project.parent.parent)
    loaded = dg.load_from_defs_folder(path_within_project=project)
    keys = [dg.AssetKey(["shop", "orders"]), dg.AssetKey(["shop", "returns"])]
    assert {*keys} <= {*loaded.resolve_all_asset_keys()}
    with dg.DagsterInstance.ephemeral() as instance:
        assert ingest_job(loaded, *keys).execute_in_process(instance=instance).success
    assert Catalog.open(f"{project}/warehouse").table("shop.returns").read().num_rows == 3


def test_a_wrong_declaration_of_a_table_component_is_told_with_its_line(project: Path) -> None:
    (project / "defs" / "daily").mkdir()
    (project / "defs" / "daily" / "defs.yaml").write_text(
        "type: lakewright.component.Table\nattributes:\n  table: shop.daily\n  freshnes: 3h\n"
    )
    said = wrong_in(dg.load_from_defs_folder(path_within_project=project))
    assert "defs.yaml:4: freshnes: " in said
    properties = Table.get_model_cls().model_json_schema()["properties"]
    assert {"table", "columns", "source", "freshness"} <= properties.keys()


def test_a_project_of_theirs_reads_our_tables_and_we_depend_on_its_assets(project: Path) -> None:
    declared = dedent(EVENTS) + "depends_on: [raw_orders, dbt/raw_rates]\n"
    (project / "defs" / "lake" / "tables" / "events.yaml").write_text(declared)
    (project / "defs" / "lake" / "defs.yaml").write_text(
        "type: lakewright.component.LakehouseTables\nattributes: {warehouse: ./warehouse}\n"
    )
    (project / "defs" / "theirs.py").write_text(
        dedent(
            """
            import dagster as dg

            @dg.asset
            def raw_orders(): ...

            @dg.asset(key=["dbt", "raw_rates"])
            def raw_rates(): ...

            @dg.asset(deps=[["shop", "events"]])
            def revenue(): ...
            """
        )
    )
    loaded = dg.load_from_defs_folder(path_within_project=project)
    graph = loaded.resolve_asset_graph()
    ours = graph.get(dg.AssetKey(["shop", "events"]))
    assert ours.parent_keys == {dg.AssetKey("raw_orders"), dg.AssetKey(["dbt", "raw_rates"])}
    assert graph.get(dg.AssetKey("revenue")).parent_keys == {ours.key}
    sources.give("shop.events", events("2024-01-01", 0, 3))
    with dg.DagsterInstance.ephemeral() as instance:
        job = loaded.resolve_implicit_global_asset_job_def()
        every = job.get_subset(asset_selection={ours.key})
        assert every.execute_in_process(instance=instance, partition_key="2024-01-01").success


def test_the_upkeep_sensor_begins_stopped_in_a_project_that_did_not_ask_for_upkeep(
    project: Path,
) -> None:
    lake = project / "defs" / "lake"
    defs = "type: lakewright.component.LakehouseTables\nattributes: {warehouse: ./warehouse%s}\n"

    def sensor() -> dg.SensorDefinition:
        loaded = dg.load_from_defs_folder(path_within_project=project)
        return loaded.get_repository_def().get_sensor_def("lake__upkeep_sensor")

    declared = (lake / "tables" / "events.yaml").read_text()
    (lake / "defs.yaml").write_text(defs % "")
    # A declaration with `maintenance` asks for it.
    assert sensor().default_status is dg.DefaultSensorStatus.RUNNING
    (lake / "tables" / "events.yaml").write_text(declared.partition("maintenance:")[0])
    assert sensor().default_status is dg.DefaultSensorStatus.STOPPED
    assert "begins stopped" in str(sensor().description)
    assert "start it by the switch on this page" in str(sensor().description)
    (lake / "policy.yaml").write_text("warehouse: {mode: live}\n")
    (lake / "defs.yaml").write_text(defs % ", policies: [policy.yaml]")
    assert sensor().default_status is dg.DefaultSensorStatus.RUNNING
    assert "begins stopped" not in str(sensor().description)
