"""Deleting what nothing keeps any more, once what kept it is gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.reachable import Reach
from lakewright.storage.operations.references.rollback_pin import settled_roots
from lakewright.storage.operations.references.roots import Root
from lakewright.storage.operations.running.delete_files import delete_files, remove_empty_folders
from lakewright.storage.operations.running.plan import UnreachableFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What a deletion took away."""

    files: int
    bytes: int


def delete_unreachable(
    files: TableFiles, planned: Sequence[UnreachableFile], roots: Sequence[Root] | None = None
) -> Deleted:
    """Delete planned files, except those that a root keeps by now; `roots` None means all of them.

    Then they stay, as orphans, where a rollback is under way: it may put roots back.

    To be called when the roots they were planned for are gone, so that a root made meanwhile is
    seen here, and whoever makes one later finds nothing to make it of.
    """
    if not planned:
        return Deleted(files=0, bytes=0)
    reach = Reach(wanted={file.path for file in planned})
    roots = settled_roots(files) if roots is None else roots
    if roots is None:
        return Deleted(files=0, bytes=0)
    kept = reach.data_of_all(roots).keys() | reach.metadata_of_all(roots)
    going = [file for file in planned if files.paths.below(file.path) not in kept]
    paths = [files.paths.below(file.path) for file in going]
    count = delete_files(files.fs, paths)
    if files.options.snapshot_clean_empty_directories:
        remove_bucket_folders(files, paths)
    return Deleted(files=count, bytes=sum(file.size_bytes for file in going))


def remove_bucket_folders(files: TableFiles, deleted: Iterable[str]) -> None:
    """Remove the folders of buckets and partitions that deleted files have left empty."""
    folders = {path.rsplit("/", 1)[0] for path in deleted if "/bucket-" in path}
    remove_empty_folders(files.fs, folders, below=files.paths.root)
