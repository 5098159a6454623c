"""The gate's verdict and findings as rows and words, alike on the terminal and in Dagster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from lakewright.platform.upkeep.words import counted, size_text
from lakewright.storage.operations.schema.alter import AlterPlan
from lakewright.storage.spec.schema_gate import Finding, GateVerdict, Severity

_WORDS = {
    GateVerdict.ALLOW: "allowed",
    GateVerdict.REWRITE: "allowed with rewrite",
    GateVerdict.DENY: "denied",
}
_NOUNS = {Severity.WARNING: "warning", Severity.REWRITE: "rewrite", Severity.INFO: "note"}


def finding_rows(findings: Sequence[Finding]) -> list[Mapping[str, object]]:
    """A row for each finding; a waived one says by whom instead of the way out."""
    return [
        {
            "severity": finding.severity.value
            if finding.counts
            else f"{finding.severity.value}, waived",
            "rule": finding.rule.value,
            "column": finding.column,
            "message": finding.message,
            "way_out": finding.way_out if finding.counts else f"waived by {finding.waived_by}",
        }
        for finding in findings
    ]


def difference_rows(differences: Sequence[str]) -> list[Mapping[str, object]]:
    """The differences beside the findings, for programs that read one list of rows."""
    return [
        {"severity": "change", "rule": None, "column": None, "message": difference, "way_out": None}
        for difference in differences
    ]


def verdict_text(plan: AlterPlan) -> str:
    """`denied: 1 breaking, 2 warnings`."""
    counts = Counter(finding.severity for finding in plan.findings if finding.counts)
    waived = sum(not finding.counts for finding in plan.findings)
    told = [f"{counts[Severity.BREAKING]} breaking"] if counts[Severity.BREAKING] else []
    told += [counted(counts[kind], noun) for kind, noun in _NOUNS.items() if counts[kind]]
    told += [f"{waived} waived"] if waived else []
    words = _WORDS[plan.verdict]
    if plan.verdict is GateVerdict.REWRITE:
        words += f" of {size_text(plan.rewrite_bytes)}"
    return f"{words}: {', '.join(told) or 'no findings'}"


def verdict_facts(plan: AlterPlan) -> dict[str, object]:
    """The verdict for programs, with the number of findings that are not waived."""
    counts = Counter(finding.severity for finding in plan.findings if finding.counts)
    return {
        "verdict": plan.verdict.value,
        "breaking": counts[Severity.BREAKING],
        "warnings": counts[Severity.WARNING],
        "rewrite_bytes": plan.rewrite_bytes,
    }


def verdict_code(plan: AlterPlan) -> int:
    """The exit code of a judged change: 0, 1 for warnings or a rewrite, 2 for a denied change."""
    if plan.verdict is GateVerdict.DENY:
        return 2
    warned = any(
        finding.severity is Severity.WARNING for finding in plan.findings if finding.counts
    )
    return int(warned or plan.verdict is GateVerdict.REWRITE)
