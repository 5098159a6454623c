"""Reads changes: rows as they were written, rows of a state, or the difference of two states.

1. As written: every row of a file with its kind; rows of files without kinds are insertions.
2. A state: rows merged by the table's engine, with the deletions that files still hold.
3. Two states: merge both by key range, and compare them; if their partition keys differ, by the
   hash of the primary key (`across_keys.py`). Tables without keys compare whole rows
   of the files that only one state has; if these exceed the memory, the reader partitions them
   on disk by hash, so that equal rows meet.
4. Apply the filter last, to the resulting rows.
5. Number the rows if asked to, so that several changes of a key can be put into order again: those
   of states and differences first, removals before additions, then those of each written file in
   the order of the commits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_types import to_arrow_field
from lakewright.storage.codec.arrow_values import keep_matching
from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.files.spill import Spill
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.merge import merge_rows
from lakewright.storage.lsm.merge_engines import merge_function
from lakewright.storage.lsm.merge_engines.counting import negated, told_one_by_one
from lakewright.storage.lsm.row_difference import difference_by_key, difference_by_row
from lakewright.storage.operations.changes.across_keys import (
    MOST_HEAPS,
    differences_across_keys,
    hashes_alike,
    with_keys_of,
)
from lakewright.storage.operations.changes.change_plan import ChangeSource, ChangeSplit
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.merge_read import merged_windows, row_order
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.read.side_by_side import OpenRun, SideBySide
from lakewright.storage.operations.read.unfit_values import NulledValues, logged
from lakewright.storage.operations.running.task_memory import COMPARED_BYTES, STREAMING, MergeMemory
from lakewright.storage.spec.arguments import whole_or_none
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.predicate import Predicate, columns_of
from lakewright.storage.spec.rows import ROW_KIND_COLUMN, RowKind
from lakewright.storage.spec.schema import VALUE_KIND

# The order of a change among all those that one plan tells.
CHANGE_ORDER_COLUMN = "_change_order"
# The number of a row within its file or split is below this power of two.
_ORDER_BITS = 36
_REMOVALS, _ADDITIONS, _FIRST_WRITTEN = range(3)
_REMOVING = tuple(each.short for each in RowKind if each.retracts)


class ChangeReader:
    """Reads change splits of one table: `_rowkind` first, then the projected columns.

    Kinds are '+I', '-U', '+U' and '-D'. If they are `ordered`, rows have their order last.
    """

    def __init__(
        self,
        files: TableFiles,
        *,
        columns: Sequence[str] | None,
        predicate: Predicate | None,
        compared_bytes: int = COMPARED_BYTES,
        snapshot_ids: Sequence[int] = (),
        ordered: bool = False,
    ) -> None:
        self.files = files
        # The snapshots whose changes are read; the error names the one that expired.
        self._snapshot_ids = tuple(snapshot_ids)
        self.columns = files.schema.names_of(columns)
        self.predicate = predicate
        self._compared_bytes = compared_bytes
        # Counts values that are read as null because they do not fit their columns' types.
        self.nulled = NulledValues()
        wanted = files.schema.fields_of(self.columns)
        kind = pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False)
        self._ordered = ordered
        order = [pa.field(CHANGE_ORDER_COLUMN, pa.int64(), nullable=False)] if ordered else []
        self.arrow_schema = pa.schema([kind, *(to_arrow_field(field) for field in wanted), *order])

    def read(self, split: ChangeSplit) -> Iterator[pa.Table]:
        """The matching changes of a split, piece by piece.

        Raises:
            SnapshotNotFound: a snapshot expired while its changes were read.
        """
        is_change = split.source is ChangeSource.WRITTEN
        with told_if_expired(self.files, *self._snapshot_ids, changes=is_change):
            for rows in self._in_order(split) if self._ordered else self._changes(split):
                kept = keep_matching(rows, self.predicate, self.files.schema)
                yield kept.select(self.arrow_schema.names)

    def _in_order(self, split: ChangeSplit) -> Iterator[pa.Table]:
        """The changes of a split, each with its number among those of the plan."""
        if split.turns:
            (part,) = split.after
            for turn, file in zip(split.turns, part.files, strict=True):
                alone = replace(split, after=(replace(part, files=(file,)),))
                first = 0
                for rows in self._changes(alone):
                    yield _numbered(rows, np.int64(_FIRST_WRITTEN + turn), first)
                    first += rows.num_rows
            return
        first = 0
        for rows in self._changes(split):
            removed = pc.is_in(rows.column(ROW_KIND_COLUMN), pa.array(_REMOVING))
            turns = np.where(removed.to_numpy(), _REMOVALS, _ADDITIONS).astype(np.int64)
            yield _numbered(rows, turns, first)
            first += rows.num_rows

    def _changes(self, split: ChangeSplit) -> Iterator[pa.Table]:
        if not self.files.schema.is_keyed:
            yield from self._append_changes(split)
            return
        match split.source:
            case ChangeSource.WRITTEN:
                source = self._rows(self._needed())
                for part, file in _files_of(split.after):
                    batch_rows = source.batch_rows(part, file)
                    for rows in source.key_value_rows(part, file, batch_rows=batch_rows):
                        yield self._told(rows)
            case ChangeSource.STATE:
                source = self._rows(self.files.merge_spec.with_needed(self._needed()))
                for part in split.after:
                    for rows in merged_windows(source, part):
                        yield self._told(rows)
            case ChangeSource.DIFFERENCE if len(split.keys_of) > 1:
                for rows in differences_across_keys(
                    self.files, split, self._compared_bytes, self.nulled
                ):
                    yield self._told(rows)
            case ChangeSource.DIFFERENCE:
                yield from self._differences(split)

    def _differences(self, split: ChangeSplit) -> Iterator[pa.Table]:
        names = self.files.schema.field_names
        files = with_keys_of(self.files, split.keys_of[0]) if split.keys_of else self.files
        source = FileRows(files, files.schema.fields, shown=True, nulled=self.nulled)
        order = row_order(files)
        both = STREAMING.shared(2)
        states = [_merged_buckets(source, parts, both) for parts in (split.before, split.after)]
        together = SideBySide(files.env, order, STREAMING, sides=2)
        for before, after in together.windows(*states):
            # A key is in at most one bucket of a state, so the buckets of a state are concatenated.
            nothing = (*before, *after)[0].slice(0, 0)
            old, new = (pa.concat_tables([nothing, *each]) for each in (before, after))
            if self.files.schema.counts_rows:
                merge = merge_function(files.merge_spec, source.fields)
                rows = pa.concat_tables([negated(old), new])
                yield self._told(merge_rows(rows, order, merge))
            else:
                yield self._told(difference_by_key(old, new, order.keys, names))

    def _told(self, rows: pa.Table) -> pa.Table:
        """Key-value rows with their kind; counted rows are repeated by their count."""
        return _with_kinds(told_one_by_one(rows) if self.files.schema.counts_rows else rows)

    def _append_changes(self, split: ChangeSplit) -> Iterator[pa.Table]:
        whole = any(part.files for part in split.before)
        source = self._rows(self.files.schema.field_names if whole else self._needed())
        if not whole:
            for part, file in _files_of(split.after):
                for rows in source.batches(part, file):
                    yield _all_of_kind(rows, RowKind.INSERT)
            return
        for before, after in _meeting_rows(source, split, self._compared_bytes):
            removed, added = difference_by_row(before, after)
            yield _all_of_kind(removed, RowKind.DELETE)
            yield _all_of_kind(added, RowKind.INSERT)

    def _needed(self) -> set[str]:
        needed = set(self.columns) | (columns_of(self.predicate) if self.predicate else set())
        # Reading needs at least one column, even for kinds alone.
        return needed or {self.files.schema.fields[0].name}

    def _rows(self, names: Iterable[str]) -> FileRows:
        wanted = set(names)
        fields = [field for field in self.files.schema.fields if field.name in wanted]
        return FileRows(self.files, fields, shown=True, nulled=self.nulled)


def _merged_buckets(
    source: FileRows, parts: Sequence[DataSplit], memory: MergeMemory
) -> list[OpenRun]:
    """The buckets of a state, each as one merged run."""
    # All buckets are merged at once, up to the number of streams.
    own = memory.shared(max(1, min(len(parts), memory.streams)))

    def as_run(part: DataSplit) -> OpenRun:
        count = sum(file.row_count for file in part.files)
        size = count * source.row_bytes(part, part.files, own.window_bytes, with_keys=True)
        return OpenRun(count, size, lambda _: merged_windows(source, part, memory=own))

    return [as_run(part) for part in parts]


def collect_changes(
    reader: ChangeReader, splits: Iterable[ChangeSplit], *, limit: int | None = None
) -> pa.Table:
    """The changes of several splits, in memory."""
    limit = whole_or_none(limit, "limit", minimum=0)
    nullable = pa.schema([field.with_nullable(True) for field in reader.arrow_schema])
    parts = [nullable.empty_table()]
    left = limit
    with logged(reader.nulled, reader.files.name):
        for rows in (rows for split in splits for rows in reader.read(split)):
            if left is not None and left <= rows.num_rows:
                parts.append(rows.slice(0, left).cast(nullable))
                break
            left = None if left is None else left - rows.num_rows
            parts.append(rows.cast(nullable))
    return pa.concat_tables(parts)


def _with_kinds(rows: pa.Table) -> pa.Table:
    # Made on demand: making an array of text imports pandas, which most commands do not need.
    names = pa.array([kind.short for kind in RowKind])
    kinds = [names.take(chunk) for chunk in rows.column(VALUE_KIND).chunks]
    return rows.append_column(ROW_KIND_COLUMN, pa.chunked_array(kinds, pa.string()))


def _numbered(rows: pa.Table, turns: Any, first: int) -> pa.Table:
    """Rows with their order: by turns, then by their numbers, which begin with `first`."""
    numbers = np.arange(first, first + rows.num_rows, dtype=np.int64)
    return rows.append_column(CHANGE_ORDER_COLUMN, pa.array((turns << _ORDER_BITS) + numbers))


def _all_of_kind(rows: pa.Table, kind: RowKind) -> pa.Table:
    kinds = pa.repeat(pa.scalar(kind.short), rows.num_rows)
    return rows.append_column(ROW_KIND_COLUMN, kinds)


def _files_of(parts: Iterable[DataSplit]) -> Iterator[tuple[DataSplit, DataFileMeta]]:
    return ((part, file) for part in parts for file in part.files)


def _meeting_rows(
    source: FileRows, split: ChangeSplit, most_bytes: int
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Rows of append files before and after, in heaps of limited size; equal rows share a heap."""
    fields = [to_arrow_field(field).with_nullable(True) for field in source.fields]
    nothing = pa.schema(fields).empty_table()
    sides = (split.before, split.after)
    weight = sum(
        file.row_count * source.row_bytes(part, (file,), most_bytes)
        for parts in sides
        for part, file in _files_of(parts)
    )
    hashed = [field for field in source.fields if hashes_alike(field)]
    count = min(MOST_HEAPS, math.ceil(weight / most_bytes)) if hashed else 1
    if count <= 1:
        before, after = (pa.concat_tables([nothing, *_batches(source, parts)]) for parts in sides)
        yield before, after
        return
    with Spill() as spill:
        for side, parts in enumerate(sides):
            for rows in _batches(source, parts):
                heaps = buckets_of(rows, hashed, count)
                for heap in np.unique(heaps).tolist():
                    spill.put(2 * heap + side, rows.filter(pa.array(heaps == heap)))
        for heap in range(count):
            before, after = (spill.take(2 * heap + side) for side in range(2))
            yield before or nothing, after or nothing


def _batches(source: FileRows, parts: Iterable[DataSplit]) -> Iterator[pa.Table]:
    return (rows for part, file in _files_of(parts) for rows in source.batches(part, file))
