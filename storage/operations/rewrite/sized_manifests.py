"""Divides live files among manifests of the target size, measured once they are encoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from lakewright.storage.codec.manifest_avro import decode_manifest, encode_manifest
from lakewright.storage.codec.manifest_blocks import StoredEntries
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.copied_manifests import by_keys, contents_of
from lakewright.storage.spec.commit import EncodedManifest
from lakewright.storage.spec.manifest import ManifestContents, ManifestEntry
from lakewright.storage.spec.partition import PartitionKeys

# Entries that a manifest gets more than estimated, at least, where it came out too small.
_MORE = 1.05


def bytes_per_entry(files: TableFiles, sample: Sequence[ManifestEntry]) -> float:
    """What an entry takes in a large manifest, by encoding some."""
    bytes_of_all = len(_encoded(files, sample)) - len(_encoded(files, ()))
    return max(1.0, bytes_of_all / max(1, len(sample)))


def target_bytes_of_entries(files: TableFiles) -> int:
    """What the entries of a manifest of the target size take, without the schema before them."""
    return max(1, files.options.manifest_target_file_size - len(_encoded(files, ())))


def sized_manifests(
    files: TableFiles, entries: Sequence[ManifestEntry], each_bytes: float
) -> Iterator[EncodedManifest]:
    """The entries as manifests that each have the target size, or less if there is only one.

    `each_bytes` is what an entry takes by estimate. A committer merges neighbours that are below
    the target size again, so what is left over joins the last manifest.
    """
    for keys, group in files.partitions.by_keys(entries):
        yield from _divided(files, keys, group, each_bytes)


def _divided(
    files: TableFiles, keys: PartitionKeys, entries: Sequence[ManifestEntry], each_bytes: float
) -> Iterator[EncodedManifest]:
    target, room = files.options.manifest_target_file_size, target_bytes_of_entries(files)
    last: tuple[int, bytes] | None = None
    begin = end = 0
    while end < len(entries):
        begin, rest = end, len(entries) - end
        take = -(-rest // max(1, int(rest * each_bytes / room)))
        data = _encoded(files, entries[begin : begin + take])
        while len(data) < target and take < rest:
            take = min(rest, max(int(take * target / len(data)), int(take * _MORE) + 1))
            data = _encoded(files, entries[begin : begin + take])
        end, each_bytes = begin + take, max(1.0, (len(data) - target + room) / take)
        if last is not None and len(data) < target:
            begin = last[0]
            data = _encoded(files, entries[begin:end])
        elif last is not None:
            yield _manifest(keys, entries[last[0] : begin], last[1])
        last = begin, data
    if last is not None:
        yield _manifest(keys, entries[last[0] : end], last[1])


def _manifest(
    keys: PartitionKeys, entries: Sequence[ManifestEntry], data: bytes
) -> EncodedManifest:
    return EncodedManifest(
        keys=keys,
        contents=ManifestContents.of(entries),
        data=data,
        holds=lambda stored: list(decode_manifest(stored, name="a manifest")) == list(entries),
    )


def sized_copies(
    files: TableFiles, stored: StoredEntries, rows: np.ndarray
) -> Iterator[EncodedManifest]:
    """The same of stored entries, copied as they are encoded."""
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
