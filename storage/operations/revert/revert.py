"""Takes back what snapshots did: a new one removes what they added, and returns what they removed.

1. Plan from metadata: the net change of the snapshots (`net_change.py`), and whether it can be
   taken back on top of the latest snapshot (`standing.py`).
2. Run: check that a new plan is the same. Copy the files that come back, with their deletion
   vectors; add their keys to the hash indexes of dynamic buckets.
3. If a rescale of the whole table is taken back: set the option `bucket` back first.
4. Commit: the files that the snapshots added go, and the copies come, in one snapshot. Each attempt
   judges the latest snapshot anew. Later commits stay.
5. On failure the copies are deleted, and the table is as before.

Files come back as copies, under new names: no name that a snapshot removed may come again. Expiry,
ours and that of other clients, deletes the files that an expired snapshot removed, and does not ask
whether a later one added them again. A file that only changed its level changes it back.

The kind of the new snapshot is COMPACT if all snapshots were compactions, which hold the same rows,
and otherwise OVERWRITE. Readers of changes skip both. A property of it names what was taken back,
so that a second call finds it, and a later revert knows that the two did nothing together
(`taken_back.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter

import numpy as np

from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    NotRevertible,
    SnapshotNotFound,
    StalePlan,
    StorageError,
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_loop import commit_change
from lakewright.storage.operations.commit.commit_manifests import named_files
from lakewright.storage.operations.references.sweep import swept_after_failure
from lakewright.storage.operations.references.tags import create_due_tags
from lakewright.storage.operations.revert.net_change import (
    NetChange,
    kept_snapshots,
    read_net_change,
)
from lakewright.storage.operations.revert.standing import Standing, standing
from lakewright.storage.operations.revert.taken_back import (
    snapshots_since,
    taken_back_by,
    takes_back_property,
)
from lakewright.storage.operations.rewrite.rescale import set_bucket_option
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.verb_options import counts, option
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.live_files import level_0_waits
from lakewright.storage.operations.state.rewrite_schema import check_current_schema
from lakewright.storage.operations.state.table_state import ANY_KEYS, TableState, state_at
from lakewright.storage.operations.write.copy_files import CopyRun
from lakewright.storage.spec.commit import Change, Committable
from lakewright.storage.spec.file_names import copy_name
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import EntryIdentity, ManifestEntry
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertedSnapshot:
    """A snapshot to take back; ids repeat after a rollback, and names of delta lists never do."""

    id: int
    kind: CommitKind
    commit_user: str
    time_ms: int
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertedBucket:
    """What changes in a bucket; rows are counted in files, before merging.

    `removed` files go, copies of `returned` files come, and `moved` files change their level.
    """

    partition: dict[str, object]
    bucket: int
    removed: tuple[str, ...]
    returned: tuple[str, ...]
    moved: tuple[str, ...]
    rows_removed: int
    rows_returned: int
    bytes_removed: int
    bytes_returned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertPlan(Plan["RevertResult"]):
    """What taking snapshots back would change, as of one snapshot.

    What was taken back before is left out. `taken_back_by` is the last snapshot that took some of
    it back, if nothing else was named; then there is nothing to do. `bucket_option` is what the
    option `bucket` is set back to. `rows_hidden` come back to level 0, where readers do not see
    them until a compaction takes them up.
    """

    table: str
    snapshot_id: int
    snapshots: tuple[RevertedSnapshot, ...]
    buckets: tuple[RevertedBucket, ...] = ()
    bucket_option: int | None = None
    taken_back_by: int | None = None
    rows_hidden: int = 0

    @property
    def is_empty(self) -> bool:
        return not self.buckets

    @property
    def bytes(self) -> int:
        """Size of the files to copy."""
        return sum(bucket.bytes_returned for bucket in self.buckets)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertResult(Shown):
    """What was taken back; the snapshot is None if there was nothing to do.

    Rows are counted in files, before merging.
    """

    snapshot: Snapshot | None
    snapshot_ids: tuple[int, ...]
    files_removed: int
    files_returned: int
    files_moved: int
    rows_removed: int
    rows_returned: int
    bytes_removed: int
    bytes_returned: int
    duration_ms: int


# --- planning ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class RevertOptions:
    """Which snapshots are taken back."""

    snapshots: Sequence[int] = option(
        counts(1),
        (),
        "A snapshot to take back; several are taken back in one commit.",
        flag="--snapshot",
    )


def plan_revert(files: TableFiles, options: RevertOptions) -> RevertPlan:
    """Plan to take back what snapshots did, all of them in one commit.

    Raises:
        SnapshotNotFound: a snapshot does not exist, or expired.
        NotRevertible: the files to come back are gone, or a later commit stands in the way; the
            message names it and the way out.
        UnsupportedError: the table has an option, or the snapshots files, that rule it out.
    """
    return _looked_at(files.reading_once(), options.snapshots)[0]


def _looked_at(files: TableFiles, snapshot_ids: Sequence[int]) -> tuple[RevertPlan, NetChange]:
    check_supported(files.schema, Use.WRITE, table=files.name)
    check_current_schema(files)

    def look(latest: Snapshot | None) -> tuple[RevertPlan, NetChange]:
        if latest is None:
            kept_snapshots(files, snapshot_ids)
        assert latest is not None
        try:
            snapshots = kept_snapshots(files, snapshot_ids)
            later = snapshots_since(files, snapshots[0].id, latest)
            by = taken_back_by(later, {snapshot.id for snapshot in snapshots})
            left = [snapshot for snapshot in snapshots if snapshot.delta_manifest_list not in by]
            net = read_net_change(files, left) if left else NetChange(snapshots=snapshots)
        except CorruptionError:
            # An expiry may have deleted a snapshot, with its manifests, while it was read.
            kept_snapshots(files, snapshot_ids)
            raise
        done = [by[snapshot.delta_manifest_list] for snapshot in snapshots if not left]
        plan = RevertPlan(
            table=files.name,
            snapshot_id=latest.id,
            snapshots=tuple(map(_told, net.snapshots)),
            taken_back_by=max(done, default=None),
        )
        if net.is_empty:
            return plan, net
        standing_files = standing(state_at(files, latest, takes=ANY_KEYS), net)
        _check_there(files, standing_files)
        plan = replace(
            plan,
            buckets=_buckets(files, standing_files),
            bucket_option=standing_files.bucket_option,
            rows_hidden=_rows_hidden(files, standing_files),
        )
        return plan, net

    return read_latest(files, look)[1]


def _told(snapshot: Snapshot) -> RevertedSnapshot:
    return RevertedSnapshot(
        id=snapshot.id,
        kind=snapshot.commit_kind,
        commit_user=snapshot.commit_user,
        time_ms=snapshot.time_millis,
        delta=snapshot.delta_manifest_list,
    )


def _check_there(files: TableFiles, found: Standing) -> None:
    """Check that every file to come back still exists."""
    paths = [path for entry in found.to_copy for path in files.entry_paths(entry)]
    paths += [files.paths.index(each.file.file_name) for each in found.indexes_to_copy]
    by_folder: dict[str, set[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        by_folder.setdefault(folder, set()).add(name)
    for folder, names in by_folder.items():
        missing = names - {status.name for status in files.fs.list_dir(folder)}
        if missing:
            raise NotRevertible(_gone(files, f"{folder}/{min(missing)}"))


def _gone(files: TableFiles, path: str) -> str:
    return (
        f"file {path} of {files.name} is deleted, so it cannot be restored: the snapshot that "
        "held it expired"
    )


def _rows_hidden(files: TableFiles, found: Standing) -> int:
    """Rows of files that come back to a level 0 whose rows readers do not see."""
    if not level_0_waits(files):
        return 0
    back = (*found.to_copy, *found.moved)
    return sum(each.file.row_count for each in back if each.file.level == 0)


def _buckets(files: TableFiles, found: Standing) -> tuple[RevertedBucket, ...]:
    moved = {(each.place, each.file.file_name) for each in found.moved}
    removed = [each for each in found.removed if (each.place, each.file.file_name) not in moved]
    places = {each.place for each in (*removed, *found.to_copy, *found.moved)}
    places |= {each.place for each in (*found.removed_indexes, *found.indexes_to_copy)}
    rows = {each.place: each for each in (*removed, *found.to_copy, *found.moved)}

    def bucket(place: Place) -> RevertedBucket:
        gone = [each.file for each in removed if each.place == place]
        back = [each.file for each in found.to_copy if each.place == place]
        entry = rows.get(place)
        row = files.partitions.of_row(place.partition) if entry is None else None
        partition = files.partitions.of_entry(entry) if entry is not None else row
        assert partition is not None
        return RevertedBucket(
            partition=partition.spec,
            bucket=place.bucket,
            removed=tuple(sorted(file.file_name for file in gone)),
            returned=tuple(sorted(file.file_name for file in back)),
            moved=tuple(sorted(name for at, name in moved if at == place)),
            rows_removed=sum(file.row_count for file in gone),
            rows_returned=sum(file.row_count for file in back),
            bytes_removed=sum(file.file_size for file in gone),
            bytes_returned=sum(file.file_size for file in back),
        )

    return tuple(map(bucket, sorted(places)))


# --- running ----------------------------------------------------------------------------------


def run_revert(files: TableFiles, plan: RevertPlan) -> RevertResult:
    """Carry a plan out, in one commit.

    Raises:
        StalePlan: a later commit or an expiry came between; nothing is published.
        SchemaMoved: the table's schema changed since it was opened.
        RetriesExhausted: other processes committed too often; nothing is published.
        CommitOutcomeUnknownError: the store failed while the snapshot was created; call again,
            which finds whether it was.
    """
    started = files.env.now_ms()
    files = files.reading_once()
    now, net = _replanned(files, plan)
    snapshot = None
    if now.buckets:
        if now.bucket_option is not None:
            # As a rescale does, so that no writer begins a partition with the other count.
            files = set_bucket_option(files, now.bucket_option)
        snapshot = _commit(files, plan, net)
        # The commit stands. The next commit makes a missing tag.
        with suppress(StorageError):
            create_due_tags(files)
    buckets = plan.buckets
    return RevertResult(
        snapshot=snapshot,
        snapshot_ids=tuple(each.id for each in plan.snapshots),
        files_removed=sum(len(bucket.removed) for bucket in buckets),
        files_returned=sum(len(bucket.returned) for bucket in buckets),
        files_moved=sum(len(bucket.moved) for bucket in buckets),
        rows_removed=sum(bucket.rows_removed for bucket in buckets),
        rows_returned=sum(bucket.rows_returned for bucket in buckets),
        bytes_removed=sum(bucket.bytes_removed for bucket in buckets),
        bytes_returned=sum(bucket.bytes_returned for bucket in buckets),
        duration_ms=files.env.now_ms() - started,
    )


def _replanned(files: TableFiles, plan: RevertPlan) -> tuple[RevertPlan, NetChange]:
    """A new plan, which must show the same, and the change to take back."""
    try:
        now, net = _looked_at(files, [snapshot.id for snapshot in plan.snapshots])
    except (NotRevertible, SnapshotNotFound) as error:
        raise StalePlan(f"the plan for {files.name} is stale: {error}") from error
    same = [snapshot.delta for snapshot in now.snapshots] == [
        snapshot.delta for snapshot in plan.snapshots
    ]
    if not same or _named(files, now) != _named(files, plan):
        by = f"by snapshot {now.taken_back_by}" if now.taken_back_by else "in another way"
        raise StalePlan(
            f"a plan to take back snapshots of {files.name} was made at snapshot "
            f"{plan.snapshot_id}, and they have been taken back {by} since, or other snapshots "
            "have their ids; plan again"
        )
    return now, net


def _named(files: TableFiles, plan: RevertPlan) -> Mapping[Place, tuple[frozenset[str], ...]]:
    return {
        Place(files.partitions.planned(bucket.partition).row, bucket.bucket): (
            frozenset(bucket.removed),
            frozenset(bucket.returned),
            frozenset(bucket.moved),
        )
        for bucket in plan.buckets
    }


def _commit(files: TableFiles, plan: RevertPlan, net: NetChange) -> Snapshot | None:
    run_id = files.env.new_id()
    copies = _Copies(files, run_id)

    def build(state: TableState) -> Change | None:
        if state.snapshot is None:
            raise StalePlan(f"{files.name} has no snapshot any more; plan again")
        try:
            standing_files = standing(state, net)
        except (NotRevertible, UnsupportedError) as error:
            raise StalePlan(f"another commit came between: {error}") from error
        returned, indexes = copies.of(standing_files)
        renamed = copies.renamed(standing_files.to_rename)
        change = Change(
            entries=[
                *(
                    entry.removed()
                    for entry in (*standing_files.removed, *standing_files.to_rename)
                ),
                *standing_files.moved,
                *returned,
                *renamed,
            ],
            new_indexes=[*indexes, *copies.hash_indexes(standing_files)],
            removed_indexes=[*standing_files.removed_indexes, *standing_files.replaced_hashes],
            properties=takes_back_property(net.snapshots),
        )
        copies.unused = copies.made - named_files(files, change)
        return change

    base_id = plan.snapshot_id
    kind = CommitKind.COMPACT if net.keeps_rows else CommitKind.OVERWRITE
    committable = Committable(user=f"revert-{run_id}", kind=kind, base_id=base_id)
    try:
        with swept_after_failure(files, [run_id], base_id):
            snapshot = commit_change(files, build, committable).snapshot
    except FileMissing as error:
        raise StalePlan(f"nothing of {files.name} was taken back: {error}") from error
    # The commit stands. Removals of orphans delete what stays here.
    with suppress(StorageError):
        discard_files(files.fs, copies.unused)
    return snapshot


class _Copies:
    """The files that a commit returns, renames or writes, each made once for all attempts.

    `made` are the paths of all, `unused` of those that the last attempt did not need.
    """

    def __init__(self, files: TableFiles, run_id: str) -> None:
        self._files, self._run_id = files, run_id
        self._run = CopyRun(files, files, partial(copy_name, run_id), beside=True)
        self._of: tuple[list[ManifestEntry], list[IndexEntry]] | None = None
        self._indexes: tuple[IndexEntry, ...] = ()
        self._renamed: dict[EntryIdentity, ManifestEntry] = {}
        self._hashes: dict[tuple[Place, bytes], IndexEntry] = {}
        self.made: set[str] = set()
        self.unused: set[str] = set()

    def of(self, found: Standing) -> tuple[list[ManifestEntry], list[IndexEntry]]:
        """The files and index files that come back; they are the same in each attempt.

        Raises:
            StalePlan: files that index files refer to have other names since.
        """
        if self._of is None:
            self._of = self._run.copied(found.to_copy, found.indexes_to_copy)
            self._indexes = found.indexes_to_copy
        if found.indexes_to_copy != self._indexes:
            raise StalePlan(f"another commit to {self._files.name} came between; plan again")
        return self._of

    def renamed(self, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """Live files as copies."""
        new = [entry for entry in entries if entry.identity not in self._renamed]
        copies, _ = self._run.copied(new, ())
        self._renamed |= zip((entry.identity for entry in new), copies, strict=True)
        self.made |= {path for entry in copies for path in self._files.entry_paths(entry)}
        return [self._renamed[entry.identity] for entry in entries]

    def hash_indexes(self, found: Standing) -> list[IndexEntry]:
        """The new hash indexes."""
        return [self._hash_index(*each) for each in sorted(found.hashes.items(), key=itemgetter(0))]

    def _hash_index(self, place: Place, hashes: np.ndarray) -> IndexEntry:
        at = place, hashes.tobytes()
        if at not in self._hashes:
            name = f"index-{self._run_id}-{len(self._hashes)}"
            file = self._files.indexes.write_hash_index(hashes, name=name)
            self._hashes[at] = IndexEntry(partition=place.partition, bucket=place.bucket, file=file)
            self.made.add(self._files.paths.index(name))
        return self._hashes[at]
