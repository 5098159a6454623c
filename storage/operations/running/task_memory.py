"""How much memory a task takes, and what is held of it at once.

One number is the budget of a task besides the interpreter and its libraries. What is read
ahead, merged, gathered and encoded are shares of it, small enough to be there together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakewright.storage.env import Env
from lakewright.storage.operations.running.concurrency import map_concurrently

# A third are rows in memory, the rest is what allocators keep for the next rows.
TASK_MEMORY_BYTES = 512 * 1024 * 1024
# Rows that are read or taken over as one table.
BATCH_BYTES = TASK_MEMORY_BYTES // 16
# Rows that become a row group; while it is encoded it takes up to as much again.
ROW_GROUP_BYTES = TASK_MEMORY_BYTES // 16
# Rows that wait to be written, over all buckets of a task; sorting takes as much again.
WRITE_BUFFER_BYTES = TASK_MEMORY_BYTES // 2
# The same for rows that are moved, since they are read and merged meanwhile.
MOVED_BYTES = TASK_MEMORY_BYTES // 4
# Rows of two states that are compared as wholes; numbering them takes as much again.
COMPARED_BYTES = TASK_MEMORY_BYTES // 4
# Files that the tasks of a process read at once, and write; it may often have 1,024 in all.
_FILES_READ = 512
_FILES_WRITTEN = 128


def files_of_a_task(env: Env) -> int:
    """How many files one task may have open for reading beside those of others."""
    return max(4, _FILES_READ // env.cores())


@dataclass(frozen=True, slots=True)
class MergeMemory:
    """What a merge of runs may take.

    `window_bytes` are the rows of one window, over all runs that stream: up to one and a half
    windows of batches are read ahead, while another is combined and taken into its order.
    `held_bytes` are rows of runs small enough to be held as wholes while others stream past.
    `streams` is how many do: each is an open file, and pages of it beside its rows.
    """

    window_bytes: int
    held_bytes: int
    streams: int = 32

    def shared(self, merges: int) -> MergeMemory:
        """What each of so many merges may take that go on side by side."""
        return MergeMemory(
            self.window_bytes // merges, self.held_bytes // merges, max(2, self.streams // merges)
        )


STREAMING = MergeMemory(TASK_MEMORY_BYTES // 64, TASK_MEMORY_BYTES // 8)


def collecting(splits_at_once: int) -> MergeMemory:
    """For who wants all rows in memory anyway; still larger windows are hardly any faster."""
    return MergeMemory(TASK_MEMORY_BYTES // 16, 2 * TASK_MEMORY_BYTES // max(1, splits_at_once))


class Buffering(Protocol):
    """A writer that gathers rows before it writes them."""

    @property
    def buffered_bytes(self) -> int:
        """Memory taken by rows that have not reached a file yet."""
        ...

    @property
    def open_file_bytes(self) -> int | None:
        """The bytes so far of the file that is open for more rows; None if none is."""
        ...

    def flush(self) -> None:
        """Free the memory."""
        ...

    def end_file(self) -> None:
        """Free the memory, and finish the file that is open."""
        ...


# A part of a table that holds back more than this many times its own bytes is copied.
_HELD_BACK = 2


def free_memory(
    env: Env,
    writers: Collection[Buffering],
    most_bytes: int = WRITE_BUFFER_BYTES,
    *,
    tasks: int | None = None,
) -> None:
    """Where the writers of a task gather too much, flush the fullest until half of it is free.

    As many as there are cores are flushed together. `tasks` is how many share the files that a
    process may have open, None for a task on each core. Where a task's writers have more files
    open than its share, some of those are finished before they have their size.
    """
    sizes = [(writer.buffered_bytes, writer) for writer in writers]
    total = sum(size for size, _ in sizes)
    full: list[Buffering] = []
    if total > most_bytes:
        for size, writer in sorted(sizes, key=lambda each: -each[0]):
            if total <= most_bytes // 2 and len(full) >= env.cores():
                break
            full.append(writer)
            total -= size
    most_files = max(4, _FILES_WRITTEN // (env.cores() if tasks is None else tasks))
    # Each round may open a file for every writer in it, beside those that are open already.
    at_once = min(env.cores(), most_files // 2)
    for start in range(0, len(full), at_once):
        _end_files(writers, most_files - at_once)
        some = full[start : start + at_once]
        map_concurrently(env, lambda writer: writer.flush(), some)
    _end_files(writers, most_files)


def _end_files(writers: Collection[Buffering], most: int) -> None:
    """Where more files are open than may be, finish the largest, until half of them may follow."""
    sizes = [(writer.open_file_bytes, writer) for writer in writers]
    being_written = [(size, writer) for size, writer in sizes if size is not None]
    if len(being_written) > most:
        being_written.sort(key=lambda each: -each[0])
        for _, writer in being_written[: len(being_written) - most // 2]:
            writer.end_file()


def slices(rows: pa.Table, most_bytes: int = BATCH_BYTES) -> Iterator[pa.Table]:
    """The rows in parts of at most so many bytes, or of one row; nothing is copied."""
    if rows.num_rows <= 1 or _weight(rows) <= most_bytes:
        yield rows
        return
    half = rows.num_rows // 2
    yield from slices(rows.slice(0, half), most_bytes)
    yield from slices(rows.slice(half), most_bytes)


def detached(rows: pa.Table) -> pa.Table:
    """The rows, copied where they keep a much larger table in memory."""
    if rows.get_total_buffer_size() <= _HELD_BACK * rows.nbytes:
        return rows
    return rows.take(pa.array(np.arange(rows.num_rows)))


def _weight(rows: pa.Table) -> int:
    return sum(_column_weight(column) for column in rows.columns)


def _column_weight(column: pa.ChunkedArray) -> int:
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    # Each slice has the whole dictionary, and its rows are what they are without one.
    values = [chunk.dictionary for chunk in column.chunks]
    widths = [each.nbytes // max(1, len(each)) for each in values]
    return sum(
        width * len(chunk) + chunk.indices.nbytes
        for width, chunk in zip(widths, column.chunks, strict=True)
    )
