"""Numbers of a source as moments, in the unit that is declared for them.

A number in a column of moments is refused where no unit is declared. A column with one is read as
numbers first, whatever the format, and these become moments without rounding.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.epoch_units import EpochUnit

# Holds the whole numbers of 64 bits, and nine digits after the point.
NUMBER = AtomicType(TypeRoot.DECIMAL, precision=38, scale=9)
# The first moment of the year 1, and of the year 10000.
_FIRST_S, _END_S = -62_135_596_800, 253_402_300_800


def moments(
    numbers: pa.ChunkedArray, field: DataField, unit: EpochUnit, where: str
) -> pa.ChunkedArray:
    """Numbers as moments; a column that is no number stays as it is.

    Raises:
        InvalidRows: a number is no moment of the years 1 to 9999, or finer than its unit can be.
    """
    kind = numbers.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return numbers
    try:
        try:
            counts, arrow_unit = numbers.cast(pa.int64()), unit.of_arrow
            _check_years(counts, unit.nanos)
        except pa.ArrowInvalid:
            counts, arrow_unit = _with_fractions(numbers, unit)
            _check_years(counts, 1 if arrow_unit == "ns" else 1_000)
        if arrow_unit is None:
            return counts.cast(pa.int32()).cast(pa.date32())
        assert isinstance(field.type, AtomicType)
        zone = "UTC" if field.type.root is TypeRoot.TIMESTAMP_LTZ else None
        return counts.cast(pa.timestamp(arrow_unit, tz=zone))
    except (ValueError, ArithmeticError) as error:
        raise InvalidRows(
            f"{where}: column {field.name} is {field.type} from {unit.value}, and {error}",
            column=field.name,
        ) from error


def _check_years(counts: pa.ChunkedArray, nanos: int) -> None:
    bounds = pc.min_max(counts).as_py()
    for count in bounds.values():
        if count is not None and not _FIRST_S <= count * nanos // 10**9 < _END_S:
            raise ValueError(
                f"{count} is outside of the years 1 to 9999; is the declared unit the right one?"
            )


def _with_fractions(numbers: pa.ChunkedArray, unit: EpochUnit) -> tuple[pa.ChunkedArray, str]:
    """Numbers with digits after the point as microseconds, or as nanoseconds if they are finer."""
    exact = [_nanos(each, unit) for each in numbers.to_pylist()]
    if any(each is not None and each % 1_000 for each in exact):
        return pa.chunked_array([pa.array(exact, pa.int64())]), "ns"
    micros = [None if each is None else each // 1_000 for each in exact]
    return pa.chunked_array([pa.array(micros, pa.int64())]), "us"


def _nanos(number: object, unit: EpochUnit) -> int | None:
    if number is None:
        return None
    # The shortest text of a float is the number that the file holds.
    value = Decimal(repr(number)) if isinstance(number, float) else number
    assert isinstance(value, (Decimal, int))
    nanos = value * unit.nanos
    if unit is EpochUnit.DAYS or not Decimal(nanos).is_finite() or nanos != int(nanos):
        raise ValueError(f"{number} is no whole number of days, or of nanoseconds")
    return int(nanos)
