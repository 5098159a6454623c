"""Reports of verbs that delete files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.verb import Report
from lakewright.platform.upkeep.words import counted, duration_text, size_text


class Deletion(Protocol):
    """A plan that takes files away."""

    @property
    def files(self) -> Sequence[object]: ...

    @property
    def bytes(self) -> int: ...


class Deleted(Protocol):
    """What a verb has deleted."""

    @property
    def files_deleted(self) -> int: ...

    @property
    def bytes_deleted(self) -> int: ...

    @property
    def duration_ms(self) -> int: ...


def deletion_report(
    plan: Deletion,
    result: Deleted | None,
    *,
    to_go: Report,
    done: str,
    facts: Mapping[str, object],
    notes: Iterable[str] = (),
) -> Report:
    """`to_go` with the figures of the plan, or what is `done` with the figures of the result."""
    if result is None:
        return replace(to_go, facts={**to_go.facts, **plan_facts(plan)})
    facts = {
        **facts,
        "files_deleted": result.files_deleted,
        "bytes_deleted": result.bytes_deleted,
        "duration_ms": result.duration_ms,
    }
    if to_go.is_empty:
        return replace(to_go, facts=facts)
    files, size = counted(result.files_deleted, "file"), size_text(result.bytes_deleted)
    summary = f"{done}; {files}, {size} deleted in {duration_text(result.duration_ms)}"
    return Report(summary=summary, facts=facts, notes=tuple(notes))


def plan_facts(plan: Deletion) -> dict[str, object]:
    """The figures of a plan."""
    return {"files": len(plan.files), "size_bytes": plan.bytes}


def with_files(plan: Deletion) -> str:
    """The files that go with something."""
    if not plan.files:
        return "and no file with that"
    return f"and with that {counted(len(plan.files), 'file')}, {size_text(plan.bytes)}"


def deletion_measures(
    plan: Deletion, result: Deleted | None, gone: Benefit | None = None
) -> Measures:
    """The files that a verb deletes, or deleted, and what else is `gone` with them."""
    files = len(plan.files) if result is None else result.files_deleted
    freed = plan.bytes if result is None else result.bytes_deleted
    return Measures(cost=Cost(files=files), benefit=replace(gone or Benefit(), bytes_freed=freed))
