"""Deleting and updating rows as verbs: each statement is one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakewright.platform.upkeep.procedure import (
    Command,
    NamedPartition,
    Outcome,
    Procedure,
    Report,
)
from lakewright.platform.upkeep.run_options import OnEngine
from lakewright.platform.upkeep.where_notes import WHERE_NOTES
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.row_changes.delete_rows import DeleteRowsPlan
from lakewright.storage.operations.row_changes.statement import RowChangePlan, RowChangeResult
from lakewright.storage.operations.row_changes.update_rows import UpdateRowsPlan
from lakewright.storage.operations.running.verb_options import FLAG, option
from lakewright.storage.upkeep import DeleteRowsOptions, UpdateRowsOptions, Upkeep


@dataclass(frozen=True, kw_only=True)
class _WhichRows:
    all_rows: bool = option(FLAG, default=False, text="All rows; without it a filter is needed.")


@dataclass(frozen=True, kw_only=True)
class DeleteRowsRun(OnEngine, _WhichRows, DeleteRowsOptions):
    """Which rows go."""


@dataclass(frozen=True, kw_only=True)
class UpdateRowsRun(OnEngine, _WhichRows, UpdateRowsOptions):
    """Which rows get which new values."""


_Done = (
    Outcome[DeleteRowsRun, DeleteRowsPlan, RowChangeResult]
    | Outcome[UpdateRowsRun, UpdateRowsPlan, RowChangeResult]
)


def _check_rows(options: DeleteRowsRun | UpdateRowsRun) -> None:
    if (options.where is None) != options.all_rows:
        raise InvalidRequestError("say which rows: by a filter (where), or all of them (all_rows)")


def _plan_delete(table: Table, options: DeleteRowsRun) -> DeleteRowsPlan:
    _check_rows(options)
    return DELETE_ROWS.verb.planned(table.table_files, options)


def _plan_update(table: Table, options: UpdateRowsRun) -> UpdateRowsPlan:
    _check_rows(options)
    return UPDATE_ROWS.verb.planned(table.table_files, options)


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
            "partition": NamedPartition(bucket.partition),
            "bucket": bucket.bucket,
            "rows": bucket.rows,
            "files": len(bucket.files),
            "bytes": bucket.bytes,
        }
        for bucket in plan.buckets
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


DELETE_ROWS = Procedure(
    verb=Upkeep.delete_rows,
    options=DeleteRowsRun,
    plan=_plan_delete,
    report=_report,
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
)

UPDATE_ROWS = Procedure(
    verb=Upkeep.update_rows,
    options=UpdateRowsRun,
    plan=_plan_update,
    report=_report,
    command=Command(
        purpose="Rows",
        notes=WHERE_NOTES,
        examples="""
lakewright update shop.orders --set "price=price * 2" --where "day = '2024-01-01'" --dry-run
lakewright update shop.orders --set "note='sale'" --set "price=price - 1" --where "price > 100"
""",
    ),
)
