"""Batches between connectors and plans, in the types of the table."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.conform import conform
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.rows import ROW_KIND_COLUMN, RowKind


@dataclass(frozen=True)
class TypedRows:
    """The columns of a plan; `changes` says that rows have kinds. It pickles."""

    table: str
    fields: tuple[DataField, ...]
    changes: bool

    @property
    def schema(self) -> pa.Schema:
        found = to_arrow_schema(self.fields)
        return found.append(pa.field(ROW_KIND_COLUMN, pa.string())) if self.changes else found

    def of_source(self, batch: pa.RecordBatch) -> pa.Table:
        """A batch of a source.

        Raises:
            InvalidRows: a value does not fit its column.
        """
        return self._typed(pa.Table.from_batches([batch]))

    def for_sink(self, rows: pa.Table) -> pa.Table:
        """Rows of a query; columns that they lack are null.

        Raises:
            InvalidRows: a value does not fit its column.
        """
        for field in self.fields:
            if field.name not in rows.column_names:
                kind = to_arrow_schema([field]).types[0]
                rows = rows.append_column(field.name, pa.nulls(rows.num_rows, kind))
        return self._typed(rows)

    def _typed(self, rows: pa.Table) -> pa.Table:
        kinds: pa.ChunkedArray | pa.Array | None = None
        if ROW_KIND_COLUMN in rows.column_names:
            kinds = rows.column(ROW_KIND_COLUMN).cast(pa.string())
            rows = rows.drop_columns([ROW_KIND_COLUMN])
        found = conform(rows, self.fields, table=self.table)
        if not self.changes:
            return found
        if kinds is None:
            kinds = pa.array([RowKind.INSERT.short] * rows.num_rows, pa.string())
        return found.append_column(ROW_KIND_COLUMN, kinds)
