"""Expiry: old snapshots go, and with them the files that only they needed.

1. Choose the range [earliest, end), no more than a step of it: beyond the count and the age to
   retain, and before the first snapshot that a consumer still wants. A consumer that has not
   moved for longer than the table gives it holds nothing, and goes.
2. Candidates: data files that a delta after the first expired snapshot removed, its
   changelog files, and the manifests, lists, index and statistics files of the range.
3. Keep whatever `end`, a tag, a branch or a changelog reaches. A later snapshot reaches of the
   candidates only what `end` does, if it is proved to be made on top of it (`lineage.py`); each
   that is not is asked as `end` is. Where one of these cannot be read, what it might name is not
   known, so nothing is deleted. Of what goes, what cannot be read names nothing: its files stay.
   Where changelogs live longer than snapshots, those of the range stay.
4. Run: point EARLIEST at `end`, under a mark beside the table, so that nobody begins anything at
   what goes. What refers to it is asked before that, and once more after it where a tag, a branch
   or a changelog came or snapshots came back. Keep the changelogs that stay, delete data files,
   then manifests, then the lists that name them, then snapshot files, oldest first. Stopped
   halfway, the next run goes at least as far, and takes a manifest that is gone for one whose
   files are.

A file that no DELETE entry names is never deleted here. Source: Paimon
`ExpireSnapshotsImpl`, `SnapshotDeletion`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import SnapshotNotFound, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.consumers import (
    plan_expire_consumers,
    run_expire_consumers,
)
from lakewright.storage.operations.references.delete_unreachable import remove_bucket_folders
from lakewright.storage.operations.references.expiry_mark import (
    end_expiry_marks,
    marked_as_expiring,
    put_expiry_mark,
)
from lakewright.storage.operations.references.rollback_pin import check_no_rollback
from lakewright.storage.operations.references.roots import RootKind, other_roots
from lakewright.storage.operations.references.stale_roots import stale_if_roots_go
from lakewright.storage.operations.retention.expiring_files import (
    ExpiringRange,
    about_unreadable,
    first_kept_id,
)
from lakewright.storage.operations.retention.expiry_range import expiry_step, retention_of
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.running.plan import DeletionPlan
from lakewright.storage.operations.state.lineage import Lineage
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePlan(DeletionPlan):
    """Snapshots to expire in one step and the files that go; `reasons` says what bounds the step.

    `changelog_ids` are those whose changes outlive them; `consumers` have not moved for too long.
    About so many as `waiting` says may go in later steps.
    """

    snapshot_ids: tuple[int, ...]
    end_id: int | None
    reasons: tuple[str, ...]
    changelog_ids: tuple[int, ...] = ()
    consumers: tuple[str, ...] = ()
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireResult(Shown):
    """What an expiry deleted."""

    expired: tuple[int, ...]
    files_deleted: int
    bytes_deleted: int
    duration_ms: int

    def and_then(self, later: ExpireResult) -> ExpireResult:
        """What both deleted."""
        return ExpireResult(
            expired=(*self.expired, *later.expired),
            files_deleted=self.files_deleted + later.files_deleted,
            bytes_deleted=self.bytes_deleted + later.bytes_deleted,
            duration_ms=self.duration_ms + later.duration_ms,
        )


def plan_expire_snapshots(
    files: TableFiles,
    *,
    retain_min: int | None = None,
    retain_max: int | None = None,
    time_retained_ms: int | None = None,
    max_deletes: int | None = None,
    lineage: Lineage | None = None,
) -> ExpirePlan:
    """What may go in one step; what is not given is taken from the table's options.

    `lineage` remembers what earlier steps have proved.

    Raises:
        InvalidRequestError: `retain_min` is below 1 or above `retain_max`.
        ClockJumped: the latest snapshot is of a time to come, so no age can be told.
        CorruptionError: something that must be read to be sure cannot be.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    retention = retention_of(files, retain_min, retain_max, time_retained_ms, max_deletes)
    stale = tuple(each.name for each in plan_expire_consumers(files))
    listed = files.snapshots.listed()
    if not listed:
        return _nothing(files, None, stale, "the table has no snapshot")
    ids = list(listed)
    kept = files.snapshots.kept_of(ids)
    with stale_if_roots_go(files, kept, sorted({*ids} - {*kept})):
        step = expiry_step(files, ids, kept, retention, stale)
        if not step.expired:
            return _nothing(files, ids[0], stale, *step.reasons)
        expired = [files.snapshots.read(each) for each in step.expired]
        outliving = step.expired if files.options.changelog_outlives_snapshots else ()
        going = ExpiringRange(files, expired, ids[len(expired)], outliving)
        found, unreadable = going.files_of(first_kept_id(kept, going.end), listed, lineage)
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
    """Carry a plan out.

    Raises:
        StalePlan: snapshots came or went so that the plan's range is not the earliest any more,
            or something refers to what it deletes.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    started = files.env.now_ms()
    stale = [each for each in plan_expire_consumers(files) if each.name in plan.consumers]
    run_expire_consumers(files, stale)
    if not plan.snapshot_ids or plan.end_id is None:
        return ExpireResult(expired=(), files_deleted=0, bytes_deleted=0, duration_ms=0)
    listed = files.snapshots.listed()
    kept = files.snapshots.kept_of(list(listed))
    with stale_if_roots_go(files, kept, sorted(listed.keys() - {*kept})):
        deleted = _run(files, plan, plan.end_id, lineage or Lineage())
    return ExpireResult(
        expired=plan.snapshot_ids,
        files_deleted=deleted,
        bytes_deleted=plan.bytes,
        duration_ms=files.env.now_ms() - started,
    )


def _run(
    files: TableFiles,
    plan: ExpirePlan,
    end_id: int,
    lineage: Lineage,
) -> int:
    check_no_rollback(files)
    # Not before: what a rollback had taken may be back.
    listed = files.snapshots.listed()
    _check_range(files, plan, list(listed))
    end = files.snapshots.read(end_id)
    known = _others(files)
    _check_unused(files, plan, listed, lineage)
    put_expiry_mark(files, end)
    hint = files.snapshots.hinted_earliest()
    if hint is None or hint < end_id or hint not in listed:
        # What an expiry has begun to take is never shown again.
        _set_earliest(files, end_id)
    # Begun before EARLIEST was there to be seen; a later one sees that its target goes.
    check_no_rollback(files)
    there = files.snapshots.listed()
    are_back = any(each < max(listed) and each not in listed for each in there)
    if are_back or not _others(files) <= known:
        # Made before EARLIEST was there to be seen.
        _check_range(files, plan, list(there))
        _check_unused(files, plan, there, lineage)
    _check_undisturbed(files, plan, end)
    _keep_changelogs(files, plan.changelog_ids)
    paths = [files.paths.below(file.path) for file in plan.files]
    deleted = delete_files(files.fs, paths)
    _check_undisturbed(files, plan, end)
    delete_files(files.fs, [files.paths.snapshot(each) for each in plan.snapshot_ids])
    _check_not_rolled_back(files, plan)
    end_expiry_marks(files, end_id)
    if files.options.snapshot_clean_empty_directories:
        remove_bucket_folders(files, paths)
    return deleted


def _set_earliest(files: TableFiles, end: int) -> None:
    """Point EARLIEST at the first snapshot that stays.

    Raises:
        StalePlan: an expiry that goes further is at work; EARLIEST says where to.
    """
    files.snapshots.hint_earliest(end)
    further = end
    while (marked := marked_as_expiring(files, after_id=further)) is not None:
        files.snapshots.hint_earliest(marked)
        further = marked
    if further > end:
        raise StalePlan(
            f"the plan expires the snapshots of {files.name} before {end}, and those before "
            f"{further} are being expired already; plan again",
            table=files.name,
        )


def _keep_changelogs(files: TableFiles, snapshot_ids: Collection[int]) -> None:
    """Copy snapshots to where long-lived changelogs are looked for."""
    if not snapshot_ids:
        return
    there = files.references.changelog_ids()
    for snapshot_id in snapshot_ids:
        if files.snapshots.exists(snapshot_id):
            files.references.put_changelog(snapshot_id, files.snapshots.read_file(snapshot_id))
    files.references.hint_changelogs(
        earliest=min(snapshot_ids) if not there else None, latest=max(snapshot_ids)
    )


def _check_undisturbed(files: TableFiles, plan: ExpirePlan, end: Snapshot) -> None:
    """The same as `_check_range`, which is asked only where others may have been at work.

    Whoever rolls back sets EARLIEST or takes away `end`; another expiry sets EARLIEST, too.

    Raises:
        StalePlan: the range is another one, be its ids the same.
    """
    try:
        is_same = files.snapshots.read(end.id).delta_manifest_list == end.delta_manifest_list
    except SnapshotNotFound:
        is_same = False
    hint = files.snapshots.hinted_earliest()
    if not is_same or hint != end.id:
        _check_range(files, plan, files.snapshots.ids())
    if not is_same:
        raise StalePlan(
            f"{files.name} was rolled back beyond snapshot {end.id} and written to again while "
            "those before it expired; plan again",
            table=files.name,
        )
    if hint is None or hint < end.id:
        # Of two expiries that looked at EARLIEST at once the nearer one may have set it last.
        files.snapshots.hint_earliest(end.id)


def _check_range(files: TableFiles, plan: ExpirePlan, ids: Sequence[int]) -> None:
    """The range must still be the earliest, with a snapshot after it that no expiry takes."""
    planned = set(plan.snapshot_ids)
    end = plan.end_id or 0
    if end not in ids or not {each for each in ids if each < end} <= planned:
        raise StalePlan(
            f"the plan expires snapshots {plan.snapshot_ids[0]} to {plan.snapshot_ids[-1]} of "
            f"{files.name}, which now has {ids[0] if ids else 'none'} to "
            f"{ids[-1] if ids else 'none'}; plan again",
            table=files.name,
        )


def _others(files: TableFiles) -> set[tuple[str, RootKind, int | str, str]]:
    """What keeps files besides this branch's own snapshots, to see whether something came."""
    return {
        (root.branch, root.kind, root.label, root.snapshot.delta_manifest_list)
        for root in other_roots(files)
    }


def _check_unused(
    files: TableFiles, plan: ExpirePlan, listed: Mapping[int, FileStatus], lineage: Lineage
) -> None:
    """What is to go must still be unreachable, and be all that the range leaves behind.

    Ids alone do not tell that the range is the one that was planned for: after a rollback they
    come again.
    """
    present = []
    for snapshot_id in plan.snapshot_ids:
        with suppress(SnapshotNotFound):
            present.append(files.snapshots.read(snapshot_id))
    fresh: set[str] = set()
    if present and plan.end_id is not None:
        kept = files.snapshots.kept_of(list(listed))
        going = ExpiringRange(files, present, plan.end_id, plan.changelog_ids)
        found, _ = going.files_of(first_kept_id(kept, plan.end_id), listed, lineage)
        fresh = {file.path for file in found}
    still_used = [file.path for file in plan.files if file.path not in fresh]
    if still_used:
        raise StalePlan(
            f"the plan deletes {still_used[0]} (and {len(still_used) - 1} more) of {files.name}, "
            "which something refers to by now; plan again",
            table=files.name,
        )
    more = sorted(fresh.difference(file.path for file in plan.files))
    if more:
        raise StalePlan(
            f"the plan leaves {more[0]} (and {len(more) - 1} more) of {files.name} behind, which "
            "nothing refers to once its snapshots are gone; plan again",
            table=files.name,
        )


def _check_not_rolled_back(files: TableFiles, plan: ExpirePlan) -> None:
    """A table that was rolled back into the range meanwhile stays there: a tag holds that state.

    Raises:
        StalePlan: it was.
    """
    if files.snapshots.exists(plan.end_id or 0) or files.snapshots.ids():
        return
    tags = files.references.tags().values()
    held = [tag for tag in tags if tag.snapshot.id in plan.snapshot_ids]
    if held:
        latest = held[-1]
        files.snapshots.restore(
            latest.snapshot.id, files.references.read_tagged_snapshot_file(latest.name)
        )
        files.snapshots.hint_earliest(latest.snapshot.id)
        files.snapshots.hint_latest(latest.snapshot.id)
    raise StalePlan(
        f"{files.name} was rolled back while snapshots {plan.snapshot_ids[0]} to "
        f"{plan.snapshot_ids[-1]} expired; plan again",
        table=files.name,
    )
