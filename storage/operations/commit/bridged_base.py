"""Ends a change of the partition keys of a primary-key table, which a process left bridged.

While the keys change, the snapshot holds the rows in new files, whose entries are right under the
old keys and the new (`respec/bridged_entries.py`). A property of that snapshot names the manifests
under the new keys, and the snapshot before it holds the old files. So any committer can end the
change without reading a file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from lakewright.storage.codec.binary_row import decode_row, row_arity
from lakewright.storage.errors import SnapshotNotFound, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.restamp import numbered_on_top
from lakewright.storage.operations.state.keys_of_files import (
    is_bridged_row,
    keys_fit,
    late_entries,
    ways_out,
)
from lakewright.storage.operations.state.live_files import index_entries, live_entries
from lakewright.storage.operations.state.table_state import ANY_KEYS, TableState, state_at
from lakewright.storage.spec.bridge_record import BridgeRecord
from lakewright.storage.spec.commit import Change, RestatedBase
from lakewright.storage.spec.index import HASH_INDEX, IndexEntry
from lakewright.storage.spec.manifest import EntryIdentity, FileKind, ManifestEntry, fold_entries
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.snapshot import CommitKind, Snapshot
from lakewright.storage.spec.values import Value


def put_fence_schema(files: TableFiles) -> TableFiles:
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


def ended(state: TableState) -> Change | None:
    """End a change of keys as the latest schema says: with the new keys, or with the old files.

    What other clients added meanwhile stays, and what they removed is gone.

    Raises:
        UnsupportedError: a client that opened the table before the change committed after it, or
            removed parts of a partition during it, or the snapshot before the change is gone.
    """
    files, latest, live = state.files, state.snapshot, state.entries
    if latest is None:
        return None
    added = [each for each in live if not _is_bridged(files, each)]
    if len(added) == len(live):
        if not late_entries(files, live):
            # Another process has ended it, but for the removal of late files.
            return None if keys_fit(files, state.manifests) else without_removals(state)
        raise UnsupportedError(
            f"a client that opened {files.name} before its partition keys changed committed to it, "
            f"and its rows may replace others; {ways_out(files)}"
        )
    found = next(_recorded(files, latest), None)
    if found is None:
        raise UnsupportedError(
            f"the partition keys of {files.name} are changing, and no snapshot that is kept says "
            "how; roll back to a tag or a snapshot of before"
        )
    recorded, record = found
    added = _as_committed(files, recorded, latest, added)
    kept = [each.file for each in live if _is_bridged(files, each)]
    kept = [each for each in kept if each.file_name not in state.removed_in_vain]
    bridged = {each.file_name for each in kept}
    is_whole = record.prepared.rows == sum(each.row_count for each in kept)
    indexes = _hash_indexes(state, recorded, added)
    if files.schema.partition_keys == record.keys:
        if is_whole and not added:
            return Change(
                prepared=record.prepared,
                new_indexes=indexes,
                removed_indexes=state.indexes,
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
    return [entry for entries in standing.values() for entry in entries.values()]


def without_removals(state: TableState) -> Change:
    """The live files under the present keys, without removed ones, which have rows of others."""
    partitions = state.files.partitions
    base = RestatedBase(
        keys=partitions.keys,
        entries=sorted(
            state.entries, key=lambda each: (partitions.of_entry(each).order, each.bucket)
        ),
        indexes=state.indexes,
    )
    return Change(
        base=base, statistics=None if state.snapshot is None else state.snapshot.statistics
    )


def _prepared_in(
    files: TableFiles, record: BridgeRecord, names: Collection[str], added: Sequence[ManifestEntry]
) -> RestatedBase:
    """The new entries of files that no other client has removed, and what others added."""
    lists = files.manifests.read_list(record.prepared.list_name, size=record.prepared.list_size)
    prepared = fold_entries(files.manifests.entries(lists)).values()
    kept = [each for each in prepared if each.file.file_name in names]
    entries = [*kept, *numbered_on_top(files, added, kept)]
    rows = sum(entry.file.row_count for entry in entries)
    return RestatedBase(keys=None, entries=entries, rows=rows)


def _removed_partitions(
    files: TableFiles, recorded: Snapshot, names: Collection[str]
) -> frozenset[tuple[Value, ...]]:
    """The old partitions whose bridged files another client removed."""
    types = files.partitions.keys.types
    kept: set[tuple[Value, ...]] = set()
    removed: set[tuple[Value, ...]] = set()
    for entry in live_entries(files, recorded):
        if _is_bridged(files, entry):
            values = decode_row(entry.partition, types, first=True)
            (kept if entry.file.file_name in names else removed).add(values)
    if kept & removed:
        raise UnsupportedError(
            f"a client that opened {files.name} before its partition keys changed removed some "
            "files of a partition meanwhile, and which of the old files it meant is not known; "
            f"roll back (lakewright rollback {files.name} --snapshot {recorded.id}), and let it "
            "commit again"
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
            "since may be there beside the rows that it replaces"
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
            indexes=[index for index in indexes if of_row(index.partition).values not in removed],
            rows=sum(entry.file.row_count for entry in entries),
        ),
        statistics=before.statistics,
    )


def _hash_indexes(
    state: TableState, recorded: Snapshot, added: Sequence[ManifestEntry]
) -> tuple[IndexEntry, ...]:
    """The hash indexes of the table's keys, as the change wrote them or other clients since.

    Recorded entries hold, whatever later snapshots name: as pypaimon commits, it writes all rows
    anew by the keys that it knows, and of rows that become equal it keeps one.
    """
    files, keys = state.files, state.files.schema.partition_keys
    then = [e for e in index_entries(files, recorded) if e.file.index_type == HASH_INDEX]
    now = [e for e in state.indexes if e.file.index_type == HASH_INDEX]
    own = [each for each in then if row_arity(each.partition) == len(keys)]
    names = {each.file.file_name for each in then}
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
    state = state_at(files, latest, takes=ANY_KEYS)
    if state.is_bridged:
        found = next(_recorded(files, latest), None)
        return None if found is None else found[1].before_id
    if state.is_settled:
        return None
    waiting = {entry.file.file_name for entry in late_entries(files, state.entries)}
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
