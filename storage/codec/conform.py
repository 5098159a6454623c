"""The rule for values that come into a table, whichever way they come.

A value of a column stays the same, is converted exactly, or is refused with the way out. What Arrow
says of a column proves nothing about its values: a driver, a file or a cast may have put any number
there, so the values are judged where the types are equal, too.

Files, drivers, messages, callers and queries hand their columns over here. What a source says of
its values beside their types is its `ValueForm`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.storage.codec.epoch_numbers import NUMBER, moments
from lakewright.storage.codec.text_values import TextLayout, from_text, has_text_form
from lakewright.storage.codec.value_limits import UNITS_OF_A_DAY, unfit_stored, unfit_value
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.arguments import repeated
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
)
from lakewright.storage.spec.epoch_units import EpochUnit

# How much of a value that does not fit is shown, and how many columns of its row.
_MOST_SHOWN = 40
_MOST_COLUMNS = 5
Units = Mapping[str, EpochUnit]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueForm:
    """What a source says of its values beside their types.

    Without `texts`, a text is refused for a column that is none. `units` has the unit of numbers
    that stand for moments, by column. The columns `days` take the day of local times, where it
    names a partition.
    """

    texts: TextLayout | None = None
    units: Units = field(default_factory=dict)
    days: frozenset[str] = frozenset()


_TYPED = ValueForm()


def conform(
    rows: pa.Table,
    fields: Sequence[DataField],
    *,
    table: str,
    form: ValueForm = _TYPED,
    stored: Collection[str] = (),
    first_row: int = 0,
) -> pa.Table:
    """The rows with exactly the columns of `fields`, in their order and types.

    Columns are found by name. Those of `stored` come from the table itself, whose writers may have
    kept more digits than a type declares. `first_row` is the number of rows before these.

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
    columns = [
        _conform_column(rows, each, table, form, first_row, is_stored=each.name in stored)
        for each in fields
    ]
    return pa.table(columns, schema=to_arrow_schema(fields))


def _conform_column(
    rows: pa.Table,
    field: DataField,
    table: str,
    form: ValueForm,
    first_row: int,
    *,
    is_stored: bool,
) -> pa.ChunkedArray:
    column = _plain(rows.column(field.name))
    if _is_read(column.type, field, form):
        return _read(column, field, table, form, first_row)
    try:
        return _conformed(column, field, table, is_stored=is_stored)
    except InvalidRows as error:
        at = _first_unfit(column, field, table, is_stored=is_stored)
        if at is None:
            raise
        message = f"{error.message}; the first such row: {_row_text(rows, at)}"
        raise InvalidRows(message, column=field.name) from error


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without a dictionary, or the extension of a driver."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    plain = _plain_type(column.type)
    return column if plain == column.type else column.cast(plain)


def with_plain_types(rows: pa.Table) -> pa.Table:
    """The rows with types of which Arrow can take values: others than views, as Polars has."""
    for at, each in enumerate(rows.schema):
        kind = _plain_type(each.type)
        if kind != each.type:
            rows = rows.set_column(at, each.name, rows.column(at).cast(kind))
    return rows


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """A type without the extensions of a driver, and without views, at any depth."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_plain_type(each.type)) for each in kind])
    return kind


def _is_read(given: pa.DataType, field: DataField, form: ValueForm) -> bool:
    """Whether values of another kind are read as those of the column, as the source says."""
    if field.name in form.units and _kind(given) in ("integer", "floating", "decimal"):
        return True
    if field.name in form.days and pa.types.is_timestamp(given) and given.tz is None:
        return True
    if form.texts is None or _kind(given) != "text" or not has_text_form(field.type, form.texts):
        return False
    return not (isinstance(field.type, AtomicType) and field.type.root.is_text)


def _read(
    column: pa.ChunkedArray, field: DataField, table: str, form: ValueForm, first_row: int
) -> pa.ChunkedArray:
    unit = form.units.get(field.name)
    if _kind(column.type) == "text":
        assert form.texts is not None
        read_as = field if unit is None else number_field(field)
        texts = column.cast(pa.string()).combine_chunks()
        try:
            values = from_text(texts, read_as, form.texts, first_row=first_row)
        except InvalidRows as error:
            told = said_of_moments(error, [field], form.units)
            raise InvalidRows(f"{table}: {told.message}", column=field.name) from None
        column = pa.chunked_array([values])
    elif unit is None:
        days = pc.floor_temporal(column, unit="day").cast(pa.date32())
        return _conformed(days, field, table, is_stored=False)
    if unit is not None:
        column = moments(column, field, unit, table)
    return _conformed(column, field, table, is_stored=False)


# --- numbers that stand for moments ---------------------------------------------------------------


def number_field(field: DataField) -> DataField:
    """A column of moments as one of the numbers that stand for them."""
    return replace(field, type=replace(NUMBER, nullable=field.type.nullable))


def number_fields(fields: Sequence[DataField], units: Units) -> tuple[DataField, ...]:
    """The fields, with numbers in place of the moments that come as such."""
    return tuple(number_field(each) if each.name in units else each for each in fields)


def said_of_moments(error: InvalidRows, fields: Sequence[DataField], units: Units) -> InvalidRows:
    """An error about a value, in terms of the column's own type and unit."""
    for each in fields:
        if each.name == error.details.get("column") and each.name in units:
            own = f"{each.type} from {units[each.name].value}"
            number = str(number_field(each).type)
            return InvalidRows(error.message.replace(number, own), **error.details)
    return error


def with_moments(rows: pa.Table, fields: Sequence[DataField], units: Units, where: str) -> pa.Table:
    """Rows with moments in place of the numbers of the columns that have a unit.

    Raises:
        InvalidRows: a number is no moment of the years 1 to 9999, or finer than its unit can be.
    """
    for each in fields:
        if each.name in units and each.name in rows.column_names:
            at = rows.column_names.index(each.name)
            column = moments(rows.column(at), each, units[each.name], where)
            rows = rows.set_column(at, each.name, column)
    return rows


# --- results of queries ---------------------------------------------------------------------------


def numbers_of_query(column: pa.ChunkedArray, field: DataField, table: str) -> pa.ChunkedArray:
    """A column of a query as the numbers that it fills: DuckDB's sums and fractions are decimals.

    Raises:
        InvalidRows: a decimal is no number of the column's type.
    """
    kind = _with_numbers(column.type, field.type)
    if kind == column.type:
        return column
    try:
        made = column.cast(kind)
    except pa.ArrowException as error:
        raise InvalidRows(
            f"{table}: column {field.name} is {field.type}, and a number of the query is not: "
            f"{error}; to round or convert it, CAST it in an expression",
            column=field.name,
        ) from error
    if pa.types.is_floating(kind) and column.type.scale == 0:
        # A sum of whole numbers is one, and a floating number need not be equal to it.
        may_differ = pc.greater_equal(pc.abs(made), float(2**24 if kind.bit_width == 32 else 2**53))
        for given, found in zip(column.filter(may_differ), made.filter(may_differ), strict=True):
            if found.as_py() != given.as_py():
                raise InvalidRows(
                    f"{table}: column {field.name} is {field.type}, and no {field.type} is equal "
                    f"to {given}; to round it, CAST it in an expression",
                    column=field.name,
                )
    return made


def _with_numbers(given: pa.DataType, data_type: DataType) -> pa.DataType:
    """A type with numbers in place of decimals, where a column has such, at any depth."""
    match data_type:
        case ArrayType(element=element) if pa.types.is_list(given):
            return pa.list_(_with_numbers(given.value_type, element))
        case MapType(key=key, value=value) if pa.types.is_map(given):
            return pa.map_(
                _with_numbers(given.key_type, key), _with_numbers(given.item_type, value)
            )
        case RowType(fields=fields) if pa.types.is_struct(given) and len(fields) == len(given):
            return pa.struct(
                [
                    member.with_type(_with_numbers(member.type, each.type))
                    for member, each in zip(given, fields, strict=True)
                ]
            )
        case AtomicType(root=root) if pa.types.is_decimal(given):
            return to_arrow_type(data_type) if root.is_integer or root.is_floating else given
        case _:
            return given


# --- Arrow's values -------------------------------------------------------------------------------


def _first_unfit(
    column: pa.ChunkedArray, field: DataField, table: str, *, is_stored: bool
) -> int | None:
    """The position of the first value that does not fit; None if it is the column's type."""
    low, high = 0, len(column)
    while low < high:
        middle = (low + high) // 2
        try:
            _conformed(column.slice(low, middle + 1 - low), field, table, is_stored=is_stored)
            low = middle + 1
        except InvalidRows:
            high = middle
    try:
        _conformed(column.slice(0, 0), field, table, is_stored=is_stored)
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
    except (ValueError, OverflowError, KeyError):
        # Python has no dates outside of its years, and not each zone that a file names.
        return str(value.type)


def _conformed(
    column: pa.ChunkedArray, field: DataField, table: str, *, is_stored: bool
) -> pa.ChunkedArray:
    target = to_arrow_type(field.type)
    if not field.type.nullable and column.null_count:
        raise InvalidRows(
            f"{table}: column {field.name} is NOT NULL, and {column.null_count} of "
            f"{len(column)} rows hold null",
            column=field.name,
        )
    if not column.type.equals(target):
        for chunk in column.chunks:
            _check_wrapped(chunk, field, table)
        column = _cast(column, target, field, table)
    for chunk in column.chunks:
        for path, part, data_type in _parts(chunk, field.type, field.name):
            _check_part(part, data_type, path, field.name, table, is_stored=is_stored)
    return column


def _check_wrapped(array: pa.Array, field: DataField, table: str) -> None:
    """Refuse values that Arrow's casts would turn into others: it takes 24:00:00 for 00:00:00."""
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        _check_wrapped(array.flatten(), field, table)
    elif pa.types.is_map(kind):
        entries = array.filter(array.is_valid())
        _check_wrapped(entries.keys, field, table)
        _check_wrapped(entries.items, field, table)
    elif pa.types.is_struct(kind):
        for member in array.filter(array.is_valid()).flatten():
            _check_wrapped(member, field, table)
    elif (pa.types.is_time(kind) or pa.types.is_date64(kind)) and len(array):
        numbers = array.drop_null().cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        values = numbers.to_numpy()
        a_day = UNITS_OF_A_DAY[kind.unit if pa.types.is_time(kind) else "ms"]
        wrong = values % a_day != 0 if pa.types.is_date64(kind) else values // a_day != 0
        if wrong.any():
            what = "is no whole day" if pa.types.is_date64(kind) else "is not before 24:00:00"
            raise InvalidRows(
                f"{table}: column {field.name} is {field.type}, and a value of the rows "
                f"({values[wrong][0]}, {kind}) {what}; leave such rows out, or make it null",
                column=field.name,
            )


def _cast(
    column: pa.ChunkedArray, target: pa.DataType, field: DataField, table: str
) -> pa.ChunkedArray:
    if not _castable(column.type, field.type):
        way_out = "convert them first"
        if _kind(column.type) == "text":
            way_out = "declare the column STRING, or convert the text first"
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
        case OpaqueType():
            return False
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


def _check_part(
    array: pa.Array, data_type: DataType, path: str, column: str, table: str, *, is_stored: bool
) -> None:
    if not data_type.nullable and array.null_count:
        raise InvalidRows(
            f"{table}: column {column} holds null in {path}, which is NOT NULL", column=column
        )
    unfit = None
    if isinstance(data_type, AtomicType):
        unfit = unfit_stored(array, data_type) if is_stored else unfit_value(array, data_type)
    if unfit is not None:
        raise InvalidRows(f"{table}: column {path} is {data_type}, and {unfit}", column=column)
