"""Rewrites a bucket's deletion vectors after a compaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.index import DeletionVectorRange, IndexFileMeta


def deletions_of(
    indexes: Sequence[IndexFileMeta], names: Collection[str]
) -> tuple[tuple[str, DeletionVectorRange], ...]:
    """Deletion vectors of some data files, each with its index file."""
    return tuple(
        (index.file_name, vector)
        for index in indexes
        for vector in index.deletion_vectors or ()
        if vector.data_file in names
    )


def deleted_positions(
    files: TableFiles, vectors: Iterable[tuple[str, DeletionVectorRange]]
) -> dict[str, np.ndarray]:
    """Positions of the deleted rows, by data file."""
    by_index: dict[str, list[DeletionVectorRange]] = defaultdict(list)
    for index_file, vector in vectors:
        by_index[index_file].append(vector)
    return {
        name: gone
        for index_file, ranges in by_index.items()
        for name, gone in files.indexes.read_deletion_vectors(index_file, ranges).items()
    }


def replace_deletion_vectors(
    files: TableFiles,
    indexes: Sequence[IndexFileMeta],
    *,
    live: Collection[str],
    marked: Mapping[str, Sequence[np.ndarray]],
    write_id: str,
) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
    """A bucket's deletion vectors after a rewrite: the new index file, and the replaced files.

    `live` are the data files that stay; `marked` are the positions of newly deleted rows.
    """
    kept = deletions_of(indexes, live)
    if not marked and len(kept) == sum(len(index.deletion_vectors or ()) for index in indexes):
        return (), ()
    positions = deleted_positions(files, kept)
    for name, marks in marked.items():
        known = positions.get(name, np.empty(0, dtype=np.int64))
        positions[name] = np.unique(np.concatenate([known, *marks]))
    if not positions:
        return (), tuple(indexes)
    written = files.indexes.write_deletion_vectors(
        positions, write_id=write_id, bitmap64=files.options.deletion_vectors_bitmap64
    )
    return (written,), tuple(indexes)
