"""Branches: a table's second history, which shares its data files.

1. A branch is a folder of its own schemas, snapshots, tags and consumers. It begins with the
   table's schema alone, or with the snapshot that a tag or an id names.
2. Create: tag and snapshot first, then the schemas from the last one down. The branch is there
   when its first schema is; a try that was stopped before is cleaned up by the next one.
3. Delete: the branch's first schema, its folder, then the files that only it reached.
4. Fast-forward: main becomes the branch. Its own snapshots and tags from where the branch begins
   go, with the files that only they reached; schemas, snapshots (the last one first, so that a
   reader sees the old table or the new one) and tags of the branch are copied over.

Source: Paimon specification, chapter Manage Branches; `FileSystemBranchManager`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from lakewright.storage.errors import (
    AlreadyExistsError,
    BranchNotFound,
    CorruptionError,
    InvalidRequestError,
    SnapshotNotFound,
    StalePlan,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.delete_files import delete_files, drop_branch_files
from lakewright.storage.operations.reachable import (
    Root,
    RootKind,
    UnreachableFile,
    all_roots,
    check_whole,
    delete_unreachable,
    on_branch,
    only_kept_by,
    unreachable_from_json,
)
from lakewright.storage.operations.rollback import consumers_beyond, delete_changelogs_from
from lakewright.storage.spec.options import Use, check_supported
from lakewright.storage.spec.reference_names import MAIN_BRANCH, check_branch_name
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.tag import Tag

# How a branch of a table is named where tables are: `database.table$branch_name`.
BRANCH_MARK = "$branch_"
_FIRST_SCHEMA_ID = 0


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
    there = files.references.branches()
    return sorted(name for name in there if files.fs.exists(there[name].schema(_FIRST_SCHEMA_ID)))


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
    check_supported(files.schema, Use.READ, table=files.name)
    _check_main(files)
    check_branch_name(name)
    if tag is not None and snapshot_id is not None:
        raise InvalidRequestError("a branch begins at a tag or at a snapshot, not at both")
    if name in branch_names(files):
        raise AlreadyExistsError(f"branch {name} of {files.name} exists already", table=files.name)
    if name in files.references.branches():
        # Somebody was stopped while making or deleting it.
        run_delete_branch(files, _plan_delete(files, name))
    seen = on_branch(files, name)
    schema_id = files.schemas.latest(table=files.name).id
    if tag is not None:
        tag_file = files.references.read_tag_file(tag)
        snapshot = files.references.tag(tag).snapshot
        snapshot_file = _snapshot_file(files, snapshot, tag)
        schema_id = snapshot.schema_id
        seen.references.replace_tag(tag, tag_file)
        _begin_at(seen, snapshot, snapshot_file)
    elif snapshot_id is not None:
        snapshot = files.snapshots.read(snapshot_id)
        schema_id = snapshot.schema_id
        _begin_at(seen, snapshot, files.snapshots.read_file(snapshot_id))
    for each in reversed([each for each in files.schemas.ids() if each <= schema_id]):
        seen.schemas.restore(each, files.schemas.read_file(each))
    return at_branch(files, name)


def _begin_at(branch: TableFiles, snapshot: Snapshot, snapshot_file: bytes) -> None:
    """Give a branch its first snapshot.

    Raises:
        SnapshotNotFound: an expiry took it meanwhile.
    """
    branch.snapshots.restore(snapshot.id, snapshot_file)
    branch.snapshots.hint_latest(snapshot.id)
    branch.snapshots.hint_earliest(snapshot.id)
    try:
        check_whole(branch, snapshot, f"branch {branch.paths.branch}")
    except CorruptionError as error:
        drop_branch_files(branch.fs, branch.paths.metadata_root)
        raise SnapshotNotFound(
            f"snapshot {snapshot.id} of {branch.name} expired before branch "
            f"{branch.paths.branch} could begin there",
            table=branch.name,
        ) from error


def _snapshot_file(files: TableFiles, snapshot: Snapshot, tag: str) -> bytes:
    """The file of a tagged snapshot, as it is if it is still there."""
    try:
        return files.snapshots.read_file(snapshot.id)
    except SnapshotNotFound:
        return files.references.read_tagged_snapshot_file(tag)


# --- deletion ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteBranchPlan:
    """A branch to delete, its snapshots and tags, and the files that only it keeps."""

    table: str
    branch: str
    snapshot_ids: tuple[int, ...]
    tags: tuple[str, ...]
    files: tuple[UnreachableFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def to_json(self) -> str:
        """The plan as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DeleteBranchPlan:
        """The inverse of `to_json`."""
        data = json.loads(text)
        return cls(
            table=data["table"],
            branch=data["branch"],
            snapshot_ids=tuple(data["snapshot_ids"]),
            tags=tuple(data["tags"]),
            files=unreachable_from_json(data["files"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchResult:
    """What the end of a branch, or of a part of main, took away."""

    branch: str
    files_deleted: int
    bytes_deleted: int
    duration_ms: int


def plan_delete_branch(files: TableFiles, name: str) -> DeleteBranchPlan:
    """What goes with a branch.

    Raises:
        InvalidRequestError: it is main, or has consumers.
        UnsupportedError: the table has an option that is not implemented, such as one that
            reads this branch where main has no rows.
        BranchNotFound: there is none of that name; the message lists those there are.
        CorruptionError: something that must be read to be sure cannot be.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    _check_main(files)
    if name == MAIN_BRANCH:
        raise InvalidRequestError(
            f"branch main is {files.name} itself and cannot be deleted; drop the table instead"
        )
    if name not in files.references.branches():
        _check_there(files, name)
    consumers = on_branch(files, name).references.consumers()
    if consumers:
        raise InvalidRequestError(
            f"branch {name} of {files.name} is in use by consumer {', '.join(sorted(consumers))}; "
            "delete its consumers first"
        )
    return _plan_delete(files, name)


def _plan_delete(files: TableFiles, name: str) -> DeleteBranchPlan:
    roots = all_roots(files)
    going = [root for root in roots if root.branch == name]
    staying = [root for root in roots if root.branch != name]
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


def run_delete_branch(files: TableFiles, plan: DeleteBranchPlan) -> BranchResult:
    """Carry a plan out.

    Raises:
        StalePlan: something was committed to the branch, or tagged there, since.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    started = files.env.now_ms()
    seen = on_branch(files, plan.branch)
    _check_no_more(files, seen, plan.branch, plan.snapshot_ids, plan.tags)
    # From here on nobody finds the branch, and a new one of its name begins from nothing.
    delete_files(files.fs, [seen.paths.schema(_FIRST_SCHEMA_ID)])
    drop_branch_files(files.fs, seen.paths.metadata_root)
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
class FastForwardPlan:
    """What main gets from a branch, what of its own goes, and the files that go with that.

    `snapshot_ids` and `tags` are those of main that the plan knows; `new_snapshot_ids` are the
    branch's. Of main's own stay the snapshots in `kept_ids`, which the branch came from;
    `shared_id` is the last that both have, from where consumers read on that were further.
    """

    table: str
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
    files: tuple[UnreachableFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def to_json(self) -> str:
        """The plan as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> FastForwardPlan:
        """The inverse of `to_json`."""
        data = json.loads(text)
        lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
        return cls(**{**data, **lists, "files": unreachable_from_json(data["files"])})


def plan_fast_forward(files: TableFiles, name: str) -> FastForwardPlan:
    """What happens when main becomes a branch.

    Raises:
        InvalidRequestError: it is main, or has no snapshot.
        BranchNotFound: there is none of that name; the message lists those there are.
        CorruptionError: something that must be read to be sure cannot be.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
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
    is_ancestor = first in mine and _same(mine[first], theirs[first])
    kept = [each for each in mine if is_ancestor and each < first]
    shared = max((each for each in theirs if _is_in(mine, theirs[each])), default=first - 1)
    stays = _Staying(first, frozenset(kept), theirs, seen.references.tags())
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

    def has(self, root: Root) -> bool:
        snapshot = root.snapshot
        match root.kind:
            case RootKind.SNAPSHOT:
                return snapshot.id in self.kept_ids or _is_in(self.snapshots, snapshot)
            case RootKind.CHANGELOG:
                return snapshot.id < self.first_id
            case RootKind.TAG:
                theirs = self.tags.get(str(root.label))
                if theirs is not None:
                    return _same(theirs.snapshot, snapshot)
                return snapshot.id < self.first_id or _is_in(self.snapshots, snapshot)


def _snapshots(files: TableFiles) -> list[Snapshot]:
    return [files.snapshots.read(each) for each in files.snapshots.ids()]


def _same(left: Snapshot, right: Snapshot) -> bool:
    return left.id == right.id and left.delta_manifest_list == right.delta_manifest_list


def _is_in(snapshots: Mapping[int, Snapshot], snapshot: Snapshot) -> bool:
    return snapshot.id in snapshots and _same(snapshots[snapshot.id], snapshot)


def run_fast_forward(files: TableFiles, plan: FastForwardPlan) -> BranchResult:
    """Carry a plan out; stopped halfway, main is readable, and forwarding it again goes on.

    Raises:
        StalePlan: something was committed to main or the branch since, or tagged.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    started = files.env.now_ms()
    seen = on_branch(files, plan.branch)
    _check_no_more(files, files, "", plan.snapshot_ids, plan.tags)
    if set(seen.snapshots.ids()) != set(plan.new_snapshot_ids):
        raise StalePlan(
            f"branch {plan.branch} of {files.name} has other snapshots since the plan was made; "
            "plan again",
            table=files.name,
        )
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
    return BranchResult(
        branch=plan.branch,
        files_deleted=deleted.files,
        bytes_deleted=deleted.bytes,
        duration_ms=files.env.now_ms() - started,
    )


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
