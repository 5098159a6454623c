"""Results of asset checks as events, which need no step of the check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dagster as dg
from dagster._core.storage.asset_check_execution_record import (
    COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES,
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)

from lakewright.platform.tables.declaration_checks import TABLE_CHECKS

HEALTHY = "healthy"
# So many runs may be about to evaluate a check at once.
_RECENT = 20


def not_evaluated(reason: str) -> dg.AssetCheckResult:
    """The result of a check that could not be asked: nothing speaks against the table."""
    return dg.AssetCheckResult(passed=True, description=f"not evaluated: {reason}")


def check_event(key: dg.AssetCheckKey, found: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """A result of the check with this key, as an event."""
    return dg.AssetCheckEvaluation(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=found.passed,
        severity=found.severity,
        description=found.description,
        metadata=found.metadata,
    )


def is_awaited(
    context: dg.AssetExecutionContext | dg.OpExecutionContext, key: dg.AssetCheckKey
) -> bool:
    """Whether the run has a step of the check, which has not evaluated it yet."""
    records = context.instance.event_log_storage.get_asset_check_execution_history(
        key, limit=_RECENT, status={AssetCheckExecutionRecordStatus.PLANNED}
    )
    return any(record.run_id == context.run.run_id for record in records)


def evaluated_before(
    context: dg.AssetExecutionContext | dg.OpExecutionContext, asset: dg.AssetKey
) -> Iterator[dg.AssetCheckEvaluation]:
    """The last evaluations of the checks of a table that the run was to evaluate after its write.

    Dagster skips the steps of these checks after a write that fails, and would show that they
    failed. A check that was never evaluated says so.
    """
    for name in (*sorted(TABLE_CHECKS), HEALTHY):
        key = dg.AssetCheckKey(asset, name)
        if not is_awaited(context, key):
            continue
        last = last_evaluation(context.instance, key)
        yield check_event(key, not_evaluated("the write failed")) if last is None else last


def last_evaluation(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey
) -> dg.AssetCheckEvaluation | None:
    """The last evaluation of a check; None before the first."""
    records = evaluations(instance, key, limit=1)
    return records[0].evaluation if records else None


def evaluations(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, *, limit: int = _RECENT
) -> Sequence[AssetCheckExecutionRecord]:
    """The last evaluations of a check, newest first, without those that runs have only planned."""
    return instance.event_log_storage.get_asset_check_execution_history(
        key, limit=limit, status=COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES
    )
