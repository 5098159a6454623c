"""The store's own clock: only this clock can tell the age of the store's files."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from lakewright.storage.errors import (
    ClockJumped,
    FileMissing,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.delete_files import discard_files, remove_empty_folders
from lakewright.storage.operations.state.time_travel import moment_text

# How far in the future a file's time may lie before ages count as unreliable.
_MOST_AHEAD_MS = 600_000
_ATTEMPTS = 5


def read_store_clock(files: TableFiles) -> int:
    """Milliseconds since the epoch by the store's clock: writes, stats and deletes a file.

    Raises:
        UnsupportedError: the store does not say when files were written.
        UnavailableError: other processes deleted the file on every attempt.
    """
    path = files.paths.store_clock
    for _ in range(_ATTEMPTS):
        # Another process may delete the folder before the file is written.
        with suppress(FileMissing):
            files.fs.write_bytes(path, b"what time is it\n")
        # All processes use one name: the next process deletes the file that a crash left behind.
        found = [each for each in files.fs.list_dir(files.paths.upkeep_dir) if each.path == path]
        discard_files(files.fs, [path])
        remove_empty_folders(files.fs, [files.paths.upkeep_dir], below=files.paths.root)
        if found:
            if found[0].modified_ms <= 0:
                raise UnsupportedError(
                    f"the store of {files.name} does not say when files were written, so their "
                    "ages are unknown; nothing was removed",
                    table=files.name,
                )
            return found[0].modified_ms
    raise UnavailableError(
        f"{path} was deleted {_ATTEMPTS} times before its time could be read; try again", path=path
    )


def check_clock(
    files: TableFiles, now_ms: int, newest: Iterable[tuple[str, int]], *, what: str
) -> None:
    """Check that no file is from the future, by pairs of a path and a time.

    Raises:
        ClockJumped: a file is from the future; the message names the latest file.
    """
    path, latest_ms = max(newest, key=lambda each: each[1], default=("", 0))
    if latest_ms > now_ms + _MOST_AHEAD_MS:
        raise ClockJumped(
            f"the clock of the store says {moment_text(now_ms)}, and file {path} of {files.name} "
            f"has the later time {moment_text(latest_ms)}, so ages are unknown; nothing was "
            f"{what}; correct the clock of the store, or wait until it has passed that time",
            table=files.name,
            now_ms=now_ms,
            latest_ms=latest_ms,
        )
