"""Plan files: what `--save-plan` writes and `--plan` reads back."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import HowOption

if TYPE_CHECKING:
    from lakewright.storage import Table
    from lakewright.storage.operations.running.plan import Plan

PlanT = TypeVar("PlanT", bound="Plan[Any]")


def plan_data(call: Call, plan: Plan[Any], summary: Mapping[str, object]) -> dict[str, object]:
    """A plan as `--plan` takes it back, which leaves operation and summary aside."""
    return {"operation": call.command, "summary": summary, **json.loads(plan.to_json())}


def save_plan(path: str, data: dict[str, object]) -> None:
    """Write a plan to a file, or to standard output.

    Raises:
        InvalidRequestError: the file cannot be written.
    """
    from lakewright.storage.errors import InvalidRequestError

    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, "utf-8")
    except OSError as error:
        raise InvalidRequestError(f"plan {path} cannot be written: {error.strerror}") from error


def read_plan(call: Call, table: Table, kind: type[PlanT]) -> PlanT | None:
    """The plan in the file that was named, None if none was.

    Raises:
        InvalidRequestError: it is no plan of that verb and table, or options would contradict it.
    """
    from lakewright.storage.errors import InvalidRequestError

    if call.plan is None:
        return None
    if call.save_plan is not None:
        raise InvalidRequestError("--plan carries out a plan that is saved; leave --save-plan out")
    _check_nothing_else_planned()
    data = _plan_data(call.plan)
    operation = data.pop("operation", call.command)
    if operation != call.command:
        raise InvalidRequestError(
            f"plan {call.plan} is one of {operation}: "
            f"lakewright {operation} {call.table_name} --plan {call.plan}"
        )
    try:
        plan = kind.from_json(json.dumps(data))
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{call.plan} is no plan of {call.command}: {error.message}; "
            f"make one with `lakewright {call.command} … --save-plan FILE`"
        ) from error
    if plan.table != table.name:
        raise InvalidRequestError(f"the plan is for {plan.table}, and this is {table.name}")
    _check_partitions(call.plan, plan, table)
    return plan


def _check_nothing_else_planned() -> None:
    from lakewright.storage.errors import InvalidRequestError

    context = click.get_current_context()
    for param in context.command.params:
        given = context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if given and param.name != "table_name" and not isinstance(param, HowOption):
            name = param.opts[0] if isinstance(param, click.Option) else param.make_metavar(context)
            raise InvalidRequestError(f"--plan says what to do; leave {name} out, or plan again")


def _check_partitions(path: str, plan: Plan[Any], table: Table) -> None:
    """Refuse a plan whose parts name other partition columns than the table has."""
    from lakewright.storage import RespecPlan, SortCompactionPlan
    from lakewright.storage.errors import InvalidRequestError

    if isinstance(plan, SortCompactionPlan | RespecPlan):
        inner = plan.files if isinstance(plan, SortCompactionPlan) else plan.splits
        _check_partitions(path, inner, table)
        return
    keys = list(table.schema.partition_keys)
    for part in (*getattr(plan, "tasks", ()), *getattr(plan, "skipped", ())):
        if list(table.table_files.partitions.stored(part.partition)) != keys:
            raise InvalidRequestError(
                f"{path} is no plan of {table.name}: it names the partition {part.partition}, and "
                f"the partition keys are {', '.join(keys) or 'none'}"
            )


def _plan_data(path: str) -> dict[str, Any]:
    from lakewright.storage.codec.json_values import read_json
    from lakewright.storage.errors import InvalidRequestError

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
    except OSError as error:
        raise InvalidRequestError(f"plan {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"plan {path} is no text: {error}") from error
    try:
        data = read_json(text)
    except ValueError as error:
        raise InvalidRequestError(f"plan {path} is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise InvalidRequestError(f"plan {path} is no JSON object, but a {type(data).__name__}")
    return data
