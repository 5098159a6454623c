"""A plan whose snapshots, tags or changelogs went while it was made says so."""

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

# --- beside others ----------------------------------------------------------------------------

_P = ParamSpec("_P")


_R = TypeVar("_R")


def stale_when_roots_go(
    verb: Callable[Concatenate[TableFiles, _P], _R],
) -> Callable[Concatenate[TableFiles, _P], _R]:
    """A verb that says StalePlan where something is missing since others took roots meanwhile.

    What is missing though nothing went stays the error that it is.
    """

    @wraps(verb)
    def told(files: TableFiles, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with stale_if_roots_go(files, files.snapshots.kept_ids()):
            return verb(files, *args, **kwargs)

    return told


@contextmanager
def stale_if_roots_go(
    files: TableFiles, kept_ids: Collection[int], half_ids: Collection[int] = ()
) -> Iterator[None]:
    """The same for a part of a verb, which knows the branch's own snapshots already.

    `half_ids` are those that an expiry has begun to take and that it reads nevertheless.
    """
    before = _names_of_others(files)
    last_id = max(kept_ids, default=None)
    last = _file_of(files, last_id)
    try:
        yield
    except (CorruptionError, SchemaNotFound, SnapshotNotFound, TagNotFound) as error:
        there = files.snapshots.ids()
        left = {*files.snapshots.kept_of(there), *(each for each in half_ids if each in there)}
        if _file_of(files, last_id) != last:
            # The table was rolled back, and written to again: the ids are the same.
            left.discard(last_id or 0)
        own = {files.paths.snapshot(each) for each in {*kept_ids, *half_ids} - left}
        below = f"{files.paths.root}/"
        gone = sorted(path.removeprefix(below) for path in own | (before - _names_of_others(files)))
        if not gone:
            raise
        raise StalePlan(
            f"{gone[0]} of {files.name} went while it was being read; plan again",
            table=files.name,
        ) from error


def _file_of(files: TableFiles, snapshot_id: int | None) -> bytes:
    """What tells a snapshot from another one of the same id, empty where there is none."""
    with suppress(SnapshotNotFound):
        return b"" if snapshot_id is None else files.snapshots.read_file(snapshot_id)
    return b""


def _names_of_others(files: TableFiles) -> set[str]:
    """Paths of the roots of every branch, and its schemas, but for our own snapshots."""
    found = set()
    for branch in _branches_and_halves(files):
        folders = (branch.paths.tag_dir, branch.paths.changelog_dir, branch.paths.schema_dir)
        found |= {each.path for folder in folders for each in branch.fs.list_dir(folder)}
        if branch.paths.branch != files.paths.branch:
            found |= {branch.paths.snapshot(each) for each in branch.snapshots.kept_ids()}
    return found


def _branches_and_halves(files: TableFiles) -> list[TableFiles]:
    return [on_branch(files, ""), *(on_branch(files, each) for each in files.references.branches())]
