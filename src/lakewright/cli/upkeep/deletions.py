"""What commands that delete say: which files go with what, and how many went."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from lakewright.cli.output.text import counted, duration_text, size_text

# A plan names every file; people get the first of them, programs all.
_MOST_LINES = 40


class Deletion(Protocol):
    """A plan that takes files away."""

    @property
    def files(self) -> Sequence[object]: ...

    @property
    def bytes(self) -> int: ...


class Deleted(Protocol):
    """What a deletion took away."""

    @property
    def files_deleted(self) -> int: ...

    @property
    def bytes_deleted(self) -> int: ...

    @property
    def duration_ms(self) -> int: ...


def files_summary(plan: Deletion) -> dict[str, object]:
    """The figures of a plan."""
    return {"files": len(plan.files), "size_bytes": plan.bytes}


def deleted_facts(result: Deleted) -> dict[str, object]:
    """The figures of a deletion."""
    return {
        "files_deleted": result.files_deleted,
        "bytes_deleted": result.bytes_deleted,
        "duration_ms": result.duration_ms,
    }


def deleted_line(done: str, result: Deleted) -> str:
    """What was done, and the figures."""
    count, size = counted(result.files_deleted, "file"), size_text(result.bytes_deleted)
    return f"{done}; {count}, {size} deleted in {duration_text(result.duration_ms)}"


def with_files(plan: Deletion) -> str:
    """The files that go with something."""
    if not plan.files:
        return "and no file with that"
    return f"and with that {counted(len(plan.files), 'file')}, {size_text(plan.bytes)}"


def named(noun: str, names: Sequence[str]) -> str:
    """`tag a`, `tags a, b`."""
    return f"{noun if len(names) == 1 else noun + 's'} {', '.join(names)}"


def snapshots_text(ids: Sequence[int]) -> str:
    """`snapshot 1`, `3 snapshots (1 to 3)`."""
    if not ids:
        return "no snapshot"
    if len(ids) == 1:
        return f"snapshot {ids[0]}"
    return f"{len(ids)} snapshots ({min(ids)} to {max(ids)})"


def first_paths(paths: Iterable[str]) -> list[str]:
    """A line for each of the first paths, and how many more there are."""
    listed = list(paths)
    lines = [f"  {path}" for path in listed[:_MOST_LINES]]
    if len(listed) > _MOST_LINES:
        lines.append(f"  … and {len(listed) - _MOST_LINES:,} more; --format json has them all")
    return lines


def brought_back_lines(paths: Iterable[str]) -> list[str]:
    """What came back by itself, and why."""
    return [f"  {path} is back: something refers to it by now" for path in paths]
