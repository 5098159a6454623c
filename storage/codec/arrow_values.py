"""Single values between Arrow and the metadata's own form, and row filters over Arrow."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.spec.data_types import AtomicType, DataField, DataType, TypeRoot
from lakewright.storage.spec.predicate import And, Leaf, Not, Operator, Or, Predicate
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import Value

_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def value_of(scalar: pa.Scalar, data_type: DataType) -> Value:
    """An Arrow scalar of the column's own Arrow type, as metadata holds it."""
    if not scalar.is_valid or not isinstance(data_type, AtomicType):
        return None
    if data_type.root in (TypeRoot.DATE, TypeRoot.TIME):
        return int(scalar.value)
    if data_type.root.is_timestamp:
        return int(scalar.value) * _NANOS[scalar.type.unit]
    value: Value = scalar.as_py()
    return value


def scalar_of(value: Value, data_type: DataType) -> pa.Scalar:
    """The inverse of `value_of`."""
    # Taken from an array: `pa.scalar` imports pandas.
    return array_of([value], data_type)[0]


def array_of(values: Sequence[Value], data_type: DataType) -> pa.Array:
    """Values as metadata holds them, in the column's own Arrow type."""
    target = to_arrow_type(data_type)
    if isinstance(data_type, AtomicType):
        if data_type.root in (TypeRoot.DATE, TypeRoot.TIME):
            return pa.array(values, pa.int32()).cast(target)
        if data_type.root.is_timestamp:
            unit = _NANOS[target.unit]
            numbers = [each // unit if isinstance(each, int) else None for each in values]
            return pa.array(numbers, pa.int64()).cast(target)
    return pa.array(values, target)


def with_one_nan(values: pa.Array) -> pa.Array:
    """The values with each NaN replaced by the bit pattern that Java writes."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), values)


def keep_matching(rows: pa.Table, predicate: Predicate | None, schema: TableSchema) -> pa.Table:
    """The rows for which the predicate is true, in their order."""
    if predicate is None:
        return rows
    mask = _mask(rows, predicate, schema)
    return rows.filter(mask, null_selection_behavior="drop")


def matching(rows: pa.Table, predicate: Predicate | None, schema: TableSchema) -> pa.ChunkedArray:
    """For each row whether the predicate is true; unknown is false."""
    if predicate is None:
        return pa.chunked_array([pa.repeat(pa.scalar(True), rows.num_rows)])
    return pc.fill_null(_mask(rows, predicate, schema), False)


def _mask(rows: pa.Table, predicate: Predicate, schema: TableSchema) -> pa.ChunkedArray:
    match predicate:
        case And(parts=parts):
            result = _mask(rows, parts[0], schema)
            for part in parts[1:]:
                result = pc.and_kleene(result, _mask(rows, part, schema))
            return result
        case Or(parts=parts):
            result = _mask(rows, parts[0], schema)
            for part in parts[1:]:
                result = pc.or_kleene(result, _mask(rows, part, schema))
            return result
        case Not(part=part):
            return pc.invert(_mask(rows, part, schema))
        case Leaf():
            return _leaf_mask(
                rows.column(predicate.column), predicate, schema.field(predicate.column)
            )


_FUNCTIONS = {
    Operator.EQ: pc.equal,
    Operator.NE: pc.not_equal,
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
}


def _leaf_mask(column: pa.ChunkedArray, leaf: Leaf, field: DataField) -> pa.ChunkedArray:
    match leaf.operator:
        case Operator.IS_NULL:
            return pc.is_null(column)
        case Operator.IS_NOT_NULL:
            return pc.is_valid(column)
        case Operator.STARTS_WITH if leaf.literals[0] is None:
            return pc.equal(column, scalar_of(None, field.type))
        case Operator.STARTS_WITH:
            return pc.starts_with(column, pattern=leaf.literals[0])
        case Operator.IN:
            return _in_mask(column, leaf, field)
        case operator:
            result = _FUNCTIONS[operator](column, scalar_of(leaf.literals[0], field.type))
            if pa.types.is_floating(column.type):
                result = _with_nan_on_top(result, column, leaf)
            return result


def _in_mask(column: pa.ChunkedArray, leaf: Leaf, field: DataField) -> pa.ChunkedArray:
    literals = [literal for literal in leaf.literals if literal is not None]
    floats = [literal for literal in literals if isinstance(literal, float)]
    # Arrow looks numbers up by their bits, so 0.0 and -0.0 are both added.
    zeros = [-literal for literal in floats if literal == 0]
    result = pc.is_in(column, value_set=array_of([*literals, *zeros], field.type))
    if any(map(math.isnan, floats)):
        result = pc.or_(result, pc.fill_null(pc.is_nan(column), False))
    # A null row is unknown; so is a row outside of a list that holds null.
    unknown = pa.scalar(None, pa.bool_())
    if leaf.holds_null:
        return pc.if_else(result, True, unknown)
    return pc.if_else(pc.is_valid(column), result, unknown)


def _with_nan_on_top(
    result: pa.ChunkedArray, column: pa.ChunkedArray, leaf: Leaf
) -> pa.ChunkedArray:
    """Correct Arrow's comparison with NaN: in SQL, NaN equals itself and exceeds all numbers."""
    literal = leaf.literals[0]
    if literal is None:
        return result
    literal_is_nan = isinstance(literal, float) and math.isnan(literal)
    nan = pc.is_nan(column)
    match leaf.operator:
        case Operator.EQ:
            return nan if literal_is_nan else result
        case Operator.NE:
            return pc.invert(nan) if literal_is_nan else result
        case Operator.GT:
            return result if literal_is_nan else pc.or_kleene(result, nan)
        case Operator.GE:
            return nan if literal_is_nan else pc.or_kleene(result, nan)
        case Operator.LT:
            return pc.invert(nan) if literal_is_nan else result
        case _:
            # Every number is at most NaN; a comparison with null is unknown.
            return pc.or_kleene(nan, pc.invert(nan)) if literal_is_nan else result
