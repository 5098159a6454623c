"""Writes rows to a sequence of files, each of about the target size."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_values import value_of
from lakewright.storage.codec.binary_row import encode_row
from lakewright.storage.codec.column_stats import FULL, StatsCollector
from lakewright.storage.errors import CorruptionError, StorageError
from lakewright.storage.files.data_file import DataFileWriter
from lakewright.storage.files.data_files import open_data_file_writer
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.checksum import Checksum
from lakewright.storage.lsm.merge import retracting
from lakewright.storage.operations.read.blank_keys import refuse_blank_keys_in_orc
from lakewright.storage.operations.running.delete_files import discard_files
from lakewright.storage.operations.running.task_memory import ROW_GROUP_BYTES
from lakewright.storage.operations.write.stored_rows import file_schema, stored_schema
from lakewright.storage.spec.file_format import ORC, FileEncoding
from lakewright.storage.spec.manifest import EMPTY_ROW, EMPTY_STATS, DataFileMeta, FileSource
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.row_tracking import UNKNOWN_VERSION, holds_row_ids
from lakewright.storage.spec.schema import KEY_PREFIX, SEQUENCE_NUMBER


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTarget:
    """The bucket of new files, and the values for their metadata."""

    partition: bytes
    bucket: int
    next_sequence: int = 0
    level: int = 0
    source: FileSource = FileSource.APPEND
    # Changelog files hold every change of a key.
    changelog: bool = False
    # The prefix of file names, if it differs from the table's option.
    name_prefix: str | None = None

    @property
    def place(self) -> Place:
        """Partition and bucket."""
        return Place(self.partition, self.bucket)


class RollingWriter:
    """Writes rows to files of a bucket; begins a new file at the target size.

    A `witness` receives all rows as they enter a file, in its columns and types. A writer that is
    told the number of its rows leaves no small file at their end: the last file takes the rest, or
    half of what two files get.
    """

    def __init__(
        self,
        files: TableFiles,
        target: BucketTarget,
        *,
        write_id: str,
        witness: Checksum | None = None,
        rows_due: int | None = None,
    ) -> None:
        self.files = files
        self.target = target
        self.witness = witness
        self.done: list[DataFileMeta] = []
        self._write_id = write_id
        self._numbers = count()
        self._folder = files.bucket_dir(target.place)
        self._schema = file_schema(files)
        self._keyed = files.schema.is_keyed
        self._current: _OpenFile | None = None
        self._current_path: str | None = None
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self._sequence = target.next_sequence
        self._rows_left = rows_due

    def write(self, rows: pa.Table) -> None:
        """Append rows in the columns of `file_schema`; key-value rows must be in key order."""
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        if self._pending_bytes >= min(ROW_GROUP_BYTES, self.files.options.target_file_size):
            self.flush()

    @property
    def buffered_bytes(self) -> int:
        """The memory of rows that are not in a file yet."""
        return self._pending_bytes

    @property
    def open_file_bytes(self) -> int | None:
        """The bytes in the open file; None if no file is open."""
        return None if self._current is None else self._current.writer.written_bytes

    def end_file(self) -> None:
        """Write the buffered rows and finish the file; later rows begin a new file."""
        self.flush()
        self._finish_file()

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish; returns the files written, in order."""
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
        """Write the buffered rows to the file."""
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending)
        self._check_nulls(rows)
        rows = rows.cast(self._schema)
        self._pending, self._pending_bytes = [], 0
        # Uncompressed bytes overstate the file size, so slices of the target size roll in time.
        per_row = max(1, rows.nbytes // max(1, rows.num_rows))
        step = max(1, self.files.options.target_file_size // per_row)
        for start in range(0, rows.num_rows, step):
            self._write_slice(rows.slice(start, step))

    def _check_nulls(self, rows: pa.Table) -> None:
        """Refuse nulls in columns that are NOT NULL.

        Writers conform their rows before. Old files may hold such nulls, since other clients do not
        compare their schema with the latest one when they commit.
        """
        for field, column in zip(self._schema, rows.columns, strict=True):
            if not field.nullable and column.null_count:
                raise CorruptionError(
                    f"data files of {self.files.name} hold {column.null_count} nulls in column "
                    f"{field.name}, which is NOT NULL: another client committed rows of an older "
                    f"schema; allow null again (alter, --nullable {field.name}), or delete them"
                )

    def _write_slice(self, rows: pa.Table) -> None:
        if self._current is None:
            options = self.files.options
            prefix = (
                options.changelog_file_prefix if self.target.changelog else options.data_file_prefix
            )
            prefix = self.target.name_prefix or prefix
            name = f"{prefix}{self._write_id}-{next(self._numbers)}"
            encoding = options.file_encoding(self.target.level, changelog=self.target.changelog)
            # Recorded before the file is opened: a failed open may leave a file behind.
            self._current_path = f"{self._folder}/{name}{encoding.suffix}"
            self._current = _OpenFile(self.files, self._current_path, encoding, self.witness)
        if self._current.encoding.format == ORC:
            # Rows from old files may have such keys even if the table's writers refuse them.
            refuse_blank_keys_in_orc(rows, self.files)
        self._current.write(rows)
        if self._rows_left is not None:
            self._rows_left -= rows.num_rows
        if self._is_full(self._current.writer):
            self._finish_file()

    def _is_full(self, writer: DataFileWriter) -> bool:
        written, target = writer.written_bytes, self.files.options.target_file_size
        if self._rows_left is None:
            return written >= target
        to_come = self._rows_left * written / max(1, writer.row_count)
        least = target * self.files.options.compaction_small_file_ratio
        if to_come < least:
            return False
        return written >= min(target, max(least, (written + to_come) / 2))

    def _finish_file(self) -> None:
        if self._current is None:
            return
        current = self._current
        row_count = current.writer.row_count
        if self._keyed:
            low, high = current.min_sequence, current.max_sequence
        elif current.tracked:
            low, high = current.versions
        else:
            low, high = self._sequence, self._sequence + row_count - 1
            self._sequence += row_count
        # A file whose finish fails stays current, so `abandon` deletes it.
        self.done.append(current.finish(self.target, low, high))
        self._current = self._current_path = None


class _OpenFile:
    """An open file, with the values for its metadata."""

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
        self.tracked = holds_row_ids(files.schema)
        self._has_changed_rows = False

    def write(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        stored = rows.select(self._stored.names)
        if self._witness is not None:
            self._witness.add(stored)
        self.writer.write(stored)
        self._values.add(rows)
        if self.tracked:
            self._add_versions(rows.column(SEQUENCE_NUMBER))
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

    def _add_versions(self, column: pa.ChunkedArray) -> None:
        self._has_changed_rows |= column.null_count > 0
        bounds = pc.min_max(column)
        if bounds["min"].is_valid:
            self.min_sequence = min(self.min_sequence, bounds["min"].as_py())
            self.max_sequence = max(self.max_sequence, bounds["max"].as_py())

    @property
    def versions(self) -> tuple[int, int]:
        """The snapshots of the rows; the commit replaces one that it alone can know."""
        if self.max_sequence < 0:
            return UNKNOWN_VERSION, UNKNOWN_VERSION
        highest = UNKNOWN_VERSION if self._has_changed_rows else self.max_sequence
        return self.min_sequence, highest

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
            write_cols=tuple(self._stored.names) if self.tracked else None,
        )


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files written for one bucket."""

    data: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...] = ()

    def with_later(self, other: WrittenFiles) -> WrittenFiles:
        """These files and later ones of the same bucket."""
        return WrittenFiles(self.data + other.data, self.changelog + other.changelog)

    @property
    def next_sequence(self) -> int | None:
        """The sequence number after those of the files, None without files."""
        highest = [file.max_sequence_number for file in (*self.data, *self.changelog)]
        return max(highest) + 1 if highest else None
