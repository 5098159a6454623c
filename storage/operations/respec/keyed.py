"""Changes the partition keys of a primary-key table: rows are written anew, then swapped in.

The trimmed primary key, which orders the rows of a file and chooses their buckets, is the primary
key without the partition keys. So it changes with them, and no file can stay.

1. Write the rows of each partition to new files, by the new keys (`move_partitions.py`). Readers
   and writers go on. What other commits change meanwhile is written again.
2. Write the manifests of the new files under the new keys. No snapshot names them yet.
3. Commit the new files as bridged entries, which every client reads alike under the old schema and
   the new (`commit/bridged_base.py`), and once more without the removal of the old files.
4. Create the schema with the new keys.
5. Commit the manifests of 2.

Lakewright's committers wait from 3 to 5. If the process dies there, the next committer ends the
change: it restores the old files before 4, and carries out 5 after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from lakewright.storage.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    FileMissing,
    FilesGone,
    RetriesExhausted,
    SchemaMoved,
    StorageError,
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.bridged_base import Bridge, Staged, bridged_entries
from lakewright.storage.operations.commit.commit_loop import commit_bridging, end_change_of_keys
from lakewright.storage.operations.references.sweep import sweep_after_failure
from lakewright.storage.operations.respec.cut_over import keys_stand
from lakewright.storage.operations.respec.keyed_checks import (
    check_rows_have_key,
    check_told,
    is_in_order,
    with_primary_key,
)
from lakewright.storage.operations.respec.move_partitions import Move, Moved, move_partition
from lakewright.storage.operations.respec.new_places import (
    NewPlaces,
    bucket_count_for,
    merged_indexes,
)
from lakewright.storage.operations.respec.respec_plan import Rewritten
from lakewright.storage.operations.respec.schemas import Schemas, unchanged, with_keys
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.latest import is_latest, read_latest
from lakewright.storage.operations.state.live_files import (
    deletions_by_bucket,
    index_entries,
    live_entries,
)
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.commit import PreparedBase
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import EntryIdentity, ManifestEntry
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.snapshot import Snapshot

# How often rows that other commits changed are written again before a run gives up.
_MOST_ROUNDS = 10


class ChangeTakenBack(CommitConflictError):
    """Another client committed before the schema changed, so the old files were restored."""


@dataclass(frozen=True, slots=True)
class Swap:
    """The table with its new keys, the snapshots made, and what was written anew."""

    files_now: TableFiles
    snapshot_ids: tuple[int, ...]
    rewritten: Rewritten


# --- running ----------------------------------------------------------------------------------


@dataclass
class _PartitionFiles:
    """A partition as it was written anew, and what came of it."""

    identities: frozenset[EntryIdentity]
    indexes: frozenset[IndexEntry]
    moved: Moved


@dataclass
class KeyedChange:
    """One step: keys go from the end of the list, or come there."""

    files: TableFiles
    keys: tuple[str, ...]
    engine: Engine
    verify: VerifyLevel
    primary_key: tuple[str, ...] | None = None
    rewritten: Rewritten = field(default_factory=Rewritten)
    snapshot_ids: list[int] = field(default_factory=list)
    _done: dict[bytes, _PartitionFiles] = field(default_factory=dict)
    # Numbers of dynamic buckets of new partitions whose rows come from several tasks.
    _counts: dict[bytes, int] = field(default_factory=dict)
    _run_ids: list[str] = field(default_factory=list)

    def carry_out(self) -> Swap:
        """Give the table the keys.

        Raises:
            SchemaMoved: another client changed the schema meanwhile; nothing has changed.
            CommitConflictError: other clients commit faster than rows are written anew.
            VerificationFailed: rows written differ from rows read.
        """
        base_id = self.files.snapshots.latest_id()
        try:
            return self._carried_out()
        except CommitOutcomeUnknownError:
            raise
        except BaseException:
            sweep_after_failure(self.files, self._run_ids, since_snapshot_id=base_id)
            raise

    def _carried_out(self) -> Swap:
        goes = len(self.keys) < len(self.files.schema.partition_keys)
        for _ in range(_MOST_ROUNDS):
            files = self.files
            # Where keys go, the entries need an older schema with the new keys; see `Schemas`.
            first_id = files.schema.id + 1
            latest = replace(
                with_primary_key(files, self.keys, self.primary_key),
                id=first_id + 2 if goes else first_id,
                partition_keys=self.keys,
            )
            now = replace(files, schema=latest)
            snapshot, entries = read_latest(files, partial(live_entries, files))
            if snapshot is None:
                only = Schemas(replace(latest, id=first_id), (), {})
                return self._swapped(with_keys(files, self.keys, only))
            check_told(files, entries)
            try:
                check_rows_have_key(files, snapshot, latest)
                self._stage(now, snapshot, entries)
                bridged_as = self._with_helper(goes)
                return self._swap(bridged_as, now, snapshot)
            except ChangeTakenBack:
                # Nothing is staged any more, so the new files may name another schema.
                self.files = unchanged(files)
            except (FilesGone, FileMissing):
                if is_latest(files, snapshot):
                    raise
        raise CommitConflictError(
            f"other clients committed to {self.files.name} {_MOST_ROUNDS} times while its rows "
            "were written under new partition keys; run it again when fewer writers commit",
            table=self.files.name,
        )

    def _swapped(self, files: TableFiles) -> Swap:
        for each in self._done.values():
            written = [staged.entry.file for staged in each.moved.staged]
            self.rewritten.wrote(written, each.moved.nulled_values)
        return Swap(files, tuple(self.snapshot_ids), self.rewritten)

    def _stage(self, now: TableFiles, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> None:
        """Write the partitions that are not written yet, or that changed since."""
        files = self.files
        grouped: dict[bytes, list[ManifestEntry]] = defaultdict(list)
        for entry in entries:
            grouped[entry.partition].append(entry)
        indexes: dict[bytes, set[IndexEntry]] = defaultdict(set)
        for index in index_entries(files, snapshot):
            indexes[index.partition].add(index)
        marks = deletions_by_bucket(index_entries(files, snapshot))
        held = {
            row: (frozenset(each.identity for each in group), frozenset(indexes[row]))
            for row, group in grouped.items()
        }
        for row, done in list(self._done.items()):
            if held.get(row) != (done.identities, done.indexes):
                self._discard(now, self._done.pop(row).moved)
        moves = [Move.of(row, grouped[row], marks) for row in held if row not in self._done]
        run_id = files.env.new_id()
        self._run_ids.append(run_id)
        in_order = is_in_order(files.schema, now.schema)
        level = files.options.max_level if in_order else 0
        self._count_buckets(now, entries)
        places = NewPlaces(now, self._counts)
        move = partial(move_partition, files, places, run_id, level, self.verify)
        try:
            written = self.engine.map(move, moves)
        except (FilesGone, FileMissing):
            # The next round does not know what other tasks of this one have written.
            sweep_after_failure(files, [run_id], since_snapshot_id=snapshot.id)
            raise
        for task, moved in zip(moves, written, strict=True):
            self._done[task.partition] = _PartitionFiles(*held[task.partition], moved)
        for task in moves:
            self.rewritten.read(file for split in task.splits for file in split.files)

    def _count_buckets(self, now: TableFiles, entries: Sequence[ManifestEntry]) -> None:
        """Choose numbers of dynamic buckets where keys go; they stay if rows are written again."""
        goes = len(self.keys) < len(self.files.schema.partition_keys)
        if not goes or now.options.bucket_mode is not BucketMode.DYNAMIC:
            return
        rows: dict[bytes, int] = defaultdict(int)
        for each in entries:
            values = self.files.partitions.of_entry(each).values[: len(self.keys)]
            rows[now.partitions.of_values(values).row] += each.file.row_count
        for partition, count in rows.items():
            self._counts.setdefault(partition, bucket_count_for(now, count))

    def _discard(self, now: TableFiles, moved: Moved) -> None:
        with suppress(StorageError):
            discard_files(
                now.fs,
                [
                    *(now.data_file_path(e.entry.place, e.entry.file) for e in moved.staged),
                    *(now.paths.index(each.file.file_name) for each in moved.indexes),
                ],
            )

    def _with_helper(self, goes: bool) -> tuple[TableFiles, int]:
        """The table under its latest schema, and the id of the schema of bridged entries.

        Its keys are those that both lists begin with. Where keys go, such a schema is created,
        below a copy of the present one, so that it is never the latest.
        """
        files = self.files
        if not goes:
            return files, files.schema.id
        helper = replace(files.schema, id=files.schema.id + 1, partition_keys=self.keys)
        copy = replace(files.schema, id=files.schema.id + 2, time_millis=files.env.now_ms())
        if files.schemas.latest_id(table=files.name) == copy.id:
            # Of an earlier round.
            return files.at_schema(copy.id), helper.id
        old_keys = files.schema.partition_keys
        return with_keys(files, old_keys, Schemas(copy, (helper,), {})), helper.id

    def _swap(
        self, bridged_as: tuple[TableFiles, int], now: TableFiles, snapshot: Snapshot
    ) -> Swap:
        files, schema_id = bridged_as
        staged = [each for done in self._done.values() for each in done.moved.staged]
        parts = [each for done in self._done.values() for each in done.moved.indexes]
        written: list[str] = []
        made: list[str] = []
        is_over = False
        try:
            indexes = merged_indexes(now, parts, f"index-{self._run_ids[-1]}-all", made)
            prepared = self._prepare(now, staged, written)
            row_keys, entries = bridged_entries(files, now, staged, schema_id)
            bridge = Bridge(
                files=files,
                replaced=frozenset().union(*(each.identities for each in self._done.values())),
                replaced_indexes=frozenset(index_entries(files, snapshot)),
                new_indexes=indexes,
                keys=self.keys,
                prepared=prepared,
                row_keys=row_keys,
                entries=entries,
            )
            first = commit_bridging(files, bridge.replacing)
            is_over = True
            self._discard_parts(parts, indexes)
            assert first.snapshot is not None
            self.snapshot_ids.append(first.snapshot.id)
            second: Snapshot | None = None
            with suppress(FilesGone):
                second = commit_bridging(files, bridge.alone).snapshot
            if second is None or not is_latest(files, second):
                # Another client committed in between: the end of the change keeps its rows.
                raise ChangeTakenBack(
                    f"another client committed to {files.name} while its partition keys changed; "
                    "run it again when fewer writers commit",
                    table=files.name,
                )
            self.snapshot_ids.append(second.id)
            present = self._with_new_keys(files, now)
            self._bring_new_entries(files, present)
        except (CommitOutcomeUnknownError, RetriesExhausted):
            raise
        except ChangeTakenBack:
            # Snapshots name these files now.
            self._done.clear()
            end_change_of_keys(files.at_schema(files.schemas.latest_id(table=files.name)))
            raise
        except BaseException:
            if is_over:
                self._done.clear()
            with suppress(StorageError):
                if is_over:
                    latest_id = files.schemas.latest_id(table=files.name)
                    self._end(files.at_schema(latest_id))
                else:
                    names = [*map(files.paths.manifest, written), *map(files.paths.index, made)]
                    discard_files(files.fs, names)
            raise
        return self._swapped(present)

    def _bring_new_entries(self, files: TableFiles, present: TableFiles) -> None:
        """Commit the last snapshot, of the new schema.

        Raises:
            ChangeTakenBack: rows of another client brought the former keys back.
            CommitConflictError: another process restored the old files.
        """
        try:
            last = end_change_of_keys(present)
        except UnsupportedError as error:
            if self._is_done(present):
                # Another process has brought the new entries, and late files came after it.
                return
            # This process stood still, and another one restored the old files meanwhile.
            old = files.schema.partition_keys
            back = replace(files.schema, id=present.schema.id + 1)
            with_keys(present, old, Schemas(back, (), {}))
            raise CommitConflictError(
                f"another client ended the change of the partition keys of {files.name}; run "
                "it again when fewer writers commit",
                table=files.name,
            ) from error
        self._check_not_taken_back(present)
        if last.snapshot is not None:
            self.snapshot_ids.append(last.snapshot.id)

    def _discard_parts(self, parts: Sequence[IndexEntry], kept: Sequence[IndexEntry]) -> None:
        """Delete indexes that were merged into others."""
        names = {each.file.file_name for each in kept}
        merged = [e.file.file_name for e in parts if e.file.file_name not in names]
        with suppress(StorageError):
            discard_files(self.files.fs, map(self.files.paths.index, merged))

    def _with_new_keys(self, files: TableFiles, now: TableFiles) -> TableFiles:
        """Create the schema, unless another process has restored the old files.

        Raises:
            ChangeTakenBack: it has, since this one stood still.
            SchemaMoved: another client changed the schema.
        """
        schema = replace(now.schema, time_millis=files.env.now_ms())
        try:
            return with_keys(files, self.keys, Schemas(schema, (), {}))
        except SchemaMoved as error:
            unchanged(files)
            raise ChangeTakenBack(
                f"another process ended the change of the partition keys of {files.name}; run it "
                "again when fewer writers commit",
                table=files.name,
            ) from error

    def _check_not_taken_back(self, present: TableFiles) -> None:
        """Raise if the end of the change restored the former keys with rows of another client."""
        latest_id = present.schemas.latest_id(table=present.name)
        if present.at_schema(latest_id).schema.partition_keys != self.keys:
            raise ChangeTakenBack(
                f"another client committed to {present.name} while its partition keys changed; "
                "run it again when fewer writers commit",
                table=present.name,
            )

    def _is_done(self, present: TableFiles) -> bool:
        _, live = read_latest(present, partial(live_entries, present))
        keys = {present.at_schema(each.file.schema_id).schema.partition_keys for each in live}
        return self.keys in keys

    def _end(self, files: TableFiles) -> None:
        """End a change that failed, if it is under way."""
        if not keys_stand(files):
            end_change_of_keys(files)

    def _prepare(
        self, now: TableFiles, staged: Sequence[Staged], written: list[str]
    ) -> PreparedBase:
        """Write the manifests of the new files, and make them and the files durable."""
        entries = sorted(
            (each.entry for each in staged),
            key=lambda each: (now.partitions.of_row(each.partition).order, each.bucket),
        )
        compression = now.options.manifest_compression
        step = max(1, now.options.manifest_target_file_size // _ENTRY_BYTES)
        metas = [
            now.manifests.write_manifest(
                entries[start : start + step],
                keys=now.partitions.keys,
                compression=compression,
                written=written,
            )
            for start in range(0, len(entries), step)
        ]
        name, size = now.manifests.write_list(metas, compression=compression, written=written)
        data = {path for each in entries for path in now.entry_paths(each)}
        manifests = map(now.paths.manifest, written)
        now.fs.make_durable([*sorted(data), *manifests], below=now.paths.root)
        rows = sum(each.file.row_count for each in entries)
        return PreparedBase(list_name=name, list_size=size, rows=rows)


# Approximate size of a manifest entry. It only decides where a new manifest begins.
_ENTRY_BYTES = 160
