"""Expiry of all that may go: step after step, as many as it takes.

1. Plan a step (`expire_snapshots.py`), of as many snapshots as the table's options let go at once.
2. Run it. The table is whole after each step, so whoever stops here has lost nothing, and the
   next to come goes on.
3. Again, until nothing may go, as many went as asked, or the time is up; one step is always made.

What one step has proved of the history the next one need not read again, so a step reads what
goes, what stays first, and whatever else keeps files: no more for many snapshots than for few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.retention.expire_snapshots import (
    ExpirePlan,
    ExpireResult,
    plan_expire_snapshots,
    run_expire_snapshots,
)
from lakewright.storage.operations.state.lineage import Lineage
from lakewright.storage.spec.shown import Shown


@dataclass(frozen=True, slots=True)
class ExpireStep(Shown):
    """What a step was to do, and what it did."""

    plan: ExpirePlan
    result: ExpireResult


def expire_in_steps(
    files: TableFiles,
    *,
    retain_min: int | None = None,
    retain_max: int | None = None,
    time_retained_ms: int | None = None,
    max_deletes: int | None = None,
    max_duration_ms: int | None = None,
) -> Iterator[ExpireStep]:
    """Steps as they are done; the first also where it had nothing to do.

    `max_deletes` bounds all of them together, `snapshot.expire.limit` each one.

    Raises:
        InvalidRequestError: the retention cannot be, or nothing may be let go.
        StalePlan: others took something of the range at the same time; what is told is done.
        ClockJumped, CorruptionError: as `plan_expire_snapshots`.
    """
    if max_deletes is not None and max_deletes < 1:
        raise InvalidRequestError(f"max_deletes is {max_deletes}; let at least 1 snapshot go")
    started = files.env.now_ms()
    lineage = Lineage()
    left, is_first = max_deletes, True
    while True:
        limit = files.options.snapshot_expire_limit
        plan = plan_expire_snapshots(
            files,
            retain_min=retain_min,
            retain_max=retain_max,
            time_retained_ms=time_retained_ms,
            max_deletes=limit if left is None else min(limit, left),
            lineage=lineage,
        )
        if not plan.snapshot_ids and not is_first:
            return
        yield ExpireStep(plan, run_expire_snapshots(files, plan, lineage=lineage))
        if not plan.snapshot_ids:
            return
        is_first = False
        left = None if left is None else left - len(plan.snapshot_ids)
        if left == 0 or (
            max_duration_ms is not None and files.env.now_ms() - started >= max_duration_ms
        ):
            return
