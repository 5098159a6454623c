"""What a source returned, as rows with the declared columns: one table, or a stream of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.platform.ingest.returned_columns import check_returned_columns
from lakewright.platform.ingest.sources import source_text
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage import Table
from lakewright.storage.codec.conform import (
    conform,
    number_fields,
    said_of_moments,
    with_moments,
)
from lakewright.storage.errors import InvalidRows
from lakewright.storage.file_reader.bad_rows import (
    BadRow,
    BadRows,
    RowForm,
    column_of,
    fitting,
    reason_of,
)
from lakewright.storage.file_reader.filled_columns import FilledColumns
from lakewright.storage.file_reader.reader import Partitions, wanted_mask
from lakewright.storage.file_reader.row_texts import row_text, row_texts
from lakewright.storage.rows import ArrowStream, arrow_tables, is_dataframe, is_pandas
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.extra_columns import ExtraColumns
from lakewright.storage.spec.missing_columns import MissingColumns
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.rows import ROW_KIND_COLUMN

_OF_ARROW = (pa.Table, pa.RecordBatch, ArrowStream)
_ROWS_AT_ONCE = 1 << 14
_Part: TypeAlias = pa.Table | list[Mapping[str, Any]]


def given_rows(
    rows: Any,
    *,
    table: Table,
    declaration: TableDeclaration,
    fixed: Sequence[str],
    bad: BadRows | None = None,
    wanted: Partitions | None = None,
    filled: FilledColumns | None = None,
) -> Any:
    """A DataFrame of Spark, an Arrow table, or a stream of tables, which is read once.

    Rows that come in parts stay a stream: each part is taken when the one before is written.
    `fixed` are partition columns whose value the run knows. `bad` gets the rows of a function that
    do not fit the table, or are not of the wanted partitions, and `filled` the declared columns
    that rows lack.

    Raises:
        InvalidRows: what was returned is no rows, or lacks a declared column.
    """
    source = declaration.source
    leaves_out = bad is not None and source is not None and source.returns_rows
    if is_dataframe(rows) or (isinstance(rows, pa.Table) and not leaves_out):
        lacking = _lacking(rows, declaration, fixed)
        made = _fitting(rows, table, declaration, fixed)
        if filled is not None:
            count = rows.num_rows if isinstance(rows, pa.Table) else None
            filled.add(lacking, count, f"the source of {table.name}")
        return made
    is_stream = isinstance(rows, Iterable) and not isinstance(rows, (str, bytes, Mapping))
    if not (is_stream or is_pandas(rows) or isinstance(rows, _OF_ARROW)):
        raise InvalidRows(
            f"the source of {table.name} returned a {type(rows).__name__}; return a pyarrow.Table, "
            "a DataFrame of pandas or Spark, a reader or a generator of record batches, or an "
            "iterable of dicts"
        )
    if bad is not None and leaves_out:
        found = _FunctionRows(table, declaration, fixed, bad, wanted).fitting(rows)
    else:
        found = _stream(rows, table, declaration, fixed)
    return found if filled is None else _counted(found, table, declaration, fixed, filled)


def _counted(
    parts: Iterator[pa.Table],
    table: Table,
    declaration: TableDeclaration,
    fixed: Sequence[str],
    filled: FilledColumns,
) -> Iterator[pa.Table]:
    for part in parts:
        lacking = _lacking(part, declaration, fixed)
        filled.add(lacking, part.num_rows, f"the source of {table.name}")
        yield part


def _lacking(rows: Any, declaration: TableDeclaration, fixed: Sequence[str]) -> list[str]:
    """The declared columns that rows lack."""
    given = {*(rows.columns if is_dataframe(rows) else rows.column_names), *fixed}
    return [column.name for column in declaration.columns if column.name not in given]


def _stream(
    rows: Any, table: Table, declaration: TableDeclaration, fixed: Sequence[str]
) -> Iterator[pa.Table]:
    parts = arrow_tables(rows, number_fields(table.schema.fields, declaration.units))
    while True:
        try:
            part = next(parts)
        except StopIteration:
            return
        except InvalidRows as error:
            if (
                error.table is not None
                or declaration.source is None
                or not declaration.source.returns_rows
            ):
                raise
            told = said_of_moments(error, table.schema.fields, declaration.units)
            raise InvalidRows(
                f"the source of {table.name}: {told.message}; nothing was written", **error.details
            ) from error
        yield _fitting(part, table, declaration, fixed)


class _FunctionRows:
    """Leaves out the rows of a function that do not fit."""

    def __init__(
        self,
        table: Table,
        declaration: TableDeclaration,
        fixed: Sequence[str],
        bad: BadRows,
        wanted: Partitions | None,
    ) -> None:
        assert declaration.source is not None
        self._table, self._declaration, self._fixed = table, declaration, fixed
        self._bad, self._wanted = bad, wanted
        self._source = source_text(declaration.source)
        bad.begin(self._source)

    def fitting(self, rows: Any) -> Iterator[pa.Table]:
        for part in self._parts(rows):
            # What is wrong with the columns is wrong with the whole part.
            _check_columns(part, self._table, self._declaration, self._fixed)
            made = fitting(len(part), partial(self._fit, part), partial(self._reject, part))
            if made.num_rows:
                yield made

    @property
    def _read_as(self) -> tuple[DataField, ...]:
        return number_fields(self._table.schema.fields, self._declaration.units)

    def _parts(self, rows: Any) -> Iterator[_Part]:
        """Parts of the rows; mappings stay as they are, so that one can be left out."""
        if is_pandas(rows) or not isinstance(rows, Iterable) or isinstance(rows, _OF_ARROW):
            yield from arrow_tables(rows, self._read_as)
            return
        waiting: list[Mapping[str, Any]] = []
        for row in rows:
            if isinstance(row, Mapping):
                waiting.append(row)
            if waiting and (not isinstance(row, Mapping) or len(waiting) == _ROWS_AT_ONCE):
                yield _alike(waiting)
                waiting = []
            if not isinstance(row, Mapping):
                yield from arrow_tables(row, self._read_as)
        if waiting:
            yield _alike(waiting)

    def _fit(self, part: _Part, start: int, length: int) -> pa.Table:
        made = self._made(part, start, length)
        if made is None:
            return pa.table({})
        keys = self._keys_of(made)
        if self._wanted is not None and keys.num_columns:
            wanted = tuple(
                {name: spec[name] for name in keys.column_names} for spec in self._wanted
            )
            of_keys = self._table.schema.fields_of(keys.column_names)
            others = keys.filter(pc.invert(wanted_mask(keys, of_keys, wanted)))
            if others.num_rows:
                spec = describe_partition(others.to_pylist()[0])
                raise InvalidRows(f"{self._source}: {spec} was not requested")
        fields = [field for field in self._table.schema.fields if field.name in made.column_names]
        typed = conform(made.select([e.name for e in fields]), fields, table=self._source)
        for name in made.column_names:
            # An unknown column is refused by its name.
            if name not in typed.column_names:
                typed = typed.append_column(name, made.column(name))
        return typed

    def _keys_of(self, made: pa.Table) -> pa.Table:
        """The partition columns that the rows have."""
        fields = self._table.schema.partition_fields
        held = [field for field in fields if field.name in made.column_names]
        return conform(made.select([each.name for each in held]), held, table=self._source)

    def _made(self, part: _Part, start: int, length: int) -> pa.Table | None:
        some = _some(part, start, length)
        if not len(some) and isinstance(some, list):
            return None
        (made,) = arrow_tables(some, self._read_as)
        return _fitting(made, self._table, self._declaration, self._fixed)

    def _reject(self, part: _Part, at: int, error: InvalidRows) -> None:
        fixed = dict(self._wanted[0]) if self._fixed and self._wanted else {}
        partition = None
        with suppress(InvalidRows):
            made = self._made(part, at, 1)
            if made is not None and self._table.schema.partition_keys:
                partition = describe_partition({**fixed, **self._keys_of(made).to_pylist()[0]})
        one = _some(part, at, 1)
        names = one[0] if isinstance(one, list) else one.column_names
        told = {name: each for name, each in fixed.items() if name not in names}
        fields = self._table.schema.fields
        said = said_of_moments(error, fields, self._declaration.units)
        text = row_text(one[0], fields) if isinstance(one, list) else row_texts(one, fields)[0]
        self._bad.add(
            BadRow(
                source=self._source,
                text=text,
                reason=reason_of(said),
                column=column_of(error),
                form=RowForm.READ,
                told={name: None if each is None else str(each) for name, each in told.items()},
                partition=partition,
            )
        )


def _some(part: _Part, start: int, length: int) -> _Part:
    return part[start : start + length] if isinstance(part, list) else part.slice(start, length)


def _alike(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Mappings that have all the same columns, as the rows of one table do."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [{**names, **row} for row in rows]


def _check_columns(
    rows: Any, table: Table, declaration: TableDeclaration, fixed: Sequence[str]
) -> None:
    """Check the columns of rows; an error about unknown ones has what tells their types."""
    source = declaration.source
    if isinstance(rows, list):
        names = list(dict.fromkeys(name for row in rows for name in row))
    else:
        names = list(rows.columns if is_dataframe(rows) else rows.column_names)
    try:
        check_returned_columns(
            names,
            [column.name for column in declaration.columns],
            fixed=fixed,
            schema=table.schema,
            table=table.name,
            missing_columns=MissingColumns.FILL if source is None else source.missing_columns,
            extra_columns=ExtraColumns.REFUSE if source is None else source.extra_columns,
        )
    except InvalidRows as error:
        if error.details.get("new"):
            error.details["rows"] = rows
        raise


def _fitting(rows: Any, table: Table, declaration: TableDeclaration, fixed: Sequence[str]) -> Any:
    """Rows with the declared columns, and without those that are to be ignored."""
    names = rows.columns if is_dataframe(rows) else rows.column_names
    source = declaration.source
    extra = ExtraColumns.REFUSE if source is None else source.extra_columns
    _check_columns(rows, table, declaration, fixed)
    if not is_dataframe(rows):
        where = f"the source of {table.name}"
        rows = with_moments(rows, table.schema.fields, declaration.units, where)
    if extra is ExtraColumns.REFUSE:
        return rows
    known = {*table.schema.field_names, ROW_KIND_COLUMN}
    return rows.select([name for name in names if name in known])
