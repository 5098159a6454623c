"""The drift between a table and its declaration, as an asset check and an observation show it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakewright.platform.declare.declaration_checks import SCHEMA_MATCHES
from lakewright.platform.declare.declarations import TableDeclaration
from lakewright.platform.declare.schema_drift import SchemaDrift
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.upkeep.alter import alter_line
from lakewright.platform.upkeep.words import counted
from lakewright.storage import AlterPlan
from lakewright.storage.spec.schema_change import SchemaChange
from lakewright.storage.spec.schema_change_text import shown, texts_in_turn

EVOLVE = "evolve_schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaEvaluation:
    """Whether a table is as declared; `severity` is ERROR where runs that write it are refused."""

    passed: bool
    severity: dg.AssetCheckSeverity
    description: str
    metadata: Mapping[str, Any]

    def event(self, names: TableNames) -> dg.AssetCheckEvaluation:
        """The evaluation as an event that needs no step of the check."""
        return dg.AssetCheckEvaluation(
            asset_key=names.asset_key,
            check_name=SCHEMA_MATCHES,
            passed=self.passed,
            severity=self.severity,
            description=self.description,
            metadata=self.metadata,
            blocking=True,
        )

    def observation(self, names: TableNames) -> dg.AssetObservation:
        """The plan on the asset."""
        return dg.AssetObservation(
            names.asset_key, description=self.description, metadata=self.metadata
        )


def evaluate_schema(
    declaration: TableDeclaration, names: TableNames, drift: SchemaDrift | None
) -> SchemaEvaluation:
    """The result of the check; no drift is that of a table that does not exist yet."""
    if drift is None:
        return SchemaEvaluation(
            passed=True,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"table {declaration.table} does not exist yet",
            metadata={},
        )
    refuses = declaration.is_written_here and bool(drift.reasons)
    return SchemaEvaluation(
        passed=not drift,
        severity=dg.AssetCheckSeverity.ERROR if refuses else dg.AssetCheckSeverity.WARN,
        description=_description(drift, refuses=refuses),
        metadata={"lakewright/schema_id": drift.schema_id, **drift_metadata(drift, names)},
    )


def drift_metadata(drift: SchemaDrift, names: TableNames) -> dict[str, Any]:
    """The plan: each change, its text for the command line and run config, and what it changes."""
    if not drift:
        return {}
    metadata: dict[str, Any] = {"plan": dg.MetadataValue.md(_changes_table(drift))}
    metadata |= acceptance_metadata(drift.found.changes, names)
    if drift.plan is not None:
        metadata["differences"] = dg.MetadataValue.md(_listed(drift.plan.differences))
        if drift.plan.losses:
            metadata["losses"] = dg.MetadataValue.md(_listed(drift.plan.losses))
        if drift.plan.findings:
            metadata["gate"] = dg.MetadataValue.md(_findings(drift.plan))
    return metadata


def acceptance_metadata(changes: Sequence[SchemaChange], names: TableNames) -> dict[str, Any]:
    """How a person makes exactly these changes: by the command line, or a run of the job."""
    calls = texts_in_turn(changes)
    if not calls:
        return {}
    steps = [{"ops": {names.job(EVOLVE): {"config": call}}} for call in calls]
    return {
        "command line": dg.MetadataValue.md(
            _code("sh", (alter_line(names.table, call) for call in calls))
        ),
        "run config": dg.MetadataValue.md(_code("json", (json.dumps(each) for each in steps))),
    }


def _description(drift: SchemaDrift, *, refuses: bool) -> str:
    if not drift:
        return f"schema {drift.schema_id} is as declared"
    found = drift.found
    count = counted(len(found.changes) + len(found.others), "change")
    told = f"schema {drift.schema_id} is {count} away from its declaration"
    if refuses:
        return f"{told}, and runs that write the table are refused: {'; '.join(drift.reasons)}"
    names = "; ".join((*map(shown, found.changes), *found.others))
    return f"{told}: {names}"


def _changes_table(drift: SchemaDrift) -> str:
    found = drift.found
    rows = [
        (
            shown(change),
            "no" if change in drift.misfits else "yes",
            found.losses.get(change, ""),
        )
        for change in found.changes
    ]
    rows += [(other, "no", "no change of the schema does it") for other in found.others]
    lines = [("change", "declared rows fit without it", "what is lost"), ("---", "---", "---")]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in [*lines, *rows])


def _findings(plan: AlterPlan) -> str:
    lines = [
        f"- **{each.rule.value}** ({each.severity.value}): {each.message}; {each.way_out}"
        for each in plan.findings
    ]
    return "\n".join([f"verdict: {plan.verdict.value}", "", *lines])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- `{line}`" for line in lines)


def _code(language: str, lines: Iterable[str]) -> str:
    return "\n".join([f"```{language}", *lines, "```"])
