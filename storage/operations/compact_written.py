"""Compaction by the writer itself, as it goes: what a write has touched, and only if it is due.

The rows are published by then, so nothing that happens here takes them back or may look
like a write that failed: what goes wrong is told in the answer, and the next plan finds
the same work again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError, StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.compact import plan_compact, run_compact
from lakewright.storage.operations.compaction_plan import CompactionPlan, CompactionResult
from lakewright.storage.operations.engine import Engine
from lakewright.storage.spec.commit import CommitResult


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterCompaction:
    """What a writer's own compaction came to: neither, where nothing was due."""

    result: CompactionResult | None = None
    failure: StorageError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult(CommitResult):
    """How a write ended; `compaction` where the writer was asked for one."""

    compaction: WriterCompaction | None = None


def check_writer_may_compact(files: TableFiles) -> None:
    """Whether writers are not told to leave compaction to others.

    Raises:
        InvalidRequestError: option `write-only` is true.
    """
    if files.options.write_only:
        raise InvalidRequestError(
            f"{files.name} sets write-only=true, so its writers leave compaction to a job of its "
            "own; write without compacting, and run one (lakewright run compact)"
        )


def compact_written(
    files: TableFiles,
    partitions: Sequence[Mapping[str, object]],
    engine_for: Callable[[CompactionPlan], Engine],
    *,
    min_file_num: int | None = None,
) -> WriterCompaction:
    """Compact what is due, as `plan_compact` sees it, in partitions that were written to."""
    touched = partitions if files.schema.partition_keys else None
    if not partitions:
        return WriterCompaction()
    try:
        plan = plan_compact(files, partitions=touched, min_file_num=min_file_num)
        if not plan.tasks:
            return WriterCompaction()
        return WriterCompaction(result=run_compact(files, plan, engine_for(plan)))
    except StorageError as error:
        return WriterCompaction(failure=error)
