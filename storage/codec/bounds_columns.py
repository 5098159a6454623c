"""Decides from bounds alone which of many groups of rows may match a filter.

`spec.predicate.may_match` does this for one group. What it decides, and only that, is decided here,
for the types that arrays can compare; the rest stays open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.row_columns import RowValues
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.predicate import And, Leaf, Not, Operator, Or, Predicate, push_not
from lakewright.storage.spec.values import EXACT_DECIMALS, Value

# A literal for each group is compared by itself.
_MOST_TEXTS = 100
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class BoundsColumn:
    """Bounds of one column over many groups of rows; a null count below zero is unknown.

    Without `low` and `high` the bounds are unknown.
    """

    null_counts: np.ndarray
    row_counts: np.ndarray
    low: RowValues | None = None
    high: RowValues | None = None


@dataclass(frozen=True, slots=True)
class BoundsVerdict:
    """Which groups may match; where this is not exact, some of them may be found not to."""

    may: np.ndarray
    exact: bool


class OpenQuestion(Exception):
    """Arrays cannot decide this, so values must be compared one by one."""


# The bounds of a column, None if they are unknown; may raise `OpenQuestion`.
FindBounds = Callable[[str], BoundsColumn | None]


def may_match_groups(predicate: Predicate, bounds: FindBounds, count: int) -> BoundsVerdict:
    """Which of `count` groups of rows may match."""
    match predicate:
        case And(parts=parts):
            matches = [may_match_groups(part, bounds, count) for part in parts]
            may = np.logical_and.reduce([each.may for each in matches], initial=True)
            return BoundsVerdict(_filled(may, count), all(each.exact for each in matches))
        case Or(parts=parts):
            matches = [may_match_groups(part, bounds, count) for part in parts]
            may = np.logical_or.reduce([each.may for each in matches], initial=False)
            return BoundsVerdict(_filled(may, count), all(each.exact for each in matches))
        case Not():
            negated = push_not(predicate.part)
            if negated is None:
                return BoundsVerdict(np.ones(count, bool), exact=True)
            return may_match_groups(negated, bounds, count)
        case Leaf():
            try:
                known = bounds(predicate.column)
                if known is None:
                    return BoundsVerdict(np.ones(count, bool), exact=True)
                return BoundsVerdict(_leaf_may_match(predicate, known), exact=True)
            except (OpenQuestion, pa.ArrowInvalid):
                # Arrow refuses bytes that are no text.
                return BoundsVerdict(np.ones(count, bool), exact=False)


def _filled(mask: np.ndarray, count: int) -> np.ndarray:
    return np.broadcast_to(mask, count)


def _leaf_may_match(leaf: Leaf, known: BoundsColumn) -> np.ndarray:
    if leaf.operator is Operator.IS_NULL:
        some_null: np.ndarray = known.null_counts != 0
        return some_null
    counted = known.null_counts >= 0
    may: np.ndarray = ~(counted & (known.null_counts == known.row_counts))
    if leaf.operator is Operator.IS_NOT_NULL or known.low is None or known.high is None:
        return may
    bounded = may & known.low.valid & known.high.valid
    literals = [literal for literal in leaf.literals if literal is not None]
    if isinstance(known.low.values, np.ndarray):
        assert isinstance(known.high.values, np.ndarray)
        low, high = known.low.values, known.high.values
        if low.dtype.kind == "f" and (np.isnan(low[bounded]) | np.isnan(high[bounded])).any():
            # Numbers that are no number have an order of their own.
            raise OpenQuestion
        inside = _numbers_may_match(leaf.operator, literals, low, high, known.low.type)
    else:
        inside = _texts_may_match(leaf.operator, literals, known.low.values, known.high.values)
    found: np.ndarray = may & (~bounded | inside)
    return found


def _numbers_may_match(
    operator: Operator,
    literals: Sequence[Value],
    low: np.ndarray,
    high: np.ndarray,
    data_type: AtomicType,
) -> np.ndarray:
    numbers = [_number(literal, data_type) for literal in literals]
    if operator is Operator.IN:
        ordered = np.array(sorted(numbers), low.dtype)
        if not len(ordered):
            return np.zeros(len(low), bool)
        first = np.searchsorted(ordered, low)
        found: np.ndarray = (first < len(ordered)) & (
            ordered[np.minimum(first, len(ordered) - 1)] <= high
        )
        return found
    inside = np.zeros(len(low), bool)
    for number in numbers:
        inside |= _number_may_match(operator, number, low, high)
    return inside


def _number_may_match(
    operator: Operator, number: float, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    may_match: np.ndarray
    match operator:
        case Operator.EQ:
            may_match = (low <= number) & (number <= high)
        case Operator.NE:
            may_match = ~((low == number) & (high == number))
        case Operator.LT:
            may_match = low < number
        case Operator.LE:
            may_match = low <= number
        case Operator.GT:
            may_match = high > number
        case Operator.GE:
            may_match = high >= number
        case _:
            raise OpenQuestion
    return may_match


def _number(literal: Value, data_type: AtomicType) -> int | float:
    """A literal as a column's values are held."""
    if isinstance(literal, Decimal) and data_type.root is TypeRoot.DECIMAL:
        scaled = literal.scaleb(data_type.scale, EXACT_DECIMALS)
        if scaled != scaled.to_integral_value():
            raise OpenQuestion
        literal = int(scaled)
    if isinstance(literal, float) and data_type.root.is_floating and not math.isnan(literal):
        return literal
    if not isinstance(literal, int) or data_type.root.is_floating:
        raise OpenQuestion
    if not _LEAST <= literal <= _MOST:
        raise OpenQuestion
    return literal


def _texts_may_match(
    operator: Operator,
    literals: Sequence[Value],
    low: pa.LargeBinaryArray,
    high: pa.LargeBinaryArray,
) -> np.ndarray:
    texts = [literal for literal in literals if isinstance(literal, str)]
    if len(texts) < len(literals) or len(texts) > _MOST_TEXTS:
        raise OpenQuestion
    # The order of UTF-8 is that of its characters.
    lows, highs = low.cast(pa.large_string()), high.cast(pa.large_string())
    inside = np.zeros(len(low), bool)
    for text in texts:
        inside |= _text_may_match(operator, text, lows, highs)
    return inside


def _text_may_match(
    operator: Operator, text: str, low: pa.LargeStringArray, high: pa.LargeStringArray
) -> np.ndarray:
    literal = pa.scalar(text, pa.large_string())
    match operator:
        case Operator.EQ | Operator.IN:
            may_match = pc.and_(pc.less_equal(low, literal), pc.greater_equal(high, literal))
        case Operator.NE:
            may_match = pc.invert(pc.and_(pc.equal(low, literal), pc.equal(high, literal)))
        case Operator.LT:
            may_match = pc.less(low, literal)
        case Operator.LE:
            may_match = pc.less_equal(low, literal)
        case Operator.GT:
            may_match = pc.greater(high, literal)
        case Operator.GE:
            may_match = pc.greater_equal(high, literal)
        case Operator.STARTS_WITH:
            first = pc.utf8_slice_codeunits(low, 0, len(text))
            last = pc.utf8_slice_codeunits(high, 0, len(text))
            may_match = pc.and_(pc.less_equal(first, literal), pc.greater_equal(last, literal))
        case _:
            raise OpenQuestion
    mask: np.ndarray = may_match.to_numpy(zero_copy_only=False)
    return mask
