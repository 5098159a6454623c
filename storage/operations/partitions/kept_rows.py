"""Proves from histories what became of the copies of an exchange that was stopped.

Only rewrites (compactions) keep the rows of a partition. So its rows are those of an earlier state
if each commit since that changed its files was one, in an unbroken lineage. What a proof needs may
have expired; then nothing is proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from lakewright.storage.errors import CorruptionError, NotFoundError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.replace_partitions import names_by_partition
from lakewright.storage.operations.state.lineage import Lineage
from lakewright.storage.operations.state.live_files import index_entries, live_entries
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.file_names import is_copy, origin_of
from lakewright.storage.spec.manifest import FileKind, ManifestEntry
from lakewright.storage.spec.snapshot import CommitKind, Snapshot

_KEEPS_ROWS = (CommitKind.COMPACT, CommitKind.ANALYZE)


def has_all_rows(
    files: TableFiles,
    here: Snapshot | None,
    other: TableFiles,
    there: Snapshot | None,
    row: bytes,
) -> bool:
    """Whether a partition here provably holds all rows that it holds in the other table.

    The partition here was copied from there; since then it was rewritten, or got more rows. There
    it was rewritten at most.
    """
    with suppress(NotFoundError, CorruptionError):
        for at, names in _states(files, here, row, may_grow=True):
            if names and all(map(is_copy, names)) and _is_unbroken(files, at, here):
                copied = sorted(map(origin_of, names))
                if _has_held(other, there, row, copied):
                    return True
    return False


def _has_held(files: TableFiles, latest: Snapshot | None, row: bytes, due: list[str]) -> bool:
    return any(
        sorted(map(origin_of, names)) == due and _is_unbroken(files, at, latest)
        for at, names in _states(files, latest, row, may_grow=False)
    )


def kept_names(
    files: TableFiles, latest: Snapshot | None, row: bytes, names: frozenset[str]
) -> bool:
    """Whether the rows of data files are provably still in a partition that once held them."""
    with suppress(NotFoundError, CorruptionError):
        return any(
            names <= held and _is_unbroken(files, at, latest)
            for at, held in _states(files, latest, row, may_grow=True)
        )
    return False


def is_untouched(files: TableFiles, latest: Snapshot | None, row: bytes) -> bool | None:
    """Whether no row went from a partition since one commit added all of its data files.

    None if that commit has expired.
    """
    changed = False
    with suppress(NotFoundError, CorruptionError):
        for at, _ in _states(files, latest, row, may_grow=False):
            changes = _changes(files, at, row)
            changed = bool(changes) and at.commit_kind not in _KEEPS_ROWS
            held = {each.file.file_name for each in live_entries(files, at, partitions=[row])}
            added = {each.file.file_name for each in changes if each.kind is FileKind.ADD}
            if changed and held and held <= added:
                return True if _is_unbroken(files, at, latest) else None
        return False if changed else None
    return None


def _states(
    files: TableFiles, latest: Snapshot | None, row: bytes, *, may_grow: bool
) -> Iterator[tuple[Snapshot, frozenset[str]]]:
    """What a partition held, newest first, as long as it had the rows that it has now.

    With `may_grow`, it may have got more rows since. Names are those of data and index files.
    """
    newer: tuple[Snapshot, list[ManifestEntry], frozenset[str]] | None = None
    for each in () if latest is None else files.snapshots.back_from(latest):
        if files.schemas.read(each.schema_id).partition_keys != files.schema.partition_keys:
            return
        indexes = [index for index in index_entries(files, each) if index.partition == row]
        names = frozenset(index.file.file_name for index in indexes)
        if newer is not None and not _keeps_rows(files, *newer, names, may_grow=may_grow):
            return
        found = names_by_partition(live_entries(files, each, partitions=[row]), indexes)
        yield each, frozenset(found.get(row, ()))
        newer = each, _changes(files, each, row), names


def _keeps_rows(
    files: TableFiles,
    snapshot: Snapshot,
    changes: list[ManifestEntry],
    indexes: frozenset[str],
    before: frozenset[str],
    *,
    may_grow: bool,
) -> bool:
    # Without a primary key, an index file marks rows that a statement deleted.
    if not files.schema.has_primary_key and not indexes <= before:
        return False
    if not changes or snapshot.commit_kind in _KEEPS_ROWS:
        return True
    is_append = snapshot.commit_kind is CommitKind.APPEND
    return may_grow and is_append and all(each.kind is FileKind.ADD for each in changes)


def _changes(files: TableFiles, snapshot: Snapshot, row: bytes) -> list[ManifestEntry]:
    """The entries of a commit that concern a partition."""
    wanted = PartitionFilter(files, rows=[row])
    metas = [meta for meta in files.manifests.read_delta_list(snapshot) if wanted.may_hold(meta)]
    return [each for each in files.manifests.entries(metas) if each.partition == row]


def _is_unbroken(files: TableFiles, first: Snapshot, latest: Snapshot | None) -> bool:
    """Whether each snapshot from one to another was made on top of the one before it."""
    if latest is None or first.id == latest.id:
        return latest is not None
    listed = files.snapshots.listed()
    between = {each: status for each, status in listed.items() if first.id <= each <= latest.id}
    return first.id in between and not Lineage().breaks(files, between, first.id)
