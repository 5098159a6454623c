"""Reads splits into Arrow tables.

1. Read files without overlap directly, without their deleted rows; leave out row groups whose
   bounds exclude the filter.
2. Merge overlapping files with the table's engine, and drop deletions; leave out row groups whose
   bounds exclude the part of the filter on keys.
3. Apply the filter last, to the merged rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import keep_matching
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.merge_read import merged_rows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.read.unfit_values import NulledValues
from lakewright.storage.operations.running.task_memory import STREAMING, MergeMemory
from lakewright.storage.spec.predicate import Predicate, columns_of, only_on


class SplitReader:
    """Reads splits of one table with one read schema, one filter and one projection.

    `snapshot_id` is the snapshot of the splits. Staged files have none, and cannot expire.
    """

    def __init__(
        self,
        files: TableFiles,
        *,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        snapshot_id: int | None = None,
        nulled: NulledValues | None = None,
    ) -> None:
        self.files = files
        self.snapshot_id = snapshot_id
        self.columns = files.schema.names_of(columns)
        self.predicate = predicate
        needed = set(self.columns) | (columns_of(predicate) if predicate else set())
        # Reading needs at least one column, even to count rows.
        needed = needed or set(files.schema.counting_names)
        merging = set(files.merge_spec.with_needed(needed))
        fields = files.schema.fields
        raw, merged = (
            [each for each in fields if each.name in names] for names in (needed, merging)
        )
        # Counts values that are read as null because they do not fit their columns' types.
        self.nulled = NulledValues() if nulled is None else nulled
        self._raw_rows = FileRows(files, raw, shown=True, nulled=self.nulled, where=predicate)
        # A row that does not match may replace one that does, unless its key excludes that.
        on_keys = only_on(predicate, frozenset(files.schema.key_names))
        self._merging_rows = FileRows(files, merged, shown=True, nulled=self.nulled, where=on_keys)
        self._needed = tuple(field.name for field in fields if field.name in needed)
        self.arrow_schema = to_arrow_schema(files.schema.fields_of(self.columns))

    def read(self, split: DataSplit, *, memory: MergeMemory = STREAMING) -> Iterator[pa.Table]:
        """The matching rows of a split, in the projected columns.

        Raises:
            SnapshotNotFound: the snapshot expired while it was read.
        """
        # A plan decodes the metadata of a file each time that it is asked for.
        split = replace(split, files=tuple(split.files))
        if split.merge:
            pieces = merged_rows(self._merging_rows, split, self._needed, memory=memory)
        else:
            pieces = self._raw(split)
        columns = list(self.columns)
        with closing(pieces), told_if_expired(self.files, self.snapshot_id):
            for rows in pieces:
                yield keep_matching(rows, self.predicate, self.files.schema).select(columns)

    def _raw(self, split: DataSplit) -> Generator[pa.Table, None, None]:
        batch_rows = self._raw_rows.batch_rows(split, *split.files)
        for file in split.files:
            yield from self._raw_rows.rows(split, file, batch_rows=batch_rows)
