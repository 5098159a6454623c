"""The clocks that ages are decided by: the store's own, and that of this machine.

Only the store's clock can tell the age of the store's files. Snapshots, tags and partitions are
dated by the clocks of machines, so their ages are those that this machine's clock says, once it is
compared with the store's.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from lakewright.storage.errors import ClockJumped, FileMissing, UnavailableError, UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.delete_files import discard_files, remove_empty_folders
from lakewright.storage.operations.state.time_travel import moment_text
from lakewright.storage.spec.snapshot import Snapshot

# How far in the future a time may lie before ages count as unreliable.
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
                    "ages are unknown; nothing was removed"
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
    if is_ahead(latest_ms, now_ms):
        raise ClockJumped(
            f"the clock of the store says {moment_text(now_ms)}, and file {path} of {files.name} "
            f"has the later time {moment_text(latest_ms)}, so ages are unknown; nothing was "
            f"{what}; correct the clock of the store, or wait until it has passed that time",
            now_ms=now_ms,
            latest_ms=latest_ms,
        )


def check_machine_clock(files: TableFiles, latest: Snapshot | None) -> None:
    """Check that no snapshot is from the future by the clock of this machine.

    Raises:
        ClockJumped: the latest snapshot is; names both times, and the way out.
    """
    now_ms = files.env.now_ms()
    if latest is not None and is_ahead(latest.time_millis, now_ms):
        raise ClockJumped(
            f"snapshot {latest.id} of {files.name} is of {moment_text(latest.time_millis)}, and "
            f"the clock of this machine says {moment_text(now_ms)}, so ages are unknown; correct "
            "the clock of this machine if it is behind; if the snapshot was committed under a "
            f"wrong clock, the next commit is dated right again (lakewright analyze {files.name} "
            "makes one)",
            latest_ms=latest.time_millis,
            now_ms=now_ms,
        )


def check_not_ahead(files: TableFiles) -> None:
    """Check that the clock of this machine is not ahead of the store's, before what is old goes.

    Raises:
        ClockJumped: it is; names both times.
    """
    try:
        store_ms = read_store_clock(files)
    except UnsupportedError:
        return
    now_ms = files.env.now_ms()
    if is_ahead(now_ms, store_ms):
        raise ClockJumped(
            f"the clock of this machine says {moment_text(now_ms)}, and the store of {files.name} "
            f"says {moment_text(store_ms)}, so ages are unknown; nothing was deleted; correct the "
            "clock of this machine, or that of the store",
            latest_ms=now_ms,
            now_ms=store_ms,
        )


def is_ahead(time_ms: int, now_ms: int) -> bool:
    """Whether a time lies in the future by more than clocks may differ."""
    return time_ms > now_ms + _MOST_AHEAD_MS
