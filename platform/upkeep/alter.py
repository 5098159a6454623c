"""Altering a schema as a verb: changes as texts."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from lakewright.platform.tables.workspace import Workspace
from lakewright.platform.upkeep.dependents import NO_WORKSPACE, dependents_of
from lakewright.platform.upkeep.findings import (
    difference_rows,
    finding_rows,
    verdict_code,
    verdict_facts,
    verdict_text,
)
from lakewright.platform.upkeep.gate_options import GateOptions, rules_of, scan_engine
from lakewright.platform.upkeep.procedure import Command, Outcome, Procedure, Report, Work
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Engine, Table
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.effects import Effect
from lakewright.storage.operations.running.verb_options import option, texts
from lakewright.storage.operations.schema.alter import AlterPlan, AlterResult, run_alter
from lakewright.storage.spec.schema_change_text import parse_changes
from lakewright.storage.verb import Verb

_GATE = {field.name for field in fields(GateOptions)}

OptionsT = TypeVar("OptionsT", bound=GateOptions)


NOT_ALTERED_BACK = (
    "a change of a schema makes a new version, which no rollback removes: alter it back"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOptions(GateOptions):
    """Changes as texts, by kind; `spec/schema_change_text.py` says their order and forms.

    The gate's options say how the changes are judged.
    """

    drop: tuple[str, ...] = option(texts(), (), "Drop a column; r.c is member c of row r.")
    rename: tuple[str, ...] = option(texts(), (), "Rename a column: OLD:NEW.")
    add: tuple[str, ...] = option(
        texts(),
        (),
        "Add a column: NAME TYPE [DEFAULT 'v'] [COMMENT 't'] [FIRST|LAST|AFTER x|BEFORE x].",
    )
    type: tuple[str, ...] = option(texts(), (), "Change the type of a column: COLUMN:TYPE.")
    nullable: tuple[str, ...] = option(texts(), (), "Allow null in a column.")
    not_null: tuple[str, ...] = option(texts(), (), "Refuse null in a column.")
    default: tuple[str, ...] = option(
        texts(), (), "What later writes put in place of null: COLUMN:VALUE."
    )
    no_default: tuple[str, ...] = option(texts(), (), "Remove the default of a column.")
    comment: tuple[str, ...] = option(texts(), (), "Comment a column: COLUMN:TEXT.")
    no_comment: tuple[str, ...] = option(texts(), (), "Remove the comment of a column.")
    move: tuple[str, ...] = option(texts(), (), "Move a column: NAME FIRST|LAST|AFTER x|BEFORE x.")
    set: tuple[str, ...] = option(texts(), (), "Set an option: OPTION=VALUE.")
    reset: tuple[str, ...] = option(texts(), (), "Reset an option to its default.")
    table_comment: tuple[str, ...] = option(texts(), (), "Comment the table.")


# The kinds of changes.
TEXTS = tuple(field.name for field in fields(AlterOptions) if field.name not in _GATE)


def given_texts(options: AlterOptions) -> dict[str, tuple[str, ...]]:
    """The texts of the changes that the options name, by kind."""
    return {name: getattr(options, name) for name in TEXTS}


def alter_line(table: str, texts: Mapping[str, Sequence[str]]) -> str:
    """The call of `lakewright alter` with these texts, for a shell."""
    words = ["lakewright", "alter", table]
    for kind, given in texts.items():
        for text in given:
            words += [f"--{kind.replace('_', '-')}", text]
    return shlex.join(words)


def _report(_: Table, done: Outcome[OptionsT, AlterPlan, AlterResult]) -> Report:
    plan, result = done.plan, done.result
    count = counted(len(plan.differences), "difference")
    found = finding_rows(plan.findings)
    facts: dict[str, object] = {"schema_id": plan.schema_id, "differences": list(plan.differences)}
    if result is None:
        facts |= verdict_facts(plan)
    is_idle = not plan.differences and not plan.findings
    if is_idle:
        summary = f"schema {plan.schema_id} of {plan.table} is as wanted"
    elif result is None:
        summary = (
            f"schema {plan.schema_id} of {plan.table} to change: {count}; {verdict_text(plan)}"
        )
    else:
        summary = f"{plan.table} has schema {result.schema.id}: {count} to schema {plan.schema_id}"
        facts |= {"schema_id": result.schema.id, "previous_schema_id": result.previous_schema_id}
        facts["findings"] = found
    return Report(
        summary=summary,
        facts=facts,
        rows=[*difference_rows(plan.differences), *found],
        tables={"findings": found},
        notes=plan.differences,
        is_empty=is_idle,
    )


Planned = Callable[[Table, OptionsT, Engine | None], AlterPlan]


def alter_by(
    options: type[OptionsT], planned: Planned[OptionsT], *, effect: Effect = Effect.ALONE
) -> Procedure[OptionsT, AlterPlan, AlterResult]:
    """Altering by a plan; with an engine, the gate reads values for it."""

    def plan(files: TableFiles, asked: OptionsT, *, engine: Engine | None = None) -> AlterPlan:
        return planned(Table(files), asked, engine)

    def scan(table: Table, made: AlterPlan, asked: OptionsT, work: Work) -> AlterPlan:
        engine = scan_engine(asked, made, work)
        return made if engine is None else planned(table, asked, engine)

    return Procedure(
        verb=Verb(
            "alter",
            "change the schema: columns, types, options",
            options,
            plan,
            run_alter,
            effect=effect,
            not_undone=NOT_ALTERED_BACK,
        ),
        options=options,
        run=lambda table, plan, asked, work: table.run_alter(plan, scan_engine(asked, plan, work)),
        report=_report,
        command=Command(exit_code=lambda done: 0 if done.result else verdict_code(done.plan)),
        scan=scan,
    )


def altering(
    workspace: Workspace = NO_WORKSPACE,
) -> Procedure[AlterOptions, AlterPlan, AlterResult]:
    """Applies changes as texts; the gate asks who uses the columns in a workspace."""

    def planned(table: Table, options: AlterOptions, engine: Engine | None) -> AlterPlan:
        changes = parse_changes(given_texts(options))
        rules = rules_of(
            options,
            table,
            workspace.declaration(table.name),
            changes,
            dependents=dependents_of(workspace, table),
            is_scanned=engine is not None,
        )
        return table.plan_alter(*changes, rules=rules, engine=engine)

    return alter_by(AlterOptions, planned)


ALTER = altering()
