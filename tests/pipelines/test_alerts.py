"""Alerts out of Dagster: of the upkeep sensor's looks, and of runs that reject rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import dagster as dg
import pytest

from lakewright.definitions import build_definitions
from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.storage import Catalog
from tests.pipelines import sources
from tests.pipelines.lake import EVENTS, events, ingest_job
from tests.support.processes.alert_receivers import webhook

_POLICY = "warehouse: {alerts: {webhook: '${OUR_HOOK}'}}\n"


@pytest.fixture
def definitions(tmp_path: Path) -> dg.Definitions:
    (tmp_path / "events.yaml").write_text(dedent(EVENTS))
    (tmp_path / "policy.yaml").write_text(_POLICY)
    sources.forget()
    return build_definitions(
        [tmp_path / "events.yaml"],
        warehouse=WarehouseResource(uri=str(tmp_path / "warehouse")),
        policies=[tmp_path / "policy.yaml"],
    )


def write(
    definitions: dg.Definitions, instance: dg.DagsterInstance, day: str, amount: float
) -> None:
    """Run the ingestion of a day, and the sensor for it if it fails, as the daemon does."""
    sources.give("shop.events", events(day, 0, 3, amount))
    job = ingest_job(definitions, dg.AssetKey(["shop", "events"]))
    result = job.execute_in_process(partition_key=day, instance=instance, raise_on_error=False)
    if result.success:
        return
    (failure,) = [each for each in result.all_events if each.is_run_failure]
    context = dg.build_run_status_sensor_context(
        sensor_name="rejection_sensor",
        dagster_event=failure,
        dagster_instance=instance,
        dagster_run=result.dagster_run,
    ).for_run_failure()
    sensor: Callable[[dg.RunFailureSensorContext], None] = (
        definitions.get_repository_def().get_sensor_def("rejection_sensor")
    )
    sensor(context)


def test_a_rejected_partition_is_told_once_until_rows_are_published(
    definitions: dg.Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dg.DagsterInstance.ephemeral() as instance, webhook() as (url, texts):
        monkeypatch.setenv("OUR_HOOK", url)
        write(definitions, instance, "2024-01-01", -1.0)
        write(definitions, instance, "2024-01-01", -1.0)
        (text,) = texts
        assert "shop.events rows were rejected: " in text
        assert "amount" in text
        write(definitions, instance, "2024-01-01", 1.0)
        write(definitions, instance, "2024-01-01", -1.0)
        assert len(texts) == 2


def test_the_upkeep_sensor_tells_a_poor_state_once(
    definitions: dg.Definitions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    table = catalog.create_table(
        "shop.events", {"dt": "STRING NOT NULL", "id": "BIGINT NOT NULL", "amount": "DOUBLE"}
    )
    for number in range(50):
        table.write([{"dt": "2024-01-01", "id": number, "amount": 1.0}])
    repository = definitions.get_repository_def()
    sensor = repository.get_sensor_def("upkeep_sensor")
    with dg.DagsterInstance.ephemeral() as instance, webhook() as (url, texts):
        monkeypatch.setenv("OUR_HOOK", url)
        for _ in range(2):
            with dg.build_sensor_context(
                instance=instance,
                repository_def=repository,
                resources={"lakewright_warehouse": WarehouseResource(uri=catalog.uri)},
            ) as context:
                sensor.evaluate_tick(context)
    (text,) = texts
    assert "shop.events poor state: a reader opens up to 50 small files" in text


def test_a_declaration_that_becomes_wrong_is_told_once_until_it_is_right(
    definitions: dg.Definitions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sensor,) = [
        each for each in definitions.sensors or () if each.name.endswith("declarations_sensor")
    ]
    right = (tmp_path / "events.yaml").read_text()

    def tick(instance: dg.DagsterInstance, text: str) -> None:
        (tmp_path / "events.yaml").write_text(text)
        with dg.build_sensor_context(
            instance=instance,
            resources={"lakewright_warehouse": WarehouseResource(uri=str(tmp_path / "warehouse"))},
        ) as context:
            sensor.evaluate_tick(context)

    with dg.DagsterInstance.ephemeral() as instance, webhook() as (url, texts):
        monkeypatch.setenv("OUR_HOOK", url)
        for _ in range(2):
            with pytest.raises(DeclarationError):
                tick(instance, right + "colums: []\n")
        (text,) = texts
        assert "declarations are wrong: " in text
        assert "did you mean 'columns'" in text
        tick(instance, right)
        with pytest.raises(DeclarationError):
            tick(instance, right + "colums: []\n")
        assert len(texts) == 2
