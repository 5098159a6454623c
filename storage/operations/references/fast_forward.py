"""Fast-forward: main becomes a branch.

1. Plan: choose the snapshots, tags and changelogs of main to delete. These are the ones from the
   start of the branch on that the branch does not have, and older ones that do not lead to the
   branch or whose schema it does not share. Find the files that only these roots reach.
2. Run: write the record, which pins what main gets; check that no expiry or rollback takes that.
   Delete the lost snapshots beyond the branch's last one, and those whose schema it does not
   share, the latest first. A commit that followed the latest is seen then, which is put back; a
   later one finds its base gone. Copy the schemas and then the snapshots of the branch to main, the
   latest snapshot first. A reader sees the old table or the new one.
3. Delete the changelogs and tags that the plan names, copy the tags of the branch, and set back
   consumers. The collector deletes the files that no root keeps.

Source: Paimon specification, chapter Manage Branches; `FileSystemBranchManager`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from lakewright.storage.errors import InvalidRequestError, StalePlan, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.iceberg.hooks import publish_after_change
from lakewright.storage.operations.references.branches import (
    BranchResult,
    branch_result,
    check_branch_exists,
    check_is_main,
    check_nothing_new,
    schemas_of_rows,
)
from lakewright.storage.operations.references.collect import carried_out
from lakewright.storage.operations.references.condemn import (
    Condemnation,
    check_pins_stay,
    condemn,
    held_file,
)
from lakewright.storage.operations.references.forward_keys import check_keys_agree
from lakewright.storage.operations.references.planned_files import files_of_both
from lakewright.storage.operations.references.reachable import only_kept_by
from lakewright.storage.operations.references.rollback import (
    check_nothing_newer,
    consumers_beyond,
    delete_changelogs_from,
)
from lakewright.storage.operations.references.roots import (
    Root,
    RootKind,
    all_roots,
    root_ids,
    tag_labels,
)
from lakewright.storage.operations.references.stale_roots import stale_when_roots_go
from lakewright.storage.operations.references.whole_snapshots import is_same
from lakewright.storage.operations.running.delete_files import delete_files, take_files
from lakewright.storage.operations.running.plan import DeletionPlan
from lakewright.storage.operations.running.verb_options import TEXT, grace, needed, option
from lakewright.storage.operations.state.branch_files import FIRST_SCHEMA_ID, on_branch
from lakewright.storage.spec.arguments import whole_number
from lakewright.storage.spec.reference_names import MAIN_BRANCH
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.spec.tag import Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class FastForwardPlan(DeletionPlan[BranchResult]):
    """The snapshots that main gets from a branch, what main loses, and the files to delete.

    `snapshot_ids` and `tags` are main's at the time of the plan; `new_snapshot_ids` are the
    branch's. `kept_ids` are main's snapshots from before the branch, which main keeps. `shared_id`
    is the last snapshot that both have: consumers beyond it are set back to the one after it. What
    main loses stays on disk for `grace_ms`.
    """

    branch: str
    shared_id: int
    kept_ids: tuple[int, ...]
    new_snapshot_ids: tuple[int, ...]
    snapshot_ids: tuple[int, ...]
    tags: tuple[str, ...]
    lost_snapshot_ids: tuple[int, ...]
    lost_tags: tuple[str, ...]
    lost_changelog_ids: tuple[int, ...]
    consumers: tuple[str, ...]
    grace_ms: int = 0


@dataclass(frozen=True)
class FastForwardOptions:
    """Which branch the table becomes."""

    branch: str | None = option(TEXT, None, "The branch.", place="BRANCH")
    grace_ms: int = grace()


@stale_when_roots_go
def plan_fast_forward(files: TableFiles, options: FastForwardOptions) -> FastForwardPlan:
    """Plan how main becomes a branch; the files that main loses stay for `grace_ms`.

    Raises:
        InvalidRequestError: the branch is main, or has no snapshot.
        BranchNotFound: no branch has that name; the message lists all branches.
        UnsupportedError: main and the branch have other partition keys, or had since they parted,
            or the branch has no copy of a schema that its files are written in; the message names
            the way out.
        CorruptionError: metadata that the plan depends on cannot be read.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    check_is_main(files)
    files.check_unserved("forward to a branch")
    name = needed(options.branch, f"name a branch of {files.name}: branch is not given")
    if name == MAIN_BRANCH:
        raise InvalidRequestError(f"main of {files.name} cannot be forwarded to itself")
    check_branch_exists(files, name)
    seen = on_branch(files, name)
    theirs = {snapshot.id: snapshot for snapshot in _snapshots(seen)}
    if not theirs:
        raise InvalidRequestError(
            f"branch {name} of {files.name} has no snapshot, so main cannot be forwarded to it; "
            "write to the branch first"
        )
    _check_schemas_are_there(seen, name, theirs)
    mine = {snapshot.id: snapshot for snapshot in _snapshots(files)}
    first = min(theirs)
    # Main's earlier snapshots lead to the branch only if main has the branch's first snapshot.
    is_ancestor = first in mine and is_same(mine[first], theirs[first])
    kept = [each for each in mine if is_ancestor and each < first]
    shared = max((each for each in theirs if _is_in(mine, theirs[each])), default=first - 1)
    stays = _Staying(
        first, frozenset(kept), theirs, seen.references.tags(), _schemas_shared(files, seen)
    )
    roots = all_roots(files)
    going = [root for root in roots if not root.branch and not stays.has(root)]
    staying = [root for root in roots if root.branch or stays.has(root)]
    lost = root_ids(going, RootKind.SNAPSHOT)
    check_keys_agree(
        files,
        seen,
        mine,
        theirs,
        lost=lost,
        shared_id=shared,
        schemas_shared=stays.schemas_shared,
    )
    return FastForwardPlan(
        table=files.name,
        branch=name,
        shared_id=shared,
        kept_ids=tuple(kept),
        new_snapshot_ids=tuple(theirs),
        snapshot_ids=tuple(mine),
        tags=tuple(files.references.tag_names()),
        lost_snapshot_ids=tuple(lost),
        lost_tags=tuple(tag_labels(going)),
        lost_changelog_ids=tuple(root_ids(going, RootKind.CHANGELOG)),
        consumers=consumers_beyond(files, shared),
        files=only_kept_by(files, going, staying),
        grace_ms=whole_number(options.grace_ms, "grace_ms", minimum=0),
    )


def _check_schemas_are_there(
    seen: TableFiles, name: str, snapshots: Mapping[int, Snapshot]
) -> None:
    """Raise UnsupportedError if main's rows would name a schema that main loses.

    Other clients copy the schemas up to the snapshot's own to a branch, and files may name later
    ones.
    """
    there = {*seen.schemas.ids()}
    for snapshot in snapshots.values():
        missing = schemas_of_rows(seen, snapshot) - there
        if missing:
            raise UnsupportedError(
                f"snapshot {snapshot.id} of branch {name} of {seen.name} has files in schema "
                f"{min(missing)}, which the branch has no copy of, so main would be unreadable as "
                f"that branch; create another branch from that snapshot of main, write to it what "
                f"was written to {name}, and forward main to it"
            )


@dataclass(frozen=True, slots=True)
class _Staying:
    """Decides which roots of main stay: those that the branch has, and those from before it."""

    first_id: int
    kept_ids: frozenset[int]
    snapshots: Mapping[int, Snapshot]
    tags: Mapping[str, Tag]
    schemas_shared: int

    def has(self, root: Root) -> bool:
        snapshot = root.snapshot
        match root.kind:
            case RootKind.SNAPSHOT:
                return snapshot.id in self.kept_ids or _is_in(self.snapshots, snapshot)
            case RootKind.CHANGELOG:
                return self._is_before(snapshot)
            case RootKind.TAG:
                theirs = self.tags.get(str(root.label))
                if theirs is not None:
                    return is_same(theirs.snapshot, snapshot)
                return self._is_before(snapshot) or _is_in(self.snapshots, snapshot)

    def _is_before(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is older than the branch and readable with the branch's schemas."""
        return snapshot.id < self.first_id and snapshot.schema_id < self.schemas_shared


def _schemas_shared(files: TableFiles, seen: TableFiles) -> int:
    """The first schema id that differs between main and a branch; lower ids are identical."""
    both = zip(files.schemas.ids(), seen.schemas.ids(), strict=False)
    shared = FIRST_SCHEMA_ID
    for mine, theirs in both:
        if mine != theirs or files.schemas.read_file(mine) != seen.schemas.read_file(theirs):
            break
        shared = mine + 1
    return shared


def _snapshots(files: TableFiles) -> list[Snapshot]:
    return [files.snapshots.read(each) for each in files.snapshots.ids()]


def _is_in(snapshots: Mapping[int, Snapshot], snapshot: Snapshot) -> bool:
    return snapshot.id in snapshots and is_same(snapshots[snapshot.id], snapshot)


@stale_when_roots_go
def run_fast_forward(files: TableFiles, plan: FastForwardPlan) -> BranchResult:
    """Carry out a plan; after a crash main is readable, and a new fast-forward completes it.

    Raises:
        InvalidRequestError, BranchNotFound, UnsupportedError: as `plan_fast_forward`, called here.
        StalePlan: a new plan is another one, for example since main has new snapshots.
    """
    started = files.env.now_ms()
    seen = on_branch(files, plan.branch)
    # Before the keys are checked: a schema that the branch gets later may have others, which the
    # planned snapshots have not.
    schema_ids = seen.schemas.ids()
    plan = _checked(files, plan)
    of_others = _of_other_schemas(files, seen, plan)
    condemned = _condemn(files, seen, plan)
    _delete_first(condemned, plan, of_others.snapshots)
    delete_files(files.fs, [files.paths.tag(each) for each in of_others.tags])
    if of_others.has_changelogs:
        delete_changelogs_from(files, plan.lost_changelog_ids)
    main_goes_further = _close_schemas(files, seen.schemas.read(schema_ids[-1]))
    _check_keys_stayed(files, seen.schemas.read(schema_ids[-1]), plan)
    # The latest first: an alter sees by its base whether that version was replaced.
    for schema_id in reversed(schema_ids):
        files.schemas.restore(schema_id, seen.schemas.read_file(schema_id))
    _copy_snapshots(files, seen, plan)
    if main_goes_further:
        _delete_schemas_beyond(files, schema_ids[-1])
    delete_changelogs_from(files, plan.lost_changelog_ids)
    delete_files(files.fs, [files.paths.tag(lost_tag) for lost_tag in plan.lost_tags])
    for tag in seen.references.tag_names():
        files.references.replace_tag(tag, seen.references.read_tag_file(tag))
    read_on = max(plan.shared_id + 1, min(plan.new_snapshot_ids))
    files.references.set_back_consumers(plan.consumers, read_on)
    deleted = carried_out(condemned)
    files.schemas.tell_latest()
    publish_after_change(files)
    last = max(plan.new_snapshot_ids)
    check_nothing_newer(files, last, f"it was forwarded to branch {plan.branch}")
    return branch_result(files, plan.branch, deleted, started)


def _condemn(files: TableFiles, seen: TableFiles, plan: FastForwardPlan) -> Condemnation:
    """Write the record.

    Raises:
        StalePlan: another verb under way deletes snapshots of main that it gets or keeps.
    """
    gets = {files.paths.snapshot(e): seen.snapshots.read_file(e) for e in plan.new_snapshot_ids}
    going = [
        *map(files.paths.snapshot, plan.lost_snapshot_ids),
        *map(files.paths.tag, plan.lost_tags),
        *map(files.paths.changelog, plan.lost_changelog_ids),
    ]
    condemned = condemn(
        files,
        "fast_forward",
        plan.files,
        going,
        pins=[held_file(files, path, data) for path, data in gets.items()],
        grace_ms=plan.grace_ms,
    ).after_commits(plan.lost_snapshot_ids)
    check_pins_stay(condemned)
    return condemned


def _checked(files: TableFiles, plan: FastForwardPlan) -> FastForwardPlan:
    """The plan, with the files that a new plan names too; a plan may be old or edited."""
    fresh = plan_fast_forward(files, FastForwardOptions(plan.branch, plan.grace_ms))
    check_nothing_new(files, files, "", plan.snapshot_ids, plan.tags)
    if set(fresh.new_snapshot_ids) != set(plan.new_snapshot_ids):
        raise StalePlan(
            f"branch {plan.branch} of {files.name} has other snapshots since the plan was made; "
            "plan again"
        )
    checked = replace(plan, files=files_of_both(files, plan.files, fresh.files))
    if checked != replace(fresh, files=checked.files):
        raise StalePlan(
            f"the plan to forward {files.name} to branch {plan.branch} is not the one that would "
            "be made now: the table has changed since, or the plan; plan again"
        )
    return checked


@dataclass(frozen=True, slots=True)
class _OfOtherSchemas:
    """The roots that main loses and that the branch's schemas cannot read."""

    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    has_changelogs: bool = False


def _of_other_schemas(
    files: TableFiles, seen: TableFiles, plan: FastForwardPlan
) -> _OfOtherSchemas:
    shared = _schemas_shared(files, seen)
    if not any(each >= shared for each in files.schemas.ids()):
        return _OfOtherSchemas()
    changelogs = {
        changelog.id for changelog in files.references.changelogs() if changelog.schema_id >= shared
    }
    return _OfOtherSchemas(
        tuple(e for e in plan.lost_snapshot_ids if files.snapshots.read(e).schema_id >= shared),
        tuple(e for e in plan.lost_tags if files.references.tag(e).snapshot.schema_id >= shared),
        bool(changelogs & set(plan.lost_changelog_ids)),
    )


def _delete_first(
    condemned: Condemnation, plan: FastForwardPlan, of_others: Collection[int]
) -> None:
    """Delete the snapshots that main loses before it gets any of the branch, the latest first.

    Main first returns to a state that the branch's schemas can read, and then becomes the branch.

    Raises:
        StalePlan: another commit followed the latest, which is there again.
    """
    files = condemned.files
    last, latest_id = max(plan.new_snapshot_ids), max(plan.snapshot_ids, default=0)
    going = {*of_others, *(snapshot_id for snapshot_id in plan.snapshot_ids if snapshot_id > last)}
    if not going:
        return
    # Without this hint, readers list the snapshots and take the highest id.
    delete_files(files.fs, [files.paths.latest_hint])
    if latest_id in going:
        taken = take_files(files.fs, [files.paths.snapshot(latest_id)])
        newer = [each for each in files.snapshots.ids() if each > latest_id]
        if newer and any(files.snapshots.put_back(latest_id, each) for each in taken.values()):
            condemned.withdraw()
            raise StalePlan(
                f"snapshot {newer[-1]} was committed to {files.name} just before it was forwarded "
                f"to branch {plan.branch}; nothing was changed: plan again"
            )
    rest = sorted(going - {latest_id}, reverse=True)
    delete_files(files.fs, [files.paths.snapshot(each) for each in rest])


def _close_schemas(files: TableFiles, last: TableSchema) -> bool:
    """Let no alter of main's own schema take the id after the branch's last one.

    Returns whether main has versions beyond that id. They are main's own until the last of them is
    deleted, for an alter builds on the latest version. Without any, versions beyond it are made of
    the branch's last version, and stay.
    """
    # Where main has no such version yet, the branch's own closes the id.
    files.schemas.put_schema(last)
    if files.schemas.ids()[-1] == last.id:
        mine = files.schemas.read(last.id)
        if mine == last:
            return False
        # A copy under the next id. If an alter was first, the id is taken by a version of main.
        files.schemas.put_schema(replace(mine, id=last.id + 1))
    return True


def _check_keys_stayed(files: TableFiles, copied: TableSchema, plan: FastForwardPlan) -> None:
    """Check that no change of main's keys came after the plan was checked.

    Snapshots of such a change name its schemas, so these must stay. `copied` is the last schema
    that main gets of the branch, whose keys may change meanwhile.

    Raises:
        StalePlan: main has other keys; nothing of the branch was copied.
    """
    own = files.schemas.latest(table=files.name)
    if own.partition_keys != copied.partition_keys:
        raise StalePlan(
            f"the partition keys of {files.name} became "
            f"{', '.join(own.partition_keys) or 'none'} while it was forwarded to branch "
            f"{plan.branch}, from a snapshot that both have or that main keeps; forward it again, "
            "which names what to do first"
        )


def _delete_schemas_beyond(files: TableFiles, last_id: int) -> None:
    """Delete main's own versions, the latest last, and those that alters add to them meanwhile.

    Older ones may have other partition keys, so none of them is the latest for a moment.
    """
    surplus = [each for each in files.schemas.ids() if each > last_id]
    keys = files.schemas.read(last_id).partition_keys
    while surplus and files.schemas.latest(table=files.name).partition_keys == keys:
        delete_files(files.fs, [files.paths.schema(each) for each in surplus])
        surplus = [each for each in files.schemas.ids() if each > last_id]
        if last_id + 1 in surplus:
            # It was made of the branch's last version, after main's own were gone.
            return


def _copy_snapshots(files: TableFiles, seen: TableFiles, plan: FastForwardPlan) -> None:
    """Copy the branch's snapshots to main; a reader sees the old table or the new one."""
    last = max(plan.new_snapshot_ids)
    # Without this hint, readers list the snapshots and take the highest id.
    delete_files(files.fs, [files.paths.latest_hint])
    # These go before the branch's first snapshot exists, since it does not follow them.
    first = min(plan.new_snapshot_ids)
    lost = sorted(
        lost_snapshot_id for lost_snapshot_id in plan.lost_snapshot_ids if lost_snapshot_id < first
    )
    delete_files(files.fs, [files.paths.snapshot(each) for each in lost])
    for new_snapshot_id in sorted(plan.new_snapshot_ids, reverse=True):
        files.snapshots.restore(new_snapshot_id, seen.snapshots.read_file(new_snapshot_id))
    files.snapshots.hint_latest(last)
    files.snapshots.hint_earliest(files.snapshots.ids()[0])
