"""The commit that last changed the rows of each partition.

Deltas of the retained snapshots are read from the newest to the oldest, until each partition is
found. Commits of kind COMPACT and ANALYZE change no row, so they do not count.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakewright.storage.errors import UnreadableManifest
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.snapshot import CommitKind, Snapshot

_CHANGES_ROWS = (CommitKind.APPEND, CommitKind.OVERWRITE)


def last_updates(
    files: TableFiles, snapshot: Snapshot | None, partitions: Iterable[Partition]
) -> dict[Partition, Snapshot]:
    """The last snapshot that changed each partition; none if that snapshot has expired."""
    wanted = {each.row: each for each in partitions}
    found: dict[Partition, Snapshot] = {}
    if snapshot is None:
        return found
    for each in files.snapshots.back_from(snapshot):
        if not wanted:
            break
        if each.commit_kind not in _CHANGES_ROWS:
            continue
        try:
            rows = _changed_rows(files, each, wanted)
        except UnreadableManifest:
            if files.snapshots.exists(each.id):
                raise
            # An expiry deleted this snapshot, and with it those before it.
            break
        found |= {wanted.pop(row): each for row in rows & wanted.keys()}
    return found


def _changed_rows(files: TableFiles, snapshot: Snapshot, wanted: Iterable[bytes]) -> set[bytes]:
    """The partitions that a commit changed, among them those that are wanted."""
    chosen = PartitionFilter(files, rows=wanted)
    metas = [meta for meta in files.manifests.read_delta_list(snapshot) if chosen.may_hold(meta)]
    return {entry.partition for entry in files.manifests.entries(metas)}
