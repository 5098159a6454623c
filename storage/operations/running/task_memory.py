"""The memory budget of a task, and the shares of it.

One number is the budget of a task, besides the interpreter and its libraries. Reading ahead,
merging, buffering and encoding each get a share; all shares fit into the budget together.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lakewright.storage.env import Env
from lakewright.storage.operations.running.concurrency import map_concurrently

# A third is for rows; allocators keep the rest for the next rows.
TASK_MEMORY_BYTES = 512 * 1024 * 1024
# Rows that are read or accepted as one table.
BATCH_BYTES = TASK_MEMORY_BYTES // 16
# Rows of a row group; encoding takes up to as much again.
ROW_GROUP_BYTES = TASK_MEMORY_BYTES // 16
# Buffered rows over all buckets of a task; sorting takes as much again.
WRITE_BUFFER_BYTES = TASK_MEMORY_BYTES // 2
# Rows of places that are too many to have a writer each, until they are sorted and spilled.
SORT_BUFFER_BYTES = WRITE_BUFFER_BYTES // 2
# Places of a task that have a writer each, with a file open; rows of more places are sorted first.
PLACES_WRITTEN = 64
# Buffered rows of moved rows, which are read and merged at the same time.
MOVED_BYTES = TASK_MEMORY_BYTES // 4
# Rows of two states that are compared as whole rows; numbering takes as much again.
COMPARED_BYTES = TASK_MEMORY_BYTES // 4
# Files that a process's tasks read, and write, at once; a common limit for a process is 1,024.
_FILES_READ = 512
_FILES_WRITTEN = 128


def files_of_a_task(env: Env) -> int:
    """How many files one task may have open for reading beside the other tasks."""
    return max(4, _FILES_READ // env.cores())


@dataclass(frozen=True, slots=True)
class MergeMemory:
    """The budget of one merge of runs.

    `window_bytes` are the rows of one window over all streaming runs. Up to one and a half windows
    are read ahead while another window is combined and sorted. `held_bytes` are the rows of small
    runs that are held as wholes while others stream. `streams` is the number of streaming runs:
    each has an open file, with its pages beside its rows.
    """

    window_bytes: int
    held_bytes: int
    streams: int = 32

    def shared(self, merges: int) -> MergeMemory:
        """The budget of each merge, if this many merges run at once."""
        return MergeMemory(
            self.window_bytes // merges, self.held_bytes // merges, max(2, self.streams // merges)
        )


def gathered(batches: Iterator[pa.Table]) -> Generator[pa.Table, None, None]:
    """The same rows in pieces of a row group or more, as files of few rows are read."""
    pending: list[pa.Table] = []
    size = 0
    for rows in batches:
        pending.append(rows)
        size += rows.nbytes
        if size >= ROW_GROUP_BYTES:
            yield pa.concat_tables(pending)
            pending, size = [], 0
    if pending:
        yield pa.concat_tables(pending)


STREAMING = MergeMemory(TASK_MEMORY_BYTES // 64, TASK_MEMORY_BYTES // 8)


def collecting(splits_at_once: int) -> MergeMemory:
    """A budget for a caller that keeps all rows in memory; larger windows are hardly faster."""
    return MergeMemory(TASK_MEMORY_BYTES // 16, 2 * TASK_MEMORY_BYTES // max(1, splits_at_once))


class Buffering(Protocol):
    """A writer that buffers rows before it writes them."""

    @property
    def buffered_bytes(self) -> int:
        """The memory of rows that are not in a file yet."""
        ...

    @property
    def open_file_bytes(self) -> int | None:
        """The bytes in the open file; None if no file is open."""
        ...

    def flush(self) -> None:
        """Write the buffered rows and free their memory."""
        ...

    def end_file(self) -> None:
        """Flush, and finish the open file."""
        ...


# A slice is copied if it keeps more than this many times its own bytes in memory.
_HELD_BACK = 2


def free_memory(
    env: Env,
    writers: Collection[Buffering],
    most_bytes: int = WRITE_BUFFER_BYTES,
    *,
    tasks: int | None = None,
) -> None:
    """If the writers of a task exceed the budget, flush the fullest until half of it is free.

    As many writers are flushed at once as there are cores. `tasks` is the number of tasks that
    share the file limit of a process; None means one on each core. If a task's writers have more
    files open than its share, some files are finished before they reach the target size.
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
    # Each round may open one more file for every writer in it.
    at_once = min(env.cores(), most_files // 2)
    for start in range(0, len(full), at_once):
        _end_files(writers, most_files - at_once)
        some = full[start : start + at_once]
        map_concurrently(env, lambda writer: writer.flush(), some)
    _end_files(writers, most_files)


def _end_files(writers: Collection[Buffering], most: int) -> None:
    """If too many files are open, finish the largest until half of the limit is open."""
    sizes = [(writer.open_file_bytes, writer) for writer in writers]
    being_written = [(size, writer) for size, writer in sizes if size is not None]
    if len(being_written) > most:
        being_written.sort(key=lambda each: -each[0])
        for _, writer in being_written[: len(being_written) - most // 2]:
            writer.end_file()


def slices(rows: pa.Table, most_bytes: int = BATCH_BYTES) -> Iterator[pa.Table]:
    """The rows in slices of limited size, at least one row each, without a copy."""
    if rows.num_rows <= 1 or _weight(rows) <= most_bytes:
        yield rows
        return
    half = rows.num_rows // 2
    yield from slices(rows.slice(0, half), most_bytes)
    yield from slices(rows.slice(half), most_bytes)


def detached(rows: pa.Table) -> pa.Table:
    """The rows, copied if they keep a much larger table in memory."""
    if rows.get_total_buffer_size() <= _HELD_BACK * rows.nbytes:
        return rows
    return rows.take(pa.array(np.arange(rows.num_rows)))


def _weight(rows: pa.Table) -> int:
    return sum(_column_weight(column) for column in rows.columns)


def _column_weight(column: pa.ChunkedArray) -> int:
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    # Every slice references the whole dictionary, so the copy decodes it.
    values = [chunk.dictionary for chunk in column.chunks]
    widths = [each.nbytes // max(1, len(each)) for each in values]
    return sum(
        width * len(chunk) + chunk.indices.nbytes
        for width, chunk in zip(widths, column.chunks, strict=True)
    )
