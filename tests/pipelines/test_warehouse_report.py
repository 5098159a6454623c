"""The asset `warehouse_report`: a page that a schedule renews, where a warehouse is kept."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from lakewright.definitions import build_definitions
from lakewright.platform.decide.adopted import read_adopted
from lakewright.platform.documents.variables import REPORTS_FOLDER, REPORTS_URL_VARIABLE
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.storage import Catalog


def definitions(catalog: Catalog) -> dg.Definitions:
    return build_definitions(
        [],
        warehouse=WarehouseResource(uri=catalog.uri),
        adopted=["*"],
        adopted_tables=read_adopted(catalog, ["*"]),
        group="lake",
    )


def test_a_run_writes_the_page_and_its_event_has_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(REPORTS_URL_VARIABLE, raising=False)
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    catalog.create_database("crm")
    catalog.create_table("crm.people", {"id": "BIGINT"}).write([{"id": 1}])
    loaded = definitions(catalog)
    key = dg.AssetKey("lake__warehouse_report")
    job = loaded.resolve_implicit_global_asset_job_def().get_subset(asset_selection={key})

    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance)
        (event,) = result.asset_materializations_for_node("lake__warehouse_report")
        file = Path(str(event.metadata["path"].value))
        assert file.parent == Path(instance.storage_directory())
        assert "crm.people" in file.read_text()
        # A browser follows no link to a file, so there is none where the page is not served.
        assert "page" not in event.metadata
        assert "crm.people" in str(event.metadata["tables"].value)
        (record, *_) = event.metadata["overview"].value.records
        assert record.data[""] == "tables"
        again = tmp_path / "pages" / "lake.html"
        config = {"ops": {"lake__warehouse_report": {"config": {"output": str(again)}}}}
        assert job.execute_in_process(run_config=config, instance=instance).success
    assert [each.name for each in again.parent.iterdir()] == ["lake.html"]


def test_a_page_that_is_served_is_linked_over_http(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    catalog.create_database("crm")
    catalog.create_table("crm.people", {"id": "BIGINT"}).write([{"id": 1}])
    key = dg.AssetKey("lake__warehouse_report")
    loaded = definitions(catalog)
    job = loaded.resolve_implicit_global_asset_job_def().get_subset(asset_selection={key})
    monkeypatch.setenv(REPORTS_URL_VARIABLE, "http://127.0.0.1:3001")

    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance)
        (event,) = result.asset_materializations_for_node("lake__warehouse_report")
        served = Path(instance.root_directory) / REPORTS_FOLDER / "lake__warehouse_report.html"
        assert "crm.people" in served.read_text()

    link = event.metadata["page"].value
    assert link == "http://127.0.0.1:3001/lake__warehouse_report.html"


def test_a_schedule_renews_the_page_and_the_sensor_names_it(tmp_path: Path) -> None:
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    catalog.create_database("crm")
    repository = definitions(catalog).get_repository_def()

    schedule = repository.get_schedule_def("lake__warehouse_report_schedule")

    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    job = repository.get_job(schedule.job_name)
    assert [node.name for node in job.graph.nodes] == ["lake__warehouse_report"]
    told = repository.get_sensor_def("lake__upkeep_sensor").description or ""
    assert "`lake__warehouse_report`" in told


def test_declared_tables_alone_have_no_page(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("table: shop.events\n")
    loaded = build_definitions([tmp_path / "t.yaml"])
    assert not [each for each in loaded.resolve_all_asset_keys() if "report" in str(each)]
