"""Which values a cast between column types loses: cuts, rounds, wraps, makes null or cannot read.

A value survives if casting it back gives the same value. A text that becomes a number, a date or a
time survives if it can be read and nothing is rounded. A text survives with more or fewer blanks at
its end, as for the reader (`fitted_values.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_values import array_of
from lakewright.storage.codec.evolved_values import evolved
from lakewright.storage.spec.data_types import INTEGER_BITS, STRING, AtomicType, TypeRoot
from lakewright.storage.spec.predicate import Bounds
from lakewright.storage.spec.values import Value, order_key

# Decimals of so many digits become a floating number and the same decimal again.
_KEPT_DIGITS = {TypeRoot.FLOAT: 6, TypeRoot.DOUBLE: 15}
_EXACT_BITS = {TypeRoot.FLOAT: 24, TypeRoot.DOUBLE: 53}
_FINEST = 9


def lost_values(values: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    """A mask of the values that a cast loses; nulls are not lost."""
    encoded = values.dictionary_encode()
    lost = _lost(encoded.dictionary, old, new)
    return pc.fill_null(lost.take(encoded.indices), fill_value=False)


def _lost(values: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    """The same for values without nulls."""
    source, target = old.root, new.root
    if len(values) == 0:
        return pa.array([], pa.bool_())
    if target.is_text and not source.is_bytes:
        texts = values if source.is_text else evolved(values, old, STRING)
        texts = pc.utf8_rtrim(texts, characters=" ")
        return pc.greater(pc.utf8_length(texts), new.length)
    if target.is_bytes:
        lengths = pc.binary_length(values.cast(pa.binary()))
        unlike = pc.not_equal if target is TypeRoot.BINARY else pc.greater
        return unlike(lengths, new.length)
    if source.is_integer and target.is_floating:
        return _lost_to_floating(values, new)
    if source.is_floating and target.is_integer:
        return _lost_to_integer(values, new)
    try:
        return _lost_by_cast(values, old, new)
    except (pa.ArrowInvalid, OverflowError, ValueError):
        # The cast fails as a whole. Halves show which of the values it cannot read.
        if len(values) == 1:
            return pa.array([True])
        half = len(values) // 2
        parts = (values.slice(0, half), values.slice(half))
        return pa.concat_arrays([_lost(part, old, new) for part in parts])


def _lost_by_cast(values: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    read = evolved(values, old, new)
    if old.root.is_text:
        return pc.or_(read.is_null(), _lost_of_texts(values, read, old, new))
    if old.root.is_bytes or old.root is TypeRoot.BOOLEAN:
        return read.is_null()
    back = evolved(read, new, old)
    if pa.types.is_floating(back.type):
        same = pc.or_(pc.equal(back, values), pc.and_(pc.is_nan(back), pc.is_nan(values)))
    else:
        same = pc.equal(back, values)
    return pc.invert(pc.fill_null(same, fill_value=False))


def _lost_of_texts(values: pa.Array, read: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    if new.root.is_timestamp and new.precision < _FINEST:
        finest = replace(new, precision=_FINEST)
        return _lost(evolved(values, old, finest), finest, new)
    if new.root is TypeRoot.DECIMAL:
        pairs = zip(values.to_pylist(), read.to_pylist(), strict=True)
        return pa.array([_differs(text, number) for text, number in pairs])
    return pa.array(np.zeros(len(values), dtype=bool))


def _differs(text: str, number: Decimal | None) -> bool:
    try:
        return number is None or Decimal(text.strip()) != number
    except InvalidOperation:
        # A way to write numbers that only Java knows; it was read.
        return False


def _lost_to_floating(values: pa.Array, new: AtomicType) -> pa.Array:
    whole = values.to_numpy(zero_copy_only=False).astype(np.int64)
    rounded = whole.astype(np.float32 if new.root is TypeRoot.FLOAT else np.float64)
    beyond = rounded.astype(np.float64) >= 2.0**63
    back = np.where(beyond, 0, rounded).astype(np.int64)
    return pa.array(beyond | (back != whole))


def _lost_to_integer(values: pa.Array, new: AtomicType) -> pa.Array:
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
    limit = 2.0 ** (INTEGER_BITS[new.root] - 1)
    fits = (numbers >= -limit) & (numbers < limit) & (np.trunc(numbers) == numbers)
    return pa.array(~fits)


# --- bounds --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KnownLoss:
    """What bounds tell of a cast: at least so many values are lost, and whether that is all."""

    at_least: int
    is_all: bool

    @property
    def is_none(self) -> bool:
        """Whether it is certain that all values survive."""
        return self.is_all and self.at_least == 0


UNKNOWN_LOSS = KnownLoss(0, is_all=False)
NO_LOSS = KnownLoss(0, is_all=True)


def known_loss(bounds: Bounds | None, old: AtomicType, new: AtomicType) -> KnownLoss:
    """What the bounds of a column tell of the values that a cast loses.

    Bounds are values of the column, but for texts: a bound may be the beginning of a longer value.
    """
    if bounds is None:
        return UNKNOWN_LOSS
    if bounds.all_null:
        return NO_LOSS
    low, high = bounds.minimum, bounds.maximum
    if low is None or high is None:
        return UNKNOWN_LOSS
    if isinstance(low, str) and isinstance(high, str):
        return _known_of_texts(low, high, new)
    lost: list[bool] = lost_values(array_of([low, high], old), old, new).to_pylist()
    if all(lost) and _all_beyond(low, high, old, new):
        return KnownLoss(_present(bounds), is_all=True)
    if any(lost):
        gone = {each for each, is_lost in zip((low, high), lost, strict=True) if is_lost}
        return KnownLoss(len(gone), is_all=False)
    return NO_LOSS if _survives_between(low, high, old, new) else UNKNOWN_LOSS


def _present(bounds: Bounds) -> int:
    """How many values are certainly there."""
    fewest = 1 if bounds.minimum == bounds.maximum else 2
    if bounds.row_count is None or bounds.null_count is None:
        return fewest
    return max(fewest, bounds.row_count - bounds.null_count)


def _known_of_texts(low: str, high: str, new: AtomicType) -> KnownLoss:
    if not new.root.is_text and not new.root.is_bytes:
        return UNKNOWN_LOSS
    # Long bounds are cut, and the last character of a cut upper bound is raised. So both bounds may
    # be of one value, and "!" at the end may stand for a blank.
    may_be_one = low.startswith(high[:-1])
    longer = 0
    for text in {low, high.removesuffix("!")}:
        shown = text.rstrip(" ") if new.root.is_text else text
        length = len(shown.encode()) if new.root.is_bytes else len(shown)
        longer += length > new.length
    return KnownLoss(min(longer, 1) if may_be_one else longer, is_all=False)


def _keeps_ranges(old: AtomicType, new: AtomicType) -> bool:
    """Whether the values that survive are all those between two values."""
    source, target = old.root, new.root
    whole = source.is_integer or (source is TypeRoot.DECIMAL and old.scale == 0)
    if whole and (target.is_integer or target is TypeRoot.DECIMAL or target is TypeRoot.BOOLEAN):
        return True
    if source is TypeRoot.DATE or source.is_timestamp:
        finer = source is TypeRoot.DATE or (source is target and new.precision >= old.precision)
        return target.is_timestamp and target is not TypeRoot.TIMESTAMP_LTZ and finer
    return source is target is TypeRoot.DECIMAL and new.scale >= old.scale


def _all_beyond(low: Value, high: Value, old: AtomicType, new: AtomicType) -> bool:
    """Whether bounds that are both lost are one value, or lie on one side of what survives."""
    if old.root.is_floating or low == high:
        # A file may hold NaN beside the values that its bounds are of.
        return not old.root.is_floating
    # 0 always survives between the values that do.
    one_side = order_key(low) > 0 or order_key(high) < 0
    return _keeps_ranges(old, new) and bool(one_side)


def _survives_between(low: Value, high: Value, old: AtomicType, new: AtomicType) -> bool:
    """Whether each value between two that survive does so too."""
    source, target = old.root, new.root
    if source is TypeRoot.BOOLEAN or _keeps_ranges(old, new):
        return True
    if source.is_integer and target.is_text:
        # The longest text belongs to one of the bounds.
        return True
    if source.is_floating:
        return False
    if isinstance(low, int) and isinstance(high, int) and source.is_integer:
        if target.is_floating:
            return max(abs(low), abs(high)) <= 1 << _EXACT_BITS[target]
        return target.is_timestamp or low == high
    if isinstance(low, Decimal) and isinstance(high, Decimal) and target.is_floating:
        digits = len(str(int(max(abs(low), abs(high)).scaleb(old.scale))))
        return digits <= _KEPT_DIGITS[target]
    return low == high
