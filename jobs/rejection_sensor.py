"""The sensor that tells of rejected rows, by the failures of runs of declared tables."""

import hashlib
from collections.abc import Iterator

import dagster as dg

from lakewright.platform.decide.alerts import Alert, Alerts, Key
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.orchestration.names import UpkeepNames
from lakewright.platform.orchestration.policy_memory import recall_policies
from lakewright.platform.orchestration.reports import REJECTED
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.tables.upkeep_policies import AlertEvent


def build_rejection_sensor(
    tables: KeptTables, warehouse: WarehouseResource, *, names: UpkeepNames
) -> dg.SensorDefinition:
    """The sensor; the alert of a rejection lasts until rows of the table are published."""
    alerts = Alerts()

    @dg.run_failure_sensor(
        name=names.job("rejection_sensor"),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends alerts of rejected rows, as `alerts` of the warehouse's policy says.",
    )
    def rejection_sensor(context: dg.RunFailureSensorContext) -> None:
        found = [
            rejection
            for rejection in _rejections(context)
            if rejection.table in tables.declarations
        ]
        if not found:
            return

        def is_over(key: Key, told_ms: int) -> bool:
            table, event, _ = key
            if event is not AlertEvent.REJECTED or table not in tables.declarations:
                return False
            last = context.instance.get_latest_materialization_event(names.keys.of(table))
            return last is not None and last.timestamp * 1000 > told_ms

        recall_policies(context.instance, tables.files)
        alerts.tell(
            warehouse.catalog(), tables.warehouse.alerts, found, is_over, warn=context.log.warning
        )

    return rejection_sensor


def _rejections(context: dg.RunFailureSensorContext) -> Iterator[Alert]:
    for event in context.get_step_failure_events():
        failure = event.step_failure_data.user_failure_data
        for name, value in (failure.metadata if failure is not None else {}).items():
            if name.startswith(f"{REJECTED}/"):
                told = str(value.value)
                yield Alert(
                    table=name.removeprefix(f"{REJECTED}/"),
                    event=AlertEvent.REJECTED,
                    what=hashlib.sha256(told.encode()).hexdigest()[:24],
                    text=f"rows were rejected: {told}",
                )
