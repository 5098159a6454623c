"""A register: a value in numbered files, of which the highest counts.

1. A process that changes the value reads the latest file and creates the next one, if it is absent.
2. A process that loses that race starts again at 1.
3. A process that wins looks again: if it was suspended, others may have used and deleted its
   number. Later files exist then, and it starts again at 1.
4. The winner deletes old files once there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakewright.storage.env import FileStatus
from lakewright.storage.errors import FileMissing, StorageError, UnavailableError
from lakewright.storage.files.numbered_files import NumberedFiles
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.delete_files import discard_files

Value = TypeVar("Value")

_SHORTEST_WAIT_MS, _LONGEST_WAIT_MS = 50, 5_000
_MOST_TRIES = 100
# At this many files, a process deletes all but the last few, which readers may have listed.
_MOST_FILES, _FILES_KEPT = 8, 4
# An unfinished file of this age belongs to a dead process.
_UNFINISHED_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(Generic[Value]):
    """The register in `store`; without a file the value is `empty`.

    `decode` gets a file's bytes and its path. `what` names the value for messages.
    """

    files: TableFiles
    what: str
    store: NumberedFiles
    empty: Value
    encode: Callable[[Value], bytes]
    decode: Callable[[bytes, str], Value]

    def latest(self) -> Value:
        """The present value.

        Raises:
            UnavailableError: other processes changed it at every try.
        """
        return self._latest(self.store.listing())[1]

    def change(self, edit: Callable[[Value], Value]) -> Value:
        """Replace the value by what `edit` makes of it, and return the latest one.

        `edit` may be called again, also with a value that has its change, which it must then keep.

        Raises:
            UnavailableError: other processes changed the value at every try.
        """
        pause = float(_SHORTEST_WAIT_MS)
        for _ in range(_MOST_TRIES):
            listing = self.store.listing()
            number, value = self._latest(listing)
            changed = edit(value)
            if changed == value:
                return value
            if self.store.put(number + 1, self.encode(changed)):
                self._delete_old(listing)
                if self.store.numbers(self.store.listing())[-1:] in ([number + 1], []):
                    return changed
                continue
            self.files.env.sleep_ms(pause * (0.5 + self.files.env.jitter()))
            pause = min(1.5 * pause, _LONGEST_WAIT_MS)
        raise self._busy()

    def _latest(self, listing: Sequence[FileStatus]) -> tuple[int, Value]:
        for _ in range(_MOST_TRIES):
            numbers = self.store.numbers(listing)
            if not numbers:
                return 0, self.empty
            path = self.store.path(numbers[-1])
            try:
                return numbers[-1], self.decode(self.files.fs.read_bytes(path), path)
            except FileMissing:
                # Another process created later files and deleted this one.
                listing = self.store.listing()
        raise self._busy()

    def _delete_old(self, listing: Sequence[FileStatus]) -> None:
        """Delete old files, and unfinished ones of dead processes."""
        numbers = self.store.numbers(listing)
        if len(numbers) < _MOST_FILES:
            return
        since_ms = self.files.env.now_ms() - _UNFINISHED_MS
        dead = [
            status.path
            for status in listing
            if status.name.startswith(f".{self.store.prefix}") and status.modified_ms < since_ms
        ]
        # After a failure, the next process that changes the value deletes them.
        with suppress(StorageError):
            discard_files(self.files.fs, [*map(self.store.path, numbers[:-_FILES_KEPT]), *dead])

    def _busy(self) -> UnavailableError:
        return UnavailableError(
            f"other processes changed the {self.what} of {self.files.name} {_MOST_TRIES} times "
            "meanwhile; try again"
        )
