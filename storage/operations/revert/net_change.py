"""What a set of snapshots changed in sum, read from their deltas and from the states before them.

A file that one snapshot added and a later one of the set removed counts as neither. A file and its
copies count as one (`copies.py`). The state before each snapshot is read too: it has the whole
entries of the removed files and the index files of the time, and it proves that the snapshot was
made on top of it.

Hash indexes are apart: an index covers the files of all commits, so what a snapshot made of it is
no part of the change. Of them, only those of the files that come back are named (`hashes.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lakewright.storage.errors import (
    FileMissing,
    InvalidRequestError,
    NotRevertible,
    SnapshotNotFound,
    UnreadableManifest,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.respec.keyed_checks import respec_command
from lakewright.storage.operations.revert.copies import Step, first_identity, indexes_by_first
from lakewright.storage.operations.state.live_files import index_entries, live_entries
from lakewright.storage.spec.arguments import whole_number
from lakewright.storage.spec.index import HASH_INDEX, IndexEntry
from lakewright.storage.spec.manifest import EntryIdentity, FileKind, ManifestEntry, fold_entries
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot

_KEEPS_ROWS = (CommitKind.COMPACT, CommitKind.ANALYZE)


@dataclass(frozen=True, kw_only=True)
class NetChange:
    """The files and index files that snapshots added and removed; entries are of kind ADD.

    Keys, and all that are no entries of a mapping, have the names of the first files of copies.
    `before` holds the files of the touched partitions before the first snapshot, `indexes_before`
    and `indexes_after` the index files of these partitions before the first and after the last.
    `hash_indexes` hold the keys of the removed files, under their own names. `steps` are those of
    the snapshots.
    """

    snapshots: tuple[Snapshot, ...]
    steps: tuple[Step, ...] = ()
    added: dict[EntryIdentity, ManifestEntry] = field(default_factory=dict)
    removed: dict[EntryIdentity, ManifestEntry] = field(default_factory=dict)
    new_indexes: dict[IndexEntry, IndexEntry] = field(default_factory=dict)
    removed_indexes: dict[IndexEntry, IndexEntry] = field(default_factory=dict)
    before: frozenset[EntryIdentity] = frozenset()
    indexes_before: frozenset[IndexEntry] = frozenset()
    indexes_after: frozenset[IndexEntry] = frozenset()
    hash_indexes: frozenset[IndexEntry] = frozenset()

    @property
    def first(self) -> Snapshot:
        return self.snapshots[0]

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(snapshot.id for snapshot in self.snapshots)

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.new_indexes or self.removed_indexes)

    @property
    def keeps_rows(self) -> bool:
        """Whether all snapshots are compactions, which hold the rows that they replaced."""
        return all(snapshot.commit_kind in _KEEPS_ROWS for snapshot in self.snapshots)

    @property
    def places(self) -> frozenset[Place]:
        """The buckets whose files or indexes the snapshots changed."""
        entries = {each.place for each in (*self.added.values(), *self.removed.values())}
        indexes = {entry.place for entry in (*self.new_indexes, *self.removed_indexes)}
        return frozenset(entries | indexes)

    @property
    def rows(self) -> frozenset[bytes]:
        """The partitions that the snapshots changed."""
        return frozenset(place.partition for place in self.places)

    @property
    def moved(self) -> frozenset[tuple[Place, str]]:
        """Files that only changed their level."""
        return frozenset(map(named, self.added)) & frozenset(map(named, self.removed))

    @property
    def to_return(self) -> list[ManifestEntry]:
        """Removed files whose rows only a copy brings back."""
        moved = self.moved
        return [entry for at, entry in self.removed.items() if named(at) not in moved]


def named(identity: EntryIdentity) -> tuple[Place, str]:
    """A file at whatever level."""
    return Place(identity.partition, identity.bucket), identity.file_name


def read_net_change(files: TableFiles, snapshots: Sequence[Snapshot]) -> NetChange:
    """What these snapshots, oldest first, changed in sum.

    Raises:
        NotRevertible: the state before a snapshot expired, or a snapshot changed more than its
            files; the message says what.
    """
    deltas = [_delta(files, each) for each in snapshots]
    rows = {entry.partition for delta in deltas for entry in delta}
    net = NetChange(snapshots=tuple(snapshots))
    added, removed = net.added, net.removed
    new, gone = net.new_indexes, net.removed_indexes
    befores: list[tuple[frozenset[EntryIdentity], frozenset[IndexEntry]]] = []
    hashed: set[IndexEntry] = set()
    for snapshot, delta in zip(snapshots, deltas, strict=True):
        before, entries = _state_before(files, snapshot, delta, rows)
        _check_follows(files, snapshot, delta, before, rows)
        indexes = indexes_by_first(without_hashes(entries))
        befores.append((frozenset(map(first_identity, before)), frozenset(indexes)))
        folded = fold_entries(delta)
        losing = {each.place for each in folded.values() if each.kind is FileKind.DELETE}
        hashed |= {each for each in entries if _has_hashes(each) and each.place in losing}
        # A file that became a copy is not gone, so what goes is counted first.
        for exact in (each for each in folded if folded[each].kind is FileKind.DELETE):
            identity = first_identity(exact)
            if added.pop(identity, None) is None:
                removed[identity] = before[exact]
        for exact in (each for each in folded if folded[each].kind is FileKind.ADD):
            identity = first_identity(exact)
            if removed.pop(identity, None) is None:
                added[identity] = folded[exact]
        after = indexes_by_first(without_hashes(index_entries(files, snapshot)))
        _turn(new, gone, after, indexes)
        _turn(gone, new, indexes, after)
    touched = rows | {entry.partition for entry in (*new, *gone)}
    last = indexes_by_first(without_hashes(index_entries(files, snapshots[-1])))
    returning = {entry.place for entry in net.to_return}
    return replace(
        net,
        steps=tuple(map(Step.of, deltas)),
        before=befores[0][0],
        indexes_before=_of(befores[0][1], touched),
        indexes_after=_of(last, touched),
        hash_indexes=frozenset(each for each in hashed if each.place in returning),
    )


def kept_snapshots(files: TableFiles, snapshot_ids: Iterable[int]) -> tuple[Snapshot, ...]:
    """The snapshots with these ids, oldest first.

    Raises:
        InvalidRequestError: no snapshot is named, or an id is no whole number.
        SnapshotNotFound: one does not exist, or expired, or is being expired.
    """
    ids = sorted({whole_number(snapshot_id, "snapshot") for snapshot_id in snapshot_ids})
    if not ids:
        raise InvalidRequestError(
            f"say which snapshots of {files.name} to take back: none is named"
        )
    return tuple(_kept(files, each) for each in ids)


def _kept(files: TableFiles, snapshot_id: int) -> Snapshot:
    ids = files.snapshots.ids()
    if snapshot_id in ids:
        return files.snapshots.read(snapshot_id)
    has = f"snapshots {ids[0]} to {ids[-1]}" if ids else "no snapshot"
    raise SnapshotNotFound(
        f"{files.name} has no snapshot {snapshot_id} to take back: it has {has}; if it expired, "
        "undo that expiry first, while its files are marked for deletion "
        f"(lakewright condemned list {files.name})"
    )


def _delta(files: TableFiles, snapshot: Snapshot) -> list[ManifestEntry]:
    """Entries of a snapshot's delta.

    Raises:
        NotRevertible: it is not a matter of data files alone.
    """
    then = files.at_schema(snapshot.schema_id).schema
    keys = then.partition_keys
    if then.has_primary_key != files.schema.has_primary_key:
        raise _refused(files, snapshot, "the table has got its primary key since")
    if keys != files.schema.partition_keys:
        primary = None if then.primary_keys == files.schema.primary_keys else then.primary_keys
        command = respec_command(files.name, keys, primary)
        # A change names live files anew: with the keys of before, only what went can come back.
        ways = f"with ({', '.join(keys)}) again ({command}), files that it removed can come back"
        if snapshot.id - 1 in files.snapshots.ids():
            ways += (
                f"; or roll back to snapshot {snapshot.id - 1} (lakewright rollback {files.name} "
                f"--snapshot {snapshot.id - 1}), which loses all that came later"
            )
        raise _refused(
            files, snapshot, f"the partition keys of the table have changed since; {ways}"
        )
    if snapshot.changelog_manifest_list is not None and snapshot.commit_kind is CommitKind.COMPACT:
        raise _refused(
            files,
            snapshot,
            "readers of changes have read which rows it merged, and the next compaction "
            "would repeat them",
        )
    return list(files.manifests.entries(files.manifests.read_delta_list(snapshot)))


def _state_before(
    files: TableFiles, snapshot: Snapshot, delta: Sequence[ManifestEntry], rows: Collection[bytes]
) -> tuple[dict[EntryIdentity, ManifestEntry], frozenset[IndexEntry]]:
    """The files of partitions, and all index files, before a snapshot."""
    if snapshot.id == FIRST_SNAPSHOT_ID:
        return {}, frozenset()
    before = _snapshot_before(files, snapshot)
    if before is not None:
        with suppress(FileMissing, UnreadableManifest, SnapshotNotFound):
            keys = files.at_schema(before.schema_id).schema.partition_keys
            if keys != files.schema.partition_keys:
                raise _refused(
                    files,
                    snapshot,
                    f"it changed the partition keys; change them back to ({', '.join(keys)})",
                )
            live = {each.identity: each for each in live_entries(files, before, partitions=rows)}
            return live, frozenset(index_entries(files, before))
    only_adds = all(entry.kind is FileKind.ADD for entry in delta)
    if only_adds and not without_hashes(index_entries(files, snapshot)):
        here = {each.identity: each for each in live_entries(files, snapshot, partitions=rows)}
        added = {entry.identity for entry in delta}
        return {each: entry for each, entry in here.items() if each not in added}, frozenset()
    raise _refused(
        files,
        snapshot,
        f"snapshot {snapshot.id - 1}, which held the files that it replaced, expired, and no tag "
        "holds it: they are deleted",
    )


def _snapshot_before(files: TableFiles, snapshot: Snapshot) -> Snapshot | None:
    wanted = snapshot.id - 1
    if wanted in files.snapshots.ids():
        with suppress(SnapshotNotFound):
            return files.snapshots.read(wanted)
    tags = (tag.snapshot for tag in files.references.tags().values())
    return next((tag for tag in tags if tag.id == wanted), None)


def _check_follows(
    files: TableFiles,
    snapshot: Snapshot,
    delta: Sequence[ManifestEntry],
    before: dict[EntryIdentity, ManifestEntry],
    rows: Collection[bytes],
) -> None:
    """Check that a snapshot's state is the one before it plus its delta."""
    after = fold_entries([*before.values(), *delta])
    here = {entry.identity for entry in live_entries(files, snapshot, partitions=rows)}
    if any(each.kind is FileKind.DELETE for each in after.values()) or after.keys() != here:
        raise _refused(
            files,
            snapshot,
            f"it was not made on top of snapshot {snapshot.id - 1}, or restated the files of it",
        )


def _turn(
    into: dict[IndexEntry, IndexEntry],
    other: dict[IndexEntry, IndexEntry],
    here: dict[IndexEntry, IndexEntry],
    there: dict[IndexEntry, IndexEntry],
) -> None:
    """Count index files that are only here, unless the other mapping counts the opposite."""
    for first in here.keys() - there.keys():
        if other.pop(first, None) is None:
            into[first] = here[first]


def _has_hashes(entry: IndexEntry) -> bool:
    return entry.file.index_type == HASH_INDEX


def without_hashes(entries: Iterable[IndexEntry]) -> list[IndexEntry]:
    """Index files but for hash indexes."""
    return [entry for entry in entries if not _has_hashes(entry)]


def _of(indexes: Iterable[IndexEntry], rows: Collection[bytes]) -> frozenset[IndexEntry]:
    return frozenset(index for index in indexes if index.partition in rows)


def _refused(files: TableFiles, snapshot: Snapshot, why: str) -> NotRevertible:
    return NotRevertible(
        f"snapshot {snapshot.id} of {files.name} cannot be taken back: {why}", snapshot=snapshot.id
    )
