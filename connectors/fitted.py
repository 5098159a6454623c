"""Values of external systems in a table's types: as they are, cast, or read from texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from lakewright.connectors.formats.csv_values import converted
from lakewright.storage.codec.arrow_types import conform, to_arrow_schema, to_arrow_type
from lakewright.storage.codec.python_columns import UnfitValueError, python_column
from lakewright.storage.errors import InvalidRows, StorageError
from lakewright.storage.spec.data_types import AtomicType, DataField

_ROWS_AT_ONCE = 1 << 14


def fitted(batch: pa.RecordBatch, fields: Sequence[DataField], *, table: str) -> pa.RecordBatch:
    """The columns of a batch, by place, as the fields.

    Raises:
        InvalidRows: a value is not of its field's type.
    """
    columns = [
        _fitted(column, field, table) for column, field in zip(batch.columns, fields, strict=True)
    ]
    return pa.record_batch(columns, schema=to_arrow_schema(fields))


def _fitted(column: pa.Array, field: DataField, table: str) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if column.type.equals(to_arrow_type(field.type)):
        return column
    if pa.types.is_string(column.type) and isinstance(field.type, AtomicType):
        # Exact numbers come as texts.
        found = converted(column, field.type)
        if found is not None:
            return found
    try:
        rows = conform(pa.table([column], names=[field.name]), [field], table=table)
        return rows.column(0).combine_chunks()
    except StorageError:
        # Texts of numbers and moments: parsed one by one, with the value in the error.
        return column_of(column.to_pylist(), field, table=table)


def column_of(values: Sequence[object], field: DataField, *, table: str) -> pa.Array:
    """Python values as a column.

    Raises:
        InvalidRows: one is not of the field's type.
    """
    try:
        return python_column(values, field)
    except UnfitValueError as error:
        raise InvalidRows(
            f"{table}: column {error.path} {error.why} (row {error.at} of a batch)",
            column=field.name,
        ) from error


def batches_of(
    rows: Iterable[Mapping[str, Any] | Sequence[Any]], fields: Sequence[DataField], *, table: str
) -> Iterable[pa.RecordBatch]:
    """Rows of Python, dicts or sequences, as record batches.

    Raises:
        InvalidRows: a value is not of its field's type, or a row has another length.
    """
    names = [field.name for field in fields]
    schema = to_arrow_schema(fields)
    waiting = iter(rows)
    while chunk := list(islice(waiting, _ROWS_AT_ONCE)):
        values = [
            [row.get(name) for name in names] if isinstance(row, Mapping) else list(row)
            for row in chunk
        ]
        for row in values:
            if len(row) != len(names):
                raise InvalidRows(
                    f"{table}: a row has {len(row)} values, and the columns are "
                    f"{', '.join(names)}: {row!r:.200}"
                )
        columns = zip(*values, strict=True) if names else ()
        yield pa.record_batch(
            [
                column_of(list(column), field, table=table)
                for column, field in zip(columns, fields, strict=True)
            ],
            schema=schema,
        )
