"""Deleting and updating rows as verbs: each statement is one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.platform.upkeep.effects import Effect
from lakewright.platform.upkeep.options import ENGINE, FLAG, WHERE, option, texts
from lakewright.platform.upkeep.verb import Command, NamedPartition, Outcome, Report, Verb, Work
from lakewright.platform.upkeep.where_notes import WHERE_NOTES
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.row_changes.statement import RowChangePlan
from lakewright.storage.plans import DeleteRowsPlan, RowChangeResult, UpdateRowsPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRowsOptions:
    """Which rows change."""

    where: str | None = option(WHERE, None, "The rows that match this filter.")
    all_rows: bool = option(FLAG, default=False, text="All rows; without it a filter is needed.")
    engine: EngineChoice = option(
        ENGINE,
        EngineChoice.AUTO,
        "Where files are read and written: spark, local, or auto, by size.",
        at_run=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRowsOptions(DeleteRowsOptions):
    """Which rows get which new values."""

    values: tuple[str, ...] = option(
        texts("COLUMN=EXPR"),
        (),
        "A column and its new value, an expression of DuckDB's SQL over the row.",
        flag="--set",
    )


_Done = (
    Outcome[DeleteRowsOptions, DeleteRowsPlan, RowChangeResult]
    | Outcome[UpdateRowsOptions, UpdateRowsPlan, RowChangeResult]
)


def _asked_rows(options: DeleteRowsOptions) -> str | None:
    if (options.where is None) != options.all_rows:
        raise InvalidRequestError("say which rows: by a filter (where), or all of them (all_rows)")
    return options.where


def _plan_delete(table: Table, options: DeleteRowsOptions) -> DeleteRowsPlan:
    return table.upkeep.plan_delete_rows(_asked_rows(options))


def _plan_update(table: Table, options: UpdateRowsOptions) -> UpdateRowsPlan:
    values = {}
    for each in options.values:
        name, sign, expression = each.partition("=")
        if not sign or not expression.strip():
            raise InvalidRequestError(f"{each!r} is not COLUMN=EXPR, such as price=price*1.1")
        if name.strip() in values:
            raise InvalidRequestError(f"{name.strip()} gets two values; give it one")
        values[name.strip()] = expression
    return table.upkeep.plan_update_rows(values, _asked_rows(options))


def _run(
    table: Table,
    plan: DeleteRowsPlan | UpdateRowsPlan,
    options: DeleteRowsOptions,
    work: Work,
) -> RowChangeResult:
    return table.upkeep.run(plan, work.engine(options.engine, plan.bytes_rewritten))


def _report(_: Table, done: _Done) -> Report:
    plan, result = done.plan, done.result
    verb = "delete" if isinstance(plan, DeleteRowsPlan) else "update"
    if result is None:
        return report_of_plan(plan, f"{counted(plan.rows, 'row')} to {verb}", {"rows": plan.rows})
    changed = result.deleted or result.updated
    told = f"{counted(changed, 'row')} {verb}d"
    return report_of_result(plan, result, told, {"rows": changed})


def report_of_plan(plan: RowChangePlan[Any], told: str, counts: Mapping[str, object]) -> Report:
    """What a statement would change; `told` and `counts` say how many rows."""
    buckets = [
        {
            "partition": NamedPartition(each.partition),
            "bucket": each.bucket,
            "rows": each.rows,
            "files": len(each.files),
            "bytes": each.bytes,
        }
        for each in plan.buckets
    ]
    return Report(
        summary=f"{plan.table}: {told}; {counted(plan.files_opened, 'file')} opened to count them, "
        f"{counted(plan.files_rewritten, 'file')} ({size_text(plan.bytes_rewritten)}) to write "
        "again",
        facts={
            **counts,
            "files_opened": plan.files_opened,
            "files_rewritten": plan.files_rewritten,
            "bytes_rewritten": plan.bytes_rewritten,
        },
        tables={"plan": buckets},
        is_empty=not plan.rows,
    )


def report_of_result(
    plan: RowChangePlan[Any], result: RowChangeResult, told: str, counts: Mapping[str, object]
) -> Report:
    """What a statement changed."""
    if result.snapshot is None:
        return Report(
            summary=f"no row of {plan.table} matches", facts=dict.fromkeys(counts, 0), is_empty=True
        )
    return Report(
        summary=f"snapshot {result.snapshot.id} of {plan.table}: {told} in "
        f"{duration_text(result.duration_ms)}",
        facts={
            **counts,
            "files_removed": result.files_removed,
            "files_written": result.files_written,
            "bytes_written": result.bytes_written,
            "attempts": result.attempts,
            "duration_ms": result.duration_ms,
        },
        snapshot=result.snapshot,
    )


DELETE_ROWS = Verb(
    name="delete",
    summary="delete rows that match a filter",
    effect=Effect.WRITES,
    may_use_spark=True,
    command=Command(
        purpose="Rows",
        notes="""
Tables with deletion vectors mark the rows; of other append tables the files with a match are
written again. Primary-key tables get rows of the kind -D, if their merge engine deletes by them.
"""
        + WHERE_NOTES,
        examples="""
lakewright delete shop.orders --where "customer = 17" --dry-run
lakewright delete shop.orders --where "day < '2024-01-01'"
""",
    ),
    options=DeleteRowsOptions,
    plan_type=DeleteRowsPlan,
    plan=_plan_delete,
    run=_run,
    report=_report,
)

UPDATE_ROWS = Verb(
    name="update",
    summary="give rows that match a filter new values",
    effect=Effect.WRITES,
    may_use_spark=True,
    command=Command(
        purpose="Rows",
        notes=WHERE_NOTES,
        examples="""
lakewright update shop.orders --set "price=price * 2" --where "day = '2024-01-01'" --dry-run
lakewright update shop.orders --set "note='sale'" --set "price=price - 1" --where "price > 100"
""",
    ),
    options=UpdateRowsOptions,
    plan_type=UpdateRowsPlan,
    plan=_plan_update,
    run=_run,
    report=_report,
)
