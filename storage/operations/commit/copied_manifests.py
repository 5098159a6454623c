"""Writes manifests of stored entries, copied as they are encoded, and says what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from lakewright.storage.codec.binary_row import row_arity
from lakewright.storage.codec.manifest_blocks import StoredEntries
from lakewright.storage.codec.manifest_columns import EntryColumns
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.manifest import FileKind, ManifestContents, ManifestFileMeta
from lakewright.storage.spec.partition import PartitionKeys


def write_copies(
    files: TableFiles, stored: StoredEntries, rows: np.ndarray, written: list[str]
) -> Iterator[ManifestFileMeta]:
    """Manifests of some stored entries in their order, of one set of partition keys each.

    All but the last of such a set have the target size.
    """
    for keys, group in by_keys(files, stored.entries, rows):
        for copied in stored.copied(group, target_bytes=files.options.manifest_target_file_size):
            yield files.manifests.write_contents(
                copied.data, contents_of(stored.entries, copied.rows), keys=keys, written=written
            )


def by_keys(
    files: TableFiles, entries: EntryColumns, rows: np.ndarray
) -> list[tuple[PartitionKeys, np.ndarray]]:
    """Some entries by the partition keys they have, in their order."""
    partitions = entries.texts("_PARTITION", rows).dictionary_encode()
    distinct = partitions.dictionary.to_pylist()
    arities = np.array([row_arity(row) for row in distinct], np.int64)
    codes = partitions.indices.to_numpy()
    schema_ids = entries.numbers("_FILE._SCHEMA_ID", rows)
    kinds = schema_ids * (int(arities.max(initial=0)) + 1) + arities[codes]
    _, first, kind_of = np.unique(kinds, return_index=True, return_inverse=True)
    found: dict[tuple[str, ...], tuple[PartitionKeys, list[int]]] = {}
    for kind in np.argsort(first).tolist():
        at = int(first[kind])
        keys = files.partitions.keys_to_write(distinct[codes[at]], int(schema_ids[at]))
        found.setdefault(keys.names, (keys, []))[1].append(kind)
    return [(keys, rows[np.isin(kind_of, of_keys)]) for keys, of_keys in found.values()]


def sorted_by_partition(files: TableFiles, entries: EntryColumns, rows: np.ndarray) -> np.ndarray:
    """Some entries by partition and bucket, and otherwise in their order."""
    partitions = entries.texts("_PARTITION", rows).dictionary_encode()
    distinct = partitions.dictionary.to_pylist()
    schema_ids = entries.numbers("_FILE._SCHEMA_ID", rows)
    kinds = schema_ids * len(distinct) + partitions.indices.to_numpy()
    _, first, kind_of = np.unique(kinds, return_index=True, return_inverse=True)
    codes = partitions.indices.to_numpy()[first].tolist()
    orders = [
        files.partitions.of_row(distinct[code], schema_id).order
        for code, schema_id in zip(codes, schema_ids[first].tolist(), strict=True)
    ]
    ranks = np.zeros(len(orders), np.int64)
    in_order = sorted(range(len(orders)), key=orders.__getitem__)
    for rank, (_, alike) in enumerate(groupby(in_order, key=orders.__getitem__)):
        ranks[list(alike)] = rank
    found: np.ndarray = rows[np.lexsort((entries.numbers("_BUCKET", rows), ranks[kind_of]))]
    return found


def contents_of(entries: EntryColumns, rows: np.ndarray) -> ManifestContents:
    """What a manifest of some entries holds."""
    added = int((entries.numbers("_KIND", rows) == FileKind.ADD).sum())
    counted = entries.texts("_PARTITION", rows).value_counts()
    partitions, counts = counted.field("values"), counted.field("counts")
    buckets = entries.numbers("_BUCKET", rows)
    levels = entries.numbers("_FILE._LEVEL", rows)
    return ManifestContents(
        added=added,
        deleted=len(rows) - added,
        partitions=dict(zip(partitions.to_pylist(), counts.to_pylist(), strict=True)),
        buckets=(int(buckets.min()), int(buckets.max())),
        levels=(int(levels.min()), int(levels.max())),
    )
