"""Fast-forward: main becomes a branch.

1. Plan: the snapshots and tags of main from the start of the branch on go, with the files that
   only they reach. Main's own snapshots under a schema id that the branch uses otherwise go too.
2. Copy the schemas, snapshots and tags of the branch to main. The last snapshot comes first: a
   reader sees the old table or the new one.
3. Delete what the plan names.

Source: Paimon specification, chapter Manage Branches; `FileSystemBranchManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.branches import (
    BranchResult,
    check_branch_exists,
    check_is_main,
    check_nothing_new,
    root_ids,
    tag_labels,
)
from lakewright.storage.operations.references.delete_unreachable import delete_unreachable
from lakewright.storage.operations.references.reachable import only_kept_by
from lakewright.storage.operations.references.rollback import (
    check_nothing_newer,
    consumers_beyond,
    delete_changelogs_from,
)
from lakewright.storage.operations.references.roots import Root, RootKind, all_roots
from lakewright.storage.operations.references.stale_roots import stale_when_roots_go
from lakewright.storage.operations.references.whole_snapshots import is_same
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.running.plan import DeletionPlan
from lakewright.storage.operations.state.branch_files import FIRST_SCHEMA_ID, on_branch
from lakewright.storage.spec.reference_names import MAIN_BRANCH
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.spec.tag import Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class FastForwardPlan(DeletionPlan):
    """What main gets from a branch, what of its own goes, and the files that go with that.

    `snapshot_ids` and `tags` are those of main that the plan knows; `new_snapshot_ids` are the
    branch's. Of main's own stay the snapshots in `kept_ids`, which the branch came from;
    `shared_id` is the last that both have, from where consumers read on that were further.
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


@stale_when_roots_go
def plan_fast_forward(files: TableFiles, name: str) -> FastForwardPlan:
    """What happens when main becomes a branch.

    Raises:
        InvalidRequestError: it is main, or has no snapshot.
        BranchNotFound: there is none of that name; the message lists those there are.
        CorruptionError: something that must be read to be sure cannot be.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    check_is_main(files)
    if name == MAIN_BRANCH:
        raise InvalidRequestError(f"main of {files.name} cannot be forwarded to itself")
    check_branch_exists(files, name)
    seen = on_branch(files, name)
    theirs = {each.id: each for each in _snapshots(seen)}
    if not theirs:
        raise InvalidRequestError(
            f"branch {name} of {files.name} has no snapshot, so main cannot become it; write to it "
            "first"
        )
    mine = {each.id: each for each in _snapshots(files)}
    first = min(theirs)
    # Main's earlier snapshots lead to the branch only if it has the branch's first one itself.
    is_ancestor = first in mine and is_same(mine[first], theirs[first])
    kept = [each for each in mine if is_ancestor and each < first]
    shared = max((each for each in theirs if _is_in(mine, theirs[each])), default=first - 1)
    stays = _Staying(
        first, frozenset(kept), theirs, seen.references.tags(), _schemas_shared(files, seen)
    )
    roots = all_roots(files)
    going = [root for root in roots if not root.branch and not stays.has(root)]
    staying = [root for root in roots if root.branch or stays.has(root)]
    return FastForwardPlan(
        table=files.name,
        branch=name,
        shared_id=shared,
        kept_ids=tuple(kept),
        new_snapshot_ids=tuple(theirs),
        snapshot_ids=tuple(mine),
        tags=tuple(files.references.tag_names()),
        lost_snapshot_ids=tuple(root_ids(going, RootKind.SNAPSHOT)),
        lost_tags=tuple(tag_labels(going)),
        lost_changelog_ids=tuple(root_ids(going, RootKind.CHANGELOG)),
        consumers=consumers_beyond(files, shared),
        files=only_kept_by(files, going, staying),
    )


@dataclass(frozen=True, slots=True)
class _Staying:
    """Decides which roots of main a fast-forward leaves: what the branch has, and what it is of."""

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
        """Whether it is older than the branch, and can be read with the branch's schemas."""
        return snapshot.id < self.first_id and snapshot.schema_id < self.schemas_shared


def _schemas_shared(files: TableFiles, seen: TableFiles) -> int:
    """The first schema that main and a branch do not have alike; those before both have."""
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
    """Carry a plan out; stopped halfway, main is readable, and forwarding it again goes on.

    Raises:
        StalePlan: something was committed to main or the branch since, or tagged.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    started = files.env.now_ms()
    seen = on_branch(files, plan.branch)
    check_nothing_new(files, files, "", plan.snapshot_ids, plan.tags)
    if set(seen.snapshots.ids()) != set(plan.new_snapshot_ids):
        raise StalePlan(
            f"branch {plan.branch} of {files.name} has other snapshots since the plan was made; "
            "plan again",
            table=files.name,
        )
    _delete_of_other_schemas(files, seen, plan)
    for each in seen.schemas.ids():
        files.schemas.restore(each, seen.schemas.read_file(each))
    _copy_snapshots(files, seen, plan)
    last_schema = seen.schemas.ids()[-1]
    surplus = [each for each in files.schemas.ids() if each > last_schema]
    delete_files(files.fs, [files.paths.schema(each) for each in reversed(surplus)])
    delete_changelogs_from(files, plan.lost_changelog_ids)
    delete_files(files.fs, [files.paths.tag(each) for each in plan.lost_tags])
    for tag in seen.references.tag_names():
        files.references.replace_tag(tag, seen.references.read_tag_file(tag))
    for consumer in plan.consumers:
        read_on = max(plan.shared_id + 1, min(plan.new_snapshot_ids))
        files.references.set_consumer(consumer, read_on)
    deleted = delete_unreachable(files, plan.files)
    last = max(plan.new_snapshot_ids)
    check_nothing_newer(files, last, f"it was forwarded to branch {plan.branch}")
    return BranchResult(
        branch=plan.branch,
        files_deleted=deleted.files,
        bytes_deleted=deleted.bytes,
        duration_ms=files.env.now_ms() - started,
    )


def _delete_of_other_schemas(files: TableFiles, seen: TableFiles, plan: FastForwardPlan) -> None:
    """Delete what main is to lose and could not be read with the branch's schemas.

    Main goes back to what it was before its schema changed, and from there to the branch.
    """
    shared = _schemas_shared(files, seen)
    if not any(each >= shared for each in files.schemas.ids()):
        return
    lost = sorted(plan.lost_snapshot_ids, reverse=True)
    of_others = [each for each in lost if files.snapshots.read(each).schema_id >= shared]
    tags = [
        each for each in plan.lost_tags if files.references.tag(each).snapshot.schema_id >= shared
    ]
    changelogs = [each.id for each in files.references.changelogs() if each.schema_id >= shared]
    if of_others:
        delete_files(files.fs, [files.paths.latest_hint])
    delete_files(files.fs, [files.paths.snapshot(each) for each in of_others])
    delete_files(files.fs, [files.paths.tag(each) for each in tags])
    if set(changelogs) & set(plan.lost_changelog_ids):
        delete_changelogs_from(files, plan.lost_changelog_ids)


def _copy_snapshots(files: TableFiles, seen: TableFiles, plan: FastForwardPlan) -> None:
    """Make the branch's snapshots main's, at every moment one table or the other."""
    last = max(plan.new_snapshot_ids)
    # Without it everybody looks what is there, and takes the highest.
    delete_files(files.fs, [files.paths.latest_hint])
    beyond = sorted((each for each in plan.snapshot_ids if each > last), reverse=True)
    delete_files(files.fs, [files.paths.snapshot(each) for each in beyond])
    # Before the branch's first one is there, which would make them look as if it came of them.
    first = min(plan.new_snapshot_ids)
    lost = sorted(each for each in plan.lost_snapshot_ids if each < first)
    delete_files(files.fs, [files.paths.snapshot(each) for each in lost])
    for each in sorted(plan.new_snapshot_ids, reverse=True):
        files.snapshots.restore(each, seen.snapshots.read_file(each))
    files.snapshots.hint_latest(last)
    files.snapshots.hint_earliest(files.snapshots.ids()[0])
