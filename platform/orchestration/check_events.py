"""Results of asset checks as events, which need no step of the check."""

from __future__ import annotations

import dagster as dg


def not_evaluated(reason: str) -> dg.AssetCheckResult:
    """The result of a check that could not be asked."""
    return dg.AssetCheckResult(
        passed=False,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"not evaluated: {reason}",
    )


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
