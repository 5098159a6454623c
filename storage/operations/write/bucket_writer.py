"""Writes the rows of one bucket to data files of about the target size.

An append writer keeps the order of the rows. A key-value writer sorts rows by key and merges the
rows of each key with the table's engine, as the format requires of every file. It also writes its
input as changelog files if the table wants them. A postponing writer keeps the order of the rows
for the compaction that assigns their buckets.
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
from lakewright.storage.operations.write.distinct_keys import check_distinct
from lakewright.storage.operations.write.rolling_writer import (
    BucketTarget,
    RollingWriter,
    WrittenFiles,
)
from lakewright.storage.operations.write.stored_rows import key_value_table
from lakewright.storage.spec.commit import OnDuplicate
from lakewright.storage.spec.options import ChangelogProducer
from lakewright.storage.spec.partition import escape_path
from lakewright.storage.spec.schema import SEQUENCE_NUMBER

# A function that receives rows.
ShowRows = Callable[[pa.Table], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRows:
    """Witnesses of a bucket's rows and its changelog: after merging, and as written."""

    merged: ShowRows | None = None
    written: Checksum | None = None
    changes: ShowRows | None = None
    changes_written: Checksum | None = None


class BucketWriter:
    """Writes rows of one bucket, in arrival order, to data files.

    Rows have the table's columns, and `_VALUE_KIND` as int8 in primary-key tables. The table's
    merge engine makes one row of the rows of a key. Each `flush` sorts its rows into new files;
    sequence numbers continue. With `tells_changes` False the writer makes no changelog files, as
    in an overwrite. `rows_due` and `changes_due` count the rows that merging gave. A caller that
    needs checksums passes witnesses as `shown`.
    """

    def __init__(
        self,
        files: TableFiles,
        target: BucketTarget,
        *,
        write_id: str,
        tells_changes: bool = True,
        on_duplicate: OnDuplicate = OnDuplicate.MERGE,
        shown: ShownRows | None = None,
    ) -> None:
        self._files = files
        self._keyed = files.schema.is_keyed
        self._on_duplicate = on_duplicate
        self._shown = shown or ShownRows()
        self._rolling = RollingWriter(files, target, write_id=write_id, witness=self._shown.written)
        self._changelog: RollingWriter | None = None
        keeps_input = files.options.changelog_producer is ChangelogProducer.INPUT
        tells_changes = tells_changes and files.tells_changes(target.partition)
        if self._keyed and keeps_input and tells_changes:
            told = replace(target, changelog=True)
            self._changelog = RollingWriter(
                files, told, write_id=write_id, witness=self._shown.changes_written
            )
        # The merge does not see the key copies of files; it merges the counts of counted rows.
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
        """The memory of rows that are not in a file yet."""
        return self._rows_bytes + self._rolling.buffered_bytes

    @property
    def open_file_bytes(self) -> int | None:
        """The bytes in the open file; None if no file is open."""
        return self._rolling.open_file_bytes

    def write(self, rows: pa.Table) -> None:
        if self._keyed:
            self._rows.append(rows)
            self._rows_bytes += rows.nbytes
        else:
            self._rolling.write(rows)

    def flush(self) -> None:
        """Write the buffered rows and free their memory.

        Raises:
            InvalidRows: the table's merge engine does not accept the rows.
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
        """Flush, and finish the open file."""
        self.flush()
        self._rolling.end_file()

    def _write(self, merged: pa.Table) -> None:
        self.rows_due += merged.num_rows
        rows = self._with_keys(merged)
        if self._shown.merged is not None:
            self._shown.merged(rows)
        self._rolling.write(rows)

    def close(self) -> WrittenFiles:
        """Finish; returns the files written, none without rows. Deletes all files on failure."""
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
        if self._on_duplicate is OnDuplicate.REFUSE:
            check_distinct(self._files, rows)
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
    """Writes rows in arrival order; a compaction assigns their buckets later.

    The writer neither merges nor sorts. Files of one writer share a name prefix, by which the
    compaction finds the order of their rows.
    """

    def __init__(
        self, files: TableFiles, target: BucketTarget, *, commit_user: str, write_id: str
    ) -> None:
        self._files = files
        # The number of the writer within its commit, as in names of Paimon's own writers.
        number = zlib.crc32(write_id.encode()) & 0x7FFFFFFF
        user = escape_path(commit_user)
        prefix = f"{files.options.data_file_prefix}-u-{user}-s-{number}-w-"
        self._rolling = RollingWriter(files, replace(target, name_prefix=prefix), write_id=write_id)
        self._next_sequence = 0

    @property
    def buffered_bytes(self) -> int:
        """The memory of rows that are not in a file yet."""
        return self._rolling.buffered_bytes

    @property
    def open_file_bytes(self) -> int | None:
        """The bytes in the open file; None if no file is open."""
        return self._rolling.open_file_bytes

    def write(self, rows: pa.Table) -> None:
        first = self._next_sequence
        self._next_sequence += rows.num_rows
        sequence = np.arange(first, self._next_sequence, dtype=np.int64)
        self._rolling.write(key_value_table(self._files, rows, pa.array(sequence)))

    def flush(self) -> None:
        """Write the buffered rows and free their memory."""
        self._rolling.flush()

    def end_file(self) -> None:
        """Flush, and finish the open file."""
        self._rolling.end_file()

    def close(self) -> WrittenFiles:
        """Finish; returns the files written, none without rows. Deletes all files on failure."""
        try:
            return WrittenFiles(self._rolling.close())
        except (StorageError, pa.ArrowException):
            self.abandon()
            raise

    def abandon(self) -> None:
        """Delete what was written."""
        self._rolling.abandon()
