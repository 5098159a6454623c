"""Values of external systems in a table's types: as they are, cast, or read from texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors.formats.csv_values import converted
from lakewright.storage.codec.arrow_types import conform, to_arrow_schema
from lakewright.storage.codec.python_columns import UnfitValueError, python_column, within_years
from lakewright.storage.errors import InvalidRows, StorageError
from lakewright.storage.spec.data_types import AtomicType, DataField

_ROWS_AT_ONCE = 1 << 14
_OF_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class UnfitMoment(InvalidRows):
    """A date, a timestamp or a time that is outside of what a type has; `of` names the value."""

    @classmethod
    def found(cls, table: str, field: DataField, *, is_time: bool) -> UnfitMoment:
        return cls(
            _unfit_moment("a value", table, field.name, str(field.type), is_time=is_time),
            table=table,
            column=field.name,
            type=str(field.type),
            is_time=is_time,
        )

    @property
    def column(self) -> str:
        return str(self.details["column"])

    @property
    def is_time(self) -> bool:
        return bool(self.details["is_time"])

    def of(self, value: str) -> InvalidRows:
        """The same error of a value that is known."""
        table, kind = str(self.details["table"]), str(self.details["type"])
        return InvalidRows(
            _unfit_moment(value, table, self.column, kind, is_time=self.is_time),
            column=self.column,
        )


def _unfit_moment(value: str, table: str, column: str, kind: str, *, is_time: bool) -> str:
    what = "before 24:00:00" if is_time else "in the years 1 to 9999"
    return (
        f"{table}: column {column} is {kind}, and {value} of the database is no "
        f"{'time' if is_time else 'moment'} {what}; declare the column as STRING, or leave such "
        "rows out"
    )


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
    plain = _plain_type(column.type)
    if plain != column.type:
        column = column.cast(plain)
    _check_moments(column, field, table)
    if pa.types.is_string(column.type) and isinstance(field.type, AtomicType):
        # Exact numbers come as texts.
        found = converted(column, field.type)
        column = column if found is None else found
    try:
        rows = conform(pa.table([column], names=[field.name]), [field], table=table)
        return rows.column(0).combine_chunks()
    except StorageError:
        if pa.types.is_integer(column.type):
            # Python makes another number of one that a floating number does not have.
            raise
        # Texts of numbers and moments: parsed one by one, with the value in the error.
        return column_of(column.to_pylist(), field, table=table)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """A type without the names that a driver gives to it or to what is in it."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pa.types.is_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_plain_type(each.type)) for each in kind])
    return kind


def _check_moments(column: pa.Array, field: DataField, table: str) -> None:
    """Refuse moments that no type has, such as what a driver makes of infinity."""
    kind = column.type
    if pa.types.is_list(kind):
        _check_moments(column.flatten(), field, table)
    elif pa.types.is_struct(kind):
        for member in column.filter(column.is_valid()).flatten():
            _check_moments(member, field, table)
    elif pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        if not within_years(column):
            raise UnfitMoment.found(table, field, is_time=False)
    elif pa.types.is_time(kind):
        span = pc.min_max(column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64()))
        first, last = (each.as_py() for each in span.values())
        if first is not None and (first < 0 or last >= _OF_A_DAY[kind.unit]):
            raise UnfitMoment.found(table, field, is_time=True)


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
