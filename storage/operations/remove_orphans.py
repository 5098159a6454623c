"""Orphans: files that nothing refers to, left behind by processes that died.

1. List the table's folder first, so that what is committed meanwhile is seen as used.
2. Candidates: data, changelog, manifest, index and statistics files, and unfinished files beside
   snapshots and tags, that are older than a day (or than told). A write that takes longer than
   that looks like one that died.
3. Keep whatever a snapshot, tag, branch or changelog reaches; files in other places are not ours.
4. Run: ask once more what is reached, and delete the rest.

Source: Paimon `OrphanFilesClean`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.plan import DeletionPlan, UnreachableFile
from lakewright.storage.operations.reachable import (
    Reach,
    all_roots,
    delete_unreachable,
    stale_when_roots_go,
)
from lakewright.storage.spec.partition import escape_path
from lakewright.storage.spec.supported_options import Use, check_supported

_DAY_MS = 86_400_000
_METADATA = r"(manifest|index|statistics)/[^/]+"
# What a store writes before it gives a file its name.
_UNFINISHED = r"(branch/branch-[^/]+/)?(schema|snapshot|tag|consumer|changelog)/\.[^/]+\.tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansPlan(DeletionPlan):
    """Files that nothing refers to and that were written before a time."""

    older_than_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansResult:
    """What was deleted."""

    files_deleted: int
    bytes_deleted: int
    duration_ms: int


@stale_when_roots_go
def plan_remove_orphans(files: TableFiles, *, older_than_ms: int | None = None) -> OrphansPlan:
    """Files to delete; `older_than_ms` is a moment by the store's clock, by default a day ago.

    Raises:
        InvalidRequestError: the moment is to come.
        CorruptionError: something that must be read to be sure cannot be.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    now = files.env.now_ms()
    oldest = now - _DAY_MS if older_than_ms is None else older_than_ms
    if oldest > now:
        raise InvalidRequestError(
            "files are orphans once they are older than some time, and that one is to come"
        )
    below = files.paths.root + "/"
    found = [each for each in files.fs.list_tree(files.paths.root) if each.modified_ms < oldest]
    owned = _owned(files)
    candidates = {
        each.path: each for each in found if owned.fullmatch(each.path.removeprefix(below))
    }
    kept = _kept(files) if candidates else frozenset()
    orphans = sorted(path for path in candidates if path not in kept)
    return OrphansPlan(
        table=files.name,
        older_than_ms=oldest,
        files=tuple(_file(candidates[path], below) for path in orphans),
    )


def _owned(files: TableFiles) -> re.Pattern[str]:
    """What paths look like that this table writes to.

    Data files lie in a bucket's folder, right below those of the table's own partition columns;
    people's folders beside them are theirs, whatever is in them.
    """
    partition = "".join(
        f"{re.escape(escape_path(each.name))}=[^/]*/" for each in files.schema.partition_fields
    )
    data = rf"{partition}bucket-(\d+|postpone)/[^/]+"
    return re.compile(f"{data}|{_METADATA}|{_UNFINISHED}")


def _kept(files: TableFiles) -> frozenset[str]:
    reach, roots = Reach(), all_roots(files)
    return frozenset(reach.data_of_all(roots).keys() | reach.metadata_of_all(roots))


def _file(status: FileStatus, below: str) -> UnreachableFile:
    return UnreachableFile(status.path.removeprefix(below), status.size)


@stale_when_roots_go
def run_remove_orphans(files: TableFiles, plan: OrphansPlan) -> OrphansResult:
    """Delete the files of a plan, except those that something refers to by now."""
    check_supported(files.schema, Use.WRITE, table=files.name)
    started = files.env.now_ms()
    deleted = delete_unreachable(files, plan.files)
    return OrphansResult(
        files_deleted=deleted.files,
        bytes_deleted=deleted.bytes,
        duration_ms=files.env.now_ms() - started,
    )
