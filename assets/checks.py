"""Expectations as asset checks: one check each, so that each has a history of its own."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from lakewright.platform.declarations import ExpectationDeclaration, Severity, TableDeclaration
from lakewright.platform.expectations import ExpectationOutcome, ValidationReport
from lakewright.platform.names import TableNames
from lakewright.platform.reports import check_metadata

# Nothing is published when a critical expectation is not met; the others are told and pass.
_SEVERITIES = {
    Severity.CRITICAL: dg.AssetCheckSeverity.ERROR,
    Severity.WARNING: dg.AssetCheckSeverity.WARN,
    Severity.INFO: dg.AssetCheckSeverity.WARN,
}


def check_specs(declaration: TableDeclaration, names: TableNames) -> list[dg.AssetCheckSpec]:
    """The checks of a table's asset.

    They belong to the asset and not to its partitions: one run covers many
    partitions, and Dagster records the result of such a run without a partition.
    """
    return [
        dg.AssetCheckSpec(
            name=expectation.check_name,
            asset=names.asset_key,
            blocking=expectation.severity is Severity.CRITICAL,
            description=_description(expectation),
            metadata={"severity": expectation.severity.value},
        )
        for expectation in declaration.expectations
    ]


def check_results(report: ValidationReport, names: TableNames) -> Iterator[dg.AssetCheckResult]:
    """The report as results; offending counts and samples in their metadata."""
    for outcome in report.outcomes:
        yield _result(outcome, report, names)


def results_of_earlier_try(
    declaration: TableDeclaration, names: TableNames
) -> Iterator[dg.AssetCheckResult]:
    """What can be said when an earlier try of the run has published: critical ones were met."""
    for expectation in declaration.expectations:
        critical = expectation.severity is Severity.CRITICAL
        yield dg.AssetCheckResult(
            asset_key=names.asset_key,
            check_name=expectation.check_name,
            passed=critical,
            severity=_SEVERITIES[expectation.severity],
            description=(
                "met before an earlier try of this run published the rows"
                if critical
                else "not asked again: an earlier try of this run published the rows"
            ),
        )


def _result(
    outcome: ExpectationOutcome, report: ValidationReport, names: TableNames
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=names.asset_key,
        check_name=outcome.check_name,
        passed=outcome.met,
        severity=_SEVERITIES[outcome.severity],
        description=outcome.summary,
        metadata=check_metadata(outcome, row_count=report.row_count),
    )


def _description(expectation: ExpectationDeclaration) -> str:
    shown = ", ".join(f"{name}={value}" for name, value in expectation.arguments.items())
    what = f"`{expectation.kind}({shown})`, asked before the rows are published."
    if expectation.severity is Severity.CRITICAL:
        return f"{what} When it is not met, nothing is published."
    return f"{what} When it is not met, the rows are published with a warning."
