"""Paimon types as Spark types."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import types as t

from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    TypeRoot,
    is_opaque,
    nested_fields,
    not_decoded,
)

_PLAIN: dict[TypeRoot, t.DataType] = {
    TypeRoot.BOOLEAN: t.BooleanType(),
    TypeRoot.TINYINT: t.ByteType(),
    TypeRoot.SMALLINT: t.ShortType(),
    TypeRoot.INT: t.IntegerType(),
    TypeRoot.BIGINT: t.LongType(),
    TypeRoot.FLOAT: t.FloatType(),
    TypeRoot.DOUBLE: t.DoubleType(),
    TypeRoot.CHAR: t.StringType(),
    TypeRoot.VARCHAR: t.StringType(),
    TypeRoot.BINARY: t.BinaryType(),
    TypeRoot.VARBINARY: t.BinaryType(),
    TypeRoot.DATE: t.DateType(),
    TypeRoot.TIMESTAMP: t.TimestampNTZType(),
    TypeRoot.TIMESTAMP_LTZ: t.TimestampType(),
}
# Timestamps in Spark count microseconds.
_SPARK_PRECISION = 6


def to_spark_type(data_type: DataType) -> t.DataType:
    """The Spark type of a column; timestamps lose digits below microseconds.

    Elements, values and members may be null in it: Spark casts nothing that may be null to a type
    without null, and so reads all columns of files.

    Raises:
        UnsupportedError: Spark has no such type, as for TIME.
    """
    match data_type:
        case AtomicType(root=TypeRoot.DECIMAL, precision=precision, scale=scale):
            return t.DecimalType(precision, scale)
        case OpaqueType():
            raise not_decoded(data_type)
        case AtomicType(root=root):
            if root not in _PLAIN:
                raise UnsupportedError(
                    f"a column of type {data_type} cannot be read into Spark; leave it out of the "
                    "columns, or read with Arrow"
                )
            return _PLAIN[root]
        case ArrayType(element=element):
            return t.ArrayType(to_spark_type(element), True)
        case MapType(key=key, value=value):
            return t.MapType(to_spark_type(key), to_spark_type(value), True)
        case MultisetType(element=element):
            return t.MapType(to_spark_type(element), t.IntegerType(), True)
        case RowType(fields=fields):
            return to_spark_schema(fields)


def to_spark_schema(fields: Iterable[DataField]) -> t.StructType:
    """Columns in field order, all nullable, because Spark checks nullability only on writes."""
    return t.StructType([t.StructField(field.name, _type_of(field), True) for field in fields])


def reads_natively(field: DataField) -> bool:
    """Whether Spark's own Parquet reader can read a column.

    It cannot read a column named `a.b`: it takes a filter on it as one on member `b` of `a`.
    """
    if "." in field.name:
        return False
    inner = [each.type for each in nested_fields(field.type)]
    return all(_is_native(each) for each in [field.type, *inner, *_elements(field.type)])


def compares_natively(data_type: DataType) -> bool:
    """Whether Spark keeps the full values of a column, so that comparisons agree."""
    return not isinstance(data_type, AtomicType) or _is_native(data_type)


def _elements(data_type: DataType) -> list[DataType]:
    match data_type:
        case ArrayType(element=element) | MultisetType(element=element):
            return [element, *_elements(element)]
        case MapType(key=key, value=value):
            return [key, value, *_elements(key), *_elements(value)]
        case RowType(fields=fields):
            return [inner for field in fields for inner in (field.type, *_elements(field.type))]
        case _:
            return []


def _is_native(data_type: DataType) -> bool:
    if not isinstance(data_type, AtomicType):
        return True
    # Files store finer timestamps as INT96, which Spark reads as instants.
    too_fine = data_type.root.is_timestamp and data_type.precision > _SPARK_PRECISION
    return not too_fine and data_type.root is not TypeRoot.TIME


def _type_of(field: DataField) -> t.DataType:
    if is_opaque(field.type):
        raise not_decoded(field.type, field.name)
    return to_spark_type(field.type)
