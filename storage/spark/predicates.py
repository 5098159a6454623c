"""Row filters as Spark column expressions."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as f

from lakewright.storage.codec.arrow_values import scalar_of
from lakewright.storage.spark.spark_types import to_spark_type
from lakewright.storage.spec.data_types import DataType
from lakewright.storage.spec.predicate import And, Leaf, Not, Operator, Or, Predicate
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import Value


def to_spark_filter(predicate: Predicate, schema: TableSchema) -> Column:
    """The same filter for a DataFrame with the columns of the schema."""
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
    literals = [_literal(value, data_type) for value in leaf.literals]
    match leaf.operator:
        case Operator.IS_NULL:
            return column.isNull()
        case Operator.IS_NOT_NULL:
            return column.isNotNull()
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
        case Operator.GE:
            return column >= literals[0]


def _literal(value: Value, data_type: DataType) -> Column:
    return f.lit(scalar_of(value, data_type).as_py()).cast(to_spark_type(data_type))
