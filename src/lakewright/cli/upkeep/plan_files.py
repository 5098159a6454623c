"""Plan files: what `--save-plan` writes and `--plan` reads back."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from lakewright.cli.grammar.call import Call
from lakewright.cli.grammar.command import HowOption
from lakewright.platform.upkeep.procedure import AnyProcedure
from lakewright.platform.upkeep.saved_plans import (
    plan_object,
    plan_of,
    plan_record,
    read_plan_text,
)

if TYPE_CHECKING:
    from lakewright.storage import Table
    from lakewright.storage.operations.running.plan import Plan


def plan_data(
    call: Call, verb: AnyProcedure, plan: Plan[Any], summary: Mapping[str, object]
) -> dict[str, object]:
    """A plan as `--plan` takes it back, which leaves operation and summary aside."""
    return {"operation": call.command, "summary": summary, **plan_record(verb, plan)}


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


def read_plan(call: Call, table: Table, verb: AnyProcedure) -> Plan[Any] | None:
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
    where = f"plan {call.plan}"
    text = sys.stdin.read() if call.plan == "-" else read_plan_text(call.plan)
    data = plan_object(text, where)
    operation = data.pop("operation", call.command)
    if operation != call.command:
        raise InvalidRequestError(
            f"{where} is one of {operation}: "
            f"lakewright {operation} {shlex.quote(call.table_name)} --plan {shlex.quote(call.plan)}"
        )
    return plan_of(data, verb, table, where)


def _check_nothing_else_planned() -> None:
    from lakewright.storage.errors import InvalidRequestError

    context = click.get_current_context()
    for param in context.command.params:
        given = context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if given and param.name != "table_name" and not isinstance(param, HowOption):
            name = param.opts[0] if isinstance(param, click.Option) else param.make_metavar(context)
            raise InvalidRequestError(f"--plan says what to do; leave {name} out, or plan again")
