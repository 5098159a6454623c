"""Reports: what happened, as the metadata that the Dagster UI knows how to show."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg

from lakewright.platform.declare.partition_keys import describe_partition
from lakewright.platform.ingest.expectations import ExpectationOutcome
from lakewright.platform.ingest.publish import PartitionTotals, Published
from lakewright.platform.orchestration.pictures import as_markdown, file_sizes_picture
from lakewright.platform.upkeep.decide import Decision
from lakewright.platform.upkeep.health import PartitionHealth
from lakewright.storage import (
    CompactionPlan,
    CompactionResult,
    DeleteTagsPlan,
    ExpireChangelogsPlan,
    ExpirePlan,
    ExpireResult,
    Table,
    TableSchema,
    WriterCompaction,
)
from lakewright.storage.operations.references.tags import DeleteTagsResult
from lakewright.storage.operations.retention.expire_changelogs import ExpireChangelogsResult
from lakewright.storage.spec.data_types import DataType

Metadata = Mapping[str, Any]

STORAGE_KIND = "paimon"
_MAX_ROWS = 50


def column_schema(
    columns: Iterable[tuple[str, DataType, str | None]],
    *,
    partition_keys: Iterable[str] = (),
    primary_keys: Iterable[str] = (),
) -> dg.TableSchema:
    """Columns as the UI lists them."""
    partition_keys, primary_keys = tuple(partition_keys), tuple(primary_keys)
    listed = []
    for name, data_type, comment in columns:
        other = []
        if name in primary_keys:
            other.append("primary key")
        if name in partition_keys:
            other.append("partition key")
        nullable = data_type.nullable and name not in primary_keys
        listed.append(
            dg.TableColumn(
                name=name,
                type=str(data_type).removesuffix(" NOT NULL"),
                description=comment,
                constraints=dg.TableColumnConstraints(
                    nullable=nullable, unique=primary_keys == (name,), other=other
                ),
            )
        )
    return dg.TableSchema(columns=listed)


def schema_metadata(schema: TableSchema) -> dg.TableSchema:
    """Columns of a table that exists."""
    return column_schema(
        ((each.name, each.type, each.description) for each in schema.fields),
        partition_keys=schema.partition_keys,
        primary_keys=schema.primary_keys,
    )


def publication_metadata(table: Table, published: Published) -> Metadata:
    """What a materialization says of the whole write."""
    metadata: dict[str, Any] = {
        "dagster/column_schema": schema_metadata(table.schema),
        "dagster/table_name": table.name,
        "dagster/uri": table.location,
        "lakewright/rows_written": published.row_count,
        "lakewright/files_written": published.file_count,
        "lakewright/bytes_written": published.size_bytes,
        "lakewright/partitions_written": len(published.partitions),
        "lakewright/commits": published.commits,
        "lakewright/engine": published.engine,
        "lakewright/seconds": round(published.duration_ms / 1000, 3),
    }
    snapshot = published.snapshot or table.latest_snapshot()
    if snapshot is not None:
        metadata["lakewright/snapshot_id"] = snapshot.id
        metadata["dagster/row_count"] = snapshot.total_record_count
    if published.compaction is not None:
        metadata |= _writer_compaction_metadata(published.compaction)
    if published.report.outcomes:
        metadata["lakewright/validation_seconds"] = round(published.report.duration_ms / 1000, 3)
        metadata["lakewright/validation_engine"] = published.report.engine
    return metadata


def _writer_compaction_metadata(compaction: WriterCompaction) -> Metadata:
    metadata: dict[str, Any] = {}
    if compaction.postponed is not None:
        metadata["lakewright/rows_given_buckets"] = compaction.postponed.rows_before
    if compaction.result is not None:
        metadata["lakewright/compacted_files_before"] = compaction.result.files_before
        metadata["lakewright/compacted_files_after"] = compaction.result.files_after
        metadata["lakewright/compaction_seconds"] = round(compaction.result.duration_ms / 1000, 3)
    if compaction.failure is not None:
        metadata["lakewright/compaction_failure"] = str(compaction.failure)
    return metadata


def partition_metadata(totals: PartitionTotals | None) -> Metadata:
    """What a materialization says of one partition; None where no row came for it."""
    return {
        "dagster/partition_row_count": totals.row_count if totals else 0,
        "lakewright/partition_files": totals.file_count if totals else 0,
        "lakewright/partition_bytes": totals.size_bytes if totals else 0,
    }


def check_metadata(outcome: ExpectationOutcome, *, row_count: int) -> Metadata:
    """The numbers behind a check, and some of the rows that made it fail."""
    metadata: dict[str, Any] = {"expectation": outcome.expectation, "rows_validated": row_count}
    if outcome.error is not None:
        metadata["error"] = outcome.error
    if outcome.checked_count is not None:
        metadata["checked_rows"] = outcome.checked_count
    if outcome.unexpected_count is not None:
        metadata["offending_rows"] = outcome.unexpected_count
    if outcome.checked_count and outcome.unexpected_count is not None:
        share = 100 * outcome.unexpected_count / outcome.checked_count
        metadata["offending_percent"] = round(share, 4)
    if outcome.observed is not None:
        metadata["observed"] = outcome.observed
    if not outcome.met and outcome.unexpected_by_partition:
        metadata["offending_rows_by_partition"] = dg.MetadataValue.json(
            dict(list(outcome.unexpected_by_partition.items())[:_MAX_ROWS])
        )
    if not outcome.met and outcome.sample:
        metadata["sample"] = _rows_table(outcome.sample)
    return metadata


def plan_metadata(plan: CompactionPlan) -> Metadata:
    """What a compaction would do."""
    tasks = [
        {
            "partition": describe_partition(task.partition),
            "bucket": task.bucket,
            "files": len(task.files),
            "bytes": task.bytes,
            "rows": task.rows,
            "reason": task.reason,
        }
        for task in plan.tasks
    ]
    skipped = [
        {
            "partition": describe_partition(each.partition),
            "bucket": each.bucket,
            "files": each.files,
            "reason": each.reason,
        }
        for each in plan.skipped
    ]
    metadata: dict[str, Any] = {
        "lakewright/files_before": plan.files_before,
        "lakewright/bytes_before": plan.bytes_before,
        "lakewright/rows": plan.rows,
        "lakewright/tasks": len(plan.tasks),
        "lakewright/skipped_buckets": len(plan.skipped),
    }
    if plan.snapshot_id is not None:
        metadata["lakewright/planned_at_snapshot"] = plan.snapshot_id
    if tasks:
        metadata["plan"] = _rows_table(tasks)
    if skipped:
        metadata["left alone"] = _rows_table(skipped)
    return metadata


def compaction_metadata(table: Table, result: CompactionResult, *, engine: str) -> Metadata:
    """What a compaction did, with its picture."""
    picture = file_sizes_picture(result.file_sizes_before, result.file_sizes_after)
    metadata: dict[str, Any] = {
        "lakewright/verb": "compact",
        "lakewright/files_before": result.files_before,
        "lakewright/files_after": result.files_after,
        "lakewright/bytes_before": result.bytes_before,
        "lakewright/bytes_after": result.bytes_after,
        "lakewright/rows_before": result.rows_before,
        "lakewright/rows_after": result.rows_after,
        "lakewright/dropped_tasks": result.dropped_tasks,
        "lakewright/engine": engine,
        "lakewright/seconds": round(result.duration_ms / 1000, 3),
        "file sizes": dg.MetadataValue.md(as_markdown(picture, "file sizes before and after")),
    }
    if result.snapshot is not None:
        metadata["lakewright/snapshot_id"] = result.snapshot.id
        metadata["dagster/row_count"] = result.snapshot.total_record_count
    metadata["dagster/table_name"] = table.name
    return metadata


def partition_health_metadata(before: PartitionHealth | None, after: PartitionHealth) -> Metadata:
    """What a compaction did to one partition."""
    metadata: dict[str, Any] = {
        "lakewright/verb": "compact",
        "lakewright/files_after": after.file_count,
        "lakewright/bytes_after": after.size_bytes,
        "dagster/partition_row_count": after.row_count,
    }
    if before is not None:
        metadata["lakewright/files_before"] = before.file_count
        metadata["lakewright/bytes_before"] = before.size_bytes
    return metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlans:
    """What one run of an expiry lets go."""

    snapshots: ExpirePlan
    tags: DeleteTagsPlan
    changelogs: ExpireChangelogsPlan

    @property
    def reasons(self) -> tuple[str, ...]:
        return (*self.snapshots.reasons, *self.tags.reasons, *self.changelogs.reasons)

    @property
    def summary(self) -> str:
        return _counts(
            len(self.snapshots.snapshot_ids),
            len(self.tags.tags),
            len(self.changelogs.changelog_ids),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """What one run of an expiry has let go so far; None is what it has not come to."""

    snapshots: ExpireResult | None = None
    tags: DeleteTagsResult | None = None
    changelogs: ExpireChangelogsResult | None = None

    def and_snapshots(self, step: ExpireResult) -> Expired:
        """And what one more step deleted."""
        done = self.snapshots
        return replace(self, snapshots=step if done is None else done.and_then(step))

    def and_changelogs(self, step: ExpireChangelogsResult) -> Expired:
        """And what one more step deleted."""
        done = self.changelogs
        return replace(self, changelogs=step if done is None else done.and_then(step))

    @property
    def snapshot_count(self) -> int:
        return len(self.snapshots.expired) if self.snapshots else 0

    @property
    def tag_count(self) -> int:
        return len(self.tags.tags) if self.tags else 0

    @property
    def changelog_count(self) -> int:
        return len(self.changelogs.expired) if self.changelogs else 0

    @property
    def count(self) -> int:
        return self.snapshot_count + self.tag_count + self.changelog_count

    @property
    def files_deleted(self) -> int:
        return sum(each.files_deleted for each in self._results)

    @property
    def bytes_deleted(self) -> int:
        return sum(each.bytes_deleted for each in self._results)

    @property
    def duration_ms(self) -> int:
        return sum(each.duration_ms for each in self._results)

    @property
    def summary(self) -> str:
        return _counts(self.snapshot_count, self.tag_count, self.changelog_count)

    @property
    def _results(self) -> list[ExpireResult | DeleteTagsResult | ExpireChangelogsResult]:
        return [each for each in (self.snapshots, self.tags, self.changelogs) if each is not None]


def _counts(snapshots: int, tags: int, changelogs: int) -> str:
    """The numbers in words; tags and changelogs, which few tables have, only where some go."""
    told = [_counted(snapshots, "snapshot")]
    told += [_counted(tags, "tag")] if tags else []
    told += [_counted(changelogs, "changelog")] if changelogs else []
    return ", ".join(told)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def expire_plan_metadata(plans: ExpiryPlans, expired: Expired | None = None) -> Metadata:
    """What an expiry would delete, or what it has; `plans` holds the first of its steps."""
    gone = expired.snapshots if expired is not None else None
    ids = plans.snapshots.snapshot_ids if gone is None else gone.expired
    files = [*plans.snapshots.files, *plans.tags.files, *plans.changelogs.files]
    metadata: dict[str, Any] = {
        "lakewright/snapshots": len(ids),
        "lakewright/tags": len(plans.tags.tags),
        "lakewright/changelogs": len(plans.changelogs.changelog_ids),
        "lakewright/files": len(files) if expired is None else expired.files_deleted,
        "lakewright/bytes": (
            sum(file.size_bytes for file in files) if expired is None else expired.bytes_deleted
        ),
        "reasons": dg.MetadataValue.md("\n".join(f"- {reason}" for reason in plans.reasons)),
    }
    if ids:
        metadata["lakewright/snapshot_range"] = f"{ids[0]} to {ids[-1]}"
    if files:
        listed = [{"file": file.path, "bytes": file.size_bytes} for file in files]
        metadata["plan"] = _rows_table(listed)
    return metadata


def expire_metadata(table: Table, expired: Expired) -> Metadata:
    """What an expiry deleted."""
    return {
        "lakewright/verb": "expire_snapshots",
        "lakewright/snapshots_expired": expired.snapshot_count,
        "lakewright/snapshots_left": len(table.files.snapshots.ids()),
        "lakewright/tags_expired": expired.tag_count,
        "lakewright/tags_left": len(table.tags()),
        "lakewright/changelogs_expired": expired.changelog_count,
        "lakewright/files_deleted": expired.files_deleted,
        "lakewright/bytes_deleted": expired.bytes_deleted,
        "lakewright/seconds": round(expired.duration_ms / 1000, 3),
        "dagster/table_name": table.name,
    }


def decision_table(decisions: Iterable[Decision]) -> str:
    """Reasons as text, one a line."""
    return "\n".join(each.reason for each in decisions)


def _rows_table(rows: Iterable[Mapping[str, object]]) -> dg.TableMetadataValue | dg.MetadataValue:
    """Rows as the UI shows tables; the first ones where there are many."""
    kept = list(rows)[:_MAX_ROWS]
    return dg.MetadataValue.table(
        records=[
            dg.TableRecord({name: _cell(value) for name, value in row.items()}) for row in kept
        ]
    )


def _cell(value: object) -> str | int | float | bool | None:
    if isinstance(value, float) and not math.isfinite(value):
        # JSON knows no such number.
        return str(value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, (dict, list)):
        return json.dumps(value, default=str)
    return str(value)
