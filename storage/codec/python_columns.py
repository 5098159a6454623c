"""Columns of Python values, as rows that are mappings hold them, in a table's types.

Texts are parsed for every type, as `from_python` does. A list is an ARRAY, a mapping a MAP or a
ROW; members that a ROW lacks are null, and others are refused.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, compress

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.arrow_values import array_of
from lakewright.storage.codec.value_limits import unfit_value
from lakewright.storage.spec.data_types import (
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
from lakewright.storage.spec.values import Value, from_python, has_zone

_COUNT = not_null(AtomicType(TypeRoot.INT))
_INFINITIES = (math.inf, -math.inf)
_NONE = type(None)
_MOST_SHOWN = 80
# Python types that Arrow takes for a type just as `from_python` does.
_ALIKE: Mapping[TypeRoot, frozenset[type]] = {
    TypeRoot.BOOLEAN: frozenset({bool, _NONE}),
    TypeRoot.TINYINT: frozenset({int, _NONE}),
    TypeRoot.SMALLINT: frozenset({int, _NONE}),
    TypeRoot.INT: frozenset({int, _NONE}),
    TypeRoot.BIGINT: frozenset({int, _NONE}),
    TypeRoot.DOUBLE: frozenset({float, _NONE}),
    TypeRoot.DECIMAL: frozenset({Decimal, _NONE}),
    TypeRoot.CHAR: frozenset({str, _NONE}),
    TypeRoot.VARCHAR: frozenset({str, _NONE}),
    TypeRoot.BINARY: frozenset({bytes, _NONE}),
    TypeRoot.VARBINARY: frozenset({bytes, _NONE}),
    TypeRoot.DATE: frozenset({dt.date, _NONE}),
}


class UnfitValueError(ValueError):
    """A value that is not of its column's type; `at` is its row, `path` its place in the row."""

    def __init__(self, at: int, path: str, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.path = path
        self.why = why


# From a value of an atomic type, not null, to one that `from_python` takes; raises a ValueError.
ReadAtom = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a format's values become columns, where it is not as with values of a caller."""

    # None for a type whose values are taken as they are.
    reader: Callable[[AtomicType], ReadAtom | None] = lambda _: None
    # Members that a ROW has not are passed over.
    ignores_unknown: bool = False
    # A member that a mapping lacks is an error; null is a value.
    requires_members: bool = False
    # Told of each value that does not fit, which then is null; without it, the first is raised.
    on_unfit: Callable[[UnfitValueError], None] | None = None

    def refuse(self, error: UnfitValueError) -> None:
        """Tell of a value that does not fit, or raise."""
        if self.on_unfit is None:
            raise error
        self.on_unfit(error)


_AS_CALLERS_GIVE = Reading()


def python_column(
    values: Sequence[object], field: DataField, reading: Reading = _AS_CALLERS_GIVE
) -> pa.Array:
    """The values of a column.

    Raises:
        UnfitValueError: one is not of the column's type.
    """
    return _array(values, field.type, field.name, range(len(values)), reading)


def _array(
    values: Sequence[object],
    data_type: DataType,
    path: str,
    rows: Sequence[int],
    reading: Reading,
) -> pa.Array:
    """Values in a type; `rows` has the row of each, for the message about one that does not fit."""
    match data_type:
        case AtomicType():
            return _atoms(values, data_type, path, rows, reading)
        case ArrayType(element=element):
            lists = _lists(values, path, rows, reading)
            items = [item for each in lists for item in each or ()]
            inner = _array(items, element, f"{path}[]", _repeated(lists, rows), reading)
            return pa.ListArray.from_arrays(
                _offsets(lists), inner, type=to_arrow_type(data_type), mask=_nulls(lists)
            )
        case MapType(key=key, value=value):
            return _map(values, (key, value), data_type, path, rows, reading)
        case MultisetType(element=element):
            return _map(values, (element, _COUNT), data_type, path, rows, reading)
        case RowType(fields=fields):
            return _rows(values, fields, data_type, path, rows, reading)


def _atoms(
    values: Sequence[object],
    data_type: AtomicType,
    path: str,
    rows: Sequence[int],
    reading: Reading,
) -> pa.Array:
    array = _atom_array(values, data_type, path, rows, reading)
    if unfit_value(array, data_type) is None:
        return array
    fits = []
    for place, at in enumerate(rows):
        unfit = unfit_value(array.slice(place, 1), data_type)
        fits.append(unfit is None)
        if unfit is not None:
            reading.refuse(UnfitValueError(at, path, f"is {data_type}, and {unfit}"))
    return pc.if_else(pa.array(fits), array, pa.scalar(None, array.type))


def _atom_array(
    values: Sequence[object],
    data_type: AtomicType,
    path: str,
    rows: Sequence[int],
    reading: Reading,
) -> pa.Array:
    values = _read_atoms(values, data_type, path, rows, reading)
    if set(map(type, values)) <= _ALIKE.get(data_type.root, frozenset()):
        try:
            return pa.array(values, to_arrow_type(data_type))
        except (pa.ArrowException, ValueError, OverflowError):
            # Below, the value that does not fit is found, and values of less scale are widened.
            pass
    else:
        moments = _moments_of_texts(values, data_type)
        if moments is not None:
            return moments
    found = []
    for value, at in zip(values, rows, strict=True):
        try:
            found.append(_atom(value, data_type))
        except ValueError as error:
            reading.refuse(UnfitValueError(at, path, f"is {data_type}, and {error}"))
            found.append(None)
    return array_of(found, data_type)


def _read_atoms(
    values: Sequence[object],
    data_type: AtomicType,
    path: str,
    rows: Sequence[int],
    reading: Reading,
) -> Sequence[object]:
    read = reading.reader(data_type)
    if read is None:
        return values
    try:
        return [None if value is None else read(value) for value in values]
    except ValueError:
        pass
    found: list[object] = []
    for value, at in zip(values, rows, strict=True):
        try:
            found.append(None if value is None else read(value))
        except ValueError as error:
            reading.refuse(UnfitValueError(at, path, f"is {data_type}, and {error}"))
            found.append(None)
    return found


def _atom(value: object, data_type: AtomicType) -> Value:
    """A value in its internal form; raises a ValueError."""
    converted = from_python(value, data_type)
    if converted in _INFINITIES and _is_finite(value):
        raise ValueError(f"{_shown(value)} is too large")
    if isinstance(converted, float) and isinstance(value, int) and converted != value:
        raise ValueError(
            f"no {data_type} is equal to {_shown(value)}, the nearest is {int(converted)}"
        )
    if data_type.root is TypeRoot.TIMESTAMP_LTZ and not _has_zone(value):
        raise ValueError(f"{_shown(value)} has no zone; give it one")
    return converted


def _is_finite(value: object) -> bool:
    """Whether a number or a text is not infinite itself."""
    if isinstance(value, str):
        return "inf" not in value.lower()
    return not isinstance(value, float) or math.isfinite(value)


def _moments_of_texts(values: Sequence[object], data_type: AtomicType) -> pa.Array | None:
    """Texts as dates or timestamps; None if they are others, or Arrow cannot read one."""
    is_moment = data_type.root is TypeRoot.DATE or data_type.root.is_timestamp
    if not is_moment or not set(map(type, values)) <= {str, _NONE}:
        return None
    try:
        moments = pa.array(values, pa.string()).cast(to_arrow_type(data_type))
    except pa.ArrowException:
        return None
    return moments


def _has_zone(value: object) -> bool:
    match value:
        case dt.datetime():
            return value.tzinfo is not None
        case str():
            return has_zone(value)
        case _:
            return not isinstance(value, dt.date)


def _map(
    values: Sequence[object],
    types: tuple[DataType, DataType],
    data_type: DataType,
    path: str,
    rows: Sequence[int],
    reading: Reading,
) -> pa.Array:
    maps = _mappings(values, path, rows, reading)
    takes_null = types[1].nullable
    for place, at in enumerate(rows):
        each = maps[place] or {}
        if None in each:
            raise UnfitValueError(at, path, f"is {data_type}, and a key of it is null")
        if not takes_null and None in each.values():
            why = f"is {data_type}, and a value of it is null"
            reading.refuse(UnfitValueError(at, path, why))
            maps[place] = None
    owners = _repeated(maps, rows)
    names = [key for each in maps for key in each or ()]
    keys = _array(names, types[0], f"{path}.key", owners, reading)
    items = [item for each in maps for item in (each or {}).values()]
    inner = _array(items, types[1], f"{path}.value", owners, reading)
    unfit = keys.is_null() if takes_null else pc.or_(keys.is_null(), inner.is_null())
    if pc.any(unfit).as_py():
        # The reading knows of the keys and values that did not fit; a map cannot hold their nulls.
        lost = set(compress(_repeated(maps, range(len(maps))), unfit.to_pylist()))
        left = [None if place in lost else each for place, each in enumerate(maps)]
        return _map(left, types, data_type, path, rows, reading)
    target = to_arrow_type(data_type)
    made = pa.MapArray.from_arrays(_offsets(maps), keys, inner, type=target)
    if None not in maps:
        return made
    # Arrow's constructor of maps takes no mask; null offsets would lose the ends.
    return made.take(
        pa.array([None if each is None else at for at, each in enumerate(maps)], pa.int64())
    )


def _rows(
    values: Sequence[object],
    fields: Sequence[DataField],
    data_type: DataType,
    path: str,
    rows: Sequence[int],
    reading: Reading,
) -> pa.Array:
    held = _mappings(values, path, rows, reading)
    if not reading.ignores_unknown:
        _check_known(held, fields, data_type, path, rows)
    if reading.requires_members:
        _check_present(held, fields, path, rows, reading)
    members = [
        _array(
            [None if each is None else each.get(field.name) for each in held],
            field.type,
            f"{path}.{field.name}" if path else field.name,
            rows,
            reading,
        )
        for field in fields
    ]
    target = to_arrow_type(data_type)
    return pa.StructArray.from_arrays(members, fields=list(target), mask=_nulls(held))


def _check_known(
    held: Sequence[Mapping[str, object] | None],
    fields: Sequence[DataField],
    data_type: DataType,
    path: str,
    rows: Sequence[int],
) -> None:
    names = {field.name for field in fields}
    for each, at in zip(held, rows, strict=True):
        unknown = [str(name) for name in each or () if name not in names]
        if unknown:
            raise UnfitValueError(
                at, path, f"is {data_type}, and holds the unknown member {', '.join(unknown)}"
            )


def _check_present(
    held: Sequence[Mapping[str, object] | None],
    fields: Sequence[DataField],
    path: str,
    rows: Sequence[int],
    reading: Reading,
) -> None:
    for each, at in zip(held, rows, strict=True):
        for field in fields:
            if each is not None and field.name not in each:
                place = f"{path}.{field.name}" if path else field.name
                reading.refuse(UnfitValueError(at, place, "is missing"))


def _lists(
    values: Sequence[object], path: str, rows: Sequence[int], reading: Reading
) -> list[Sequence[object] | None]:
    lists: list[Sequence[object] | None] = []
    for value, at in zip(values, rows, strict=True):
        if value is None or isinstance(value, (list, tuple)):
            lists.append(value)
        else:
            why = f"needs a list, and holds {_shown(value)}"
            reading.refuse(UnfitValueError(at, path, why))
            lists.append(None)
    return lists


def _mappings(
    values: Sequence[object], path: str, rows: Sequence[int], reading: Reading
) -> list[Mapping[str, object] | None]:
    mappings: list[Mapping[str, object] | None] = []
    for value, at in zip(values, rows, strict=True):
        if value is None or isinstance(value, Mapping):
            mappings.append(value)
        else:
            why = f"needs a mapping, and holds {_shown(value)}"
            reading.refuse(UnfitValueError(at, path, why))
            mappings.append(None)
    return mappings


def _repeated(held: Sequence[Sized | None], rows: Sequence[int]) -> list[int]:
    return [at for each, at in zip(held, rows, strict=True) for _ in range(len(each or ()))]


def _offsets(held: Sequence[Sized | None]) -> pa.Array:
    return pa.array(list(accumulate((len(each or ()) for each in held), initial=0)), pa.int32())


def _nulls(held: Sequence[object]) -> pa.Array | None:
    return pa.array([each is None for each in held]) if None in held else None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
