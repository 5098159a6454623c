"""Writers of data files: rows of one bucket become files of about the target size.

An append writer passes rows on in their order. A key-value writer merges the rows
of each key by the table's engine, in key order, as the format wants every file to
hold; it keeps what it was given as changelog files where the table asks for that.
A postponing writer passes rows on too, for the compaction that gives them a bucket.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lakewright.storage.errors import StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.checksum import Checksum
from lakewright.storage.lsm.merge import merged_pieces, sorted_groups
from lakewright.storage.lsm.merge_engines import merge_function
from lakewright.storage.operations.read.merge_read import row_order
from lakewright.storage.operations.running.task_memory import ROW_GROUP_BYTES
from lakewright.storage.operations.write.rolling_writer import (
    BucketTarget,
    RollingWriter,
    WrittenFiles,
)
from lakewright.storage.operations.write.stored_rows import key_value_table
from lakewright.storage.spec.options import ChangelogProducer
from lakewright.storage.spec.partition import escape_path
from lakewright.storage.spec.schema import SEQUENCE_NUMBER

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
