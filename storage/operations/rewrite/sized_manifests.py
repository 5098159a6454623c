"""Divides live files among manifests of the target size, measured once they are encoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakewright.storage.codec.manifest_avro import encode_manifest
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.commit import EncodedManifest
from lakewright.storage.spec.manifest import ManifestEntry
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
    last: EncodedManifest | None = None
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
            begin -= len(last.entries)
            data = _encoded(files, entries[begin:end])
        elif last is not None:
            yield last
        last = EncodedManifest(keys=keys, entries=entries[begin:end], data=data)
    if last is not None:
        yield last


def _encoded(files: TableFiles, entries: Sequence[ManifestEntry]) -> bytes:
    return encode_manifest(entries, compression=files.options.manifest_compression)
