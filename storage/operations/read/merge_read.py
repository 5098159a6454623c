"""Merges overlapping files: windows of key-value rows, merged by the table's engine.

Memory holds about one window. File metadata decides the window's size, so a section of any size
fits.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
import pyarrow as pa

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.lsm.levels import age, may_tie
from lakewright.storage.lsm.lookup_merge import look_up
from lakewright.storage.lsm.merge import (
    RowOrder,
    merge_rows,
    merge_unordered,
    sorted_groups,
    without_deletions,
)
from lakewright.storage.lsm.merge_engines import MergeFunction, SelectingMerge, merge_function
from lakewright.storage.lsm.merge_engines.counting import repeated
from lakewright.storage.lsm.sections import DecodeKey, Section, runs_by_age, sections_of
from lakewright.storage.operations.read.blank_keys import with_keys_apart
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.read.side_by_side import OpenRun, SideBySide
from lakewright.storage.operations.read.unfit_values import UNFIT
from lakewright.storage.operations.running.concurrency import ahead
from lakewright.storage.operations.running.task_memory import STREAMING, MergeMemory
from lakewright.storage.operations.state.keys import key_decoder
from lakewright.storage.spec.lookup_strategy import lookup_strategy
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.options import POSTPONE_BUCKET
from lakewright.storage.spec.schema import COUNT, KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND

# The least memory that Arrow takes for a held file.
_FILE_BYTES = 4096
_SYSTEM_COLUMNS = (SEQUENCE_NUMBER, VALUE_KIND)


def row_order(files: TableFiles) -> RowOrder:
    """The columns that order a table's rows in a merge."""
    spec = files.merge_spec
    return RowOrder(
        tuple(f"{KEY_PREFIX}{name}" for name in files.schema.key_names),
        spec.sequence_fields,
        spec.sequence_descending,
    )


def key_windows(
    source: FileRows, split: DataSplit, *, memory: MergeMemory = STREAMING, marked: bool = False
) -> Generator[KeyGroups, None, None]:
    """Rows of a split in merge order with their places, in windows of ascending keys.

    A group's `origins` are positions in `split.files`. All rows of a key are in one window. With
    `marked` the marks of values that do not fit stay as a column, for `settled` after a merge.
    """
    order = row_order(source.files)
    for rows in _windows(source, split, memory, placed=True, marked=marked):
        yield sorted_groups(rows, order)


def merged_windows(
    source: FileRows, split: DataSplit, *, memory: MergeMemory = STREAMING
) -> Generator[pa.Table, None, None]:
    """At most one row of each key, in key order, including deletions."""
    files = source.files
    order, function = row_order(files), merge_function(files.merge_spec, source.fields)
    if _combines_older_rows(files, function):
        for groups in ahead(files.env, key_windows(source, split, memory=memory)):
            yield function.merge(_without_combined(groups, split))
        return
    marked = keeps_marks(source, split, function)
    for rows in ahead(files.env, _windows(source, split, memory, marked=marked)):
        yield source.settled(merge_rows(rows, order, function), split, deletions=False)


def merged_rows(
    source: FileRows, split: DataSplit, columns: Sequence[str], *, memory: MergeMemory = STREAMING
) -> Generator[pa.Table, None, None]:
    """Some columns of the rows that remain after the merge, in no defined order."""
    files = source.files
    order, function = row_order(files), merge_function(files.merge_spec, source.fields)
    if files.schema.counts_rows:
        columns = (*columns, COUNT)
    marked = keeps_marks(source, split, function)
    if marked:
        columns = (*columns, UNFIT)
    if split.bucket == POSTPONE_BUCKET:
        # Postponed rows lie in arrival order, so their files are not sorted runs.
        pieces = [
            rows
            for file in split.files
            for rows in source.key_value_rows(split, file, marked=marked)
        ]
        if pieces:
            merged = merge_unordered(pa.concat_tables(pieces), order, function, columns)
            yield source.settled(merged, split)
        return
    if _combines_older_rows(files, function):
        for merged in merged_windows(source, split, memory=memory):
            yield without_deletions(merged).select(columns)
        return
    system = _needed_to_merge(files, split, function)
    alone = len(split.files) == 1
    windows = _windows(source, split, memory, system=system, merges=not alone, marked=marked)
    for rows in ahead(files.env, windows):
        if alone:
            # Keys are unique within one file, so the merge only drops deletions.
            merged = without_deletions(rows).select(columns)
        else:
            merged = merge_unordered(rows, order, function, columns)
        merged = source.settled(merged, split)
        yield repeated(merged) if files.schema.counts_rows else merged


def keeps_marks(source: FileRows, split: DataSplit, function: MergeFunction) -> bool:
    """Whether values that do not fit are judged after the merge, which may drop their rows.

    Engines that combine rows take a value out of each, so they judge them before.
    """
    return isinstance(function, SelectingMerge) and source.may_mark(split)


def _combines_older_rows(files: TableFiles, function: MergeFunction) -> bool:
    """Whether a row below level 0 already combines older rows of its key that still exist."""
    combines = not isinstance(function, SelectingMerge)
    return combines and lookup_strategy(files.options, files.merge_spec).needed


def _without_combined(groups: KeyGroups, split: DataSplit) -> KeyGroups:
    """All rows of level 0, and of each key only the newest row below, which combines the rest."""
    levels = np.array([file.level for file in split.files], dtype=np.int64)
    return look_up(groups, levels, np.ones(len(levels), dtype=bool)).groups


def _needed_to_merge(
    files: TableFiles, split: DataSplit, function: MergeFunction
) -> tuple[str, ...]:
    """Whether sequence number and kind must be read, or metadata decides them."""
    if not isinstance(function, SelectingMerge) or len(split.files) == 1:
        return _SYSTEM_COLUMNS
    runs = _runs_oldest_first(files, split)
    firsts = [min(file.min_sequence_number for file in run) for run in runs[1:]]
    lasts = [max(file.max_sequence_number for file in run) for run in runs[:-1]]
    in_order = all(first > last for first, last in zip(firsts, lasts, strict=True))
    no_deletions = all(file.delete_row_count == 0 for file in split.files)
    unneeded = {SEQUENCE_NUMBER: in_order, VALUE_KIND: no_deletions}
    return tuple(name for name in _SYSTEM_COLUMNS if not unneeded[name])


def _windows(
    source: FileRows,
    split: DataSplit,
    memory: MergeMemory,
    *,
    placed: bool = False,
    system: Sequence[str] = _SYSTEM_COLUMNS,
    merges: bool = True,
    marked: bool = False,
) -> Generator[pa.Table, None, None]:
    row_bytes = source.row_bytes(split, split.files, memory.window_bytes, with_keys=True)

    def as_run(metas: Sequence[DataFileMeta]) -> OpenRun:
        count = sum(file.row_count for file in metas)
        size = count * row_bytes + len(metas) * _FILE_BYTES
        return OpenRun(count, size, lambda batch_rows: rows_of(metas, batch_rows))

    def rows_of(
        metas: Sequence[DataFileMeta], batch_rows: int | None
    ) -> Generator[pa.Table, None, None]:
        for file in metas:
            rows = source.key_value_rows(
                split, file, batch_rows=batch_rows, placed=placed, system=system, marked=marked
            )
            if merges:
                path = source.files.readable_path(split.place, file)
                rows = with_keys_apart(rows, source.files, path)
            # A held run is read at once, so that its file is closed.
            yield from rows if batch_rows is not None else list(rows)

    runs = [as_run(metas) for metas in _runs_oldest_first(source.files, split)]
    together = SideBySide(source.files.env, row_order(source.files), memory)
    for (pieces,) in together.windows(runs):
        yield pa.concat_tables(pieces)


def _runs_oldest_first(files: TableFiles, split: DataSplit) -> list[tuple[DataFileMeta, ...]]:
    """Sorted runs; of rows with equal key and sequence the row of the later run wins."""
    decode = key_decoder(files.schema)
    sections = sections_of(split.files, decode)
    # Sections do not overlap, so the n-th runs of all sections join into one run.
    joined: list[tuple[DataFileMeta, ...]] = []
    for section in sections:
        for index, run in enumerate(_runs_of(section, decode)):
            if index < len(joined):
                joined[index] += run
            else:
                joined.append(run)
    return joined


def _runs_of(section: Section, decode: DecodeKey) -> list[tuple[DataFileMeta, ...]]:
    if not may_tie(section.files):
        return sorted(section.runs, key=lambda run: age(run[0]))
    # Otherwise neighbours in a run would decide which row wins.
    return runs_by_age(sorted(section.files, key=age), decode)
