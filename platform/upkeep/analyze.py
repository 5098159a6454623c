"""Analysis as a verb: statistics of a table's rows, computed and published."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lakewright.platform.upkeep.measures import Cost, Measures
from lakewright.platform.upkeep.procedure import Command, Keeping, Outcome, Procedure, Report
from lakewright.platform.upkeep.run_options import OnEngine
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.storage import ColumnStatistics, Table
from lakewright.storage.operations.inspection.analyze import (
    AnalyzeOptions,
    AnalyzePlan,
    AnalyzeResult,
)
from lakewright.storage.upkeep import Upkeep

# What a bound may take of a line.
_MAX_WIDTH = 24


@dataclass(frozen=True, kw_only=True)
class AnalyzeRun(OnEngine, AnalyzeOptions):
    """What an analysis takes."""


def _report(_: Table, done: Outcome[AnalyzeRun, AnalyzePlan, AnalyzeResult]) -> Report:
    plan, result = done.plan, done.result
    if result is None:
        return _plan_report(plan)
    snapshot, found = result.snapshot, result.statistics
    facts = {
        "snapshot_id": None if snapshot is None else snapshot.id,
        "statistics": None if found is None else asdict(found),
        "exact_columns": list(result.exact_columns),
        "duration_ms": result.duration_ms,
    }
    if snapshot is None or found is None:
        told = _plan_report(plan)
        return Report(summary=told.summary, facts=facts, notes=told.notes, is_empty=True)
    summary = (
        f"{plan.table}: {counted(found.merged_record_count or 0, 'row')}, about "
        f"{size_text(found.merged_record_size or 0)}; statistics of snapshot {found.snapshot_id} "
        f"committed as snapshot {snapshot.id} in {duration_text(result.duration_ms)}"
    )
    columns = [
        _row(column, is_exact=column.name in result.exact_columns) for column in found.columns
    ]
    return Report(summary=summary, facts=facts, tables={"columns": columns})


def _plan_report(plan: AnalyzePlan) -> Report:
    facts = {"files": plan.files, "size_bytes": plan.bytes, "rows": plan.rows}
    if plan.snapshot_id is None or plan.has_statistics:
        return Report(summary=f"{plan.table}: {plan.reason}", facts=facts, is_empty=True)
    files, rows = counted(plan.files, "file"), counted(plan.rows, "row")
    return Report(
        summary=f"{plan.table}, snapshot {plan.snapshot_id}: {plan.reason}",
        facts=facts,
        notes=(
            f"would read {files}, {size_text(plan.bytes)}, {rows} in files",
            f"columns: {', '.join(plan.columns) or 'none'}",
        ),
    )


def _row(column: ColumnStatistics, *, is_exact: bool) -> dict[str, object]:
    count = column.distinct_count
    return {
        "column": column.name,
        "distinct": f"~{count:,}" if count is not None and not is_exact else count,
        "nulls": column.null_count,
        "min": _short(column.minimum),
        "max": _short(column.maximum),
        "avg_length": column.avg_len,
        "max_length": column.max_len,
    }


def _short(bound: str | None) -> str | None:
    if bound is None or len(bound) <= _MAX_WIDTH:
        return bound
    return bound[: _MAX_WIDTH - 1] + "…"


def _measures(_: Table, done: Outcome[AnalyzeRun, AnalyzePlan, AnalyzeResult]) -> Measures:
    plan, result = done.plan, done.result
    snapshot = None if result is None else result.snapshot
    return Measures(
        cost=Cost(bytes=plan.bytes, files=plan.files),
        snapshots=() if snapshot is None else (snapshot.id,),
    )


ANALYZE = Procedure(
    verb=Upkeep.analyze,
    options=AnalyzeRun,
    report=_report,
    command=Command(
        purpose="Upkeep",
        examples="""
lakewright analyze nyc.flights --columns carrier,distance
lakewright analyze nyc.flights --columns "" --format json
""",
    ),
    keeping=Keeping(
        section=lambda policy: policy.statistics,
        options=lambda policy: AnalyzeRun(columns=policy.statistics.columns),
    ),
    measures=_measures,
)
