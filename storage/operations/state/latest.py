"""Reading the latest snapshot while other processes commit, roll back and expire.

No process deletes a file that the latest snapshot names. A missing file is therefore corruption
only if the snapshot still is the latest. Otherwise the reader retries with the newer snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from lakewright.storage.errors import (
    CorruptionError,
    FileMissing,
    SnapshotNotFound,
    StalePlan,
    VerificationFailed,
)
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.snapshot import Snapshot

Read = TypeVar("Read")


def read_latest(
    files: TableFiles, read: Callable[[Snapshot | None], Read]
) -> tuple[Snapshot | None, Read]:
    """The latest snapshot and the result of `read` for it; retries if it was replaced meanwhile.

    Raises:
        CorruptionError: a file is missing although the snapshot still is the latest.
    """
    rounds = Rounds(files.name, "its latest snapshot was read")
    while True:
        rounds.begin()
        latest = files.snapshots.latest()
        try:
            return latest, read(latest)
        except CorruptionError:
            if is_latest(files, latest):
                raise


def planned_snapshot(files: TableFiles, snapshot_id: int) -> Snapshot:
    """The snapshot that a plan was made for.

    Raises:
        StalePlan: it has expired; plan again.
    """
    try:
        return files.snapshots.read(snapshot_id)
    except SnapshotNotFound as error:
        raise StalePlan(
            f"snapshot {snapshot_id} of {files.name}, which the plan was made for, is expired; "
            "plan again"
        ) from error


def is_latest(files: TableFiles, snapshot: Snapshot | None) -> bool:
    """Whether a snapshot still is the latest: no commit or rollback followed it."""
    latest = files.snapshots.latest()
    if latest is None or snapshot is None:
        return latest is snapshot
    # Snapshot ids repeat after a rollback, so the delta list identifies the snapshot.
    return latest.delta_manifest_list == snapshot.delta_manifest_list


@contextmanager
def stale_if_replaced(
    files: TableFiles, seen: Callable[[], Snapshot | None], what: str
) -> Iterator[None]:
    """Tell a missing file apart from one that went since the snapshot `seen` was the latest.

    Raises:
        StalePlan: it is the latest no more; says `what` read its files.
    """
    try:
        yield
    except (CorruptionError, FileMissing) as error:
        if isinstance(error, VerificationFailed) or is_latest(files, seen()):
            raise
        raise StalePlan(
            f"{files.name} was rolled back, or files of it were replaced, while its files were "
            f"read for {what}; plan again"
        ) from error
