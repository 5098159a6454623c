"""Bridges a primary-key table from one list of partition keys to another.

The rows lie in new files, sorted and in buckets by the new keys. Schema and snapshot are two files,
so for a moment readers know the new schema and the old snapshot. In that moment the entries of the
new files must be right under both schemas. They are, if

* each file holds one value of the old and of the new keys, and its partition row has the longer
  list of both, with one more value, which tells such rows from others;
* the entry names the place of its file (`_EXTERNAL_PATH`);
* all entries lie in bucket 0 of 1, which no filter on keys rules out;
* all entries have the deepest level, so readers merge no rows, and decode no keys;
* bounds of keys are rows of nulls, longer than both lists of keys: unknown to every reader;
* the schema of the entries has the partition keys that both lists begin with, so its files have all
  keys of both.

A table with dynamic buckets has, in that moment, the hash indexes of both layouts: their rows have
different numbers of values, and a writer looks up those of its own keys.

Source: Paimon `MergeTreeSplitGenerator`, `KeyValueFileStoreScan`, `BucketSelector`; pypaimon
`primary_key_table_split_generator`, `bucket_select_converter`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from lakewright.storage.codec.binary_row import decode_row, encode_row, row_arity
from lakewright.storage.errors import SnapshotNotFound, UnsupportedError
from lakewright.storage.files.external_files import external_uri
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.restamp import numbered_on_top
from lakewright.storage.operations.commit.restated_base import files_fit, keys_fit
from lakewright.storage.operations.state.bridged_files import (
    has_bridged_rows,
    is_bridged_row,
    late_entries,
    ways_out,
)
from lakewright.storage.operations.state.live_files import (
    LiveFiles,
    index_entries,
    live_entries,
    removed_in_vain,
    snapshot_manifests,
)
from lakewright.storage.spec.bridge_record import BridgeRecord
from lakewright.storage.spec.commit import Change, RestatedBase
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.index import HASH_INDEX, IndexEntry
from lakewright.storage.spec.manifest import (
    EntryIdentity,
    FileKind,
    ManifestEntry,
    SimpleStats,
    fold_entries,
)
from lakewright.storage.spec.partition import PartitionKeys, Place
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.spec.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A new file: its entry under the new keys, and the row of its partition under the old keys."""

    entry: ManifestEntry
    old_row: bytes


def bridged_entries(
    files: TableFiles, now: TableFiles, staged: Sequence[Staged], schema_id: int
) -> tuple[PartitionKeys, tuple[ManifestEntry, ...]]:
    """The entries of new files that are right under the old keys and the new, with their keys.

    `files` is the table under the old keys, `now` under the new. The entries name the schema with
    this id, whose keys both lists begin with.
    """
    old, new = files.partitions.keys, now.partitions.keys
    longer = old if len(old.fields) >= len(new.fields) else new
    # One value more than either list has.
    more = (longer.fields or files.schema.key_fields)[0]
    row_keys = replace(old, fields=(*longer.fields, more))
    bounds = _unknown(1 + max(len(files.schema.key_fields), len(now.schema.key_fields)))
    found: list[tuple[tuple[Value, ...], ManifestEntry]] = []
    for each in staged:
        entry = each.entry
        if longer is old:
            values = files.partitions.of_row(each.old_row).values
        else:
            values = now.partitions.of_row(entry.partition).values
        file = replace(
            entry.file,
            external_path=external_uri(files.fs, now.data_file_path(entry.place, entry.file)),
            schema_id=schema_id,
            level=files.options.max_level,
            min_key=bounds.min_values,
            max_key=bounds.max_values,
            key_stats=bounds,
        )
        row = encode_row((*values, None), row_keys.types)
        bridged = replace(entry, partition=row, bucket=0, total_buckets=1, file=file)
        found.append((values, bridged))
    found.sort(key=lambda each: each[1].partition)
    return row_keys, tuple(entry for _, entry in found)


def _unknown(count: int) -> SimpleStats:
    """Bounds of so many columns of which nothing is known."""
    row = encode_row((None,) * count, (AtomicType(TypeRoot.INT),) * count)
    return SimpleStats(row, row, (None,) * count)


def fenced(files: TableFiles) -> TableFiles:
    """The table under a latest schema that no change which stands still can replace.

    A process that stood still between its bridged snapshot and its schema would create the schema
    after its old files were restored, and readers would take these for files of the new keys. So
    the process that restores them takes the id of that schema first, with a copy of the present
    one. If the other was faster, the change is carried out to its end. It is not where rows move
    between partitions, and another client has committed: its rows are right under the former keys
    only, so these come back.
    """
    latest = files.snapshots.latest()
    schema = files.schemas.latest(table=files.name)
    found = None if latest is None else next(_recorded(files, latest), None)
    record = None if found is None else found[1]
    if record is not None and schema.partition_keys != record.keys:
        copy = replace(schema, id=schema.id + 1, time_millis=files.env.now_ms())
        schema = copy if files.schemas.put_schema(copy) else files.schemas.latest(table=files.name)
    if found is not None and latest is not None and schema.partition_keys == found[1].keys:
        former = files.at_schema(found[0].schema_id).schema
        crosses = former.crosses_partitions or schema.crosses_partitions
        live = live_entries(files, latest) if crosses else []
        is_under_way = any(_is_bridged(files, each) for each in live)
        if is_under_way and not all(_is_bridged(files, each) for each in live):
            copy = replace(former, id=schema.id + 1, time_millis=files.env.now_ms())
            stored = files.schemas.put_schema(copy)
            schema = copy if stored else files.schemas.latest(table=files.name)
    return files.at_schema(schema.id)


def ended(files: TableFiles, latest: Snapshot | None, live_files: LiveFiles) -> Change | None:
    """End a change of keys as the latest schema says: with the new keys, or with the old files.

    What other clients added meanwhile stays, and what they removed is gone.

    Raises:
        UnsupportedError: a client that opened the table before the change committed after it, or
            removed parts of a partition during it, or the snapshot before the change is gone.
    """
    if latest is None:
        return None
    live = live_files.entries(latest)
    added = [each for each in live if not _is_bridged(files, each)]
    if len(added) == len(live):
        if not late_entries(files, live):
            # Another process has ended it, but for the removal of late files.
            stands = keys_fit(files, snapshot_manifests(files, latest))
            return None if stands else without_removals(files, latest, live)
        raise UnsupportedError(
            f"a client that opened {files.name} before its partition keys changed committed to it, "
            f"and its rows may replace others; {ways_out(files)}",
            table=files.name,
        )
    found = next(_recorded(files, latest), None)
    if found is None:
        raise UnsupportedError(
            f"the partition keys of {files.name} are changing, and no snapshot that is kept says "
            "how; roll back to a tag or a snapshot of before",
            table=files.name,
        )
    recorded, record = found
    added = _as_committed(files, recorded, latest, added)
    gone = removed_in_vain(files, latest)
    kept = [each.file for each in live if _is_bridged(files, each)]
    kept = [each for each in kept if each.file_name not in gone]
    bridged = {each.file_name for each in kept}
    is_whole = record.prepared.rows == sum(each.row_count for each in kept)
    indexes = _hash_indexes(files, recorded, latest, added)
    if files.schema.partition_keys == record.keys:
        if is_whole and not added:
            return Change(
                prepared=record.prepared,
                new_indexes=indexes,
                removed_indexes=index_entries(files, latest),
                statistics=latest.statistics,
            )
        base = _prepared_in(files, record, bridged, added)
        return Change(base=replace(base, indexes=indexes), statistics=latest.statistics)
    removed = frozenset() if is_whole else _removed_partitions(files, recorded, bridged)
    return _restored(files, record, removed, added, indexes)


def _as_committed(
    files: TableFiles, recorded: Snapshot, latest: Snapshot, added: Sequence[ManifestEntry]
) -> list[ManifestEntry]:
    """The files that other clients added after a bridged snapshot, before they compacted them.

    Their compactions did not find the rows of the change, so they dropped deletions of these, and
    wrote to levels in which other files have the same keys. As long as the bridged snapshot is
    kept, no expiry has deleted what they compacted.
    """
    later = takewhile(lambda each: each.id > recorded.id, files.snapshots.back_from(latest))
    standing: dict[Place, dict[EntryIdentity, ManifestEntry]] = defaultdict(dict)
    compacted = False
    for snapshot in reversed([*later]):
        delta = list(files.manifests.entries(files.manifests.read_delta_list(snapshot)))
        own = [each for each in delta if not _is_bridged(files, each)]
        if snapshot.commit_kind is CommitKind.COMPACT:
            if len(own) < len(delta):
                # It took up rows of the change, too.
                return list(added)
            compacted = compacted or bool(own)
            continue
        for each in own:
            if each.kind is FileKind.DELETE:
                # An overwrite replaces whole partitions.
                standing.pop(each.place, None)
        for each in own:
            if each.kind is FileKind.ADD:
                standing[each.place][each.identity] = each
    if not compacted:
        return list(added)
    return [each for entries in standing.values() for each in entries.values()]


def without_removals(files: TableFiles, latest: Snapshot, live: Sequence[ManifestEntry]) -> Change:
    """The live files under the present keys, without removed ones, which have rows of others."""
    of_entry = files.partitions.of_entry
    base = RestatedBase(
        keys=files.partitions.keys,
        entries=sorted(live, key=lambda each: (of_entry(each).order, each.bucket)),
        indexes=index_entries(files, latest),
    )
    return Change(base=base, statistics=latest.statistics)


def _prepared_in(
    files: TableFiles,
    record: BridgeRecord,
    names: Collection[str],
    added: Sequence[ManifestEntry],
) -> RestatedBase:
    """The new entries of files that no other client has removed, and what others added."""
    lists = files.manifests.read_list(record.prepared.list_name, size=record.prepared.list_size)
    prepared = fold_entries(files.manifests.entries(lists)).values()
    kept = [each for each in prepared if each.file.file_name in names]
    entries = [*kept, *numbered_on_top(files, added, kept)]
    rows = sum(each.file.row_count for each in entries)
    return RestatedBase(keys=None, entries=entries, rows=rows)


def _removed_partitions(
    files: TableFiles, recorded: Snapshot, names: Collection[str]
) -> frozenset[tuple[Value, ...]]:
    """The old partitions whose bridged files another client removed.

    Raises:
        UnsupportedError: it removed some of a partition's files, and the old ones are others.
    """
    types = files.partitions.keys.types
    kept: set[tuple[Value, ...]] = set()
    removed: set[tuple[Value, ...]] = set()
    for each in live_entries(files, recorded):
        if _is_bridged(files, each):
            values = decode_row(each.partition, types, first=True)
            (kept if each.file.file_name in names else removed).add(values)
    if kept & removed:
        raise UnsupportedError(
            f"a client that opened {files.name} before its partition keys changed removed some "
            "files of a partition meanwhile, and which of the old files it meant is not known; "
            f"roll back (lakewright rollback {files.name} --snapshot {recorded.id}), and let it "
            "commit again",
            table=files.name,
        )
    return frozenset(removed)


def _restored(
    files: TableFiles,
    record: BridgeRecord,
    removed: Collection[tuple[Value, ...]],
    added: Sequence[ManifestEntry],
    hash_indexes: Sequence[IndexEntry],
) -> Change:
    """The files of before, but those of removed partitions, and what others added since.

    They come back in a base of their own, which has none of the manifests that removed them.
    """
    try:
        before = files.snapshots.read(record.before_id)
    except SnapshotNotFound as error:
        raise UnsupportedError(
            f"a change of the partition keys of {files.name} was stopped, and snapshot "
            f"{record.before_id}, which it began with, is gone, since another client expired it; "
            "roll back to a tag of before, or write the rows to a new table: what was committed "
            "since may be there beside the rows that it replaces",
            table=files.name,
        ) from error
    of_row = files.partitions.of_row
    old = live_entries(files, before)
    kept = [each for each in old if files.partitions.of_entry(each).values not in removed]
    vectors = [e for e in index_entries(files, before) if e.file.index_type != HASH_INDEX]
    indexes = [*vectors, *hash_indexes]
    entries = [*kept, *numbered_on_top(files, added, kept)]
    return Change(
        base=RestatedBase(
            keys=None,
            entries=entries,
            indexes=[each for each in indexes if of_row(each.partition).values not in removed],
            rows=sum(each.file.row_count for each in entries),
        ),
        statistics=before.statistics,
    )


def _hash_indexes(
    files: TableFiles, recorded: Snapshot, latest: Snapshot, added: Sequence[ManifestEntry]
) -> tuple[IndexEntry, ...]:
    """The hash indexes of the table's keys, as the change wrote them or other clients since.

    Recorded entries hold, whatever later snapshots name: as pypaimon commits, it writes all rows
    anew by the keys that it knows, and of rows that become equal it keeps one.
    """
    keys = files.schema.partition_keys
    told = [e for e in index_entries(files, recorded) if e.file.index_type == HASH_INDEX]
    now = [e for e in index_entries(files, latest) if e.file.index_type == HASH_INDEX]
    own = [each for each in told if row_arity(each.partition) == len(keys)]
    names = {each.file.file_name for each in told}
    written = {
        each.place
        for each in added
        if files.at_schema(each.file.schema_id).schema.partition_keys == keys
    }
    more = [each for each in now if each.place in written and each.file.file_name not in names]
    replaced = {each.place for each in more}
    return (*(each for each in own if each.place not in replaced), *more)


def needed_from(files: TableFiles, latest: Snapshot) -> int | None:
    """The first snapshot that the end of a change under way may need; None if none is.

    So may the end of what clients committed under former keys: their commits tell the order of
    rows, and the snapshot before them the buckets of keys.
    """
    if not files.schema.has_primary_key:
        return None
    metas = snapshot_manifests(files, latest)
    if has_bridged_rows(files, metas):
        found = next(_recorded(files, latest), None)
        return None if found is None else found[1].before_id
    if files_fit(files, metas):
        return None
    waiting = {each.file.file_name for each in late_entries(files, live_entries(files, latest))}
    first: int | None = None
    for snapshot in files.snapshots.back_from(latest):
        if not waiting:
            return None if first is None else snapshot.id
        added = files.manifests.entries(files.manifests.read_delta_list(snapshot))
        came = waiting.intersection(each.file.file_name for each in added)
        if came:
            waiting -= came
            first = snapshot.id
    return first


def _is_bridged(files: TableFiles, entry: ManifestEntry) -> bool:
    return is_bridged_row(files, entry.partition, entry.file.schema_id)


def _recorded(files: TableFiles, latest: Snapshot) -> Iterator[tuple[Snapshot, BridgeRecord]]:
    """The bridged snapshots, newest first; other clients may have committed after them."""
    for snapshot in files.snapshots.back_from(latest):
        record = BridgeRecord.of(snapshot)
        if record is not None:
            yield snapshot, record
