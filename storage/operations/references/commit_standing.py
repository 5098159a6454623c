"""Whether a snapshot that was just made stands: a rollback may have taken away what it follows.

A rollback takes the snapshots after its target away, the latest of them last, and then looks for
newer ones. A commit makes its snapshot, and then looks for its base. So one of them sees the other:

1. The base is there: the commit stands, and the rollback puts back what it took.
2. The base is gone: the commit takes its snapshot away again, unless somebody has committed on top
   of it meanwhile, which only a rollback that gives up leaves possible.
3. The commit dies before it has looked: its snapshot is a stray, above ids that are missing. The
   rollback looks for strays once more before it ends, and a commit before it fills the gap below
   one: from then on the stray would be the latest.

An expiry may take the base, too; then nothing is left before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from lakewright.storage.errors import FilesGone, SnapshotNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.state.latest import is_being_rolled_back
from lakewright.storage.spec.manifest import EntryIdentity, FileKind, ManifestEntry
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Trace:
    """What a commit leaves in the snapshots after it: its manifests, and the files that it added.

    Whoever made the commit knows it; what it has written may be gone with it by the time of asking.
    """

    manifests: frozenset[str]
    added: frozenset[EntryIdentity]

    @classmethod
    def of(cls, manifests: Iterable[str], entries: Iterable[ManifestEntry]) -> Trace:
        """That of a commit that wrote such manifests and entries."""
        added = (each.identity for each in entries if each.kind is FileKind.ADD)
        return cls(frozenset(manifests), frozenset(added))


def is_on_top(files: TableFiles, base: Snapshot, snapshot: Snapshot, trace: Trace) -> bool:
    """Whether the history leads from the base of a commit to its snapshot, and on from there.

    Where an expiry took the base it may have taken another snapshot of the same id, too; those
    that follow that one know nothing of this one.
    """
    try:
        if files.snapshots.read(base.id).delta_manifest_list != base.delta_manifest_list:
            return False
    except SnapshotNotFound:
        ids = files.snapshots.ids()
        if any(each < base.id for each in ids):
            return False
        # If the one that follows is gone as well nobody can tell any more.
        is_last = not any(each > snapshot.id for each in ids)
        return is_last or follows(files, files.snapshots.read(snapshot.id + 1), trace)
    if not files.snapshots.exists(snapshot.id + 1):
        return True
    try:
        following = files.snapshots.read(snapshot.id + 1)
    except SnapshotNotFound:
        return True
    return follows(files, following, trace)


def is_followed(files: TableFiles, snapshot: Snapshot, trace: Trace) -> bool:
    """Whether somebody has committed on top of a snapshot, be it gone itself by now."""
    later = [each for each in files.snapshots.ids() if each > snapshot.id]
    if not later or later[0] > snapshot.id + 1:
        return bool(later)
    return follows(files, files.snapshots.read(later[0]), trace)


def follows(files: TableFiles, following: Snapshot, trace: Trace) -> bool:
    """Whether a snapshot knows what the commit of the one before it has done.

    Of a commit that added nothing nobody can tell.
    """
    known = files.manifests.read_list(following.base_manifest_list)
    if not trace.added or any(meta.file_name in trace.manifests for meta in known):
        return True
    # Manifests may have been merged. Others may have removed the same files, not added them.
    entries = files.manifests.entries(known)
    return any(each.identity in trace.added for each in entries if each.kind is FileKind.ADD)


def trace_of(files: TableFiles, snapshot: Snapshot) -> Trace:
    """What the commit of a snapshot leaves, read from its lists."""
    delta = files.manifests.read_delta_list(snapshot)
    return Trace.of((meta.file_name for meta in delta), files.manifests.entries(delta))


def check_unseen(files: TableFiles, snapshot: Snapshot) -> None:
    """Whether no rollback under way may have seen a snapshot that was withdrawn.

    It would delete the files that it saw, and they would be published by the next try.

    Raises:
        FilesGone: one may have.
    """
    if is_being_rolled_back(files):
        raise FilesGone(
            f"{files.name} is being rolled back, and snapshot {snapshot.id} was committed to it by "
            f"{snapshot.commit_user} meanwhile; nothing of that is left: plan or stage it again",
            table=files.name,
        )


def remove_stray(files: TableFiles, latest: Snapshot) -> bool:
    """Take away a snapshot that would come right after the one to be made; False if it has to stay.

    It was made on top of what was rolled back, by somebody who died before they looked, and
    nobody has seen it: the latest was never so far. Its files are orphans.
    """
    stray = latest.id + 2
    # Others may have been faster, so this is the order to look in.
    if not files.snapshots.exists(stray) or files.snapshots.exists(latest.id + 1):
        return True
    # An expiry takes the latest of then before the ones after it, and whoever copies snapshots to
    # the table takes LATEST away before.
    if not _is_there(files, latest) or files.snapshots.hinted_latest() != latest.id:
        return True
    if is_being_rolled_back(files):
        # It may be the latest still, or the rollback sees to it.
        return False
    delete_files(files.fs, [files.paths.snapshot(stray)])
    return True


def _is_there(files: TableFiles, snapshot: Snapshot) -> bool:
    with suppress(SnapshotNotFound):
        there = files.snapshots.read(snapshot.id)
        return there.delta_manifest_list == snapshot.delta_manifest_list
    return False
