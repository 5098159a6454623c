"""The rows of a primary-key table under other partition keys, staged before the keys change.

Each partition is rewritten (`move_partitions.py`), as of the snapshot `at`. What others commit
after it is read from the deltas of their snapshots, and the partitions that it changed are written
again, with their manifests (`swap_manifests.py`). So a round costs what changed since the last.

A round counts as a whole or not at all: what it replaced is deleted when it is over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    FilesGone,
    SnapshotNotFound,
    StalePlan,
    StorageError,
    VerificationFailed,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.references.sweep import sweep_after_failure
from lakewright.storage.operations.respec.bridged_entries import Staged
from lakewright.storage.operations.respec.cut_over import NAME, files_of
from lakewright.storage.operations.respec.followed import catch_up, changed_between
from lakewright.storage.operations.respec.keyed_checks import (
    check_rows_have_key,
    check_told,
    is_in_order,
)
from lakewright.storage.operations.respec.move_partitions import Move, Moved
from lakewright.storage.operations.respec.new_places import (
    NewPlaces,
    bucket_count_for,
    merged_indexes,
)
from lakewright.storage.operations.respec.respec_plan import Rewritten
from lakewright.storage.operations.respec.staging import Staging, StagingTask, stage_partition
from lakewright.storage.operations.respec.swap_manifests import SwapManifests
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.keys_of_files import is_bridged_row, late_entries
from lakewright.storage.operations.state.live_columns import in_own_order
from lakewright.storage.operations.state.live_files import by_partition, deletions_by_bucket
from lakewright.storage.operations.state.staged_changes import base_of
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.bridge_record import BridgeRecord
from lakewright.storage.spec.commit import Change, PreparedBase
from lakewright.storage.spec.index import HASH_INDEX, IndexEntry
from lakewright.storage.spec.manifest import EntryIdentity, FileKind, ManifestEntry
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.snapshot import FOLLOWS_PROPERTY, Snapshot

# What tells files of one name from each other.
_TELLING = ("_FILE._FILE_SIZE", "_FILE._ROW_COUNT")


@dataclass(frozen=True, slots=True)
class _Partition:
    """The files and indexes of a partition, and what came of them."""

    files: Mapping[EntryIdentity, ManifestEntry]
    indexes: frozenset[IndexEntry]
    moved: Moved


@dataclass
class StagedTable:
    """The new files of a table and their manifests, as of the snapshot `at`.

    `files` is the table under its present keys, and `now` under the new ones. `schema_id` is the
    schema that bridged entries name.
    """

    files: TableFiles
    now: TableFiles
    schema_id: int
    engine: Engine
    verify: VerifyLevel
    run_ids: list[str]
    rewritten: Rewritten
    staging: Staging
    at: Snapshot | None = None
    is_published: bool = False
    # Partitions that this run wrote, and did not take up.
    written: set[bytes] = field(default_factory=set)
    _partitions: dict[bytes, _Partition] = field(default_factory=dict)
    # Numbers of dynamic buckets of new partitions whose rows come from several tasks.
    _counts: dict[bytes, int] = field(default_factory=dict)
    # The hash indexes of new partitions.
    _indexes: dict[bytes, tuple[IndexEntry, ...]] = field(default_factory=dict)
    _manifests: SwapManifests = field(init=False)
    _exact: PreparedBase | None = None
    _attempted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._manifests = SwapManifests(self.files, self.now, self.schema_id)

    @property
    def staged(self) -> list[Staged]:
        """All new files."""
        return [each for part in self._partitions.values() for each in part.moved.staged]

    @property
    def moved(self) -> list[Moved]:
        """What this run wrote of each partition."""
        return [part.moved for row, part in self._partitions.items() if row in self.written]

    @property
    def names(self) -> frozenset[str]:
        """The names of all new files and indexes."""
        moved = [part.moved for part in self._partitions.values()]
        files = (each.entry.file.file_name for own in moved for each in own.staged)
        return frozenset(files) | {e.file.file_name for own in moved for e in own.indexes}

    @property
    def indexes(self) -> tuple[IndexEntry, ...]:
        """The hash indexes of the new buckets."""
        return tuple(each for own in self._indexes.values() for each in own)

    def catch_up(self) -> None:
        """Write what is not written yet, and then what others changed meanwhile."""
        catch_up(self.files, lambda: self.at, self._follow)

    def replacing(self, state: TableState) -> Change | None:
        """The change that replaces all files by the bridged ones.

        Raises:
            FilesGone: other commits changed the table since the last round.
        """
        latest = state.snapshot
        if latest is None or self.at is None or not _is_same(latest, self.at):
            raise FilesGone(
                f"other commits changed {self.files.name} while its rows were written under new "
                "partition keys; plan again"
            )
        # After `latest` was read: a process that takes the change over commits a snapshot.
        self.staging.check_own()
        self._discard_attempt()
        self._exact = self._manifests.exact(self._attempted)
        record = BridgeRecord(
            keys=self.now.schema.partition_keys, prepared=self._exact, before_id=latest.id
        )
        return Change(
            manifests=state.manifests,
            delta=self._manifests.delta(),
            new_indexes=self.indexes,
            removed_indexes=tuple(
                index for index in state.indexes if index.file.index_type != HASH_INDEX
            ),
            statistics=latest.statistics,
            properties=record.properties(),
        )

    def alone(self, _: TableState, latest: Snapshot) -> Change:
        """The change that leaves the bridged files alone, after that one."""
        record = BridgeRecord.of(latest)
        assert record is not None
        return Change(
            manifests=self._manifests.bridged,
            statistics=latest.statistics,
            properties={**record.properties(), FOLLOWS_PROPERTY: latest.delta_manifest_list},
        )

    def exact(self, state: TableState, latest: Snapshot) -> Change:
        """The change that brings the entries of the new keys, under the new schema."""
        return Change(
            prepared=self._exact,
            new_indexes=self.indexes,
            removed_indexes=state.indexes,
            statistics=latest.statistics,
        )

    def check_swapped(self, files: TableFiles, snapshot: Snapshot) -> None:
        """Check that a snapshot holds the new files, and no others, unless it is gone.

        Raises:
            VerificationFailed: names the files, and the snapshot to go back to.
        """
        metas = [each.entry.file for each in self.staged]
        try:
            found = files_of(files, snapshot).select([NAME, *_TELLING])
        except (CorruptionError, SnapshotNotFound):
            # Expired or rolled back since. Manifests were read back as they were written.
            return
        values = [(meta.file_name, meta.file_size, meta.row_count) for meta in metas]
        columns = zip(*values, strict=True) if values else [[]] * 3
        due = pa.table(dict(zip(found.column_names, map(list, columns), strict=True)), found.schema)
        if not in_own_order(found).equals(in_own_order(due)) and self.at is not None:
            raise VerificationFailed(
                f"snapshot {snapshot.id} of {files.name} holds {found.num_rows} files where "
                f"{due.num_rows} were written under new partition keys, or others; roll back "
                f"(lakewright rollback {files.name} --snapshot {self.at.id}), and report it"
            )

    def discard(self) -> None:
        """Delete the manifests, unless a snapshot names them; a sweep finds the data files."""
        if not self.is_published:
            self._discard_attempt()
            self._manifests.discard()

    def discard_parts(self) -> None:
        """Delete indexes that were merged into others."""
        kept = {index.file.file_name for index in self.indexes}
        parts = (index for part in self._partitions.values() for index in part.moved.indexes)
        self._discard_indexes(each for each in parts if each.file.file_name not in kept)

    # --- rounds -------------------------------------------------------------------------------

    def _follow(self, latest: Snapshot) -> None:
        """Bring what is staged from the snapshot `at` to a later one."""
        files, state = self.files, TableState(self.files, latest)
        changed = self._changed_since(latest)
        is_sure = changed is not None
        if changed is None:
            changed = self._difference(state.entries)
        added = [each for each in changed if each.kind is FileKind.ADD]
        self._check_own_keys(added)
        check_told(files, added)
        present = state.indexes
        after = self._files_after(changed, present)
        if is_sure and not after:
            self.at = latest
            return
        check_rows_have_key(files, latest, self.now.schema, after)
        parts = self._written(after, present, latest)
        # If what follows fails, the next round looks at the whole again.
        self.at = None
        before = [self._partitions.pop(row) for row in after if row in self._partitions]
        self._partitions |= parts
        staged = [each for part in parts.values() for each in part.moved.staged]
        dropped = [each for part in before for each in part.moved.staged]
        self._merge_indexes([*before, *parts.values()])
        if is_sure and self._manifests.can_add(staged):
            self._manifests.add(changed, staged, dropped)
        else:
            live = [file for part in self._partitions.values() for file in part.files.values()]
            self._manifests = self._manifests.anew()
            self._manifests.add(live, self.staged)
        self.at = latest
        self.staging.check_own()
        self._discard_files(before)
        self.staging.drop_rest()

    def _check_own_keys(self, added: Sequence[ManifestEntry]) -> None:
        """Check that the table's keys are those of files that others added."""
        files = self.files
        is_bridged = any(is_bridged_row(files, e.partition, e.file.schema_id) for e in added)
        if is_bridged or late_entries(files, added):
            who = (
                f"another process is changing the partition keys of {files.name}; wait for its end"
                if is_bridged
                else f"a client that opened {files.name} before its partition keys changed earlier "
                "committed to it; stop that client"
            )
            raise StalePlan(f"{who}, and plan again")

    def _changed_since(self, latest: Snapshot) -> list[ManifestEntry] | None:
        """What others changed since `at`; None if that is not sure."""
        if self.at is None:
            return None
        found = changed_between(self.files, self.at, latest, self._is_known)
        return found if found is not None and self._manifests.can_follow(found) else None

    def _is_known(self, identity: EntryIdentity) -> bool:
        part = self._partitions.get(identity.partition)
        return part is not None and identity in part.files

    def _difference(self, live: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """How the live files differ from those that are staged."""
        found = {each.identity for each in live}
        gone = [
            entry.removed()
            for part in self._partitions.values()
            for identity, entry in part.files.items()
            if identity not in found
        ]
        return [*gone, *(each for each in live if not self._is_known(each.identity))]

    def _files_after(
        self, changed: Sequence[ManifestEntry], present: Sequence[IndexEntry]
    ) -> dict[bytes, Mapping[EntryIdentity, ManifestEntry]]:
        """The files of each partition whose files or indexes changed; none if it is gone."""
        indexes = _by_partition(present)
        entries: dict[bytes, dict[EntryIdentity, ManifestEntry]] = {
            row: dict(part.files)
            for row, part in self._partitions.items()
            if part.indexes != indexes.get(row, frozenset())
        }
        for entry in changed:
            row = entry.partition
            if row not in entries:
                part = self._partitions.get(row)
                entries[row] = {} if part is None else dict(part.files)
            if entry.kind is FileKind.ADD:
                entries[row][entry.identity] = entry
            else:
                del entries[row][entry.identity]
        return dict(entries)

    def _written(
        self,
        after: Mapping[bytes, Mapping[EntryIdentity, ManifestEntry]],
        present: Sequence[IndexEntry],
        latest: Snapshot,
    ) -> dict[bytes, _Partition]:
        """Write partitions anew; each task takes one."""
        files = self.files
        marks = deletions_by_bucket(present)
        indexes = _by_partition(present)
        moves = [Move.of(row, [*held.values()], marks) for row, held in after.items() if held]
        run_id = files.env.new_id()
        self.run_ids.append(run_id)
        level = files.options.max_level if is_in_order(files.schema, self.now.schema) else 0
        bases = {row: base_of(held, indexes.get(row, ())) for row, held in after.items() if held}
        self.staging.load_counts(bases, self._counts)
        self._count_buckets(entry for held in after.values() for entry in held.values())
        found: dict[bytes, Moved] = {}
        tasks = []
        for move in moves:
            row = move.partition
            moved = self.staging.take(row, bases[row], self.verify, self._counts)
            if moved is None:
                tasks.append(StagingTask(move, bases[row]))
            else:
                found[row] = moved
                self.rewritten.files_continued += len(moved.staged)
        places = NewPlaces(self.now, self._counts)
        of = self.staging.number, self.staging.change.id
        stage = partial(stage_partition, files, places, run_id, level, self.verify, *of)
        try:
            done = self.engine.map(stage, tasks)
        except (FilesGone, FileMissing):
            # The next round takes up what other tasks of this one have written.
            kept = self.staging.read_again(self.names)
            sweep_after_failure(files, [run_id], since_snapshot_id=latest.id, but=kept)
            raise
        for task, moved in zip(tasks, done, strict=True):
            self.rewritten.read(file for split in task.move.splits for file in split.files)
            found[task.move.partition] = moved
            self.written.add(task.move.partition)
        return {
            row: _Partition(after[row], indexes.get(row, frozenset()), moved)
            for row, moved in found.items()
        }

    def _count_buckets(self, entries: Iterable[ManifestEntry]) -> None:
        """Choose numbers of dynamic buckets where keys go; they stay if rows are written again."""
        now = self.now
        keys = now.schema.partition_keys
        goes = len(keys) < len(self.files.schema.partition_keys)
        if not goes or now.options.bucket_mode is not BucketMode.DYNAMIC:
            return
        rows: dict[bytes, int] = defaultdict(int)
        for entry in entries:
            values = self.files.partitions.of_entry(entry).values[: len(keys)]
            rows[now.partitions.of_values(values).row] += entry.file.row_count
        for partition, count in rows.items():
            self._counts.setdefault(partition, bucket_count_for(now, count))

    def _merge_indexes(self, turned: Iterable[_Partition]) -> None:
        """Merge the indexes of new partitions to which partitions of a round contribute."""
        rows = {index.partition for part in turned for index in part.moved.indexes}
        if not rows:
            return
        parts = [
            index
            for part in self._partitions.values()
            for index in part.moved.indexes
            if index.partition in rows
        ]
        own = {each.file.file_name for each in parts}
        merged = merged_indexes(self.now, parts, f"index-{self.run_ids[-1]}-all", [])
        for row in rows:
            before = self._indexes.pop(row, ())
            self._discard_indexes(each for each in before if each.file.file_name not in own)
        for row, found in by_partition(merged).items():
            self._indexes[row] = tuple(found)

    def _discard_files(self, parts: Iterable[_Partition]) -> None:
        """Delete the new files of partitions that were written again, or are gone."""
        now = self.now
        moved = [part.moved for part in parts]
        data = [now.data_file_path(e.entry.place, e.entry.file) for m in moved for e in m.staged]
        with suppress(StorageError):
            discard_files(now.fs, data)
        self._discard_indexes(index for own in moved for index in own.indexes)

    def _discard_indexes(self, indexes: Iterable[IndexEntry]) -> None:
        with suppress(StorageError):
            discard_files(
                self.now.fs, [self.now.paths.index(index.file.file_name) for index in indexes]
            )

    def _discard_attempt(self) -> None:
        """Delete the list of an attempt that was in vain."""
        with suppress(StorageError):
            discard_files(self.files.fs, map(self.files.paths.manifest, self._attempted))
        self._attempted = []


def _is_same(snapshot: Snapshot, other: Snapshot) -> bool:
    return snapshot.delta_manifest_list == other.delta_manifest_list


def _by_partition(indexes: Iterable[IndexEntry]) -> dict[bytes, frozenset[IndexEntry]]:
    return {row: frozenset(found) for row, found in by_partition(indexes).items()}
