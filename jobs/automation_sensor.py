"""The automation sensors: Dagster writes tables by itself, as their declarations say."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from lakewright.jobs.continuous_sensor import build_continuous_sensor
from lakewright.jobs.ingest import VERB
from lakewright.jobs.stream_sensor import build_stream_sensor
from lakewright.platform.orchestration.names import VERB_TAG, UpkeepNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.tables.declarations import TableDeclaration


def build_automation_sensors(
    declarations: Sequence[TableDeclaration], *, names: UpkeepNames, resources: ResourceKeys
) -> list[dg.SensorDefinition]:
    """A sensor for each stream that follows its upstream or source, and one for other tables."""
    automated = [declaration for declaration in declarations if declaration.automation is not None]
    sensors: list[dg.SensorDefinition] = []
    if others := [each.table for each in automated if not each.is_stream]:
        sensors.append(build_automation_sensor(others, names=names))
    for each in automated:
        own = names.of(each.table)
        if each.continuous_ms is not None:
            sensors.append(
                build_continuous_sensor(each, each.continuous_ms, own, resources=resources)
            )
        elif each.is_stream:
            sensors.append(build_stream_sensor(each, own))
    return sensors


def build_automation_sensor(
    tables: Sequence[str], *, names: UpkeepNames
) -> dg.AutomationConditionSensorDefinition:
    """The sensor that evaluates the `automation` of these tables."""
    return dg.AutomationConditionSensorDefinition(
        names.automation_sensor,
        target=dg.AssetSelection.assets(*(names.keys.of(table) for table in tables)),
        # Dagster's own sensor for these conditions is stopped until a person starts it.
        default_status=dg.DefaultSensorStatus.RUNNING,
        run_tags={VERB_TAG: VERB},
        description="Writes tables after their upstream, or after a cron tick, as declared.",
    )
