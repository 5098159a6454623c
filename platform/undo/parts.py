"""The parts of an undo: what can be taken back, and what is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakewright.storage.operations.references.put_back import PutBackOptions
from lakewright.storage.operations.revert.revert import RevertOptions, RevertPlan
from lakewright.storage.operations.running.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """A part of a run that can be undone: a verb that does it, with its options and its plan.

    Without a plan it is planned when its turn comes: a run may have condemned a hundred times.
    `summary` says what is to be done; after the run, what was done; `also` is the part of it about
    rewrites that other runs made of the same files.
    """

    table: str
    what: str
    verb: str
    plan: Plan[Any] | None
    at_ms: int
    summary: str
    options: RevertOptions | PutBackOptions
    also: str = ""

    @property
    def partitions(self) -> tuple[Mapping[str, object], ...]:
        """The partitions whose files change."""
        buckets = self.plan.buckets if isinstance(self.plan, RevertPlan) else ()
        return tuple({str(bucket.partition): bucket.partition for bucket in buckets}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAlone:
    """A part of a run that is not undone, and why; `is_final` if it never can be, or is already."""

    table: str
    what: str
    why: str
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """What undoing a run means, or what came of it; parts are newest first.

    `unread` are tables that cannot be read, and on which the ledger names no work of the run.
    """

    run: str
    parts: tuple[Undone, ...]
    left_alone: tuple[LeftAlone, ...]
    unread: tuple[LeftAlone, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether something can be undone, and all that ever could be."""
        return bool(self.parts) and all(each.is_final for each in self.left_alone)
