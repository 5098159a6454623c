"""Reports of verbs that delete files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from lakewright.platform.upkeep.measures import Benefit, Cost, Measures
from lakewright.platform.upkeep.procedure import Report
from lakewright.platform.upkeep.words import counted, duration_text, size_text
from lakewright.storage.operations.references.condemn import FLOOR_MS


class Deletion(Protocol):
    """A plan that takes files away."""

    @property
    def files(self) -> Sequence[object]: ...

    @property
    def bytes(self) -> int: ...

    @property
    def grace_ms(self) -> int: ...


class Deleted(Protocol):
    """What a verb has deleted."""

    @property
    def files_deleted(self) -> int: ...

    @property
    def bytes_deleted(self) -> int: ...

    @property
    def files_condemned(self) -> int: ...

    @property
    def bytes_condemned(self) -> int: ...

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
    is_undone: bool = True,
) -> Report:
    """`to_go` with the figures of the plan, or what is `done` with the figures of the result.

    What `is_undone` can be taken back during its grace.
    """
    if result is None:
        undone = () if to_go.is_empty or not is_undone else grace_notes(plan.grace_ms)
        facts = {**to_go.facts, **plan_facts(plan)}
        return replace(to_go, facts=facts, notes=tuple(dict.fromkeys((*to_go.notes, *undone))))
    facts = {
        **facts,
        "files_deleted": result.files_deleted,
        "bytes_deleted": result.bytes_deleted,
        "files_condemned": result.files_condemned,
        "bytes_condemned": result.bytes_condemned,
        "duration_ms": result.duration_ms,
    }
    if to_go.is_empty:
        return replace(to_go, facts=facts)
    summary = f"{done}; {gone_text(result)} in {duration_text(result.duration_ms)}"
    # Without a grace, files of commits of the last hour wait all the same.
    waits_ms = plan.grace_ms or (FLOOR_MS if result.files_condemned else 0)
    undone = grace_notes(waits_ms) if is_undone else ()
    return Report(summary=summary, facts=facts, notes=(*notes, *undone))


def gone_text(result: Deleted) -> str:
    """The files that were deleted, and those that wait for that."""
    told = []
    if result.files_deleted or not result.files_condemned:
        files, size = counted(result.files_deleted, "file"), size_text(result.bytes_deleted)
        told.append(f"{files}, {size} deleted")
    if result.files_condemned:
        files, size = counted(result.files_condemned, "file"), size_text(result.bytes_condemned)
        told.append(f"{files}, {size} marked for deletion")
    return " and ".join(told)


# A command that knows its run tells it in place of the word.
UNDO_RUN = "undo RUN"


def grace_notes(grace_ms: int) -> tuple[str, ...]:
    """Until when what a verb deletes can come back."""
    if not grace_ms:
        return ()
    until = duration_text(grace_ms)
    return (f"lakewright {UNDO_RUN} takes it back for {until}; then its files go",)


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
    """The files that a verb deletes, or deleted, and what else is `gone` with them.

    What is condemned is not freed before it is collected.
    """
    files, freed = len(plan.files), 0 if plan.grace_ms else plan.bytes
    if result is not None:
        files = result.files_deleted + result.files_condemned
        freed = result.bytes_deleted
    return Measures(cost=Cost(files=files), benefit=replace(gone or Benefit(), bytes_freed=freed))
