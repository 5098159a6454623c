"""Marking partitions as done as a verb: success files, and a function of the user's."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from lakewright.platform.upkeep.procedure import Command, NamedPartition, Outcome, Procedure, Report
from lakewright.platform.upkeep.where_notes import WHERE_NOTES
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRequestError, StorageError
from lakewright.storage.operations.partitions.mark_done import MarkDonePlan, MarkDoneResult
from lakewright.storage.operations.running.verb_options import (
    TEXT,
    option,
)
from lakewright.storage.upkeep import MarkDoneOptions, Upkeep

_MOST_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class MarkDoneRun(MarkDoneOptions):
    """What is marked, and what is called."""

    then: str | None = option(
        TEXT,
        None,
        "A function, module:function, to call with the table and the values of each partition.",
        at_run=True,
    )


def _then(table: Table, options: MarkDoneRun) -> Callable[[Mapping[str, object]], object] | None:
    """What is called for each partition."""
    if options.then is None:
        return None
    return _Calls(options.then, _function(options.then), table).call


@dataclass(slots=True)
class _Calls:
    """Calls of a function of the user's, for one marked partition after the other."""

    name: str
    function: Callable[[Table, Mapping[str, object]], object]
    table: Table
    done: list[NamedPartition] = field(default_factory=list)

    def call(self, spec: Mapping[str, object]) -> None:
        """Call the function for a partition that is marked.

        Raises:
            InvalidRequestError: the function failed; or the error of storage that it failed with.
        """
        try:
            self.function(self.table, spec)
        except Exception as error:
            raise self._failed(error, NamedPartition(spec)) from error
        self.done.append(NamedPartition(spec))

    def _failed(self, error: Exception, at: NamedPartition) -> StorageError:
        # An error of storage keeps its class, which decides about a retry.
        kind = type(error) if isinstance(error, StorageError) else InvalidRequestError
        # The last call is the one that raised.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        shown = "; ".join(map(str, self.done[:_MOST_SHOWN]))
        more = f" and {len(self.done) - _MOST_SHOWN} more" if len(self.done) > _MOST_SHOWN else ""
        before = f"{shown}{more} before it" if self.done else "none before it"
        return kind(
            f"{self.name} failed for partition {at} of {self.table.name} with "
            f"{type(error).__name__}: {error} ({frame.filename}, line {frame.lineno}); this "
            f"partition is marked as done, and {before}; the call may be repeated, which marks and "
            "calls for all of its partitions",
            table=self.table.name,
        )


def _function(name: str) -> Callable[[Table, Mapping[str, object]], object]:
    module, _, function = name.partition(":")
    try:
        found: Callable[[Table, Mapping[str, object]], object] = getattr(
            import_module(module), function
        )
    except Exception as error:
        # A module of the user's may raise anything.
        raise InvalidRequestError(
            f"{name!r} is not a function, module:function, that can be imported: {error}"
        ) from error
    return found


def _report(_: Table, done: Outcome[MarkDoneRun, MarkDonePlan, MarkDoneResult]) -> Report:
    plan, result = done.plan, done.result
    what = counted(len(plan.partitions), "partition")
    rows = [
        {
            "partition": NamedPartition(partition.partition),
            "mark": "new" if partition.done_since_ms is None else "renewed",
        }
        for partition in plan.partitions
    ]
    facts: dict[str, object] = {"partitions": len(plan.partitions)}
    if result is None:
        return Report(
            summary=f"{what} of {plan.table} to mark as done", facts=facts, tables={"plan": rows}
        )
    return Report(
        summary=f"{what} of {plan.table} marked as done",
        facts={**facts, "done_ms": result.time_ms},
        tables={"done": rows},
        partitions=result.partitions,
    )


MARK_DONE = Procedure(
    verb=Upkeep.mark_done,
    options=MarkDoneRun,
    run=lambda table, plan, options, work: table.upkeep.run(plan, then=_then(table, options)),
    report=_report,
    command=Command(
        purpose="Partitions",
        notes="EXPR may look at partition columns only.\n" + WHERE_NOTES,
        examples="""
lakewright mark-done nyc.flights --partition dt=2013-12-24
lakewright mark-done nyc.flights --where "dt = '2013-12-24'" --then my_project.events:announce
""",
    ),
)
