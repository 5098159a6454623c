"""Checks that a new snapshot stands: a concurrent rollback may have deleted its base.

A rollback deletes the snapshots after its target, the latest last, and then looks for newer
ones. A committer creates its snapshot, and then looks for its base. So one sees the other:

1. The base exists: the commit stands, and the rollback restores what it deleted.
2. The base is gone: the committer withdraws its snapshot. It cannot if another commit followed,
   which is possible only if the rollback gave up.
3. The committer dies before the check: its snapshot is a stray above a gap of missing ids. The
   rollback deletes strays before it ends. A later committer deletes a stray before it fills the
   gap, since the stray would become the latest snapshot.

An expiry may delete the base, too; then no earlier snapshot exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from lakewright.storage.errors import SnapshotNotFound
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.condemn import is_being_rolled_back
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.spec.commit import PreparedDelta
from lakewright.storage.spec.manifest import FileKind, ManifestEntry
from lakewright.storage.spec.snapshot import FOLLOWS_PROPERTY, Snapshot


@dataclass(frozen=True, slots=True)
class Trace:
    """What later snapshots show of a commit: its manifests, the files that it added and removed.

    The committer keeps it in memory, since a rollback may have deleted the commit's manifests. A
    later snapshot may restate the entries under other partition keys; names of files stay, unless
    it ends a change of keys with the files of before. So what restates says what it follows.
    """

    snapshot: Snapshot
    manifests: frozenset[str]
    added: frozenset[str]
    removed: frozenset[str]

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        manifests: Iterable[str],
        entries: Iterable[ManifestEntry],
        delta: PreparedDelta | None = None,
    ) -> Trace:
        """The trace of a commit that wrote these manifests and entries, and names a delta."""
        names: dict[FileKind, set[str]] = {kind: set() for kind in FileKind}
        for entry in entries:
            names[entry.kind].add(entry.file.file_name)
        added, removed = (frozenset(names[kind]) for kind in (FileKind.ADD, FileKind.DELETE))
        written = frozenset(manifests)
        if delta is not None:
            written |= {manifest.file_name for manifest in delta.manifests}
            added |= delta.added
        return cls(snapshot, written, added, removed)


def is_on_top(files: TableFiles, base: Snapshot, snapshot: Snapshot, trace: Trace) -> bool:
    """Whether the history leads from a commit's base to its snapshot and on to the next one.

    If an expiry deleted the base, it may also have deleted another snapshot with this one's id.
    Then the next snapshot follows that other one, and does not contain the trace.
    """
    try:
        if files.snapshots.read(base.id).delta_manifest_list != base.delta_manifest_list:
            return False
    except SnapshotNotFound:
        ids = files.snapshots.ids()
        if any(each < base.id for each in ids):
            return False
        # If the next snapshot is gone as well, the read raises: the answer is unknown.
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
    """Whether another commit followed a snapshot, which may itself be deleted."""
    later = [each for each in files.snapshots.ids() if each > snapshot.id]
    if not later or later[0] > snapshot.id + 1:
        return bool(later)
    return follows(files, files.snapshots.read(later[0]), trace)


def follows(files: TableFiles, following: Snapshot, trace: Trace) -> bool:
    """Whether a snapshot contains the trace of the commit before it.

    A commit of no file leaves nothing to check; the answer is then True.
    """
    told = (following.properties or {}).get(FOLLOWS_PROPERTY)
    if told is not None:
        return told == trace.snapshot.delta_manifest_list
    if not trace.added and not trace.removed:
        return True
    known = files.manifests.read_list(following.base_manifest_list)
    if any(meta.file_name in trace.manifests for meta in known):
        return True
    # A merge may have replaced the manifests. Another commit may remove the same files, but
    # cannot add them.
    if trace.added:
        entries = files.manifests.entries(known)
        return any(
            entry.file.file_name in trace.added for entry in entries if entry.kind is FileKind.ADD
        )
    # So of a commit that only removed files, the number of rows that it left must be right, too.
    before = following.total_record_count - following.delta_record_count
    if before != trace.snapshot.total_record_count:
        return False
    live = live_entries(files, following, manifests=known)
    return trace.removed.isdisjoint(each.file.file_name for each in live)


def trace_of(files: TableFiles, snapshot: Snapshot) -> Trace:
    """The trace of a snapshot's commit, read from its delta manifest list."""
    delta = files.manifests.read_delta_list(snapshot)
    names = (meta.file_name for meta in delta)
    return Trace.of(snapshot, names, files.manifests.entries(delta))


def remove_stray(files: TableFiles, latest: Snapshot) -> bool:
    """Delete a stray snapshot right after the id to be committed; False if it must stay for now.

    A committer that died made it on top of a snapshot that was rolled back. No reader has seen it,
    since the latest id never reached it. Its files are orphans.
    """
    if files.server is not None:
        # Only its server deletes a snapshot.
        return True
    stray = latest.id + 2
    # Another committer may have filled the gap. So the stray is checked first, then the gap.
    if not files.snapshots.exists(stray) or files.snapshots.exists(latest.id + 1):
        return True
    # If an expiry runs, it deletes `latest` before later snapshots. A process that copies
    # snapshots to the table deletes LATEST first. In both cases the later snapshot is not a stray.
    if not _is_there(files, latest) or files.snapshots.hinted_latest() != latest.id:
        return True
    if is_being_rolled_back(files):
        # The snapshot may still be the latest; otherwise the rollback deletes it.
        return False
    delete_files(files.fs, [files.paths.snapshot(stray)])
    return True


def _is_there(files: TableFiles, snapshot: Snapshot) -> bool:
    with suppress(SnapshotNotFound):
        there = files.snapshots.read(snapshot.id)
        return there.delta_manifest_list == snapshot.delta_manifest_list
    return False
