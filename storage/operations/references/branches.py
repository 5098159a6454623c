"""Branches: separate histories of a table that share its data files.

1. A branch is a folder with its own schemas, snapshots, tags and consumers. It starts empty with
   the table's schema, or with the snapshot of a tag or an id.
2. Create: write the schemas from the last down to the second, then tag and snapshot, then the
   first schema. With the first schema the branch exists and keeps files. Then check that its
   snapshot is still kept. The next attempt cleans up after an interrupted attempt.
3. Delete: keep the names of its own columns, for orphan removal. Record the branch's metadata and
   the files that only it reached. Remove its first schema, then its folder. The collector deletes
   the files.

Source: Paimon specification, chapter Manage Branches; `FileSystemBranchManager`.
"""

from __future__ import annotations

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
from lakewright.storage.operations.references.collect import Deleted, carried_out
from lakewright.storage.operations.references.condemn import condemn
from lakewright.storage.operations.references.known_columns import keep_columns
from lakewright.storage.operations.references.planned_files import files_of_both
from lakewright.storage.operations.references.reachable import only_kept_by
from lakewright.storage.operations.references.roots import (
    RootKind,
    all_roots,
    branch_roots,
    root_ids,
    tag_labels,
)
from lakewright.storage.operations.references.stale_roots import stale_when_roots_go
from lakewright.storage.operations.references.whole_snapshots import check_beginning
from lakewright.storage.operations.running.delete_files import delete_files, drop_branch_files
from lakewright.storage.operations.running.links import check_is_no_link
from lakewright.storage.operations.running.plan import DeletionPlan
from lakewright.storage.operations.running.verb_options import TEXT, grace, needed, option
from lakewright.storage.operations.state.branch_files import (
    FIRST_SCHEMA_ID,
    is_whole_branch,
    on_branch,
)
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.spec.arguments import whole_number, whole_or_none
from lakewright.storage.spec.options import trimmed
from lakewright.storage.spec.reference_names import MAIN_BRANCH, check_branch_name
from lakewright.storage.spec.refused_options import OPTIONS_THAT_NAME_BRANCHES
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported

# A branch is addressed as a table by the name `database.table$branch_name`.
BRANCH_MARK = "$branch_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch and its range of snapshots; `created_ms` is by the store's clock."""

    name: str
    earliest_snapshot_id: int | None
    latest_snapshot_id: int | None
    created_ms: int


def list_branches(files: TableFiles) -> tuple[Branch, ...]:
    """Branches without main, sorted by name."""
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
    """Names of the complete branches: those that have their first schema."""
    return sorted(name for name in files.references.branches() if is_whole_branch(files, name))


def at_branch(files: TableFiles, name: str) -> TableFiles:
    """The table seen from a branch, `main` or another.

    Raises:
        BranchNotFound: no branch has that name; the message lists all branches.
    """
    table = files.name.split(BRANCH_MARK, 1)[0]
    if name == MAIN_BRANCH:
        return replace(on_branch(files, ""), name=table)
    check_branch_exists(files, name)
    return replace(on_branch(files, name), name=f"{table}{BRANCH_MARK}{name}")


def check_branch_exists(files: TableFiles, name: str) -> None:
    """Raise BranchNotFound, which lists all branches, unless the table has the branch."""
    if name not in branch_names(files):
        there = ", ".join([MAIN_BRANCH, *branch_names(files)])
        raise BranchNotFound(f"no branch {name} of {files.name}; there are {there}")


def check_is_main(files: TableFiles) -> None:
    """Raise InvalidRequestError unless `files` is the table seen from main."""
    if files.paths.branch:
        raise InvalidRequestError(
            f"{files.name} is a branch itself; name the table without {BRANCH_MARK}"
            f"{files.paths.branch}"
        )


# --- creation ---------------------------------------------------------------------------------


def create_branch(
    files: TableFiles, name: str, *, tag: str | None = None, snapshot_id: int | None = None
) -> TableFiles:
    """Create a branch, empty or from a tag or a snapshot; return the table seen from the branch.

    Raises:
        InvalidRequestError: the name is invalid, or both a tag and a snapshot are given.
        AlreadyExistsError: a branch of that name exists.
        TagNotFound, SnapshotNotFound: the tag or snapshot does not exist.
    """
    check_supported(files.schema, Use.TAG, table=files.name)
    check_is_main(files)
    files.check_unserved("create a branch")
    check_branch_name(name)
    snapshot_id = whole_or_none(snapshot_id, "snapshot")
    if tag is not None and snapshot_id is not None:
        raise InvalidRequestError("a branch begins at a tag or at a snapshot, not at both")
    if name in branch_names(files):
        raise AlreadyExistsError(
            f"branch {name} of {files.name} exists already; choose another name, or delete it"
        )
    if name in files.references.branches():
        # Another process was interrupted while it created or deleted the branch.
        _run_delete(files, _plan_delete(files, name))
    seen = on_branch(files, name)
    schema_id = files.schemas.latest_id(table=files.name)
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
        check_beginning(files, snapshot, f"branch {name}", "begin there")
        try:
            schema_id = max(schemas_of_rows(files, snapshot))
        except CorruptionError:
            # An expiry between the check and the read; any other missing file is told as it is.
            check_beginning(files, snapshot, f"branch {name}", "begin there")
            raise
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
            check_beginning(files, snapshot, f"branch {name}", "begin there")
        except (CorruptionError, SnapshotNotFound):
            _drop(seen)
            raise
    return at_branch(files, name)


def schemas_of_rows(files: TableFiles, snapshot: Snapshot) -> set[int]:
    """The ids of the schemas that the live files of a snapshot are written in.

    Ids above the snapshot's own are among them where a client committed with the schema that it
    had opened, after an alter and a write by another.
    """
    return {snapshot.schema_id, *(e.file.schema_id for e in live_entries(files, snapshot))}


def _drop(branch: TableFiles) -> None:
    """Delete a branch's own files, its first schema first: without it the branch does not exist."""
    check_is_no_link(branch.fs, branch.paths.metadata_root, branch.name)
    delete_files(branch.fs, [branch.paths.schema(FIRST_SCHEMA_ID)])
    drop_branch_files(branch.fs, branch.paths.metadata_root)


def _snapshot_file(files: TableFiles, snapshot: Snapshot, tag: str) -> bytes:
    """The snapshot file of a tagged snapshot; made from the tag if the snapshot has expired."""
    try:
        return files.snapshots.read_file(snapshot.id)
    except SnapshotNotFound:
        return files.references.read_tagged_snapshot_file(tag)


# --- deletion ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteBranchPlan(DeletionPlan["BranchResult"]):
    """A branch to delete, its snapshots and tags, and the files that only it keeps.

    For `grace_ms` the run can be undone.
    """

    branch: str
    snapshot_ids: tuple[int, ...]
    tags: tuple[str, ...]
    grace_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchResult(Shown):
    """What a branch deletion or fast-forward deleted, and which files it left to the collector."""

    branch: str
    files_deleted: int
    bytes_deleted: int
    duration_ms: int
    files_condemned: int = 0
    bytes_condemned: int = 0


@dataclass(frozen=True)
class DeleteBranchOptions:
    """Which branch goes."""

    branch: str | None = option(TEXT, None, "The branch.", place="BRANCH")
    grace_ms: int = grace()


@stale_when_roots_go
def plan_delete_branch(files: TableFiles, options: DeleteBranchOptions) -> DeleteBranchPlan:
    """Plan the deletion of a branch, which can be undone for `grace_ms`.

    Raises:
        InvalidRequestError: the branch is main, has consumers, or is named in a table option.
        UnsupportedError: the table has an option that is not implemented.
        BranchNotFound: no branch has that name; the message lists all branches.
        CorruptionError: metadata that the plan depends on cannot be read.
    """
    check_supported(files.schema, Use.EXPIRE, table=files.name)
    files.check_unserved("delete a branch")
    check_is_main(files)
    name = needed(options.branch, f"name a branch of {files.name}: branch is not given")
    if name == MAIN_BRANCH:
        raise InvalidRequestError(
            f"branch main is {files.name} itself and cannot be deleted; drop the table instead"
        )
    if name not in files.references.branches():
        check_branch_exists(files, name)
    for key, value in trimmed(files.schema.options).items():
        if key in OPTIONS_THAT_NAME_BRANCHES and value == name:
            raise InvalidRequestError(
                f"branch {name} of {files.name} is in use by option {key} of the table; "
                "remove the option first"
            )
    consumers = on_branch(files, name).references.consumers()
    if consumers:
        raise InvalidRequestError(
            f"branch {name} of {files.name} is in use by consumer "
            f"{', '.join(sorted(consumers))}; delete this consumer of "
            f"{files.name}{BRANCH_MARK}{name} first"
        )
    return _plan_delete(files, name, whole_number(options.grace_ms, "grace_ms", minimum=0))


def _plan_delete(files: TableFiles, name: str, grace_ms: int = 0) -> DeleteBranchPlan:
    # This includes the roots of an incomplete branch, which all_roots leaves out.
    going = branch_roots(on_branch(files, name))
    staying = [root for root in all_roots(files) if root.branch != name]
    return DeleteBranchPlan(
        table=files.name,
        branch=name,
        snapshot_ids=tuple(root_ids(going, RootKind.SNAPSHOT)),
        tags=tuple(tag_labels(going)),
        files=only_kept_by(files, going, staying),
        grace_ms=grace_ms,
    )


@stale_when_roots_go
def run_delete_branch(files: TableFiles, plan: DeleteBranchPlan) -> BranchResult:
    """Carry out a plan.

    Raises:
        InvalidRequestError, BranchNotFound: as `plan_delete_branch`, which this calls.
        StalePlan: the branch has new snapshots or tags since the plan, or a new plan would not
            delete a planned file.
    """
    fresh = plan_delete_branch(files, DeleteBranchOptions(plan.branch))
    return _run_delete(files, replace(plan, files=files_of_both(files, plan.files, fresh.files)))


def _run_delete(files: TableFiles, plan: DeleteBranchPlan) -> BranchResult:
    started = files.env.now_ms()
    seen = on_branch(files, plan.branch)
    check_nothing_new(files, seen, plan.branch, plan.snapshot_ids, plan.tags)
    keep_columns(files, seen)
    metadata = [each.path for each in files.fs.list_tree(seen.paths.metadata_root)]
    condemned = condemn(files, "delete_branch", plan.files, metadata, grace_ms=plan.grace_ms)
    # After this no process finds the branch, and a new branch of this name starts empty.
    _drop(seen)
    deleted = carried_out(condemned)
    return branch_result(files, plan.branch, deleted, started)


def branch_result(files: TableFiles, branch: str, deleted: Deleted, began_ms: int) -> BranchResult:
    """The result of a verb on a branch that began at a moment."""
    return BranchResult(
        branch=branch,
        files_deleted=deleted.files,
        bytes_deleted=deleted.bytes,
        duration_ms=files.env.now_ms() - began_ms,
        files_condemned=deleted.condemned_files,
        bytes_condemned=deleted.condemned_bytes,
    )


def check_nothing_new(
    files: TableFiles,
    seen: TableFiles,
    branch: str,
    snapshot_ids: tuple[int, ...],
    tags: tuple[str, ...],
) -> None:
    """Raise StalePlan if a branch has roots that a plan does not know."""
    new = [f"snapshot {each}" for each in seen.snapshots.ids() if each not in snapshot_ids]
    new += [f"tag {name}" for name in seen.references.tag_names() if name not in tags]
    if new:
        raise StalePlan(
            f"branch {branch or MAIN_BRANCH} of {files.name} has changed since the plan was "
            f"made: {', '.join(new)} is new; plan again"
        )
