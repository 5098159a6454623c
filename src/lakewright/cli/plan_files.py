"""Plan files: what `plan … --json` wrote, read back for `run … --plan`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from lakewright.storage import (
    CompactionPlan,
    ExpirePlan,
    PostponePlan,
    RescalePlan,
    SortCompactionPlan,
    Table,
)
from lakewright.storage.codec.json_values import read_json
from lakewright.storage.errors import InvalidRequestError

Plan = TypeVar("Plan", CompactionPlan, SortCompactionPlan, RescalePlan, PostponePlan, ExpirePlan)
AnyPlan = CompactionPlan | SortCompactionPlan | RescalePlan | PostponePlan | ExpirePlan


def read_plan(
    parsed: argparse.Namespace, table: Table, kind: type[Plan], planning_options: Sequence[str]
) -> Plan | None:
    """The plan in the file that was named, None if none was.

    Raises:
        InvalidRequestError: it is no plan of that verb and table, or options would contradict it.
    """
    if parsed.command == "plan" or parsed.plan is None:
        return None
    for option in planning_options:
        given = getattr(parsed, option)
        # Zero is given too: --older-than 0s.
        if given is not None and given is not False:
            name = option.replace("_", "-")
            raise InvalidRequestError(f"--plan says what to do; leave --{name} out, or plan again")
    data = _plan_data(parsed.plan)
    operation = data.pop("operation", parsed.verb)
    if operation != parsed.verb:
        raise InvalidRequestError(
            f"plan {parsed.plan} is one of {operation}: lakewright run {operation} {parsed.table} "
            f"--plan {parsed.plan}"
        )
    try:
        plan = kind.from_json(json.dumps(data))
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{parsed.plan} is no plan of {parsed.verb}: {error.message}; "
            f"make one with `lakewright plan {parsed.verb} … --json`"
        ) from error
    if plan.table != table.name:
        raise InvalidRequestError(f"the plan is for {plan.table}, and this is {table.name}")
    _check_partitions(parsed.plan, plan, table)
    return plan


def _check_partitions(path: str, plan: AnyPlan, table: Table) -> None:
    """Refuse a plan whose parts name other partition columns than the table has."""
    if isinstance(plan, SortCompactionPlan):
        _check_partitions(path, plan.files, table)
        return
    keys = list(table.schema.partition_keys)
    parts = [] if isinstance(plan, ExpirePlan) else [*plan.tasks, *getattr(plan, "skipped", ())]
    for part in parts:
        if list(table.files.partitions.stored(part.partition)) != keys:
            raise InvalidRequestError(
                f"{path} is no plan of {table.name}: it names the partition {part.partition}, and "
                f"the partition keys are {', '.join(keys) or 'none'}"
            )


def _plan_data(path: str) -> dict[str, Any]:
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
