"""The commits of one user, and the partitions that a commit changed."""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.arguments import text_argument
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.snapshot import Snapshot


def commits_of_user(files: TableFiles, user: str) -> Iterator[Snapshot]:
    """The retained snapshots that a user committed, newest first.

    Raises:
        InvalidRequestError: the user is no text.
    """
    text_argument(user, "commit_user")
    return (each for each in files.snapshots.newest_first() if each.commit_user == user)


def partitions_of_commit(files: TableFiles, snapshot: Snapshot) -> frozenset[Partition]:
    """The partitions in which a commit added or removed files."""
    entries = files.manifests.entries(files.manifests.read_delta_list(snapshot))
    return frozenset(files.partitions.of_entry(entry) for entry in entries)
