"""Which types a column may change into: one table for all pairs of types.

Lines are old types; columns are new types, in the order of the lines. `i` marks an implicit cast,
which every table allows. `e` marks an explicit cast, which a table must allow, since values often
do not fit. A dot marks a pair that is refused. Source: Paimon `DataTypeCasts`, without the pairs
for which `CastExecutors` has no cast. `codec/evolved_values.py` does the casts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from lakewright.storage.spec.cast_mode import CastMode
from lakewright.storage.spec.data_types import INTEGER_BITS, STRING, AtomicType, DataType, TypeRoot

_TABLE = """
BOOLEAN        i e e e e e e e e e . . . . . .
TINYINT        e i i i i i i i e e . . . . . .
SMALLINT       e e i i i i i i e e . . . . . .
INT            e e e i i i i i e e . . . . e e
BIGINT         e e e e i i i i e e . . . . e e
FLOAT          . e e e e i i i e e . . . . . .
DOUBLE         . e e e e e i i e e . . . . . .
DECIMAL        . e e e e i i i e e . . . . . .
CHAR           e e e e e e e e i i e e e e e e
VARCHAR        e e e e e e e e e i e e e e e e
BINARY         . . . . . . . . e e i i . . . .
VARBINARY      . . . . . . . . e e e i . . . .
DATE           . . . . . . . . . e . . i . e e
TIME           . . . . . . . . . e . . . . e e
TIMESTAMP      . . . e e . . . . e . . i i i i
TIMESTAMP_LTZ  . . . e e . . . . e . . e e i i
"""


class Cast(Enum):
    """How a type changes into another one."""

    SAME = "same"
    IMPLICIT = "implicit"
    EXPLICIT = "explicit"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class CastRule:
    """The cast between two types, and in words the values that it changes.

    `shortened` says how values change that fit, as a fraction that becomes a whole number.
    `unfit` names the values that do not fit: beyond the range or the length of the new type, or
    no value of it. `fate` says what becomes of those where values are read as Java reads them.
    """

    cast: Cast
    shortened: str | None = None
    unfit: str | None = None
    fate: str = ""

    @property
    def loss(self) -> str | None:
        """What is lost where values are read as Java reads them; None if nothing is."""
        return self.loss_in(CastMode.EXPLICIT)

    def loss_in(self, mode: CastMode) -> str | None:
        """What a table with this mode loses; None if every value keeps its meaning."""
        fates = {CastMode.EXPLICIT_FAIL: "fail the read", CastMode.EXPLICIT_NULL: "become null"}
        unfit = None if self.unfit is None else f"{self.unfit} {fates.get(mode, self.fate)}"
        return ", and ".join(each for each in (self.shortened, unfit) if each) or None


_MARKS = {"i": Cast.IMPLICIT, "e": Cast.EXPLICIT, ".": Cast.REFUSED}


def _read(table: str) -> dict[tuple[TypeRoot, TypeRoot], Cast]:
    lines = [line.split() for line in table.strip().splitlines()]
    roots = [TypeRoot(line[0]) for line in lines]
    return {
        (TypeRoot(old), new): _MARKS[mark]
        for old, *marks in lines
        for new, mark in zip(roots, marks, strict=True)
    }


_CASTS = _read(_TABLE)
# Types that become a text without a length only.
_TO_STRING_ONLY = frozenset({TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP})
# The most decimal digits of each integer type, and the whole numbers that floats hold exactly.
_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INT: 10, TypeRoot.BIGINT: 19}
_EXACT_BITS = {TypeRoot.FLOAT: 24, TypeRoot.DOUBLE: 53}
# Timestamps with more digits are counts of nanoseconds, in 64 bits. Java holds more of them.
_MICROSECONDS = 6


def cast_rule(old: DataType, new: DataType) -> CastRule:
    """The rule for a pair of types, whatever their nullability.

    Types with members are changed member by member, so no cast leads from or to them.
    """
    if replace(old, nullable=True) == replace(new, nullable=True):
        return CastRule(Cast.SAME)
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return CastRule(Cast.REFUSED)
    cast = _CASTS[old.root, new.root]
    if new.root is TypeRoot.VARCHAR and (old.root in _TO_STRING_ONLY or old.root.is_timestamp):
        cast = cast if new.length == STRING.length else Cast.REFUSED
    return CastRule(cast) if cast is Cast.REFUSED else CastRule(cast, *_loss(old, new))


# How values that fit change, which values do not fit, and what becomes of those in Java.
_Loss: TypeAlias = tuple[str | None, str | None, str]
_NONE: _Loss = (None, None, "")


def _loss(old: AtomicType, new: AtomicType) -> _Loss:
    source, target = old.root, new.root
    if target.is_text:
        return _loss_to_text(old, new)
    if target.is_bytes:
        if source.is_bytes and new.length >= old.length and target is not TypeRoot.BINARY:
            return _NONE
        filled = "shorter values are filled with zeros" if target is TypeRoot.BINARY else None
        return filled, f"values longer than {new.length} bytes", "are cut"
    if source.is_text:
        return None, f"texts that are no {new}", "fail the read"
    if target is TypeRoot.BOOLEAN:
        return "every number but 0 becomes true", None, ""
    if target is TypeRoot.DECIMAL:
        return _loss_to_decimal(old, new)
    if target.is_floating:
        return _loss_to_floating(old, new)
    if target.is_integer:
        return _loss_to_integer(old, new)
    return _loss_to_time(old, new), *_unfit_for_time(old, new)


def _loss_to_text(old: AtomicType, new: AtomicType) -> _Loss:
    filled = "shorter texts are filled with blanks" if new.root is TypeRoot.CHAR else None
    if old.root.is_bytes:
        return filled, "bytes that are no UTF-8", "are shown with replacement characters"
    if new.length == STRING.length or (old.root.is_text and new.length >= old.length):
        return filled, None, ""
    return filled, f"texts longer than {new.length} characters", "are cut"


def _loss_to_integer(old: AtomicType, new: AtomicType) -> _Loss:
    low, high = -(1 << INTEGER_BITS[new.root] - 1), (1 << INTEGER_BITS[new.root] - 1) - 1
    beyond = f"values beyond {low} to {high}"
    if old.root is TypeRoot.BOOLEAN:
        return _NONE
    if old.root.is_integer:
        narrows = INTEGER_BITS[old.root] > INTEGER_BITS[new.root]
        return (None, beyond, "wrap around") if narrows else _NONE
    if old.root.is_timestamp:
        wraps = new.root is not TypeRoot.BIGINT
        return "fractions of seconds are cut", beyond if wraps else None, "wrap around"
    return "fractions are cut", beyond, "change"


def _loss_to_decimal(old: AtomicType, new: AtomicType) -> _Loss:
    room = new.precision - new.scale
    if old.root is TypeRoot.BOOLEAN and room:
        return _NONE
    if old.root in _DIGITS and room >= _DIGITS[old.root]:
        return _NONE
    beyond = f"values with more than {room} digits before the point"
    if old.root is TypeRoot.DECIMAL and new.scale >= old.scale:
        return _NONE if room >= old.precision - old.scale else (None, beyond, "become null")
    if old.root in _DIGITS or old.root is TypeRoot.BOOLEAN:
        return None, f"values with more than {room} digits", "become null"
    return f"values are rounded to {new.scale} digits after the point", beyond, "become null"


def _loss_to_floating(old: AtomicType, new: AtomicType) -> _Loss:
    if old.root is TypeRoot.BOOLEAN or (old.root, new.root) == (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return _NONE
    if old.root.is_integer and INTEGER_BITS[old.root] <= _EXACT_BITS[new.root]:
        return _NONE
    beyond = f"values beyond the range of {new.root.value}" if old.root.is_floating else None
    return f"values are rounded to the nearest {new.root.value}", beyond, "become infinite"


def _loss_to_time(old: AtomicType, new: AtomicType) -> str | None:
    source, target = old.root, new.root
    if target is TypeRoot.DATE:
        return "times of the day are cut"
    if target is TypeRoot.TIME:
        return "dates are cut"
    if source.is_timestamp and new.precision < old.precision:
        return f"fractions are cut to {new.precision} digits"
    if source.is_integer:
        return "values count seconds since 1970"
    if source.is_timestamp and source is not target:
        return "moments are shown as the wall clock time of the reader's zone, or the reverse"
    return None


def _unfit_for_time(old: AtomicType, new: AtomicType) -> tuple[str | None, str]:
    """The values that do not fit a date, a time or a timestamp, and what becomes of them."""
    source = old.root
    is_shifted = source.is_timestamp and source is not new.root
    reaches_further = source in (TypeRoot.BIGINT, TypeRoot.DATE) or (
        source.is_timestamp and (old.precision <= _MICROSECONDS or is_shifted)
    )
    if new.root.is_timestamp and new.precision > _MICROSECONDS and reaches_further:
        return "values beyond the years 1677 to 2262", "fail the read"
    return ("values too far from 1970", "wrap around") if source is TypeRoot.BIGINT else (None, "")
