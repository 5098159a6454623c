"""Finds clients that cannot read what a change brings in, by the list of measured gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.schema.proposed_schema import ProposedSchema
from lakewright.storage.spec.reader_support import GAPS, READERS
from lakewright.storage.spec.schema_gate import Finding, Rule, Severity


def locked_out_readers(proposed: ProposedSchema) -> Iterator[Finding]:
    """A finding for each client and each column that locks it out; the rules name who must read."""
    files = proposed.files
    for gap in GAPS:
        columns = list(gap.brought_by(proposed.old, proposed.new))
        if not columns or (gap.of_older_rows and files.snapshots.latest_id() is None):
            continue
        for column in columns:
            yield Finding(
                rule=Rule.READER_LOCKED_OUT,
                severity=Severity.BREAKING
                if gap.reader in proposed.rules.readers
                else Severity.WARNING,
                column=column,
                message=f"column {column} of {files.name}: {gap.reader} {gap.told}",
                way_out="compact the table fully afterwards, or let its readers use a later client"
                if gap.of_older_rows
                else "choose another type, or let its readers use another client",
                details={"reader": gap.reader},
            )


def check_readers(names: Sequence[str]) -> None:
    """Check that rules name clients whose gaps are known.

    Raises:
        InvalidRequestError: a client is unknown; the message lists those that are known.
    """
    for name in names:
        if name not in READERS:
            raise InvalidRequestError(
                f"what {name!r} can read is not known; name one of {', '.join(READERS)}"
            )
