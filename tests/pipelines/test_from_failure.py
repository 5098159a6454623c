"""A failed run that is re-executed by Dagster's Python API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from lakewright.definitions import build_definitions
from lakewright.jobs.ingest import written_assets
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.resources import WarehouseResource
from tests.pipelines.lake import EVENTS, Lake, Outcome, events

FOLDER = "LAKE_OF_THE_TEST"
DAYS = ("2024-01-01", "2024-01-03")
GOOD = events("2024-01-01", 0, 2) + events("2024-01-02", 2, 4) + events("2024-01-03", 4, 6)
BAD = events("2024-01-01", 0, 2) + events("2024-01-02", 2, 4, -1.0) + events("2024-01-03", 4, 6)


def job_in(folder: str) -> dg.JobDefinition:
    built = build_definitions(
        [Path(folder) / "tables"], warehouse=WarehouseResource(uri=f"{folder}/warehouse")
    )
    # Dagster takes no reserved name such as that of the job in which the UI runs assets.
    job = dg.define_asset_job(
        "write", written_assets(TableNames("shop.events")), executor_def=dg.in_process_executor
    )
    return dg.Definitions.merge(built, dg.Definitions(jobs=[job])).resolve_job_def("write")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as opened:
        yield opened


def execute(
    lake: Lake, instance: dg.DagsterInstance, options: dg.ReexecutionOptions | None = None
) -> Outcome:
    job = dg.build_reconstructable_job(
        "tests.pipelines.test_from_failure", "job_in", (str(lake.folder),)
    )
    tags = dict(zip(("start", "end"), DAYS, strict=True))
    with dg.execute_job(
        job,
        instance,
        tags={f"dagster/asset_partition_range_{name}": day for name, day in tags.items()},
        reexecution_options=options,
    ) as result:
        return Outcome(result)


@pytest.mark.mission("PT5")
def test_a_re_execution_from_failure_by_python_writes_the_rejected_day_and_no_other_again(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    lake.declare(EVENTS.replace("write: {", "write: {mode: append, "))
    lake.give(BAD)
    failed = execute(lake, instance)
    assert not failed.success
    assert lake.rows() == events("2024-01-01", 0, 2) + events("2024-01-03", 4, 6)

    lake.give(GOOD)
    again = execute(lake, instance, dg.ReexecutionOptions.from_failure(failed.run_id, instance))

    assert again.success, again.failure
    assert lake.rows() == GOOD


def test_a_step_that_ended_well_and_is_chosen_again_does_its_work_anew(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    lake.declare(EVENTS.replace("write: {", "write: {mode: append, "))
    lake.give(GOOD)
    first = execute(lake, instance)
    assert first.success, first.failure
    step = TableNames("shop.events").identifier

    again = execute(lake, instance, dg.ReexecutionOptions(first.run_id, [step]))

    assert again.success, again.failure
    assert len(lake.rows()) == 2 * len(GOOD)
