"""The asset `warehouse_report`: one page of the whole warehouse, which a schedule renews."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dagster as dg
from pydantic import Field

from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.decide.report import page_of
from lakewright.platform.decide.report_figures import ReportFigures
from lakewright.platform.documents.variables import REPORTS_FOLDER, REPORTS_URL_VARIABLE
from lakewright.platform.orchestration.failures import failures_for_dagster
from lakewright.platform.orchestration.names import UpkeepNames
from lakewright.platform.orchestration.policy_memory import recall_policies
from lakewright.platform.orchestration.reports import warehouse_metadata
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource

REPORT = "warehouse_report"
_CRON = "7 5 * * *"
_DESCRIPTION = (
    "The state of all kept tables, debt over time, what upkeep cost and saved beside what was "
    "predicted, and what is deferred and why: as tables in each event, and as one HTML page. "
    "`lakewright report` writes the same page, and `lakewright up` serves it."
)


class ReportConfig(dg.Config):
    """Where a run writes the page."""

    output: str = Field(
        default="",
        description="The file (default: where `lakewright up` serves it, else in Dagster's folder "
        "of artifacts).",
    )


def can_be_reported() -> bool:
    """Whether the extra `report` is installed."""
    return find_spec("vl_convert") is not None


def build_warehouse_report(
    tables: KeptTables, *, names: UpkeepNames, resources: ResourceKeys
) -> dg.Definitions:
    """The asset, and the schedule that renews it once a day."""

    @dg.asset(
        key=names.job(REPORT),
        group_name="lakewright",
        kinds={"html"},
        description=_DESCRIPTION,
        required_resource_keys={resources.warehouse},
    )
    def report(
        context: dg.AssetExecutionContext, config: ReportConfig
    ) -> dg.MaterializeResult[Any]:
        warehouse: WarehouseResource = getattr(context.resources, resources.warehouse)
        url = os.environ.get(REPORTS_URL_VARIABLE, "")
        folder = Path(context.instance.storage_directory())
        if url:
            folder = Path(context.instance.root_directory, REPORTS_FOLDER)
        file = Path(config.output or folder / f"{names.job(REPORT)}.html").absolute()
        recall_policies(context.instance, tables.files)
        with failures_for_dagster():
            figures = ReportFigures.of(warehouse.catalog().read_only(), tables)
            page = page_of(figures)
        file.parent.mkdir(parents=True, exist_ok=True)
        # Who reads the page meanwhile has the one before.
        written = file.with_name(f"{file.name}.{context.run.run_id}")
        written.write_text(page, encoding="utf-8", errors="replace")
        written.replace(file)
        is_served = bool(url) and not config.output
        link = {"page": dg.MetadataValue.url(f"{url}/{quote(file.name)}")} if is_served else {}
        return dg.MaterializeResult(
            metadata={
                **link,
                **warehouse_metadata(figures),
                "path": dg.MetadataValue.path(str(file)),
            }
        )

    schedule = dg.ScheduleDefinition(
        name=names.schedule(REPORT, "UTC"),
        target=[report],
        cron_schedule=_CRON,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    return dg.Definitions(assets=[report], schedules=[schedule])
