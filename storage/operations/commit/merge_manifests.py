"""Merges the manifests of the base list, so that their number stays small.

1. Full merge: if the manifests with deletions or below the target size reach the threshold in
   total, rewrite these and every manifest that holds a deleted entry. Drop the deleted entries.
2. Otherwise a minor merge: join neighbours up to the target size. Join the last group only if it
   has enough manifests.

Manifests keep their order, since entries are folded in order. Only a full merge moves manifests
to the front: those that hold no deletion and no deleted entry.

Source: Paimon `ManifestFileMerger`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.copied_manifests import write_copies
from lakewright.storage.operations.state.deleted_names import may_hold_deleted
from lakewright.storage.operations.state.live_columns import folded_rows
from lakewright.storage.spec.commit import RestatedBase
from lakewright.storage.spec.manifest import ManifestEntry, ManifestFileMeta, fold_entries
from lakewright.storage.spec.partition import PartitionKeys


def merge_manifests(
    files: TableFiles, metas: Sequence[ManifestFileMeta], written: list[str]
) -> tuple[ManifestFileMeta, ...]:
    """Fewer manifests with the same merged entries; names of new files are added to `written`."""
    options = files.options
    target = options.manifest_target_file_size
    to_rewrite = [m for m in metas if m.num_deleted_files > 0 or m.file_size < target]
    if sum(meta.file_size for meta in to_rewrite) >= options.manifest_full_compaction_threshold:
        return _merge_fully(files, metas, written)
    return _merge_neighbours(files, metas, written)


def _merge_neighbours(
    files: TableFiles, metas: Sequence[ManifestFileMeta], written: list[str]
) -> tuple[ManifestFileMeta, ...]:
    options = files.options
    result: list[ManifestFileMeta] = []
    group: list[ManifestFileMeta] = []

    def close_group() -> None:
        result.extend(_rewrite(files, group, written))
        group.clear()

    for meta in metas:
        group.append(meta)
        if sum(each.file_size for each in group) >= options.manifest_target_file_size:
            if len(group) > 1:
                close_group()
            else:
                result.extend(group)
                group.clear()
    if len(group) >= options.manifest_merge_min_count:
        close_group()
    return (*result, *group)


def _merge_fully(
    files: TableFiles, metas: Sequence[ManifestFileMeta], written: list[str]
) -> tuple[ManifestFileMeta, ...]:
    may_hold = may_hold_deleted(files, metas)
    kept: list[ManifestFileMeta] = []
    rewritten: list[ManifestFileMeta] = []
    for meta in metas:
        is_small = meta.file_size < files.options.manifest_target_file_size
        if meta.num_deleted_files or is_small or may_hold(meta):
            rewritten.append(meta)
        else:
            kept.append(meta)
    # Kept manifests hold no deletion and no deleted entry, so they may come first.
    return (*kept, *_rewrite(files, rewritten, written))


def _rewrite(
    files: TableFiles, metas: Sequence[ManifestFileMeta], written: list[str]
) -> list[ManifestFileMeta]:
    stored = files.manifests.read_stored(metas, compression=files.options.manifest_compression)
    if stored is not None:
        return list(write_copies(files, stored, folded_rows(stored.entries), written))
    entries = fold_entries(files.manifests.entries(metas))
    return _write_chunks(files, list(entries.values()), written)


# Approximate size of a manifest entry. It only decides where a new manifest begins.
_ENTRY_BYTES = 160


def entries_of_a_manifest(files: TableFiles) -> int:
    """How many entries a manifest gets."""
    return max(1, files.options.manifest_target_file_size // _ENTRY_BYTES)


def _write_chunks(
    files: TableFiles, entries: list[ManifestEntry], written: list[str]
) -> list[ManifestFileMeta]:
    return [
        meta
        for keys, group in files.partitions.by_keys(entries)
        for meta in write_group(files, keys, group, written)
    ]


def write_base(
    files: TableFiles, base: RestatedBase, written: list[str]
) -> tuple[ManifestFileMeta, ...]:
    """Manifests of a restated base, in the order of its entries."""
    if base.keys is None:
        return tuple(_write_chunks(files, list(base.entries), written))
    return tuple(write_group(files, base.keys, base.entries, written))


def write_group(
    files: TableFiles, keys: PartitionKeys, entries: Sequence[ManifestEntry], written: list[str]
) -> Iterator[ManifestFileMeta]:
    """Manifests of the target size, with the entries in their order."""
    step = entries_of_a_manifest(files)
    for start in range(0, len(entries), step):
        yield files.manifests.write_manifest(
            entries[start : start + step],
            keys=keys,
            compression=files.options.manifest_compression,
            written=written,
        )
