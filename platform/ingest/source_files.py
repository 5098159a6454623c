"""Source files of every format as rows of the declared types.

The declaration decides the types, not the file's content: the text of a CSV is parsed as the
declared type, and numbers of another width are cast if the cast is lossless. One function reads a
file here and in Spark's tasks, so that both engines see the same rows.

It is long since each format refuses a file, and keeps or leaves out a bad row, in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.platform.ingest.bad_rows import (
    BadRow,
    BadRows,
    RowForm,
    column_of,
    fitting,
    reason_of,
    row_text,
    row_texts,
)
from lakewright.platform.ingest.epoch_numbers import (
    Units,
    number_fields,
    said_of_moments,
    with_moments,
)
from lakewright.platform.ingest.find_files import FileSearch, FoundFile
from lakewright.platform.ingest.source_columns import FileColumns, check_file_columns
from lakewright.platform.ingest.source_readers import (
    Piece,
    UnreadRows,
    other_format,
    pieces,
    row_group_count,
    rows_of_csv,
)
from lakewright.platform.ingest.text_values import TextLayout, from_text
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.partition_keys import first_few
from lakewright.platform.tables.source_declarations import SourceDeclaration
from lakewright.platform.tables.source_paths import SourcePath
from lakewright.storage.codec.arrow_types import conform, to_arrow_type
from lakewright.storage.codec.arrow_values import scalar_of, value_of
from lakewright.storage.errors import (
    CorruptionError,
    InvalidRows,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lakewright.storage.operations.read.row_kinds import ROW_KIND_COLUMN
from lakewright.storage.spec.data_types import STRING, AtomicType, DataField, TypeRoot, not_null
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import TableSchema, new_schema
from lakewright.storage.spec.values import from_python, same_value, to_python

# How many partitions a message names.
_MOST_PARTITIONS = 5
# How many files are asked whether they have the unknown columns of one of them.
_MOST_ASKED = 100
# Tables with this option take the kinds of rows from a column of their own.
_KIND_OPTION = "rowkind.field"
Partitions = tuple[Mapping[str, object], ...]


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One file or some of its row groups, with the reading options; picklable for Spark tasks."""

    file: FoundFile
    source: SourceDeclaration
    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...]
    units: Units = field(default_factory=dict)
    row_groups: tuple[int, ...] | None = None

    @property
    def path(self) -> str:
        return self.file.shown

    def read(self, wanted: Partitions | None, bad: BadRows | None = None) -> Iterator[pa.Table]:
        """Rows of the wanted partitions, None for all, in the declared types.

        Without `bad` the first row that does not fit ends it; else `bad` gets them.

        Raises:
            InvalidRows: the file is not of its format, or does not hold what is declared.
        """
        seen: dict[str, None] = {}
        rejecting = None if bad is None else _Rejecting(self, wanted, bad)
        with self._told():
            unread = None if rejecting is None else rejecting.unread
            for piece in self.pieces(unread):
                seen |= dict.fromkeys(piece.column_names)
                check_file_columns(piece.column_names, self._columns)
                if rejecting is None:
                    typed = self.fitted(piece, 0, piece.row_count)
                else:
                    typed = rejecting.fitting(piece)
                yield self.wanted_of(typed, wanted)
            self._columns.check_seen(tuple(seen))
            if rejecting is not None:
                rejecting.keep_rows_of_csv()

    def pieces(self, unread: UnreadRows | None = None) -> Iterator[Piece]:
        """The file as it is; `unread` gets what is no row, which without it is an error.

        Raises:
            InvalidRows: the file is not of its format.
        """
        with self._told():
            yield from pieces(self.file, self.source, self._read_as, self.row_groups, unread)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of reading as errors that say what to do."""
        try:
            yield
        except InvalidRows as err:
            raise said_of_moments(err, self.fields, self.units) from err.__cause__
        except (CorruptionError, UnsupportedError) as err:
            where = "" if self.path in err.message else f"{self.path}: "
            raise InvalidRows(f"{where}{err.message}{self._hint(err)}") from err
        except (pa.ArrowException, OSError, UnicodeError) as err:
            raise InvalidRows(f"{self.path} cannot be read: {err}{self._hint(err)}") from err

    def fitted(self, piece: Piece, start: int, length: int) -> pa.Table:
        """Some rows of a piece, in the declared types."""
        names = [field.name for field in self.fields]
        made = piece.read(start, length, self._read_as)
        held = [name for name in made.column_names if name in names]
        rows = self._typed(made.select(held), piece.first_row + start)
        # A table without columns has no rows.
        rows = self._with_told_columns(rows, made.num_rows)
        if self._columns.has_kinds:
            rows = _with_kinds(rows, may_lack=self._columns.may_lack)
        return conform(rows, self.fields, table=self.path)

    def wanted_of(self, typed: pa.Table, wanted: Partitions | None) -> pa.Table:
        """The rows of the wanted partitions."""
        return typed if wanted is None else typed.filter(wanted_mask(typed, self.fields, wanted))

    @cached_property
    def _columns(self) -> FileColumns:
        names = tuple(field.name for field in self.fields)
        return FileColumns(
            path=self.path,
            source=self.source,
            declared=tuple(name for name in names if name != ROW_KIND_COLUMN),
            told=tuple(name for name, _ in self.file.values),
            has_kinds=ROW_KIND_COLUMN in names,
        )

    def unknown_columns(self) -> tuple[str, ...]:
        """The columns at the beginning of the file that the table has not."""
        declared = {field.name for field in self.fields}
        with suppress(StorageError, pa.ArrowException, OSError, UnicodeError):
            for piece in self.pieces():
                return tuple(name for name in piece.column_names if name not in declared)
        return ()

    def _typed(self, rows: pa.Table, first_row: int) -> pa.Table:
        """Text cast to the declared types, and moments to the day that names a partition."""
        declared = {field.name: field for field in self.fields}
        for at, name in enumerate(rows.column_names):
            field = declared[name]
            if not isinstance(field.type, AtomicType):
                continue
            column = rows.column(at)
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            if is_text and self.source.csv is None:
                self._check_text_allowed(field)
            elif is_text:
                texts = column.cast(pa.string()).combine_chunks()
                (read_as,) = number_fields([field], self.units)
                try:
                    values = from_text(texts, read_as, self.layout, first_row=first_row)
                except InvalidRows as err:
                    raise InvalidRows(f"{self.path}: {err.message}", column=name) from None
                rows = rows.set_column(at, name, values)
            elif self._is_day_of_moments(field, column.type):
                rows = rows.set_column(
                    at, name, pc.floor_temporal(column, unit="day").cast(pa.date32())
                )
        return with_moments(rows, self.fields, self.units, self.path)

    @property
    def _read_as(self) -> tuple[DataField, ...]:
        return number_fields(self.fields, self.units)

    def _with_told_columns(self, rows: pa.Table, count: int) -> pa.Table:
        """Rows with the columns that the path tells; a file that has them must agree."""
        fields = {field.name: field for field in self.fields}
        for name, value in self.file.values:
            field = fields[name]
            if name not in rows.column_names:
                repeated = pa.repeat(scalar_of(value, field.type), count)
                if not rows.column_names:
                    rows = pa.table({name: repeated})
                    continue
                rows = rows.append_column(name, repeated)
                continue
            held = conform(rows.select([name]), [field], table=self.path).column(name)
            for each in held.unique():
                other = value_of(each, field.type)
                if not same_value(other, value):
                    raise InvalidRows(
                        f"{self.path}: the path tells that {name} is "
                        f"{to_python(value, field.type)}, and a row holds "
                        f"{to_python(other, field.type)}; move the row, or leave the column out "
                        "of the file; nothing was written",
                        column=name,
                    )
        return rows

    def _check_text_allowed(self, field: DataField) -> None:
        """Refuse text in a typed file for a column of another type, as `Table.write` does."""
        assert isinstance(field.type, AtomicType)
        if not field.type.root.is_text:
            raise InvalidRows(
                f"{self.path}: column {field.name} is {field.type}, and the file holds text; "
                "declare the column STRING, or convert the text in a python source",
                column=field.name,
            )

    def _is_day_of_moments(self, field: DataField, given: pa.DataType) -> bool:
        """Whether the day of local times names a partition; the day of a zoned time is unclear."""
        is_date = isinstance(field.type, AtomicType) and field.type.root is TypeRoot.DATE
        is_local = bool(pa.types.is_timestamp(given)) and given.tz is None
        return is_date and is_local and field.name in self.partition_keys

    @property
    def layout(self) -> TextLayout:
        """How its texts are written."""
        source = self.source
        return TextLayout(
            nulls=source.nulls,
            date_format=source.date_format,
            timestamp_format=source.timestamp_format,
            decimal=source.decimal,
            thousands=source.thousands,
        )

    def _hint(self, err: Exception) -> str:
        with suppress(StorageError, OSError):
            other = other_format(self.file, self.source.file_format)
            if other:
                return other
        if "UTF8" in str(err) or isinstance(err, UnicodeError):
            return "; give its encoding, such as `encoding: latin-1`"
        return ""


class _Rejecting:
    """Leaves out the rows of one file that do not fit, and keeps them as the file has them."""

    def __init__(self, file: SourceFile, wanted: Partitions | None, bad: BadRows) -> None:
        self._file, self._wanted, self._bad = file, wanted, bad
        keys = tuple(each for each in file.fields if each.name in file.partition_keys)
        self._keys = replace(file, fields=keys)
        types = {each.name: each.type for each in keys}
        told = {name: to_python(value, types[name]) for name, value in file.file.values}
        self._told = {name: None if each is None else str(each) for name, each in told.items()}
        # That of every row, if the path tells it.
        self._partition = describe_partition(told) if told.keys() >= types.keys() > set() else None
        self.unread = UnreadRows(self._keep_line, self._count_ragged)
        self._header: tuple[str, ...] = ()
        self._ragged = 0
        # By number among the rows with a value for each column; a CSV is read again for them.
        self._of_csv: dict[int, tuple[InvalidRows, str | None]] = {}
        bad.begin(file.path)

    def fitting(self, piece: Piece) -> pa.Table:
        """The rows of a piece that fit."""
        self._header = piece.column_names

        def fit(start: int, length: int) -> pa.Table:
            try:
                return self._file.fitted(piece, start, length)
            except pa.ArrowException as error:
                raise InvalidRows(f"{self._file.path}: {error}") from error

        return fitting(piece.row_count, fit, partial(self._reject, piece))

    def _reject(self, piece: Piece, at: int, error: InvalidRows) -> None:
        partition = self._partition
        if partition is None and self._keys.fields:
            with suppress(InvalidRows, pa.ArrowException):
                rows = self._keys.fitted(piece, at, 1)
                partition = describe_partition(rows.to_pylist()[0])
                if not self._keys.wanted_of(rows, self._wanted).num_rows:
                    # A run for its partition tells of it.
                    return
        if self._file.source.csv is not None:
            self._bad.count_one(reason_of(error))
            self._of_csv[piece.first_row + at] = error, partition
            return
        records, line = piece.records, None
        if records is None:
            text = row_texts(piece.read(at, 1, self._file.fields))[0]
        else:
            line = records.numbers[at]
            text = records.texts[at] if records.texts else row_text(records.records[at])
        is_json = self._file.source.json_files is not None
        form = RowForm.ORIGINAL if is_json else RowForm.READ
        self._keep(error, line, text, partition, form=form)

    def _keep_line(self, line: int, text: str, error: InvalidRows) -> None:
        """Keep a line of JSON that is no object."""
        self._keep(error, line, text, self._partition)

    def _keep(
        self,
        error: InvalidRows,
        line: int | None,
        text: str,
        partition: str | None,
        *,
        header: tuple[str, ...] | None = None,
        form: RowForm = RowForm.ORIGINAL,
        is_counted: bool = False,
    ) -> None:
        said = said_of_moments(error, self._file.fields, self._file.units)
        row = BadRow(
            source=self._file.path,
            line=line,
            text=text,
            reason=reason_of(said),
            column=column_of(error),
            header=header,
            form=form,
            told=self._told,
            partition=partition,
        )
        if is_counted:
            self._bad.keep(row)
        else:
            self._bad.add(row)

    def _count_ragged(self, count: int) -> None:
        for _ in range(count - self._ragged):
            self._bad.count_one(f"{self._file.path}: a row has more or fewer values than columns")
        self._ragged = count

    def keep_rows_of_csv(self) -> None:
        """Read a CSV again for the rows that were left out: Arrow tells neither text nor line."""
        if not self._bad.keeps or not (self._of_csv or self._ragged):
            return
        number, width = 0, len(self._header)
        keep = partial(self._keep, header=self._header, is_counted=True)
        for row in rows_of_csv(self._file.file, self._file.source):
            if row.columns != width:
                why = f"the row has {row.columns} values, and the file {width} columns"
                keep(InvalidRows(f"{self._file.path}: {why}"), row.line, row.text, self._partition)
                continue
            if number in self._of_csv:
                error, partition = self._of_csv[number]
                keep(error, row.line, row.text, partition)
            number += 1


def source_files(declaration: TableDeclaration, wanted: Partitions | None) -> list[SourceFile]:
    """The files of a source that may hold rows of the wanted partitions, None for all.

    There may be none only if the path tells partitions, and there are files of others.

    Raises:
        NotFoundError: the path names no file.
        InvalidRows: a folder's name is no value of its partition column.
    """
    source = declaration.source
    assert source is not None
    assert source.file_format is not None
    search = FileSearch(
        table=declaration.table,
        file_format=source.file_format,
        path=SourcePath.parse(source.given[source.file_format]),
        columns=declaration.partition_columns,
    )
    try:
        found = list(search.files(wanted if search.path.column_names else None))
        if not found and not any(True for _ in search.files(None)):
            raise NotFoundError(
                f"the source of {declaration.table} is {search.path.text}, and no file matches "
                f"{search.shown()}; nothing was written"
            )
    except (OSError, ValueError) as err:
        if isinstance(err, StorageError):
            raise
        raise InvalidRows(f"the source of {declaration.table} is not a valid path: {err}") from err
    fields = fields_with_kinds(new_schema(declaration.schema_spec, time_millis=0))
    return [
        SourceFile(
            file=file,
            source=source,
            fields=fields,
            partition_keys=declaration.partition_keys,
            units=declaration.units,
        )
        for file in found
    ]


def fields_with_kinds(schema: TableSchema) -> tuple[DataField, ...]:
    """The columns that files have, with that of the kinds of rows if the table takes them."""
    if not schema.is_keyed or _KIND_OPTION in schema.options:
        return schema.fields
    return (*schema.fields, DataField(-1, ROW_KIND_COLUMN, not_null(STRING)))


def read_in_turn(
    files: Sequence[SourceFile], wanted: Partitions | None, bad: BadRows | None = None
) -> Iterator[pa.Table]:
    """The rows of files, one piece after the other.

    Raises:
        InvalidRows: as `SourceFile.read`; if a file has unknown columns, it names the others too.
    """
    for file in files:
        try:
            yield from file.read(wanted, bad)
        except InvalidRows as err:
            unknown = err.details.get("unknown")
            if not unknown:
                raise
            others = [each for each in files if each is not file][:_MOST_ASKED]
            alike = [each.path for each in others if each.unknown_columns()]
            if not alike:
                raise
            asked = "other" if len(others) == len(files) - 1 else "asked other"
            raise InvalidRows(
                f"{err.message}; so have {len(alike)} of the {len(others)} {asked} files: "
                f"{first_few(alike)}",
                **err.details,
            ) from err


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The content of a file: its row count, the rows of wanted partitions, and some partitions."""

    row_count: int
    wanted_count: int
    partitions: tuple[str, ...]


def held(file: SourceFile, wanted: Partitions | None) -> Held:
    """Read a whole file; without wanted partitions only count its rows.

    Raises:
        InvalidRows: the file is not of its kind, or does not hold what is declared.
    """
    row_count = wanted_count = 0
    partitions: dict[str, None] = {}
    for rows in file.read(None):
        row_count += rows.num_rows
        if wanted is None:
            continue
        columns = list(wanted[0])
        wanted_count += int(pc.sum(wanted_mask(rows, file.fields, wanted)).as_py() or 0)
        if len(partitions) < _MOST_PARTITIONS:
            distinct = rows.select(columns).group_by(columns).aggregate([]).to_pylist()
            partitions |= dict.fromkeys(describe_partition(spec) for spec in distinct)
    first = tuple(partitions)[:_MOST_PARTITIONS]
    return Held(row_count=row_count, wanted_count=wanted_count, partitions=first)


def divided(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Pieces that tasks read in parallel: row groups of Parquet, and other files as wholes."""
    parts: list[SourceFile] = []
    for file in files:
        if file.source.parquet is None:
            parts.append(file)
            continue
        try:
            count = row_group_count(file.file)
        except (pa.ArrowException, OSError) as err:
            raise InvalidRows(f"{file.path} cannot be read: {err}") from err
        parts += [replace(file, row_groups=(at,)) for at in range(count)] or [file]
    return parts


def _with_kinds(rows: pa.Table, *, may_lack: bool) -> pa.Table:
    """Rows with their kinds; those that say none are new."""
    new = RowKind.INSERT.short
    if ROW_KIND_COLUMN not in rows.column_names:
        return rows.append_column(ROW_KIND_COLUMN, pa.repeat(new, rows.num_rows))
    if not may_lack:
        return rows
    at = rows.column_names.index(ROW_KIND_COLUMN)
    return rows.set_column(at, ROW_KIND_COLUMN, pc.fill_null(rows.column(at), new))


def wanted_mask(rows: pa.Table, fields: Sequence[DataField], wanted: Partitions) -> pa.Array:
    """Marks the rows of the wanted partitions; values are compared in the columns' types."""
    types = {field.name: field.type for field in fields}
    found = np.ones(rows.num_rows, dtype=bool)
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    wanted_codes = np.zeros(len(wanted), dtype=np.int64)
    for name in wanted[0]:
        data_type = types[name]
        asked = pa.array(
            [scalar_of(from_python(spec[name], data_type), data_type) for spec in wanted],
            to_arrow_type(data_type),
        )
        distinct = asked.unique()
        position = pc.fill_null(pc.index_in(rows.column(name), value_set=distinct), -1).to_numpy()
        found &= position >= 0
        codes = codes * len(distinct) + position
        wanted_codes = wanted_codes * len(distinct) + pc.index_in(asked, value_set=distinct)
    return pa.array(found & np.isin(codes, wanted_codes))
