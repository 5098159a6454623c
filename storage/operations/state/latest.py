"""Working from the latest snapshot, which others may replace and take away at any moment.

Nobody deletes what the latest snapshot names. So what is missing while one reads is a fault only
if the snapshot still is the latest; otherwise there is a newer one to read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakewright.storage.errors import CorruptionError
from lakewright.storage.files.rounds import Rounds
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.snapshot import Snapshot

Read = TypeVar("Read")

# A tag that holds the target of a rollback while the rest goes.
ROLLBACK_PIN = "rollback-in-progress-"


def read_latest(
    files: TableFiles, read: Callable[[Snapshot | None], Read]
) -> tuple[Snapshot | None, Read]:
    """The latest snapshot and what `read` makes of it; anew where it went meanwhile.

    Raises:
        CorruptionError: something is missing though the snapshot still is the latest.
    """
    rounds = Rounds(files.name, "what its latest snapshot names was read")
    while True:
        rounds.begin()
        latest = files.snapshots.latest()
        try:
            return latest, read(latest)
        except CorruptionError:
            if is_latest(files, latest):
                raise


def is_latest(files: TableFiles, snapshot: Snapshot | None) -> bool:
    """Whether nobody has committed or rolled back since a snapshot was the latest."""
    latest = files.snapshots.latest()
    if latest is None or snapshot is None:
        return latest is snapshot
    # After a rollback the ids come again.
    return latest.delta_manifest_list == snapshot.delta_manifest_list


def is_being_rolled_back(files: TableFiles) -> bool:
    """Whether a rollback is under way, or was stopped halfway."""
    return any(name.startswith(ROLLBACK_PIN) for name in files.references.tag_names())
