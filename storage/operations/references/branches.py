"""Branches: a table's second history, which shares its data files.

1. A branch is a folder of its own schemas, snapshots, tags and consumers. It begins with the
   table's schema alone, or with the snapshot that a tag or an id names.
2. Create: the schemas from the last one down to the second, tag and snapshot, then the first
   schema, with which the branch is there, and keeps files. Only then look whether what it began at
   is still kept. A try that was stopped before is cleaned up by the next one.
3. Delete: the branch's first schema, its folder, then the files that only it reached.
4. Fast-forward: main becomes the branch. Its own snapshots and tags from where the branch begins
   go, with the files that only they reached; schemas, snapshots (the last one first, so that a
   reader sees the old table or the new one) and tags of the branch are copied over. What main has
   written with a schema that the branch has another one for goes before that is replaced.

Source: Paimon specification, chapter Manage Branches; `FileSystemBranchManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lakewright.storage.errors import (
    AlreadyExistsError,
    BranchNotFound,
    CorruptionError,
    InvalidRequestError,
    SnapshotNotFound,
    StalePlan,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.delete_unreachable import delete_unreachable
from lakewright.storage.operations.references.reachable import only_kept_by
from lakewright.storage.operations.references.rollback import (
    check_nothing_newer,
    consumers_beyond,
    delete_changelogs_from,
)
from lakewright.storage.operations.references.roots import Root, RootKind, all_roots, branch_roots
from lakewright.storage.operations.references.stale_roots import stale_when_roots_go
from lakewright.storage.operations.references.whole_snapshots import check_lists, is_kept, is_same
from lakewright.storage.operations.running.delete_files import delete_files, drop_branch_files
from lakewright.storage.operations.running.plan import DeletionPlan
from lakewright.storage.operations.state.branch_files import (
    FIRST_SCHEMA_ID,
    is_whole_branch,
    on_branch,
)
from lakewright.storage.spec.option_values import trimmed
from lakewright.storage.spec.reference_names import MAIN_BRANCH, check_branch_name
from lakewright.storage.spec.refused_options import OPTIONS_THAT_NAME_BRANCHES
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.spec.tag import Tag

# How a branch of a table is named where tables are: `database.table$branch_name`.
BRANCH_MARK = "$branch_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch and the snapshots it has; `created_ms` is by the store's clock."""

    name: str
    earliest_snapshot_id: int | None
    latest_snapshot_id: int | None
    created_ms: int


def list_branches(files: TableFiles) -> tuple[Branch, ...]:
    """Branches by name, without main."""
    found = []
    for name in branch_names(files):
        seen = on_branch(files, name)
        made = [each.modified_ms for each in files.fs.list_dir(seen.paths.schema_dir)]
        found.append(
            Branch(
                name=name,
                earliest_snapshot_id=seen.snapshots.earliest_id(),
                latest_snapshot_id=seen.snapshots.latest_id(),
                created_ms=min(made, default=0),
            )
        )
    return tuple(found)


def branch_names(files: TableFiles) -> list[str]:
    """Names of the branches that are whole."""
    return sorted(name for name in files.references.branches() if is_whole_branch(files, name))


def at_branch(files: TableFiles, name: str) -> TableFiles:
    """The table seen from a branch, `main` or another.

    Raises:
        BranchNotFound: there is none of that name; the message lists those there are.
    """
    table = files.name.split(BRANCH_MARK, 1)[0]
    if name == MAIN_BRANCH:
        return replace(on_branch(files, ""), name=table)
    _check_there(files, name)
    return replace(on_branch(files, name), name=f"{table}{BRANCH_MARK}{name}")


def _check_there(files: TableFiles, name: str) -> None:
    if name not in branch_names(files):
        there = ", ".join([MAIN_BRANCH, *branch_names(files)])
        raise BranchNotFound(
            f"no branch {name} of {files.name}; there are {there}", table=files.name
        )


def _check_main(files: TableFiles) -> None:
    if files.paths.branch:
        raise InvalidRequestError(
            f"{files.name} is a branch itself; name the table without {BRANCH_MARK}"
            f"{files.paths.branch}"
        )


# --- creation ---------------------------------------------------------------------------------


def create_branch(
    files: TableFiles, name: str, *, tag: str | None = None, snapshot_id: int | None = None
) -> TableFiles:
    """Begin a branch, empty or where a tag or a snapshot is; the table as it is seen from there.

    Raises:
        InvalidRequestError: the name cannot be, or both a tag and a snapshot are given.
        AlreadyExistsError: there is a branch of that name.
        TagNotFound, SnapshotNotFound: there is nothing to begin at.
    """
    check_supported(files.schema, Use.TAG, table=files.name)
    _check_main(files)
    check_branch_name(name)
    if tag is not None and snapshot_id is not None:
        raise InvalidRequestError("a branch begins at a tag or at a snapshot, not at both")
    if name in branch_names(files):
        raise AlreadyExistsError(
            f"branch {name} of {files.name} exists already; choose another name, or delete it",
            table=files.name,
        )
    if name in files.references.branches():
        # Somebody was stopped while making or deleting it.
        run_delete_branch(files, _plan_delete(files, name))
    seen = on_branch(files, name)
    schema_id = files.schemas.latest(table=files.name).id
    snapshot: Snapshot | None = None
    snapshot_file = tag_file = b""
    if tag is not None:
        tag_file = files.references.read_tag_file(tag)
        snapshot = files.references.tag(tag).snapshot
        snapshot_file = _snapshot_file(files, snapshot, tag)
    elif snapshot_id is not None:
        snapshot = files.snapshots.read(snapshot_id)
        snapshot_file = files.snapshots.read_file(snapshot_id)
    if snapshot is not None:
        schema_id = snapshot.schema_id
        _check_beginning(files, name, snapshot)
    schema_files = {
        each: files.schemas.read_file(each) for each in files.schemas.ids() if each <= schema_id
    }
    first_schema_id = min(schema_files)
    for each in sorted(schema_files.keys() - {first_schema_id}, reverse=True):
        seen.schemas.restore(each, schema_files[each])
    if tag is not None:
        seen.references.replace_tag(tag, tag_file)
    if snapshot is not None:
        seen.snapshots.restore(snapshot.id, snapshot_file)
        seen.snapshots.hint_latest(snapshot.id)
        seen.snapshots.hint_earliest(snapshot.id)
    seen.schemas.restore(first_schema_id, schema_files[first_schema_id])
    if snapshot is not None:
        try:
            _check_beginning(files, name, snapshot)
        except (CorruptionError, SnapshotNotFound):
            _drop(seen)
            raise
    return at_branch(files, name)


def _check_beginning(files: TableFiles, name: str, snapshot: Snapshot) -> None:
    """Whether the table keeps what a branch begins at.

    Raises:
        SnapshotNotFound: an expiry, a rollback or the deletion of a tag took it.
        CorruptionError: a list of it is missing.
    """
    if not is_kept(files, snapshot):
        kept = files.snapshots.kept_ids()
        there = f"there are {kept[0]} to {kept[-1]}" if kept else "there are none"
        raise SnapshotNotFound(
            f"snapshot {snapshot.id} of {files.name} has expired or was rolled back, at least in "
            f"part, so branch {name} cannot begin there; {there}",
            table=files.name,
            snapshot_id=snapshot.id,
        )
    check_lists(files, snapshot, f"branch {name}")


def _drop(branch: TableFiles) -> None:
    """Delete a branch's own files, its first schema first: from then on it is not there."""
    delete_files(branch.fs, [branch.paths.schema(FIRST_SCHEMA_ID)])
    drop_branch_files(branch.fs, branch.paths.metadata_root)


def _snapshot_file(files: TableFiles, snapshot: Snapshot, tag: str) -> bytes:
    """The file of a tagged snapshot, as it is if it is still there."""
    try:
        return files.snapshots.read_file(snapshot.id)
    except SnapshotNotFound:
        return files.references.read_tagged_snapshot_file(tag)


# --- deletion ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteBranchPlan(DeletionPlan):
    """A branch to delete, its snapshots and tags, and the files that only it keeps."""

    branch: str
    snapshot_ids: tuple[int, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchResult:
    """What the end of a branch, or of a part of main, took away."""

    branch: str
    files_deleted: int
    bytes_deleted: int
    duration_ms: int


@stale_when_roots_go
def plan_delete_branch(files: TableFiles, name: str) -> DeleteBranchPlan:
    """What goes with a branch.

    Raises:
        InvalidRequestError: it is main, has consumers, or an option says that it is read.
        UnsupportedError: the table has an option that is not implemented.
        BranchNotFound: there is none of that name; the message lists those there are.
        CorruptionError: something that must be read to be sure cannot be.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    _check_main(files)
    if name == MAIN_BRANCH:
        raise InvalidRequestError(
            f"branch main is {files.name} itself and cannot be deleted; drop the table instead"
        )
    if name not in files.references.branches():
        _check_there(files, name)
    for option, value in trimmed(files.schema.options).items():
        if option in OPTIONS_THAT_NAME_BRANCHES and value == name:
            raise InvalidRequestError(
                f"branch {name} of {files.name} is read with the table, as its option {option} "
                "says; take the option away first"
            )
    consumers = on_branch(files, name).references.consumers()
    if consumers:
        raise InvalidRequestError(
            f"branch {name} of {files.name} is in use by consumer {', '.join(sorted(consumers))}; "
            f"delete that of {files.name}{BRANCH_MARK}{name} first"
        )
    return _plan_delete(files, name)


def _plan_delete(files: TableFiles, name: str) -> DeleteBranchPlan:
    # Also of one that is half made or half gone, which all_roots leaves out.
    going = branch_roots(on_branch(files, name))
    staying = [root for root in all_roots(files) if root.branch != name]
    return DeleteBranchPlan(
        table=files.name,
        branch=name,
        snapshot_ids=tuple(_ids(going, RootKind.SNAPSHOT)),
        tags=tuple(_tags(going)),
        files=only_kept_by(files, going, staying),
    )


def _ids(roots: Iterable[Root], kind: RootKind) -> list[int]:
    return [root.snapshot.id for root in roots if root.kind is kind]


def _tags(roots: Iterable[Root]) -> list[str]:
    return [str(root.label) for root in roots if root.kind is RootKind.TAG]


@stale_when_roots_go
def run_delete_branch(files: TableFiles, plan: DeleteBranchPlan) -> BranchResult:
    """Carry a plan out.

    Raises:
        StalePlan: something was committed to the branch, or tagged there, since.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    started = files.env.now_ms()
    seen = on_branch(files, plan.branch)
    _check_no_more(files, seen, plan.branch, plan.snapshot_ids, plan.tags)
    # From here on nobody finds the branch, and a new one of its name begins from nothing.
    _drop(seen)
    deleted = delete_unreachable(files, plan.files)
    return BranchResult(
        branch=plan.branch,
        files_deleted=deleted.files,
        bytes_deleted=deleted.bytes,
        duration_ms=files.env.now_ms() - started,
    )


def _check_no_more(
    files: TableFiles,
    seen: TableFiles,
    branch: str,
    snapshot_ids: tuple[int, ...],
    tags: tuple[str, ...],
) -> None:
    new = [f"snapshot {each}" for each in seen.snapshots.ids() if each not in snapshot_ids]
    new += [f"tag {each}" for each in seen.references.tag_names() if each not in tags]
    if new:
        raise StalePlan(
            f"branch {branch or MAIN_BRANCH} of {files.name} has {', '.join(new)} since the plan "
            "was made; plan again",
            table=files.name,
        )


# --- fast-forward -----------------------------------------------------------------------------


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
    _check_main(files)
    if name == MAIN_BRANCH:
        raise InvalidRequestError(f"main of {files.name} cannot be forwarded to itself")
    _check_there(files, name)
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
        lost_snapshot_ids=tuple(_ids(going, RootKind.SNAPSHOT)),
        lost_tags=tuple(_tags(going)),
        lost_changelog_ids=tuple(_ids(going, RootKind.CHANGELOG)),
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
    _check_no_more(files, files, "", plan.snapshot_ids, plan.tags)
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
