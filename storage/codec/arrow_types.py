"""Paimon types as Arrow types, and rows of any Arrow schema made to fit a table's.

Field ids ride along as Parquet field ids in Arrow field metadata and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.errors import InvalidRows, InvalidSchema
from lakewright.storage.spec.arguments import repeated
from lakewright.storage.spec.data_types import (
    BYTES,
    STRING,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
    not_null,
)
from lakewright.storage.spec.schema import Column
from lakewright.storage.spec.values import EXACT_DECIMALS

FIELD_ID = b"PARQUET:field_id"

_PLAIN = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
}


def timestamp_unit(precision: int) -> str:
    """The coarsest Arrow unit that holds timestamps of a precision."""
    if precision <= 3:
        return "ms"
    return "us" if precision <= 6 else "ns"


def to_arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type that values of a column have in memory."""
    match data_type:
        case AtomicType(root=TypeRoot.DECIMAL, precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case AtomicType(root=TypeRoot.TIMESTAMP, precision=precision):
            return pa.timestamp(timestamp_unit(precision))
        case AtomicType(root=TypeRoot.TIMESTAMP_LTZ, precision=precision):
            return pa.timestamp(timestamp_unit(precision), tz="UTC")
        case AtomicType(root=root):
            return _PLAIN[root]
        case ArrayType(element=element):
            return pa.list_(pa.field("element", to_arrow_type(element), element.nullable))
        case MapType(key=key, value=value):
            return _map_type(key, value)
        case MultisetType(element=element):
            return _map_type(element, not_null(AtomicType(TypeRoot.INT)))
        case RowType(fields=fields):
            return pa.struct([to_arrow_field(field) for field in fields])


def _map_type(key: DataType, value: DataType) -> pa.DataType:
    return pa.map_(
        pa.field("key", to_arrow_type(key), nullable=False),
        pa.field("value", to_arrow_type(value), value.nullable),
    )


def to_arrow_field(field: DataField) -> pa.Field:
    """A field with its id in the metadata."""
    metadata = {FIELD_ID: str(field.id).encode()}
    return pa.field(field.name, to_arrow_type(field.type), field.type.nullable, metadata)


def to_arrow_schema(fields: Iterable[DataField]) -> pa.Schema:
    """Columns in the order of the fields."""
    return pa.schema([to_arrow_field(field) for field in fields])


def columns_from_arrow(schema: pa.Schema) -> tuple[Column, ...]:
    """Columns for a new table that hold what an Arrow schema holds.

    Raises:
        InvalidSchema: an Arrow type has no counterpart, such as unsigned 64-bit integers.
    """
    return tuple(Column(field.name, from_arrow_field(field)) for field in schema)


_FROM_ARROW: dict[pa.DataType, DataType] = {
    pa.bool_(): AtomicType(TypeRoot.BOOLEAN),
    pa.int8(): AtomicType(TypeRoot.TINYINT),
    pa.int16(): AtomicType(TypeRoot.SMALLINT),
    pa.uint8(): AtomicType(TypeRoot.SMALLINT),
    pa.int32(): AtomicType(TypeRoot.INT),
    pa.uint16(): AtomicType(TypeRoot.INT),
    pa.int64(): AtomicType(TypeRoot.BIGINT),
    pa.uint32(): AtomicType(TypeRoot.BIGINT),
    pa.float16(): AtomicType(TypeRoot.FLOAT),
    pa.float32(): AtomicType(TypeRoot.FLOAT),
    pa.float64(): AtomicType(TypeRoot.DOUBLE),
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.date32(): AtomicType(TypeRoot.DATE),
    pa.date64(): AtomicType(TypeRoot.DATE),
    pa.time32("s"): AtomicType(TypeRoot.TIME),
    pa.time32("ms"): AtomicType(TypeRoot.TIME, precision=3),
}
_UNIT_PRECISIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def from_arrow_field(field: pa.Field) -> DataType:
    """The Paimon type of an Arrow field, its nullability included."""
    data_type = _from_arrow_type(field.type)
    return data_type if field.nullable else not_null(data_type)


def _from_arrow_type(arrow_type: pa.DataType) -> DataType:
    if arrow_type in _FROM_ARROW:
        return _FROM_ARROW[arrow_type]
    if pa.types.is_dictionary(arrow_type):
        return _from_arrow_type(arrow_type.value_type)
    if pa.types.is_decimal128(arrow_type):
        return AtomicType(TypeRoot.DECIMAL, precision=arrow_type.precision, scale=arrow_type.scale)
    if pa.types.is_timestamp(arrow_type):
        root = TypeRoot.TIMESTAMP_LTZ if arrow_type.tz else TypeRoot.TIMESTAMP
        return AtomicType(root, precision=_UNIT_PRECISIONS[arrow_type.unit])
    if pa.types.is_fixed_size_binary(arrow_type):
        return AtomicType(TypeRoot.BINARY, length=arrow_type.byte_width)
    if pa.types.is_map(arrow_type):
        key = not_null(_from_arrow_type(arrow_type.key_type))
        return MapType(key, from_arrow_field(arrow_type.item_field))
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return ArrayType(from_arrow_field(arrow_type.value_field))
    if pa.types.is_struct(arrow_type):
        members = [arrow_type.field(index) for index in range(arrow_type.num_fields)]
        return RowType(tuple(DataField(-1, each.name, from_arrow_field(each)) for each in members))
    raise InvalidSchema(f"arrow type {arrow_type} has no counterpart in the format")


# --- rows ------------------------------------------------------------------------------------


def conform(rows: pa.Table, fields: Sequence[DataField], *, table: str) -> pa.Table:
    """The rows with exactly the columns of `fields`, in their order and types.

    Columns are found by name. Values are widened or narrowed only where
    nothing is lost.

    Raises:
        InvalidRows: a column is missing, unknown, of another kind, holds null where it must
            not, or a value does not fit; the message names the column and shows the first such row.
    """
    names = rows.column_names
    wanted = [field.name for field in fields]
    missing = [name for name in wanted if name not in names]
    unknown = [name for name in names if name not in wanted]
    if missing or unknown or len(set(names)) != len(names):
        parts = [f"lack column {', '.join(missing)}"] if missing else []
        parts += [f"have unknown column {', '.join(unknown)}"] if unknown else []
        parts = parts or [f"have column {repeated(names)} more than once"]
        raise InvalidRows(
            f"rows for {table} {' and '.join(parts)}; the rows have {', '.join(names)}; the table "
            f"has {', '.join(wanted)}"
        )
    columns = [_conform_column(rows, field, table) for field in fields]
    return pa.table(columns, schema=to_arrow_schema(fields))


def _conform_column(rows: pa.Table, field: DataField, table: str) -> pa.ChunkedArray:
    column = rows.column(field.name)
    try:
        return _conformed(column, field, table)
    except InvalidRows as error:
        at = _first_unfit(column, field, table)
        if at is None:
            raise
        message = f"{error.message}; the first such row: {_row_text(rows, at)}"
        raise InvalidRows(message, column=field.name) from error


def _first_unfit(column: pa.ChunkedArray, field: DataField, table: str) -> int | None:
    """The position of the first value that does not fit; None if it is the column's type."""
    low, high = 0, len(column)
    while low < high:
        middle = (low + high) // 2
        try:
            _conformed(column.slice(low, middle + 1 - low), field, table)
            low = middle + 1
        except InvalidRows:
            high = middle
    try:
        _conformed(column.slice(0, 0), field, table)
    except InvalidRows:
        return None
    return low


def _row_text(rows: pa.Table, at: int) -> str:
    """The first columns of a row, which mostly hold its key."""
    names = rows.column_names
    shown = [f"{name}={_value_text(rows.column(name)[at])}" for name in names[:_MOST_COLUMNS]]
    return ", ".join(shown) + (", …" if len(names) > _MOST_COLUMNS else "")


def _value_text(value: pa.Scalar) -> str:
    try:
        return repr(value.as_py())[:_MOST_SHOWN]
    except (ValueError, OverflowError):
        # Python has no dates outside its years.
        return str(value.type)


def _conformed(column: pa.ChunkedArray, field: DataField, table: str) -> pa.ChunkedArray:
    target = to_arrow_type(field.type)
    if not field.type.nullable and column.null_count:
        raise InvalidRows(
            f"{table}: column {field.name} is NOT NULL, and {column.null_count} of "
            f"{len(column)} rows hold null",
            column=field.name,
        )
    if not column.type.equals(target):
        column = _cast(column, target, field, table)
    for chunk in column.chunks:
        for path, part, data_type in _parts(chunk, field.type, field.name):
            _check_part(part, data_type, path, field.name, table)
    return column


def _cast(
    column: pa.ChunkedArray, target: pa.DataType, field: DataField, table: str
) -> pa.ChunkedArray:
    if not _castable(column.type, field.type):
        way_out = "convert them first"
        if pa.types.is_integer(column.type) and _is_moment(field.type):
            unit = "epoch_days" if pa.types.is_date(target) else "epoch_ms"
            way_out = f"a number is no moment; convert it, or declare its unit (`from: {unit}`)"
        raise InvalidRows(
            f"{table}: column {field.name} is {field.type}, and the rows hold {column.type}; "
            f"{way_out}",
            column=field.name,
        )
    given = column
    try:
        if pa.types.is_integer(column.type) and pa.types.is_decimal(target):
            # Arrow requires room for every value of an integer type, not only for the values
            # present.
            given = column.cast(pa.decimal256(76, target.scale))
        converted = given.cast(target)
    except pa.ArrowException as error:
        raise InvalidRows(
            f"{table}: column {field.name} is {field.type}, and a value of the rows "
            f"({column.type}) does not fit: {error}",
            column=field.name,
        ) from error
    if pa.types.is_floating(column.type) and _infinities(converted) != _infinities(column):
        raise InvalidRows(
            f"{table}: column {field.name} is {field.type}, and a value of the rows "
            f"({column.type}) does not fit: it would become infinite",
            column=field.name,
        )
    return converted


def _is_moment(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and (
        data_type.root is TypeRoot.DATE or data_type.root.is_timestamp
    )


def _infinities(column: pa.ChunkedArray) -> int:
    return int(pc.sum(pc.is_inf(column)).as_py() or 0)


def _castable(source: pa.DataType, data_type: DataType) -> bool:
    """Whether both types are of one kind: a cast fails only on a value that does not fit."""
    if pa.types.is_null(source):
        return True
    if pa.types.is_dictionary(source):
        return _castable(source.value_type, data_type)
    match data_type:
        case ArrayType(element=element):
            return _kind(source) == "list" and _castable(source.value_type, element)
        case MapType(key=key, value=value):
            return (
                _kind(source) == "map"
                and _castable(source.key_type, key)
                and _castable(source.item_type, value)
            )
        case MultisetType(element=element):
            return (
                _kind(source) == "map"
                and _castable(source.key_type, element)
                and pa.types.is_integer(source.item_type)
            )
        case RowType(fields=fields):
            # A cast would fill a missing member with null and drop an unknown one.
            return (
                _kind(source) == "struct"
                and [member.name for member in source] == [each.name for each in fields]
                and all(
                    _castable(source.field(index).type, each.type)
                    for index, each in enumerate(fields)
                )
            )
        case AtomicType():
            target = to_arrow_type(data_type)
            if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
                # A moment and a local time differ, although Arrow casts one to the other.
                return (source.tz is None) == (target.tz is None)
            return _kind(target) in _TAKES.get(_kind(source), {_kind(source)})


_KINDS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("integer", pa.types.is_integer),
    ("floating", pa.types.is_floating),
    ("decimal", pa.types.is_decimal),
    ("text", lambda each: pa.types.is_string(each) or pa.types.is_large_string(each)),
    ("text", pa.types.is_string_view),
    ("bytes", lambda each: pa.types.is_binary(each) or pa.types.is_large_binary(each)),
    ("bytes", pa.types.is_fixed_size_binary),
    ("date", pa.types.is_date),
    ("time", pa.types.is_time),
    ("list", lambda each: pa.types.is_list(each) or pa.types.is_large_list(each)),
    ("map", pa.types.is_map),
    ("struct", pa.types.is_struct),
)
# How much of a value that does not fit is shown, and how many columns of its row.
_MOST_SHOWN = 40
_MOST_COLUMNS = 5
# Further kinds that values of a kind may be cast to.
_TAKES = {"integer": {"integer", "floating", "decimal"}}


def _kind(arrow_type: pa.DataType) -> str:
    return next((name for name, is_kind in _KINDS if is_kind(arrow_type)), str(arrow_type))


def _parts(
    array: pa.Array, data_type: DataType, path: str
) -> Iterator[tuple[str, pa.Array, DataType]]:
    """An array and each array nested in it, without values below nulls, with paths and types."""
    yield path, array, data_type
    match data_type:
        case ArrayType(element=element):
            yield from _parts(array.flatten(), element, f"{path}[]")
        case MapType(key=key, value=value):
            entries = array.filter(array.is_valid())
            yield from _parts(entries.keys, key, f"{path}.key")
            yield from _parts(entries.items, value, f"{path}.value")
        case MultisetType(element=element):
            yield from _parts(array.filter(array.is_valid()).keys, element, f"{path}[]")
        case RowType(fields=fields):
            members = array.filter(array.is_valid()).flatten()
            for member, inner in zip(fields, members, strict=True):
                yield from _parts(inner, member.type, f"{path}.{member.name}")
        case AtomicType():
            return


def _check_part(array: pa.Array, data_type: DataType, path: str, column: str, table: str) -> None:
    if not data_type.nullable and array.null_count:
        raise InvalidRows(
            f"{table}: column {column} holds null in {path}, which is NOT NULL", column=column
        )
    unfit = _unfit_value(array, data_type) if isinstance(data_type, AtomicType) else None
    if unfit is not None:
        raise InvalidRows(f"{table}: {path} is {data_type}, and {unfit}", column=column)


def _unfit_value(array: pa.Array, data_type: AtomicType) -> str | None:
    """Why a value of the type's own Arrow type does not fit the type; None if all values fit."""
    root = data_type.root
    if root.is_text or root.is_bytes:
        lengths = pc.utf8_length(array) if root.is_text else pc.binary_length(array)
        longest = pc.max(lengths).as_py()
        if longest is None or longest <= data_type.length:
            return None
        too_long = pc.fill_null(pc.greater(lengths, data_type.length), False)
        first = array[pc.index(too_long, True).as_py()].as_py()
        return (
            f"a value is {longest} long: {pc.sum(too_long).as_py()} of {len(array)} do not fit, "
            f"first {first[:_MOST_SHOWN]!r}"
        )
    if root is TypeRoot.DECIMAL:
        # Arrow keeps values wider than the precision they are declared with.
        bounds = pc.min_max(array).as_py()
        for value in (bounds["min"], bounds["max"]):
            if value is not None and not _fits(value, data_type):
                return f"{value} does not fit"
    return None


def _fits(value: Decimal, data_type: AtomicType) -> bool:
    # Python's default decimal context would round wide decimals before the comparison.
    unscaled = int(value.scaleb(data_type.scale, EXACT_DECIMALS))
    return bool(abs(unscaled) < 10**data_type.precision)
