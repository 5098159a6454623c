"""Expiry: deletes old snapshots and the files that only they need.

1. Choose the range [earliest, end) of one step: beyond the retention by count and age, and before
   the position of each consumer. Delete consumers that have not moved for too long.
2. Candidates: data files that deltas after the first expired snapshot remove; changelog files,
   manifests, lists, index and statistics files of the range.
3. Keep what `end`, a tag, a branch or a changelog reaches. A later snapshot on top of `end`
   (`state/lineage.py`) reaches no other candidate; any other snapshot is read like `end`. If one
   of these is unreadable, delete nothing. Files that only an unreadable manifest of the range
   names stay as orphans. If changelogs outlive snapshots, those of the range stay.
4. Run: if only these snapshots say where streams stand, commit that anew. Plan again, and refuse
   another range. Write the record (`references/condemn.py`), and check
   that no rollback needs a snapshot of the range. Write the changelogs that stay, and delete the
   snapshot files, oldest first. The collector deletes the files after the plan's grace. If the
   process dies, the next expiry goes on with the snapshots that are left.

A data file of a state is deleted only if a DELETE entry names it, or if a gap in the ids hides
the delta that would. Source: Paimon `ExpireSnapshotsImpl`, `SnapshotDeletion`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import InvalidRequestError, SnapshotNotFound, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.stream_positions import carry_streams
from lakewright.storage.operations.references.collect import Deleted, carried_out
from lakewright.storage.operations.references.condemn import check_no_rollback_before, condemn
from lakewright.storage.operations.references.consumers import (
    ExpireConsumersOptions,
    plan_expire_consumers,
    run_expire_consumers,
)
from lakewright.storage.operations.references.keepers import label_of
from lakewright.storage.operations.references.roots import other_roots
from lakewright.storage.operations.references.stale_roots import stale_if_roots_go
from lakewright.storage.operations.references.whole_snapshots import is_same
from lakewright.storage.operations.retention.expiring_files import (
    ExpiringRange,
    about_unreadable,
)
from lakewright.storage.operations.retention.expiry_range import expiry_step, retention_of
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.running.plan import DeletionPlan, check_ids
from lakewright.storage.operations.running.verb_options import COUNT, DURATION, grace, option
from lakewright.storage.operations.state.lineage import Lineage
from lakewright.storage.operations.state.store_clock import check_not_ahead
from lakewright.storage.spec.arguments import whole_number
from lakewright.storage.spec.shown import Summed
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePlan(DeletionPlan["ExpireResult"]):
    """Snapshots to expire in one step and the files that go; `reasons` says what bounds the step.

    `changelog_ids` are the snapshots whose changelogs stay. `consumers` have not moved for too
    long. `waiting` is about the number of snapshots that may expire in later steps. `by_age` says
    that some are chosen by their age. For `grace_ms` the run can be undone.
    """

    snapshot_ids: tuple[int, ...]
    end_id: int | None
    reasons: tuple[str, ...]
    changelog_ids: tuple[int, ...] = ()
    consumers: tuple[str, ...] = ()
    waiting: int = 0
    by_age: bool = False
    grace_ms: int = 0

    def __post_init__(self) -> None:
        DeletionPlan.__post_init__(self)
        check_ids(self.snapshot_ids, self.table)
        end = self.end_id
        if self.snapshot_ids and (end is None or self.snapshot_ids[-1] >= end):
            raise InvalidRequestError(
                f"a plan expires snapshot {self.snapshot_ids[-1]} of {self.table}, and the first "
                f"one that stays is {end}; plan again"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireResult(Summed):
    """What an expiry deleted, and which files it left to the collector."""

    expired: tuple[int, ...]
    files_deleted: int
    bytes_deleted: int
    duration_ms: int
    metadata_bytes_deleted: int = 0
    files_condemned: int = 0
    bytes_condemned: int = 0


@dataclass(frozen=True)
class ExpireSnapshotsOptions:
    """What an expiry of snapshots retains; the table's options say the rest."""

    retain_min: int | None = option(COUNT, None, "Snapshots that stay in any case.")
    retain_max: int | None = option(COUNT, None, "Snapshots that may stay at most.")
    time_retained_ms: int | None = option(
        DURATION, None, "How long a snapshot stays: 1h, 7d or 0s.", flag="--older-than"
    )
    max_deletes: int | None = option(COUNT, None, "Snapshots that one run expires at most.")
    grace_ms: int = grace()


def plan_expire_snapshots(
    files: TableFiles, options: ExpireSnapshotsOptions, *, lineage: Lineage | None = None
) -> ExpirePlan:
    """Plan one step; a value that is not given is taken from the table's options.

    The expiry can be undone for `grace_ms`; with 0, its run deletes the files at once.

    `lineage` remembers the history that earlier steps have proved.

    Raises:
        InvalidRequestError: a retention value is invalid.
        ClockJumped: the latest snapshot is dated in the future, so ages are unknown.
        CorruptionError: metadata that the plan depends on cannot be read.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    grace_ms = whole_number(options.grace_ms, "grace_ms", minimum=0)
    files = files.reading_once()
    retention = retention_of(
        files, options.retain_min, options.retain_max, options.time_retained_ms, options.max_deletes
    )
    stale = tuple(
        consumer.name
        for consumer in plan_expire_consumers(files, ExpireConsumersOptions()).consumers
    )
    listed = files.snapshots.listed()
    if not listed:
        return _nothing(files, None, stale, "the table has no snapshot")
    ids = list(listed)
    with stale_if_roots_go(files, ids):
        step = expiry_step(files, ids, retention, stale)
        if not step.expired:
            return _nothing(files, ids[0], stale, *step.reasons)
        expired = [files.snapshots.read(each) for each in step.expired]
        outliving = step.expired if files.options.changelog_outlives_snapshots else ()
        going = ExpiringRange(files, expired, ids[len(expired)], outliving)
        found, unreadable = going.files_of(listed, lineage)
    reasons = list(step.reasons)
    if outliving:
        reasons.append("their changelogs stay for longer")
    if unreadable:
        reasons.append(about_unreadable(files, unreadable))
    return ExpirePlan(
        table=files.name,
        snapshot_ids=tuple(step.expired),
        end_id=going.end,
        files=tuple(found),
        reasons=tuple(reasons),
        changelog_ids=tuple(outliving),
        consumers=stale,
        waiting=step.waiting,
        by_age=len(step.expired) > max(0, len(ids) - retention.retain_max),
        grace_ms=grace_ms,
    )


def _nothing(
    files: TableFiles, end: int | None, consumers: tuple[str, ...], *reasons: str
) -> ExpirePlan:
    return ExpirePlan(
        table=files.name,
        snapshot_ids=(),
        end_id=end,
        files=(),
        reasons=reasons,
        consumers=consumers,
    )


# --- carrying it out --------------------------------------------------------------------------


def run_expire_snapshots(
    files: TableFiles, plan: ExpirePlan, *, lineage: Lineage | None = None
) -> ExpireResult:
    """Carry out a plan.

    Raises:
        StalePlan: the plan's range is no longer the earliest, a root reaches a planned file, or a
            rollback into the range is under way.
        ClockJumped: the clock of this machine is ahead of the store's, so ages are unknown.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    files = files.reading_once()
    started = files.env.now_ms()
    stale = plan_expire_consumers(files, ExpireConsumersOptions())
    still = tuple(consumer for consumer in stale.consumers if consumer.name in plan.consumers)
    if plan.snapshot_ids and plan.by_age:
        check_not_ahead(files)
    run_expire_consumers(files, replace(stale, consumers=still))
    if not plan.snapshot_ids or plan.end_id is None:
        return ExpireResult(expired=(), files_deleted=0, bytes_deleted=0, duration_ms=0)
    carry_streams(files, plan.snapshot_ids, plan.end_id)
    with stale_if_roots_go(files, files.snapshots.ids()):
        deleted = _run(files, plan, plan.end_id, lineage or Lineage())
    return ExpireResult(
        expired=plan.snapshot_ids,
        files_deleted=deleted.files,
        bytes_deleted=deleted.bytes,
        duration_ms=files.env.now_ms() - started,
        metadata_bytes_deleted=plan.metadata_bytes,
        files_condemned=deleted.condemned_files,
        bytes_condemned=deleted.condemned_bytes,
    )


def _run(files: TableFiles, plan: ExpirePlan, end_id: int, lineage: Lineage) -> Deleted:
    _check_changelogs(files, plan)
    listed = files.snapshots.listed()
    _check_range(files, plan, list(listed))
    end = files.snapshots.read(end_id)
    known = [label_of(root) for root in other_roots(files)]
    _check_unused(files, plan, listed, lineage)
    paths = [files.paths.snapshot(snapshot_id) for snapshot_id in plan.snapshot_ids]
    condemned = condemn(files, "expire_snapshots", plan.files, paths, grace_ms=plan.grace_ms)
    check_no_rollback_before(condemned, end_id)
    try:
        # A rollback may have ended since the listing.
        _check_range(files, plan, files.snapshots.ids())
        _check_same(files, end)
    except StalePlan:
        condemned.withdraw()
        raise
    _keep_changelogs(files, plan.changelog_ids)
    files.snapshots.hint_earliest(end_id)
    delete_files(files.fs, paths)
    return carried_out(condemned, known=known, known_snapshots=frozenset(listed.values()))


def _check_changelogs(files: TableFiles, plan: ExpirePlan) -> None:
    """Check that the plan keeps the changelogs of its snapshots, exactly if the options say so."""
    outlive = files.options.changelog_outlives_snapshots
    if plan.changelog_ids != (plan.snapshot_ids if outlive else ()):
        raise StalePlan(
            f"the plan keeps the changelogs of {len(plan.changelog_ids)} of the "
            f"{len(plan.snapshot_ids)} snapshots of {files.name} that it expires, and the options "
            f"of the table keep {'all' if outlive else 'none'}; plan again"
        )


def _check_same(files: TableFiles, end: Snapshot) -> None:
    """Check that no rollback replaced the first snapshot that stays, and so the range."""
    if not is_same(files.snapshots.read(end.id), end):
        raise StalePlan(
            f"{files.name} was rolled back beyond snapshot {end.id} and written to again since the "
            "expiry was checked; plan again"
        )


def _keep_changelogs(files: TableFiles, snapshot_ids: Collection[int]) -> None:
    """Copy snapshot files to the folder of long-lived changelogs."""
    if not snapshot_ids:
        return
    there = files.references.changelog_ids()
    for snapshot_id in snapshot_ids:
        if files.snapshots.exists(snapshot_id):
            files.references.put_changelog(snapshot_id, files.snapshots.read_file(snapshot_id))
    files.references.hint_changelogs(
        earliest=min(snapshot_ids) if not there else None, latest=max(snapshot_ids)
    )


def _check_range(files: TableFiles, plan: ExpirePlan, ids: Sequence[int]) -> None:
    """Check that the range is still the earliest, and that the snapshot after it exists."""
    planned = set(plan.snapshot_ids)
    end = plan.end_id or 0
    if end not in ids or not {each for each in ids if each < end} <= planned:
        raise StalePlan(
            f"the plan expires snapshots {plan.snapshot_ids[0]} to {plan.snapshot_ids[-1]} of "
            f"{files.name}, which now has {ids[0] if ids else 'none'} to "
            f"{ids[-1] if ids else 'none'}; plan again"
        )
    for name, position in files.references.consumers().items():
        held = position < end and not files.options.consumer_changelog_only
        if held and name not in plan.consumers:
            raise StalePlan(
                f"consumer {name} of {files.name} reads from snapshot {position} on, and the plan "
                f"expires snapshots before {end}; plan again"
            )


def _check_unused(
    files: TableFiles, plan: ExpirePlan, listed: Mapping[int, FileStatus], lineage: Lineage
) -> None:
    """Check that the planned files are exactly those that become unreachable with the range.

    Equal ids do not prove that the range is the planned one, since ids repeat after a rollback.
    """
    present = []
    for snapshot_id in plan.snapshot_ids:
        with suppress(SnapshotNotFound):
            present.append(files.snapshots.read(snapshot_id))
    if not present and plan.files:
        raise StalePlan(
            f"{_ids_text(plan.snapshot_ids)} of {files.name}, which the plan expires, "
            f"{'is' if len(plan.snapshot_ids) == 1 else 'are'} gone already; plan again"
        )
    fresh: set[str] = set()
    if present and plan.end_id is not None:
        going = ExpiringRange(files, present, plan.end_id, plan.changelog_ids)
        found, _ = going.files_of(listed, lineage)
        fresh = {file.path for file in found}
    still_used = [file.path for file in plan.files if file.path not in fresh]
    if still_used:
        raise StalePlan(
            f"the plan deletes {still_used[0]} (and {len(still_used) - 1} more) of {files.name}, "
            "which a reference keeps now; plan again"
        )
    more = sorted(fresh.difference(file.path for file in plan.files))
    if more:
        raise StalePlan(
            f"the plan leaves {more[0]} (and {len(more) - 1} more) of {files.name} behind, which "
            "no reference keeps once the snapshots are expired; plan again"
        )


def _ids_text(ids: Sequence[int]) -> str:
    return f"snapshot {ids[0]}" if len(ids) == 1 else f"snapshots {ids[0]} to {ids[-1]}"
