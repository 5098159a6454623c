"""Reports of verbs that delete files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Protocol

from lakewright.platform.upkeep.verb import Fact, Report, Rows
from lakewright.storage.operations.running.plan import DeletionPlan, UnreachableFile
from lakewright.storage.spec.quarantine import QuarantinedFile

_MOST_ROWS = 100


class Deleted(Protocol):
    """What a verb has deleted."""

    @property
    def files_deleted(self) -> int: ...

    @property
    def bytes_deleted(self) -> int: ...

    @property
    def duration_ms(self) -> int: ...


def deletion_report(
    what: str,
    facts: Mapping[str, Fact],
    plan: DeletionPlan,
    result: Deleted | None,
    *,
    notes: tuple[str, ...] = (),
    is_empty: bool,
) -> Report:
    """What would go with its files, or went."""
    if result is None:
        return Report(
            summary=f"{what} would go, with {counted(len(plan.files), 'file')}",
            facts={**facts, "files": len(plan.files), "bytes": plan.bytes},
            tables={"plan": file_rows(plan.files)},
            notes=notes,
            is_empty=is_empty,
        )
    return Report(
        summary=f"{what} went, with {counted(result.files_deleted, 'file')}",
        facts={
            **facts,
            "files_deleted": result.files_deleted,
            "bytes_deleted": result.bytes_deleted,
            "seconds": round(result.duration_ms / 1000, 3),
        },
        notes=notes,
        is_empty=is_empty,
    )


def file_rows(files: Iterable[UnreachableFile | QuarantinedFile]) -> Rows:
    """A row for each of the first files; a plan may name a million."""
    first = islice(files, _MOST_ROWS)
    return tuple({"file": file.path, "bytes": file.size_bytes} for file in first)


def counted(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
