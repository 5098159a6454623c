"""What callers hand over as rows and as filters, in the one form that verbs take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.python_columns import UnfitValueError, python_column
from lakewright.storage.errors import InvalidPredicate, InvalidRows
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.predicate import And, Leaf, Not, Or, Predicate
from lakewright.storage.spec.schema import TableSchema

if TYPE_CHECKING:
    import pandas as pd

    from lakewright.storage.spark import DataFrame

# So many mappings, or rows of pandas, become one table.
_ROWS_AT_ONCE = 1 << 15


@runtime_checkable
class ArrowStream(Protocol):
    """What hands its rows over as a stream of Arrow batches, as a DataFrame of Polars does."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


# A row by itself; one lot of rows; and an iterable of them, such as a reader or a generator.
Row: TypeAlias = Mapping[str, object]
RowsPart: TypeAlias = "pa.Table | pa.RecordBatch | pd.DataFrame | ArrowStream"
LocalRows: TypeAlias = "RowsPart | Iterable[RowsPart | Row]"
Rows: TypeAlias = "LocalRows | DataFrame"
# The text of a WHERE clause, or the filter that such a text stands for.
Where: TypeAlias = str | Predicate


def arrow_tables(rows: LocalRows, fields: Sequence[DataField]) -> Iterator[pa.Table]:
    """Rows as Arrow tables, one after the other; an iterable is never collected.

    `fields` are the columns of the table. They give rows that are mappings, and those of pandas,
    their types. A column that a mapping lacks is null there, and so is a NaN of pandas.

    Raises:
        InvalidRows: they are no rows, or a value is not of its column's type.
    """
    if isinstance(rows, pa.Table):
        yield rows
    elif isinstance(rows, pa.RecordBatch):
        yield pa.Table.from_batches([rows])
    elif is_pandas(rows):
        yield from _of_pandas(rows, fields)
    elif isinstance(rows, ArrowStream):
        for batch in pa.RecordBatchReader.from_stream(rows):
            yield pa.Table.from_batches([batch])
    elif isinstance(rows, Iterable) and not isinstance(rows, (str, bytes, Mapping)):
        yield from _of_iterable(rows, fields)
    else:
        raise InvalidRows(
            f"{rows!r:.100} is no rows; give an Arrow table, batch or reader, a DataFrame, a list "
            "of dicts, or an iterable of any of these"
        )


def is_dataframe(rows: object) -> TypeGuard[DataFrame]:
    """Whether rows are a DataFrame of Spark, classic or Connect; Spark is not imported for it."""
    return hasattr(rows, "mapInArrow")


def is_pandas(rows: object) -> TypeGuard[pd.DataFrame]:
    """Whether rows are a DataFrame of pandas, which is not imported for it."""
    kind = type(rows)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def _of_iterable(
    parts: Iterable[RowsPart | Row], fields: Sequence[DataField]
) -> Iterator[pa.Table]:
    waiting: list[Row] = []
    count = 0
    for part in parts:
        if not isinstance(part, Mapping):
            if waiting:
                yield _of_mappings(waiting, fields, count)
                waiting = []
            yield from arrow_tables(part, fields)
            continue
        waiting.append(part)
        count += 1
        if len(waiting) == _ROWS_AT_ONCE:
            yield _of_mappings(waiting, fields, count)
            waiting = []
    if waiting:
        yield _of_mappings(waiting, fields, count)


def _of_mappings(rows: Sequence[Row], fields: Sequence[DataField], count: int) -> pa.Table:
    """Mappings as a table; `count` is the number of mappings up to the last of these."""
    known = {field.name: field for field in fields}
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names:
        raise InvalidRows("the rows are mappings without a column")
    first = count - len(rows)
    columns = [_column([row.get(name) for row in rows], known.get(name), first) for name in names]
    return pa.table(columns, names=[str(name) for name in names])


def _of_pandas(frame: pd.DataFrame, fields: Sequence[DataField]) -> Iterator[pa.Table]:
    known = {field.name: field for field in fields}
    for start in range(0, max(1, len(frame)), _ROWS_AT_ONCE):
        part = frame.iloc[start : start + _ROWS_AT_ONCE]
        columns = [
            _of_series(part.iloc[:, at], known.get(name), start)
            for at, name in enumerate(frame.columns)
        ]
        yield pa.table(columns, names=[str(name) for name in frame.columns])


def _of_series(column: pd.Series[Any], field: DataField | None, start: int) -> pa.Array:
    # Objects may be of any type, and integers with a null are floats in pandas.
    if column.dtype == object and field is not None:
        values = [
            None if missing else each.item() if isinstance(each, np.generic) else each
            for each, missing in zip(column, column.isna(), strict=True)
        ]
        return _column(values, field, start)
    is_whole = field is not None and pa.types.is_integer(to_arrow_type(field.type))
    if is_whole and column.dtype.kind == "f":
        return _column([None if math.isnan(each) else each for each in column], field, start)
    try:
        return pa.Array.from_pandas(column)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidRows(
            f"column {column.name} holds {column.dtype} of pandas, which Arrow has not: {error}; "
            "convert it first",
            column=str(column.name),
        ) from error


def _column(values: Sequence[object], field: DataField | None, first: int) -> pa.Array:
    if field is None:
        # Kinds of rows, or what expressions of a merge read.
        with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            made = pa.array(values)
            if any(getattr(each, "nanosecond", 0) for each in values):
                # Arrow takes timestamps of pandas for microseconds.
                return pa.array(values, pa.timestamp("ns", made.type.tz))
            return made
        return pa.array([None if each is None else str(each) for each in values], pa.string())
    try:
        return python_column(values, field)
    except UnfitValueError as error:
        raise InvalidRows(
            f"row {first + error.at + 1}: column {error.path} {error.why}", column=field.name
        ) from error


def filter_text(where: Where | None, schema: TableSchema) -> str | None:
    """The text of a filter, for a plan that is kept as JSON.

    Raises:
        InvalidPredicate: the filter has no text.
    """
    if where is None or isinstance(where, str):
        return where
    from lakewright.storage.sql.where_text import where_text  # noqa: PLC0415

    return where_text(where, schema)


def predicate_of(where: Where | None, schema: TableSchema) -> Predicate | None:
    """The filter that a text says of the columns of a schema; a filter stays what it is.

    Raises:
        InvalidPredicate: the text is not a filter of such columns.
    """
    if where is None or isinstance(where, (Leaf, And, Or, Not)):
        return where
    if not isinstance(where, str):
        raise InvalidPredicate(f"where is {where!r:.100}, which is not a filter; give it as text")
    # A process that filters by no text does not load the parser.
    from lakewright.storage.sql import parse_where  # noqa: PLC0415

    return parse_where(where, schema)
