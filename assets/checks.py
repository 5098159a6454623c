"""Expectations as asset checks: one check for each expectation, with its own history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from lakewright.assets.check_history import CheckHistory
from lakewright.platform.ingest.expectations import ExpectationOutcome
from lakewright.platform.ingest.publication import Published, Rejected
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.reports import check_metadata, left_out_metadata
from lakewright.platform.tables.declaration_checks import ROWS_LEFT_OUT
from lakewright.platform.tables.declarations import (
    ExpectationDeclaration,
    ExpectationSeverity,
    TableDeclaration,
    rejects_name,
)
from lakewright.platform.tables.partition_keys import first_few
from lakewright.platform.upkeep.words import counted, failing_rows
from lakewright.storage.file_reader.bad_rows import BadRows

# What is known of the other partitions of a check, by the check's name.
Histories = Callable[[str], CheckHistory]

# A critical expectation that is not met blocks the publication; other expectations only warn.
_SEVERITIES = {
    ExpectationSeverity.CRITICAL: dg.AssetCheckSeverity.ERROR,
    ExpectationSeverity.WARNING: dg.AssetCheckSeverity.WARN,
    ExpectationSeverity.INFO: dg.AssetCheckSeverity.WARN,
}


def check_specs(declaration: TableDeclaration, names: TableNames) -> list[dg.AssetCheckSpec]:
    """The checks of a table's asset.

    They belong to the asset and not to its partitions: one run covers many partitions, and Dagster
    records its result without a partition. Dagster does not aggregate results of partitions: a
    check has the status of its last evaluation. So each result names the partitions it evaluated,
    and carries the failures of other partitions.
    """
    specs = [
        dg.AssetCheckSpec(
            name=expectation.check_name,
            asset=names.asset_key,
            blocking=expectation.severity is ExpectationSeverity.CRITICAL,
            description=_description(expectation, declaration),
            metadata={"severity": expectation.severity.value},
        )
        for expectation in declaration.expectations
    ]
    if declaration.leaves_rows_out:
        specs.append(
            dg.AssetCheckSpec(
                name=ROWS_LEFT_OUT,
                asset=names.asset_key,
                description="Whether the last run published all rows of its source.",
            )
        )
    return specs


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRows:
    """The rows of a run that its checks evaluate.

    `partitions` has the text of each partition of the run, by key; it is empty for a table without
    partitions. `judged` are the partitions whose rows were evaluated or that were emptied.
    `rejected` has, by partition and check, why a partition was left out of what was published.
    """

    partitions: Mapping[str, str]
    judged: frozenset[str]
    published: bool
    rejected: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def settled(self) -> frozenset[str]:
        """Partitions whose earlier failures end now; rejected rows do not change the table."""
        return self.judged - set(self.rejected) if self.published else frozenset()

    def not_meeting(self, outcome: ExpectationOutcome) -> dict[str, str]:
        """The message for each partition whose rows do not meet an expectation."""
        if outcome.met:
            return {}
        if self.rejected and outcome.blocks:
            return {
                key: not_met[outcome.check_name]
                for key, not_met in self.rejected.items()
                if outcome.check_name in not_met
            }
        counts = outcome.unexpected_by_partition
        found = {
            key: failing_rows(counts[text])
            for key, text in self.partitions.items()
            if text in counts
        }
        # An expectation on all rows together cannot name partitions.
        return found or dict.fromkeys(self.partitions, outcome.summary)

    @property
    def told(self) -> str:
        """Which partitions were evaluated, in a few words."""
        names = sorted(self.judged.union(self.rejected) or self.partitions)
        if len(names) <= 1:
            return names[0] if names else ""
        return f"{len(names)} partitions from {names[0]} to {names[-1]}"


def check_results(
    outcome: Published | Rejected,
    declaration: TableDeclaration,
    names: TableNames,
    rows: JudgedRows,
    histories: Histories,
) -> Iterator[dg.AssetCheckResult]:
    """The report as results; offending counts and samples in their metadata.

    For published rows, they must follow the materialization that they evaluate. An expectation of
    which rows were left out is a warning: what was published meets it, and is not all.
    """
    report, published = outcome.report, isinstance(outcome, Published)
    left_out = outcome.left_out if isinstance(outcome, Published) else None
    for each in report.outcomes:
        not_met = rows.not_meeting(each)
        history = histories(each.check_name).judged(rows.settled, not_met)
        count = 0 if left_out is None else left_out.by_check[each.check_name]
        summary, metadata = each.summary, check_metadata(each, row_count=report.row_count)
        if count and left_out is not None:
            summary = f"{_told_left_out(count, declaration)}; of the others, {summary}"
            sample = [row for row in left_out.sample if row.check == each.check_name]
            metadata = {**metadata, **left_out_metadata(sample, count, _rejects_of(declaration))}
        is_warning = bool(count) and each.met and not history.not_met
        yield _result(
            names.asset_key,
            each.check_name,
            ExpectationSeverity.WARNING if is_warning else each.severity,
            each.met and not count,
            _told(rows, summary, history.beside(not_met), not_met),
            rows,
            history,
            metadata,
        )
    if declaration.leaves_rows_out and published and left_out is not None:
        yield _rows_left_out(left_out, declaration, names, rows)


def _rows_left_out(
    left_out: BadRows, declaration: TableDeclaration, names: TableNames, rows: JudgedRows
) -> dg.AssetCheckResult:
    summary = "no row was left out"
    metadata: Mapping[str, Any] = {}
    if left_out.count:
        summary = f"{_told_left_out(left_out.count, declaration)}; the first: {left_out.first}"
        metadata = left_out_metadata(left_out.sample, left_out.count, _rejects_of(declaration))
    return _PublishedRows(
        asset_key=names.asset_key,
        check_name=ROWS_LEFT_OUT,
        passed=not left_out.count,
        severity=dg.AssetCheckSeverity.WARN,
        description=_told(rows, summary, ""),
        metadata=metadata,
    )


def _told_left_out(count: int, declaration: TableDeclaration) -> str:
    was = "was" if count == 1 else "were"
    told = f"{counted(count, 'bad row')} {was} left out"
    rejects = _rejects_of(declaration)
    if rejects is None:
        return f"{told}, and not kept (on_bad_row: skip)"
    return (
        f"{told}, and kept in {rejects}: correct the declaration or the source, then run "
        f"`lakewright replay-rejects {declaration.table}`"
    )


def _rejects_of(declaration: TableDeclaration) -> str | None:
    return rejects_name(declaration.table) if declaration.keeps_rejects else None


def results_of_earlier_try(
    declaration: TableDeclaration, names: TableNames, rows: JudgedRows, histories: Histories
) -> Iterator[dg.AssetCheckResult]:
    """Results after an earlier attempt of the run published: critical expectations were met."""
    for expectation in declaration.expectations:
        critical = expectation.severity is ExpectationSeverity.CRITICAL
        history = histories(expectation.check_name)
        if critical:
            history = history.judged(rows.settled, {})
        summary = (
            "met before an earlier attempt of this run published the rows"
            if critical
            else "not asked again: an earlier attempt of this run published the rows"
        )
        yield _result(
            names.asset_key,
            expectation.check_name,
            expectation.severity,
            critical,
            _told(rows, summary, history.beside(())),
            rows,
            history,
            {},
        )
    if declaration.leaves_rows_out:
        yield _PublishedRows(
            asset_key=names.asset_key,
            check_name=ROWS_LEFT_OUT,
            passed=False,
            severity=dg.AssetCheckSeverity.WARN,
            description=(
                "not counted again: an earlier attempt of this run published the rows, and its log "
                "has the number of those that it left out"
            ),
        )


def _told(
    rows: JudgedRows, summary: str, others: str, not_met: Mapping[str, str] | None = None
) -> str:
    told = f"{rows.told}: {summary}" if rows.told else summary
    # Of one partition, or of an expectation on all rows together, the summary says it.
    named = [f"{key}: {why}" for key, why in sorted((not_met or {}).items()) if why != summary]
    if named and len(rows.partitions) > 1:
        told = f"{told}. Failing rows: {first_few(named)}"
    return f"{told}. Earlier failing rows: {others}" if others else told


def _result(
    asset: dg.AssetKey,
    check_name: str,
    severity: ExpectationSeverity,
    met: bool,
    description: str,
    rows: JudgedRows,
    history: CheckHistory,
    metadata: Mapping[str, Any],
) -> dg.AssetCheckResult:
    form = _PublishedRows if rows.published and (met or not rows.rejected) else _RejectedRows
    return form(
        asset_key=asset,
        check_name=check_name,
        passed=met and not history.not_met,
        severity=_SEVERITIES[severity],
        description=description,
        metadata={**metadata, **history.metadata},
    )


class _PublishedRows(dg.AssetCheckResult):
    """A result about published rows; failures of other partitions do not block it."""

    def to_asset_check_evaluation(self, step_context: Any) -> dg.AssetCheckEvaluation:
        return _changed(super().to_asset_check_evaluation(step_context), blocking=False)


class _RejectedRows(dg.AssetCheckResult):
    """A result about unpublished rows, which belong to no materialization."""

    def to_asset_check_evaluation(self, step_context: Any) -> dg.AssetCheckEvaluation:
        told = super().to_asset_check_evaluation(step_context)
        return _changed(told, target_materialization_data=None)


def _changed(told: dg.AssetCheckEvaluation, **changes: Any) -> dg.AssetCheckEvaluation:
    names = (
        "asset_key",
        "check_name",
        "passed",
        "metadata",
        "target_materialization_data",
        "severity",
        "description",
        "blocking",
        "partition",
    )
    return dg.AssetCheckEvaluation(**{**{name: getattr(told, name) for name in names}, **changes})


def _description(expectation: ExpectationDeclaration, declaration: TableDeclaration) -> str:
    what = f"`{expectation.text}`, asked before the rows are published."
    if expectation.severity is ExpectationSeverity.CRITICAL and declaration.is_stream:
        return f"{what} The stream stops at a batch with failing rows."
    if expectation.severity is ExpectationSeverity.CRITICAL:
        return f"{what} Partitions with failing rows are not published."
    return f"{what} When it is not met, the rows are published with a warning."
