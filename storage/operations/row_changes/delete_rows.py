"""DELETE: rows that a filter selects leave the table, in one snapshot.

1. Refuse tables whose merge engine cannot delete rows.
2. Plan: find the files with matching rows, and count these.
3. Append tables: take the rows out of their files, by deletion vectors or by writing these files
   again; files and partitions whose every row goes leave the table unread.
4. Primary-key tables: write the rows as deletions; whole partitions without a changelog leave the
   table by metadata alone.
5. Commit, unless another commit has changed the same files, or rows of a primary-key table; then
   begin again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.row_changes.accepted import check_changes_rows, check_deletes
from lakewright.storage.operations.row_changes.matches import find_matches
from lakewright.storage.operations.row_changes.statement import (
    ChangedBucket,
    RowChangePlan,
    RowChangeResult,
    carried_out,
    change_matches,
    check_same_statement,
    job_on,
    publish,
    with_kind,
)
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.live_files import grouped_by_bucket
from lakewright.storage.operations.state.table_state import TableState, state_at
from lakewright.storage.spec.commit import CommitMessage
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.options import ChangelogProducer
from lakewright.storage.spec.predicate import Predicate, columns_of
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRowsPlan(RowChangePlan["RowChangeResult"]):
    """The rows that a filter selects; `where` is its text, None for all rows.

    Of whole partitions of a primary-key table, `rows` counts those of the files before merging.
    """

    where: str | None = None


def plan_delete_rows(
    files: TableFiles, predicate: Predicate | None, where: str | None, engine: Engine
) -> DeleteRowsPlan:
    """Plan to delete the rows for which a filter is true; all rows without one.

    Raises:
        UnsupportedError: the merge engine cannot delete rows, or an option is not implemented.
        SchemaMoved: the schema changed since the table was opened.
    """
    check_changes_rows(files)
    check_deletes(files)
    if _by_metadata(files, predicate):
        state, live = _live(files, predicate)
        return DeleteRowsPlan(
            table=files.name,
            snapshot_id=None if state.snapshot is None else state.snapshot.id,
            files_opened=0,
            bytes_opened=0,
            rows=sum(entry.file.row_count for entry in live),
            buckets=_whole_buckets(files, live),
            where=where,
        )
    matches = find_matches(files, predicate, engine)
    return DeleteRowsPlan.of(files, matches, where=where)


def run_delete_rows(
    files: TableFiles, plan: DeleteRowsPlan, predicate: Predicate | None, engine: Engine
) -> RowChangeResult:
    """Delete the rows for which the filter of the plan is true now.

    Raises:
        UnsupportedError: the merge engine cannot delete rows, or an option is not implemented.
        CommitConflictError: others changed the same rows again and again; nothing is deleted.
        VerificationFailed: rows written differ from rows that stay; nothing is deleted.
    """
    check_changes_rows(files)
    check_deletes(files)
    check_same_statement(files, plan)

    def attempt(files: TableFiles) -> RowChangeResult:
        if _by_metadata(files, predicate):
            return _delete_partitions(files, predicate, engine)
        # The rows of append tables only leave their files.
        deleted = _deleted if files.schema.is_keyed else None
        result, count = change_matches(files, predicate, deleted, engine)
        return replace(result, deleted=count)

    return carried_out(files, engine, attempt)


def _deleted(_: TableFiles, rows: pa.Table) -> pa.Table:
    return with_kind(rows, RowKind.DELETE)


def _by_metadata(files: TableFiles, predicate: Predicate | None) -> bool:
    """Whether the filter selects whole partitions of a primary-key table without a changelog."""
    if not files.schema.is_keyed or files.options.changelog_producer is not ChangelogProducer.NONE:
        return False
    return predicate is None or columns_of(predicate) <= set(files.schema.partition_keys)


def _live(
    files: TableFiles, predicate: Predicate | None
) -> tuple[TableState, Sequence[ManifestEntry]]:
    """The latest state, and the live files of the partitions that the filter selects."""

    def read(snapshot: Snapshot | None) -> tuple[TableState, Sequence[ManifestEntry]]:
        state = state_at(files, snapshot)
        return state, state.entries_of(predicate=predicate)

    return read_latest(files, read)[1]


def _whole_buckets(files: TableFiles, live: Sequence[ManifestEntry]) -> tuple[ChangedBucket, ...]:
    return tuple(
        ChangedBucket(
            partition=files.partitions.of_entry(entries[0]).spec,
            bucket=place.bucket,
            rows=sum(entry.file.row_count for entry in entries),
            files=(),
            bytes=0,
        )
        for place, entries in grouped_by_bucket(live).items()
    )


def _delete_partitions(
    files: TableFiles, predicate: Predicate | None, engine: Engine
) -> RowChangeResult:
    state, live = _live(files, predicate)
    removed = [
        CommitMessage(
            partition=place.partition,
            bucket=place.bucket,
            total_buckets=entries[0].total_buckets,
            compact_before=tuple(entry.file for entry in entries),
            removed_indexes=tuple(index.file for index in state.indexes if index.place == place),
        )
        for place, entries in grouped_by_bucket(live).items()
    ]
    job = job_on(files, state.snapshot)
    result = publish(job, (), removed, engine, reads_base=True)
    return replace(result, deleted=sum(entry.file.row_count for entry in live))
