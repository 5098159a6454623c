"""Reads rows of data files in the read schema.

1. Find the columns of a file, and nested fields, by field id in the schema it was written with.
2. Leave out rows that a deletion vector names.
3. Fill missing columns with null, and cast columns whose type changed. The table's cast mode says
   what becomes of values that do not fit (`unfit_values.py`).

Keys are read from the table's own columns: the key copies in data files are equal, and files in
thin mode have none. The batch size follows from the size of the rows in memory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NoReturn, TypeAlias, TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_mapping import LeafCast, map_column
from lakewright.storage.codec.arrow_timestamps import have_days, holds_timestamps
from lakewright.storage.codec.arrow_types import to_arrow_field, to_arrow_type
from lakewright.storage.codec.arrow_values import scalar_of
from lakewright.storage.codec.char_blanks import holds_char, without_blanks
from lakewright.storage.codec.evolved_values import evolved
from lakewright.storage.codec.fitted_values import MustNotBeNull, fitted, fitted_part, nulled_parts
from lakewright.storage.codec.mapping_proof import mapping_difference
from lakewright.storage.errors import (
    CorruptionError,
    UnfitValues,
    UnsupportedError,
    VerificationFailed,
)
from lakewright.storage.files.data_file import Reading
from lakewright.storage.files.data_files import (
    WantedPieces,
    format_of_path,
    read_pieces,
    read_rows,
    read_whole_days,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import ORIGIN, POSITION
from lakewright.storage.lsm.record_expiry import RecordExpiry
from lakewright.storage.operations.read.column_files import beside_each_other
from lakewright.storage.operations.read.row_group_filter import row_group_filter
from lakewright.storage.operations.read.row_positions import kept_positions, placed_rows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.read.unfit_values import (
    UNFIT,
    NulledValues,
    marked,
    with_marks,
    without_marks,
)
from lakewright.storage.operations.running.task_memory import BATCH_BYTES
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.spec.cast_mode import CAST_MODE, CastMode, cast_mode, combines_rows
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot, is_opaque
from lakewright.storage.spec.file_format import ORC, PARQUET
from lakewright.storage.spec.index import DeletionVectorRange
from lakewright.storage.spec.manifest import DataFileMeta, FileSource
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.row_tracking import ROW_ID_FIELD, TRACKING_FIELDS, VERSION_FIELD
from lakewright.storage.spec.schema import COUNT, KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from lakewright.storage.spec.schema_casts import casts_of
from lakewright.storage.spec.schema_mapping import CastValues, FieldMapping, SameValues
from lakewright.storage.spec.values import Value

_TRACKING = {field.id for field in TRACKING_FIELDS}
_SYSTEM_COLUMNS = {SEQUENCE_NUMBER: pa.int64(), VALUE_KIND: pa.int8(), COUNT: pa.int64()}
# A reader that stops early should not have read many more rows than this.
_MOST_BATCH_ROWS = 1 << 18
# Compressed columns usually expand to at most about this many times their size.
_UNFOLDING = 4
_MISJUDGED = 16
# For fewer rows than this, sampling costs more than a wrong estimate.
_UNWEIGHED_ROWS = 1024
# Rows are sampled in pieces until there are enough rows or enough bytes.
_WEIGHED_AT_ONCE = 128
_WEIGHED_TIMES = 4
_WEIGHED_BYTES = 1024 * 1024
# Memory of values of fixed length, and of values of variable length without a sample.
_FIXED_BYTES = 8
_LENGTHY_BYTES = 32
# What a merge needs besides the values of a row: sequence, kind, order.
_ROW_OVERHEAD_BYTES = 32
_OF_ANY_LENGTH = {TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY}

_WAY_OUT = (
    "write these rows again, alter the column to a type that holds the values, or set "
    f"{CAST_MODE}={CastMode.EXPLICIT_NULL.value} to read them as null"
)
# A row that is written again does not replace those that are combined with it.
_COMBINED_WAY_OUT = (
    f"alter the column to a type that holds the values, or set {CAST_MODE}="
    f"{CastMode.EXPLICIT.value} to read them as Java does"
)
_NULL_WAY_OUT = (
    "allow null there, write these rows again, or alter the column to a type that holds the values"
)

_Deletions: TypeAlias = tuple[tuple[str, DeletionVectorRange], ...]


class KeyValueReading(TypedDict, total=False):
    """How key-value rows are read; see `FileRows.key_value_rows`."""

    batch_rows: int | None
    placed: bool
    system: Sequence[str]
    marked: bool


class FileRows:
    """Reads data files of one table with one projection.

    With `proved` the reader compares the mapped rows with the stored values of files of other
    schemas, and raises `VerificationFailed` if they differ. With `shown` the rows are only shown: a
    value without an exact equivalent in the column's new type may change. `nulled` counts values
    that were read as null because they do not fit. With `where` the reader may leave out row groups
    that hold no row which matches; the other rows are all given, whether they match or not. Rows
    that are past by `expiry` are left out of key-value rows.
    """

    def __init__(
        self,
        files: TableFiles,
        fields: Sequence[DataField],
        *,
        proved: bool = False,
        shown: bool = False,
        nulled: NulledValues | None = None,
        where: Predicate | None = None,
        expiry: RecordExpiry | None = None,
    ) -> None:
        self.files = files
        self.fields = tuple(fields)
        self.where = where
        self.expiry = expiry
        self.proved = proved
        self.shown = shown
        self.schemas = FileSchemas(files)
        self.mode = cast_mode(files.schema, table=files.name)
        self.nulled = NulledValues() if nulled is None else nulled
        self._readings: dict[object, Reading] = {}
        # The vectors of the last split only; a split may have as many vectors as files.
        self._deletions: tuple[_Deletions, dict[str, tuple[str, DeletionVectorRange]]] = ((), {})

    def rows(
        self, split: DataSplit, file: DataFileMeta, *, batch_rows: int | None = None
    ) -> Iterator[pa.Table]:
        """The projected columns, as one table or in batches."""
        for rows in self._read(split, file, self.fields, {}, batch_rows):
            yield self.settled(rows, split)

    def batches(self, split: DataSplit, file: DataFileMeta) -> Iterator[pa.Table]:
        """The projected columns, in batches of about `BATCH_BYTES`."""
        return self.rows(split, file, batch_rows=self.batch_rows(split, file))

    def all_batches(
        self, split: DataSplit, metas: Iterable[DataFileMeta]
    ) -> Generator[pa.Table, None, None]:
        """`batches` of files in order, of which alike ones are weighed once.

        Files are alike if their rows take about as many bytes each on disk.
        """
        weighed: dict[int, int] = {}
        for file in metas:
            stored = (file.file_size // max(1, file.row_count)).bit_length()
            if stored not in weighed:
                weighed[stored] = self.batch_rows(split, file)
            yield from self.rows(split, file, batch_rows=weighed[stored])

    def key_value_rows(
        self, split: DataSplit, file: DataFileMeta, **reading: Unpack[KeyValueReading]
    ) -> Iterator[pa.Table]:
        """Key, sequence number and kind of every row, then the projected columns.

        Tables that count rows also have the count. `system` may leave out the sequence number or
        the kind. `placed` adds two columns: `_ORIGIN`, the index of the file in the split, and
        `_POSITION`, the index of the row in the file. With `marked` the marks of values that do not
        fit stay as a column, for `settled` after a merge.
        """
        batch_rows = reading.get("batch_rows")
        placed = reading.get("placed", False)
        system = reading.get("system", (SEQUENCE_NUMBER, VALUE_KIND))
        self._check_source(file)
        keys, fields = self.files.schema.key_fields, self._with_keys()
        names = [field.name for field in self.fields]
        if self.files.schema.counts_rows:
            system = (*system, COUNT)
        marks_stay = reading.get("marked", False)
        places = (ORIGIN, POSITION) if placed else ()
        places = (*places, UNFIT) if marks_stay else places
        stored = {name: _SYSTEM_COLUMNS[name] for name in system}
        for read in self._read(split, file, fields, stored, batch_rows, placed=placed):
            rows = with_marks(read) if marks_stay else self.settled(read, split)
            columns = [(f"{KEY_PREFIX}{key.name}", rows.column(key.name)) for key in keys]
            columns += [(name, rows.column(name)) for name in (*system, *names, *places)]
            made = pa.table([column for _, column in columns], [name for name, _ in columns])
            yield made if self.expiry is None else self.expiry.kept(made)

    def batch_rows(
        self, split: DataSplit, *metas: DataFileMeta, batch_bytes: int = BATCH_BYTES
    ) -> int:
        """How many rows of a split's files make a batch of about this many bytes."""
        return min(
            _MOST_BATCH_ROWS, max(1, batch_bytes // self.row_bytes(split, metas, batch_bytes))
        )

    def row_bytes(
        self,
        split: DataSplit,
        metas: Sequence[DataFileMeta],
        batch_bytes: int,
        *,
        with_keys: bool = False,
    ) -> int:
        """The estimated memory of one row, for batches of this many bytes."""
        fields = self._with_keys() if with_keys else self.fields
        rows = max(1, sum(file.row_count for file in metas))
        stored = sum(file.file_size for file in metas) // rows
        lengthy = [field for field in fields if not _is_fixed(field)]
        fixed = _FIXED_BYTES * (len(fields) - len(lengthy)) + _ROW_OVERHEAD_BYTES
        if not lengthy:
            return fixed
        guess = max(stored * _UNFOLDING, fixed + _LENGTHY_BYTES * len(lengthy))
        if rows <= _UNWEIGHED_ROWS and guess * rows * _MISJUDGED < batch_bytes:
            return guess
        # Repeated values take almost no space in a file, so the reader samples some rows.
        largest = max(metas, key=lambda file: file.file_size)
        return max(fixed + self._weigh(split, largest, lengthy), stored)

    # --- values that do not fit ---------------------------------------------------------------

    def may_mark(self, split: DataSplit) -> bool:
        """Whether rows of a split may have marks of values that do not fit."""
        return any(self._casts(file, self.fields) for file in split.files)

    def _casts(self, file: DataFileMeta, fields: Sequence[DataField]) -> bool:
        if not self.mode.checks_values or file.schema_id == self.files.schema.id:
            return False
        columns = self.schemas.mapping_of(file).columns
        return any(True for field in fields for _ in casts_of(columns[field.id]))

    def settled(self, rows: pa.Table, split: DataSplit, *, deletions: bool = True) -> pa.Table:
        """The rows without marks: values that do not fit are counted as null, or refused.

        Without `deletions` the values of rows that delete a key do not count.

        Raises:
            UnfitValues: the table's mode, or a column that is NOT NULL, refuses such a value.
        """
        if UNFIT not in rows.column_names:
            return rows
        rows, marks = without_marks(rows, deletions=deletions)
        if marks.num_rows == 0:
            return rows
        fields = {field.name: field for field in self._with_keys()}
        for path in pc.unique(marks.column("path")).to_pylist():
            there = marks.filter(pc.equal(marks.column("path"), path))
            first = there.slice(0, 1).to_pylist()[0]
            field = fields[first["column"]]
            if self._refuses(field):
                self._refuse(split, field, first)
            self.nulled.add(path, there.num_rows)
        return rows

    def _refuses(self, field: DataField) -> bool:
        required = isinstance(field.type, AtomicType) and not field.type.nullable
        return required or self.mode is CastMode.EXPLICIT_FAIL

    def _refuse(self, split: DataSplit, field: DataField, mark: dict[str, Any]) -> NoReturn:
        file, column = split.files[mark["file"]], str(mark["path"])
        # All marks of the file, whichever rows this reader was asked for.
        every = FileRows(self.files, [field])
        count = sum(
            pc.sum(pc.greater(pc.list_value_length(rows.column(UNFIT)), 0)).as_py() or 0
            for rows in every._read(split, file, [field], {}, every.batch_rows(split, file))
            if UNFIT in rows.column_names
        )
        path = self.files.readable_path(split.place, file)
        way_out = _COMBINED_WAY_OUT if combines_rows(self.files.schema) else _WAY_OUT
        if self.mode is CastMode.EXPLICIT_NULL:
            way_out = _NULL_WAY_OUT
        raise UnfitValues(
            f"column {column} of {self.files.name} is {field.type}, and {count} of the "
            f"{file.row_count} rows of data file {path} hold values there that do not fit, such as "
            f"{mark['value']}; {way_out}",
            path=path,
            column=column,
            value=mark["value"],
            rows=count,
        )

    def _with_marks(
        self,
        read: pa.Table,
        rows: pa.Table,
        asked: Sequence[FieldMapping],
        mapped: Sequence[pa.ChunkedArray],
        number: int,
    ) -> pa.Table:
        lost = [
            (column.field.name, part)
            for column, found in zip(asked, mapped, strict=True)
            if column.stored is not None and any(True for _ in casts_of(column))
            for part in nulled_parts(
                rows.column(column.stored.name), column.values, found, column.field.name
            )
        ]
        named = any(self._refuses(column.field) for column in asked)
        return marked(read, lost, number, named=named) if lost else read

    def _mapped(self, rows: pa.Table, column: FieldMapping, path: str) -> pa.ChunkedArray:
        field, stored = column.field, column.stored
        if stored is None:
            return pa.chunked_array([pa.nulls(rows.num_rows, to_arrow_type(field.type))])
        held = rows.column(stored.name)
        cast: LeafCast = partial(evolved, shown=self.shown)
        if self.mode.checks_values:
            cast = fitted if isinstance(column.values, CastValues) else fitted_part
        try:
            return map_column(held, column.values, cast)
        except MustNotBeNull as error:
            raise UnfitValues(
                f"a part of column {field.name} of {self.files.name} must not be null, and data "
                f"file {path} with {rows.num_rows} rows or more holds {error} there; "
                f"{_NULL_WAY_OUT}",
                path=path,
                column=field.name,
            ) from error
        except pa.ArrowKeyError as error:
            raise CorruptionError(
                f"column {stored.name} of data file {path} is not what its schema says: {error}",
                path=path,
            ) from error
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise UnsupportedError(
                f"column {field.name} of data file {path} holds {held.type} and cannot be read "
                f"as {field.type}: {error}"
            ) from error

    def _with_keys(self) -> tuple[DataField, ...]:
        own = {field.id for field in self.fields}
        keys = (key for key in self.files.schema.key_fields if key.id not in own)
        return (*self.fields, *keys)

    def _weigh(self, split: DataSplit, file: DataFileMeta, fields: Sequence[DataField]) -> int:
        """The memory of some columns per row, sampled from the first rows of a file."""
        count = weight = 0
        first = self._read(split, file, fields, {}, _WEIGHED_AT_ONCE)
        for rows in islice(first, _WEIGHED_TIMES):
            count, weight = count + rows.num_rows, weight + rows.nbytes
            if weight >= _WEIGHED_BYTES:
                break
        return weight // max(1, count)

    def _read(
        self,
        split: DataSplit,
        file: DataFileMeta,
        fields: Sequence[DataField],
        system: Mapping[str, pa.DataType],
        batch_rows: int | None,
        *,
        placed: bool = False,
    ) -> Iterator[pa.Table]:
        if not self.files.options.data_evolution_enabled or file.newer == ():
            return self._read_file(split, file, fields, system, batch_rows, placed=placed)
        if file.newer is None or placed:
            raise UnsupportedError(
                f"{self.files.name} sets data-evolution.enabled=true: columns of a row lie in "
                "several files, and this way of reading is not implemented for it; read the rows "
                "of a state"
            )
        return self._read_columns(split, (*file.newer, file), fields, batch_rows)

    def _read_columns(
        self,
        split: DataSplit,
        newest_first: Sequence[DataFileMeta],
        fields: Sequence[DataField],
        batch_rows: int | None,
    ) -> Iterator[pa.Table]:
        """Rows whose columns lie in several files, each column from the newest that has it."""
        oldest = newest_first[-1]
        by_file: dict[DataFileMeta, list[DataField]] = {}
        for field in fields:
            # Ids and snapshots of rows are of their newest file.
            holding = (
                each
                for each in newest_first
                if field.id in _TRACKING or self.schemas.mapping_of(each).columns[field.id].stored
            )
            file = next(holding, oldest)
            if self._casts(file, [field]):
                raise UnsupportedError(
                    f"column {field.name} of {self.files.name} has another type than in data file "
                    f"{file.file_name}, which holds it apart from other columns; reading that is "
                    "not implemented"
                )
            by_file.setdefault(file, []).append(field)
        readers = [
            self._read_file(split, file, of_file, {}, batch_rows)
            for file, of_file in by_file.items()
        ]
        names = [field.name for field in fields]
        for pieces in beside_each_other(readers):
            columns = {name: each.column(name) for each in pieces for name in each.column_names}
            yield pa.table([columns[name] for name in names], names=names)

    def _read_file(
        self,
        split: DataSplit,
        file: DataFileMeta,
        fields: Sequence[DataField],
        system: Mapping[str, pa.DataType],
        batch_rows: int | None,
        *,
        placed: bool = False,
    ) -> Iterator[pa.Table]:
        path = self.files.readable_path(split.place, file)
        mapping = self.schemas.mapping_of(file)
        asked = [mapping.columns[field.id] for field in fields]
        stored = [column.stored.name for column in asked if column.stored is not None]
        # A file without any projected column still gives its row count.
        wanted = [*system, *stored] or [self._some_column(file)]
        gone = self._deleted_positions(split, file)
        casts = self._casts(file, fields)
        arrow_fields = [pa.field(name, kind) for name, kind in system.items()]
        arrow_fields += [to_arrow_field(field).with_nullable(True) for field in fields]
        schema = pa.schema(arrow_fields)
        # The committer numbered these rows, in the metadata of their file alone.
        is_stamped = self.files.options.snapshot_ordering and file.file_source is FileSource.APPEND
        days = self._whole_days(path, wanted, file, batch_rows)
        for start, piece in self.pieces(path, wanted, file, batch_rows):
            if days is not None:
                days.prove(piece)
            positions = kept_positions(piece.num_rows, gone, start)
            kept = piece if positions is None else piece.take(pa.array(positions - start))
            held = self._with_partition(kept, asked, split, file)
            rows = self._as_written(held, asked, split, file, path)
            # Files may store the same timestamp column in different units.
            columns = [
                pa.chunked_array(
                    [pa.repeat(pa.scalar(file.min_sequence_number, kind), rows.num_rows)]
                )
                if name == SEQUENCE_NUMBER and is_stamped
                else rows.column(name).cast(kind)
                for name, kind in system.items()
            ]
            mapped = [self._mapped(rows, column, path) for column in asked]
            if self.proved and file.schema_id != self.files.schema.id:
                _prove(rows, asked, mapped, path)
            columns += self._tracked(asked, mapped, file, start, positions)
            read = pa.table(columns, schema=schema)
            if placed:
                read = placed_rows(read, split.files.index(file), start, positions)
            if casts:
                read = self._with_marks(read, rows, asked, mapped, split.files.index(file))
            yield read

    def _tracked(
        self,
        asked: Sequence[FieldMapping],
        mapped: Sequence[pa.ChunkedArray],
        file: DataFileMeta,
        start: int,
        positions: np.ndarray | None,
    ) -> Iterator[pa.ChunkedArray]:
        """The columns; ids and snapshots of rows that the file does not hold are from metadata."""
        for column, values in zip(asked, mapped, strict=True):
            if column.field.id == ROW_ID_FIELD.id and values.null_count:
                places = np.arange(start, start + len(values)) if positions is None else positions
                yield pc.coalesce(values, pa.array(places + self._first_row_id(file)))
            elif column.field.id == VERSION_FIELD.id:
                yield pc.fill_null(values, file.max_sequence_number)
            else:
                yield values

    def _first_row_id(self, file: DataFileMeta) -> int:
        if file.first_row_id is None:
            raise CorruptionError(
                f"data file {file.file_name} of {self.files.name}, which sets "
                "row-tracking.enabled=true, has rows without an id, and its metadata has none: "
                "another client rewrote it without ids; read the rows, and overwrite its partition"
            )
        return file.first_row_id

    def _with_partition(
        self, rows: pa.Table, asked: Sequence[FieldMapping], split: DataSplit, file: DataFileMeta
    ) -> pa.Table:
        """Add the partition columns that the file lacks, as Java does.

        A file that another system wrote may have its partition in its folder's name alone.
        """
        held = set(rows.column_names)
        lacking = [
            column.stored
            for column in asked
            if column.stored is not None and column.stored.name not in held
        ]
        for field in lacking:
            scalar = scalar_of(self._partition_values(split, file)[field.id], field.type)
            rows = rows.append_column(field.name, pa.repeat(scalar, rows.num_rows))
        return rows

    def _partition_values(self, split: DataSplit, file: DataFileMeta) -> dict[int, Value]:
        partition = self.files.partitions.of_row(split.partition, file.schema_id)
        pairs = zip(partition.keys.fields, partition.values, strict=True)
        return {field.id: value for field, value in pairs}

    def _as_written(
        self,
        rows: pa.Table,
        asked: Sequence[FieldMapping],
        split: DataSplit,
        file: DataFileMeta,
        path: str,
    ) -> pa.Table:
        """Strip the padding blanks of CHAR values in ORC files, as Java does.

        Partition values come from metadata, so they keep their blanks.
        """
        if format_of_path(path) != ORC:
            return rows
        parts = self._partition_values(split, file)
        for field in (column.stored for column in asked):
            if field is None or not holds_char(field.type):
                continue
            index = rows.column_names.index(field.name)
            if field.id in parts:
                values = pa.repeat(scalar_of(parts[field.id], field.type), rows.num_rows)
            else:
                values = without_blanks(rows.column(index), field.type)
            rows = rows.set_column(index, field.name, values)
        return rows

    def pieces(
        self, path: str, columns: Sequence[str], file: DataFileMeta, batch_rows: int | None
    ) -> Iterator[tuple[int, pa.Table]]:
        """Rows under the file's own column names, each piece with the index of its first row."""
        fields = self.files.schema.fields
        where = None if self.files.options.data_evolution_enabled else self.where
        chosen = row_group_filter(where, self.schemas.mapping_of(file), fields)
        if chosen is not None and format_of_path(path) in (PARQUET, ORC):
            yield from read_pieces(
                self.files.fs,
                path,
                columns,
                expected_rows=file.row_count,
                wanted=WantedPieces(list(chosen.names), chosen.may_hold, any_writer=True),
                batch_rows=batch_rows,
                may_lack=self._partition_names(file),
                reading=self.reading(file),
            )
            return
        start = 0
        for rows in read_rows(
            self.files.fs,
            path,
            columns,
            expected_rows=file.row_count,
            batch_rows=batch_rows,
            may_lack=self._partition_names(file),
            reading=self.reading(file),
        ):
            yield start, rows
            start += rows.num_rows

    def reading(self, file: DataFileMeta) -> Reading:
        """How timestamps of a file are read: in the types of its schema, where these are kept.

        Where they are not, a coarser type may hold what the file's does not.
        """
        key = (file.schema_id, file.write_cols)
        if key not in self._readings:
            types, cut = dict[str, pa.DataType](), set[str]()
            fields = self.schemas.schema_of(file).fields
            kept = {field.id for field in fields if not is_opaque(field.type)}
            for column in self.schemas.mapping_of(file).columns.values():
                stored, values = column.stored, column.values
                if is_opaque(values.read):
                    continue
                if stored is not None and not isinstance(values, SameValues):
                    kept.discard(stored.id)
                    read = to_arrow_type(values.read)
                    if pa.types.is_timestamp(read) and read.unit != "ns":
                        cut.add(stored.name)
            for field in fields:
                if field.id in kept and holds_timestamps(kind := to_arrow_type(field.type)):
                    types[field.name] = kind
            self._readings[key] = Reading(types, frozenset(cut), of_table=True)
        return self._readings[key]

    def _whole_days(
        self, path: str, columns: Sequence[str], file: DataFileMeta, batch_rows: int | None
    ) -> _WholeDays | None:
        """For a rewrite the days of timestamps that may be INT96, read apart from them."""
        fields = self.schemas.schema_of(file).fields
        may_be_int96 = any(
            holds_timestamps(to_arrow_type(field.type), unit="ns")
            for field in fields
            if not is_opaque(field.type)
        )
        if not self.proved or not may_be_int96 or format_of_path(path) != PARQUET:
            return None
        return _WholeDays(
            path, read_whole_days(self.files.fs, path, columns, batch_rows=batch_rows)
        )

    def _partition_names(self, file: DataFileMeta) -> tuple[str, ...]:
        """The partition columns that a file may lack; files with keys are always Paimon's own."""
        if self.files.schema.is_keyed:
            return ()
        keys = set(self.files.schema.partition_keys)
        return tuple(
            column.stored.name
            for column in self.schemas.mapping_of(file).columns.values()
            if column.stored is not None and column.field.name in keys
        )

    def _deleted_positions(self, split: DataSplit, file: DataFileMeta) -> np.ndarray | None:
        if not split.deletions:
            return None
        known, by_file = self._deletions
        if known is not split.deletions:
            by_file = {where.data_file: (name, where) for name, where in split.deletions}
            self._deletions = (split.deletions, by_file)
        found = by_file.get(file.file_name)
        return None if found is None else self.files.indexes.read_deletion_vector(*found)

    def _check_source(self, file: DataFileMeta) -> None:
        """Refuse a file whose metadata does not say whether its rows have numbers of snapshots."""
        if self.files.options.snapshot_ordering and file.file_source is None:
            raise UnsupportedError(
                f"{self.files.name} sets sequence.snapshot-ordering, and the metadata of its file "
                f"{file.file_name} does not say whether a compaction wrote it",
                option="sequence.snapshot-ordering",
            )

    def _some_column(self, file: DataFileMeta) -> str:
        return (file.write_cols or self.schemas.schema_of(file).field_names)[0]


class _WholeDays:
    """Proves timestamps of INT96 by their days, which cannot wrap as timestamps can."""

    def __init__(self, path: str, days: Iterator[pa.Table]) -> None:
        self._path = path
        self._days = days
        self._ahead: pa.Table | None = None

    def prove(self, rows: pa.Table) -> None:
        """Compare the next rows of the file with their days.

        Raises:
            VerificationFailed: they differ.
        """
        days = self._next(rows.num_rows)
        if days is None or not rows.num_rows:
            return
        for name in days.column_names:
            parts = (rows.column(name), days.column(name))
            if not have_days(*(pa.concat_arrays(part.chunks) for part in parts)):
                raise VerificationFailed(
                    f"a rewrite of data file {self._path} would change its values: column {name} "
                    "has timestamps of other days than the file; nothing was committed, and the "
                    "new files are deleted; report this error",
                    path=self._path,
                    column=name,
                )

    def _next(self, count: int) -> pa.Table | None:
        """The days of so many rows; None if the file has no INT96."""
        rows = self._ahead
        while rows is None or rows.num_rows < count:
            more = next(self._days, None)
            if more is None:
                break
            rows = more if rows is None else pa.concat_tables([rows, more])
        if rows is None:
            return None
        self._ahead = rows.slice(count)
        return rows.slice(0, count)


def _prove(
    rows: pa.Table, asked: Sequence[FieldMapping], mapped: Sequence[pa.ChunkedArray], path: str
) -> None:
    for column, found in zip(asked, mapped, strict=True):
        if column.stored is None:
            continue
        held = rows.column(column.stored.name)
        difference = mapping_difference(held, column.stored, found, column.field)
        if difference is not None:
            raise VerificationFailed(
                f"a rewrite of data file {path} would change its values: {difference}; nothing "
                "was committed, and the new files are deleted; report this error",
                path=path,
                column=column.field.name,
            )


def _is_fixed(field: DataField) -> bool:
    return isinstance(field.type, AtomicType) and field.type.root not in _OF_ANY_LENGTH
