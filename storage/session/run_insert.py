"""INSERT INTO and INSERT OVERWRITE: `Table.write` with the rows of a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakewright.storage.catalog import Catalog
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.operations.commit.pending import commit_or_abort
from lakewright.storage.operations.format_tables.format_spec import TABLE_TYPES, TYPE_OPTION
from lakewright.storage.rows import Rows, is_dataframe
from lakewright.storage.session.insert_columns import filled_columns
from lakewright.storage.session.results import StatementResult, counted, done
from lakewright.storage.session.run_partitions import clause_values
from lakewright.storage.session.run_query import (
    answer,
    checked_width,
    fitted_literal,
    names_of,
    needs_spark,
    simple_of,
    spark_frame,
)
from lakewright.storage.session.settings import Settings
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.sql.grammar.statements import Insert
from lakewright.storage.table import Table

if TYPE_CHECKING:
    from lakewright.storage.spark import DataFrame


def run_insert(
    catalog: Catalog,
    insert: Insert,
    names: Mapping[str, str],
    settings: Settings,
    commit: tuple[str, int] | None = None,
) -> StatementResult:
    """Write the rows of the query; `names` has the full name of each table of the statement.

    `commit` is the user and the identifier by which a repeated statement finds its commit.

    Raises:
        InvalidStatement: the columns of the query do not fit the table and the clause.
        InvalidRows: a row does not fit; nothing is written.
        StalePlan: the query reads the table that it replaces, and another commit changed its rows.
    """
    table = catalog.table(names[insert.table])
    static = clause_values(table, insert.static)
    table.table_files.partitions.stored(
        {name: value for name, value in static.items() if name in table.schema.partition_keys}
    )
    base = table.table_files.snapshots.latest()
    rows = _rows(catalog, insert, names, settings, table)
    if table.schema.options.get(TYPE_OPTION) in TABLE_TYPES:
        return _into_folders(catalog, table.name, insert, static, rows, settings, commit)
    covers_all = set(static) == set(table.schema.partition_keys)
    once = replace(table, table_files=table.table_files.reading_once())
    staged = once.stage(
        rows.given,
        mode="overwrite" if insert.overwrite else "append",
        partition=static or None,
        dynamic=None if covers_all or not insert.overwrite else settings.dynamic_overwrite,
        commit_user=None if commit is None else commit[0],
        commit_identifier=None if commit is None else commit[1],
    )
    sources = {names[each].partition("$")[0] for each in insert.query.tables}
    replaces_itself = insert.overwrite and names[insert.table].partition("$")[0] in sources
    if replaces_itself:
        # The rows were read at this snapshot or a later one.
        staged = replace(
            staged,
            base_snapshot_id=None if base is None else base.id,
            base_commit=None if base is None else base.delta_manifest_list,
        )
    result = commit_or_abort(once.table_files, staged, reads_base=replaces_itself)
    snapshot = None if result.snapshot is None else result.snapshot.id
    ended = ": nothing changed" if snapshot is None else f", snapshot {snapshot}"
    if result.already_committed:
        ended += ", by an earlier try"
    return done(
        f"{rows.said} into {table.name}{ended}",
        table=table.name,
        rows=rows.count,
        snapshot=snapshot,
    )


class _Counted:
    """Rows on their way to a table, counted as they pass; Spark counts none."""

    def __init__(self, given: Rows | None = None) -> None:
        self.count: int | None = None
        self.given: Rows = [] if given is None else given

    def over(self, pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
        self.count = 0
        for piece in pieces:
            self.count += piece.num_rows
            yield piece

    @property
    def said(self) -> str:
        if self.count is None:
            return "rows written"
        return f"{counted(self.count, 'row')} written"


def _rows(
    catalog: Catalog, insert: Insert, names: Mapping[str, str], settings: Settings, table: Table
) -> _Counted:
    """The rows of the query under the names of the columns that they fill."""
    schema, query = table.schema, insert.query
    if needs_spark(query, settings):
        frame: DataFrame = spark_frame(catalog, query, {each: names[each] for each in query.tables})
        filled = filled_columns(insert, schema, table.name, len(frame.columns), frame.columns)
        return _Counted(frame.toDF(*filled))
    simple = simple_of(query)
    if simple.rows is not None:
        width = checked_width(simple.rows)
        named = tuple(item.name for item in simple.items) or None
        filled = filled_columns(insert, schema, table.name, width, named)
        into = schema.fields_of(filled)
        rows = _Counted(
            [
                {
                    field.name: fitted_literal(value, field, at)
                    for field, value in zip(into, row, strict=True)
                }
                for at, row in enumerate(simple.rows, start=1)
            ]
        )
        rows.count = len(simple.rows)
        return rows
    assert simple.table is not None
    source = names[simple.table]
    found = names_of(catalog, simple, source) or ()
    filled = filled_columns(insert, schema, table.name, len(found), found)
    into = schema.fields_of(filled)
    answered = answer(catalog, simple, source, into)
    rows = _Counted()
    rows.given = rows.over(_renamed(answered.pieces, answered.fields, filled))
    return rows


def _renamed(
    pieces: Iterator[pa.Table], fields: Sequence[DataField], filled: Sequence[str]
) -> Iterator[pa.Table]:
    # A statement without a row is one, too: it may replace a partition by nothing.
    yield to_arrow_schema(fields).empty_table().rename_columns(list(filled))
    for piece in pieces:
        yield piece.rename_columns(list(filled))


def _into_folders(
    catalog: Catalog,
    name: str,
    insert: Insert,
    static: Mapping[str, object],
    rows: _Counted,
    settings: Settings,
    commit: tuple[str, int] | None,
) -> StatementResult:
    written = catalog.format_table(name).write(
        rows.given.toArrow() if is_dataframe(rows.given) else rows.given,
        mode="overwrite" if insert.overwrite else "append",
        partition=static or None,
        dynamic=settings.dynamic_overwrite is not False,
        commit_user=None if commit is None else commit[0],
        commit_identifier=None if commit is None else commit[1],
    )
    if written.already_written:
        return done("done by an earlier try", by_earlier_try=True)
    return done(
        f"{counted(written.rows, 'row')} written into {name}, "
        f"{counted(len(written.files), 'file')}",
        table=name,
        rows=written.rows,
        files=len(written.files),
    )
