"""The sensor of a stream that follows its upstream: each change of it asks for a run.

Dagster's conditions ask for runs of partitions that they know. The partitions of a stream follow
from rows that were not read yet.
"""

from __future__ import annotations

import json

import dagster as dg

from lakewright.jobs.ingest import VERB, written_assets
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.runs import runs_that_write
from lakewright.platform.tables.declarations import TableDeclaration

_INTERVAL_SECONDS = 30
# A run that has not begun will read what is new as well.
_WAITING = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED]


def build_stream_sensor(declaration: TableDeclaration, names: TableNames) -> dg.SensorDefinition:
    """The sensor that asks for a run of a stream after each materialization of its upstream.

    The cursor is the last materialization of each upstream asset.
    """
    upstream = [names.keys.of(each) for each in declaration.upstream]

    @dg.sensor(
        name=names.stream_sensor,
        target=written_assets(names),
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Writes {declaration.table} after {', '.join(declaration.upstream)}.",
    )
    def stream_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        last = {
            record.asset_entry.asset_key.to_user_string(): entry.storage_id
            for record in context.instance.get_asset_records(upstream)
            if (entry := record.asset_entry.last_materialization_record) is not None
        }
        cursor = json.dumps(last, sort_keys=True)
        if not last or cursor == context.cursor:
            return dg.SkipReason("nothing upstream was written since the last run was asked for")
        if any(runs_that_write(context.instance, names, _WAITING)):
            context.update_cursor(cursor)
            return dg.SkipReason("a run that waits will read what is new")
        return dg.SensorResult(
            run_requests=[dg.RunRequest(cursor, tags=names.tags(VERB))], cursor=cursor
        )

    return stream_sensor
