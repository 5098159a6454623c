"""Evolving a schema as a verb: what makes a table as declared, as far as its policy allows it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from lakewright.platform.tables.declarations import OnDestructive, TableDeclaration
from lakewright.platform.tables.declared_changes import DeclaredChanges
from lakewright.platform.tables.schema_drift import lines_to_declare, schema_drift
from lakewright.platform.tables.workspace import Workspace
from lakewright.platform.upkeep.alter import (
    ALTER,
    NOT_ALTERED_BACK,
    AlterOptions,
    alter_line,
    given_texts,
)
from lakewright.platform.upkeep.dependents import NO_WORKSPACE, dependents_of
from lakewright.platform.upkeep.findings import verdict_code
from lakewright.platform.upkeep.gate_options import rules_of, scan_engine
from lakewright.platform.upkeep.procedure import Command, Outcome, Procedure, Report, Work
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Engine, Table
from lakewright.storage.errors import InvalidSchema
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.verb_options import choice, option
from lakewright.storage.operations.schema.alter import AlterPlan, AlterResult, run_alter
from lakewright.storage.spec.schema_change import SchemaChange
from lakewright.storage.spec.schema_change_text import parse_changes, shown, texts_in_turn
from lakewright.storage.verb import Verb


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolveOptions(AlterOptions):
    """Changes as texts, which are made as they are; without any, those that the table lacks."""

    on_destructive: OnDestructive | None = option(
        choice(OnDestructive),
        None,
        "How to handle changes that may lose stored values: refuse, plan, allow "
        "(default: the declaration's).",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolvePlan(Plan[AlterResult]):
    """The changes of one run; `waiting` are destructive ones, which wait for a person.

    `keys` tells a change of the partition keys, which the verb `respec` makes. `undeclared` has the
    lines that declare columns which runs added, and which stay.
    """

    table: str
    now: AlterPlan
    waiting: tuple[SchemaChange, ...] = ()
    losses: tuple[str, ...] = ()
    keys: str = ""
    undeclared: tuple[str, ...] = ()


def evolution_to(
    declaration: TableDeclaration, workspace: Workspace = NO_WORKSPACE
) -> Procedure[EvolveOptions, EvolvePlan, AlterResult]:
    """The verb that makes a table as declared, or applies the changes that its options name.

    The gate asks who uses the columns in the workspace.
    """

    def plan(
        files: TableFiles, options: EvolveOptions, *, engine: Engine | None = None
    ) -> EvolvePlan:
        table = Table(files)
        texts = given_texts(options)
        waiting: tuple[SchemaChange, ...] = ()
        losses: tuple[str, ...] = ()
        keys = ""
        undeclared: tuple[str, ...] = ()
        if any(texts.values()):
            changes = tuple(parse_changes(texts))
        else:
            drift = schema_drift(declaration, table)
            found, undeclared = drift.found, tuple(lines_to_declare(drift.undeclared))
            if found.others:
                raise InvalidSchema(
                    f"table {table.name} cannot become as declared by a change of its schema: "
                    f"{'; '.join(found.others)}; change the declaration"
                )
            policy = options.on_destructive or declaration.schema_policy.on_destructive
            changes = _made(table, found, policy)
            waiting = tuple(change for change in found.changes if change not in changes)
            losses = tuple(_told(found)) if waiting else ()
            keys = "" if found.keys is None else str(found.keys)
        now = AlterPlan(table=table.name, schema_id=table.schema.id, changes=(), differences=())
        if changes:
            users = dependents_of(workspace, table, is_declared_change=not any(texts.values()))
            rules = rules_of(
                options,
                table,
                declaration,
                changes,
                dependents=users,
                is_scanned=engine is not None,
            )
            now = table.plan_alter(*changes, rules=rules, engine=engine)
        return EvolvePlan(
            table=table.name,
            now=now,
            waiting=waiting,
            losses=losses,
            keys=keys,
            undeclared=undeclared,
        )

    def scan(table: Table, made: EvolvePlan, options: EvolveOptions, work: Work) -> EvolvePlan:
        engine = scan_engine(options, made.now, work)
        return made if engine is None else plan(table.table_files, options, engine=engine)

    return Procedure(
        verb=Verb(
            "evolve_schema",
            "change the schema of a table to its declaration",
            EvolveOptions,
            plan,
            run_alter,
            not_undone=NOT_ALTERED_BACK,
        ),
        options=EvolveOptions,
        run=lambda table, plan, options, work: table.run_alter(
            plan.now, scan_engine(options, plan.now, work)
        ),
        report=_report,
        command=Command(exit_code=_exit_code),
        scan=scan,
    )


def _exit_code(done: Outcome[EvolveOptions, EvolvePlan, AlterResult]) -> int:
    """That of the judged change; 1 if the table is not as declared afterwards."""
    judged = 0 if done.result else verdict_code(done.plan.now)
    return max(judged, int(bool(done.plan.waiting or done.plan.keys)))


def _made(table: Table, found: DeclaredChanges, policy: OnDestructive) -> tuple[SchemaChange, ...]:
    """The changes that are made now, by the policy of the declaration."""
    if not found.destructive or policy is OnDestructive.ALLOW:
        return found.changes
    if policy is OnDestructive.REFUSE:
        raise InvalidSchema(
            f"the declaration of {table.name} asks for destructive changes: "
            f"{'; '.join(_told(found))}; schema.on_destructive is refuse, so nothing was "
            f"changed: make the changes by `lakewright alter {table.name}`, or name them in the "
            "run config of evolve_schema in the job upkeep, or correct the declaration"
        )
    return found.harmless


def _told(found: DeclaredChanges) -> list[str]:
    return [f"{shown(change)} ({found.losses[change]})" for change in found.destructive]


def _report(table: Table, done: Outcome[EvolveOptions, EvolvePlan, AlterResult]) -> Report:
    plan = done.plan
    altered = ALTER.report(
        table, Outcome(options=AlterOptions(), plan=plan.now, result=done.result)
    )
    altered = replace(altered, only_tells=not plan.now.changes)
    if plan.undeclared:
        count = counted(len(plan.undeclared), "column")
        altered = replace(
            altered,
            summary=(
                f"{altered.summary}; {count} that runs added (evolve: additive) stay, though not "
                "declared"
            ),
            notes=(*altered.notes, *(f"add to columns: {each}" for each in plan.undeclared)),
            is_empty=False,
        )
    if plan.keys:
        told = f"`lakewright respec` (respec in the job upkeep) has to {plan.keys}"
        altered = replace(
            altered,
            summary=f"{altered.summary}; {told}",
            notes=(*altered.notes, told),
            is_empty=False,
        )
    if not plan.waiting:
        return altered
    told = altered.summary if plan.now.changes else f"schema {plan.now.schema_id} of {plan.table}"
    calls = texts_in_turn(plan.waiting)
    lines = [alter_line(plan.table, call) for call in calls]
    return replace(
        altered,
        summary=f"{told}; {counted(len(plan.waiting), 'change')} to be accepted by name",
        facts={
            **altered.facts,
            "changes_to_accept": len(plan.waiting),
            "accept_by_command": "; ".join(lines),
            "accept_by_run_config": "; ".join(map(json.dumps, calls)),
        },
        notes=(
            *altered.notes,
            *(f"to be accepted: {loss}" for loss in plan.losses),
            *(f"accept it by: {line}" for line in lines),
        ),
        is_empty=False,
    )
