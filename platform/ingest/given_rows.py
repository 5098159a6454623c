"""What a source returned, as rows with the declared columns: one table, or a stream of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakewright.platform.ingest.epoch_numbers import (
    number_fields,
    said_of_moments,
    with_moments,
)
from lakewright.platform.ingest.source_columns import check_returned_columns
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.source_declarations import ExtraColumns
from lakewright.storage import Table
from lakewright.storage.errors import InvalidRows
from lakewright.storage.operations.read.row_kinds import ROW_KIND_COLUMN
from lakewright.storage.rows import ArrowStream, arrow_tables, is_dataframe, is_pandas


def given_rows(
    rows: Any, *, table: Table, declaration: TableDeclaration, fixed: Sequence[str]
) -> Any:
    """A DataFrame of Spark, an Arrow table, or a stream of tables, which is read once.

    Rows that come in parts stay a stream: each part is taken when the one before is written.
    `fixed` are partition columns whose value the run knows.

    Raises:
        InvalidRows: what was returned is no rows, or lacks a declared column.
    """
    if is_dataframe(rows) or isinstance(rows, pa.Table):
        return _fitting(rows, table, declaration, fixed)
    is_stream = isinstance(rows, Iterable) and not isinstance(rows, (str, bytes, Mapping))
    if not (is_stream or is_pandas(rows) or isinstance(rows, (pa.RecordBatch, ArrowStream))):
        raise InvalidRows(
            f"the source of {table.name} returned a {type(rows).__name__}; return a pyarrow.Table, "
            "a DataFrame of pandas or Spark, a reader or a generator of record batches, or an "
            "iterable of dicts",
            table=table.name,
        )
    return _stream(rows, table, declaration, fixed)


def _stream(
    rows: Any, table: Table, declaration: TableDeclaration, fixed: Sequence[str]
) -> Iterator[pa.Table]:
    parts = arrow_tables(rows, number_fields(table.schema.fields, declaration.units))
    while True:
        try:
            part = next(parts)
        except StopIteration:
            return
        except InvalidRows as error:
            if (
                error.table is not None
                or declaration.source is None
                or not declaration.source.python
            ):
                raise
            told = said_of_moments(error, table.schema.fields, declaration.units)
            raise InvalidRows(
                f"the source of {table.name}: {told.message}; nothing was written",
                table=table.name,
                **error.details,
            ) from error
        yield _fitting(part, table, declaration, fixed)


def _fitting(rows: Any, table: Table, declaration: TableDeclaration, fixed: Sequence[str]) -> Any:
    """Rows with the declared columns, and without those that are to be ignored."""
    names = rows.columns if is_dataframe(rows) else rows.column_names
    check_returned_columns(
        names,
        [column.name for column in declaration.columns],
        fixed=fixed,
        table=table.name,
    )
    if not is_dataframe(rows):
        where = f"the source of {table.name}"
        rows = with_moments(rows, table.schema.fields, declaration.units, where)
    source = declaration.source
    if source is None or source.extra_columns is ExtraColumns.REFUSE:
        return rows
    known = {*table.schema.field_names, ROW_KIND_COLUMN}
    return rows.select([name for name in names if name in known])
