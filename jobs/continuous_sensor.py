"""The sensor of a continuous stream: asks for a run when its source has more than its table.

A run stays about as long as rows may be late, so that the next one begins when its source has more
again. While a run writes the table the source is not asked: many sources serve one reader.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

import dagster as dg

from lakewright.jobs.ingest import VERB, written_assets
from lakewright.platform.ingest.stream_lag import StreamLag, read_lag
from lakewright.platform.orchestration.check_events import check_event
from lakewright.platform.orchestration.names import CONTINUOUS_TAG, TABLE_TAG, VERB_TAG, TableNames
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.runs import UNFINISHED, runs_that_write
from lakewright.platform.orchestration.stream_reports import (
    lag_result,
    source_key,
    source_observation,
    unreachable,
    version_of,
)
from lakewright.platform.tables.declaration_checks import LAG
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.upkeep.words import duration_text
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import StorageError

# So many looks in the time that rows may be late.
_LOOKS = 4
# A run that failed is not repeated at each look: mostly a person has to do something first.
_AFTER_FAILURE_MS = 300_000
# What stays as it is, is told again so often.
_TOLD_AGAIN_MS = 600_000
_FAILED = dg.DagsterRunStatus.FAILURE
_ENDED_BADLY = (_FAILED, dg.DagsterRunStatus.CANCELED)


@dataclass(frozen=True, slots=True)
class _Cursor:
    """When the table last had all rows, what was told last, and when."""

    caught_up_ms: int
    told: str = ""
    told_ms: int = 0

    @classmethod
    def read(cls, text: str | None, now_ms: int) -> _Cursor:
        return cls(now_ms) if not text else cls(**json.loads(text))

    def telling(self, told: str, now_ms: int) -> tuple[_Cursor, bool]:
        """The cursor after a look that would tell this, and whether it is to be told."""
        if told == self.told and now_ms < self.told_ms + _TOLD_AGAIN_MS:
            return self, False
        return _Cursor(self.caught_up_ms, told, now_ms), True

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))


def build_continuous_sensor(
    declaration: TableDeclaration, delay_ms: int, names: TableNames, *, resources: ResourceKeys
) -> dg.SensorDefinition:
    """The sensor of a stream whose rows are to be in the table after about `delay_ms`."""
    lag_key = dg.AssetCheckKey(names.asset_key, LAG)

    @dg.sensor(
        name=names.stream_sensor,
        target=written_assets(names),
        minimum_interval_seconds=max(delay_ms // 1000 // _LOOKS, 1),
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={resources.warehouse},
        description=(
            f"Writes {declaration.table} when its source has new rows, which are to be in the "
            f"table after about {duration_text(delay_ms)}."
        ),
    )
    def continuous_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        instance, now_ms = context.instance, SystemEnv().now_ms()
        if any(runs_that_write(instance, names, UNFINISHED)):
            return dg.SkipReason("a run writes the table, and takes what is new")
        cursor = _Cursor.read(context.cursor, now_ms)
        warehouse: WarehouseResource = getattr(context.resources, resources.warehouse)
        try:
            lag = read_lag(declaration, warehouse.catalog())
        except StorageError as error:
            failed = unreachable(declaration, now_ms - cursor.caught_up_ms, error.message)
            after, is_news = cursor.telling(
                f"{type(error).__name__} {failed.severity.value}", now_ms
            )
            return dg.SensorResult(
                skip_reason=f"{type(error).__name__}: {error.message}",
                cursor=after.text,
                asset_events=[check_event(lag_key, failed)] if is_news else [],
            )
        if not lag.is_behind:
            cursor = replace(cursor, caught_up_ms=now_ms)
        # Nothing of what waits was there when the table last had all rows.
        longest = (now_ms - cursor.caught_up_ms) / 1000
        found = lag_result(declaration, lag, lag.seconds(now_ms, longest))
        told = f"{version_of(lag.backlog.end)} {found.severity.value if not found.passed else 'OK'}"
        after, is_news = cursor.telling(told, now_ms)
        events: list[dg.AssetObservation | dg.AssetCheckEvaluation] = []
        if is_news:
            key = source_key(declaration, names)
            events = [] if key is None else [source_observation(key, lag)]
            events.append(check_event(lag_key, found))
        last = _last_run(instance, names)
        why_not = "the table has all rows of the source"
        if lag.is_behind or not lag.has_begun:
            why_not = _why_not_now(instance, last, names, now_ms)
        return dg.SensorResult(
            run_requests=[] if why_not else [_request(lag, last, names)],
            skip_reason=why_not or None,
            cursor=after.text,
            asset_events=events,
        )

    return continuous_sensor


def _last_run(instance: dg.DagsterInstance, names: TableNames) -> dg.RunRecord | None:
    """The last run that this sensor asked for, or another trigger of the table."""
    asked = dg.RunsFilter(tags={TABLE_TAG: names.table, VERB_TAG: VERB})
    return next(iter(instance.get_run_records(asked, limit=1)), None)


def _why_not_now(
    instance: dg.DagsterInstance, last: dg.RunRecord | None, names: TableNames, now_ms: int
) -> str:
    """Why no run is asked for now; empty if one is."""
    if last is None or last.dagster_run.status not in _ENDED_BADLY:
        return ""
    run = last.dagster_run
    if run.status is _FAILED and not instance.get_run_stats(run.run_id).steps_failed:
        # Its process was killed; the work did not fail.
        return ""
    ended_ms = int((last.end_time or last.update_timestamp.timestamp()) * 1000)
    left_ms = ended_ms + _AFTER_FAILURE_MS - now_ms
    written = instance.get_latest_materialization_event(names.asset_key)
    # A run that a person started went well since.
    if left_ms <= 0 or (written is not None and written.timestamp * 1000 > ended_ms):
        return ""
    return (
        f"run {run.run_id} ended as {run.status.value}; the next one is asked for in "
        f"{duration_text(left_ms)}, unless a person starts one before"
    )


def _request(lag: StreamLag, last: dg.RunRecord | None, names: TableNames) -> dg.RunRequest:
    """A run whose key is the same until it is there: a look that is repeated asks for one run."""
    before = "first" if last is None else last.dagster_run.run_id
    return dg.RunRequest(
        f"{names.table} {version_of(lag.start)} after {before}",
        tags={**names.tags(VERB), CONTINUOUS_TAG: "true"},
    )
