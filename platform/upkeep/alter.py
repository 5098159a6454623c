"""Altering a schema as a verb: changes as texts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from lakewright.platform.upkeep.verb import Outcome, Report, Verb, option
from lakewright.platform.upkeep.words import counted
from lakewright.storage import AlterPlan, AlterResult, Table
from lakewright.storage.spec.schema_change_text import parse_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOptions:
    """Changes as texts, by kind; `spec/schema_change_text.py` says their order and forms."""

    drop: tuple[str, ...] = option((), "Drop a column; r.c is member c of row r.")
    rename: tuple[str, ...] = option((), "Rename a column: OLD:NEW.")
    add: tuple[str, ...] = option(
        (), "Add a column: NAME TYPE [DEFAULT 'v'] [COMMENT 't'] [FIRST|LAST|AFTER x|BEFORE x]."
    )
    type: tuple[str, ...] = option((), "Change the type of a column: COLUMN:TYPE.")
    nullable: tuple[str, ...] = option((), "Allow null in a column.")
    not_null: tuple[str, ...] = option((), "Refuse null in a column.")
    default: tuple[str, ...] = option((), "What later writes put in place of null: COLUMN:VALUE.")
    no_default: tuple[str, ...] = option((), "Remove the default of a column.")
    comment: tuple[str, ...] = option((), "Comment a column: COLUMN:TEXT.")
    no_comment: tuple[str, ...] = option((), "Remove the comment of a column.")
    move: tuple[str, ...] = option((), "Move a column: NAME FIRST|LAST|AFTER x|BEFORE x.")
    set: tuple[str, ...] = option((), "Set an option: OPTION=VALUE.")
    reset: tuple[str, ...] = option((), "Reset an option to its default.")
    table_comment: tuple[str, ...] = option((), "Comment the table.")


def given_texts(options: AlterOptions) -> dict[str, tuple[str, ...]]:
    """The texts of the changes that the options name, by kind."""
    return {each.name: getattr(options, each.name) for each in fields(AlterOptions)}


def alter_line(table: str, texts: Mapping[str, Sequence[str]]) -> str:
    """The call of `lakewright alter` with these texts, for a shell."""
    words = ["lakewright", "alter", table]
    for kind, given in texts.items():
        for text in given:
            words += [f"--{kind.replace('_', '-')}", text]
    return shlex.join(words)


def _plan(table: Table, options: AlterOptions) -> AlterPlan:
    return table.plan_alter(*parse_changes(given_texts(options)))


def _report(_: Table, done: Outcome[AlterOptions, AlterPlan, AlterResult]) -> Report:
    plan, result = done.plan, done.result
    count = counted(len(plan.differences), "difference")
    if not plan.differences:
        summary = f"schema {plan.schema_id} of {plan.table} is as wanted"
    elif result is None:
        summary = f"schema {plan.schema_id} of {plan.table} to change: {count}"
    else:
        summary = f"{plan.table} has schema {result.schema.id}: {count} to {plan.schema_id}"
    facts: dict[str, object] = {"schema_id": plan.schema_id, "differences": list(plan.differences)}
    if result is not None:
        facts |= {"schema_id": result.schema.id, "previous_schema_id": result.previous_schema_id}
    return Report(
        summary=summary,
        facts=facts,
        notes=plan.differences,
        is_empty=not plan.differences,
    )


ALTER: Verb[AlterOptions, AlterPlan, AlterResult] = Verb(
    name="alter",
    description="change the schema: columns, members of rows, types, options",
    options=AlterOptions,
    plan_type=AlterPlan,
    plan=_plan,
    run=lambda table, plan, options, work: table.run_alter(plan),
    report=_report,
)
