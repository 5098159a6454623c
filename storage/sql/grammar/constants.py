"""Literals of queries as Python values, and why other expressions are none."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NoReturn

from sqlglot import exp

from lakewright.storage.errors import InvalidStatement
from lakewright.storage.spec.literals import TWO_DIGITS, Members, Moment, bytes_of, plain
from lakewright.storage.sql.grammar.cursor import StatementDialect, number, whole
from lakewright.storage.sql.where import DATED

# Types of whole numbers that a letter behind the digits says, with their bits.
_INTEGERS = {
    exp.DType.TINYINT: 8,
    exp.DType.SMALLINT: 16,
    exp.DType.INT: 32,
    exp.DType.BIGINT: 64,
}


class BeyondError(Exception):
    """A part of a query that is more than a literal."""


class ImpossibleError(Exception):
    """A part of a query that no engine answers."""


def shown(tree: exp.Expr) -> str:
    """A part of a query, for messages."""
    text = tree.sql(dialect=StatementDialect)
    return text if len(text) <= 80 else text[:77] + "…"


def constant(tree: exp.Expr) -> object:
    """A literal as a Python value; DATE '…' and its like are `Moment`.

    Raises:
        BeyondError: it is an expression.
        ImpossibleError, InvalidStatement: it is no value.
    """
    match tree:
        case exp.Paren():
            return constant(tree.this)
        case exp.Neg():
            return _negated(constant(tree.this), tree)
        case exp.Array():
            return [constant(expression) for expression in tree.expressions]
        case exp.VarMap():
            keys, values = (
                [constant(expression) for expression in part.expressions]
                for part in (tree.args["keys"], tree.args["values"])
            )
            return _mapping(keys, values, tree)
        case exp.Struct() if all(
            isinstance(expression, exp.PropertyEQ) for expression in tree.expressions
        ):
            names = [expression.name for expression in tree.expressions]
            values = [constant(expression.expression) for expression in tree.expressions]
            return Members(_mapping(names, values, tree))
        case _:
            return _atom(tree)


def _atom(tree: exp.Expr) -> object:
    match tree:
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(tree.this)
        case exp.Literal():
            return str(tree.this) if tree.is_string else number(str(tree.this))
        case exp.HexString() if (found := bytes_of(tree.this)) is not None:
            return found
        case exp.Cast() if tree.to.this in DATED and tree.this.is_string:
            return Moment(str(tree.this.this), DATED[tree.to.this])
        case exp.Cast() if tree.to.this in _INTEGERS and tree.this.is_int:
            return _within(whole(tree.this.name), _INTEGERS[tree.to.this], tree)
        case _:
            _refuse(tree)


def _refuse(tree: exp.Expr) -> NoReturn:
    match tree:
        case exp.HexString():
            raise ImpossibleError(f"{shown(tree)} has half a byte; {TWO_DIGITS}")
        case exp.Interval():
            raise ImpossibleError(f"{shown(tree)} is an interval, which no column holds")
        case exp.Var() if tree.name.upper() == "DEFAULT":
            raise ImpossibleError(
                "DEFAULT is no value here; leave the column out of the list, as in INSERT INTO t "
                "(a, b) VALUES …, and it has its default"
            )
        case exp.Column() if tree.find_ancestor(exp.Values) is not None:
            raise ImpossibleError(
                f"{shown(tree)} is the name of a column, and VALUES takes values; a text stands in "
                f"quotes: '{tree.name}'"
            )
        case _:
            raise BeyondError(shown(tree))


def _negated(value: object, tree: exp.Expr) -> object:
    match value:
        case Decimal():
            # The sign alone: a minus would round to the digits of Python's context.
            return value.copy_negate()
        case int() | float() if not isinstance(value, bool):
            return -value
        case _:
            raise BeyondError(shown(tree))


def _within(value: int, bits: int, tree: exp.Expr) -> int:
    """A whole number with the letter of its type, such as 7L."""
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ImpossibleError(f"{shown(tree)} does not fit in {bits} bits")
    return value


def _mapping(keys: Sequence[Any], values: Sequence[object], tree: exp.Expr) -> dict[Any, object]:
    """Keys with their values.

    Raises:
        InvalidStatement: a key stands twice.
    """
    if any(isinstance(key, (list, dict)) for key in keys):
        raise BeyondError(shown(tree))
    twice = next((key for at, key in enumerate(keys) if key in keys[:at]), None)
    if twice is not None:
        raise InvalidStatement(f"{shown(tree)} has the key {plain(twice)!r} twice; write it once")
    return dict(zip(keys, values, strict=True))
