"""Writers of data files: rows of one bucket become files of about the target size.

An append writer passes rows on in their order. A key-value writer merges the rows
of each key by the table's engine, in key order, as the format wants every file to
hold; it keeps what it was given as changelog files where the table asks for that.
A postponing writer passes rows on too, for the compaction that gives them a bucket.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_field, to_arrow_schema
from lakewright.storage.codec.arrow_values import value_of
from lakewright.storage.codec.binary_row import encode_row
from lakewright.storage.codec.column_stats import FULL, StatsCollector
from lakewright.storage.errors import StorageError
from lakewright.storage.files.data_files import open_data_file_writer
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.checksum import Checksum
from lakewright.storage.lsm.merge import merged_pieces, retracting, sorted_groups
from lakewright.storage.lsm.merge_engines import merge_function
from lakewright.storage.operations.read.blank_keys import refuse_blank_keys_in_orc
from lakewright.storage.operations.read.merge_read import row_order
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.task_memory import ROW_GROUP_BYTES
from lakewright.storage.spec.file_format import ORC, FileEncoding
from lakewright.storage.spec.manifest import EMPTY_ROW, EMPTY_STATS, DataFileMeta, FileSource
from lakewright.storage.spec.options import ChangelogProducer
from lakewright.storage.spec.partition import escape_path
from lakewright.storage.spec.schema import COUNT, KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND

# Field ids of the columns that key-value files have besides the table's (Paimon SpecialFields).
_KEY_FIELD_ID_START = 2**30 - 1
_SEQUENCE_FIELD_ID = 2**31 - 1 - 1
_KIND_FIELD_ID = 2**31 - 1 - 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTarget:
    """Where rows go, and what the files made of them say."""

    partition: bytes
    bucket: int
    next_sequence: int = 0
    level: int = 0
    source: FileSource = FileSource.APPEND
    # Changelog files hold what happened to keys, each as often as it happened.
    changelog: bool = False
    # What file names begin with, where it is not what the table's options say.
    name_prefix: str | None = None


class RollingWriter:
    """Writes rows into files of a bucket, a new one when the target size is reached.

    A `witness` is given all rows as they go into a file, in its columns and types.
    """

    def __init__(
        self,
        files: TableFiles,
        target: BucketTarget,
        *,
        write_id: str,
        witness: Checksum | None = None,
    ) -> None:
        self.files = files
        self.target = target
        self.witness = witness
        self.done: list[DataFileMeta] = []
        self._write_id = write_id
        self._numbers = count()
        self._folder = files.bucket_dir(target.partition, target.bucket)
        self._schema = file_schema(files)
        self._keyed = files.schema.is_keyed
        self._current: _OpenFile | None = None
        self._current_path: str | None = None
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self._sequence = target.next_sequence

    def write(self, rows: pa.Table) -> None:
        """Append rows in the columns of `file_schema`, key-value ones in key order."""
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= min(ROW_GROUP_BYTES, self.files.options.target_file_size):
            self.flush()

    @property
    def buffered_bytes(self) -> int:
        """Memory taken by rows that have not reached a file yet."""
        return self._pending_bytes

    @property
    def open_file_bytes(self) -> int | None:
        """The bytes so far of the file that is open for more rows; None if none is."""
        return None if self._current is None else self._current.writer.written_bytes

    def end_file(self) -> None:
        """Write what is buffered and finish the file, so that later rows begin another."""
        self.flush()
        self._finish_file()

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish; the files written, in order."""
        self.end_file()
        return tuple(self.done)

    def abandon(self) -> None:
        """Delete what was written."""
        if self._current is not None:
            with suppress(StorageError, OSError):
                self._current.writer.abandon()
        if self._current_path is not None:
            discard_files(self.files.fs, [self._current_path])
        discard_files(self.files.fs, [f"{self._folder}/{file.file_name}" for file in self.done])

    def flush(self) -> None:
        """Hand buffered rows to the file."""
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending).cast(self._schema)
        self._pending, self._pending_bytes = [], 0
        # Uncompressed bytes overstate a file, so slices of the target size roll in time.
        per_row = max(1, rows.nbytes // max(1, rows.num_rows))
        step = max(1, self.files.options.target_file_size // per_row)
        for start in range(0, rows.num_rows, step):
            self._write_slice(rows.slice(start, step))

    def _write_slice(self, rows: pa.Table) -> None:
        if self._current is None:
            options = self.files.options
            prefix = (
                options.changelog_file_prefix if self.target.changelog else options.data_file_prefix
            )
            prefix = self.target.name_prefix or prefix
            name = f"{prefix}{self._write_id}-{next(self._numbers)}"
            encoding = options.file_encoding(self.target.level, changelog=self.target.changelog)
            # Known before there is a file, which may be there though opening it failed.
            self._current_path = f"{self._folder}/{name}{encoding.suffix}"
            self._current = _OpenFile(self.files, self._current_path, encoding, self.witness)
        if self._current.encoding.format == ORC:
            # Rows that come from files may have such keys though the table's formats let none in.
            refuse_blank_keys_in_orc(rows, self.files)
        self._current.write(rows)
        if self._current.writer.written_bytes >= self.files.options.target_file_size:
            self._finish_file()

    def _finish_file(self) -> None:
        if self._current is None:
            return
        current = self._current
        row_count = current.writer.row_count
        if self._keyed:
            low, high = current.min_sequence, current.max_sequence
        else:
            low, high = self._sequence, self._sequence + row_count - 1
            self._sequence += row_count
        # A file that cannot be finished is still the current one, which `abandon` deletes.
        self.done.append(current.finish(self.target, low, high))
        self._current = self._current_path = None


class _OpenFile:
    """A file being written, with what its metadata will say."""

    def __init__(
        self, files: TableFiles, path: str, encoding: FileEncoding, witness: Checksum | None
    ) -> None:
        self._files = files
        self.encoding = encoding
        self._witness = witness
        self._options = files.options
        self._keyed = files.schema.is_keyed
        self._stored = stored_schema(files)
        self.writer = open_data_file_writer(files.fs, path, self._stored, files.options, encoding)
        modes = self._options.column_stats_modes
        self._values = StatsCollector(
            files.schema.fields, mode=self._options.stats_mode, column_modes=modes
        )
        self._keys = StatsCollector(files.schema.key_fields, mode=FULL, column_modes={})
        self._key_names = [f"{KEY_PREFIX}{field.name}" for field in files.schema.key_fields]
        self._first_key: bytes | None = None
        self._last_key = EMPTY_ROW
        self.min_sequence = 2**63 - 1
        self.max_sequence = -1
        self._delete_count = 0

    def write(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        stored = rows.select(self._stored.names)
        if self._witness is not None:
            self._witness.add(stored)
        self.writer.write(stored)
        self._values.add(rows)
        if not self._keyed:
            return
        self._keys.add(rows.select([field.name for field in self._files.schema.key_fields]))
        if self._first_key is None:
            self._first_key = self._key_at(rows, 0)
        self._last_key = self._key_at(rows, rows.num_rows - 1)
        sequence = rows.column(SEQUENCE_NUMBER).to_numpy()
        self.min_sequence = min(self.min_sequence, int(sequence.min()))
        self.max_sequence = max(self.max_sequence, int(sequence.max()))
        self._delete_count += int(np.count_nonzero(retracting(rows)))

    def _key_at(self, rows: pa.Table, index: int) -> bytes:
        fields = self._files.schema.key_fields
        values = [
            value_of(rows.column(name)[index], field.type)
            for name, field in zip(self._key_names, fields, strict=True)
        ]
        return encode_row(values, [field.type for field in fields])

    def finish(self, target: BucketTarget, min_sequence: int, max_sequence: int) -> DataFileMeta:
        size = self.writer.close()
        stats, covered = self._values.result()
        return DataFileMeta(
            file_name=self.writer.path.rsplit("/", 1)[-1],
            file_size=size,
            row_count=self.writer.row_count,
            min_key=self._first_key or EMPTY_ROW,
            max_key=self._last_key,
            key_stats=self._keys.result()[0] if self._keyed else EMPTY_STATS,
            value_stats=stats,
            value_stats_cols=covered,
            min_sequence_number=min_sequence,
            max_sequence_number=max_sequence,
            schema_id=self._files.schema.id,
            level=target.level,
            creation_time=self._files.env.now_ms(),
            delete_row_count=self._delete_count,
            file_source=target.source,
        )


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """What the rows of one bucket became."""

    data: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...] = ()


# Somebody who is shown rows.
ShowRows = Callable[[pa.Table], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRows:
    """Who is shown the rows of a bucket and its changelog: as merging gave them, and as written."""

    merged: ShowRows | None = None
    written: Checksum | None = None
    changes: ShowRows | None = None
    changes_written: Checksum | None = None


class BucketWriter:
    """Takes rows of one bucket in the order they came, and makes data files of them.

    Rows are of the table's columns, with `_VALUE_KIND` as int8 besides for
    primary-key tables. Rows with one key become one row, as the table's merge engine
    has it: each `flush` sorts what it holds into files of their own, numbered on from
    the one before. `tells_changes` False leaves changelog files out, whatever the table asks
    for: an overwrite tells none. `rows_due` and `changes_due` count what merging gave, whatever
    became of it in the files; who wants more of a proof than that says what is `shown`.
    """

    def __init__(
        self,
        files: TableFiles,
        target: BucketTarget,
        *,
        write_id: str,
        tells_changes: bool = True,
        shown: ShownRows | None = None,
    ) -> None:
        self._files = files
        self._keyed = files.schema.is_keyed
        self._shown = shown or ShownRows()
        self._rolling = RollingWriter(files, target, write_id=write_id, witness=self._shown.written)
        self._changelog: RollingWriter | None = None
        keeps_input = files.options.changelog_producer is ChangelogProducer.INPUT
        if self._keyed and keeps_input and tells_changes:
            told = replace(target, changelog=True)
            self._changelog = RollingWriter(
                files, told, write_id=write_id, witness=self._shown.changes_written
            )
        # The copies that files hold of keys are no columns of their own while rows are merged;
        # the counts of rows are what is merged.
        self._counts = files.schema.counts_rows
        order = row_order(files)
        self._order = order if self._counts else replace(order, keys=files.schema.key_names)
        self._function = merge_function(files.merge_spec, files.schema.fields)
        self._rows: list[pa.Table] = []
        self._rows_bytes = 0
        self._next_sequence = target.next_sequence
        self.rows_due = 0
        self.changes_due = 0

    @property
    def buffered_bytes(self) -> int:
        """Memory taken by rows that have not reached a file yet."""
        return self._rows_bytes + self._rolling.buffered_bytes

    @property
    def open_file_bytes(self) -> int | None:
        """The bytes so far of the file that is open for more rows; None if none is."""
        return self._rolling.open_file_bytes

    def write(self, rows: pa.Table) -> None:
        if self._keyed:
            self._rows.append(rows)
            self._rows_bytes += rows.nbytes
        else:
            self._rolling.write(rows)

    def flush(self) -> None:
        """Free the memory.

        Raises:
            InvalidRows: rows that the table's merge engine can make nothing of.
        """
        if not self._rows:
            self._rolling.flush()
            return
        if self._changelog is None:
            for merged in merged_pieces(
                self._numbered_rows(), self._order, self._function, piece_bytes=ROW_GROUP_BYTES
            ):
                self._write(merged)
        else:
            groups = sorted_groups(self._numbered_rows(), self._order)
            self.changes_due += groups.rows.num_rows
            changes = self._with_keys(groups.rows)
            if self._shown.changes is not None:
                self._shown.changes(changes)
            self._changelog.write(changes)
            self._changelog.end_file()
            self._write(self._function.merge(groups))
        self._rolling.end_file()

    def end_file(self) -> None:
        """Free the memory, and finish the file that is open."""
        self.flush()
        self._rolling.end_file()

    def _write(self, merged: pa.Table) -> None:
        self.rows_due += merged.num_rows
        rows = self._with_keys(merged)
        if self._shown.merged is not None:
            self._shown.merged(rows)
        self._rolling.write(rows)

    def close(self) -> WrittenFiles:
        """The files written, none if there were no rows; on failure nothing is left behind."""
        try:
            self.flush()
            changelog = () if self._changelog is None else self._changelog.close()
            return WrittenFiles(self._rolling.close(), changelog)
        except (StorageError, pa.ArrowException):
            self.abandon()
            raise

    def abandon(self) -> None:
        """Delete what was written."""
        self._rolling.abandon()
        if self._changelog is not None:
            self._changelog.abandon()

    def _numbered_rows(self) -> pa.Table:
        rows = pa.concat_tables(self._rows)
        self._rows, self._rows_bytes = [], 0
        first = self._next_sequence
        self._next_sequence += rows.num_rows
        sequence = pa.array(np.arange(first, self._next_sequence, dtype=np.int64))
        if self._counts:
            return key_value_table(self._files, rows, sequence)
        return rows.append_column(SEQUENCE_NUMBER, sequence)

    def _with_keys(self, rows: pa.Table) -> pa.Table:
        if self._counts:
            return rows
        return key_value_table(self._files, rows, rows.column(SEQUENCE_NUMBER))


class PostponedWriter:
    """Takes rows that get their bucket later, and keeps them as they came.

    Nothing is merged and nothing sorted. Files of one writer share the beginning of their
    names, by which a compaction finds the order of their rows.
    """

    def __init__(
        self, files: TableFiles, target: BucketTarget, *, commit_user: str, write_id: str
    ) -> None:
        self._files = files
        # A number of the writer among others of its commit, as the format's own writers have it.
        number = zlib.crc32(write_id.encode()) & 0x7FFFFFFF
        user = escape_path(commit_user)
        prefix = f"{files.options.data_file_prefix}-u-{user}-s-{number}-w-"
        self._rolling = RollingWriter(files, replace(target, name_prefix=prefix), write_id=write_id)
        self._next_sequence = 0

    @property
    def buffered_bytes(self) -> int:
        """Memory taken by rows that have not reached a file yet."""
        return self._rolling.buffered_bytes

    @property
    def open_file_bytes(self) -> int | None:
        """The bytes so far of the file that is open for more rows; None if none is."""
        return self._rolling.open_file_bytes

    def write(self, rows: pa.Table) -> None:
        first = self._next_sequence
        self._next_sequence += rows.num_rows
        sequence = np.arange(first, self._next_sequence, dtype=np.int64)
        self._rolling.write(key_value_table(self._files, rows, pa.array(sequence)))

    def flush(self) -> None:
        """Free the memory."""
        self._rolling.flush()

    def end_file(self) -> None:
        """Free the memory, and finish the file that is open."""
        self._rolling.end_file()

    def close(self) -> WrittenFiles:
        """The files written, none if there were no rows; on failure nothing is left behind."""
        try:
            return WrittenFiles(self._rolling.close())
        except (StorageError, pa.ArrowException):
            self.abandon()
            raise

    def abandon(self) -> None:
        """Delete what was written."""
        self._rolling.abandon()


def file_schema(files: TableFiles) -> pa.Schema:
    """Columns of the table's data files, in order."""
    own = to_arrow_schema(files.schema.fields)
    if not files.schema.is_keyed:
        return own
    keys = []
    for field in files.schema.key_fields:
        arrow = to_arrow_field(field)
        number = str(_KEY_FIELD_ID_START + field.id).encode()
        keys.append(
            arrow.with_name(f"{KEY_PREFIX}{field.name}").with_metadata(
                {b"PARQUET:field_id": number}
            )
        )
    system = [
        _system_field(SEQUENCE_NUMBER, pa.int64(), _SEQUENCE_FIELD_ID),
        _system_field(VALUE_KIND, pa.int8(), _KIND_FIELD_ID),
    ]
    if files.schema.counts_rows:
        system.append(pa.field(COUNT, pa.int64(), nullable=False))
    return pa.schema([*keys, *system, *own])


def stored_schema(files: TableFiles) -> pa.Schema:
    """Columns that the data files get: of thin files, without the copies of the keys."""
    columns = file_schema(files)
    if not files.options.data_file_thin_mode:
        return columns
    return pa.schema([each for each in columns if not each.name.startswith(KEY_PREFIX)])


def _system_field(name: str, arrow_type: pa.DataType, number: int) -> pa.Field:
    return pa.field(
        name, arrow_type, nullable=False, metadata={b"PARQUET:field_id": str(number).encode()}
    )


def key_value_table(files: TableFiles, rows: pa.Table, sequence: pa.Array) -> pa.Table:
    """Rows of a primary-key table as its data files hold them."""
    columns: list[object] = [rows.column(name) for name in files.schema.key_names]
    if files.schema.counts_rows:
        # Taking a row back is counting it once less, so no row says that its key is gone.
        counts = np.where(retracting(rows), -1, 1)
        columns += [sequence, pa.array(np.zeros(rows.num_rows, dtype=np.int8)), pa.array(counts)]
    else:
        columns += [sequence, rows.column(VALUE_KIND)]
    columns += [rows.column(name) for name in files.schema.field_names]
    return pa.table(columns, schema=file_schema(files))
