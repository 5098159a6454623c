"""Rollback: returns the table to its state at a snapshot, a tag or a time.

1. Choose the target: an existing snapshot, a tagged one, or the last one not after a time.
2. Plan: later snapshots go, with their tags and long-lived changelogs, and the files that only
   they reach. Branches keep their files.
3. Run: write the record, which pins the target. Check that no expiry takes the target, and that it
   is complete. Restore its snapshot file if only a tag held it.
4. Delete the later snapshots, the latest last. That last deletion rolls the table back, so no
   reader sees a state in between. A concurrent commit and the rollback see each other
   (`commit_standing.py`). If another commit followed, restore the snapshots and raise StalePlan.
5. Point LATEST at the target. Delete changelogs and tags, and set consumers back to the snapshot
   after the target. After a crash, a new rollback to the same target completes it.
6. Delete strays: snapshots on top of deleted ones. The next commit creates the snapshot after the
   target. The collector deletes the files, after an hour if a commit of the last hour was rolled
   back: its committer may publish the same files once more.

A rollback adds no entries: what later snapshots removed is back since the target has none of their
manifests. So no state adds a file again that it removes.

Source: Paimon `RollbackHelper`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from lakewright.storage.codec.snapshot_json import decode_snapshot
from lakewright.storage.errors import (
    CorruptionError,
    InvalidRequestError,
    SnapshotNotFound,
    StalePlan,
    TagNotFound,
    UnsupportedError,
)
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.collect import Deleted, carried_out
from lakewright.storage.operations.references.commit_standing import follows, trace_of
from lakewright.storage.operations.references.condemn import (
    FLOOR_MS,
    Condemnation,
    check_pins_stay,
    condemn,
    held_file,
)
from lakewright.storage.operations.references.keepers import label_of
from lakewright.storage.operations.references.planned_files import files_of_both
from lakewright.storage.operations.references.reachable import only_kept_by
from lakewright.storage.operations.references.roots import (
    Root,
    RootKind,
    all_roots,
    root_ids,
    snapshot_root,
    tag_labels,
)
from lakewright.storage.operations.references.stale_roots import stale_when_roots_go
from lakewright.storage.operations.references.whole_snapshots import check_whole, is_kept, is_same
from lakewright.storage.operations.running.delete_files import delete_files, take_files
from lakewright.storage.operations.running.plan import DeletionPlan
from lakewright.storage.operations.running.verb_options import COUNT, MOMENT, TEXT, grace, option
from lakewright.storage.operations.state.time_travel import Time, choose_snapshot, time_ms
from lakewright.storage.spec.arguments import whole_number
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan(DeletionPlan["RollbackResult"]):
    """The target, and what is deleted; `restored_tag` is set if only a tag holds the target.

    For `grace_ms` the run can be undone.
    """

    target_id: int
    latest_id: int
    restored_tag: str | None
    snapshot_ids: tuple[int, ...]
    tags: tuple[str, ...]
    tag_snapshot_ids: tuple[int, ...]
    changelog_ids: tuple[int, ...]
    consumers: tuple[str, ...]
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if len(self.tags) != len(self.tag_snapshot_ids):
            raise InvalidRequestError(
                f"the plan to roll back to snapshot {self.target_id} deletes {len(self.tags)} tags "
                f"of {len(self.tag_snapshot_ids)} snapshots; plan again"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackResult(Shown):
    """What a rollback deleted, and which files it left to the collector."""

    target_id: int
    snapshots_deleted: int
    tags_deleted: int
    files_deleted: int
    bytes_deleted: int
    duration_ms: int
    files_condemned: int = 0
    bytes_condemned: int = 0


@dataclass(frozen=True)
class RollbackOptions:
    """The state to go back to: one of these."""

    snapshot: int | None = option(COUNT, None, "The snapshot to go back to.")
    tag: str | None = option(TEXT, None, "The tag to go back to.")
    time: Time | None = option(
        MOMENT,
        None,
        "Go back to the last snapshot not after this time (UTC, unless it has an offset).",
        flag="--as-of",
    )
    grace_ms: int = grace()


@stale_when_roots_go
def plan_rollback(files: TableFiles, options: RollbackOptions) -> RollbackPlan:
    """Return the table to a snapshot, a tag or a time, and delete later snapshots.

    The rollback can be undone for `grace_ms`; with 0, its run deletes the files at once, but those
    of the last hour's commits.

    Raises:
        InvalidRequestError: not exactly one target is given, or nothing is later than it.
        SnapshotNotFound, TagNotFound: the target does not exist.
        CorruptionError: metadata that the plan depends on cannot be read.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    files.check_unserved("roll back")
    if sum(each is not None for each in (options.snapshot, options.tag, options.time)) != 1:
        raise InvalidRequestError("roll back to one of a snapshot, a tag and a time")
    grace_ms = whole_number(options.grace_ms, "grace_ms", minimum=0)
    as_of_ms = None if options.time is None else time_ms(options.time)
    target = choose_snapshot(
        files, snapshot_id=options.snapshot, tag=options.tag, as_of_ms=as_of_ms
    )
    latest_id = files.snapshots.latest_id()
    if target is None or latest_id is None:
        raise SnapshotNotFound(
            f"{files.name} has no snapshot to roll back to: nothing was committed yet"
        )
    _check_target(files, target)
    roots = all_roots(files)
    going = [root for root in roots if _goes(files, root, target)]
    staying = [root for root in roots if not _goes(files, root, target)]
    is_there = any(_is_snapshot(files, root, target.id) for root in staying)
    restored_tag = None if is_there else _tag_of(staying, files, target)
    if not is_there and restored_tag is None:
        raise StalePlan(
            f"snapshot {target.id} of {files.name} expired while the rollback to it was planned; "
            "plan again"
        )
    if latest_id > target.id and not going:
        raise StalePlan(
            f"the snapshots of {files.name} after {target.id} went while the rollback to it was "
            "planned; plan again"
        )
    consumers = consumers_beyond(files, target.id)
    if not going and not consumers:
        raise InvalidRequestError(
            f"nothing of {files.name} is later than snapshot {target.id}, which is its latest; "
            "name an earlier snapshot, tag or time"
        )
    if not is_there:
        staying.append(snapshot_root(files, target))
    return RollbackPlan(
        table=files.name,
        target_id=target.id,
        latest_id=latest_id,
        restored_tag=restored_tag,
        snapshot_ids=tuple(root_ids(going, RootKind.SNAPSHOT)),
        tags=tuple(tag_labels(going)),
        tag_snapshot_ids=tuple(root_ids(going, RootKind.TAG)),
        changelog_ids=tuple(root_ids(going, RootKind.CHANGELOG)),
        consumers=consumers,
        files=only_kept_by(files, going, staying),
        grace_ms=grace_ms,
    )


def _check_target(files: TableFiles, target: Snapshot) -> None:
    """Check that the target is kept and complete.

    Raises:
        SnapshotNotFound: an expiry has begun to delete it, and no tag holds it.
        UnsupportedError: the table has got its primary key since.
        CorruptionError: some of its files are missing.
    """
    if not is_kept(files, target):
        kept = files.snapshots.ids()
        there = f"from {kept[0]} to {kept[-1]}" if kept else "none"
        raise SnapshotNotFound(
            f"snapshot {target.id} of {files.name} has expired, at least in part, and no tag holds "
            f"it; roll back to one that is kept, which are {there}, or to a tag",
            snapshot_id=target.id,
        )
    then = files.at_schema(target.schema_id).schema
    if then.has_primary_key != files.schema.has_primary_key:
        raise UnsupportedError(
            f"snapshot {target.id} of {files.name} is of the time before the table got its primary "
            "key, and its files have no keys; read it (--snapshot), or INSERT its rows into "
            "another table"
        )
    check_whole(files, target, f"rollback to snapshot {target.id}")


def _goes(files: TableFiles, root: Root, target: Snapshot) -> bool:
    return root.branch == files.paths.branch and root.snapshot.id > target.id


def _is_snapshot(files: TableFiles, root: Root, snapshot_id: int) -> bool:
    here = root.branch == files.paths.branch
    return here and root.kind is RootKind.SNAPSHOT and root.snapshot.id == snapshot_id


def _tag_of(roots: list[Root], files: TableFiles, target: Snapshot) -> str | None:
    tags = (each for each in roots if each.kind is RootKind.TAG)
    found = (
        str(root.label)
        for root in tags
        if root.branch == files.paths.branch and root.snapshot.id == target.id
    )
    return next(found, None)


def consumers_beyond(files: TableFiles, snapshot_id: int) -> tuple[str, ...]:
    """Consumers whose next snapshot is beyond the one after `snapshot_id`."""
    positions = files.references.consumers()
    return tuple(sorted(name for name, each in positions.items() if each > snapshot_id + 1))


@stale_when_roots_go
def run_rollback(files: TableFiles, plan: RollbackPlan) -> RollbackResult:
    """Carry out a plan.

    Raises:
        StalePlan: a new plan is another one, for example since a snapshot was committed, tagged or
            expired. No file that a root keeps is deleted.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    started = files.env.now_ms()
    known = [label_of(root) for root in all_roots(files)]
    plan = check_rollback(files, plan)
    condemned, target, snapshot_file = _condemn(files, plan)
    snapshots = _delete_later(condemned, plan, snapshot_file)
    delete_changelogs_from(files, plan.changelog_ids)
    tags = delete_files(files.fs, [files.paths.tag(name) for name in plan.tags])
    files.references.set_back_consumers(plan.consumers, plan.target_id + 1)
    strays, of_strays = _delete_strays(files, target)
    deleted = carried_out(condemned, known=known) + of_strays
    return RollbackResult(
        target_id=plan.target_id,
        snapshots_deleted=snapshots + strays,
        tags_deleted=tags,
        files_deleted=deleted.files,
        bytes_deleted=deleted.bytes,
        duration_ms=files.env.now_ms() - started,
        files_condemned=deleted.condemned_files,
        bytes_condemned=deleted.condemned_bytes,
    )


def _condemn(files: TableFiles, plan: RollbackPlan) -> tuple[Condemnation, Snapshot, bytes]:
    """Write the record; return also the target and its snapshot file.

    Raises:
        StalePlan: the target expired since the plan, or is expiring.
    """
    going = [
        *map(files.paths.snapshot, plan.snapshot_ids),
        *map(files.paths.tag, plan.tags),
        *map(files.paths.changelog, plan.changelog_ids),
    ]
    gone = StalePlan(
        f"snapshot {plan.target_id} of {files.name} has expired since the plan was made; plan again"
    )
    try:
        if plan.restored_tag is None:
            snapshot_file = files.snapshots.read_file(plan.target_id)
        else:
            snapshot_file = files.references.read_tagged_snapshot_file(plan.restored_tag)
    except (SnapshotNotFound, TagNotFound) as error:
        raise gone from error
    path = files.paths.snapshot(plan.target_id)
    pin = held_file(files, path, snapshot_file)
    condemned = condemn(files, "rollback", plan.files, going, pins=[pin], grace_ms=plan.grace_ms)
    condemned = condemned.after_commits(plan.snapshot_ids)
    check_pins_stay(condemned)
    try:
        # A put-back may have ended since the check.
        _check_current(files, plan)
    except StalePlan:
        condemned.withdraw()
        raise
    try:
        target = decode_snapshot(snapshot_file, name=path, snapshot_id=plan.target_id)
        _check_target(files, target)
        if plan.restored_tag is None:
            # A tag may hold it, but its own file is needed.
            files.snapshots.read_file(plan.target_id)
    except (SnapshotNotFound, CorruptionError) as error:
        condemned.withdraw()
        raise gone from error
    return condemned, target, snapshot_file


def _delete_later(condemned: Condemnation, plan: RollbackPlan, snapshot_file: bytes) -> int:
    """Delete the snapshots after the target; return how many were deleted.

    Raises:
        StalePlan: another commit followed the latest snapshot; all snapshots are restored.
    """
    files = condemned.files
    earliest = min(files.snapshots.ids(), default=plan.target_id)
    # Without this hint, readers list the snapshots and take the highest id.
    delete_files(files.fs, [files.paths.latest_hint])
    if plan.restored_tag is not None:
        files.snapshots.restore(plan.target_id, snapshot_file)
        files.snapshots.hint_earliest(plan.target_id)
    later = {
        files.paths.snapshot(snapshot_id): snapshot_id for snapshot_id in sorted(plan.snapshot_ids)
    }
    # A power loss may restore any file of a batch, and the latest snapshot must stay the latest.
    # An expiry, or a committer that finds its base gone, may delete a snapshot first.
    paths = list(later)
    held = take_files(files.fs, paths[:-1]) | take_files(files.fs, paths[-1:])
    taken = {later[path]: data for path, data in held.items()}
    newer = [each for each in files.snapshots.ids() if taken and each > max(plan.snapshot_ids)]
    if newer and put_back_later(files, plan.target_id, taken):
        if plan.restored_tag is not None:
            files.snapshots.hint_earliest(earliest)
            delete_files(files.fs, [files.paths.snapshot(plan.target_id)])
        condemned.withdraw()
        raise StalePlan(
            f"snapshot {newer[-1]} was committed to {files.name} just before it was rolled back to "
            f"{plan.target_id}; nothing was changed: plan again"
        )
    files.snapshots.hint_latest(plan.target_id)
    if plan.restored_tag is None:
        files.snapshots.hint_earliest(min(earliest, plan.target_id))
    return len(taken)


def put_back_later(files: TableFiles, target_id: int, taken: Mapping[int, bytes]) -> bool:
    """Restore deleted snapshots; False if another commit followed the target since.

    The latest is restored first: after that no committer takes the target as its base. Then the
    first is, whose id a committer that began before may take.
    """
    # Without this hint, readers list the snapshots and take the highest id.
    delete_files(files.fs, [files.paths.latest_hint])
    earlier, back = sorted(taken), []
    for snapshot_id in (earlier.pop(), *earlier):
        if not files.snapshots.put_back(snapshot_id, taken[snapshot_id]):
            break
        back.append(files.paths.snapshot(snapshot_id))
    between = [each for each in files.snapshots.ids() if target_id < each < min(taken)]
    if between or len(back) < len(taken):
        delete_files(files.fs, back)
        return False
    return True


def _delete_strays(files: TableFiles, target: Snapshot) -> tuple[int, Deleted]:
    """Delete strays, and condemn the files that only they keep; return the counts.

    A stray is a snapshot on top of a deleted one. Its committer will find its base gone, or has
    died. Snapshots that follow the target stay.
    """
    count, deleted = 0, Deleted()
    rounds = Rounds(files.name, "snapshots on top of what was rolled back were looked for")
    while True:
        rounds.begin()
        latest_id, strays = _strays(files, target)
        if not strays:
            return count, deleted
        roots = all_roots(files)
        going = [snapshot_root(files, stray) for stray in strays]
        staying = [root for root in roots if not any(_is_root_of(root, each) for each in going)]
        planned = only_kept_by(files, going, staying)
        paths = [files.paths.snapshot(stray.id) for stray in reversed(strays)]
        # Their committers may publish the same data files with their next attempts.
        condemned = condemn(files, "rollback", planned, paths, grace_ms=FLOOR_MS)
        delete_files(files.fs, [files.paths.latest_hint])
        count += delete_files(files.fs, paths)
        files.snapshots.hint_latest(latest_id)
        deleted += carried_out(condemned)


def _strays(files: TableFiles, target: Snapshot) -> tuple[int, list[Snapshot]]:
    """The id of the last snapshot that follows the target, and the strays."""
    last, strays = target, []
    for snapshot_id in files.snapshots.ids():
        if snapshot_id <= target.id:
            continue
        with suppress(SnapshotNotFound):
            snapshot = files.snapshots.read(snapshot_id)
            if snapshot_id == last.id + 1 and follows(files, snapshot, trace_of(files, last)):
                last = snapshot
            else:
                strays.append(snapshot)
    return last.id, strays


def _is_root_of(root: Root, other: Root) -> bool:
    is_snapshot = root.kind is RootKind.SNAPSHOT and root.branch == other.branch
    return is_snapshot and is_same(root.snapshot, other.snapshot)


def check_nothing_newer(files: TableFiles, latest_id: int, while_what: str) -> None:
    """Check that no snapshot is newer than the one that was made the latest.

    Raises:
        StalePlan: another commit followed a deleted snapshot.
    """
    new = [each for each in files.snapshots.ids() if each > latest_id]
    if new:
        raise StalePlan(
            f"snapshot {new[-1]} was committed to {files.name} while {while_what}, on top of what "
            f"is gone; roll back to {latest_id}"
        )


def check_rollback(files: TableFiles, plan: RollbackPlan) -> RollbackPlan:
    """The plan, with the files that a new plan names too; a plan may be old or edited."""
    _check_current(files, plan)
    tag = plan.restored_tag
    try:
        fresh = plan_rollback(
            files, RollbackOptions(None if tag else plan.target_id, tag, grace_ms=plan.grace_ms)
        )
    except (InvalidRequestError, SnapshotNotFound, TagNotFound) as error:
        raise StalePlan(
            f"{files.name} cannot be rolled back as planned, to snapshot {plan.target_id}, since "
            f"{error}; plan again"
        ) from error
    checked = replace(plan, files=files_of_both(files, plan.files, fresh.files))
    if checked != replace(fresh, files=checked.files):
        raise StalePlan(
            f"the plan to roll {files.name} back to snapshot {plan.target_id} is not the one that "
            "would be made now: the table has changed since, or the plan; plan again"
        )
    return checked


def _check_current(files: TableFiles, plan: RollbackPlan) -> None:
    later = {each for each in files.snapshots.ids() if each > plan.target_id}
    tags = files.references.tags().values()
    held = {tag.name: tag.snapshot.id for tag in tags}
    planned = dict(zip(plan.tags, plan.tag_snapshot_ids, strict=False))
    later_tags = {name for name, each in held.items() if each > plan.target_id}
    moved = {name for name, each in planned.items() if held.get(name, each) != each}
    if not later <= set(plan.snapshot_ids) or not later_tags <= planned.keys() or moved:
        news = [str(each) for each in sorted(later - set(plan.snapshot_ids))]
        news += sorted(later_tags - planned.keys() | moved)
        raise StalePlan(
            f"{', '.join(news)} of {files.name} came after the plan to roll back to snapshot "
            f"{plan.target_id}; plan again"
        )


def delete_changelogs_from(files: TableFiles, snapshot_ids: tuple[int, ...]) -> None:
    """Delete the given, latest long-lived changelogs; point the hint at the last one that stays."""
    if not snapshot_ids:
        return
    left = [
        changelog.id
        for changelog in files.references.changelogs()
        if changelog.id < min(snapshot_ids)
    ]
    hints = [files.paths.changelog_latest_hint, files.paths.changelog_earliest_hint]
    if left:
        files.references.hint_changelogs(latest=max(left))
    paths = [
        files.paths.changelog(snapshot_id) for snapshot_id in sorted(snapshot_ids, reverse=True)
    ]
    delete_files(files.fs, paths if left else [*hints, *paths])
