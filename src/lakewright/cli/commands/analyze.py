"""`lakewright analyze`: statistics of a table's rows, computed and published."""

from __future__ import annotations

from dataclasses import asdict

import click

from lakewright.cli.grammar.call import Call, check_one_of
from lakewright.cli.grammar.command import HowOption, command
from lakewright.cli.grammar.options import columns_option
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.tables import Block, TextColumn, TextTable
from lakewright.cli.output.text import Cell, counted, cut, duration_text, size_text
from lakewright.cli.upkeep.verbs import run_verb
from lakewright.cli.upkeep.work import Telling
from lakewright.platform.declare.declarations import EngineChoice
from lakewright.platform.upkeep.analyze import ANALYZE, AnalyzeOptions
from lakewright.storage import AnalyzePlan, AnalyzeResult, ColumnStatistics, Table

# What a bound may take of a line.
_MAX_WIDTH = 24


def _telling(_: Table) -> Telling[AnalyzePlan, AnalyzeResult]:
    return Telling(
        is_empty=lambda plan: plan.snapshot_id is None,
        describe=_plan_lines,
        summary=lambda plan: {"files": plan.files, "size_bytes": plan.bytes, "rows": plan.rows},
        report=_result_text,
        facts=lambda plan, result: {
            "snapshot_id": None if result.snapshot is None else result.snapshot.id,
            "statistics": None if result.statistics is None else asdict(result.statistics),
            "exact_columns": list(result.exact_columns),
            "duration_ms": result.duration_ms,
        },
    )


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


def _result_text(plan: AnalyzePlan, result: AnalyzeResult) -> list[Block]:
    found = result.statistics
    if result.snapshot is None or found is None:
        return [*_plan_lines(plan)]
    line = (
        f"{plan.table}: {counted(found.merged_record_count or 0, 'row')}, about "
        f"{size_text(found.merged_record_size or 0)}; statistics of snapshot "
        f"{found.snapshot_id} committed as snapshot {result.snapshot.id} in "
        f"{duration_text(result.duration_ms)}"
    )
    if not found.columns:
        return [line]
    columns = [
        TextColumn("column"),
        TextColumn("distinct", right=True),
        TextColumn("nulls", right=True),
        TextColumn("min"),
        TextColumn("max"),
        TextColumn("avg length", right=True),
        TextColumn("max length", right=True),
    ]
    return [line, "", TextTable(columns, [_cells(each, result) for each in found.columns])]


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


@command(
    "analyze",
    plans=True,
    examples="""
lakewright analyze nyc.flights --columns carrier,distance
lakewright analyze nyc.flights --no-columns --format json
""",
)
@columns_option
@click.option("--no-columns", is_flag=True, help="Only count the rows, describe no column.")
@click.option(
    "--engine",
    cls=HowOption,
    type=click.Choice([each.value for each in EngineChoice]),
    default=EngineChoice.LOCAL.value,
    show_default=True,
    help="Where rows are read: spark, local, or auto, by size.",
)
def analyze(
    call: Call, *, columns: list[str] | None, no_columns: bool, engine: str
) -> Answer | None:
    """Compute statistics of the rows and publish them: counts, bounds, distinct values."""
    check_one_of(columns=columns, no_columns=no_columns)
    described = () if no_columns else None if columns is None else tuple(columns)
    options = AnalyzeOptions(columns=described, engine=EngineChoice(engine))
    return run_verb(ANALYZE, call, call.table(), options, _telling)
