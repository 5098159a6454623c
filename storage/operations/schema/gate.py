"""The gate in front of a change of a schema: finds all that the change breaks, before it is made.

Each finder answers one question, from metadata alone unless a scan is asked for. All of them are
asked, so that a person sees every finding at once. `docs/how-to/schema-gate.md` lists their rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from lakewright.storage.operations.schema.compatibility import broken_readers
from lakewright.storage.operations.schema.dependents import used_columns
from lakewright.storage.operations.schema.locked_out_readers import locked_out_readers
from lakewright.storage.operations.schema.lost_values import losing_columns
from lakewright.storage.operations.schema.proposed_schema import ProposedSchema
from lakewright.storage.operations.schema.references import open_writes, referencing
from lakewright.storage.operations.schema.refusals import Refusal
from lakewright.storage.operations.schema.sampled_rows import misread_rows
from lakewright.storage.operations.schema.stored_types import uncast_types
from lakewright.storage.spec.schema_gate import Finding, Severity, with_waivers

Finder = Callable[[ProposedSchema], Iterator[Finding]]

_FINDERS: tuple[Finder, ...] = (
    uncast_types,
    losing_columns,
    misread_rows,
    broken_readers,
    used_columns,
    referencing,
    open_writes,
    locked_out_readers,
)


def judge(proposed: ProposedSchema, refusals: Sequence[Refusal] = ()) -> tuple[Finding, ...]:
    """Every finding about a change, the worst first.

    The proposed schema lacks the changes that are refused.
    """
    today = datetime.fromtimestamp(proposed.files.env.now_ms() / 1000, UTC).date()
    found = [refusal.finding for refusal in refusals]
    for finder in _FINDERS:
        found += finder(proposed)
    order = list(Severity)
    judged = with_waivers(found, proposed.rules.waivers, today)
    return tuple(sorted(judged, key=lambda each: -order.index(each.severity)))
