"""Deletes files that no root keeps, after the roots that kept them are deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakewright.storage.errors import StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.reachable import Reach
from lakewright.storage.operations.references.rollback_pin import settled_roots
from lakewright.storage.operations.references.roots import Root, all_roots
from lakewright.storage.operations.running.delete_files import delete_files, remove_empty_folders
from lakewright.storage.operations.running.plan import UnreachableFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """How many files and bytes a deletion removed."""

    files: int
    bytes: int


def delete_unreachable(
    files: TableFiles, planned: Sequence[UnreachableFile], roots: Sequence[Root] | None = None
) -> Deleted:
    """Delete planned files, except those that a root keeps; `roots` None means all roots.

    With `roots` None nothing is deleted while a rollback is under way, since it may restore roots.
    The files then remain as orphans.

    Call this after the deletion of the roots that kept the files. Then a root made before is seen
    here, and a process that makes a root later finds no snapshot to make it from.
    """
    if not planned:
        return Deleted(files=0, bytes=0)
    reach = Reach(wanted={file.path for file in planned})
    roots = settled_roots(files) if roots is None else roots
    if roots is None:
        return Deleted(files=0, bytes=0)
    kept = reach.data_of_all(roots).keys() | reach.metadata_of_all(roots)
    going = [
        file
        for file in planned
        if files.paths.below(file.path) not in kept and not reach.is_elsewhere(file.path)
    ]
    paths = [files.paths.below(file.path) for file in going]
    count = delete_files(files.fs, paths)
    if files.options.snapshot_clean_empty_directories:
        remove_bucket_folders(files, paths)
    return Deleted(files=count, bytes=sum(file.size_bytes for file in going))


def files_of_both(
    files: TableFiles, planned: Sequence[UnreachableFile], fresh: Sequence[UnreachableFile]
) -> tuple[UnreachableFile, ...]:
    """The files of a plan that a new plan names too, since a plan may be edited.

    A file that a root keeps since the plan was made, or that is gone, is left out.

    Raises:
        StalePlan: a new plan would not delete a planned file that no root keeps.
    """
    paths = {file.path for file in planned}
    others = paths.difference(file.path for file in fresh)
    if others:
        roots, reach = all_roots(files), Reach(wanted=others)
        kept = reach.data_of_all(roots).keys() | reach.metadata_of_all(roots)
        for path in sorted(others):
            place = files.paths.below(path)
            if place not in kept and files.fs.exists(place):
                raise StalePlan(
                    f"the plan deletes {path} of {files.name}, which a new plan would not delete: "
                    "the table has changed since, or the plan; plan again",
                    table=files.name,
                )
    return tuple(file for file in fresh if file.path in paths)


def remove_bucket_folders(files: TableFiles, deleted: Iterable[str]) -> None:
    """Remove the bucket and partition folders that are empty after a deletion."""
    folders = {path.rsplit("/", 1)[0] for path in deleted if "/bucket-" in path}
    remove_empty_folders(files.fs, folders, below=files.paths.root)
