"""Commits the new content of whole partitions: their files go, and other files may come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain

from lakewright.storage.errors import StalePlan, StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.commit_loop import commit_change
from lakewright.storage.operations.references.tags import create_due_tags
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.commit import Change, CommitMessage, Committable
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.snapshot import CommitKind, Snapshot

# Names of the data and index files of partitions, by their rows.
HeldNames = Mapping[bytes, Collection[str]]


def commit_partitions(
    files: TableFiles,
    held: HeldNames,
    messages: Sequence[CommitMessage] = (),
    *,
    user: str,
    base: Snapshot | None,
    leave_out_changed: bool = False,
    check: Callable[[], object] | None = None,
) -> tuple[Snapshot | None, frozenset[bytes]]:
    """Replace the files of the partitions in `held` by those of `messages`, in one OVERWRITE.

    `held` names the files that each partition must still have, none for a partition that must not
    exist. Returns the snapshot, and the partitions that were left out, with `leave_out_changed`,
    since other commits changed them. `check` raises if the commit must not be made: each attempt
    calls it right before it writes manifests.

    Raises:
        StalePlan: a partition has other files; nothing is published.
        CommitOutcomeUnknownError: the store failed while the snapshot was created.
    """
    files = files.reading_once()
    changed: set[bytes] = set()

    def build(state: TableState) -> Change | None:
        live = state.entries_of(held)
        indexes = [index for index in state.indexes if index.partition in held]
        now = names_by_partition(live, indexes)
        changed.clear()
        changed.update(row for row, names in held.items() if now.get(row, set()) != set(names))
        if changed and not leave_out_changed:
            base_id = None if base is None else base.id
            why = stale_partitions(files, changed, base_id, state.snapshot)
            raise StalePlan(why)
        if check is not None:
            check()
        return Change(
            entries=[
                *(entry.removed() for entry in live if entry.partition not in changed),
                *(entry for message in messages for entry in message.entries(message.new_files)),
            ],
            new_indexes=[entry for message in messages for entry in message.new_index_entries],
            removed_indexes=[index for index in indexes if index.partition not in changed],
        )

    result = commit_change(
        files,
        build,
        Committable(
            user=user,
            kind=CommitKind.OVERWRITE,
            base_id=None if base is None else base.id,
            base_commit=None if base is None else base.delta_manifest_list,
        ),
    )
    if result.snapshot is not None:
        # The commit stands. The next commit makes a missing tag.
        with suppress(StorageError):
            create_due_tags(files)
    return result.snapshot, frozenset(changed)


def names_by_partition(*entries: Iterable[ManifestEntry | IndexEntry]) -> dict[bytes, set[str]]:
    """Names of data and index files by the rows of their partitions."""
    found: dict[bytes, set[str]] = {}
    for entry in chain.from_iterable(entries):
        found.setdefault(entry.partition, set()).add(entry.file.file_name)
    return found


def stale_partitions(
    files: TableFiles, changed: Collection[bytes], since_id: int | None, latest: Snapshot | None
) -> str:
    """The message that other commits changed partitions since a snapshot."""
    first = files.partitions.of_row(min(changed)).named
    others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return (
        f"other commits changed {first} of {files.name}{others} since snapshot "
        f"{since_id or 'none'}; the latest is {'none' if latest is None else latest.id}; plan again"
    )
