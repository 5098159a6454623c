"""Rows spilled to the machine's own disk, if more rows are needed than fit in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from lakewright.storage.errors import UnavailableError

# The most files open for writing; beyond, the file of the heap longest without rows is closed.
_MOST_OPEN = 64


@dataclass
class _Part:
    """A file with pieces of one heap; `batch_counts` holds the number of batches of each piece."""

    path: Path
    sink: Any
    writer: Any
    batch_counts: list[int] = field(default_factory=list)

    def close(self) -> None:
        # Arrow's writer leaves its sink open.
        with self.sink:
            self.writer.close()


class Spill:
    """Numbered heaps of rows; a caller fills each piece by piece, then takes it back once.

    Use it as a context, which deletes the files at its end. The number of open files is bounded.
    """

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._numbers = count()
        # The files being written, by heap, and all files of each heap.
        self._open: dict[int, _Part] = {}
        self._parts: dict[int, list[_Part]] = defaultdict(list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for part in self._open.values():
            # On a full disk the end of the file cannot be written either, and no reader needs it.
            with suppress(OSError):
                part.close()
        if self._folder is not None:
            self._folder.cleanup()

    def put(self, heap: int, rows: pa.Table) -> None:
        """Add a piece to a heap; all pieces of a heap have the same columns.

        Raises:
            UnavailableError: the disk is full or failed.
        """
        batches = rows.combine_chunks().to_batches()
        with self._writing():
            part = self._open.pop(heap, None) or self._new_part(heap, rows.schema)
            # Moved to the end, so that the first heap is the one longest without rows.
            self._open[heap] = part
            for batch in batches:
                part.writer.write_batch(batch)
        part.batch_counts.append(len(batches))

    def take(self, heap: int) -> pa.Table | None:
        """Remove and return all rows of a heap in their order, None without rows."""
        pieces = list(self.pieces(heap))
        return pa.concat_tables(pieces) if pieces else None

    def pieces(self, heap: int) -> Generator[pa.Table, None, None]:
        """Remove and yield the pieces of a heap as they were added, one in memory at a time."""
        self.finish(heap)
        for part in self._parts.pop(heap, ()):
            with pa.OSFile(str(part.path)) as source:
                file = pa.ipc.open_file(source)
                numbers = iter(range(file.num_record_batches))
                for size in part.batch_counts:
                    batches = [file.get_batch(next(numbers)) for _ in range(size)]
                    yield pa.Table.from_batches(batches, file.schema)
            part.path.unlink()

    def finish(self, heap: int) -> None:
        """Close the file of a complete heap.

        Raises:
            UnavailableError: the disk is full or failed.
        """
        part = self._open.pop(heap, None)
        if part is not None:
            with self._writing():
                part.close()

    def _new_part(self, heap: int, schema: pa.Schema) -> _Part:
        if len(self._open) >= _MOST_OPEN:
            self.finish(next(iter(self._open)))
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="lakewright-")
        path = Path(self._folder.name) / str(next(self._numbers))
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        sink = pa.OSFile(str(path), "wb")
        part = _Part(path, sink, pa.ipc.new_file(sink, schema, options=options))
        self._parts[heap].append(part)
        return part

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnavailableError(
                f"rows cannot be spilled to {self._place()}: {error}; free space there, or point "
                "TMPDIR at a disk with space"
            ) from error

    def _place(self) -> str:
        if self._folder is not None:
            return self._folder.name
        try:
            return gettempdir()
        except OSError:
            return "a folder for temporary files"
