"""What a declaration would change in its table, judged as altering it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.declared_changes import KeysChange, declared_changes
from lakewright.platform.tables.workspace import Workspace
from lakewright.platform.upkeep.alter import alter_by
from lakewright.platform.upkeep.dependents import NO_WORKSPACE, dependents_of
from lakewright.platform.upkeep.gate_options import GateOptions, rules_of
from lakewright.platform.upkeep.procedure import Outcome, Procedure, Report
from lakewright.platform.upkeep.respec import respec_line
from lakewright.storage import Engine, Table
from lakewright.storage.operations.running.effects import Effect
from lakewright.storage.operations.schema.alter import AlterPlan, AlterResult
from lakewright.storage.spec.schema_gate import Finding, Rule, Severity

DiffVerb = Procedure[GateOptions, AlterPlan, AlterResult]


def difference_to(
    declaration: TableDeclaration,
    workspace: Workspace = NO_WORKSPACE,
    *,
    notes: tuple[str, ...] = (),
) -> DiffVerb:
    """The verb whose plan has every difference between a table and its declaration.

    `notes` say what of a contract is not compared.
    """

    def planned(table: Table, options: GateOptions, engine: Engine | None) -> AlterPlan:
        # A contract is not the declaration, which would have to follow.
        declared = workspace.declaration(declaration.table)
        is_declared = declared is declaration
        wanted = declared_changes(declaration, table.schema)
        rules = rules_of(
            options,
            table,
            declared,
            wanted.changes,
            dependents=dependents_of(workspace, table, is_declared_change=is_declared),
            is_scanned=engine is not None,
        )
        plan = AlterPlan(table=table.name, schema_id=table.schema.id, changes=(), differences=())
        if wanted.changes:
            plan = table.plan_alter(*wanted.changes, rules=rules, engine=engine)
        found = (*_refused(wanted.others), *_keys_finding(table, wanted.keys))
        return replace(plan, findings=(*found, *plan.findings)) if found else plan

    verb = alter_by(GateOptions, planned, effect=Effect.READS)

    def report(table: Table, done: Outcome[GateOptions, AlterPlan, AlterResult]) -> Report:
        told = verb.report(table, done)
        facts = {**told.facts, "notes": list(notes)} if notes else told.facts
        return replace(told, facts=facts, notes=(*told.notes, *notes))

    return replace(verb, report=report)


def _keys_finding(table: Table, change: KeysChange | None) -> Iterator[Finding]:
    """A change of the partition keys, which restates the files and rewrites some of them."""
    if change is not None:
        yield Finding(
            rule=Rule.REWRITE_FIRST,
            severity=Severity.REWRITE,
            column=None,
            message=str(change),
            way_out=f"see what it would split, and change them: "
            f"{respec_line(table.name, change.keys)} --dry-run",
            details={"keys_before": list(change.former), "keys_after": list(change.keys)},
        )


def _refused(others: tuple[str, ...]) -> Iterator[Finding]:
    """Differences that no change of a schema can remove."""
    for told in others:
        yield Finding(
            rule=Rule.REFUSED,
            severity=Severity.BREAKING,
            column=None,
            message=told,
            # What renames in a circle has its own way out.
            way_out="" if "; " in told else "declare what the table has, or make a new table",
        )
