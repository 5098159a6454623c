"""The commit that last changed the rows of each partition.

Read the deltas of the retained snapshots from the newest to the oldest, until each partition is
found. Commits of kind COMPACT and ANALYZE change no row, so they do not count. The search ends at a
delta of other partition keys: which partitions it changed is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from lakewright.storage.errors import UnreadableManifest
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.partition_filter import PartitionFilter
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
    asked = frozenset(partitions)
    names = files.partitions.keys.names
    wanted = {each.row: each for each in asked if each.keys.names == names}
    found: dict[Partition, Snapshot] = {}
    unknown = asked - {*wanted.values()}
    for earlier in () if snapshot is None else files.snapshots.back_from(snapshot):
        if not wanted:
            break
        changed: set[bytes] | None = set()
        if earlier.commit_kind in _CHANGES_ROWS:
            try:
                changed = _changed(files, earlier, wanted.keys())
            except UnreadableManifest:
                if files.snapshots.exists(earlier.id):
                    raise
                # An expiry deleted this snapshot, and with it those before it.
                break
        found |= {wanted.pop(row): earlier for row in changed or ()}
        if changed is None or earlier.id == FIRST_SNAPSHOT_ID:
            unknown |= {*wanted.values()}
            break
    return LastUpdates(found, unknown)


def _changed(files: TableFiles, snapshot: Snapshot, rows: Collection[bytes]) -> set[bytes] | None:
    """Which of some partitions a commit changed; None if its rows have other keys."""
    partitions, metas = files.partitions, files.manifests.read_delta_list(snapshot)
    if not all(
        partitions.has_these_keys(meta.partition_stats.min_values, meta.schema_id) for meta in metas
    ):
        return None
    chosen = PartitionFilter(files, rows=rows)
    held = [meta for meta in metas if chosen.may_hold(meta)]
    return {entry.partition for entry in files.manifests.entries(held)} & {*rows}
