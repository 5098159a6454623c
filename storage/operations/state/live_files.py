"""The manifest entries, data files and index files that a snapshot holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.keys import check_key_types
from lakewright.storage.operations.state.live_columns import LiveColumns, live_columns
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.index import DeletionVectorRange, IndexEntry
from lakewright.storage.spec.manifest import FileKind, ManifestEntry, ManifestFileMeta, fold_entries
from lakewright.storage.spec.merge_spec import MergeEngine
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.snapshot import Snapshot


def snapshot_manifests(files: TableFiles, snapshot: Snapshot) -> tuple[ManifestFileMeta, ...]:
    """The manifests of a snapshot's state, oldest first."""
    return files.manifests.read_state_lists(snapshot)


def index_entries(files: TableFiles, snapshot: Snapshot | None) -> tuple[IndexEntry, ...]:
    """Every index file of a snapshot's state.

    Raises:
        UnsupportedError: an index file lies outside of the table.
    """
    if snapshot is None or snapshot.index_manifest is None:
        return ()
    entries = files.manifests.read_index_manifest(snapshot.index_manifest)
    for entry in entries:
        if entry.file.external_path is not None:
            raise UnsupportedError(
                f"{files.name}: index file {entry.file.file_name} lies outside of the table, at "
                f"{entry.file.external_path}, which is not implemented"
            )
    return entries


def live_entries(
    files: TableFiles,
    snapshot: Snapshot | None,
    *,
    partitions: Iterable[bytes] | None = None,
    predicate: Predicate | None = None,
    manifests: Sequence[ManifestFileMeta] | None = None,
) -> list[ManifestEntry]:
    """Files of a snapshot's state, of all or some partitions, in manifest order.

    `predicate` may use any column; only its part on partition columns is applied here. `manifests`
    are the snapshot's manifests, if the caller has already read the lists.
    """
    if snapshot is None:
        return []
    wanted = PartitionFilter(files, rows=partitions, predicate=predicate)
    named = snapshot_manifests(files, snapshot) if manifests is None else manifests
    if not wanted.takes_all:
        # Of the other partitions nothing becomes an object.
        return live_columns(files, named, wanted).entries()
    return _live(_entries(files, named, wanted))


def _entries(
    files: TableFiles, metas: Iterable[ManifestFileMeta], wanted: PartitionFilter
) -> Iterator[ManifestEntry]:
    keep = None if wanted.takes_all else wanted.takes
    return files.manifests.entries(metas, keep_entry=keep)


def _live(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    return [entry for entry in fold_entries(entries).values() if entry.kind is FileKind.ADD]


# The entries of the manifests that a committer's last state named, by partitions and name.
KnownEntries: TypeAlias = dict[frozenset[bytes] | None, dict[str, tuple[ManifestEntry, ...]]]


def live_entries_known(
    files: TableFiles,
    metas: Sequence[ManifestFileMeta],
    partitions: frozenset[bytes] | None,
    known: KnownEntries,
) -> list[ManifestEntry]:
    """`live_entries` for a committer that reads one snapshot after another.

    Manifests never change. Each is read once while snapshots name it, so a later snapshot costs
    only its new manifests. A losing commit retries as fast as the winners commit.
    """
    wanted = PartitionFilter(files, rows=partitions)
    before = known.get(partitions, {})
    known[partitions] = {
        meta.file_name: before.get(meta.file_name) or tuple(_entries(files, [meta], wanted))
        for meta in metas
        if wanted.may_hold(meta)
    }
    return _live(chain.from_iterable(known[partitions].values()))


def readable_entries(files: TableFiles, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Entries whose rows a reader sees; the other entries wait for a compaction.

    The invisible entries are those of postponed buckets, and level 0 of tables whose compaction
    decides which row of a key wins.

    Raises:
        UnsupportedError: a primary key had another type when one of the files was written.
    """
    hides_level_0 = level_0_waits(files)
    readable = [
        entry
        for entry in entries
        if entry.bucket >= 0 and not (hides_level_0 and entry.file.level == 0)
    ]
    check_key_types(files, {entry.file.schema_id for entry in readable})
    return readable


def readable_rows(files: TableFiles, live: LiveColumns, rows: np.ndarray) -> np.ndarray:
    """The rows of files whose rows a reader sees, as `readable_entries` chooses them.

    Raises:
        UnsupportedError: a primary key had another type when one of the files was written.
    """
    readable = live.numbers("_BUCKET", rows) >= 0
    if level_0_waits(files):
        readable &= live.numbers("_FILE._LEVEL", rows) != 0
    found: np.ndarray = rows[readable]
    check_key_types(files, np.unique(live.numbers("_FILE._SCHEMA_ID", found)).tolist())
    return found


def level_0_waits(files: TableFiles) -> bool:
    """Whether a compaction must take up files of level 0 before their rows are visible."""
    merges = files.options.deletion_vectors_merge_on_read
    return looks_level_0_up(files) and not (files.options.deletion_vectors_enabled and merges)


def looks_level_0_up(files: TableFiles) -> bool:
    """Whether compactions take files of level 0 up as soon as there are any."""
    # Also called for tables with unreadable merge options: their files can still be counted.
    engine = files.schema.options.get("merge-engine", "").strip().lower()
    return files.schema.has_primary_key and (
        files.options.deletion_vectors_enabled or engine == MergeEngine.FIRST_ROW.value
    )


def deletions_by_bucket(
    entries: Iterable[IndexEntry],
) -> dict[Place, tuple[tuple[str, DeletionVectorRange], ...]]:
    """The deletion vectors of every bucket, each with the name of its index file."""
    found: dict[Place, tuple[tuple[str, DeletionVectorRange], ...]] = {}
    for entry in entries:
        vectors = entry.file.deletion_vectors or ()
        found[entry.place] = (
            *found.get(entry.place, ()),
            *((entry.file.file_name, vector) for vector in vectors),
        )
    return found


class _OfPartition(Protocol):
    @property
    def partition(self) -> bytes: ...


_Own = TypeVar("_Own", bound=_OfPartition)


def by_partition(items: Iterable[_Own]) -> dict[bytes, list[_Own]]:
    """What belongs to partitions, by their rows."""
    found: dict[bytes, list[_Own]] = defaultdict(list)
    for each in items:
        found[each.partition].append(each)
    return found


def grouped_by_bucket(entries: Iterable[ManifestEntry]) -> dict[Place, list[ManifestEntry]]:
    """Entries by bucket, sorted by place; the entries of a bucket keep their order."""
    found: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in entries:
        found.setdefault((entry.partition, entry.bucket), []).append(entry)
    return {Place(*place): found[place] for place in sorted(found)}
