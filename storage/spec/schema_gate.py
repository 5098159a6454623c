"""The nouns of the gate in front of a change of a schema: what it is asked, finds and answers.

A finding is one consequence of a change for a value, a reader, a writer or a user of a column. The
verdict follows from all findings. A waiver accepts a finding until a day.
`docs/how-to/schema-gate.md` lists the rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from enum import Enum

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.arguments import text_argument

EVERY_COLUMN = "*"


class Severity(Enum):
    """What a finding means for the change."""

    INFO = "info"
    WARNING = "warning"
    # The change is made after a rewrite of data files.
    REWRITE = "rewrite"
    BREAKING = "breaking"


class GateVerdict(Enum):
    """The answer of the gate."""

    ALLOW = "allow"
    REWRITE = "allow with rewrite"
    DENY = "deny"


class Rule(Enum):
    """What a finding is about; the value is its id in reports and waivers."""

    # The change itself is refused, with or without data.
    REFUSED = "refused"
    # Stored values overflow, are cut, rounded or become null.
    VALUES_LOST = "values-lost"
    # Statistics neither prove nor exclude a loss.
    VALUES_MAY_BE_LOST = "values-may-be-lost"
    # A file of a sample cannot be read under the new schema, or is not what its schema says.
    ROWS_MISREAD = "rows-misread"
    # Data files must be rewritten before the change.
    REWRITE_FIRST = "rewrite-first"
    # A reader of the new schema misreads rows of an older one.
    BACKWARD = "backward"
    # A reader of an older schema misreads rows of the new one.
    FORWARD = "forward"
    # An asset, check, policy, view or file names the column.
    COLUMN_USED = "column-used"
    # A tag, a branch or a consumer still reads the column as it was.
    REFERENCED = "referenced"
    # A write that began before the change may be refused.
    OPEN_WRITE = "open-write"
    # A client cannot read the new schema.
    READER_LOCKED_OUT = "reader-locked-out"
    # A waiver is past its day.
    WAIVER_EXPIRED = "waiver-expired"

    @property
    def can_be_waived(self) -> bool:
        """A change that is not possible stays so, and a waiver that ended is told.

        Without a rewrite that must come first, no client could read the files.
        """
        return self not in (Rule.REFUSED, Rule.REWRITE_FIRST, Rule.WAIVER_EXPIRED)


class Compatibility(Enum):
    """Which readers a change must not break; the terms are those of schema registries.

    Backward: a reader of the new schema reads rows of the old one. Forward: a reader of the old
    schema reads rows of the new one. Transitive: the same for every schema that live files, tags,
    branches or open writes still use.
    """

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_backward(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One consequence of a change; `column` is a path, or None for the table as a whole.

    `details` are facts for programs: files, partitions, tags, counts, bytes to rewrite. `way_out`
    is empty if the message ends with it, as those of refused changes do.
    """

    rule: Rule
    severity: Severity
    column: str | None
    message: str
    way_out: str
    details: dict[str, object] = field(default_factory=dict)
    waived_by: str | None = None

    @property
    def counts(self) -> bool:
        """Whether it weighs in the verdict: it is not waived."""
        return self.waived_by is None

    def __str__(self) -> str:
        waived = "" if self.waived_by is None else f" (waived by {self.waived_by})"
        way_out = f"; {self.way_out}" if self.way_out else ""
        return f"{self.severity.value} [{self.rule.value}] {self.message}{way_out}{waived}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """Accepts the findings of a rule on a column until a day, in the name of its owner.

    `until` is the last day, such as 2027-01-31.

    Raises:
        InvalidRequestError: the owner is blank, or `until` is no day.
    """

    rule: Rule
    column: str = EVERY_COLUMN
    owner: str
    until: str
    reason: str = ""

    def __post_init__(self) -> None:
        if not text_argument(self.owner, "the owner of a waiver").strip():
            raise InvalidRequestError(
                f"the waiver of {self.rule.value} has a blank owner; name the person or team that "
                "accepts the finding"
            )
        until = text_argument(self.until, "the last day of a waiver")
        with suppress(ValueError):
            if date.fromisoformat(until).isoformat() == until:
                return
        raise InvalidRequestError(
            f"the waiver of {self.rule.value} lasts until {until!r:.100}, which is no day; write "
            "it as 2027-01-31"
        )

    def covers(self, finding: Finding) -> bool:
        """Whether it speaks of a finding that can be waived."""
        return (
            finding.rule is self.rule
            and self.rule.can_be_waived
            and self.column in (EVERY_COLUMN, finding.column)
        )

    def __str__(self) -> str:
        return f"{self.owner} until {self.until}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependent:
    """Something outside of the table that uses one of its columns.

    `kind` and `name` are for people, as `asset check` and `dep_delay_not_null`. `via` is the
    chain of tables from this one to an indirect user. A user that is not certain may use the
    column; `*` is every column.
    """

    column: str
    kind: str
    name: str
    via: tuple[str, ...] = ()
    is_certain: bool = True

    def __str__(self) -> str:
        chain = f" (through {' -> '.join(self.via)})" if self.via else ""
        return f"{self.kind} {self.name}{chain}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """What a change is judged by.

    `columns` are those under contract; without any, all are. `readers` are clients that must be
    able to read, by the names of `spec/reader_support.py`. `is_scanned` asks to read values where
    statistics do not decide.
    """

    compatibility: Compatibility = Compatibility.BACKWARD
    columns: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    dependents: tuple[Dependent, ...] = ()
    is_scanned: bool = False

    def is_under_contract(self, column: str) -> bool:
        """Whether the modes of compatibility protect a column, given by its top-level name."""
        return not self.columns or column in self.columns


def with_waivers(
    findings: Iterable[Finding], waivers: Iterable[Waiver], today: date
) -> tuple[Finding, ...]:
    """The findings, marked where a waiver that is still valid covers them."""
    waivers = tuple(waivers)
    result: list[Finding] = []
    for finding in findings:
        covering = [waiver for waiver in waivers if waiver.covers(finding)]
        valid = [each for each in covering if date.fromisoformat(each.until) >= today]
        if valid:
            result.append(replace(finding, waived_by=str(valid[0])))
            continue
        result.append(finding)
        result += (
            Finding(
                rule=Rule.WAIVER_EXPIRED,
                severity=Severity.WARNING,
                column=finding.column,
                message=f"the waiver of {each.rule.value} by {each.owner} ended on {each.until}",
                way_out="let its owner renew it, or solve what it covered",
            )
            for each in covering
        )
    return tuple(result)


def verdict_of(findings: Iterable[Finding]) -> GateVerdict:
    """The verdict that findings lead to: the worst that is not waived decides."""
    severities = {finding.severity for finding in findings if finding.counts}
    if Severity.BREAKING in severities:
        return GateVerdict.DENY
    return GateVerdict.REWRITE if Severity.REWRITE in severities else GateVerdict.ALLOW
