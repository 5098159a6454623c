"""A verb in the command line: its plan is made or read, then shown, saved or carried out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from lakewright.cli.grammar.call import Call
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.progress import Steps, shown_steps
from lakewright.cli.output.tables import Block
from lakewright.cli.upkeep.plan_files import PlanT, plan_data, read_plan, save_plan

if TYPE_CHECKING:
    from lakewright.storage import Table

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Generic[PlanT, ResultT]):
    """What a command does, and what it says of it.

    `describe` and `summary` tell a plan, `report` and `facts` what came of it: each to people,
    and to programs. With an empty plan people are told that; programs get the facts of a run.
    `was_beaten` says that other commits left nothing of the work.
    """

    kind: type[PlanT]
    plan: Callable[[], PlanT]
    is_empty: Callable[[PlanT], bool]
    describe: Callable[[PlanT], Sequence[Block]]
    summary: Callable[[PlanT], dict[str, object]]
    run: Callable[[PlanT, Steps], ResultT]
    report: Callable[[PlanT, ResultT], Sequence[Block]]
    facts: Callable[[PlanT, ResultT], Mapping[str, object]]
    was_beaten: Callable[[PlanT, ResultT], bool] = lambda plan, result: False


def carry_out(call: Call, table: Table, work: Work[PlanT, ResultT]) -> Answer | None:
    """Do what the call asks for; the answer, None where the plan itself was printed."""
    with shown_steps() as steps:
        steps.begin(f"planning {call.command}")
        plan = read_plan(call, table, work.kind) or work.plan()
        if call.only_plans or (work.is_empty(plan) and call.form == "table"):
            return _planned(call, plan, work)
        steps.begin(call.command)
        result = work.run(plan, steps)
    return carried_out(call, work, plan, result)


def carried_out(call: Call, work: Work[PlanT, ResultT], plan: PlanT, result: ResultT) -> Answer:
    """Say what was done."""
    from lakewright.cli.exit_codes import CONFLICT

    return Answer(
        text=lambda: work.report(plan, result),
        value=lambda: {
            "operation": call.command,
            "table": plan.table,
            **work.facts(plan, result),
        },
        code=CONFLICT if work.was_beaten(plan, result) else 0,
    )


def _planned(call: Call, plan: PlanT, work: Work[PlanT, ResultT]) -> Answer | None:
    """Say what would be done, and save it if that was asked for."""
    data = plan_data(call, plan, work.summary(plan))
    lines = list(work.describe(plan))
    if call.save_plan is not None:
        save_plan(call.save_plan, data)
        if call.save_plan == "-":
            return None
        file = shlex.quote(call.save_plan)
        words = f"lakewright {call.command} {shlex.quote(call.table_name)} --plan {file}"
        lines.append(f"plan saved, nothing else was written; carry it out with  {words}")
    elif call.dry_run:
        lines.append("dry run: nothing was written")
    return Answer(text=lambda: lines, value=lambda: data, records=lambda: _parts(data))


def _parts(data: dict[str, object]) -> Sequence[Mapping[str, object]]:
    """The rows of a plan: its tasks or its files, otherwise its figures."""
    inner = data.get("files")
    parts = data.get("tasks") or (inner.get("tasks") if isinstance(inner, dict) else inner)
    summary = data["summary"]
    assert isinstance(summary, dict)
    return parts if isinstance(parts, list) and parts else [summary]
