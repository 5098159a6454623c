"""One file as rows of the declared types.

The declaration decides the types, not the file's content: the text of a CSV is parsed as the
declared type, and numbers of another width are cast if the cast is lossless. One function reads a
file in this process and in Spark's tasks, so that both engines see the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.arrow_values import scalar_of, value_of
from lakewright.storage.codec.conform import (
    Units,
    ValueForm,
    conform,
    number_fields,
    said_of_moments,
)
from lakewright.storage.codec.default_values import default_value
from lakewright.storage.errors import (
    CorruptionError,
    InvalidRows,
    StorageError,
    UnfitValues,
    UnsupportedError,
)
from lakewright.storage.file_reader.bad_rows import (
    BadRow,
    BadRows,
    RowForm,
    column_of,
    fitting,
    reason_of,
)
from lakewright.storage.file_reader.csv_rows import RaggedRow
from lakewright.storage.file_reader.file_columns import (
    FileColumns,
    check_file_columns,
    ragged_row,
)
from lakewright.storage.file_reader.file_form import CSV, JSON, PARQUET, FileForm
from lakewright.storage.file_reader.location import FoundFile
from lakewright.storage.file_reader.pieces import (
    Piece,
    UnreadRows,
    other_format,
    pieces,
    row_group_count,
)
from lakewright.storage.spec.data_types import STRING, AtomicType, DataField, TypeRoot, not_null
from lakewright.storage.spec.partition_words import describe_partition
from lakewright.storage.spec.rows import ROW_KIND_COLUMN, RowKind
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import from_python, same_value, to_python

# How many partitions a message names.
_MOST_PARTITIONS = 5
# How many files are asked whether they have the unknown columns of one of them.
_MOST_ASKED = 100
# How many names stand in a message.
_MOST_NAMED = 5
# Tables with this option take the kinds of rows from a column of their own.
_KIND_OPTION = "rowkind.field"
Partitions = tuple[Mapping[str, object], ...]


@dataclass(frozen=True, kw_only=True)
class FileReader:
    """One file or some of its row groups, with the form it is read by; pickles for Spark's tasks.

    `fields` are the columns to read, with those of its path; of a file that does not name its
    columns, all that it holds, in their order. Without fields, rows have one column of nulls. Like
    `partition_keys`, no file may lack a column of `needed`.
    """

    file: FoundFile
    form: FileForm
    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    units: Units = field(default_factory=dict)
    row_groups: tuple[int, ...] | None = None

    @property
    def path(self) -> str:
        return self.file.shown

    def read(
        self, wanted: Partitions | None = None, bad: BadRows | None = None
    ) -> Iterator[pa.Table]:
        """Rows of the wanted partitions, None for all, in the declared types.

        Without `bad` the first row that does not fit ends it; else `bad` gets them.

        Raises:
            InvalidRows: the file is not of its format, or does not hold what is declared.
        """
        seen: dict[str, None] = {}
        rejecting = None if bad is None else _Rejecting(self, wanted, bad)
        with self._errors_named():
            unread = self._unread() if rejecting is None else rejecting.unread
            for piece in pieces(self.file, self.form, self._read_as, self.row_groups, unread):
                seen |= dict.fromkeys(piece.column_names)
                check_file_columns(piece.column_names, self._columns)
                if rejecting is None:
                    typed = self.fitted(piece, 0, piece.row_count)
                else:
                    typed = rejecting.fitting(piece)
                yield self.wanted_of(typed, wanted)
            self._columns.check_seen(tuple(seen))

    def pieces(self, *, passes_bad: bool = False) -> Iterator[Piece]:
        """The file as it is; what is no row is an error, unless it is passed over.

        Raises:
            InvalidRows: the file is not of its format.
        """
        unread = UnreadRows(_pass_line, _pass_ragged) if passes_bad else self._unread()
        with self._errors_named():
            yield from pieces(self.file, self.form, self._read_as, self.row_groups, unread)

    def _unread(self) -> UnreadRows:
        if self.form.skips_broken:
            return UnreadRows(_pass_line, _pass_ragged)
        return UnreadRows(_refuse_line, self._refuse_ragged)

    def _refuse_ragged(self, found: RaggedRow) -> None:
        raise ragged_row(
            found.row.text,
            (found.columns, len(found.row.values)),
            found.number,
            path=self.path,
            form=self.form,
            declared=len(self._columns.declared) - len(self._columns.told),
        )

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Errors of reading as errors that say what to do."""
        try:
            yield
        except InvalidRows as err:
            raise said_of_moments(err, self.fields, self.units) from err.__cause__
        except (CorruptionError, UnfitValues, UnsupportedError) as err:
            where = "" if self.path in err.message else f"{self.path}: "
            raise InvalidRows(f"{where}{err.message}{self._hint(err)}") from err
        except (pa.ArrowException, OSError, UnicodeError) as err:
            raise InvalidRows(f"{self.path} cannot be read: {err}{self._hint(err)}") from err

    def fitted(self, piece: Piece, start: int, length: int) -> pa.Table:
        """Some rows of a piece, in the declared types."""
        if not self.fields:
            # A table without columns would lose the number of its rows.
            return pa.table([pa.nulls(length)], names=[""])
        names = [each.name for each in self.fields]
        said = dict(self.file.values)
        asked = [each for each in self._read_as if each.name not in said]
        asked += [
            each for each in self._read_as if each.name in said and each.name in piece.column_names
        ]
        made = piece.read(start, length, asked)
        rows = made.select([name for name in made.column_names if name in names])
        rows = self._with_columns_of_path(rows, made.num_rows)
        if self._columns.has_kinds:
            rows = _with_kinds(rows, may_lack=self._columns.may_lack)
        if self._columns.may_lack and not self.form.fills_missing:
            for each in self.fields:
                if each.name not in rows.column_names:
                    nulls = pa.nulls(made.num_rows, to_arrow_type(each.type))
                    rows = _appended(rows, each.name, nulls)
        if self.form.fills_missing:
            rows = self._with_missing(rows, made.num_rows)
        return conform(
            rows,
            self.fields,
            table=self.path,
            form=self._text_form if piece.is_text else self._typed_form,
            first_row=piece.first_row + start,
        )

    def _with_missing(self, rows: pa.Table, count: int) -> pa.Table:
        """Rows with the columns that they lack: null, or the default where null is refused.

        A default takes the place of other nulls when the rows are written.
        """
        for each in self.fields:
            is_filled = not each.type.nullable and each.default_value is not None
            if each.name not in rows.column_names:
                kind = to_arrow_type(each.type)
                filling = default_value(each, self.path) if is_filled else pa.scalar(None, kind)
                rows = _appended(rows, each.name, pa.repeat(filling, count))
            elif is_filled and self.form.format == JSON:
                # A member that some rows lack is a null of theirs.
                at = rows.column_names.index(each.name)
                column = rows.column(at)
                if column.null_count and column.type == to_arrow_type(each.type):
                    filled = column.fill_null(default_value(each, self.path))
                    rows = rows.set_column(at, each.name, filled)
        return rows

    def wanted_of(self, typed: pa.Table, wanted: Partitions | None) -> pa.Table:
        """The rows of the wanted partitions."""
        return typed if wanted is None else typed.filter(wanted_mask(typed, self.fields, wanted))

    @cached_property
    def _typed_form(self) -> ValueForm:
        """The form of typed values; the day of local times may name a partition."""
        days = (
            each.name
            for each in self.fields
            if each.name in self.partition_keys
            and isinstance(each.type, AtomicType)
            and each.type.root is TypeRoot.DATE
        )
        return ValueForm(units=self.units, days=frozenset(days))

    @cached_property
    def _text_form(self) -> ValueForm:
        return replace(self._typed_form, texts=self.form.texts)

    @cached_property
    def _columns(self) -> FileColumns:
        names = tuple(each.name for each in self.fields)
        return FileColumns(
            path=self.path,
            form=self.form,
            fields=tuple(each for each in self.fields if each.name != ROW_KIND_COLUMN),
            told=tuple(name for name, _ in self.file.values),
            has_kinds=ROW_KIND_COLUMN in names,
            needed=(*self.partition_keys, *self.needed),
        )

    def unknown_columns(self) -> tuple[str, ...]:
        """The columns at the beginning of the file that the table has not."""
        declared = {each.name for each in self.fields}
        with suppress(StorageError, pa.ArrowException, OSError, UnicodeError):
            for piece in self.pieces():
                return tuple(name for name in piece.column_names if name not in declared)
        return ()

    @property
    def _read_as(self) -> tuple[DataField, ...]:
        return number_fields(self.fields, self.units)

    def _with_columns_of_path(self, rows: pa.Table, count: int) -> pa.Table:
        """Rows with the columns that the path says; a file that has them must agree."""
        fields = {each.name: each for each in self.fields}
        for name, value in self.file.values:
            if name not in fields:
                continue
            declared = fields[name]
            if name not in rows.column_names:
                repeated = pa.repeat(scalar_of(value, declared.type), count)
                rows = _appended(rows, name, repeated)
                continue
            form = self._text_form if self.form.format == CSV else self._typed_form
            column = conform(rows.select([name]), [declared], table=self.path, form=form)
            for scalar in column.column(name).unique():
                other = value_of(scalar, declared.type)
                if not same_value(other, value):
                    raise InvalidRows(
                        f"{self.path}: the path tells that {name} is "
                        f"{to_python(value, declared.type)}, and a row holds "
                        f"{to_python(other, declared.type)}; move the row, or leave the column out "
                        "of the file; nothing was written",
                        column=name,
                    )
        return rows

    def _hint(self, err: Exception) -> str:
        with suppress(StorageError, OSError):
            other = other_format(self.file, self.form.format)
            if other:
                return other
        if "UTF8" in str(err) or isinstance(err, UnicodeError):
            return "; give its encoding, such as `encoding: latin-1`"
        return ""


def _appended(rows: pa.Table, name: str, column: pa.Array) -> pa.Table:
    # A table without columns has no rows.
    return rows.append_column(name, column) if rows.column_names else pa.table({name: column})


def _refuse_line(_line: int, _text: str, error: InvalidRows) -> NoReturn:
    raise error


def _pass_line(_line: int, _text: str, _error: InvalidRows) -> None:
    """Pass over what is no row."""


def _pass_ragged(_: RaggedRow) -> None:
    """Pass over what is no row."""


class _Rejecting:
    """Leaves out the rows of one file that do not fit, and keeps them as the file has them."""

    def __init__(self, file: FileReader, wanted: Partitions | None, bad: BadRows) -> None:
        self._file, self._wanted, self._bad = file, wanted, bad
        keys = tuple(each for each in file.fields if each.name in file.partition_keys)
        self._keys = replace(file, fields=keys)
        types = {key.name: key.type for key in keys}
        said = {
            name: to_python(value, types[name]) for name, value in file.file.values if name in types
        }
        self._told = {name: None if each is None else str(each) for name, each in said.items()}
        # That of every row, if the path says it.
        self._partition = describe_partition(said) if said.keys() >= types.keys() > set() else None
        passes = file.form.skips_broken
        self.unread = UnreadRows(
            _pass_line if passes else self._keep_line, _pass_ragged if passes else self._keep_ragged
        )
        self._header: tuple[str, ...] | None = None
        bad.begin(file.path)

    def fitting(self, piece: Piece) -> pa.Table:
        """The rows of a piece that fit."""
        if self._file.form.format == CSV:
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
        # Counted first: too many end the run before texts are looked for.
        self._bad.count_one(reason_of(error), partition)
        if self._bad.keeps:
            line, text, form = piece.original(at, self._file.fields)
            self._keep(error, line, text, partition, form=form)

    def _keep_line(self, line: int, text: str, error: InvalidRows) -> None:
        """Keep a line of JSON that is no object."""
        self._bad.count_one(reason_of(error), self._partition)
        self._keep(error, line, text, self._partition)

    def _keep_ragged(self, found: RaggedRow) -> None:
        row = found.row
        why = f"the row has {len(row.values)} values, and the file {found.columns} columns"
        error = InvalidRows(f"{self._file.path}: {why}")
        self._bad.count_one(reason_of(error), self._partition)
        self._keep(error, row.line, row.text, self._partition)

    def _keep(
        self,
        error: InvalidRows,
        line: int | None,
        text: str,
        partition: str | None,
        *,
        form: RowForm = RowForm.ORIGINAL,
    ) -> None:
        said = said_of_moments(error, self._file.fields, self._file.units)
        self._bad.keep(
            BadRow(
                source=self._file.path,
                line=line,
                text=text,
                reason=reason_of(said),
                column=column_of(error),
                header=self._header,
                form=form,
                told=self._told,
                partition=partition,
            )
        )


def fields_with_kinds(schema: TableSchema) -> tuple[DataField, ...]:
    """The columns that files have, with that of the kinds of rows if the table takes them."""
    if not schema.is_keyed or _KIND_OPTION in schema.options:
        return schema.fields
    return (*schema.fields, DataField(-1, ROW_KIND_COLUMN, not_null(STRING)))


def _nothing_left_out(_: FileReader, __: InvalidRows) -> bool:
    return False


def read_in_turn(
    files: Sequence[FileReader],
    wanted: Partitions | None,
    bad: BadRows | None = None,
    leaves_out: Callable[[FileReader, InvalidRows], bool] = _nothing_left_out,
) -> Iterator[pa.Table]:
    """The rows of files, one piece after the other.

    `leaves_out` is asked about a file that cannot be read, of which pieces may have been read
    before; if it says so, the others are read without it.

    Raises:
        InvalidRows: as `FileReader.read`; if a file has unknown columns, it names the others too.
    """
    for file in files:
        try:
            yield from file.read(wanted, bad)
        except InvalidRows as err:
            if leaves_out(file, err):
                continue
            unknown = err.details.get("unknown")
            if not unknown:
                raise
            others = [each for each in files if each is not file][:_MOST_ASKED]
            alike = [each.path for each in others if each.unknown_columns()]
            if not alike:
                raise
            asked = "other" if len(others) == len(files) - 1 else "asked other"
            more = f" and {len(alike) - _MOST_NAMED} more" if len(alike) > _MOST_NAMED else ""
            raise InvalidRows(
                f"{err.message}; so have {len(alike)} of the {len(others)} {asked} files: "
                f"{', '.join(alike[:_MOST_NAMED])}{more}",
                **err.details,
            ) from err


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """The rows of a file, those of wanted partitions, and some partitions that it has."""

    row_count: int
    wanted_count: int
    partitions: tuple[str, ...]


def count_file(file: FileReader, wanted: Partitions | None) -> FileCounts:
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
    return FileCounts(row_count=row_count, wanted_count=wanted_count, partitions=first)


def divided(files: Sequence[FileReader]) -> list[FileReader]:
    """Pieces that tasks read in parallel: row groups of Parquet, and other files as wholes."""
    parts: list[FileReader] = []
    for file in files:
        if file.form.format != PARQUET:
            parts.append(file)
            continue
        try:
            count = row_group_count(file.file)
        except CorruptionError as err:
            raise InvalidRows(f"{file.path} cannot be read: {err.message}") from err
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
    types = {each.name: each.type for each in fields}
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
