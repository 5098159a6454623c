"""Deletes files of writes that will never be published.

Every deletion first reads the roots of main and all branches, and those of records of what was
condemned, which a verb may put back. So it never deletes a published file, even if the caller asks
for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.errors import CorruptionError, StorageError
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.condemn import recorded_roots, records
from lakewright.storage.operations.references.keepers import Label, label_of
from lakewright.storage.operations.references.roots import Root, RootKind, all_roots
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.spec.commit import CommitMessage, StagedWrite

# The allowed clock difference between a writer, a committer and the store.
_CLOCKS_DIFFER_MS = 600_000


def abort_staged(files: TableFiles, staged: StagedWrite) -> int:
    """Delete the unpublished files of a staged write; return how many were deleted.

    Raises:
        CorruptionError: a snapshot since the staging cannot be read, so nothing is deleted.
    """
    return delete_unpublished(files, staged.messages, since_snapshot_id=staged.base_snapshot_id)


def delete_unpublished(
    files: TableFiles, messages: Sequence[CommitMessage], *, since_snapshot_id: int | None
) -> int:
    """Delete the new files that messages name, except those published since a snapshot."""
    paths = [
        files.data_file_path(message.place, file)
        for message in messages
        for file in message.written_files
    ] + [
        files.paths.index(index.file_name)
        for message in messages
        for index in message.new_indexes
        # An index that replaces itself existed before the message.
        if index not in message.removed_indexes
    ]
    made = [file.creation_time for message in messages for file in message.written_files]
    began_ms = min((time or 0 for time in made), default=0)
    return delete_but_published(files, paths, since_snapshot_id, began_ms)


def sweep(
    files: TableFiles,
    write_id: str,
    *,
    since_snapshot_id: int | None,
    but: Collection[str] = (),
) -> int:
    """Delete every unpublished file of a failed write; return how many were deleted.

    Files with the names `but` stay.

    This finds the files of dead tasks too, since file names carry the id of their write. It lists
    the whole table, so it is for failures only.
    """
    hidden = files.paths.upkeep_dir + "/"
    listed = files.fs.list_tree(files.paths.root)
    found = [
        each
        for each in listed
        if write_id in each.name and each.name not in but and not each.path.startswith(hidden)
    ]
    began_ms = min((each.modified_ms for each in found), default=0)
    paths = [each.path for each in found]
    return delete_but_published(files, paths, since_snapshot_id, began_ms)


def sweep_repeated(
    files: TableFiles,
    write_id: str,
    messages: Sequence[CommitMessage],
    *,
    since_snapshot_id: int | None,
) -> int:
    """Delete files of repeated task attempts whose results the write did not use.

    All attempts of a task write to the same buckets, so only their folders are listed. Orphan
    removal deletes what an attempt writes later, and what a failing store keeps.
    """
    named = {
        name
        for message in messages
        for file in message.written_files
        for name in (file.file_name, *file.extra_files)
    } | {index.file_name for message in messages for index in message.new_indexes}
    folders = {files.bucket_dir(message.place) for message in messages}
    if any(message.new_indexes for message in messages):
        folders.add(files.paths.index_dir)
    with suppress(StorageError):
        listed = [each for folder in sorted(folders) for each in files.fs.list_dir(folder)]
        found = [each for each in listed if write_id in each.name and each.name not in named]
        began_ms = min((each.modified_ms for each in found), default=0)
        paths = [each.path for each in found]
        return delete_but_published(files, paths, since_snapshot_id, began_ms)
    return 0


def sweep_after_failure(
    files: TableFiles,
    write_ids: Iterable[str],
    *,
    since_snapshot_id: int | None,
    but: Collection[str] = (),
) -> None:
    """Delete the files of failed writes; a store failure here does not hide why they failed."""
    for write_id in write_ids:
        with suppress(StorageError):
            sweep(files, write_id, since_snapshot_id=since_snapshot_id, but=but)


def delete_but_published(
    files: TableFiles, paths: Sequence[str], since_snapshot_id: int | None, began_ms: int
) -> int:
    """Delete files, except those that a commit since a snapshot or a time may have published."""
    if not paths:
        return 0
    names = {_name(path) for path in paths}
    published = _published(files, names, since_snapshot_id or 0, began_ms)
    return delete_files(files.fs, [path for path in paths if _name(path) not in published])


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _published(
    files: TableFiles, names: Collection[str], since_snapshot_id: int, began_ms: int
) -> set[str]:
    """The names that a commit may have published since a snapshot and a time."""
    found: set[str] = set()
    known: set[Label] = set()

    def look_at_roots() -> None:
        rounds = Rounds(files.name, "the published files of a commit were looked up")
        while True:
            rounds.begin()
            roots = all_roots(files)
            new = [each for each in roots if label_of(each) not in known]
            try:
                found.update(_named_by(new, names, since_snapshot_id, began_ms))
            except CorruptionError:
                # An expiry may have deleted a root meanwhile. The remaining roots are read again.
                if {*map(label_of, roots)} <= {*map(label_of, all_roots(files))}:
                    raise
                continue
            known.update(map(label_of, roots))
            return

    # A verb may put a root back, and delete its record then.
    look_at_roots()
    for _, record in records(files):
        for root in recorded_roots(files, record):
            # What is not whole can be put back no more.
            with suppress(CorruptionError):
                found.update(_named_by([root], names, since_snapshot_id, began_ms))
    look_at_roots()
    return found


def _named_by(
    roots: Sequence[Root], names: Collection[str], since_snapshot_id: int, began_ms: int
) -> set[str]:
    """The names that a root keeps or its commit removed; each manifest is read once."""
    wanted = frozenset(names)
    sought = pa.array([each.encode() for each in wanted], pa.large_binary())
    snapshots = {
        (root.branch, root.snapshot.id): root.snapshot.delta_manifest_list
        for root in roots
        if root.kind is RootKind.SNAPSHOT
    }
    found: set[str] = set()
    read: set[str] = set()
    for root in roots:
        snapshot, manifests = root.snapshot, root.files.manifests
        place = (root.branch, snapshot.id)
        # After a rollback new snapshots may have smaller ids, so their time decides as well.
        is_earlier = snapshot.id <= since_snapshot_id
        if is_earlier and snapshot.time_millis < began_ms - _CLOCKS_DIFFER_MS:
            continue
        if root.kind is RootKind.TAG and snapshots.get(place) == snapshot.delta_manifest_list:
            continue
        is_next = root.kind is RootKind.SNAPSHOT and (root.branch, snapshot.id - 1) in snapshots
        for name in _lists(root, with_base=not is_next):
            for meta in manifests.read_list(name):
                if meta.file_name not in read:
                    # A manifest may have very many entries, and none of them is wanted.
                    named = manifests.read_columns(meta).texts("_FILE._FILE_NAME")
                    there = named.filter(pc.is_in(named, value_set=sought))
                    found |= {each.decode() for each in there.to_pylist()}
                    read.add(meta.file_name)
        index_manifest = snapshot.index_manifest
        if root.kind is RootKind.CHANGELOG or index_manifest is None or index_manifest in read:
            continue
        indexes = manifests.read_index_manifest(index_manifest)
        found |= wanted & {entry.file.file_name for entry in indexes}
        read.add(index_manifest)
    return found


def _lists(root: Root, *, with_base: bool) -> Iterator[str]:
    """Names of the manifest lists of a root; the base list names the files before its commit."""
    snapshot, files = root.snapshot, root.files
    is_changelog = root.kind is RootKind.CHANGELOG
    if with_base and not is_changelog:
        yield snapshot.base_manifest_list
    if not is_changelog or files.fs.exists(files.paths.manifest(snapshot.delta_manifest_list)):
        yield snapshot.delta_manifest_list
    changes = snapshot.changelog_manifest_list
    # A snapshot restored from a tag, or copied to a branch, may have lost its changelog.
    if changes is not None and files.fs.exists(files.paths.manifest(changes)):
        yield changes
