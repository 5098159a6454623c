"""Expires all snapshots that may go, in steps.

1. Plan a step (`expire_snapshots.py`) of at most `snapshot.expire.limit` snapshots. If the table
   does not set the option, a step of a long backlog takes an eighth of what waits.
2. Run it. The table is complete after each step. If the process stops here, the next run goes on.
3. Repeat until a step has left none that might go, `max_deletes` have gone, or the time is up.
   At least one step runs. Snapshots whose time comes meanwhile are left for the next run: of a
   table that is written all the time there are always some.

A step does not read again the history that earlier steps have proved. It reads the snapshots that
go, the first that stays, and the other roots. So its cost does not grow with the history.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.manifest_store import ReadManifests
from lakewright.storage.files.seen_files import SeenFiles
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.retention.expire_snapshots import (
    ExpirePlan,
    ExpireResult,
    ExpireSnapshotsOptions,
    plan_expire_snapshots,
    run_expire_snapshots,
)
from lakewright.storage.operations.state.lineage import Lineage
from lakewright.storage.spec.arguments import whole_or_none
from lakewright.storage.spec.shown import Shown

# A step holds the names of the files that go with so many snapshots.
_MOST_A_STEP = 500


@dataclass(frozen=True, slots=True)
class ExpireStep(Shown):
    """The plan of a step and its result."""

    plan: ExpirePlan
    result: ExpireResult


def expire_in_steps(
    files: TableFiles, options: ExpireSnapshotsOptions, *, max_duration_ms: int | None = None
) -> Iterator[ExpireStep]:
    """Yield each step after it has run; the first also if it had nothing to do.

    `max_deletes` bounds all steps together, `snapshot.expire.limit` each step if a table sets it.

    Raises:
        InvalidRequestError: the retention is invalid, or `max_deletes` is below 1.
        StalePlan: another process changed the range at the same time; the yielded steps are done.
        ClockJumped, CorruptionError: as `plan_expire_snapshots`.
    """
    max_deletes = whole_or_none(options.max_deletes, "max_deletes")
    max_duration_ms = whole_or_none(max_duration_ms, "max_duration_ms", minimum=0)
    if max_deletes is not None and max_deletes < 1:
        raise InvalidRequestError(f"max_deletes is {max_deletes}; give 1 or more")
    started = files.env.now_ms()
    lineage, known = Lineage(), ReadManifests(seen=SeenFiles(files.env))
    left, is_first = max_deletes, True
    limit = files.options.snapshot_expire_limit
    is_limited = "snapshot.expire.limit" in files.schema.options
    while True:
        # What a step reads of the files of its range, no later step needs.
        known = ReadManifests(lists=known.lists, seen=known.seen)
        seen = files.reading_once(known)
        plan = plan_expire_snapshots(
            seen,
            replace(options, max_deletes=limit if left is None else min(limit, left)),
            lineage=lineage,
        )
        if not plan.snapshot_ids and not is_first:
            return
        yield ExpireStep(plan, run_expire_snapshots(seen, plan, lineage=lineage))
        if not plan.waiting:
            return
        is_first = False
        # Each step lists all snapshots several times.
        if not is_limited:
            limit = max(limit, min(plan.waiting // 8, _MOST_A_STEP))
        left = None if left is None else left - len(plan.snapshot_ids)
        if left == 0 or (
            max_duration_ms is not None and files.env.now_ms() - started >= max_duration_ms
        ):
            return
