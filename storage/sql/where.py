r"""Filters: the text of a WHERE clause → `Predicate`.

The syntax is the part of Spark's SQL that allows pruning: comparisons of a column with literals.
Texts stand in single or double quotes (a doubled quote means one quote), names that are no plain
words stand in backticks, and column names match by exact case. In a text, a backslash begins an
escape as in Spark: `\n` is a line break, and two backslashes are one. A number that a column of
whole numbers or decimals cannot hold is compared by its value: no row equals it. Expressions
without a counterpart in `spec.predicate` are refused with an alternative.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError

from lakewright.storage.errors import InvalidPredicate, InvalidRequestError
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.literals import bytes_of, converted, neighbours
from lakewright.storage.spec.predicate import And, Leaf, Not, Operator, Or, Predicate
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import Value

POSSIBLE = (
    "a filter compares columns with literals: =, <>, <, <=, >, >=, [NOT] IN (…), "
    "[NOT] BETWEEN … AND …, IS [NOT] NULL, [NOT] LIKE 'prefix%', "
    "joined by AND, OR, NOT and parentheses"
)


class FilterDialect(Spark):
    """Spark's SQL, with a doubled quote for a quote as in standard SQL."""

    class Tokenizer(Spark.Tokenizer):
        """The settings in which sqlglot expects a dialect's differences."""

        STRING_ESCAPES = ["\\", "'"]  # noqa: RUF012 - overrides a plain list


_COMPARISONS: dict[type[exp.Expr], Operator] = {
    exp.EQ: Operator.EQ,
    exp.NEQ: Operator.NE,
    exp.LT: Operator.LT,
    exp.LTE: Operator.LE,
    exp.GT: Operator.GT,
    exp.GTE: Operator.GE,
}
_FLIPPED = {
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}
# Types that stand before a text, and those of columns.
DATED = {
    exp.DType.DATE: TypeRoot.DATE,
    exp.DType.TIME: TypeRoot.TIME,
    exp.DType.TIMESTAMP: TypeRoot.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TypeRoot.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: TypeRoot.TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: TypeRoot.TIMESTAMP_LTZ,
}
# Alternatives for common unsupported expressions, by class.
_INSTEAD: dict[type[exp.Expr], str] = {
    exp.Column: "write `name = true`",
    exp.Literal: "it names no column; write column names without quotes or in backticks",
    exp.Boolean: "it names no column",
    exp.NullSafeEQ: "write `=`, or IS NULL",
    exp.NullSafeNEQ: "write `<>`, or IS NOT NULL",
    exp.ILike: "use LIKE, which matches the exact case",
    exp.Escape: "escape % and _ by a backslash",
    exp.HexString: "X'…' needs an even number of digits",
    exp.TryCast: "write the literal itself, such as 1 or DATE '2024-01-31'",
    exp.Subquery: "write the values",
}


def parse_where(text: str, schema: TableSchema) -> Predicate:
    """Parse a filter, and convert its literals to the types of their columns.

    Raises:
        InvalidPredicate: the text is not a supported filter; the message shows the unsupported part
        and what is possible.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidPredicate(
            f"filter {_shortened(text)!r} holds half of a surrogate pair, which no column holds"
        ) from None
    parser = _Parser(text, schema)
    try:
        return parser.predicate(_parse(text))
    except RecursionError:
        raise InvalidPredicate(
            f"filter {_shortened(text)!r} is nested too deeply; leave parentheses out"
        ) from None


def duckdb_filters(text: str, fields: Mapping[str, DataField]) -> tuple[Predicate, ...]:
    """The parts of a filter in a plan of DuckDB that are filters here; others are left out.

    `fields` are the columns of the table by their names in the plan.
    """
    try:
        tree = sqlglot.parse_one(text, into=exp.Condition, dialect="duckdb").unnest()
    except SqlglotError:
        return ()
    parts = _operands(tree) if isinstance(tree, exp.And) else [tree]
    found = (_duckdb_part(part.unnest(), fields) for part in parts)
    return tuple(each for each in found if each is not None)


def _duckdb_part(tree: exp.Expr, fields: Mapping[str, DataField]) -> Predicate | None:
    columns = [fields.get(column.name) for column in tree.find_all(exp.Column)]
    known = [field for field in columns if field is not None]
    # DuckDB orders NaN as a number.
    if not known or len(known) < len(columns) or any(map(_is_floating, known)):
        return None
    match tree:
        # DuckDB's optimiser makes `prefix` of LIKE 'x%'.
        case exp.Anonymous(this=str(name), expressions=[column, prefix]) if name == "prefix":
            return _duckdb_prefix(column, prefix, known[0])
        case exp.StartsWith(this=column, expression=prefix):
            return _duckdb_prefix(column, prefix, known[0])
    tree = tree.copy()
    for node in tree.find_all(exp.Column):
        node.set("this", exp.to_identifier(fields[node.name].name, quoted=True))
    schema = TableSchema(id=0, fields=tuple(fields.values()), highest_field_id=0)
    try:
        return _Parser("", schema).predicate(tree)
    except (InvalidPredicate, RecursionError):
        return None


def _duckdb_prefix(column: exp.Expr, prefix: exp.Expr, field: DataField) -> Predicate | None:
    is_text = isinstance(field.type, AtomicType) and field.type.root.is_text
    if not isinstance(column, exp.Column) or not is_text:
        return None
    return Leaf(field.name, Operator.STARTS_WITH, (prefix.this,)) if prefix.is_string else None


def _is_floating(field: DataField) -> bool:
    return isinstance(field.type, AtomicType) and field.type.root in (
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
    )


def _parse(text: str) -> exp.Expr:
    try:
        statements = FilterDialect().parse_into(exp.Condition, text)
    except ParseError as error:
        where = error.errors[0] if error.errors else {}
        rest = f"{where.get('highlight') or ''}{where.get('end_context') or ''}".strip()
        at = f"at {_shortened(rest)!r}" if rest else "at its end"
        raise InvalidPredicate(
            f"filter {_shortened(text)!r} is not understood {at}; {POSSIBLE}"
        ) from error
    except SqlglotError as error:
        raise InvalidPredicate(
            f"filter {_shortened(text)!r} is not understood: a quote is not closed, or X'…' holds "
            f"no hexadecimal digits; {POSSIBLE}"
        ) from error
    parsed = [statement for statement in statements if statement is not None]
    if not parsed:
        raise InvalidPredicate(f"the filter is empty; {POSSIBLE}")
    if len(parsed) > 1:
        raise InvalidPredicate(
            f"filter {_shortened(text)!r} holds {len(parsed)} expressions; join them by AND"
        )
    return parsed[0]


@dataclass(frozen=True, slots=True)
class _Literal:
    """A literal as written; `kind` is the type that a keyword gave it."""

    value: object
    kind: TypeRoot | None = None


@dataclass(frozen=True, slots=True)
class _Parser:
    text: str
    schema: TableSchema

    def predicate(self, node: exp.Expr) -> Predicate:
        match node:
            case exp.Paren():
                return self.predicate(node.this)
            case exp.Not():
                return self._negated(node.this)
            case exp.And():
                return And(tuple(self.predicate(part) for part in _operands(node)))
            case exp.Or():
                return Or(tuple(self.predicate(part) for part in _operands(node)))
            case exp.Is():
                if not isinstance(node.expression.unnest(), exp.Null):
                    self._refuse(node, "write IS NULL, or `name = true`")
                return Leaf(self._column(node.this, node).name, Operator.IS_NULL)
            case exp.In():
                return self._membership(node)
            case exp.Between() if not node.args.get("symmetric"):
                field = self._column(node.this, node)
                low = self._compared(field, Operator.GE, node.args["low"], node)
                high = self._compared(field, Operator.LE, node.args["high"], node)
                return And((low, high))
            case exp.Like():
                leaf = self._prefix(node)
                return Not(leaf) if node.args.get("negate") else leaf
            case _ if type(node) in _COMPARISONS:
                return self._comparison(node)
            case _:
                self._refuse(node)

    def _negated(self, node: exp.Expr) -> Predicate:
        inner = self.predicate(node)
        if isinstance(inner, Leaf) and inner.operator is Operator.IS_NULL:
            return Leaf(inner.column, Operator.IS_NOT_NULL)
        return Not(inner)

    def _comparison(self, node: exp.Expr) -> Predicate:
        operator = _COMPARISONS[type(node)]
        left, right = node.this, node.expression
        if not isinstance(left.unnest(), exp.Column):
            left, right, operator = right, left, _FLIPPED[operator]
        return self._compared(self._column(left, node), operator, right, node)

    def _compared(
        self, field: DataField, operator: Operator, literal: exp.Expr, around: exp.Expr
    ) -> Predicate:
        number = _number_between(literal, field)
        if number is None:
            return Leaf(field.name, operator, (self._value(literal, field, around),))
        below, above = (
            None if neighbour is None else converted(neighbour, number.type)
            for neighbour in neighbours(number.value, number.type)
        )
        # Where the column has no value on a side, no row is beyond its last value.
        less = (
            Leaf(field.name, Operator.LT, (above,))
            if below is None
            else Leaf(field.name, Operator.LE, (below,))
        )
        more = (
            Leaf(field.name, Operator.GT, (below,))
            if above is None
            else Leaf(field.name, Operator.GE, (above,))
        )
        match operator:
            case Operator.LT | Operator.LE:
                return less
            case Operator.GT | Operator.GE:
                return more
            case Operator.NE:
                return Not(And((less, more)))
            case _:
                # False for every value, and unknown for null, as an equality is.
                return And((less, more))

    def _membership(self, node: exp.In) -> Predicate:
        field = self._column(node.this, node)
        if any(node.args.get(other) for other in ("query", "unnest", "field")):
            self._refuse(node, "write the values: IN (1, 2)")
        if not node.expressions:
            self._refuse(node, "IN needs at least one value")
        held = [
            expression
            for expression in node.expressions
            if _number_between(expression, field) is None
        ]
        if not held:
            return self._compared(field, Operator.EQ, node.expressions[0], node)
        values = tuple(self._value(each, field, node) for each in held)
        return Leaf(field.name, Operator.IN, values)

    def _prefix(self, node: exp.Like) -> Leaf:
        field = self._column(node.this, node)
        pattern = node.expression.unnest()
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            self._refuse(node, "LIKE takes a text: LIKE 'prefix%'")
        if not isinstance(field.type, AtomicType) or not field.type.root.is_text:
            self._refuse(node, f"LIKE is for text, and {field.name} is {field.type}")
        prefix = _prefix_of(pattern.this)
        if prefix is None:
            self._refuse(
                node,
                "only a prefix can be matched, as in LIKE 'prefix%'; write = for a whole text, "
                "and \\% or \\_ for the character itself",
            )
        return Leaf(field.name, Operator.STARTS_WITH, (prefix,))

    def _column(self, node: exp.Expr, around: exp.Expr) -> DataField:
        node = node.unnest()
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            self._refuse(around, "a column must stand on one side, by its plain name or in `…`")
        if node.table:
            self._refuse(
                around, f"write {node.name} alone, or `{node.table}.{node.name}` for such a name"
            )
        names = self.schema.field_names
        if node.name in names:
            return self.schema.field(node.name)
        by_lower_case = {name.lower(): name for name in names}
        close = get_close_matches(node.name.lower(), by_lower_case, n=1)
        hint = f"did you mean {by_lower_case[close[0]]}? " if close else ""
        raise InvalidPredicate(
            f"filter {_shortened(self.text)!r} names no column: there is no {node.name}; {hint}"
            f"columns are {', '.join(names)}"
        )

    def _value(self, node: exp.Expr, field: DataField, around: exp.Expr) -> Value:
        try:
            literal = _literal_of(node)
            if literal is not None:
                return _converted(literal, field)
        except InvalidRequestError as error:
            raise InvalidPredicate(
                f"{_shortened(_sql(node))} does not fit column {field.name} {field.type} in filter "
                f"{_shortened(self.text)!r}; {_shortened(str(error.__cause__ or error))}"
            ) from error
        if isinstance(node.unnest(), exp.Column):
            self._refuse(around, "a column is compared with a literal, and text needs quotes")
        self._refuse(node)

    def _refuse(self, node: exp.Expr, advice: str | None = None) -> NoReturn:
        part = _shortened(_sql(node))
        inside = "" if part == _shortened(self.text) else f" in filter {_shortened(self.text)!r}"
        advice = advice or _INSTEAD.get(type(node)) or POSSIBLE
        raise InvalidPredicate(f"{part} is not understood{inside}; {advice}")


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    """Operands of a chain of one connector, left to right; chains of any length are supported."""
    kind = type(node)
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if type(each) is kind:
            waiting += [each.expression, each.this]
        else:
            yield each


def _literal_of(node: exp.Expr) -> _Literal | None:
    """The literal of a node, None for other nodes."""
    node = node.unnest()
    match node:
        case exp.Null():
            return _Literal(None)
        case exp.Boolean():
            return _Literal(bool(node.this))
        case exp.Literal():
            return _Literal(node.this if node.is_string else _number(node.this))
        case exp.HexString():
            found = bytes_of(node.this)
            return None if found is None else _Literal(found)
        case exp.Neg():
            inner = _literal_of(node.this)
            if inner is not None and isinstance(inner.value, Decimal):
                return _Literal(inner.value.copy_negate())
            return None
        case exp.TryCast():
            return None
        case exp.Cast() if node.to.this in DATED and isinstance(node.this, exp.Literal):
            return _Literal(node.this.this, DATED[node.to.this])
        case _:
            return None


def _number(text: str) -> Decimal:
    """The number in a text.

    Raises:
        InvalidRequestError: the text, or its exponent, is not a number, as in `1e`.
    """
    try:
        return Decimal(text)
    except InvalidOperation:
        raise InvalidRequestError("it is not a number; text needs quotes") from None


@dataclass(frozen=True, slots=True)
class _Between:
    """A number that lies between two values of a type, or beyond all."""

    value: Decimal
    type: AtomicType


def _number_between(node: exp.Expr, field: DataField) -> _Between | None:
    """A number that the column's type cannot hold, if the type is of exact numbers."""
    kind = field.type
    if not isinstance(kind, AtomicType):
        return None
    if kind.root is not TypeRoot.DECIMAL and not kind.root.is_integer:
        return None
    with suppress(InvalidRequestError):
        literal = _literal_of(node)
        if literal is not None and isinstance(literal.value, Decimal):
            below, above = neighbours(literal.value, kind)
            return None if below == above else _Between(literal.value, kind)
    return None


def _converted(literal: _Literal, field: DataField) -> Value:
    """The literal in the internal form of the column's values.

    Raises:
        InvalidRequestError: the literal is not of the column's type, or finer than the type.
    """
    if not isinstance(field.type, AtomicType):
        raise InvalidRequestError("only IS NULL and IS NOT NULL are possible for nested columns")
    return None if literal.value is None else converted(literal.value, field.type, literal.kind)


def _prefix_of(pattern: str) -> str | None:
    """The text before the final % of a pattern; None for a pattern of another form."""
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "\\" and pattern[position + 1 : position + 2] in ("%", "_", "\\"):
            parts.append(pattern[position + 1])
            position += 2
            continue
        if char == "%":
            return "".join(parts) if position == len(pattern) - 1 else None
        if char == "_":
            return None
        parts.append(char)
        position += 1
    return None


def _sql(node: exp.Expr) -> str:
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        # Restored to the written form: the parser makes a cast of every DATE '…' and TIMESTAMP '…'.
        return f"{node.to.this.value.removesuffix('TZ')} {_sql(node.this)}"
    return node.sql(dialect=FilterDialect)


def _shortened(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "…"
