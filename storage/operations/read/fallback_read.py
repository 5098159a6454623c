"""Reads a table and takes its missing partitions from another branch.

The option `scan.fallback-branch` names the branch. A partition that the table has is read from the
table alone, even if the filter keeps none of its rows. Any other partition is read from the branch.

1. Plan the table without the option.
2. List the table's partitions that match the filter's part on partition columns.
3. Plan the branch, and keep the splits of the other partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lakewright.storage.errors import BranchNotFound, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import DataSplit, ScanPlan, plan_scan
from lakewright.storage.operations.running.task_memory import STREAMING, MergeMemory
from lakewright.storage.operations.state.branch_files import on_branch
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.spec.options import trimmed
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.refused_options import FALLBACK_BRANCH
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import check_readable, without_fallback


class FallbackReader(SplitReader):
    """Reads the splits of a table, and splits of a branch for the other partitions."""

    def __init__(
        self,
        files: TableFiles,
        branch: SplitReader,
        partitions: frozenset[bytes],
        *,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        snapshot_id: int | None,
    ) -> None:
        super().__init__(
            files,
            columns=columns,
            predicate=predicate,
            snapshot_id=snapshot_id,
            nulled=branch.nulled,
        )
        self._branch = branch
        self._of_branch = partitions

    def read(self, split: DataSplit, *, memory: MergeMemory = STREAMING) -> Iterator[pa.Table]:
        if split.partition in self._of_branch:
            yield from self._branch.read(split, memory=memory)
        else:
            yield from super().read(split, memory=memory)


def falls_back(files: TableFiles) -> bool:
    """Whether a read of the table includes rows of a fallback branch."""
    return bool(trimmed(files.schema.options).get(FALLBACK_BRANCH))


def scan_with_fallback(
    files: TableFiles,
    snapshot: Snapshot | None,
    predicate: Predicate | None,
    columns: Sequence[str] | None,
) -> tuple[FallbackReader, ScanPlan]:
    """Plan a table's latest snapshot, and the branch for partitions that the table lacks.

    Raises:
        BranchNotFound: the branch does not exist.
        UnsupportedError: the branch has other columns, or an option that is not implemented.
    """
    name = trimmed(files.schema.options)[FALLBACK_BRANCH]
    files = replace(files, schema=without_fallback(files.schema))
    once = files.reading_once()
    check_readable(files.schema, table=files.name)
    branch = _branch_of(files, name)
    of_branch = branch.snapshots.latest()
    snapshot_id = None if snapshot is None else snapshot.id
    branch_snapshot_id = None if of_branch is None else of_branch.id
    with told_if_expired(files, snapshot_id):
        plan = plan_scan(once, snapshot, predicate)
        live = live_entries(once, snapshot, predicate=predicate)
    there = {entry.partition for entry in live}
    with told_if_expired(branch, branch_snapshot_id):
        beside = plan_scan(branch, of_branch, predicate)
    splits = tuple(split for split in beside.splits if split.partition not in there)
    reader = FallbackReader(
        files,
        SplitReader(branch, columns=columns, predicate=predicate, snapshot_id=branch_snapshot_id),
        frozenset(split.partition for split in splits),
        columns=columns,
        predicate=predicate,
        snapshot_id=snapshot_id,
    )
    return reader, replace(
        plan,
        splits=(*plan.splits, *splits),
        manifests_read=plan.manifests_read + beside.manifests_read,
        manifests_total=plan.manifests_total + beside.manifests_total,
        files_live=plan.files_live + beside.files_live,
    )


def _branch_of(files: TableFiles, name: str) -> TableFiles:
    if name != files.paths.branch and name not in files.references.branches():
        raise BranchNotFound(
            f"{files.name} has no branch {name}, which its option {FALLBACK_BRANCH} names"
        )
    branch = on_branch(files, name)
    branch = replace(branch, schema=without_fallback(branch.schema))
    check_readable(branch.schema, table=f"{files.name}, branch {name}")
    if _columns(files) == _columns(branch):
        return branch
    raise UnsupportedError(
        f"{files.name} and its branch {name}, which its option {FALLBACK_BRANCH} names, have "
        f"different columns ({', '.join(files.schema.field_names)}; "
        f"{', '.join(branch.schema.field_names)}); alter one of them",
        option=FALLBACK_BRANCH,
    )


def _columns(files: TableFiles) -> tuple[object, ...]:
    """What a branch must share: names, types except nullability, and partition columns."""
    fields = ((field.name, replace(field.type, nullable=True)) for field in files.schema.fields)
    return (*fields, files.schema.partition_keys)
