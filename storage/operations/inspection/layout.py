"""How the files of a snapshot lie, and which files in their folders the snapshot does not name.

1. Layout: sum up the live files by bucket, and list the manifests that name them.
2. Unnamed files: draw some bucket folders by a seed, list them, and compare with the layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from lakewright.storage.codec.byte_slices import array_spans, joined, keys_of
from lakewright.storage.env import FileStatus
from lakewright.storage.errors import (
    InvalidOption,
    NotFoundError,
    UnreadableManifest,
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.assign_buckets import left_behind
from lakewright.storage.operations.state.bucket_columns import BucketColumns, bucket_columns
from lakewright.storage.operations.state.live_files import index_entries, live_entries
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.operations.state.table_stats import PartitionStats, partition_stats
from lakewright.storage.spec.index import IndexEntry, check_known_indexes
from lakewright.storage.spec.known_options import Use
from lakewright.storage.spec.manifest import FileKind, ManifestFileMeta
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.snapshot import Snapshot, check_known_fields
from lakewright.storage.spec.supported_options import check_readable, check_supported

# The bits of the golden ratio: multiples of it, cut to 64 bits, lie as if they were drawn.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
# The files that so many last snapshots replaced are known to belong to older ones. Upkeep leaves
# fewer snapshots than this; a longer history is itself the first thing to shorten.
_LAST_SNAPSHOTS = 30


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """The buckets and manifests of a snapshot; `deletion_vectors` counts files with deleted rows.

    `small_manifests` have less than the table's target size. `left_behind` counts partitions whose
    number of buckets was that of the option `bucket` until it changed.
    """

    files: TableFiles
    metas: tuple[ManifestFileMeta, ...]
    buckets: BucketColumns
    deletion_vectors: int
    manifests: int
    manifest_bytes: int
    small_manifests: int
    left_behind: int

    @property
    def partitions(self) -> int:
        return len(np.unique(self.buckets.partition))

    def worst_partitions(self, most: int) -> tuple[PartitionStats, ...]:
        """The partitions with the most files to join in a bucket, worst first."""
        by_partition = np.zeros(len(self.buckets.partition_rows), np.int64)
        weight = self.buckets.mergeable_count + self.buckets.waiting_file_count
        np.maximum.at(by_partition, self.buckets.partition, weight)
        worst = np.argsort(-by_partition, kind="stable")[:most]
        chosen = worst[by_partition[worst] > 0].tolist()
        stats = partition_stats(self.files, self.buckets, chosen)
        return tuple(sorted(stats, key=lambda each: -_weight(each)))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnamedFiles:
    """Files in `folders` of `of_folders` bucket folders that the snapshot does not name.

    Files that the last 30 snapshots replaced are not counted, where an older snapshot needs them.
    Still older snapshots, tags or writers at work may need the rest. Folders without a live file
    are not looked at, and changelog files are not counted.
    """

    folders: int
    of_folders: int
    count: int
    size_bytes: int


def read_layout(
    files: TableFiles, snapshot: Snapshot | None, metas: Sequence[ManifestFileMeta]
) -> Layout:
    """The layout of a snapshot, from its manifests.

    Raises:
        CorruptionError: the manifests contradict each other, or one is missing or damaged.
        UnsupportedError: a primary key had another type when one of the files was written, or an
            index file lies outside of the table.
    """
    target = files.options.manifest_target_file_size
    buckets = bucket_columns(files, metas, PartitionFilter(files))
    counts = {files.at_schema(schema_id).options.bucket for schema_id in buckets.schema_ids}
    may_lag = files.options.bucket_mode is BucketMode.FIXED and counts != {files.options.bucket}
    entries = live_entries(files, snapshot, manifests=metas) if may_lag else ()
    return Layout(
        files=files,
        metas=tuple(metas),
        buckets=buckets,
        deletion_vectors=sum(
            len(entry.file.deletion_vectors or ()) for entry in index_entries(files, snapshot)
        ),
        manifests=len(metas),
        manifest_bytes=sum(meta.file_size for meta in metas),
        small_manifests=sum(meta.file_size < target for meta in metas),
        left_behind=len(left_behind(files, entries)),
    )


def unnamed_files(layout: Layout, *, most_folders: int, seed: int) -> UnnamedFiles:
    """List some bucket folders of the layout, and count what the snapshot does not name."""
    files, buckets = layout.files, layout.buckets
    # The seed alone draws, so that a second look lists the same folders.
    dealt = (np.arange(len(buckets), dtype=np.uint64) + np.uint64(seed)) * _FACTOR
    drawn = np.argsort(dealt, kind="stable")[:most_folders].tolist()
    folders = {_folder(layout, index): [index] for index in sorted(drawn)}
    # Null, empty and blank values share it.
    if any(f"={files.options.partition_default_name}" in folder for folder in folders):
        folders = {folder: [] for folder in folders}
        for index in range(len(buckets)):
            folders.get(_folder(layout, index), []).append(index)
    unnamed: list[FileStatus] = []
    for folder, indexes in folders.items():
        listed = [
            each
            for each in files.fs.list_dir(folder)
            if not each.name.startswith((files.options.changelog_file_prefix, "."))
        ]
        unnamed += _unnamed(listed, np.concatenate([*map(buckets.names_of, indexes)]))
    if unnamed:
        replaced = _replaced_names(files)
        condemned = {files.paths.below(name.path) for name in files.condemned.all_names()}
        unnamed = [
            each
            for each in unnamed
            if each.path not in condemned and replaced.isdisjoint(_names_for(each))
        ]
    return UnnamedFiles(
        folders=len(drawn),
        of_folders=len(buckets),
        count=len(unnamed),
        size_bytes=sum(each.size for each in unnamed),
    )


# Uses that commit snapshots, which keep an index right or fail.
_COMMITS = {Use.WRITE, Use.COMPACT, Use.TAG}


def refused_uses(files: TableFiles, snapshot: Snapshot | None) -> dict[Use, str]:
    """The uses that this release refuses for the table, each with the reason."""
    found: dict[Use, str] = {}
    indexes: Sequence[IndexEntry] | None = None
    for use in Use:
        try:
            if use is Use.READ:
                check_readable(files.schema, table=files.name)
                continue
            check_supported(files.schema, use, table=files.name)
            if snapshot is not None:
                check_known_fields(snapshot, table=files.name)
                if use in _COMMITS:
                    indexes = index_entries(files, snapshot) if indexes is None else indexes
                    check_known_indexes(indexes, table=files.name)
        except (UnsupportedError, InvalidOption) as error:
            found[use] = error.message
    return found


def _folder(layout: Layout, index: int) -> str:
    buckets = layout.buckets
    number = int(buckets.partition[index])
    place = Place(buckets.partition_rows[number], int(buckets.bucket[index]))
    return layout.files.bucket_dir(place, buckets.partition_schemas[number])


def _replaced_names(files: TableFiles) -> set[str]:
    """The data files that the last snapshots replaced, and that an older snapshot still needs."""
    found: set[str] = set()
    ids = sorted(files.snapshots.ids())
    for snapshot_id in ids[1:][-_LAST_SNAPSHOTS:]:
        # It may expire at this moment, and its files with it.
        with suppress(NotFoundError, UnreadableManifest):
            snapshot = files.snapshots.read(snapshot_id)
            metas = [
                each for each in files.manifests.read_delta_list(snapshot) if each.num_deleted_files
            ]
            found |= {
                entry.file.file_name
                for entry in files.manifests.entries(metas)
                if entry.kind is FileKind.DELETE
            }
    return found


def _unnamed(listed: list[FileStatus], live: np.ndarray) -> Iterable[FileStatus]:
    """The files that are not live, by none of the names that name them."""
    named = np.zeros(len(listed), bool)
    for names in zip(*map(_names_for, listed), strict=True):
        named |= np.isin(keys_of(*array_spans(joined([name.encode() for name in names]))), live)
    return (each for each, is_named in zip(listed, named, strict=True) if not is_named)


def _names_for(file: FileStatus) -> tuple[str, str, str]:
    """The names that may name a file: a file of its own beside a data file has its name too."""
    shorter = file.name.rsplit(".", 1)[0]
    return file.name, shorter, shorter.rsplit(".", 1)[0]


def _weight(stats: PartitionStats) -> int:
    return max(max(bucket.small_file_count, bucket.sorted_run_count) for bucket in stats.buckets)
