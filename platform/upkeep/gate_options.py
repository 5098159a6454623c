"""What a person tells the gate in front of a change of a schema, and the rules made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from lakewright.platform.documents.wrong_places import did_you_mean
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.platform.upkeep.procedure import Work
from lakewright.platform.upkeep.run_options import ENGINE
from lakewright.storage import Engine, Table
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.running.verb_options import (
    FLAG,
    TEXT,
    choice,
    option,
    texts,
)
from lakewright.storage.operations.schema.alter import AlterPlan
from lakewright.storage.spec.changed_parts import part_paths
from lakewright.storage.spec.schema_change import SchemaChange
from lakewright.storage.spec.schema_evolution import EvolvingTable, evolved_as_far_as_possible
from lakewright.storage.spec.schema_gate import (
    EVERY_COLUMN,
    Compatibility,
    Dependent,
    GateRules,
    Rule,
    Waiver,
)

_WAIVED = {each.value: each for each in Rule if each.can_be_waived}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """How the gate judges a change of a schema."""

    compatibility: Compatibility | None = option(
        choice(Compatibility),
        None,
        "Which readers must not break (default: as declared, else BACKWARD).",
    )
    contract: tuple[str, ...] = option(
        texts(), (), "Protect this column only (default: as declared, else every one)."
    )
    reader: tuple[str, ...] = option(texts(), (), "A client that must be able to read the table.")
    waive: tuple[str, ...] = option(
        texts(), (), "Accept the findings of a rule: RULE or RULE:COLUMN."
    )
    owner: str | None = option(TEXT, None, "Who accepts what is waived.")
    until: str | None = option(TEXT, None, "The last day of the waivers, such as 2027-01-31.")
    scan: bool = option(FLAG, False, "Read stored values where statistics do not decide.")
    engine: EngineChoice = option(
        ENGINE, EngineChoice.AUTO, "Where values are read; auto: Spark if large."
    )


def rules_of(
    options: GateOptions,
    table: Table,
    declaration: TableDeclaration | None,
    changes: Sequence[SchemaChange],
    *,
    dependents: Sequence[Dependent] = (),
    is_scanned: bool = False,
) -> GateRules:
    """The rules that options give; what they leave out, the declaration of the table gives.

    A waiver of the options names a column that the table has before or after the changes. One of
    the declaration may name a column that went.

    Raises:
        InvalidRequestError: a rule, a column or a day does not exist, or a waiver lacks its owner.
    """
    declared = GateRules() if declaration is None else declaration.schema_policy.gate_rules
    return GateRules(
        compatibility=options.compatibility or declared.compatibility,
        columns=_contract(options.contract, table) or declared.columns,
        readers=options.reader or declared.readers,
        waivers=(*_waivers(options, table, changes), *declared.waivers),
        dependents=tuple(dependents),
        is_scanned=is_scanned,
    )


def scan_engine(options: GateOptions, plan: AlterPlan, work: Work) -> Engine | None:
    """The engine that reads a sample, and what statistics leave open; None without a scan."""
    sizes = [finding.details.get("bytes_to_scan") for finding in plan.findings]
    open_sizes = [size for size in sizes if isinstance(size, int)]
    if not options.scan:
        return None
    return work.engine(options.engine, sum(open_sizes))


def _contract(names: Sequence[str], table: Table) -> tuple[str, ...]:
    known = table.schema.field_names
    for name in names:
        if name not in known:
            raise InvalidRequestError(
                f"contract names {name!r}, which is no column of {table.name}; "
                f"{did_you_mean(name, known)}"
            )
    return tuple(names)


def _waivers(
    options: GateOptions, table: Table, changes: Sequence[SchemaChange]
) -> tuple[Waiver, ...]:
    if not options.waive:
        if options.owner or options.until:
            raise InvalidRequestError("owner and until belong to a waiver; add waive: RULE")
        return ()
    if not options.owner or not options.until:
        missing = "owner" if not options.owner else "until"
        raise InvalidRequestError(f"a waiver needs owner and until; {missing} is missing")
    try:
        day = date.fromisoformat(options.until)
    except ValueError:
        raise InvalidRequestError(
            f"until is {options.until!r}, which is no day; write for example 2027-01-31"
        ) from None
    waivers = tuple(_waiver(text, options.owner, day) for text in options.waive)
    known = {EVERY_COLUMN, *_paths(table, changes)}
    for waiver in waivers:
        if waiver.column not in known:
            raise InvalidRequestError(
                f"waive names {waiver.column!r}, which is no column of {table.name}; "
                f"{did_you_mean(waiver.column, known - {EVERY_COLUMN})}"
            )
    return waivers


def _paths(table: Table, changes: Sequence[SchemaChange]) -> frozenset[str]:
    """The paths of columns and members before the changes and after them."""
    # What is refused is a finding of the plan, and of no interest here.
    state = EvolvingTable(table.name, has_snapshots=False)
    after, _ = evolved_as_far_as_possible(table.schema, changes, state, time_millis=0)
    return part_paths(table.schema.fields) | part_paths(after.fields)


def _waiver(text: str, owner: str, until: date) -> Waiver:
    name, _, column = text.partition(":")
    rule = _WAIVED.get(name)
    if name == Rule.REFUSED.value:
        raise InvalidRequestError(
            "a change that is refused cannot be waived: it is not possible; leave it out"
        )
    if rule is None:
        raise InvalidRequestError(
            f"there is no rule {name!r} to waive; {did_you_mean(name, _WAIVED)}"
        )
    return Waiver(rule=rule, column=column or EVERY_COLUMN, owner=owner, until=until.isoformat())
