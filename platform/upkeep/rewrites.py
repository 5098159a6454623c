"""Common options, leases and reports of verbs that rewrite files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakewright.platform.declare.declarations import EngineChoice
from lakewright.platform.declare.partition_keys import describe_partition
from lakewright.platform.upkeep.engines import prefers_spark
from lakewright.platform.upkeep.leases import plan_scope
from lakewright.platform.upkeep.verb import Fact, LeaseNeed, Report, Work, option
from lakewright.storage import (
    CompactionPlan,
    CompactionResult,
    Engine,
    LeaseKind,
    LocalEngine,
    PostponePlan,
    PostponeResult,
    RescalePlan,
    RescaleResult,
    Table,
    VerifyLevel,
)
from lakewright.storage.operations.running.plan import RewritePlan

Partitions = tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteOptions:
    """What every rewrite may be told."""

    partitions: Partitions | None = option(
        None, "Partitions to look at, by all or some of their columns. Without any, all of them."
    )
    engine: EngineChoice = option(
        EngineChoice.AUTO, "Where the rewrite runs: spark, local, or auto, by size.", at_run=True
    )
    verify: VerifyLevel = option(
        VerifyLevel.CHECKSUMS,
        "How much is proved before anything is published: counts, checksums, or full, which reads "
        "the new files back.",
        at_run=True,
    )


def rewrite_lease(
    table: Table,
    plan: CompactionPlan | PostponePlan | RescalePlan | None,
    kind: LeaseKind = LeaseKind.COMPACT,
) -> LeaseNeed | None:
    """The lease for a rewrite plan; None for an empty plan."""
    if plan is None or not plan.tasks:
        return None
    return LeaseNeed(kind=kind, scope=plan_scope(table, plan))


def compaction_report(
    plan: CompactionPlan, result: CompactionResult | None, options: RewriteOptions
) -> Report:
    """The report of a rewrite by bucket."""
    if result is None or not plan.tasks:
        return _compaction_plan_report(plan)
    facts: dict[str, Fact] = {
        **_before_and_after(result),
        "dropped_tasks": result.dropped_tasks,
        "engine": _engine_name(options, plan),
        "seconds": round(result.duration_ms / 1000, 3),
    }
    notes = []
    if result.dropped_tasks:
        notes.append(
            f"{result.dropped_tasks} of {len(plan.tasks)} buckets were left alone: others changed "
            "their files meanwhile, or work on them"
        )
    return Report(
        summary=f"compacted {result.files_before} files into {result.files_after}",
        facts=facts,
        notes=tuple(notes),
        file_sizes=(result.file_sizes_before, result.file_sizes_after),
        partitions=_touched(task.partition for task in plan.tasks),
        snapshot=result.snapshot,
    )


def _compaction_plan_report(plan: CompactionPlan) -> Report:
    facts: dict[str, Fact] = {
        "files_before": plan.files_before,
        "bytes_before": plan.bytes_before,
        "rows": plan.rows,
        "tasks": len(plan.tasks),
        "skipped_buckets": len(plan.skipped),
    }
    if plan.snapshot_id is not None:
        facts["planned_at_snapshot"] = plan.snapshot_id
    tasks = tuple(
        {
            "partition": describe_partition(task.partition),
            "bucket": task.bucket,
            "files": len(task.files),
            "bytes": task.bytes,
            "rows": task.rows,
            "reason": task.reason,
        }
        for task in plan.tasks
    )
    skipped = tuple(
        {
            "partition": describe_partition(each.partition),
            "bucket": each.bucket,
            "files": each.files,
            "reason": each.reason,
        }
        for each in plan.skipped
    )
    if plan.tasks:
        summary = f"{plan.files_before} files would be rewritten"
    else:
        summary = f"nothing is worth compacting in {plan.table}; it is left as it is"
    return Report(
        summary=summary,
        facts=facts,
        tables={"plan": tasks, "left alone": skipped},
        is_empty=not plan.tasks,
    )


def move_report(
    plan: RescalePlan | PostponePlan,
    result: RescaleResult | PostponeResult | None,
    options: RewriteOptions,
    *,
    purpose: str,
) -> Report:
    """The report of a rewrite by partition; `purpose` names what its rows get."""
    if result is None or not plan.tasks:
        return _move_plan_report(plan, purpose)
    facts: dict[str, Fact] = {
        **_before_and_after(result),
        "partitions": result.partitions,
        "dropped_partitions": len(result.dropped),
        "engine": _engine_name(options, plan),
        "seconds": round(result.duration_ms / 1000, 3),
    }
    left = tuple(
        f"{describe_partition(spec)} was left alone: others changed it meanwhile, or work on it"
        for spec in result.dropped
    )
    return Report(
        summary=f"{result.rows_before} rows of {result.partitions} partitions got {purpose}",
        facts=facts,
        notes=left,
        partitions=_touched(task.partition for task in plan.tasks),
        snapshot=result.snapshots[-1] if result.snapshots else None,
    )


def _move_plan_report(plan: RescalePlan | PostponePlan, purpose: str) -> Report:
    facts: dict[str, Fact] = {
        "files_before": plan.files_before,
        "bytes_before": plan.bytes_before,
        "rows": plan.rows,
        "tasks": len(plan.tasks),
    }
    if plan.snapshot_id is not None:
        facts["planned_at_snapshot"] = plan.snapshot_id
    tasks = tuple(
        {
            "partition": describe_partition(task.partition),
            "files": len(task.files),
            "bytes": task.bytes,
            "rows": task.rows,
        }
        for task in plan.tasks
    )
    return Report(
        summary=f"{plan.rows} rows of {len(plan.tasks)} partitions wait for {purpose}",
        facts=facts,
        tables={"plan": tasks},
        is_empty=not plan.tasks,
    )


def rewrite_engine(options: RewriteOptions, plan: RewritePlan[Any], work: Work) -> Engine:
    """The engine for a plan; one without tasks starts no Spark session."""
    if not plan.tasks:
        return LocalEngine()
    return work.engine(options.engine, plan.bytes_before)


def _before_and_after(
    result: CompactionResult | RescaleResult | PostponeResult,
) -> dict[str, Fact]:
    return {
        "files_before": result.files_before,
        "files_after": result.files_after,
        "bytes_before": result.bytes_before,
        "bytes_after": result.bytes_after,
        "rows_before": result.rows_before,
        "rows_after": result.rows_after,
    }


def _engine_name(options: RewriteOptions, plan: RewritePlan[Any]) -> str:
    return "spark" if prefers_spark(options.engine, size_bytes=plan.bytes_before) else "local"


def _touched(partitions: Iterable[Mapping[str, object]]) -> Partitions:
    return tuple(spec for spec in partitions if spec)
