"""Saved plans: the JSON of a plan, with the verb that made it, read back for another process.

What a file or a run's config holds was written by a person or a program, so all of it is checked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lakewright.platform.upkeep.procedure import AnyProcedure
from lakewright.storage import Table
from lakewright.storage.codec.json_values import read_json
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.respec.respec_plan import RespecPlan
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.spec.partition_words import name_partition

# The verb that made a plan; a plan that Python saved has no such key.
_VERB = "verb"


def plan_record(verb: AnyProcedure, plan: Plan[Any]) -> dict[str, Any]:
    """A plan as JSON values, with its verb."""
    return {_VERB: verb.name, **json.loads(plan.to_json())}


def given_plan(
    given: object, verbs: Sequence[AnyProcedure], table: Table
) -> tuple[AnyProcedure, Plan[Any]] | None:
    """The plan of a run's config, and which of its verbs it is for; None if none is given.

    A plan is given as JSON, or by the path of a file that holds it.

    Raises:
        InvalidRequestError: it is no plan of these verbs and this table, or the file cannot be
            read.
    """
    if given is None:
        return None
    where = "the plan of the run's config"
    if isinstance(given, str):
        if not given.lstrip().startswith("{"):
            where = f"plan {given}"
            given = read_plan_text(given)
        data = plan_object(given, where)
    elif isinstance(given, Mapping):
        data = dict(given)
    else:
        raise InvalidRequestError(
            f"{where} is a {type(given).__name__}; give the JSON object, or the path of its file"
        )
    verb = _verb_of(data, verbs, where)
    return verb, plan_of(data, verb, table, where)


def read_plan_text(path: str) -> str:
    """The text of a plan's file.

    Raises:
        InvalidRequestError: it cannot be read, or is no text.
    """
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise InvalidRequestError(f"plan {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"plan {path} is no text: {error}") from error


def plan_object(text: str, where: str) -> dict[str, Any]:
    """The JSON object of a plan.

    Raises:
        InvalidRequestError: the text is no JSON, or no object.
    """
    try:
        data = read_json(text)
    except ValueError as error:
        raise InvalidRequestError(f"{where} is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise InvalidRequestError(f"{where} is no JSON object, but a {type(data).__name__}")
    return data


def plan_of(data: Mapping[str, Any], verb: AnyProcedure, table: Table, where: str) -> Plan[Any]:
    """The plan of a verb for a table.

    Raises:
        InvalidRequestError: it is no plan of that verb and table.
    """
    made_by = data.get(_VERB, verb.name)
    if made_by != verb.name:
        raise InvalidRequestError(f"{where} is one of {made_by}, and this is {verb.name}")
    try:
        plan: Plan[Any] = verb.plan_type.from_json(json.dumps(data))
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"{where} is no plan of {verb.name}: {error.message}; plan again, and save it"
        ) from error
    if plan.table != table.name:
        raise InvalidRequestError(f"the plan is for {plan.table}, and this is {table.name}")
    _check_partitions(where, plan, table)
    return plan


def _verb_of(data: Mapping[str, Any], verbs: Sequence[AnyProcedure], where: str) -> AnyProcedure:
    """The verb that made the plan; of a plan that does not tell, the last of the job's verbs."""
    made_by = data.get(_VERB, verbs[-1].name)
    for verb in verbs:
        if verb.name == made_by:
            return verb
    known = " or ".join(verb.name for verb in verbs)
    raise InvalidRequestError(f"{where} is one of {made_by}, and this job carries out {known}")


def _check_partitions(where: str, plan: Plan[Any], table: Table) -> None:
    """Refuse a plan whose parts name other partition columns than the table has."""
    if isinstance(plan, RespecPlan):
        # Partitions of another schema are left to the run, which tells what became of that.
        if plan.schema_id == table.schema.id:
            _check_partitions(where, plan.splits, table)
        return
    keys = list(table.schema.partition_keys)
    for part in (*getattr(plan, "tasks", ()), *getattr(plan, "skipped", ())):
        if list(table.table_files.partitions.stored(part.partition)) != keys:
            raise InvalidRequestError(
                f"{where} is no plan of {table.name}: it names "
                f"{name_partition(part.partition)}, and the partition keys are "
                f"{', '.join(keys) or 'none'}"
            )
