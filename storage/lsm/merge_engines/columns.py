"""The result of a merge, computed column by column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa

from lakewright.storage.errors import InvalidRows
from lakewright.storage.lsm.merge_engines.arithmetic import DoesNotFit, multiply_values, sum_values
from lakewright.storage.lsm.merge_engines.bitmaps import NoBitmap, unite_bitmaps
from lakewright.storage.lsm.merge_engines.changes import Changes, Keys
from lakewright.storage.lsm.merge_engines.nested import NullInNestedKey, merge_nested
from lakewright.storage.lsm.merge_engines.picks import PICKING, pick_rows
from lakewright.storage.lsm.merge_engines.texts import join_texts
from lakewright.storage.spec.aggregate_options import OVERFLOW, WRAP
from lakewright.storage.spec.merge_spec import AggregateFunction, FieldAggregate
from lakewright.storage.spec.schema import SEQUENCE_NUMBER, VALUE_KIND


@dataclass(frozen=True, slots=True)
class ColumnMerge:
    """How one column merges."""

    changes: Changes
    aggregate: FieldAggregate


@dataclass(frozen=True, slots=True)
class KeyMerge:
    """How all rows merge: kinds and sequence numbers of the results, and columns by name.

    Other columns have one value per key, so the value of any row serves.
    """

    keys: Keys
    kinds: np.ndarray
    sequence_numbers: np.ndarray
    columns: Mapping[str, ColumnMerge]


# Advice for readers who may not change the table.
_TO_READ = "to read the rest, choose columns without it, or read an earlier snapshot"


def merge_columns(rows: pa.Table, merge: KeyMerge, *, table: str) -> pa.Table:
    """One row per key, with the columns of `rows`.

    Raises:
        InvalidRows: a row retracts a value that cannot be retracted, or a number does not fit its
        type; the message names table and column.
    """
    columns = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if name == VALUE_KIND:
            merged = pa.array(merge.kinds, column.type)
        elif name == SEQUENCE_NUMBER:
            merged = pa.array(merge.sequence_numbers, column.type)
        elif name in merge.columns:
            merged = _merge_column(column, merge.columns[name], name=name, table=table)
        else:
            merged = take_rows(column, merge.keys.lasts)
        columns.append(merged)
    return pa.table(columns, schema=rows.schema)


def _merge_column(
    column: pa.ChunkedArray, merge: ColumnMerge, *, name: str, table: str
) -> pa.ChunkedArray | pa.Array:
    changes, aggregate = merge.changes, merge.aggregate
    function = aggregate.function
    if aggregate.ignore_retract:
        changes = changes.ignoring_retracts
    elif not function.retractable and changes.retracting_keys.any():
        _refuse_retraction(changes, function, name, table)
    if function in PICKING:
        return take_rows(column, pick_rows(function, column, changes))
    try:
        match function:
            case AggregateFunction.SUM:
                return sum_values(column, changes, wraps=aggregate.wraps)
            case AggregateFunction.PRODUCT:
                return multiply_values(column, changes, wraps=aggregate.wraps)
            case AggregateFunction.LISTAGG:
                return join_texts(column, changes, aggregate)
            case AggregateFunction.RBM32:
                return unite_bitmaps(column, changes)
            case _:
                return merge_nested(column, changes, aggregate)
    except DoesNotFit as error:
        _refuse_number(column.type, changes, error.key, function, name, table)
    except NoBitmap as error:
        raise InvalidRows(
            f"{table}: column {name!r} is aggregated with {function.value}, and a value is not a "
            f"Roaring bitmap of 32 bits: {error.__cause__}; {_TO_READ}",
            column=name,
        ) from error
    except NullInNestedKey:
        _refuse_nested_key(aggregate, name, table)


def take_rows(column: pa.ChunkedArray, picks: np.ndarray) -> pa.ChunkedArray:
    """The values of the picked rows, null where a pick is -1."""
    missing = picks < 0
    return column.take(pa.array(picks, mask=missing) if missing.any() else pa.array(picks))


def _refuse_retraction(
    changes: Changes, function: AggregateFunction, name: str, table: str
) -> NoReturn:
    count = int(np.count_nonzero(changes.retracting_keys))
    raise InvalidRows(
        f"{table}: column {name!r} is aggregated with {function.value}, which cannot retract "
        f"values, and {count} keys have rows that retract some (-U or -D); set "
        f"fields.{name}.ignore-retract=true to leave those out; {_TO_READ}",
        column=name,
    )


def _refuse_number(
    kind: pa.DataType,
    changes: Changes,
    key: int,
    function: AggregateFunction,
    name: str,
    table: str,
) -> NoReturn:
    count = int(changes.keys.sizes[key])
    raise InvalidRows(
        f"{table}: the {function.value} of column {name!r} over {count} rows of one key does not "
        f"fit {kind}; give the column a wider type, or, for whole numbers that wrap around as "
        f"other clients read them, set {OVERFLOW}={WRAP}; {_TO_READ}",
        column=name,
    )


def _refuse_nested_key(aggregate: FieldAggregate, name: str, table: str) -> NoReturn:
    raise InvalidRows(
        f"{table}: column {name!r} has nested rows with a null in their key "
        f"({', '.join(aggregate.nested_key)}); fill it, or set "
        f"fields.{name}.nested-key-null-strategy to merge or ignore; {_TO_READ}",
        column=name,
    )
