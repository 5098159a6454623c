"""`lakewright analyze`: statistics of a table's rows, computed and published."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from lakewright.cli.layout import Cell, TextColumn, counted, cut, duration_text, size_text
from lakewright.cli.output import print_json, print_lines, print_table
from lakewright.cli.warehouse import open_table
from lakewright.storage import Engine, LocalEngine
from lakewright.storage.operations.inspection.analyze import AnalyzePlan, AnalyzeResult
from lakewright.storage.spec.table_statistics import ColumnStatistics

# What a bound may take of a line.
_MAX_WIDTH = 24


def run_analyze(parsed: argparse.Namespace) -> int:
    """Compute statistics, or say what would be read."""
    table = open_table(parsed)
    plan = table.upkeep.plan_analyze(columns=() if parsed.no_columns else parsed.columns)
    if parsed.dry_run:
        if parsed.json:
            print_json(asdict(plan))
        else:
            print_lines(_plan_lines(plan))
        return 0
    result = table.upkeep.run_analyze(plan, _engine(parsed.engine))
    if parsed.json:
        print_json(_result_json(plan, result))
    else:
        _print_result(plan, result)
    return 0


def _engine(name: str) -> Engine:
    if name == "local":
        return LocalEngine()
    # Spark takes seconds to start, so only who asks for it imports it.
    from lakewright.storage.spark import SparkEngine, build_session

    return SparkEngine(build_session())


def _plan_lines(plan: AnalyzePlan) -> list[str]:
    if plan.snapshot_id is None:
        return [f"{plan.table}: {plan.reason}"]
    return [
        f"{plan.table}, snapshot {plan.snapshot_id}: {plan.reason}",
        (
            f"would read {counted(plan.files, 'file')}, {size_text(plan.bytes)}, "
            f"{counted(plan.rows, 'row')} in files"
        ),
        f"columns: {', '.join(plan.columns) or 'none'}",
    ]


def _result_json(plan: AnalyzePlan, result: AnalyzeResult) -> dict[str, object]:
    return {
        "table": plan.table,
        "snapshot_id": None if result.snapshot is None else result.snapshot.id,
        "statistics": None if result.statistics is None else asdict(result.statistics),
        "exact_columns": list(result.exact_columns),
        "duration_ms": result.duration_ms,
    }


def _print_result(plan: AnalyzePlan, result: AnalyzeResult) -> None:
    found = result.statistics
    if result.snapshot is None or found is None:
        print_lines(_plan_lines(plan))
        return
    print_lines(
        [
            (
                f"{plan.table}: {counted(found.merged_record_count or 0, 'row')}, about "
                f"{size_text(found.merged_record_size or 0)}; statistics of snapshot "
                f"{found.snapshot_id} committed as snapshot {result.snapshot.id} in "
                f"{duration_text(result.duration_ms)}"
            )
        ]
    )
    if not found.columns:
        return
    columns = [
        TextColumn("column"),
        TextColumn("distinct", right=True),
        TextColumn("nulls", right=True),
        TextColumn("min"),
        TextColumn("max"),
        TextColumn("avg length", right=True),
        TextColumn("max length", right=True),
    ]
    print_table(columns, [_cells(each, result) for each in found.columns], empty="")


def _cells(column: ColumnStatistics, result: AnalyzeResult) -> list[Cell]:
    distinct = "-" if column.distinct_count is None else f"{column.distinct_count:,}"
    if column.distinct_count is not None and column.name not in result.exact_columns:
        distinct = f"~{distinct}"
    return [
        column.name,
        distinct,
        column.null_count,
        "-" if column.minimum is None else cut(column.minimum, _MAX_WIDTH),
        "-" if column.maximum is None else cut(column.maximum, _MAX_WIDTH),
        "-" if column.avg_len is None else str(column.avg_len),
        "-" if column.max_len is None else str(column.max_len),
    ]
