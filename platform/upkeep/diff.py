"""What a declaration would change in its table, judged as altering it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.declared_changes import declared_changes
from lakewright.platform.upkeep.alter import DependentsOf, alter_verb, no_dependents
from lakewright.platform.upkeep.gate_options import GateOptions, rules_of
from lakewright.platform.upkeep.verb import Verb
from lakewright.storage import AlterPlan, AlterResult, Engine, Table
from lakewright.storage.spec.schema_gate import Finding, Rule, Severity

DiffVerb = Verb[GateOptions, AlterPlan, AlterResult]


def difference_to(
    declaration: TableDeclaration, dependents: DependentsOf = no_dependents
) -> DiffVerb:
    """The verb whose plan has every difference between a table and its declaration."""

    def planned(table: Table, options: GateOptions, engine: Engine | None) -> AlterPlan:
        rules = rules_of(
            options, table, dependents=dependents(table), is_scanned=engine is not None
        )
        wanted = declared_changes(declaration, table.schema)
        plan = AlterPlan(table=table.name, schema_id=table.schema.id, changes=(), differences=())
        if wanted.changes:
            plan = table.plan_alter(*wanted.changes, rules=rules, engine=engine)
        refused = tuple(_refused(wanted.others))
        return replace(plan, findings=(*refused, *plan.findings)) if refused else plan

    return alter_verb(GateOptions, planned)


def _refused(others: tuple[str, ...]) -> Iterator[Finding]:
    """Differences that no change of a schema can remove."""
    for told in others:
        yield Finding(
            rule=Rule.REFUSED,
            severity=Severity.BREAKING,
            column=None,
            message=told,
            way_out="declare what the table has, or make a new table",
        )
