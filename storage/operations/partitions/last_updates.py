"""The commit that last changed the rows of each partition.

1. Read the deltas of the retained snapshots from the newest to the oldest, until each partition is
   found. Commits of kind COMPACT and ANALYZE change no row, so they do not count.
2. Where a delta has rows of other partition keys, take the partitions that they name. Where they
   lack keys of the table, an added file names its partition, if it is still live.
3. Which partitions a removed file changed is not known. All that it may have changed are given up,
   and not looked for in older snapshots.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakewright.storage.codec.binary_row import encode_row
from lakewright.storage.errors import UnreadableManifest
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.manifest import FileKind, ManifestEntry, ManifestFileMeta
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot

_CHANGES_ROWS = (CommitKind.APPEND, CommitKind.OVERWRITE)


@dataclass(frozen=True, slots=True)
class LastUpdates:
    """The last snapshot that changed each partition, where one is retained that did.

    Of partitions that are `unknown`, the retained snapshots do not tell, since the partition keys
    changed after it.
    """

    found: Mapping[Partition, Snapshot]
    unknown: frozenset[Partition]


def last_updates(
    files: TableFiles, snapshot: Snapshot | None, partitions: Iterable[Partition]
) -> LastUpdates:
    """The last snapshots that changed partitions of a snapshot."""
    search = _Search(files, snapshot, {*partitions})
    if snapshot is None:
        return search.result()
    for each in files.snapshots.back_from(snapshot):
        if not search.wanted:
            break
        if each.commit_kind in _CHANGES_ROWS:
            try:
                search.look_at(each)
            except UnreadableManifest:
                if files.snapshots.exists(each.id):
                    raise
                # An expiry deleted this snapshot, and with it those before it.
                break
        if each.id == FIRST_SNAPSHOT_ID:
            search.unknown |= search.wanted
    return search.result()


@dataclass(slots=True)
class _Search:
    """Partitions of a snapshot that are still looked for, and what was found."""

    files: TableFiles
    snapshot: Snapshot | None
    wanted: set[Partition]
    found: dict[Partition, Snapshot] = field(default_factory=dict)
    unknown: set[Partition] = field(default_factory=set)
    homes: dict[str, list[Partition]] | None = None

    def result(self) -> LastUpdates:
        return LastUpdates(self.found, frozenset(self.unknown))

    def look_at(self, snapshot: Snapshot) -> None:
        """Take the partitions that a commit changed, and give up those that it may have changed."""
        partitions = self.files.partitions
        own: list[ManifestFileMeta] = []
        others: list[ManifestFileMeta] = []
        for meta in self.files.manifests.read_delta_list(snapshot):
            row = meta.partition_stats.min_values
            (own if partitions.has_these_keys(row, meta.schema_id) else others).append(meta)
        changed, doubtful = self._changed_by_row(own), set[Partition]()
        for entry in self.files.manifests.entries(others):
            named = partitions.as_named(entry.partition, entry.file.schema_id)
            if named.keys.names == partitions.keys.names or named in self.wanted:
                changed.add(named)
                continue
            homes = self._homes_of(entry, named)
            if len(homes) == 1:
                changed.add(homes[0])
            else:
                doubtful.add(named)
        self.found |= dict.fromkeys(self.wanted & changed, snapshot)
        self.wanted -= changed
        given_up = _touched(self.wanted, doubtful)
        self.unknown |= given_up
        self.wanted -= given_up

    def _changed_by_row(self, metas: Sequence[ManifestFileMeta]) -> set[Partition]:
        """The wanted partitions that entries name, whose rows have the keys of the partitions."""
        names = self.files.partitions.keys.names
        wanted = {each.row: each for each in self.wanted if each.keys.names == names}
        chosen = PartitionFilter(self.files, rows=wanted)
        held = [meta for meta in metas if chosen.may_hold(meta)]
        rows = {entry.partition for entry in self.files.manifests.entries(held)}
        return {wanted[row] for row in rows & wanted.keys()}

    def _homes_of(self, entry: ManifestEntry, named: Partition) -> list[Partition]:
        """The partitions in which an added file may lie now: one, but where files share names."""
        if entry.kind is not FileKind.ADD:
            return []
        if self.homes is None:
            self.homes = defaultdict(list)
            for each in live_entries(self.files, self.snapshot):
                home = self.files.partitions.as_named(each.partition, each.file.schema_id)
                self.homes[each.file.file_name].append(home)
        there = self.homes.get(entry.file.file_name, ())
        return [home for home in there if _touched({home}, {named})]


def _touched(partitions: set[Partition], others: set[Partition]) -> set[Partition]:
    """The partitions that may share rows with some of other keys, by the keys that both have."""
    found: set[Partition] = set()
    by_names: dict[tuple[str, ...], list[Partition]] = defaultdict(list)
    for other in others:
        by_names[other.keys.names].append(other)
    for group in by_names.values():
        rows: dict[tuple[str, ...], set[bytes]] = {}
        for partition in partitions:
            types = {each.name: each.type for each in group[0].keys.fields}
            common = tuple(
                sorted(e.name for e in partition.keys.fields if types.get(e.name) == e.type)
            )
            if common not in rows:
                rows[common] = {_row_of(other, common) for other in group}
            if _row_of(partition, common) in rows[common]:
                found.add(partition)
    return found


def _row_of(partition: Partition, names: Sequence[str]) -> bytes:
    """The values of some of its keys, as bytes: NaN is equal to itself, and -0.0 is not 0.0."""
    values, types = partition.stored, {each.name: each.type for each in partition.keys.fields}
    return encode_row([values[name] for name in names], [types[name] for name in names])
