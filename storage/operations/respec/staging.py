"""What a change of a primary-key table's keys has staged, so that another run can go on from it.

Each task records the partition that it wrote, in the hidden folder of the table. A run that finds
records takes them over:

1. It takes the next number, and is the process of the change from then on.
2. It commits a snapshot of the same files. A process that only stood still and had looked at its
   number before now follows another snapshot, and looks again before it publishes.
3. It reads the records and takes up the partitions whose files and indexes are those of the record.
   What belongs to another change goes.

A process deletes staged files only while the number is its own. Records go before their files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lakewright.storage.errors import CorruptionError, StalePlan, StorageError
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_loop import commit_bridging
from lakewright.storage.operations.references.sweep import delete_but_published
from lakewright.storage.operations.respec.bridged_entries import Staged
from lakewright.storage.operations.respec.cut_over import same_files
from lakewright.storage.operations.respec.keyed_checks import with_primary_key
from lakewright.storage.operations.respec.move_partitions import Move, Moved, move_partition
from lakewright.storage.operations.respec.new_places import NewPlaces
from lakewright.storage.operations.respec.respec_plan import Layout, layout_of
from lakewright.storage.operations.running.delete_files import discard_files, remove_empty_folders
from lakewright.storage.operations.state.live_files import by_partition, index_entries
from lakewright.storage.operations.state.staged_changes import (
    base_of,
    can_go_on,
    checksum_of,
    paths_of,
    read_changes,
    read_partitions,
)
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.commit import Change, CommitMessage
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.staged_change import StagedChange, StagedPartition


@dataclass(frozen=True, slots=True)
class StagingTask:
    """A partition to write anew, and the checksum of its files."""

    move: Move
    base: str


def stage_partition(
    files: TableFiles,
    places: NewPlaces,
    run_id: str,
    level: int,
    verify: VerifyLevel,
    number: int,
    change_id: str,
    task: StagingTask,
) -> Moved:
    """Write a partition anew, and record it for the change of that number.

    Raises:
        VerificationFailed: rows written differ from rows read.
    """
    moved = move_partition(files, places, run_id, level, verify, task.move)
    messages = _messages(moved)
    now = places.files
    # A record must not outlive its files.
    written = [path for message in messages for path in now.written_paths(message)]
    files.fs.make_durable(written, below=files.paths.root)
    rows = {message.partition for message in messages}
    staged = StagedPartition(
        partition=task.move.partition,
        base=task.base,
        verify=verify.value,
        messages=messages,
        bucket_counts={row: count for row, count in places.counts.items() if row in rows},
        nulled_values=moved.nulled_values,
    )
    files.staged_changes.put_partitions(number, change_id, files.env.new_id(), [staged])
    return moved


def _messages(moved: Moved) -> tuple[CommitMessage, ...]:
    staged: dict[Place, list[ManifestEntry]] = defaultdict(list)
    indexes: dict[Place, list[IndexEntry]] = defaultdict(list)
    for each in moved.staged:
        staged[each.entry.place].append(each.entry)
    for index in moved.indexes:
        indexes[index.place].append(index)
    return tuple(
        CommitMessage(
            partition=place.partition,
            bucket=place.bucket,
            total_buckets=entries[0].total_buckets,
            new_files=tuple(entry.file for entry in entries),
            new_indexes=tuple(each.file for each in indexes[place]),
        )
        for place, entries in staged.items()
    )


def _sizes(message: CommitMessage) -> Iterator[tuple[str, int]]:
    for file in message.written_files:
        yield file.file_name, file.file_size
    for index in message.new_indexes:
        yield index.file_name, index.file_size


def _moved(staged: StagedPartition) -> Moved:
    return Moved(
        staged=tuple(
            Staged(entry=entry, old_row=staged.partition)
            for message in staged.messages
            for entry in message.entries(message.new_files)
        ),
        indexes=tuple(
            new_index_entry
            for message in staged.messages
            for new_index_entry in message.new_index_entries
        ),
        nulled_values=staged.nulled_values,
    )


@dataclass
class Staging:
    """The change that this process stages; `ready` is what it can take up, by partition."""

    files: TableFiles
    number: int
    change: StagedChange
    ready: dict[bytes, list[StagedPartition]] = field(default_factory=dict)
    snapshot_ids: list[int] = field(default_factory=list)

    @classmethod
    def begun(cls, files: TableFiles, now: TableFiles) -> Staging:
        """Begin a change, or go on with what another run has staged of it.

        `files` is the table under the schema from which it is staged, and `now` under its new keys.

        Raises:
            StalePlan: another process publishes its change right now.
        """
        store = files.staged_changes
        change = _change_of(files, now.schema)
        rounds = Rounds(files.name, "a change of its partition keys was begun")
        while True:
            rounds.begin()
            before = max(store.numbers(), default=0)
            if store.put_change(before + 1, change):
                break
        staging = cls(files, before + 1, change)
        if before:
            staging._take_over()
        return staging

    def check_own(self) -> None:
        """Check that no other process has taken the change over.

        Raises:
            StalePlan: one has, and goes on with what this process has staged.
        """
        if not self._is_own():
            raise StalePlan(
                f"another process continues the change of the partition keys of "
                f"{self.files.name}; wait for its end"
            )

    def load_counts(self, bases: Mapping[bytes, str], counts: dict[bytes, int]) -> None:
        """Add the numbers of dynamic buckets that were chosen as partitions were staged."""
        for row, base in bases.items():
            for each in self.ready.get(row, ()):
                if each.base == base:
                    for partition, count in each.bucket_counts.items():
                        counts.setdefault(partition, count)

    def take(
        self, partition: bytes, base: str, verify: VerifyLevel, counts: Mapping[bytes, int]
    ) -> Moved | None:
        """What is staged of a partition with these files; None if it must be written."""
        found = self.ready.get(partition, [])
        for number, each in enumerate(found):
            is_valid = (each.base, each.verify) == (base, verify.value) and all(
                counts.get(row) == count for row, count in each.bucket_counts.items()
            )
            if is_valid:
                del found[number]
                return _moved(each)
        return None

    def drop_rest(self) -> None:
        """Delete what was staged of files that are no more, once all partitions are staged."""
        rest = [each for found in self.ready.values() for each in found]
        self.ready = {}
        if rest and self._is_own():
            with suppress(StorageError):
                discard_files(self.files.fs, paths_of(self.files, self.change, rest))

    def read_again(self, used: Collection[str]) -> frozenset[str]:
        """Take up what tasks recorded before others of them failed; returns all recorded names.

        Files with the names `used` are taken up already.

        Raises:
            StalePlan: another process has taken the change over.
        """
        found = self._recorded().get(self.number, [])
        self.check_own()
        self.ready = by_partition(
            each for each in self._whole(found) if self._names([each]).isdisjoint(used)
        )
        return self._names(found)

    def is_over(self) -> bool:
        """Whether another process has taken the change over."""
        changes = read_changes(self.files, []).values()
        return all(change.id != self.change.id for change in changes)

    def end(self) -> None:
        """Delete the records of a change that is over; its files belong to snapshots."""
        self._forget()

    def give_up(self) -> None:
        """Delete the records, and the staged files that no snapshot names."""
        found = self._recorded().get(self.number, [])
        self._forget_records()
        if self._is_own():
            self._delete(self.change, found)
        self._forget()

    # --- taking over --------------------------------------------------------------------------

    def _take_over(self) -> None:
        files, store = self.files, self.files.staged_changes
        try:
            self._stop_others()
        except BaseException:
            # What was staged is still the other process's.
            with suppress(StorageError):
                discard_files(files.fs, [files.paths.staged_change(self.number)])
            raise
        changes, found = read_changes(files, []), self._recorded()
        same = [
            each
            for number, change in changes.items()
            if replace(change, id=self.change.id) == self.change
            for each in found.pop(number, [])
        ]
        if same:
            whole = self._whole(same)
            store.put_partitions(self.number, self.change.id, files.env.new_id(), whole)
            self.ready = by_partition(whole)
        self._forget(but_own=True)
        for number, others in found.items():
            if number in changes:
                self._delete(changes[number], others)

    def _stop_others(self) -> None:
        """Commit a snapshot of the same files, which no process follows that stood still."""

        def build(state: TableState) -> Change | None:
            if state.is_bridged:
                raise StalePlan(
                    "another process is changing the partition keys of "
                    f"{self.files.name}; wait for its end, and plan again"
                )
            return same_files(state)

        made = commit_bridging(self.files, build).snapshot
        self.snapshot_ids += [] if made is None else [made.id]

    def _recorded(self) -> dict[int, list[StagedPartition]]:
        """What is recorded up to this change, by number; damaged records name nothing."""
        files, changes = self.files, read_changes(self.files, [])
        found: dict[int, list[StagedPartition]] = defaultdict(list)
        for path, number in files.staged_changes.counted(changes).items():
            if number <= self.number:
                found[number] += read_partitions(files, path, changes[number], [])
        return dict(found)

    def _whole(self, found: Sequence[StagedPartition]) -> list[StagedPartition]:
        """The partitions of which each file is there in its whole length, once each.

        A power loss may shorten files of a store that does not flush them. A process that stopped
        while it took a change over leaves two records of the same files.
        """
        root = f"{self.files.paths.root}/"
        wanted = [
            frozenset(path.removeprefix(root) for path in paths_of(self.files, self.change, [each]))
            for each in found
        ]
        sizes = {
            name: size for each in found for own in each.messages for name, size in _sizes(own)
        }
        looked_at = self.files.there(frozenset().union(*wanted))
        there = {
            path
            for path, status in looked_at.items()
            if status.size == sizes.get(status.name, status.size)
        }
        known = {
            (each.partition, each.base, paths): each
            for each, paths in zip(found, wanted, strict=True)
            if paths <= there
        }
        return list(known.values())

    def _names(self, found: Iterable[StagedPartition]) -> frozenset[str]:
        paths = paths_of(self.files, self.change, found)
        return frozenset(path.rsplit("/", 1)[-1] for path in paths)

    def _delete(self, change: StagedChange, found: Sequence[StagedPartition]) -> None:
        """Delete staged files that no snapshot names."""
        metas = [file for each in found for own in each.messages for file in own.new_files]
        began_ms = min((meta.creation_time or 0 for meta in metas), default=0)
        with suppress(StorageError):
            paths = list(paths_of(self.files, change, found))
            delete_but_published(self.files, paths, None, began_ms)

    def _is_own(self) -> bool:
        latest = self.files.staged_changes.latest()
        return latest is not None and latest.id == self.change.id

    def _forget(self, *, but_own: bool = False) -> None:
        """Delete records, of this change and of those before; `but_own` keeps this one's."""
        files = self.files
        with suppress(StorageError):
            self._forget_records(but_own=but_own)
            last = self.number - but_own
            going = [number for number in files.staged_changes.numbers() if number <= last]
            discard_files(files.fs, map(files.paths.staged_change, going))
            remove_empty_folders(files.fs, [files.paths.staged_change_dir], below=files.paths.root)

    def _forget_records(self, *, but_own: bool = False) -> None:
        last = self.number - but_own
        records = self.files.staged_changes.records().items()
        discard_files(self.files.fs, [path for path, (number, _) in records if number <= last])


def staged_so_far(
    files: TableFiles,
    snapshot: Snapshot | None,
    entries: Sequence[ManifestEntry],
    steps: tuple[tuple[str, ...], ...],
    keys: tuple[str, ...],
    primary_key: tuple[str, ...] | None,
) -> tuple[Layout, int, tuple[str, ...]]:
    """The files staged for the first step, how many partitions for no step, and what is damaged.

    `primary_key` is that of a step to `keys`.
    """
    damaged: list[CorruptionError] = []
    changes = read_changes(files, damaged) if files.schema.has_primary_key else {}
    if snapshot is None or not changes:
        return layout_of(()), 0, tuple(each.message for each in damaged)
    wanted = None
    for step in steps[:1]:
        primary = with_primary_key(files, keys, primary_key if step == keys else None)
        wanted = (step, primary.primary_keys)
    useful = {
        number
        for number, each in changes.items()
        if (each.keys, each.primary_key) == wanted and can_go_on(files, each)
    }
    held, indexes = by_partition(entries), by_partition(index_entries(files, snapshot))
    bases = {
        row: base_of((each.identity for each in own), indexes.get(row, ()))
        for row, own in held.items()
    }
    staged: set[bytes] = set()
    gone = 0
    for path, number in files.staged_changes.counted(changes).items():
        for partition in read_partitions(files, path, changes[number], damaged):
            if number in useful and bases.get(partition.partition) == partition.base:
                staged.add(partition.partition)
            else:
                gone += 1
    found = layout_of(entry for row in staged for entry in held[row])
    return found, gone, tuple(each.message for each in damaged)


def give_up(files: TableFiles) -> list[int]:
    """Delete what a run that was stopped has staged, in a table that keeps its keys.

    Returns the snapshots that it took.

    Raises:
        StalePlan: another process publishes its change right now.
    """
    if not files.staged_changes.listed():
        return []
    staging = Staging.begun(files, files)
    staging.give_up()
    return staging.snapshot_ids


def _change_of(files: TableFiles, after: TableSchema) -> StagedChange:
    return StagedChange(
        id=files.env.new_id(),
        schema_id=files.schema.id,
        schema=checksum_of(files.schema),
        keys=after.partition_keys,
        primary_key=after.primary_keys,
    )
