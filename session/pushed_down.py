"""Queries of one external table that its source answers in part: LIMIT, and aggregates.

* `SELECT … FROM t LIMIT n` reads about n rows.
* `SELECT k, count(*), max(v) FROM t GROUP BY k` reads a row for each group, if the source makes the
  same aggregates; the rest of the query runs over these rows. Its tree is changed for that.

Both need a WHERE that is known here exactly: comparisons of whole-number columns with whole
numbers, and IS NULL, joined by AND. What is none of this is computed from the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.planning.plan_source import AggregateRequest
from lakewright.connectors.sources import Aggregate
from lakewright.session.external_source import aggregated_source, external_source
from lakewright.session.query_source import Source
from lakewright.storage.operations.row_changes.expressions import parsed_sql, sql_of, tree_nodes
from lakewright.storage.spec.data_types import INTEGER_BITS, AtomicType, DataField, TypeRoot
from lakewright.storage.spec.predicate import Leaf, Operator, Predicate, conjunction
from lakewright.storage.spec.schema import TableSchema

_LIMIT = ["LIMIT_MODIFIER"]
_ROW_BY_ROW = {"PROJECTION", "FILTER", "LIMIT", "STREAMING_LIMIT", "PYTHON_ARROW_SCAN"}
_OF_MANY_ROWS = ("AGGREGATE", "GROUP", "DISTINCT", "WINDOW")
_FUNCTIONS = {"count_star": "count", "count": "count", "min": "min", "max": "max", "sum": "sum"}
_OPERATORS = {
    "COMPARE_EQUAL": (Operator.EQ, Operator.EQ),
    "COMPARE_NOTEQUAL": (Operator.NE, Operator.NE),
    "COMPARE_LESSTHAN": (Operator.LT, Operator.GT),
    "COMPARE_LESSTHANOREQUALTO": (Operator.LE, Operator.GE),
    "COMPARE_GREATERTHAN": (Operator.GT, Operator.LT),
    "COMPARE_GREATERTHANOREQUALTO": (Operator.GE, Operator.LE),
}
_BIGINT = AtomicType(TypeRoot.BIGINT)
# DuckDB's sums of whole numbers have this many digits.
_SUM = AtomicType(TypeRoot.DECIMAL, precision=38)


class _BeyondError(Exception):
    """A part of a query is not known here, so that its rows are read."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A query over the answer of a source: its text, and the types in which it has the columns."""

    text: str
    view: str
    source: Source
    casts: Mapping[str, str]


def limited(
    externals: ExternalTables, source: Source, node: Mapping[str, Any], operators: Sequence[str]
) -> Source | None:
    """The source of a query's one table with the limit of the query; None if it has to give all.

    `operators` are those of DuckDB's plan.
    """
    modifiers = node.get("modifiers", ())
    if not {*operators} <= _ROW_BY_ROW or [modifier["type"] for modifier in modifiers] != _LIMIT:
        return None
    try:
        where = _One(source.schema, node["from_table"]).where(node["where_clause"])
        limit = _whole(modifiers[0]["limit"])
        offset = modifiers[0].get("offset")
        asked = limit + (0 if offset is None else _whole(offset))
    except _BeyondError:
        return None
    return external_source(externals, source.name, None, where=where, limit=asked)


def aggregated(
    externals: ExternalTables, source: Source, text: str, names: Sequence[str]
) -> Rewritten | None:
    """The query over the aggregates of its one table; None if they are made of its rows.

    `names` are those of the columns that the query gives.
    """
    tree = parsed_sql(text)
    node = tree["statements"][0]["node"]
    try:
        asked = _One(source.schema, node["from_table"])
        request = asked.rewrite(node, names)
    except (_BeyondError, KeyError):
        return None
    made = aggregated_source(externals, source.name, request)
    if made is None:
        return None
    view = f"aggregates of {source.name}"
    named = {"schema_name": "", "table_name": view, "qualified_name": {"path": [view]}}
    node["from_table"] = {**node["from_table"], **named, "alias": asked.alias}
    casts = {each.output.name: "HUGEINT" for each in asked.made if each.function == "sum"}
    return Rewritten(sql_of(tree), view, made, casts)


def is_of_rows(operators: Sequence[str]) -> bool:
    """Whether a plan looks at rows one by one."""
    return not any(word in operator for operator in operators for word in _OF_MANY_ROWS)


def is_of_one_table(node: Mapping[str, Any]) -> bool:
    """Whether a query reads one table, once, and in nothing but its FROM."""
    tables = [each for each in tree_nodes(node) if each.get("type") == "BASE_TABLE"]
    return (
        node.get("type") == "SELECT_NODE"
        and [each.get("type") for each in (node["from_table"], *tables)] == ["BASE_TABLE"] * 2
        and not tables[0]["sample"]
        and not tables[0]["column_name_alias"]
        and not any(node.get(each) for each in ("sample", "qualify"))
        and not node["cte_map"]["map"]
    )


@dataclass
class _One:
    """The table of a query that reads one, and the aggregates that the query makes of it."""

    schema: TableSchema
    table: Mapping[str, Any]
    made: list[Aggregate] = field(default_factory=list)

    @property
    def alias(self) -> str:
        return str(self.table["alias"] or self.table["table_name"])

    def where(self, node: Mapping[str, Any] | None) -> Predicate | None:
        """The filter of the query.

        Raises:
            _BeyondError: it has a part that is not known here.
        """
        return None if node is None else conjunction(tuple(self._leaves(node)))

    def _leaves(self, node: Mapping[str, Any]) -> Iterator[Leaf]:
        kind = node["type"]
        if kind == "CONJUNCTION_AND":
            for each in node["children"]:
                yield from self._leaves(each)
        elif kind in _OPERATORS:
            plain, flipped = _OPERATORS[kind]
            left, right = node["left"], node["right"]
            if left["type"] == "COLUMN_REF":
                yield self._leaf(left, plain, right)
            else:
                yield self._leaf(right, flipped, left)
        elif kind == "COMPARE_BETWEEN":
            yield self._leaf(node["input"], Operator.GE, node["lower"])
            yield self._leaf(node["input"], Operator.LE, node["upper"])
        elif kind == "COMPARE_IN":
            yield self._leaf(node["children"][0], Operator.IN, *node["children"][1:])
        elif kind in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            is_null = kind == "OPERATOR_IS_NULL"
            column = self.column(node["children"][0]).name
            yield Leaf(column, Operator.IS_NULL if is_null else Operator.IS_NOT_NULL)
        else:
            raise _BeyondError

    def _leaf(
        self, column: Mapping[str, Any], operator: Operator, *literals: Mapping[str, Any]
    ) -> Leaf:
        found = self.column(column)
        root = found.type.root if isinstance(found.type, AtomicType) else None
        bits = 0 if root is None else INTEGER_BITS.get(root, 0)
        values = tuple(map(_whole, literals))
        # A column has no value beyond its type, to which one could be converted.
        if not bits or any(not -(1 << bits - 1) <= each < 1 << bits - 1 for each in values):
            raise _BeyondError
        return Leaf(found.name, operator, values)

    def column(self, node: Mapping[str, Any]) -> DataField:
        """The column of the table that a part of the query is.

        Raises:
            _BeyondError: it is another thing.
        """
        names = node["column_names"] if node.get("type") == "COLUMN_REF" else []
        if len(names) > 2 or (len(names) == 2 and names[0].lower() != self.alias.lower()):
            raise _BeyondError
        fields = self.schema.fields
        found = [each for each in fields if names and each.name.lower() == names[-1].lower()]
        if len(found) != 1:
            raise _BeyondError
        return found[0]

    def rewrite(self, node: dict[str, Any], names: Sequence[str]) -> AggregateRequest:
        """Make the query one over its groups, which are asked for by the request.

        Raises:
            _BeyondError: it has a part that is not known here.
        """
        where, groups = self.where(node["where_clause"]), self._groups(node)
        for item, name in zip(node["select_list"], names, strict=True):
            self._check_alias(item)
            # Unnamed columns have the text of their expression as a name.
            item["alias"] = item["alias"] or name
        for part in ("select_list", "having", "modifiers"):
            node[part] = self._over_groups(node[part])
        if not self.made:
            raise _BeyondError
        node["where_clause"], node["having"] = node["having"], None
        node["group_expressions"], node["group_sets"] = [], []
        return AggregateRequest(where=where, group_by=groups, aggregates=tuple(self.made))

    def _groups(self, node: Mapping[str, Any]) -> tuple[str, ...]:
        expressions, sets = node["group_expressions"], node["group_sets"]
        is_plain = node["aggregate_handling"] == "STANDARD_HANDLING"
        if not is_plain or sets not in ([], [[*range(len(expressions))]]):
            raise _BeyondError
        groups = []
        for expression in expressions:
            is_place = expression["type"] == "VALUE_CONSTANT"
            at = _whole(expression) - 1 if is_place else 0
            if at not in range(len(node["select_list"])):
                raise _BeyondError
            groups.append(self.column(node["select_list"][at] if is_place else expression).name)
        return tuple(dict.fromkeys(groups))

    def _check_alias(self, item: Mapping[str, Any]) -> None:
        """Refuse a name of a column for another thing: what is meant depends on the place."""
        names = {each.name.lower() for each in self.schema.fields}
        alias = item["alias"].lower()
        if item["class"] == "STAR" or (
            alias in names
            and not (item["type"] == "COLUMN_REF" and item["column_names"][-1].lower() == alias)
        ):
            raise _BeyondError

    def _over_groups(self, node: Any) -> Any:
        """A part of the query with columns of the groups in place of aggregates."""
        if isinstance(node, list):
            return [self._over_groups(each) for each in node]
        if not isinstance(node, dict):
            return node
        if node.get("class") in ("SUBQUERY", "WINDOW"):
            raise _BeyondError
        name = _FUNCTIONS.get(node.get("function_name", ""))
        if node.get("class") == "FUNCTION" and name is not None:
            return _column(self._aggregate(node, name), node["alias"])
        if node.get("class") == "COLUMN_REF" and len(node["column_names"]) > 1:
            return _column(self.column(node).name, node["alias"])
        return {key: self._over_groups(each) for key, each in node.items()}

    def _aggregate(self, node: Mapping[str, Any], function: str) -> str:
        """The column with an aggregate."""
        is_plain = not (node["filter"] or node["distinct"] or node["order_bys"]["orders"])
        if not is_plain or node["schema"]:
            raise _BeyondError
        column = None
        match node["arguments"]:
            case [argument]:
                column = self.column(argument["expression"])
            case [] if function == "count":
                pass
            case _:
                raise _BeyondError
        kind = _SUM if function == "sum" else _BIGINT
        if column is not None and function in ("min", "max"):
            if not isinstance(column.type, AtomicType):
                raise _BeyondError
            kind = replace(column.type, nullable=True)
        said = None if column is None else column.name
        for each in self.made:
            if (each.function, each.column) == (function, said):
                return each.output.name
        name = f"{function}({said or '*'})"
        if name in self.schema.field_names:
            raise _BeyondError
        self.made.append(Aggregate(function, said, DataField(len(self.made), name, kind)))
        return name


def _column(name: str, alias: str) -> dict[str, Any]:
    named = {"class": "COLUMN_REF", "type": "COLUMN_REF", "query_location": 0}
    return {**named, "alias": alias, "column_names": [name]}


def _whole(node: Mapping[str, Any]) -> int:
    literal = node.get("literal")
    if not isinstance(literal, Mapping) or literal.get("kind") != "INTEGER":
        raise _BeyondError
    return int(literal["text"])
