"""Checks that the snapshot of a new tag, branch or rollback exists and is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

from lakewright.storage.errors import CorruptionError, SnapshotNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.reachable import Reach
from lakewright.storage.operations.references.roots import tag_root
from lakewright.storage.spec.snapshot import Snapshot


def is_kept(files: TableFiles, snapshot: Snapshot, *, beside: Collection[str] = ()) -> bool:
    """Whether a snapshot or tag of this branch still keeps the files of a snapshot.

    Tags named in `beside` do not count. A process that makes a root of a snapshot calls this after
    it has written the root. If a concurrent deletion did not see the root, this returns False.
    """
    with suppress(SnapshotNotFound):
        if is_same(files.snapshots.read(snapshot.id), snapshot):
            return True
    tags = files.references.tags().values()
    return any(is_same(tag.snapshot, snapshot) for tag in tags if tag.name not in beside)


def is_same(left: Snapshot, right: Snapshot) -> bool:
    """Whether two snapshot or tag files describe the same snapshot."""
    return left.id == right.id and left.delta_manifest_list == right.delta_manifest_list


def check_beginning(
    files: TableFiles, snapshot: Snapshot, what: str, does: str, *, beside: Collection[str] = ()
) -> None:
    """Check that another root keeps the snapshot of a new tag or branch.

    Raises:
        SnapshotNotFound: none does; the process that deleted it may have missed the new one.
        CorruptionError: one of its manifest lists is missing.
    """
    if not is_kept(files, snapshot, beside=beside):
        kept = files.snapshots.ids()
        there = f"there are {kept[0]} to {kept[-1]}" if kept else "there are none"
        raise SnapshotNotFound(
            f"snapshot {snapshot.id} of {files.name} has expired or was rolled back, at least in "
            f"part, so {what} cannot {does}; {there}",
            snapshot_id=snapshot.id,
        )
    check_lists(files, snapshot, what)


def check_lists(files: TableFiles, snapshot: Snapshot, what: str) -> None:
    """Check that the manifest lists of a snapshot exist.

    Raises:
        CorruptionError: a list is missing.
    """
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    _check_there(files, [files.paths.manifest(name) for name in lists], what)


def check_whole(files: TableFiles, snapshot: Snapshot, what: str) -> None:
    """Check that all files of a snapshot's state exist, including its data files.

    Raises:
        CorruptionError: a file is missing; the message names the first.
    """
    check_lists(files, snapshot, what)
    root, reach = tag_root(files, what, snapshot), Reach()
    _check_there(files, sorted(reach.metadata(root)), what)
    data = reach.state(root)
    folders = {path.rsplit("/", 1)[0] for path in data}
    there = {each.path for folder in folders for each in files.fs.list_dir(folder)}
    _check_there(files, sorted(data.keys() - there), what)


def _check_there(files: TableFiles, paths: Iterable[str], what: str) -> None:
    for path in paths:
        if not files.fs.exists(path):
            raise CorruptionError(
                f"{what} of {files.name} needs {path}, which is missing", path=path
            )
