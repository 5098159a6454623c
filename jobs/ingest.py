"""Ingest: the assets of a written table, and the schedule on which they are materialized."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dagster as dg

from lakewright.platform.ledger.kept_verbs import INGEST
from lakewright.platform.orchestration.asset_partitions import ended_last, with_other_dimensions
from lakewright.platform.orchestration.check_events import HEALTHY
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.tables.declaration_checks import SCHEMA_MATCHES, STORED_ROWS_FIT
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.partition_schemes import TimeDimension
from lakewright.platform.tables.refresh import ScheduleDeclaration

VERB = INGEST
# The tags by which Dagster gives one run several partitions.
_RANGE_START = "dagster/asset_partition_range_start"
_RANGE_END = "dagster/asset_partition_range_end"


def written_assets(names: TableNames) -> dg.AssetSelection:
    """What a run that writes the table materializes and checks."""
    # The first reads rows of earlier runs, and has a schedule of its own. The second's result comes
    # from the step that writes, the third's from the upkeep sensor.
    others = (STORED_ROWS_FIT, SCHEMA_MATCHES, HEALTHY)
    checks = [dg.AssetCheckKey(names.asset_key, each) for each in others]
    return dg.AssetSelection.assets(names.asset_key) - dg.AssetSelection.checks(*checks)


def build_ingest_schedule(
    declaration: TableDeclaration, declared: ScheduleDeclaration, names: TableNames
) -> dg.ScheduleDefinition:
    """The schedule on which a table is written.

    A tick writes the partitions by time that ended last before it. A table without such partitions
    is written whole, and a stream takes what is new.
    """

    def requests(
        context: dg.ScheduleEvaluationContext,
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        def dynamic_keys(name: str) -> Sequence[str]:
            return context.instance.get_dynamic_partitions(name)

        scheme, at = declaration.scheme, context.scheduled_execution_time
        time = next(
            (dimension for dimension in scheme.dimensions if isinstance(dimension, TimeDimension)),
            None,
        )
        if time is None or declaration.is_stream:
            yield dg.RunRequest(tags=names.tags(VERB))
            return
        times = ended_last(time, at, declared.partitions)
        keys = with_other_dimensions(scheme, times, names, dynamic_keys)
        if not keys:
            yield dg.SkipReason(f"{declaration.table} has no partition that ended before {at}")
            return
        most = declaration.backfill.partitions_per_run if len(scheme.dimensions) == 1 else 1
        yield from _runs(keys, most or len(keys), names, tick=at.isoformat())

    running, stopped = dg.DefaultScheduleStatus.RUNNING, dg.DefaultScheduleStatus.STOPPED
    return dg.ScheduleDefinition(
        name=names.schedule(VERB),
        target=written_assets(names),
        cron_schedule=declared.cron,
        execution_timezone=declared.timezone,
        execution_fn=requests,
        default_status=running if declared.enabled else stopped,
        description=f"Writes {declaration.table} from its source.",
    )


def _runs(
    keys: Sequence[str], most: int, names: TableNames, *, tick: str
) -> Iterator[dg.RunRequest]:
    """Runs of at most so many partitions each."""
    for at in range(0, len(keys), most):
        first, last = keys[at], keys[min(at + most, len(keys)) - 1]
        run_key, tags = f"{tick} {first}", names.tags(VERB)
        if first == last:
            yield dg.RunRequest(run_key, partition_key=first, tags=tags)
        else:
            tags |= {_RANGE_START: first, _RANGE_END: last}
            yield dg.RunRequest(run_key, tags=tags)
