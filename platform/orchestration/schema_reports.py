"""The drift between a table and its declaration, as an asset check and an observation show it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import dagster as dg

from lakewright.platform.orchestration.asset_lineage import with_other_assets
from lakewright.platform.orchestration.names import UPKEEP, TableNames
from lakewright.platform.orchestration.reports import whole_table_metadata
from lakewright.platform.tables.declaration_checks import SCHEMA_MATCHES
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.declared_changes import KeysChange
from lakewright.platform.tables.schema_drift import (
    SchemaDrift,
    lines_to_declare,
    schema_drift,
)
from lakewright.platform.tables.workspace import Workspace
from lakewright.platform.upkeep.alter import alter_line
from lakewright.platform.upkeep.dependents import dependents_of
from lakewright.platform.upkeep.respec import respec_line
from lakewright.platform.upkeep.words import counted
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.schema.alter import AlterPlan
from lakewright.storage.spec.schema_change import SchemaChange
from lakewright.storage.spec.schema_change_text import shown, texts_in_turn

EVOLVE = "evolve_schema"
RESPEC_JOB = "respec"
# The metadata entry with the schema and the declaration that an evaluation compared.
COMPARED = "lakewright/compared"

# What the gate answers to all changes together, or why it cannot; None if it was not asked.
GateAnswer = AlterPlan | StorageError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaEvaluation:
    """Whether a table is as declared; `severity` is ERROR where runs that write it are refused."""

    passed: bool
    severity: dg.AssetCheckSeverity
    description: str
    metadata: Mapping[str, Any]

    def event(self, names: TableNames, *, blocking: bool = False) -> dg.AssetCheckEvaluation:
        """The evaluation as an event that needs no step of the check; it may fail its own step."""
        return dg.AssetCheckEvaluation(
            asset_key=names.asset_key,
            check_name=SCHEMA_MATCHES,
            passed=self.passed,
            severity=self.severity,
            description=self.description,
            metadata=self.metadata,
            blocking=blocking,
        )

    def result(self) -> dg.AssetCheckResult:
        """The evaluation as the result of the check."""
        return dg.AssetCheckResult(
            passed=self.passed,
            severity=self.severity,
            description=self.description,
            metadata=self.metadata,
        )

    def observation(self, names: TableNames, table: Table) -> dg.AssetObservation:
        """The plan on the asset."""
        return dg.AssetObservation(
            names.asset_key,
            description=self.description,
            metadata={**whole_table_metadata(table), **self.metadata},
        )


def compared(declaration: TableDeclaration, schema_id: int) -> str:
    """A short text that changes with the schema of the table and with the declaration."""
    digest = blake2b(declaration.model_dump_json().encode(), digest_size=8).hexdigest()
    return f"schema {schema_id}, declaration {digest}"


def ask_gate(
    workspace: Workspace,
    declaration: TableDeclaration,
    names: TableNames,
    table: Table,
    drift: SchemaDrift,
    instance: dg.DagsterInstance,
) -> GateAnswer:
    """What the gate answers to the changes, by the rules and users that `evolve_schema` asks it by.

    It is not asked by runs that write the table: what stops it must not stop them.
    """
    if not drift.found.changes:
        return None
    try:
        known = with_other_assets(workspace, instance, names.keys)
        users = dependents_of(known, table, is_declared_change=True)
        rules = replace(declaration.schema_policy.gate_rules, dependents=tuple(users))
        return table.plan_alter(*drift.found.changes, rules=rules)
    except StorageError as error:
        return error


def judge_schema(
    workspace: Workspace,
    declaration: TableDeclaration,
    names: TableNames,
    catalog: Catalog,
    instance: dg.DagsterInstance,
) -> SchemaEvaluation:
    """The result of the check alone, outside of a run that writes the table."""
    drift, answer = None, None
    if catalog.table_exists(declaration.table):
        table = catalog.table(declaration.table)
        drift = schema_drift(declaration, table)
        answer = ask_gate(workspace, declaration, names, table, drift, instance)
    file = workspace.file_of(declaration.table)
    return evaluate_schema(declaration, names, drift, answer, file=file)


def evaluate_schema(
    declaration: TableDeclaration,
    names: TableNames,
    drift: SchemaDrift | None,
    answer: GateAnswer = None,
    *,
    file: str | None = None,
) -> SchemaEvaluation:
    """The result of the check; no drift is that of a table that does not exist yet.

    `file` is where the declaration is written, for people who change it rather than the table.
    """
    if drift is None:
        return SchemaEvaluation(
            passed=True,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"table {declaration.table} does not exist yet",
            metadata={},
        )
    refuses = declaration.is_written_here and bool(drift.reasons)
    return SchemaEvaluation(
        passed=not drift and not drift.undeclared,
        severity=dg.AssetCheckSeverity.ERROR if refuses else dg.AssetCheckSeverity.WARN,
        description=_description(drift, names, file, refuses=refuses),
        metadata={
            "lakewright/schema_id": drift.schema_id,
            COMPARED: compared(declaration, drift.schema_id),
            **_drift_metadata(drift, names, answer),
            **_undeclared_metadata(drift),
        },
    )


def _undeclared_metadata(drift: SchemaDrift) -> dict[str, Any]:
    if not drift.undeclared:
        return {}
    lines = _code("yaml", lines_to_declare(drift.undeclared))
    return {"lines to add to columns": dg.MetadataValue.md(lines)}


def _drift_metadata(drift: SchemaDrift, names: TableNames, answer: GateAnswer) -> dict[str, Any]:
    """The plan: each change, its text for the command line and run config, and what it changes."""
    if not drift:
        return {}
    metadata: dict[str, Any] = {"plan": dg.MetadataValue.md(_changes_table(drift))}
    if drift.found.changes:
        config = json.dumps(names.run_config(EVOLVE, {}))
        metadata["run config, as declared"] = dg.MetadataValue.md(_code("json", (config,)))
    metadata |= acceptance_metadata(drift.found.changes, names)
    metadata |= respec_metadata(drift.found.keys, names)
    if isinstance(answer, StorageError):
        metadata["gate"] = dg.MetadataValue.md(f"the gate could not be asked: {answer}")
    elif answer is not None:
        metadata["differences"] = dg.MetadataValue.md(_listed(answer.differences))
        if answer.losses:
            metadata["losses"] = dg.MetadataValue.md(_listed(answer.losses))
        if answer.findings:
            metadata["gate"] = dg.MetadataValue.md(_findings(answer))
    return metadata


def acceptance_metadata(changes: Sequence[SchemaChange], names: TableNames) -> dict[str, Any]:
    """How a person makes exactly these changes: by the command line, or a run of the job."""
    calls = texts_in_turn(changes)
    if not calls:
        return {}
    steps = [names.run_config(EVOLVE, call) for call in calls]
    return {
        "command line": dg.MetadataValue.md(
            _code("sh", (alter_line(names.table, call) for call in calls))
        ),
        "run config": dg.MetadataValue.md(_code("json", (json.dumps(step) for step in steps))),
    }


def respec_metadata(change: KeysChange | None, names: TableNames) -> dict[str, Any]:
    """How a person sees what a change of the partition keys would do, and makes it."""
    if change is None:
        return {}
    line = respec_line(names.table, change.keys)
    config = names.run_config(RESPEC_JOB, {"keys": list(change.keys)})
    return {
        "partition keys, command line": dg.MetadataValue.md(
            _code("sh", (f"{line} --dry-run", line))
        ),
        "partition keys, run config": dg.MetadataValue.md(_code("json", (json.dumps(config),))),
    }


def _description(drift: SchemaDrift, names: TableNames, file: str | None, *, refuses: bool) -> str:
    told = _told_drift(drift, names, file, refuses=refuses)
    if not drift.undeclared:
        return told
    where = "its declaration" if file is None else f"`{file}`"
    lines = "; ".join(lines_to_declare(drift.undeclared))
    return (
        f"{told}. Runs added {counted(len(drift.undeclared), 'column')} that {where} lacks, by "
        f"evolve: additive; add to `columns`: {lines}"
    )


def _told_drift(drift: SchemaDrift, names: TableNames, file: str | None, *, refuses: bool) -> str:
    if not drift:
        return f"schema {drift.schema_id} is as declared"
    found = drift.found
    keys = () if found.keys is None else (str(found.keys),)
    count = counted(len(found.changes) + len(keys) + len(found.others), "difference")
    listed = "; ".join((*map(shown, found.changes), *keys, *found.others))
    told = f"schema {drift.schema_id} has {count} from its declaration: {listed}"
    if refuses:
        reasons = "; ".join(drift.reasons)
        told = f"{told}. Runs that write the table are refused"
        told = told if reasons == listed else f"{told}: {reasons}"
    return f"{told}. {_way_out(drift, names, file)}"


def _way_out(drift: SchemaDrift, names: TableNames, file: str | None) -> str:
    """The verbs that make the table as declared, and what else to declare instead."""
    found = drift.found
    where = "its declaration" if file is None else f"`{file}`"
    verbs = [EVOLVE] if found.changes else []
    if found.keys is None:
        other = f"declare in {where} what the table has"
    else:
        verbs.append(RESPEC_JOB)
        other = f"set `partition_keys: [{', '.join(found.keys.former)}]` in {where}"
    jobs = " and ".join(f"`{verb}`" for verb in verbs)
    if not verbs:
        return f"{other[0].upper()}{other[1:]}"
    job = names.job_of_all(UPKEEP)
    return f"Run the job `{job}` with {jobs} for {names.table}, or {other}"


def _changes_table(drift: SchemaDrift) -> str:
    changes = drift.found
    rows = [
        (
            shown(change),
            "no" if change in drift.misfits else "yes",
            changes.losses.get(change, ""),
        )
        for change in changes.changes
    ]
    if changes.keys is not None:
        rows.append((str(changes.keys), "no", ""))
    rows += [(other, "no", "no change of the schema does it") for other in changes.others]
    lines = [("change", "declared rows fit without it", "what is lost"), ("---", "---", "---")]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in [*lines, *rows])


def _findings(plan: AlterPlan) -> str:
    lines = [
        f"- **{finding.rule.value}** ({finding.severity.value}): {finding.message}; "
        f"{finding.way_out}"
        for finding in plan.findings
    ]
    return "\n".join([f"verdict: {plan.verdict.value}", "", *lines])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- `{line}`" for line in lines)


def _code(language: str, lines: Iterable[str]) -> str:
    return "\n".join([f"```{language}", *lines, "```"])
