"""From rows of the log to rows with kinds, in the order of the changes."""

from __future__ import annotations

from dataclasses import replace

from lakewright.connectors.mysql_cdc.binlog import DELETE, INSERT, Rows
from lakewright.connectors.mysql_cdc.captured import Captured
from lakewright.connectors.mysql_cdc.columns import SourceColumn
from lakewright.connectors.mysql_cdc.database import TableFacts
from lakewright.connectors.mysql_cdc.row_values import RowReader, Values
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.rows import RowKind

Change = tuple[str, Values]


class ChangedRows:
    """Reads the events of one table: declared columns, and the kind of each row.

    An update whose key changed is a deletion and an insertion. `all_kinds` gives rows as they were
    before an update, too.
    """

    def __init__(self, captured: Captured, facts: TableFacts, *, all_kinds: bool) -> None:
        self._of, self._facts, self._all_kinds = captured, facts, all_kinds
        self._names = [field.name for field in captured.fields]
        self._key = [self._names.index(primary_key) for primary_key in captured.primary_keys]
        self._columns: tuple[SourceColumn, ...] | None = None
        self._reader: RowReader | None = None

    def read(self, event: Rows) -> list[Change]:
        """The changes of an event.

        Raises:
            InvalidRequestError: the table's columns do not fit any more.
            InvalidRows: a value cannot be decoded.
        """
        reader = self._settled(event)
        found: list[Change] = []
        at = 0
        try:
            while at < len(event.data):
                row, at = reader.read(event.data, at)
                if event.kind == INSERT:
                    found.append((RowKind.INSERT.short, row))
                elif event.kind == DELETE:
                    found.append((RowKind.DELETE.short, row))
                else:
                    new, at = reader.read(event.data, at)
                    found += self._update(row, new)
        except (ValueError, IndexError) as error:
            raise InvalidRows(
                f"{self._of.owner}: a row of {self._of.place} in the log cannot be read: {error}"
            ) from error
        return found

    def _update(self, old: Values, new: Values) -> list[Change]:
        if [old[at] for at in self._key] != [new[at] for at in self._key]:
            return [(RowKind.DELETE.short, old), (RowKind.INSERT.short, new)]
        before = [(RowKind.UPDATE_BEFORE.short, old)] if self._all_kinds else []
        return [*before, (RowKind.UPDATE_AFTER.short, new)]

    def _settled(self, event: Rows) -> RowReader:
        """The reader of an event's rows. Writers differ in what they log, so each is judged."""
        of = self._of
        if not event.is_whole or not all(column.name for column in event.columns):
            raise of.error(
                f"the log has rows of {of.place} without all columns and their names: "
                "binlog_row_image or binlog_row_metadata was not FULL for the session that wrote "
                f"them; set both for all writers, and have them connect anew; {of.anew}"
            )
        of.check_key(event.key, logged=True)
        if self._reader is not None and event.columns == self._columns:
            return self._reader
        of.check_columns(event.columns, logged=True)
        of.check_readable(event.columns)
        names = [column.name for column in event.columns]
        wanted = [names.index(name) for name in self._names]
        self._columns = event.columns
        self._reader = RowReader([self._labelled(column) for column in event.columns], wanted)
        return self._reader

    def _labelled(self, column: SourceColumn) -> SourceColumn:
        """The column with labels that the log does not tell, if the catalog has the others."""
        if None not in column.labels:
            return column
        known = next((each for each in self._facts.columns if each.name == column.name), None)
        labels = () if known is None else known.labels
        is_same = len(labels) == len(column.labels) and all(
            label in (None, other) for label, other in zip(column.labels, labels, strict=True)
        )
        return replace(column, labels=labels) if is_same else column
