"""Lists partitions with their statistics, from metadata alone."""

from __future__ import annotations

from dataclasses import replace

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.partitions.last_updates import last_updates
from lakewright.storage.operations.partitions.select_partitions import Selection
from lakewright.storage.operations.state.bucket_columns import bucket_columns
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.operations.state.table_state import ANY_KEYS, state_at
from lakewright.storage.operations.state.table_stats import PartitionStats, partition_stats
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.predicate import matches, only_on
from lakewright.storage.spec.snapshot import Snapshot


def list_partitions(
    files: TableFiles, snapshot: Snapshot | None, asked: Selection, *, last_update: bool = False
) -> tuple[PartitionStats, ...]:
    """The selected partitions of a snapshot, sorted by their values."""
    if snapshot is None:
        return ()
    metas = state_at(files, snapshot, takes=ANY_KEYS).manifests
    wanted = PartitionFilter(files, predicate=asked.pruning)
    every = partition_stats(files, bucket_columns(files, metas, wanted))
    listed = tuple(
        each for each in every if asked.takes(each.partition) and _matches(asked, each.partition)
    )
    if not last_update:
        return listed
    updates = last_updates(files, snapshot, [each.partition for each in listed])
    return tuple(
        replace(
            each,
            last_update=updates.found.get(each.partition),
            last_update_unknown=each.partition in updates.unknown,
        )
        for each in listed
    )


def _matches(asked: Selection, partition: Partition) -> bool:
    """Whether a filter selects a partition, by those keys that its rows have."""
    # Entries with rows of other keys, during a change of keys, were judged by these.
    predicate = only_on(asked.predicate, frozenset(partition.keys.names))
    return predicate is None or matches(predicate, partition.stored) is True
