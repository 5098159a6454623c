"""Turns a missing file into StalePlan if another process deleted roots in the meantime."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from lakewright.storage.errors import (
    CorruptionError,
    SchemaNotFound,
    SnapshotNotFound,
    StalePlan,
    TagNotFound,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.branch_files import on_branch

# --- concurrent deletions ---------------------------------------------------------------------

_P = ParamSpec("_P")


_R = TypeVar("_R")


def stale_when_roots_go(
    verb: Callable[Concatenate[TableFiles, _P], _R],
) -> Callable[Concatenate[TableFiles, _P], _R]:
    """Make a verb raise StalePlan if a file is missing because another process deleted a root.

    If no root was deleted, the original error is raised.
    """

    @wraps(verb)
    def told(files: TableFiles, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with stale_if_roots_go(files, files.snapshots.ids()):
            return verb(files, *args, **kwargs)

    return told


@contextmanager
def stale_if_roots_go(files: TableFiles, ids: Collection[int]) -> Iterator[None]:
    """Do the same for a part of a verb that already knows the branch's own snapshots."""
    before = _names_of_others(files)
    last_id = max(ids, default=None)
    last = _file_of(files, last_id)
    try:
        yield
    except (CorruptionError, SchemaNotFound, SnapshotNotFound, TagNotFound) as error:
        left = {*files.snapshots.ids()}
        if _file_of(files, last_id) != last:
            # A rollback and a new commit replaced the snapshot under the same id.
            left.discard(last_id or 0)
        own = {files.paths.snapshot(each) for each in {*ids} - left}
        below = f"{files.paths.root}/"
        gone = sorted(path.removeprefix(below) for path in own | (before - _names_of_others(files)))
        if not gone:
            raise
        raise StalePlan(
            f"{gone[0]} of {files.name} was deleted while it was read; plan again"
        ) from error


def _file_of(files: TableFiles, snapshot_id: int | None) -> bytes:
    """The bytes of a snapshot file, to tell it from another of the same id; empty if missing."""
    with suppress(SnapshotNotFound):
        return b"" if snapshot_id is None else files.snapshots.read_file(snapshot_id)
    return b""


def _names_of_others(files: TableFiles) -> set[str]:
    """Paths of the roots and schemas of all branches, except this branch's own snapshots."""
    found = set()
    for branch in _branches_and_halves(files):
        folders = (branch.paths.tag_dir, branch.paths.changelog_dir, branch.paths.schema_dir)
        found |= {each.path for folder in folders for each in branch.fs.list_dir(folder)}
        if branch.paths.branch != files.paths.branch:
            found |= {branch.paths.snapshot(each) for each in branch.snapshots.ids()}
    return found


def _branches_and_halves(files: TableFiles) -> list[TableFiles]:
    return [
        on_branch(files, ""),
        *(on_branch(files, branch) for branch in files.references.branches()),
    ]
