"""The gate in front of a change of a schema: finds all that the change breaks, before it is made.

Each finder answers one question, from metadata alone unless a scan is asked for. All of them are
asked, so that a person sees every finding at once. `docs/schema-gate.md` lists their rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from lakewright.storage.errors import StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.schema.dependents import used_columns
from lakewright.storage.operations.schema.stored_types import uncast_types
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_gate import (
    Finding,
    GateRules,
    Rule,
    Severity,
    with_waivers,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedSchema:
    """A schema that a change would make, beside the current one, and how it is judged.

    `engine` reads values if the rules ask for a scan.
    """

    files: TableFiles
    old: TableSchema
    new: TableSchema
    rules: GateRules
    engine: Engine


Finder = Callable[[ProposedSchema], Iterator[Finding]]

_FINDERS: tuple[Finder, ...] = (uncast_types, used_columns)


def judge(
    proposed: ProposedSchema, refusals: Sequence[tuple[str | None, StorageError]] = ()
) -> tuple[Finding, ...]:
    """Every finding about a change, the worst first.

    `refusals` are the changes that are no change of this schema, by column; the proposed schema
    lacks them.
    """
    today = datetime.fromtimestamp(proposed.files.env.now_ms() / 1000, UTC).date()
    found = [_refused(column, error) for column, error in refusals]
    for finder in _FINDERS:
        found += finder(proposed)
    order = list(Severity)
    judged = with_waivers(found, proposed.rules.waivers, today)
    return tuple(sorted(judged, key=lambda each: -order.index(each.severity)))


def _refused(column: str | None, error: StorageError) -> Finding:
    return Finding(
        rule=Rule.REFUSED,
        severity=Severity.BREAKING,
        column=column,
        message=error.message,
        way_out="the message names it",
        details={"error": type(error).__name__},
    )
