"""Divides live files among manifests of the target size, measured once they are encoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from lakewright.storage.codec.manifest_avro import encode_manifest
from lakewright.storage.codec.manifest_blocks import StoredEntries
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.copied_manifests import by_keys, contents_of
from lakewright.storage.spec.commit import EncodedManifest
from lakewright.storage.spec.manifest import ManifestEntry


def bytes_per_entry(files: TableFiles, sample: Sequence[ManifestEntry]) -> float:
    """What an entry takes in a large manifest, by encoding some."""
    bytes_of_all = len(_encoded(files, sample)) - len(_encoded(files, ()))
    return max(1.0, bytes_of_all / max(1, len(sample)))


def target_bytes_of_entries(files: TableFiles) -> int:
    """What the entries of a manifest of the target size take, without the schema before them."""
    return max(1, files.options.manifest_target_file_size - len(_encoded(files, ())))


def sized_copies(
    files: TableFiles, stored: StoredEntries, rows: np.ndarray
) -> Iterator[EncodedManifest]:
    """Stored entries, copied as they are encoded, as manifests of the target size.

    A committer merges neighbours that are below that size again, so what is left over joins the
    last manifest.
    """
    target = files.options.manifest_target_file_size
    for keys, group in by_keys(files, stored.entries, rows):
        for copied in stored.copied(group, target_bytes=target, joins_rest=True):
            yield EncodedManifest(
                keys=keys,
                contents=contents_of(stored.entries, copied.rows),
                data=copied.data,
                holds=partial(stored.are_all_of, rows=copied.rows),
            )


def _encoded(files: TableFiles, entries: Sequence[ManifestEntry]) -> bytes:
    return encode_manifest(entries, compression=files.options.manifest_compression)
