"""What dates, times and timestamps a column may hold: years 1 to 9999, and its declared digits."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lakewright.storage.spec.data_types import AtomicType
from lakewright.storage.spec.values import stored_digits

# Days since 1970 of the first date of the year 1, and of the year 10000.
_FIRST_DAY, _END_DAY = -719_162, 2_932_897
_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def unfit_moment(array: pa.Array, data_type: AtomicType) -> str | None:
    """Why a value of the type's own Arrow type does not fit it; None if all fit, or are others."""
    kind = array.type
    is_time, is_date = pa.types.is_time32(kind), pa.types.is_date32(kind)
    if not (is_date or is_time or pa.types.is_timestamp(kind)):
        return None
    numbers = array.drop_null().cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_numpy()
    if not len(numbers):
        return None
    if not is_time:
        a_day = 1 if is_date else _A_DAY[kind.unit]
        for number in (int(numbers.min()), int(numbers.max())):
            if not _FIRST_DAY <= number // a_day < _END_DAY:
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
