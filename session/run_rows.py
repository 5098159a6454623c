"""DELETE, UPDATE, MERGE INTO and TRUNCATE, as calls of the verbs that change rows.

Conditions and expressions mean what they mean in a query: DuckDB's SQL. A condition that our own
filters read in the same way is planned by them, so that files without a match are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from lakewright.session.results import StatementResult, counted, done
from lakewright.session.run_partitions import clause_values
from lakewright.session.run_query import FullName
from lakewright.storage.catalog import Catalog
from lakewright.storage.errors import InvalidPredicate, InvalidStatement
from lakewright.storage.merging import shared_columns
from lakewright.storage.operations.row_changes.delete_rows import plan_delete_rows, run_delete_rows
from lakewright.storage.operations.row_changes.expressions import (
    Assignments,
    Others,
    quoted,
    subquery_tables,
)
from lakewright.storage.operations.row_changes.merge_rows import (
    Clause,
    Merge,
    MergeStatement,
    plan_merge_rows,
)
from lakewright.storage.operations.row_changes.statement import RowChangeResult
from lakewright.storage.operations.row_changes.update_rows import plan_update_rows, run_update_rows
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.sql.grammar.statements import (
    Delete,
    MergeClause,
    MergeInto,
    Truncate,
    Update,
)
from lakewright.storage.sql.where import parse_where
from lakewright.storage.table import Table

# Signs that begin a text in one of the dialects, and something else in the other.
_QUOTES = frozenset('"`\\')
# By type of a column, the literals that both dialects read alike, and whether these are texts. To
# DuckDB a number with an exponent or of many digits is a DOUBLE, and a date has one form.
_WHOLE, _FRACTION = re.compile(r"[0-9]{1,18}"), re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?")
# Decimals of more digits are compared as DOUBLE by DuckDB, if a literal has more behind the point.
_MOST_DIGITS = 18
_FORMS: Mapping[TypeRoot, tuple[re.Pattern[str], bool]] = {
    TypeRoot.TINYINT: (_WHOLE, False),
    TypeRoot.SMALLINT: (_WHOLE, False),
    TypeRoot.INT: (_WHOLE, False),
    TypeRoot.BIGINT: (_WHOLE, False),
    TypeRoot.DECIMAL: (_FRACTION, False),
    TypeRoot.VARCHAR: (re.compile(r".*", re.DOTALL), True),
    TypeRoot.DATE: (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"), True),
}


def delete_where(
    catalog: Catalog, table: Table, asked: Delete, full_name: FullName
) -> StatementResult:
    """Delete the rows for which the condition is true."""
    files, engine = table.table_files, LocalEngine(env=table.table_files.env)
    if asked.where is None:
        result = run_delete_rows(files, plan_delete_rows(files, None, None, engine), None, engine)
        return _done(table, result)
    where = _filter(asked.where, table.schema)
    if where is not None:
        plan = plan_delete_rows(files, where, asked.where, engine)
        return _done(table, run_delete_rows(files, plan, where, engine))
    others = _others(catalog, asked.alias, full_name, asked.where)
    return _by_condition(table, asked.alias, Clause(None, asked.where), others)


def update_where(
    catalog: Catalog, table: Table, asked: Update, full_name: FullName
) -> StatementResult:
    """Give the rows for which the condition is true new values."""
    files, engine = table.table_files, LocalEngine(env=table.table_files.env)
    columns = Assignments.of(dict(asked.values), files).of_columns
    texts = [text for _, text in columns]
    others = _others(catalog, asked.alias, full_name, *texts, asked.where or "true")
    assignments = Assignments(columns, asked.alias, others)
    where = None if asked.where is None else _filter(asked.where, table.schema)
    if not others and (asked.where is None or where is not None):
        plan = plan_update_rows(files, assignments, where, asked.where, engine)
        return _done(table, run_update_rows(files, plan, where, engine))
    return _by_condition(table, asked.alias, Clause(assignments, asked.where), others)


def merge_into(table: Table, asked: MergeInto, rows: pa.Table) -> StatementResult:
    """Change rows by those of a query."""
    files = table.table_files
    of_key = {left for left, _ in asked.on}
    shared = shared_columns(table.schema.field_names, rows.column_names, "the source")

    def clauses(kind: str) -> tuple[Clause, ...]:
        return tuple(_clause(clause) for clause in asked.clauses if clause.kind == kind)

    def _clause(each: MergeClause) -> Clause:
        if each.action == "delete":
            return Clause(None, each.condition)
        values = each.values or tuple(
            (name, f"{quoted(asked.source_alias)}.{quoted(given)}")
            for name, given in shared.items()
            if each.action == "insert" or name not in of_key
        )
        return Clause(Assignments.of(dict(values), files), each.condition)

    if asked.alias.lower() == asked.source_alias.lower():
        raise InvalidStatement(
            f"the table and the source are both called {asked.alias}; name one by AS"
        )
    for name, _ in asked.on:
        if name not in table.schema.field_names:
            raise InvalidStatement(f"{table.name} has no column {name} to match on")
    merge = Merge(
        on=asked.on,
        and_on=asked.and_on,
        matched=clauses("matched"),
        not_matched=clauses("not_matched"),
        not_matched_by_source=clauses("not_matched_by_source"),
        target=asked.alias,
        source=asked.source_alias,
        of_query=True,
    )
    return _merged(table, MergeStatement(merge, rows))


def truncate(table: Table, asked: Truncate) -> StatementResult:
    """Remove all rows, or those of partitions, by metadata alone."""
    if asked.spec:
        values = clause_values(table, asked.spec)
        dropped = table.upkeep.drop_partitions(partitions=[values])
        snapshot = dropped.snapshot
        what = counted(len(dropped.partitions), "partition")
    else:
        snapshot = table.write(
            table.arrow_schema.empty_table(), mode="overwrite", dynamic=False
        ).snapshot
        what = "all rows"
    return done(
        f"{what} of {table.name} removed",
        table=table.name,
        snapshot=None if snapshot is None else snapshot.id,
    )


def _others(catalog: Catalog, alias: str, full_name: FullName, *texts: str) -> Others:
    """The tables that subqueries read, in memory.

    Raises:
        InvalidStatement: one is called as the table itself, which stands for its row there.
    """
    names = dict.fromkeys(name for text in texts for name in subquery_tables(text))
    if alias.lower() in {name.lower() for name in names}:
        raise InvalidStatement(
            f"a subquery reads {alias}, which is the row itself; name the row by AS: "
            f"{alias} AS x, and say x of it"
        )
    return tuple((name, catalog.table(full_name(name)).read()) for name in names)


def _by_condition(table: Table, alias: str, clause: Clause, others: Others) -> StatementResult:
    """Change the rows for which DuckDB finds a condition true: those that match no row of none."""
    key = table.schema.field_names[0]
    none = table.arrow_schema.empty_table().select([key])
    merging = Merge(
        on=((key, key),),
        not_matched_by_source=(clause,),
        target=alias,
        source="__lakewright_none",
        others=others,
    )
    return _merged(table, MergeStatement(merging, none))


def _merged(table: Table, statement: MergeStatement) -> StatementResult:
    plan = plan_merge_rows(table.table_files, statement, counts=False)
    return _done(table, table.upkeep.run(plan))


def _done(table: Table, result: RowChangeResult) -> StatementResult:
    counts = {
        "deleted": result.deleted,
        "updated": result.updated,
        "inserted": result.inserted,
    }
    told = [f"{counted(count, 'row')} {what}" for what, count in counts.items() if count]
    snapshot = None if result.snapshot is None else result.snapshot.id
    ended = "nothing changed" if snapshot is None else f"snapshot {snapshot}"
    return done(
        f"{', '.join(told) or 'no row matches'} in {table.name}, {ended}",
        table=table.name,
        **counts,
        snapshot=snapshot,
    )


# --- conditions ------------------------------------------------------------------------------


def _filter(where: str, schema: TableSchema) -> Predicate | None:
    """A condition as a filter of ours; None if only DuckDB may say what it means."""
    if _QUOTES & set(where):
        return None
    try:
        tree = parse_one(where, read="duckdb")
        found = parse_where(where, schema)
    except (SqlglotError, InvalidPredicate, RecursionError):
        return None
    compared = tree.find_all(exp.Predicate, exp.In, exp.Between)
    return found if all(_same_meaning(each, schema) for each in compared) else None


def _same_meaning(node: exp.Expr, schema: TableSchema) -> bool:
    """Whether a comparison of a column with literals is of one kind of values."""
    columns = {each.name for each in node.find_all(exp.Column)}
    if len(columns) != 1:
        # A conjunction is judged by its parts.
        return isinstance(node, exp.Connector)
    (name,) = columns
    kind = schema.field(name).type if name in schema.field_names else None
    if not isinstance(kind, AtomicType):
        return False
    form = _FORMS.get(kind.root)
    if form is None or (kind.root is TypeRoot.DECIMAL and kind.precision > _MOST_DIGITS):
        return False
    pattern, is_text = form
    return all(
        each.is_string == is_text and pattern.fullmatch(each.this)
        for each in node.find_all(exp.Literal)
    )
