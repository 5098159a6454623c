"""Rows put aside on the machine's own disk, while there are more of them than fit in memory."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from lakewright.storage.errors import UnavailableError


class Spill:
    """Numbered heaps of rows; each is filled piece by piece, then taken back once.

    Use it as a context: what is left of it on disk goes at the end.
    """

    def __init__(self, heaps: int) -> None:
        self._folder = TemporaryDirectory(prefix="lakewright-")
        self._writers: list[Any] = [None] * heaps

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for writer in self._writers:
            if writer is not None:
                writer.close()
        self._folder.cleanup()

    def put(self, heap: int, rows: pa.Table) -> None:
        """Add rows to a heap; all of a heap have the same columns.

        Raises:
            UnavailableError: the disk takes no more.
        """
        try:
            if self._writers[heap] is None:
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                path = str(self._path(heap))
                self._writers[heap] = pa.ipc.new_file(path, rows.schema, options=options)
            self._writers[heap].write_table(rows)
        except OSError as error:
            raise UnavailableError(
                f"rows cannot be put aside in {self._folder.name}: {error}; make room there, or "
                "point TMPDIR at a disk that has some"
            ) from error

    def take(self, heap: int) -> pa.Table | None:
        """All rows of a heap in the order they came, None if there are none; then it is empty."""
        writer, self._writers[heap] = self._writers[heap], None
        if writer is None:
            return None
        writer.close()
        path = self._path(heap)
        with pa.OSFile(str(path)) as source:
            rows = pa.ipc.open_file(source).read_all()
        path.unlink()
        return rows

    def _path(self, heap: int) -> Path:
        return Path(self._folder.name) / str(heap)
