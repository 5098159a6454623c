"""Expiry: old snapshots go, and with them the files that only they needed.

1. Choose the range [earliest, end): beyond the count and the age to retain, and
   before the first snapshot that a consumer still wants. A consumer that has not
   moved for longer than the table gives it holds nothing, and goes.
2. Candidates: data files that a delta after the first expired snapshot removed, its
   changelog files, and the manifests, lists, index and statistics files of the range.
3. Keep whatever `end`, a later snapshot, a tag, a branch or a changelog reaches;
   what cannot be read keeps everything it might name, so nothing is deleted then.
   Where changelogs live longer than snapshots, those of the range stay.
4. Run: point EARLIEST at `end`, so that nobody begins anything at what goes, and only then ask
   what refers to it; keep the changelogs that stay, delete data files, then manifests, then
   the lists that name them, then snapshot files, oldest first. Stopped halfway, the next run
   goes at least as far, and takes a manifest that is gone for one whose files are.

A file that no DELETE entry names is never deleted here. Source: Paimon
`ExpireSnapshotsImpl`, `SnapshotDeletion`.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from lakewright.storage.errors import InvalidRequestError, SnapshotNotFound, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.consumers import plan_expire_consumers, run_expire_consumers
from lakewright.storage.operations.delete_files import delete_files
from lakewright.storage.operations.plan import DeletionPlan, UnreachableFile
from lakewright.storage.operations.reachable import (
    Reach,
    Root,
    RootKind,
    all_roots,
    changelog_root,
    metadata_sizes,
    remove_bucket_folders,
    snapshot_root,
    stale_when_roots_go,
    unreachable,
)
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePlan(DeletionPlan):
    """Snapshots to expire and the files that go with them; `reasons` says what bounds the range.

    `changelog_ids` are those whose changes outlive them; `consumers` have not moved for too long.
    """

    snapshot_ids: tuple[int, ...]
    end_id: int | None
    reasons: tuple[str, ...]
    changelog_ids: tuple[int, ...] = ()
    consumers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireResult:
    """What an expiry deleted."""

    expired: tuple[int, ...]
    files_deleted: int
    bytes_deleted: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much history to keep; `limit` bounds how many snapshots one run expires."""

    retain_min: int
    retain_max: int
    time_retained_ms: int
    limit: int


@stale_when_roots_go
def plan_expire_snapshots(
    files: TableFiles,
    *,
    retain_min: int | None = None,
    retain_max: int | None = None,
    time_retained_ms: int | None = None,
    max_deletes: int | None = None,
) -> ExpirePlan:
    """What may go; what is not given is taken from the table's options.

    Raises:
        InvalidRequestError: `retain_min` is below 1 or above `retain_max`.
        CorruptionError: something that must be read to be sure cannot be.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    options = files.options
    retention = Retention(
        retain_min=options.snapshot_num_retained_min if retain_min is None else retain_min,
        retain_max=options.snapshot_num_retained_max if retain_max is None else retain_max,
        time_retained_ms=(
            options.snapshot_time_retained_ms if time_retained_ms is None else time_retained_ms
        ),
        limit=options.snapshot_expire_limit if max_deletes is None else max_deletes,
    )
    _check_retention(retention, files.name)
    ids = files.snapshots.ids()
    stale = tuple(each.name for each in plan_expire_consumers(files))
    if not ids:
        return _nothing(files, None, stale, "the table has no snapshot")
    end, reasons = _end_of_range(files, ids, retention, stale)
    kept = files.snapshots.kept_ids()
    if kept and end < kept[0]:
        end = kept[0]
        reasons.append(f"an expiry of those before snapshot {end} has begun already")
    expired = [snapshot_id for snapshot_id in ids if snapshot_id < end]
    if not expired:
        return _nothing(files, ids[0], stale, *reasons)
    outliving = expired if options.changelog_outlives_snapshots else []
    if outliving:
        reasons.append("their changelogs stay for longer")
    found = _files_of_range(files, [files.snapshots.read(each) for each in expired], end, outliving)
    return ExpirePlan(
        table=files.name,
        snapshot_ids=tuple(expired),
        end_id=end,
        files=tuple(found),
        reasons=tuple(reasons),
        changelog_ids=tuple(outliving),
        consumers=stale,
    )


def _check_retention(retention: Retention, table: str) -> None:
    if retention.retain_min < 1:
        raise InvalidRequestError(
            f"retain_min is {retention.retain_min}; at least 1 snapshot of {table} must stay"
        )
    if retention.retain_max < retention.retain_min:
        raise InvalidRequestError(
            f"retain_max ({retention.retain_max}) is below retain_min ({retention.retain_min})"
        )
    if retention.time_retained_ms < 0 or retention.limit < 1:
        raise InvalidRequestError("time_retained_ms must not be negative, max_deletes not below 1")


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


def _end_of_range(
    files: TableFiles, ids: list[int], retention: Retention, stale: Collection[str]
) -> tuple[int, list[str]]:
    """The first snapshot that stays, and why it is that one; stale consumers hold nothing."""
    earliest, latest = ids[0], ids[-1]
    first = max(latest - retention.retain_max + 1, earliest)
    end = min(latest - retention.retain_min + 1, earliest + retention.limit)
    reasons = [f"of {len(ids)} snapshots at least {retention.retain_min} are retained"]
    for name, position in files.references.consumers().items():
        if name in stale:
            limit_s = (files.options.consumer_expiration_ms or 0) // 1000
            reasons.append(f"consumer {name} has not moved for {limit_s} s, and goes")
        elif position < end and not files.options.consumer_changelog_only:
            end = position
            reasons.append(f"consumer {name} wants to read from snapshot {position}")
    oldest_kept = files.env.now_ms() - retention.time_retained_ms
    for snapshot_id, following in zip(ids, [*ids[1:], None], strict=True):
        if not first <= snapshot_id < end:
            continue
        # A snapshot is in use until its successor is older than the time to retain.
        if following is None or files.snapshots.read(following).time_millis >= oldest_kept:
            end = snapshot_id
            reasons.append(
                f"snapshot {snapshot_id} was current within the last "
                f"{retention.time_retained_ms // 1000} s"
            )
            break
    end = max(end, earliest)
    if end > earliest and end not in ids:
        end = min(each for each in ids if each > end)
    return end, reasons


def _files_of_range(
    files: TableFiles, expired: list[Snapshot], end: int, changelogs: Collection[int]
) -> list[UnreachableFile]:
    """What goes with a range; `changelogs` are the snapshots of it whose changes stay."""
    going = [snapshot_root(files, each) for each in expired]
    staying = _staying(files, end)
    if not staying or staying[0].kind is not RootKind.SNAPSHOT or staying[0].snapshot.id != end:
        raise StalePlan(
            f"snapshot {end} of {files.name}, the first that was to stay, is gone; plan again",
            table=files.name,
        )
    first = staying[0]
    sizes = metadata_sizes(files)
    lost = Reach(present=sizes.keys())
    data: dict[str, int] = {}
    # The delta of a snapshot removes what the one before it still needs, hence the shift by one.
    for before, root in pairwise([*going, first]):
        # An earlier expiry that was stopped may have deleted manifests of what it expired, and it
        # deleted the data files they name before.
        data |= (Reach() if root is first else lost).removed(root)
        if before.snapshot.id + 1 != root.snapshot.id:
            # A table rolled back to an old tag has no delta that tells what came in between.
            data |= lost.state(before)
    for root in going:
        data |= lost.changelog(root)
    outliving = [changelog_root(files, each) for each in expired if each.id in changelogs]
    return list(
        unreachable(files, data, lost.metadata_of_all(going), [*staying, *outliving], sizes)
    )


def _staying(files: TableFiles, end: int) -> list[Root]:
    """Every root but the snapshots of this branch before `end`, which is the first of them."""
    mine, others = [], []
    for root in all_roots(files):
        if root.branch == files.paths.branch and root.kind is RootKind.SNAPSHOT:
            if root.snapshot.id >= end:
                mine.append(root)
        else:
            others.append(root)
    return [*mine, *others]


@stale_when_roots_go
def run_expire_snapshots(files: TableFiles, plan: ExpirePlan) -> ExpireResult:
    """Carry a plan out.

    Raises:
        StalePlan: snapshots came or went so that the plan's range is not the earliest any more,
            or something refers to what it deletes.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    started = files.env.now_ms()
    stale = [each for each in plan_expire_consumers(files) if each.name in plan.consumers]
    run_expire_consumers(files, stale)
    if not plan.snapshot_ids or plan.end_id is None:
        return ExpireResult(expired=(), files_deleted=0, bytes_deleted=0, duration_ms=0)
    _check_range(files, plan)
    known = _others(files)
    _check_unused(files, plan)
    files.snapshots.hint_earliest(plan.end_id)
    if not _others(files) <= known:
        # Made before EARLIEST was there to be seen.
        _check_unused(files, plan)
    _check_range(files, plan)
    _keep_changelogs(files, plan.changelog_ids)
    root = files.paths.root
    paths = [f"{root}/{file.path}" for file in plan.files]
    deleted = delete_files(files.fs, paths)
    _check_range(files, plan)
    delete_files(files.fs, [files.paths.snapshot(each) for each in plan.snapshot_ids])
    _check_not_rolled_back(files, plan)
    if files.options.snapshot_clean_empty_directories:
        remove_bucket_folders(files, paths)
    return ExpireResult(
        expired=plan.snapshot_ids,
        files_deleted=deleted,
        bytes_deleted=plan.bytes,
        duration_ms=files.env.now_ms() - started,
    )


def _keep_changelogs(files: TableFiles, snapshot_ids: Collection[int]) -> None:
    """Copy snapshots to where long-lived changelogs are looked for."""
    there = [each.id for each in files.references.changelogs()]
    for snapshot_id in snapshot_ids:
        if files.snapshots.exists(snapshot_id):
            files.references.put_changelog(snapshot_id, files.snapshots.read_file(snapshot_id))
    if snapshot_ids:
        files.references.hint_changelogs(
            earliest=min(snapshot_ids) if not there else None, latest=max(snapshot_ids)
        )


def _check_range(files: TableFiles, plan: ExpirePlan) -> None:
    """The range must still be the earliest, with a snapshot after it that no expiry takes."""
    ids, kept = files.snapshots.ids(), files.snapshots.kept_ids()
    planned = set(plan.snapshot_ids)
    if plan.end_id not in kept or not {each for each in ids if each < plan.end_id} <= planned:
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
        for root in all_roots(files)
        if root.branch != files.paths.branch or root.kind is not RootKind.SNAPSHOT
    }


def _check_unused(files: TableFiles, plan: ExpirePlan) -> None:
    """What is to go must still be unreachable."""
    present = []
    for snapshot_id in plan.snapshot_ids:
        with suppress(SnapshotNotFound):
            present.append(files.snapshots.read(snapshot_id))
    fresh: set[str] = set()
    if present and plan.end_id is not None:
        found = _files_of_range(files, present, plan.end_id, plan.changelog_ids)
        fresh = {file.path for file in found}
    still_used = [file.path for file in plan.files if file.path not in fresh]
    if still_used:
        raise StalePlan(
            f"the plan deletes {still_used[0]} (and {len(still_used) - 1} more) of {files.name}, "
            "which something refers to by now; plan again",
            table=files.name,
        )


def _check_not_rolled_back(files: TableFiles, plan: ExpirePlan) -> None:
    """A table that was rolled back into the range meanwhile stays there: a tag holds that state.

    Raises:
        StalePlan: it was.
    """
    if files.snapshots.ids():
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
