"""`lakewright expire-snapshots`: old snapshots go, and the files that they alone need."""

from __future__ import annotations

from dataclasses import asdict

from lakewright.cli.output.tables import Block
from lakewright.cli.output.text import counted, duration_text, size_text
from lakewright.cli.upkeep.deletions import snapshots_text
from lakewright.cli.upkeep.rewrites import before_and_after
from lakewright.cli.upkeep.verbs import verb_command
from lakewright.cli.upkeep.work import Telling
from lakewright.platform.upkeep.expire import EXPIRE_SNAPSHOTS
from lakewright.storage import ExpirePlan, ExpireResult, Table


def _telling(table: Table) -> Telling[ExpirePlan, ExpireResult]:
    before = len(table.files.snapshots.ids())
    return Telling(
        is_empty=lambda plan: not plan.snapshot_ids,
        describe=_plan_text,
        summary=lambda plan: {
            "snapshots": len(plan.snapshot_ids),
            "files": len(plan.files),
            "size_bytes": plan.bytes,
        },
        report=lambda plan, result: _result_text(table, plan, result, before),
        facts=lambda plan, result: {
            **asdict(result),
            "snapshots_before": before,
            "snapshots_after": len(table.files.snapshots.ids()),
        },
    )


def _plan_text(plan: ExpirePlan) -> list[Block]:

    if not plan.snapshot_ids:
        lines = [f"no snapshot of {plan.table} to expire"]
    else:
        lines = [
            (
                f"expiry of {plan.table}: {snapshots_text(plan.snapshot_ids)} to go, and with them "
                f"{counted(len(plan.files), 'file')}, {size_text(plan.bytes)}; "
                f"snapshot {plan.end_id} becomes the earliest"
            )
        ]
        if plan.waiting:
            lines.append(
                f"  this is one step; about {counted(plan.waiting, 'more snapshot')} may go after "
                "it, in further steps of the same call"
            )
    return [*lines, *(f"  {reason}" for reason in plan.reasons)]


def _result_text(table: Table, plan: ExpirePlan, result: ExpireResult, before: int) -> list[Block]:
    if not result.expired:
        return _plan_text(plan)
    after = len(table.files.snapshots.ids())
    return [
        before_and_after(("snapshots", f"{before:,}", f"{after:,}")),
        "",
        (
            f"{snapshots_text(result.expired)} of {table.name} expired: "
            f"{counted(result.files_deleted, 'file')}, {size_text(result.bytes_deleted)} deleted "
            f"in {duration_text(result.duration_ms)}"
        ),
    ]


expire_snapshots = verb_command(
    EXPIRE_SNAPSHOTS,
    flags={"time_retained_ms": "--older-than", "max_duration_ms": "--max-time"},
    notes="A plan is one step; without --plan there are as many steps as it takes.",
    examples="""
lakewright expire-snapshots nyc.flights --retain-min 5 --older-than 7d --dry-run
lakewright expire-snapshots nyc.flights --retain-max 100 --max-time 30min
""",
    telling=_telling,
)
