"""Row filters: a small tree that plans can prune with and readers can run.

Leaves compare one column with literals, as SQL does: a comparison with null is
unknown, and unknown rows are not kept. `may_match` decides from bounds alone, and returns True if
it cannot decide.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from lakewright.storage.spec.values import Value, comparison_key


class Operator(Enum):
    """Comparisons of a column with literals."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "IN"
    IS_NULL = "IS NULL"
    IS_NOT_NULL = "IS NOT NULL"
    STARTS_WITH = "STARTS WITH"


@dataclass(frozen=True)
class Leaf:
    """`column operator literals`, the literals as the format stores them."""

    column: str
    operator: Operator
    literals: tuple[Value, ...] = ()

    @cached_property
    def keys(self) -> frozenset[Any]:
        """Comparison keys of the non-null literals."""
        return frozenset(
            comparison_key(literal) for literal in self.literals if literal is not None
        )

    @cached_property
    def holds_null(self) -> bool:
        return None in self.literals

    @cached_property
    def ordered_keys(self) -> list[Any]:
        return sorted(self.keys)


@dataclass(frozen=True, slots=True)
class And:
    """The conjunction of its parts."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """The disjunction of its parts."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of its part; unknown stays unknown."""

    part: Predicate


Predicate = Leaf | And | Or | Not


@dataclass(frozen=True, slots=True)
class Bounds:
    """Known bounds of one column over some rows; None is unknown."""

    minimum: Value
    maximum: Value
    null_count: int | None
    row_count: int | None = None

    @property
    def all_null(self) -> bool:
        return self.null_count is not None and self.null_count == self.row_count

    @property
    def no_null(self) -> bool:
        return self.null_count == 0


def columns_of(predicate: Predicate) -> frozenset[str]:
    """Columns that the predicate compares."""
    match predicate:
        case Leaf(column=column):
            return frozenset({column})
        case And(parts=parts) | Or(parts=parts):
            return frozenset().union(*(columns_of(part) for part in parts))
        case Not(part=part):
            return columns_of(part)


def literal_count(predicate: Predicate) -> int:
    """How many literals the predicate compares with."""
    match predicate:
        case Leaf(literals=literals):
            return len(literals)
        case And(parts=parts) | Or(parts=parts):
            return sum(literal_count(part) for part in parts)
        case Not(part=part):
            return literal_count(part)


def conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """The parts of a conjunction."""
    if predicate is None:
        return ()
    if isinstance(predicate, And):
        return tuple(inner for part in predicate.parts for inner in conjuncts(part))
    return (predicate,)


def conjunction(parts: tuple[Predicate, ...]) -> Predicate | None:
    """The conjunction of several predicates; None without any."""
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(parts)


def only_on(predicate: Predicate | None, columns: frozenset[str]) -> Predicate | None:
    """The conjuncts on `columns` only: a weaker filter that is safe for pruning."""
    return conjunction(tuple(part for part in conjuncts(predicate) if columns_of(part) <= columns))


def may_match(predicate: Predicate, bounds: Mapping[str, Bounds]) -> bool:
    """Whether a row within the bounds may match."""
    match predicate:
        case And(parts=parts):
            return all(may_match(part, bounds) for part in parts)
        case Or(parts=parts):
            return any(may_match(part, bounds) for part in parts)
        case Not():
            negated = push_not(predicate.part)
            return True if negated is None else may_match(negated, bounds)
        case Leaf():
            known = bounds.get(predicate.column)
            return True if known is None else _leaf_may_match(predicate, known)


_INVERSE = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
    Operator.IS_NULL: Operator.IS_NOT_NULL,
    Operator.IS_NOT_NULL: Operator.IS_NULL,
}


def push_not(predicate: Predicate) -> Predicate | None:
    """The negation without a NOT, None if there is no such form."""
    match predicate:
        case Leaf(operator=operator) if operator in _INVERSE:
            return Leaf(predicate.column, _INVERSE[operator], predicate.literals)
        case And(parts=parts):
            return Or(tuple(Not(part) for part in parts))
        case Or(parts=parts):
            return And(tuple(Not(part) for part in parts))
        case Not(part=part):
            return part
        case _:
            return None


def _leaf_may_match(leaf: Leaf, known: Bounds) -> bool:
    operator = leaf.operator
    if operator is Operator.IS_NULL:
        return not known.no_null
    if known.all_null:
        return False
    if operator is Operator.IS_NOT_NULL or known.minimum is None or known.maximum is None:
        return True
    low, high = comparison_key(known.minimum), comparison_key(known.maximum)
    if operator is Operator.IN:
        first = bisect_left(leaf.ordered_keys, low)
        return first < len(leaf.ordered_keys) and bool(leaf.ordered_keys[first] <= high)
    return any(_literal_may_match(operator, literal, low, high) for literal in leaf.literals)


def _literal_may_match(operator: Operator, literal: Value, low: object, high: object) -> bool:
    if literal is None:
        return False
    if operator is Operator.STARTS_WITH:
        # Rows that start with the prefix lie between it and the prefix of the upper bound.
        assert isinstance(literal, str) and isinstance(low, str) and isinstance(high, str)
        return low[: len(literal)] <= literal <= high[: len(literal)]
    return _COMPARISONS[operator](comparison_key(literal), low, high)


# (literal, lowest, highest) -> whether a row may satisfy `row operator literal`.
_COMPARISONS: dict[Operator, Callable[..., bool]] = {
    Operator.EQ: lambda literal, low, high: low <= literal <= high,
    Operator.NE: lambda literal, low, high: not low == literal == high,
    Operator.LT: lambda literal, low, high: low < literal,
    Operator.LE: lambda literal, low, high: low <= literal,
    Operator.GT: lambda literal, low, high: high > literal,
    Operator.GE: lambda literal, low, high: high >= literal,
}


def matches(predicate: Predicate, row: Mapping[str, Value]) -> bool | None:
    """Whether one row matches; None if the result is unknown, as in SQL."""
    match predicate:
        case Leaf():
            return _leaf_matches(predicate, row[predicate.column])
        case And(parts=parts):
            results = [matches(part, row) for part in parts]
            return False if False in results else (None if None in results else True)
        case Or(parts=parts):
            results = [matches(part, row) for part in parts]
            return True if True in results else (None if None in results else False)
        case Not(part=part):
            result = matches(part, row)
            return None if result is None else not result


def _leaf_matches(leaf: Leaf, value: Value) -> bool | None:
    if leaf.operator is Operator.IS_NULL:
        return value is None
    if leaf.operator is Operator.IS_NOT_NULL:
        return value is not None
    if value is None:
        return None
    if leaf.operator is Operator.IN:
        if comparison_key(value) in leaf.keys:
            return True
        return None if leaf.holds_null else False
    literal = next((each for each in leaf.literals if each is not None), None)
    if literal is None:
        return None
    if leaf.operator is Operator.STARTS_WITH:
        assert isinstance(value, str) and isinstance(literal, str)
        return value.startswith(literal)
    if leaf.operator is Operator.NE:
        return bool(comparison_key(value) != comparison_key(literal))
    key = comparison_key(value)
    return bool(_COMPARISONS[leaf.operator](comparison_key(literal), key, key))
