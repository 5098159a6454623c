"""Filters that DuckDB hands to a scan, as filters that a plan prunes with.

DuckDB makes them Arrow expressions, which show their parts only where they are serialised: the
steps of a walk through the tree, as metadata, and the literals as columns of one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.arrow_values import value_of
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.predicate import Leaf, Operator, Or, Predicate, conjunction
from lakewright.storage.spec.values import Value

_STEP = re.compile(r"^(call|field_ref|literal|options|end): '(\w+)'$")
_COLUMN = re.compile(r"^field_ref: '(\w+)'$", re.MULTILINE)
# DuckDB orders NaN as a number, and Arrow does not.
_UNORDERED = {TypeRoot.FLOAT, TypeRoot.DOUBLE}
_COMPARISONS = {
    "equal": Operator.EQ,
    "not_equal": Operator.NE,
    "less": Operator.LT,
    "less_equal": Operator.LE,
    "greater": Operator.GT,
    "greater_equal": Operator.GE,
}


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PushedFilter:
    """The columns that an expression reads, and a weaker or equal filter, if one is known."""

    columns: frozenset[str]
    predicate: Predicate | None


def pushed_filter(expression: Any, fields: Mapping[str, DataField]) -> PushedFilter:
    """What an Arrow expression says of columns; `fields` are the table's by their names in it.

    What is not understood is left out, so that the filter keeps more rows.
    """
    try:
        _, (buffer,) = expression.__reduce__()
        batch = pa.ipc.open_file(buffer).get_batch(0)
        text = batch.schema.to_string(truncate_metadata=False, show_schema_metadata=True)
        _, _, steps = text.partition("-- schema metadata --\n")
        named = frozenset(_COLUMN.findall(steps)) & frozenset(fields)
        tree = _tree(iter(steps.splitlines()), [column[0] for column in batch.columns])
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, pa.ArrowException):
        return PushedFilter(frozenset(fields), None)
    return PushedFilter(named, None if tree is None else _weaker(tree, fields))


def _tree(steps: Iterator[str], literals: list[pa.Scalar]) -> Any:
    """The next part of an expression; None for the end of the call around it.

    Raises:
        ValueError: a step is of a kind that is not known here.
    """
    step = next(steps, "")
    matched = _STEP.match(step)
    if matched is None:
        raise ValueError(step)
    match matched[1]:
        case "call":
            arguments = []
            while (part := _tree(steps, literals)) is not None:
                arguments.append(part)
            return _Call(matched[2], tuple(arguments))
        case "field_ref":
            return matched[2]
        case "end":
            return None
        case _:
            return literals[int(matched[2])]


def _weaker(part: Any, fields: Mapping[str, DataField]) -> Predicate | None:
    match part:
        case _Call("and_kleene", parts):
            known = [_weaker(each, fields) for each in parts]
            return conjunction(tuple(each for each in known if each is not None))
        case _Call("or_kleene", parts):
            known = [_weaker(each, fields) for each in parts]
            return None if None in known else Or(tuple(each for each in known if each is not None))
        case _Call("is_valid", (str(name),)):
            return Leaf(fields[name].name, Operator.IS_NOT_NULL)
        case _Call("is_null", (str(name), pa.Scalar())):
            return Leaf(fields[name].name, Operator.IS_NULL)
        case _Call("if_else", (_Call("is_valid"), inner, pa.Scalar(is_valid=False))):
            return _weaker(inner, fields)
        case _Call("is_in", (str(name), pa.StructScalar() as options)):
            return _leaf(fields[name], Operator.IN, list(options["value_set"].values))
        case _Call(call, (str(name), pa.Scalar() as literal)) if call in _COMPARISONS:
            return _leaf(fields[name], _COMPARISONS[call], [literal])
        case _:
            return None


def _leaf(field: DataField, operator: Operator, literals: list[pa.Scalar]) -> Leaf | None:
    if not isinstance(field.type, AtomicType) or field.type.root in _UNORDERED:
        return None
    values: list[Value] = []
    for literal in literals:
        try:
            values.append(value_of(literal.cast(to_arrow_type(field.type)), field.type))
        except pa.ArrowException:
            # A value that the column does not hold.
            return None
    return None if None in values else Leaf(field.name, operator, tuple(values))
