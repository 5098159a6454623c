"""What others changed after a snapshot, and manifests of it that are proved as they are written.

Manifests of a whole table follow the table by what each commit changed. A delta is followed only if
the snapshots lead from one to the other without a gap, if every file that they remove is known,
and if their rows add up. Otherwise the whole is looked at again: after a rollback, an expiry, or
another change of the keys.
"""

from __future__ import annotations

from collections.abc import Callable

from lakewright.storage.errors import CorruptionError, FileMissing, FilesGone, VerificationFailed
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.merge_manifests import write_base
from lakewright.storage.operations.state.latest import is_latest
from lakewright.storage.spec.commit import RestatedBase
from lakewright.storage.spec.manifest import (
    EntryIdentity,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
    fold_entries,
)
from lakewright.storage.spec.snapshot import FOLLOWS_PROPERTY, Snapshot

_ROUNDS_OF_CATCHING_UP = 5


def catch_up(
    files: TableFiles, at: Callable[[], Snapshot | None], follow: Callable[[Snapshot], object]
) -> None:
    """Follow the table to its latest snapshot from the one `at` which a caller is.

    Each round takes far less time than the one before, so few commits are left for the last.
    """
    for _ in range(_ROUNDS_OF_CATCHING_UP):
        latest = files.snapshots.latest()
        if latest is None or is_latest(files, at()):
            return
        try:
            follow(latest)
        except (CorruptionError, FilesGone, FileMissing):
            # A rollback, or a compaction and an expiry, may have removed files meanwhile.
            if is_latest(files, latest):
                raise


def changed_between(
    files: TableFiles, at: Snapshot, latest: Snapshot, is_known: Callable[[EntryIdentity], bool]
) -> list[ManifestEntry] | None:
    """What commits after `at` added and removed, up to `latest`; None if that is not sure.

    `is_known` tells whether a file was live in the snapshot `at`.
    """
    if latest.id < at.id:
        return None
    deltas: list[Snapshot] = []
    for snapshot in files.snapshots.back_from(latest):
        if snapshot.id != latest.id - len(deltas):
            return None
        if snapshot.id == at.id:
            if snapshot.delta_manifest_list != at.delta_manifest_list:
                return None
            break
        if FOLLOWS_PROPERTY in (snapshot.properties or {}):
            return None
        deltas.append(snapshot)
    else:
        return None
    store = files.manifests
    entries = store.entries(
        meta for delta in reversed(deltas) for meta in store.read_delta_list(delta)
    )
    found = list(fold_entries(entries).values())
    added = latest.total_record_count - at.total_record_count
    is_sure = added == sum(map(rows_of, found)) and all(
        is_known(each.identity) == (each.kind is FileKind.DELETE) for each in found
    )
    return found if is_sure else None


def write_proved(
    files: TableFiles, base: RestatedBase, written: list[str]
) -> list[ManifestFileMeta]:
    """Manifests of entries, which are read back; names of new files are added to `written`.

    Raises:
        VerificationFailed: the store holds other entries than were written.
    """
    metas = list(write_base(files, base, written))
    found = sorted(files.manifests.entries(metas), key=_name_and_kind)
    if found != sorted(base.entries, key=_name_and_kind):
        raise VerificationFailed(
            f"{len(metas)} manifests of {files.name} do not hold the {len(base.entries)} entries "
            "that were written to them for a change of its partition keys; nothing was published"
        )
    return metas


def rows_of(entry: ManifestEntry) -> int:
    """The rows that an entry adds to the table; negative if it removes them."""
    return entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count


def _name_and_kind(entry: ManifestEntry) -> tuple[str, str]:
    return entry.file.file_name, entry.kind.name
