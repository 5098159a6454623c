"""Row filters as Spark column expressions, for columns that Spark compares as Arrow does."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as f

from lakewright.storage.codec.arrow_values import scalar_of
from lakewright.storage.spark.spark_types import compares_natively, to_spark_type
from lakewright.storage.spec.data_types import AtomicType, DataType, TypeRoot
from lakewright.storage.spec.predicate import (
    And,
    Leaf,
    Not,
    Operator,
    Or,
    Predicate,
    columns_of,
    literal_count,
)
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import NANOS_PER_MICRO, Value

# Each literal is a Spark expression, which costs the driver about a millisecond.
_MOST_LITERALS = 1000

# 1582-10-17, two days after the first day of the Gregorian calendar, in any time zone after it.
_JULIAN = -12_219_120_000_000_000_000


def is_spark_filter(predicate: Predicate, schema: TableSchema) -> bool:
    """Whether Spark can evaluate the filter: no nanoseconds, no TIME, not too many literals."""
    return literal_count(predicate) <= _MOST_LITERALS and all(
        compares_natively(schema.field(name).type) for name in columns_of(predicate)
    )


def to_spark_filter(predicate: Predicate, schema: TableSchema) -> Column:
    """The same filter for a DataFrame with the columns of the schema; see `is_spark_filter`."""
    match predicate:
        case And(parts=parts):
            return reduce(and_, (to_spark_filter(part, schema) for part in parts))
        case Or(parts=parts):
            return reduce(or_, (to_spark_filter(part, schema) for part in parts))
        case Not(part=part):
            return ~to_spark_filter(part, schema)
        case Leaf():
            return _leaf(predicate, schema)


def _leaf(leaf: Leaf, schema: TableSchema) -> Column:
    column = f.col("`" + leaf.column.replace("`", "``") + "`")
    data_type = schema.field(leaf.column).type
    if leaf.operator is Operator.IS_NULL:
        return column.isNull()
    if leaf.operator is Operator.IS_NOT_NULL:
        return column.isNotNull()
    values = leaf.literals
    if _is_floating(data_type):
        # Parquet's bounds exclude NaN, so Spark could skip a row group with NaN.
        # Spark does not prune by bounds for an expression.
        column = f.nanvl(column, _literal(float("nan"), data_type))
        # Spark compares both zeros as equal, except in its set lookup.
        values = (*values, *(-each for each in values if isinstance(each, float) and each == 0))
    literals = [_literal(value, data_type) for value in values]
    if _is_moment(data_type) and any(isinstance(each, int) and each < _JULIAN for each in values):
        # Spark prunes row groups by Java timestamps, and moves moments of the days that the Julian
        # calendar lacks. It does not prune by an expression.
        column = f.unix_micros(column)
        literals = [_long(each // NANOS_PER_MICRO) for each in values if isinstance(each, int)]
    match leaf.operator:
        case Operator.IN:
            return column.isin(*literals)
        case Operator.STARTS_WITH:
            return column.startswith(literals[0])
        case Operator.EQ:
            return column == literals[0]
        case Operator.NE:
            return column != literals[0]
        case Operator.LT:
            return column < literals[0]
        case Operator.LE:
            return column <= literals[0]
        case Operator.GT:
            return column > literals[0]
        case _:
            return column >= literals[0]


def _is_moment(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root is TypeRoot.TIMESTAMP_LTZ


def _is_floating(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root.is_floating


def _literal(value: Value, data_type: DataType) -> Column:
    """A literal of the column's type.

    Timestamps become numbers. Spark would read Python's datetimes in the machine's zone, and in
    the Julian calendar before 1582-10-15; Python has no years before 1 or after 9999.
    """
    if isinstance(value, int) and isinstance(data_type, AtomicType):
        if data_type.root is TypeRoot.DATE:
            return f.date_from_unix_date(f.lit(value))
        if data_type.root is TypeRoot.TIMESTAMP_LTZ:
            return f.timestamp_micros(_long(value // NANOS_PER_MICRO))
        if data_type.root is TypeRoot.TIMESTAMP:
            epoch = f.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
            return f.timestamp_add("MICROSECOND", _long(value // NANOS_PER_MICRO), epoch)
    return f.lit(scalar_of(value, data_type).as_py()).cast(to_spark_type(data_type))


def _long(value: int) -> Column:
    return f.lit(value).cast("long")
