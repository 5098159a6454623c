"""Declared and adopted tables in a REST catalog: its name there is the warehouse's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from lakewright.cli import main
from lakewright.definitions import build_definitions
from lakewright.platform.decide.adopted import read_adopted
from lakewright.platform.orchestration.resources import WarehouseResource
from tests.pipelines.lake import EVENTS, Lake, events
from tests.support.stores.rest_server import TOKEN, WAREHOUSE, RestCatalogServer
from tests.support.tables.builders import EVENTS as COLUMNS
from tests.support.tables.builders import content, new_table, rows
from tests.support.tables.builders import events as event_rows
from tests.support.tables.fixtures import check_all_tables


@dataclass
class RestLake(Lake):
    """A lake whose tables are the server's."""

    uri: str = ""

    @property
    def warehouse(self) -> WarehouseResource:
        options = {"metastore": "rest", "uri": self.uri}
        return WarehouseResource(uri=WAREHOUSE, catalog_options=options)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestCatalogServer]:
    monkeypatch.setenv("LAKEWRIGHT_CATALOG_TOKEN", TOKEN)
    with RestCatalogServer(tmp_path / "tables").running() as running:
        yield running


@pytest.fixture
def rest_lake(tmp_path: Path, server: RestCatalogServer) -> Iterator[RestLake]:
    folder = tmp_path / "lake"
    folder.mkdir()
    with dg.DagsterInstance.ephemeral() as instance:
        lake = RestLake(folder, instance, uri=server.address)
        yield lake
        check_all_tables(lake.catalog, raced=True)


def test_a_declared_table_is_made_filled_compacted_and_looked_after(
    rest_lake: RestLake, server: RestCatalogServer
) -> None:
    rest_lake.declare(EVENTS)
    rest_lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5))
    rest_lake.materialize(partitions=("2024-01-01", "2024-01-02"))
    rest_lake.write_small_files("2024-01-02", 4)
    due = rest_lake.rows()
    asked = rest_lake.tick().run_requests
    assert asked
    for request in asked:
        rest_lake.request(request)
    latest = server.tables["shop", "events"].snapshot
    assert latest is not None
    assert (latest["id"], latest["commitKind"]) == (6, "COMPACT")
    assert rest_lake.rows() == due


def test_tables_of_others_are_adopted_and_kept_by_commands_and_in_dagster(
    server: RestCatalogServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in (("METASTORE", "rest"), ("URI", server.address)):
        monkeypatch.setenv(f"LAKEWRIGHT_CATALOG_{name}", value)
    catalog = WarehouseResource(uri=WAREHOUSE).catalog()
    table = new_table(catalog, COLUMNS, name="crm.notes")
    for number in range(12):
        table.write(rows(table, event_rows(number, number + 1)))
    policy = tmp_path / "policy.yaml"

    def told(*arguments: str) -> str:
        capsys.readouterr()
        assert main([*arguments]) == 0
        return capsys.readouterr().out

    adopted = told("--warehouse", WAREHOUSE, "adopt", "--policy", str(policy))
    assert "crm.notes" in adopted
    assert f"--warehouse {WAREHOUSE}" in adopted
    (listed,) = json.loads(told("--warehouse", WAREHOUSE, "ls", "--format", "json"))
    assert listed["table"] == "crm.notes"
    told("--warehouse", WAREHOUSE, "compact", "crm.notes", "--full")
    found = read_adopted(catalog, ["crm.*"])
    definitions = build_definitions(
        [], warehouse=WarehouseResource(uri=WAREHOUSE), adopted=["crm.*"], adopted_tables=found
    )
    key = dg.AssetCheckKey(dg.AssetKey(["crm", "notes"]), "healthy")
    job = definitions.resolve_implicit_global_asset_job_def()
    alone = job.get_subset(asset_selection=set(), asset_check_selection={key})
    with dg.DagsterInstance.ephemeral() as instance:
        (evaluation,) = alone.execute_in_process(instance=instance).get_asset_check_evaluations()
    assert evaluation.passed
    assert evaluation.metadata["dagster/row_count"].value == 12
    assert len(content(catalog.table("crm.notes"))) == 12
