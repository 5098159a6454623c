"""What partitions hold: in a plan, and in the latest snapshot when the plan is carried out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lakewright.storage.errors import InvalidRequestError, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.replace_partitions import (
    HeldNames,
    names_by_partition,
    stale_partitions,
)
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.rewrite_schema import check_current_schema
from lakewright.storage.operations.state.table_state import ANY_KEYS, state_at
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported


class PlannedPartition(Protocol):
    """A partition in a plan, with the names of the data files that it holds."""

    @property
    def partition(self) -> dict[str, object]: ...

    @property
    def files(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFiles:
    """A partition of a plan and what it holds; rows are counted in files, before merging."""

    partition: dict[str, object]
    files: tuple[str, ...]
    rows: int
    bytes: int


def held_files(partition: Partition, entries: Iterable[ManifestEntry]) -> HeldFiles:
    """What a partition holds, for a plan."""
    metas = [entry.file for entry in entries]
    return HeldFiles(
        partition=partition.spec,
        files=tuple(file.file_name for file in metas),
        rows=sum(file.row_count for file in metas),
        bytes=sum(file.file_size for file in metas),
    )


@dataclass(frozen=True, slots=True)
class HeldNow:
    """Partitions, by their rows, as the latest snapshot holds them."""

    snapshot: Snapshot | None
    entries: tuple[ManifestEntry, ...]
    indexes: tuple[IndexEntry, ...]

    @property
    def rows(self) -> frozenset[bytes]:
        """Those that have data files; the others may have indexes of files that went."""
        return frozenset(entry.partition for entry in self.entries)

    def names(self, rows: Iterable[bytes]) -> HeldNames:
        """Names of all data and index files of these partitions."""
        found = names_by_partition(self.entries, self.indexes)
        return {row: found.get(row, frozenset()) for row in rows}

    def unlike(self, planned: Mapping[bytes, PlannedPartition]) -> frozenset[bytes]:
        """The partitions that hold other data files than planned."""
        found = names_by_partition(self.entries)
        return frozenset(
            row for row, each in planned.items() if found.get(row, set()) != set(each.files)
        )


def held_now(files: TableFiles, rows: Collection[bytes]) -> HeldNow:
    """What partitions hold in the latest snapshot."""

    def read(latest: Snapshot | None) -> tuple[list[ManifestEntry], list[IndexEntry]]:
        # Where rows have other keys, a partition does not hold what was planned.
        state = state_at(files, latest, takes=ANY_KEYS)
        entries = state.entries_of(rows) if rows else []
        return entries, [index for index in state.indexes if index.partition in rows]

    snapshot, (entries, indexes) = read_latest(files, read)
    return HeldNow(snapshot, tuple(entries), tuple(indexes))


def check_partitioned(files: TableFiles) -> None:
    """Check that a table has partitions, and that this version may commit to it.

    Raises:
        InvalidRequestError: the table has no partition keys.
        UnsupportedError: the table has an option that is not implemented.
    """
    check_supported(files.schema, Use.WRITE, table=files.name)
    if not files.schema.partition_keys:
        raise InvalidRequestError(
            f"{files.name} has no partition keys, so no partition of it can be named"
        )


def planned_rows(
    files: TableFiles, planned: Sequence[PlannedPartition]
) -> dict[bytes, PlannedPartition]:
    """The partitions of a plan by their rows.

    Raises:
        InvalidRequestError: the plan names a partition twice, or leaves a key out.
        SchemaMoved: the table's schema changed since it was opened.
    """
    check_current_schema(files)
    found = {files.partitions.planned(each.partition).row: each for each in planned}
    if len(found) < len(planned):
        raise InvalidRequestError(
            f"a plan for {files.name} names {len(planned)} partitions, and {len(found)} of them "
            "are different; plan again"
        )
    return found


def check_as_planned(
    files: TableFiles,
    planned: Mapping[bytes, PlannedPartition],
    now: HeldNow,
    planned_id: int | None,
) -> None:
    """Check that each partition of a plan holds the planned files.

    Raises:
        StalePlan: other commits changed one; plan again.
    """
    changed = now.unlike(planned)
    if changed:
        raise StalePlan(stale_partitions(files, changed, planned_id, now.snapshot))
