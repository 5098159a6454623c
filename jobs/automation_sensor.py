"""The automation sensor: Dagster writes tables by itself, as their declarations say."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from lakewright.jobs.ingest import VERB
from lakewright.platform.orchestration.names import VERB_TAG, TableNames, UpkeepNames


def build_automation_sensor(
    tables: Sequence[str], *, names: UpkeepNames | None = None
) -> dg.AutomationConditionSensorDefinition:
    """The sensor that evaluates the `automation` of these tables."""
    return dg.AutomationConditionSensorDefinition(
        (names or UpkeepNames()).automation_sensor,
        target=dg.AssetSelection.assets(*(TableNames(each).asset_key for each in tables)),
        # Dagster's own sensor for these conditions is stopped until a person starts it.
        default_status=dg.DefaultSensorStatus.RUNNING,
        run_tags={VERB_TAG: VERB},
        description="Writes tables after their upstream, or after a cron tick, as declared.",
    )
