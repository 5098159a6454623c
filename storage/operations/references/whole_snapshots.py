"""Whether what a new tag, branch or rollback refers to is there, and stays."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

from lakewright.storage.errors import CorruptionError, SnapshotNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.expiry_mark import marked_as_expiring
from lakewright.storage.operations.references.reachable import Reach
from lakewright.storage.operations.references.roots import tag_root
from lakewright.storage.spec.snapshot import Snapshot


def is_kept(files: TableFiles, snapshot: Snapshot, *, beside: Collection[str] = ()) -> bool:
    """Whether a branch's own snapshot or tag still keeps what a snapshot needs.

    `beside` are tags that do not count. Whoever makes a root of a snapshot asks this once the root
    is there: a deletion that did not see the root has by then made this false.
    """
    in_sight = snapshot.id in files.snapshots.kept_ids()
    if in_sight and marked_as_expiring(files, after_id=snapshot.id) is None:
        with suppress(SnapshotNotFound):
            if is_same(files.snapshots.read(snapshot.id), snapshot):
                return True
    tags = files.references.tags().values()
    return any(is_same(tag.snapshot, snapshot) for tag in tags if tag.name not in beside)


def is_same(left: Snapshot, right: Snapshot) -> bool:
    """Whether two files say the same snapshot, be it a snapshot's or a tag's."""
    return left.id == right.id and left.delta_manifest_list == right.delta_manifest_list


def check_lists(files: TableFiles, snapshot: Snapshot, what: str) -> None:
    """Whether the manifest lists of a snapshot are there.

    Raises:
        CorruptionError: one is missing.
    """
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    _check_there(files, [files.paths.manifest(name) for name in lists], what)


def check_whole(files: TableFiles, snapshot: Snapshot, what: str) -> None:
    """Whether everything that a snapshot's state needs is there, down to its data files.

    Raises:
        CorruptionError: something is missing; the message names the first.
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
                f"{what} of {files.name} needs {path}, which is missing",
                table=files.name,
                path=path,
            )
