"""Analysis as a verb: statistics of a table's rows, computed and published."""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.platform.declare.declarations import EngineChoice
from lakewright.platform.upkeep.verb import Fact, Outcome, Report, Verb, Work, option
from lakewright.storage import AnalyzePlan, AnalyzeResult, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeOptions:
    """What an analysis may be told."""

    columns: tuple[str, ...] | None = option(
        None, "The columns to describe. Without any, all; an empty list only counts rows."
    )
    engine: EngineChoice = option(
        EngineChoice.AUTO, "Where rows are read: spark, local, or auto, by size.", at_run=True
    )


class Analyze(Verb[AnalyzeOptions, AnalyzePlan, AnalyzeResult]):
    """Compute statistics."""

    name = "analyze"
    description = "compute statistics of the rows and publish them: counts, bounds, distinct values"
    options = AnalyzeOptions
    plan_type = AnalyzePlan

    def plan(self, table: Table, options: AnalyzeOptions) -> AnalyzePlan:
        """What would be read."""
        return table.upkeep.plan_analyze(columns=options.columns)

    def run(
        self, table: Table, plan: AnalyzePlan, options: AnalyzeOptions, work: Work
    ) -> AnalyzeResult:
        """Read the rows of the plan's snapshot and publish what they say."""
        return table.upkeep.run(plan, work.engine(options.engine, plan.bytes))

    def report(
        self, table: Table, outcome: Outcome[AnalyzeOptions, AnalyzePlan, AnalyzeResult]
    ) -> Report:
        """What would be read, or the statistics of each column."""
        plan, result = outcome.plan, outcome.result
        if result is None or result.snapshot is None or result.statistics is None:
            return Report(
                summary=plan.reason,
                facts={
                    "files": plan.files,
                    "bytes": plan.bytes,
                    "rows": plan.rows,
                    "columns": ", ".join(plan.columns),
                },
                is_empty=plan.snapshot_id is None or result is not None,
            )
        found = result.statistics
        facts: dict[str, Fact] = {
            "rows": found.merged_record_count or 0,
            "bytes": found.merged_record_size or 0,
            "snapshot_id": result.snapshot.id,
            "seconds": round(result.duration_ms / 1000, 3),
        }
        columns = tuple(
            {
                "column": each.name,
                "distinct": each.distinct_count,
                "exact": each.name in result.exact_columns,
                "nulls": each.null_count,
                "min": each.minimum,
                "max": each.maximum,
                "avg_length": each.avg_len,
                "max_length": each.max_len,
            }
            for each in found.columns
        )
        return Report(
            summary=f"statistics of snapshot {found.snapshot_id} committed",
            facts=facts,
            tables={"columns": columns},
        )


ANALYZE = Analyze()
