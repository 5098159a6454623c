"""A table change from the command line: make or read its plan, then show, save or run it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from lakewright.cli.grammar.call import Call
from lakewright.cli.output.answers import Answer
from lakewright.cli.output.progress import Steps, shown_steps
from lakewright.cli.output.tables import Block
from lakewright.cli.upkeep.plan_files import Plan, PlanT, plan_data, read_plan, save_plan

if TYPE_CHECKING:
    from lakewright.storage import Table

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling(Generic[PlanT, ResultT]):
    """The output functions of a command.

    `describe` and `summary` show a plan to people and to programs; `report` and `facts` show the
    result. An empty plan is shown to people as a plan. `was_beaten` means that all tasks conflicted
    with other commits.
    """

    is_empty: Callable[[PlanT], bool]
    describe: Callable[[PlanT], Sequence[Block]]
    summary: Callable[[PlanT], Mapping[str, object]]
    report: Callable[[PlanT, ResultT], Sequence[Block]]
    facts: Callable[[PlanT, ResultT], Mapping[str, object]]
    was_beaten: Callable[[PlanT, ResultT], bool] = lambda plan, result: False


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Generic[PlanT, ResultT]):
    """The work of a command: `do` carries out a given or a new plan; no result if dry."""

    kind: type[PlanT]
    do: Callable[[PlanT | None, bool, Steps], tuple[PlanT, ResultT | None]]
    telling: Telling[PlanT, ResultT]


def plan_and_run(
    plan: Callable[[], PlanT], run: Callable[[PlanT], ResultT], again: Callable[[PlanT], PlanT]
) -> Callable[[PlanT | None, bool, Steps], tuple[PlanT, ResultT | None]]:
    """Work with a plan and a run but no lease; `again` repeats the planning of a plan.

    A saved plan may have been edited, and its run would delete the named files without a check. So
    it runs only if planning again gives the same plan.
    """

    def do(given: PlanT | None, dry_run: bool, steps: Steps) -> tuple[PlanT, ResultT | None]:
        if given is not None and again(given) != given:
            raise_stale(given)
        planned = given or plan()
        steps.begin("deleting files")
        return planned, None if dry_run else run(planned)

    return do


def raise_stale(plan: Plan) -> NoReturn:
    """Refuse a saved plan that differs from a new plan.

    Raises:
        StalePlan: always.
    """
    from lakewright.storage.errors import StalePlan

    raise StalePlan(
        f"the plan is not what would be planned for {plan.table} now: the table has changed since, "
        "or the file; plan again",
        table=plan.table,
    )


def carry_out(call: Call, table: Table, work: Work[PlanT, ResultT]) -> Answer | None:
    """Carry out a call; returns the answer, or None if the plan itself was printed."""
    with shown_steps() as steps:
        steps.begin(f"planning {call.command}")
        given = read_plan(call, table, work.kind)
        plan, result = work.do(given, call.only_plans, steps)
    telling = work.telling
    if result is None:
        return _planned(call, plan, telling)
    return Answer(
        text=lambda: (
            telling.describe(plan) if telling.is_empty(plan) else telling.report(plan, result)
        ),
        value=lambda: {
            "operation": call.command,
            "table": table.name,
            **telling.facts(plan, result),
        },
        is_conflict=telling.was_beaten(plan, result),
    )


def _planned(call: Call, plan: PlanT, telling: Telling[PlanT, ResultT]) -> Answer | None:
    """Show a plan, and save it if requested."""
    data = plan_data(call, plan, telling.summary(plan))
    notes = ["dry run: nothing was written"]
    if call.save_plan is not None:
        save_plan(call.save_plan, data)
        if call.save_plan == "-":
            return None
        file, name = shlex.quote(call.save_plan), shlex.quote(call.table_name)
        words = f"lakewright {call.command} {name} --plan {file}"
        notes = [f"plan saved, nothing else was written; carry it out with: {words}"]
    return Answer(
        text=lambda: [*telling.describe(plan), *notes],
        value=lambda: data,
        records=lambda: _parts(data),
    )


def _parts(data: dict[str, object]) -> Sequence[Mapping[str, object]]:
    """The rows of a plan: its tasks or its files, otherwise its figures."""
    inner = data.get("files")
    parts = data.get("tasks") or (inner.get("tasks") if isinstance(inner, dict) else inner)
    summary = data["summary"]
    assert isinstance(summary, dict)
    return parts if isinstance(parts, list) and parts else [summary]
