"""Marks partitions as done: a file `_SUCCESS` in the folder of each says since when.

1. Plan from metadata alone: the partitions that a filter or their values select.
2. Run: write the file of each partition, or the new time into it; then call the caller's function
   for it.

The file belongs to no snapshot. Orphan removal leaves it, since it lies in no bucket's folder. A
drop leaves it too, as Java's does.

Source: Paimon `SuccessFile`, `SuccessFileMarkDoneAction`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakewright.storage.codec.json_values import read_object
from lakewright.storage.errors import FileMissing, InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.partitions.held_partitions import check_partitioned
from lakewright.storage.operations.partitions.select_partitions import (
    Specs,
    check_all_found,
    selected_entries,
    selection,
)
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.shown import Shown

SUCCESS_FILE = "_SUCCESS"
_CREATED, _MODIFIED = "creationTime", "modificationTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionToMark:
    """A partition to mark; `done_since_ms` is the time of its first mark, None without one."""

    partition: dict[str, object]
    done_since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkDonePlan(Plan["MarkDoneResult"]):
    """The partitions to mark as done, as of one snapshot."""

    table: str
    snapshot_id: int | None
    partitions: tuple[PartitionToMark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkDoneResult(Shown):
    """The marked partitions, and when."""

    partitions: tuple[dict[str, object], ...]
    time_ms: int


def plan_mark_done(
    files: TableFiles, *, where: Predicate | None = None, partitions: Specs | None = None
) -> MarkDonePlan:
    """Plan to mark the partitions that a filter selects, or those with given values, or both.

    Raises:
        InvalidPredicate: the filter compares other columns than partition keys.
        InvalidRequestError: nothing is asked for, or a name or value does not fit.
        PartitionNotFound: the filter or a spec selects no partition.
    """
    check_partitioned(files)
    asked = selection(files, where=where, partitions=partitions)
    if asked.takes_all or asked.named == ():
        raise InvalidRequestError(
            f"say which partitions of {files.name} are done, by a filter on their keys or by "
            "values of keys"
        )
    snapshot, found = read_latest(files, lambda latest: selected_entries(files, latest, asked))
    check_all_found(files, snapshot, asked, list(found))
    return MarkDonePlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        partitions=tuple(
            PartitionToMark(partition=each.spec, done_since_ms=done_since_ms(files, each))
            for each in found
        ),
    )


def done_since_ms(files: TableFiles, partition: Partition) -> int | None:
    """When a partition was first marked as done; None if it is not."""
    try:
        found = read_object(files.fs.read_bytes(_path(files, partition)).decode())
    except FileMissing:
        return None
    except ValueError:
        # Other clients may leave an empty file, as older systems do.
        return None
    created = found.get(_CREATED)
    return created if isinstance(created, int) else None


def run_mark_done(
    files: TableFiles,
    plan: MarkDonePlan,
    *,
    then: Callable[[Mapping[str, object]], object] | None = None,
) -> MarkDoneResult:
    """Mark the planned partitions; `then` is called with the values of each once it is marked.

    A partition that is marked again keeps the time of its first mark. On failure the partitions
    before it stay marked, and another call continues.
    """
    check_partitioned(files)
    now = files.env.now_ms()
    for each in plan.partitions:
        partition = files.partitions.planned(each.partition)
        since = done_since_ms(files, partition)
        mark = {_CREATED: now if since is None else since, _MODIFIED: now}
        text = json.dumps(mark, indent=2, separators=(",", " : "))
        files.fs.replace(_path(files, partition), text.encode())
        if then is not None:
            then(partition.spec)
    return MarkDoneResult(partitions=tuple(each.partition for each in plan.partitions), time_ms=now)


def _path(files: TableFiles, partition: Partition) -> str:
    return f"{files.paths.root}/{partition.path}/{SUCCESS_FILE}"
