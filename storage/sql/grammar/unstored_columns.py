"""Columns of CREATE TABLE that are not stored, and its watermark, as Flink writes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.flink_columns import UnstoredColumn, Watermark
from lakewright.storage.sql.grammar.columns import data_type
from lakewright.storage.sql.grammar.cursor import Cursor
from lakewright.storage.sql.where import FilterDialect

# Where an expression or a name ends.
_ENDS = (",", ")", "COMMENT", "STORED", "VIRTUAL")
_TYPES = {
    exp.DType.BOOLEAN: "BOOLEAN",
    exp.DType.TINYINT: "TINYINT",
    exp.DType.SMALLINT: "SMALLINT",
    exp.DType.INT: "INT",
    exp.DType.BIGINT: "BIGINT",
    exp.DType.FLOAT: "FLOAT",
    exp.DType.DOUBLE: "DOUBLE",
    exp.DType.VARCHAR: "STRING",
    exp.DType.TEXT: "STRING",
    exp.DType.DATE: "DATE",
}
# What has the same type in every engine.
_CERTAIN = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Boolean, exp.Null),
    *(exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Predicate, exp.Connector, exp.Not),
    *(exp.Upper, exp.Lower, exp.Concat, exp.DPipe, exp.Trim),
)


@dataclass(frozen=True, slots=True)
class UnstoredText:
    """Such a column as a statement writes it; `start` is its place in the text."""

    name: str
    type: str | None
    start: int
    expression: str | None = None
    metadata: str | None = None
    virtual: bool = False


def unstored_column(cursor: Cursor, name: str) -> UnstoredText | None:
    """`[type] [GENERATED ALWAYS] AS expression` or `type METADATA [FROM '…'] [VIRTUAL]`.

    None if it is a stored column; the cursor stays then.
    """
    place, start = cursor.at, cursor.mark()
    stated = None if cursor.peek("AS") else data_type(cursor, name)
    if cursor.take("GENERATED"):
        cursor.expect("ALWAYS")
    if cursor.take("AS"):
        expression = cursor.source_until(*_ENDS, opens="(", closes=")")
        if not expression:
            cursor.refuse(f"expected the expression of {name}, found {cursor.shown()}")
        cursor.take_one("STORED", "VIRTUAL")
        _pass_comment(cursor)
        return UnstoredText(name, stated, start, expression)
    if cursor.take("METADATA"):
        key = cursor.text("the key of the metadata") if cursor.take("FROM") else name
        virtual = cursor.take("VIRTUAL")
        _pass_comment(cursor)
        return UnstoredText(name, stated, start, None, key, virtual)
    cursor.at = place
    return None


def _pass_comment(cursor: Cursor) -> None:
    # Flink keeps none of such a column.
    if cursor.take("COMMENT"):
        cursor.text("a comment")


def watermark(cursor: Cursor) -> tuple[str, str]:
    """`FOR column AS expression`, behind WATERMARK."""
    cursor.expect("FOR")
    column = cursor.path()
    cursor.expect("AS")
    expression = cursor.source_until(",", ")", opens="(", closes=")")
    if not expression:
        cursor.refuse(f"expected the expression of the watermark, found {cursor.shown()}")
    return column, expression


def kept_column(
    cursor: Cursor, column: UnstoredText, index: int, types: Mapping[str, str]
) -> UnstoredColumn:
    """The column with its type, which an expression tells where the statement does not."""
    kind = column.type or type_of(column.expression or "", types)
    if kind is None:
        cursor.refuse_at(
            column.start,
            f"the type of {column.name} is not known from its expression; write it: "
            f"{column.name} DOUBLE AS {column.expression}",
        )
    return UnstoredColumn(
        index=index,
        name=column.name,
        type=kind,
        expression=column.expression,
        metadata=column.metadata,
        virtual=column.virtual,
    )


def kept_watermark(
    cursor: Cursor, start: int, found: tuple[str, str], types: Mapping[str, str]
) -> Watermark:
    """The watermark, of the type of its column."""
    column, expression = found
    kind = types.get(column)
    if kind is None or not kind.startswith("TIMESTAMP"):
        cursor.refuse_at(
            start, f"a watermark is of a TIMESTAMP column, and {column} is {kind or 'no column'}"
        )
    return Watermark(column, expression, kind.removesuffix(" NOT NULL"))


def duckdb_expression(column: UnstoredColumn, names: Collection[str]) -> str | None:
    """A computed column in DuckDB's words; None where engines may differ, or a name is unknown."""
    try:
        tree = parse_one(column.expression or "", dialect=FilterDialect)
        kind = exp.DataType.build(column.type.removesuffix(" NOT NULL"), dialect="spark")
    except SqlglotError:
        return None
    known = (*_CERTAIN, exp.Cast, exp.DataType, exp.DataTypeParam)
    columns = {each.name for each in tree.find_all(exp.Column)}
    if not columns <= {*names} or not all(isinstance(each, known) for each in tree.walk()):
        return None
    return exp.cast(exp.paren(tree), kind).sql(dialect="duckdb", identify=True)


def type_of(expression: str, types: Mapping[str, str]) -> str | None:
    """The type of an expression over columns, None where it is not certain."""
    if expression.replace(" ", "").upper() == "PROCTIME()":
        return "TIMESTAMP_LTZ(3) NOT NULL"
    try:
        tree = parse_one(expression, dialect=FilterDialect)
    except SqlglotError:
        return None
    if isinstance(tree, exp.Column) and tree.name in types:
        return types[tree.name]
    if isinstance(tree, (exp.Cast, exp.TryCast)):
        return _checked(tree.args["to"].sql(dialect="spark"))
    if not all(isinstance(each, _CERTAIN) for each in tree.walk()):
        return None
    known = {}
    for column in tree.find_all(exp.Column):
        kind = types.get(column.name, "").removesuffix(" NOT NULL")
        if kind not in _TYPES.values():
            # Digits and lengths of results differ by engine.
            return None
        known[column.name] = kind
        column.set("table", exp.to_identifier("t"))
    if not known:
        return None
    query = exp.select(exp.alias_(tree, "x")).from_("t")
    found = annotate_types(query, schema={"t": known}, dialect="spark").selects[0].type
    return None if found is None else _TYPES.get(found.this)


def _checked(kind: str) -> str | None:
    try:
        return str(parse_data_type(kind, lengths_required=True))
    except InvalidSchema:
        return None
