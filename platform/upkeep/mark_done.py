"""Marking partitions as done as a verb: success files, and a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from lakewright.platform.upkeep.rewrites import Partitions
from lakewright.platform.upkeep.verb import NamedPartition, Outcome, Report, Verb, option
from lakewright.platform.upkeep.words import counted
from lakewright.storage import MarkDonePlan, MarkDoneResult, Table
from lakewright.storage.errors import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkDoneOptions:
    """What is marked, and what is called."""

    partitions: Partitions | None = option(
        None, "Partitions that are done, by all or some of their columns."
    )
    where: str | None = option(None, "Mark the partitions whose keys match this filter.")
    then: str | None = option(
        None,
        "A function, module:function, to call with the table and the values of each partition.",
        at_run=True,
    )


def _plan(table: Table, options: MarkDoneOptions) -> MarkDonePlan:
    return table.upkeep.plan_mark_done(options.where, partitions=options.partitions)


def _then(
    table: Table, options: MarkDoneOptions
) -> Callable[[Mapping[str, object]], object] | None:
    """What is called for each partition."""
    return None if options.then is None else partial(_function(options.then), table)


def _function(name: str) -> Callable[[Table, Mapping[str, object]], object]:
    module, _, function = name.partition(":")
    try:
        found: Callable[[Table, Mapping[str, object]], object] = getattr(
            import_module(module), function
        )
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidRequestError(
            f"{name!r} is not a function, module:function, that can be imported: {error}"
        ) from error
    return found


def _report(_: Table, done: Outcome[MarkDoneOptions, MarkDonePlan, MarkDoneResult]) -> Report:
    plan, result = done.plan, done.result
    what = counted(len(plan.partitions), "partition")
    rows = [
        {
            "partition": NamedPartition(each.partition),
            "mark": "new" if each.done_since_ms is None else "renewed",
        }
        for each in plan.partitions
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


MARK_DONE = Verb(
    name="mark_done",
    description="mark partitions as done, by a success file in the folder of each",
    options=MarkDoneOptions,
    plan_type=MarkDonePlan,
    plan=_plan,
    run=lambda table, plan, options, work: table.upkeep.run(plan, then=_then(table, options)),
    report=_report,
)
