"""Filters as text: the inverse of `where`, for plans that are kept as JSON."""

from __future__ import annotations

from lakewright.storage.errors import InvalidPredicate
from lakewright.storage.spec.predicate import And, Leaf, Not, Operator, Or, Predicate
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import Value, to_python
from lakewright.storage.sql.where import parse_where


def where_text(predicate: Predicate, schema: TableSchema) -> str:
    """The text of a filter, which `parse_where` reads as the same filter.

    Raises:
        InvalidPredicate: it compares with a value that no text of a filter has.
    """
    text = _text(predicate, schema)
    try:
        same = parse_where(text, schema) == predicate
    except InvalidPredicate:
        same = False
    if not same:
        raise InvalidPredicate(f"the filter {predicate!r:.200} has no text; give it as text")
    return text


def _text(predicate: Predicate, schema: TableSchema) -> str:
    match predicate:
        case And(parts=parts):
            return "(" + " AND ".join(_text(part, schema) for part in parts) + ")"
        case Or(parts=parts):
            return "(" + " OR ".join(_text(part, schema) for part in parts) + ")"
        case Not(part=part):
            return f"NOT ({_text(part, schema)})"
        case Leaf():
            return _leaf_text(predicate, schema)


def _leaf_text(leaf: Leaf, schema: TableSchema) -> str:
    name = "`" + leaf.column.replace("`", "``") + "`"
    data_type = schema.field(leaf.column).type
    literals = [_literal(to_python(literal, data_type)) for literal in leaf.literals]
    match leaf.operator:
        case Operator.IS_NULL | Operator.IS_NOT_NULL:
            return f"{name} {leaf.operator.value}"
        case Operator.IN:
            return f"{name} IN ({', '.join(literals)})"
        case Operator.STARTS_WITH:
            return f"{name} LIKE {literals[0][:-1]}%'"
        case _:
            return f"{name} {leaf.operator.value} {literals[0]}"


def _literal(value: Value | object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case bytes():
            return f"X'{value.hex()}'"
        case int() | float():
            return str(value)
        case _:
            text = str(value).replace("\\", "\\\\").replace("'", "''")
            return f"'{text}'"
