"""Compaction by the writer after its commit: due work in the partitions it wrote to.

The rows are already published, so a failure here must not look like a failed write. The result
reports the failure, and the next plan finds the same work again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.rewrite.compact import CompactOptions, plan_compact, run_compact
from lakewright.storage.operations.rewrite.compaction_plan import CompactionResult
from lakewright.storage.operations.rewrite.postpone import (
    PostponeOptions,
    PostponeResult,
    plan_postpone_compact,
    run_postpone_compact,
)
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.running.plan import RewritePlan
from lakewright.storage.operations.write.verify import VerifyLevel
from lakewright.storage.spec.commit import CommitResult, WriterUse
from lakewright.storage.spec.lease import Lease
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.supported_options import Use, check_supported


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterCompaction(Shown):
    """The result of a writer's own compaction; empty if nothing was due.

    `postponed` reports the rows that got their buckets first, in tables with postponed buckets.
    """

    postponed: PostponeResult | None = None
    result: CompactionResult | None = None
    failure: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult(CommitResult):
    """The result of a write; has `compaction` if the caller asked for one."""

    compaction: WriterCompaction | None = None
    writer: WriterUse | None = None


def check_writer_may_compact(files: TableFiles) -> None:
    """Check that the table allows writers to compact.

    Raises:
        InvalidRequestError: option `write-only` is true.
        UnsupportedError: an option that affects compactions is not implemented.
    """
    check_supported(files.schema, Use.COMPACT, table=files.name)
    if files.options.write_only:
        raise InvalidRequestError(
            f"{files.name} sets write-only=true, so writers must not compact it; write without "
            "compacting, and compact in a job of its own (lakewright compact)"
        )


def compact_written(
    files: TableFiles,
    partitions: Sequence[Mapping[str, object]],
    engine_for: Callable[[RewritePlan[Any]], Engine],
    *,
    min_files: int | None = None,
    verify: VerifyLevel = VerifyLevel.CHECKSUMS,
    lease: Lease | None = None,
) -> WriterCompaction:
    """Compact what `plan_compact` finds due in the written partitions."""
    if not partitions:
        return WriterCompaction()
    touched = partitions if files.schema.partition_keys else None
    postponed, result = None, None
    try:
        if files.options.bucket_mode is BucketMode.POSTPONE:
            waiting = plan_postpone_compact(files, PostponeOptions(touched))
            postponed = run_postpone_compact(
                files, waiting, engine_for(waiting), verify=verify, lease=lease
            )
        plan = plan_compact(files, CompactOptions(touched, min_files=min_files))
        if plan.tasks:
            result = run_compact(files, plan, engine_for(plan), verify=verify, lease=lease)
    except Exception as error:  # noqa: BLE001  # engines fail in ways of their own
        return WriterCompaction(postponed=postponed, result=result, failure=error)
    return WriterCompaction(postponed=postponed, result=result)
