"""Altering a schema as a verb: changes as texts, or those that lead to a declaration."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.declared_changes import declared_changes
from lakewright.platform.upkeep.verb import Outcome, Report, Verb, option
from lakewright.platform.upkeep.words import counted
from lakewright.storage import AlterPlan, AlterResult, DropColumn, Table
from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.schema_change_text import parse_changes

_ALLOWED = ("drop_undeclared", "allow_loss")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolveOptions(AlterOptions):
    """Changes as texts; without any, those that make the table as it is declared."""

    drop_undeclared: bool = option(
        False, "Drop columns that are not declared; otherwise they stay."
    )
    allow_loss: bool = option(
        False, "Make changes of types by which stored values may change or become null."
    )


def _texts(options: AlterOptions) -> dict[str, tuple[str, ...]]:
    return {
        each.name: getattr(options, each.name)
        for each in fields(options)
        if each.name not in _ALLOWED
    }


def _plan(table: Table, options: AlterOptions) -> AlterPlan:
    return table.plan_alter(*parse_changes(_texts(options)))


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


def evolution_to(declaration: TableDeclaration) -> Verb[EvolveOptions, AlterPlan, AlterResult]:
    """The verb that makes a table as declared, or applies the changes that its options name."""

    def plan(table: Table, options: EvolveOptions) -> AlterPlan:
        if any(_texts(options).values()):
            return _plan(table, options)
        wanted = declared_changes(declaration, table.schema)
        if wanted.others:
            raise InvalidSchema(
                f"table {table.name} cannot become as declared by a change of its schema: "
                f"{'; '.join(wanted.others)}; change the declaration",
                table=table.name,
            )
        changes = [
            change
            for change in wanted.changes
            if options.drop_undeclared or not isinstance(change, DropColumn)
        ]
        if changes:
            planned = table.plan_alter(*changes)
            if planned.losses and not options.allow_loss:
                raise InvalidSchema(
                    f"stored values of {table.name} may change as its types become those that are "
                    f"declared: {'; '.join(planned.losses)}; set allow_loss to accept it",
                    table=table.name,
                )
            return planned
        return AlterPlan(table=table.name, schema_id=table.schema.id, changes=(), differences=())

    return replace(ALTER, options=EvolveOptions, plan=plan)  # type: ignore[arg-type,return-value]
