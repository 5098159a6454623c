"""Rollback: the table becomes what it was at a snapshot, a tag or a time.

1. The target: a snapshot that is there, one that a tag holds, or the last one not after a time.
2. Later snapshots go, with the tags and long-lived changelogs made of them, and the files that
   only those reached. Consumers beyond are set back to the snapshot that comes next. Branches
   keep what they have.
3. Run: restore the target's snapshot if only a tag held it, point LATEST at it, delete the later
   snapshots from the last one down, then changelogs and tags, then files nothing reaches any
   more. Stopped halfway, the table is at a snapshot between; rolling back again goes on.
4. The next commit makes the snapshot after the target.

Source: Paimon `RollbackHelper`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from lakewright.storage.errors import InvalidRequestError, SnapshotNotFound, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.delete_files import delete_files
from lakewright.storage.operations.reachable import (
    Root,
    RootKind,
    UnreachableFile,
    all_roots,
    check_whole,
    delete_unreachable,
    only_kept_by,
    snapshot_root,
    unreachable_from_json,
)
from lakewright.storage.operations.time_travel import choose_snapshot
from lakewright.storage.spec.options import Use, check_supported
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """Where the table goes back to, and what goes: `restored_tag` holds the target if none else."""

    table: str
    target_id: int
    latest_id: int
    restored_tag: str | None
    snapshot_ids: tuple[int, ...]
    tags: tuple[str, ...]
    changelog_ids: tuple[int, ...]
    consumers: tuple[str, ...]
    files: tuple[UnreachableFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def to_json(self) -> str:
        """The plan as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RollbackPlan:
        """The inverse of `to_json`."""
        data = json.loads(text)
        return cls(
            table=data["table"],
            target_id=data["target_id"],
            latest_id=data["latest_id"],
            restored_tag=data["restored_tag"],
            snapshot_ids=tuple(data["snapshot_ids"]),
            tags=tuple(data["tags"]),
            changelog_ids=tuple(data["changelog_ids"]),
            consumers=tuple(data["consumers"]),
            files=unreachable_from_json(data["files"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackResult:
    """What a rollback took away."""

    target_id: int
    snapshots_deleted: int
    tags_deleted: int
    files_deleted: int
    bytes_deleted: int
    duration_ms: int


def plan_rollback(
    files: TableFiles,
    *,
    snapshot_id: int | None = None,
    tag: str | None = None,
    as_of_ms: int | None = None,
) -> RollbackPlan:
    """What goes when a table is rolled back.

    Raises:
        InvalidRequestError: not exactly one target is given, or nothing is later than it.
        SnapshotNotFound, TagNotFound: there is no such target.
        CorruptionError: something that must be read to be sure cannot be.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    if sum(each is not None for each in (snapshot_id, tag, as_of_ms)) != 1:
        raise InvalidRequestError("roll back to one of a snapshot, a tag and a time")
    target = choose_snapshot(files, snapshot_id=snapshot_id, tag=tag, as_of_ms=as_of_ms)
    latest_id = files.snapshots.latest_id()
    if target is None or latest_id is None:
        raise SnapshotNotFound(
            f"{files.name} has no snapshot to roll back to: nothing was committed yet",
            table=files.name,
        )
    check_whole(files, target, f"rollback to snapshot {target.id}")
    roots = all_roots(files)
    going = [root for root in roots if _is_later(files, root, target)]
    staying = [root for root in roots if not _is_later(files, root, target)]
    consumers = consumers_beyond(files, target.id)
    if not going and not consumers:
        raise InvalidRequestError(
            f"nothing of {files.name} is later than snapshot {target.id}, which is its latest; "
            "name an earlier snapshot, tag or time"
        )
    is_there = any(_is_snapshot(files, root, target.id) for root in staying)
    restored_tag = None if is_there else _tag_of(staying, files, target)
    if not is_there:
        staying.append(snapshot_root(files, target))
    return RollbackPlan(
        table=files.name,
        target_id=target.id,
        latest_id=latest_id,
        restored_tag=restored_tag,
        snapshot_ids=tuple(_ids(going, RootKind.SNAPSHOT)),
        tags=tuple(str(root.label) for root in going if root.kind is RootKind.TAG),
        changelog_ids=tuple(_ids(going, RootKind.CHANGELOG)),
        consumers=consumers,
        files=only_kept_by(files, going, staying),
    )


def _is_later(files: TableFiles, root: Root, target: Snapshot) -> bool:
    return root.branch == files.paths.branch and root.snapshot.id > target.id


def _is_snapshot(files: TableFiles, root: Root, snapshot_id: int) -> bool:
    here = root.branch == files.paths.branch
    return here and root.kind is RootKind.SNAPSHOT and root.snapshot.id == snapshot_id


def _tag_of(roots: list[Root], files: TableFiles, target: Snapshot) -> str:
    tags = (each for each in roots if each.kind is RootKind.TAG)
    return next(
        str(root.label)
        for root in tags
        if root.branch == files.paths.branch and root.snapshot.id == target.id
    )


def _ids(roots: list[Root], kind: RootKind) -> list[int]:
    return [root.snapshot.id for root in roots if root.kind is kind]


def consumers_beyond(files: TableFiles, snapshot_id: int) -> tuple[str, ...]:
    """Consumers that want to read on from beyond the snapshot after one."""
    positions = files.references.consumers()
    return tuple(sorted(name for name, each in positions.items() if each > snapshot_id + 1))


def run_rollback(files: TableFiles, plan: RollbackPlan) -> RollbackResult:
    """Carry a plan out.

    Raises:
        StalePlan: something was committed, tagged or expired since; nothing is deleted that
            anything refers to.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    started = files.env.now_ms()
    _check_current(files, plan)
    snapshots = _delete_later(files, plan)
    delete_changelogs_from(files, plan.changelog_ids)
    tags = delete_files(files.fs, [files.paths.tag(name) for name in plan.tags])
    for name in plan.consumers:
        files.references.set_consumer(name, plan.target_id + 1)
    deleted = delete_unreachable(files, plan.files)
    new = [each for each in files.snapshots.ids() if each > plan.target_id]
    if new:
        raise StalePlan(
            f"snapshot {new[-1]} was committed to {files.name} while it was rolled back to "
            f"{plan.target_id}, on top of what is gone; roll back again",
            table=files.name,
        )
    return RollbackResult(
        target_id=plan.target_id,
        snapshots_deleted=snapshots,
        tags_deleted=tags,
        files_deleted=deleted.files,
        bytes_deleted=deleted.bytes,
        duration_ms=files.env.now_ms() - started,
    )


def _delete_later(files: TableFiles, plan: RollbackPlan) -> int:
    """Leave the target as the latest snapshot; how many were deleted."""
    # From the last one down, so that what is there is a table at any moment.
    later = sorted(plan.snapshot_ids, reverse=True)
    paths = [files.paths.snapshot(each) for each in later]
    if plan.target_id + 1 in later:
        # Not believed until the snapshot after it is gone.
        files.snapshots.hint_latest(plan.target_id)
        return delete_files(files.fs, paths)
    # The snapshots after the target expired, so a hint to it would be believed too early.
    delete_files(files.fs, [files.paths.latest_hint])
    if plan.restored_tag is not None:
        restored = files.references.read_tagged_snapshot_file(plan.restored_tag)
        files.snapshots.restore(plan.target_id, restored)
    deleted = delete_files(files.fs, paths)
    files.snapshots.hint_latest(plan.target_id)
    earliest = files.snapshots.ids()[0]
    files.snapshots.hint_earliest(earliest)
    return deleted


def _check_current(files: TableFiles, plan: RollbackPlan) -> None:
    later = {each for each in files.snapshots.ids() if each > plan.target_id}
    tags = files.references.tags().values()
    later_tags = {tag.name for tag in tags if tag.snapshot.id > plan.target_id}
    target_is_there = plan.restored_tag is not None or files.snapshots.exists(plan.target_id)
    if not later <= set(plan.snapshot_ids) or not later_tags <= set(plan.tags):
        news = [str(each) for each in sorted(later - set(plan.snapshot_ids))]
        news += sorted(later_tags - set(plan.tags))
        raise StalePlan(
            f"{', '.join(news)} of {files.name} came after the plan to roll back to snapshot "
            f"{plan.target_id}; plan again",
            table=files.name,
        )
    if not target_is_there:
        raise StalePlan(
            f"snapshot {plan.target_id} of {files.name} has expired since the plan was made; "
            "plan again",
            table=files.name,
        )


def delete_changelogs_from(files: TableFiles, snapshot_ids: tuple[int, ...]) -> None:
    """Delete the last long-lived changelogs, and set the hint to the last one that stays."""
    if not snapshot_ids:
        return
    left = [each.id for each in files.references.changelogs() if each.id < min(snapshot_ids)]
    hints = [files.paths.changelog_latest_hint, files.paths.changelog_earliest_hint]
    if left:
        files.references.hint_changelogs(latest=max(left))
    paths = [files.paths.changelog(each) for each in sorted(snapshot_ids, reverse=True)]
    delete_files(files.fs, paths if left else [*hints, *paths])
