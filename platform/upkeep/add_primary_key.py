"""A primary key for a table without one, as a verb: all rows are rewritten into buckets."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.procedure import Command, Outcome, Procedure, Report
from lakewright.platform.upkeep.run_options import Verified
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.storage import LeaseKind, Table
from lakewright.storage.operations.respec.add_primary_key import (
    AddPrimaryKeyOptions,
    AddPrimaryKeyPlan,
    AddPrimaryKeyResult,
)
from lakewright.storage.upkeep import Upkeep


@dataclass(frozen=True, kw_only=True)
class AddPrimaryKeyRun(Verified, AddPrimaryKeyOptions):
    """What adds a primary key."""


_Done = Outcome[AddPrimaryKeyRun, AddPrimaryKeyPlan, AddPrimaryKeyResult]


def _report(_: Table, done: _Done) -> Report:
    plan, result = done.plan, done.result
    keys = ", ".join(plan.keys)
    if plan.is_there:
        return Report(summary=f"{plan.table} has the primary key {keys}", facts={}, is_empty=True)
    if result is None:
        return Report(
            summary=f"{plan.table} can have the primary key {keys}: no key is null or "
            f"duplicated; {counted(plan.files_before, 'file')}, {size_text(plan.bytes_before)}, "
            f"{counted(plan.rows, 'row')} to rewrite into {counted(plan.buckets, 'bucket')} of "
            "each partition",
            facts={"files": plan.files_before, "bytes": plan.bytes_before, "rows": plan.rows},
            notes=("writers of other clients that have opened the table must be stopped before",),
        )
    return Report(
        summary=f"{plan.table} has the primary key {keys} now: {counted(result.rows, 'row')} in "
        f"{counted(result.files_after, 'file')}, {duration_text(result.duration_ms)}",
        facts={
            **{name: value for name, value in asdict(result).items() if isinstance(value, int)},
            "schema_id": result.schema.id,
        },
        notes=("open the table again",),
        snapshot=result.snapshot,
    )


def _measures(_: Table, done: _Done) -> Measures:
    plan, result = done.plan, done.result
    snapshot = None if result is None else result.snapshot
    after = sum(min(task.rows, plan.buckets) for task in plan.tasks)
    if result is not None:
        after = result.files_after
    return Measures(
        cost=Cost(
            bytes=plan.bytes_before,
            files=plan.files_before,
            bytes_written=plan.bytes_before if result is None else result.bytes_after,
        ),
        benefit=Benefit(files_fewer=plan.files_before - after),
        snapshots=() if snapshot is None else (snapshot.id,),
    )


ADD_PRIMARY_KEY = Procedure(
    verb=Upkeep.add_primary_key,
    options=AddPrimaryKeyRun,
    report=_report,
    alone=LeaseKind.OVERWRITE,
    command=Command(
        purpose="Upkeep",
        examples="""
lakewright add-primary-key shop.orders --keys dt,id --dry-run
lakewright add-primary-key shop.orders --keys dt,id --buckets 4
""",
        notes="""
Null and duplicate keys are shown, and nothing is changed. Every client reads the table at
each moment. Stop writers of other clients before: one that opened the table earlier knows no key.
""",
    ),
    measures=_measures,
)
