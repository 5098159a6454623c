"""Reports of verbs that delete files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

from lakewright.platform.upkeep.verb import Fact, Report
from lakewright.storage.operations.running.plan import DeletionPlan, UnreachableFile
from lakewright.storage.spec.quarantine import QuarantinedFile


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
    plan: DeletionPlan[Any],
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
            tables={"plan": FileRows(plan.files)},
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


@dataclass(frozen=True, slots=True)
class FileRows(Sequence[Mapping[str, object]]):
    """A row for each file, made when it is read."""

    files: Sequence[UnreachableFile | QuarantinedFile]

    def __len__(self) -> int:
        return len(self.files)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, object]: ...

    @overload
    def __getitem__(self, at: slice) -> FileRows: ...

    def __getitem__(self, at: int | slice) -> Mapping[str, object] | FileRows:
        if isinstance(at, slice):
            return FileRows(self.files[at])
        return {"file": self.files[at].path, "bytes": self.files[at].size_bytes}


def counted(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
