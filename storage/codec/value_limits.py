"""Which values of its Arrow type a column may hold: lengths, digits, and the years 1 to 9999."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.spec.data_types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    OpaqueType,
    RowType,
    TypeRoot,
)
from lakewright.storage.spec.values import EXACT_DECIMALS, stored_digits

# Days since 1970 of the first date of the year 1, and of the year 10000.
FIRST_DAY, END_DAY = -719_162, 2_932_897
_MOST_SHOWN = 40
UNITS_OF_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def limits_values(data_type: DataType) -> bool:
    """Whether a type, at any depth, holds fewer values than its Arrow type, beside far moments."""
    match data_type:
        case ArrayType(element=element) | MultisetType(element=element):
            return limits_values(element)
        case MapType(key=key, value=value):
            return limits_values(key) or limits_values(value)
        case RowType(fields=fields):
            return any(limits_values(field.type) for field in fields)
        case OpaqueType():
            return False
        case AtomicType(root=root):
            if root.is_text or root.is_bytes:
                return data_type.length < MAX_LENGTH
            if root is TypeRoot.TIME or root is TypeRoot.DECIMAL:
                # Arrow has times from 24:00:00, and decimals wider than their precision.
                return True
            return root.is_timestamp and data_type.precision < stored_digits(data_type)


def unfit_value(array: pa.Array, data_type: AtomicType) -> str | None:
    """Why a value of the type's own Arrow type does not fit the type; None if all values fit."""
    return unfit_stored(array, data_type) or unfit_moment(array, data_type)


def unfit_stored(array: pa.Array, data_type: AtomicType) -> str | None:
    """Why a value of a table's own files does not fit its type; None if all values fit.

    Their writers may have kept more digits of a second than a type declares.
    """
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
            if value is not None and not fits_decimal(value, data_type):
                return f"{value} does not fit"
    return None


def fits_decimal(value: Decimal, data_type: AtomicType) -> bool:
    """Whether a DECIMAL has as many digits as a value of its scale."""
    # Python's default decimal context would round wide decimals before the comparison.
    unscaled = int(value.scaleb(data_type.scale, EXACT_DECIMALS))
    return bool(abs(unscaled) < 10**data_type.precision)


def unfit_moment(array: pa.Array, data_type: AtomicType) -> str | None:
    """Why a value of the type's own Arrow type does not fit it; None if all fit, or are others."""
    kind = array.type
    is_time, is_date = pa.types.is_time32(kind), pa.types.is_date32(kind)
    if not (is_date or is_time or pa.types.is_timestamp(kind)):
        return None
    numbers = array.drop_null().cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_numpy()
    if not len(numbers):
        return None
    if is_time:
        last = int(numbers.max())
        if not 0 <= int(numbers.min()) <= last < UNITS_OF_A_DAY["ms"]:
            return f"a value ({last} ms of the day) is not before 24:00:00"
    else:
        a_day = 1 if is_date else UNITS_OF_A_DAY[kind.unit]
        for number in (int(numbers.min()), int(numbers.max())):
            if not FIRST_DAY <= number // a_day < END_DAY:
                counted = f"{number} {'days' if is_date else kind.unit} from 1970"
                return (
                    f"a value ({counted}) is outside of the years 1 to 9999, as infinity is "
                    "stored; make it null, or a date of those years"
                )
    digits = 0 if is_date else stored_digits(data_type)
    if data_type.precision < digits:
        finer = numbers % 10 ** (digits - data_type.precision) != 0
        if finer.any():
            first = pa.array(numbers[finer][:1]).cast(kind).cast(pa.string())[0]
            wider = replace(data_type, precision=digits)
            return (
                f"{first} has more digits below the second than the type declares; round it, or "
                f"declare {wider}"
            )
    return None
