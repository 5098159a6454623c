"""Values of external systems in a table's types: as they are, cast, or read from texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.conform import ValueForm, conform
from lakewright.storage.codec.python_columns import UnfitValueError, python_column
from lakewright.storage.codec.text_values import TextLayout
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import DataField

_ROWS_AT_ONCE = 1 << 14
# Exact numbers and moments come as texts; an empty one is none of them.
_FORM = ValueForm(texts=TextLayout(nulls=(), is_declared=False))


def fitted(batch: pa.RecordBatch, fields: Sequence[DataField], *, table: str) -> pa.RecordBatch:
    """The columns of a batch that a driver made, by place, as the fields.

    A driver may give a type's own Arrow type and in it a value that the type has not, so each value
    is judged as one of a file is.

    Raises:
        InvalidRows: a value is not of its field's type.
    """
    columns = [
        _fitted(column, field, table) for column, field in zip(batch.columns, fields, strict=True)
    ]
    return pa.record_batch(columns, schema=to_arrow_schema(fields))


def _fitted(column: pa.Array, field: DataField, table: str) -> pa.Array:
    rows = pa.table([column], names=[field.name])
    try:
        return conform(rows, [field], table=table, form=_FORM).column(0).combine_chunks()
    except InvalidRows:
        if pa.types.is_integer(column.type) or _holds_times(column.type):
            # Python makes another number of one that a floating number does not have, and Arrow
            # gives it 00:00:00 for 24:00:00.
            raise
        # A driver may have chosen another kind, such as a floating number for a whole one.
        with suppress(UnfitValueError, ValueError, OverflowError, pa.ArrowException):
            return python_column(column.to_pylist(), field)
        raise


def _holds_times(kind: pa.DataType) -> bool:
    inner = (kind.field(index).type for index in range(kind.num_fields))
    return bool(pa.types.is_time(kind)) or any(map(_holds_times, inner))


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
