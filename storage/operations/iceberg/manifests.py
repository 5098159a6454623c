"""Manifests of Iceberg snapshots: those of the snapshot before, with what changed.

1. New files get manifests of their own, some hundred files each.
2. Of the manifests of the snapshot before, those that may hold removed files, by their bounds of
   partitions, are read. One that holds some is written again without them.
3. Many small manifests are merged.

Files keep their sequence numbers: position deletes apply to no file that is younger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Literal

import fastavro
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType

from lakewright.storage.operations.iceberg.metadata_io import MetadataIO

# What all Iceberg readers decompress; some know no zstd.
CODEC: Literal["deflate"] = "deflate"
# pyiceberg writes some thousand entries a second, and a removed file takes its manifest with it.
_FILES_A_MANIFEST = 500
# So many manifests with fewer than these files each are merged.
_SMALL_FILES, _SMALL_MANIFESTS = 100, 20

# From so many files on, decoding a manifest takes no longer than looking for each in its bytes.
_MOST_LOOKED_FOR = 500


class _DeletesWriter(ManifestWriterV2):
    """A manifest of files with position deletes."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


# A file in a manifest: its location and its spec, as a change of keys restates in which it is.
FileKey = tuple[str, int]


def key_of(file: DataFile) -> FileKey:
    """What tells a file in a manifest from others."""
    return file.file_path, file.spec_id


def _partition_of(entry: ManifestEntry) -> str:
    """The partition of a file as a text, to sort by."""
    partition = entry.data_file.partition
    return repr([partition[at] for at in range(len(partition))])


@dataclass
class ManifestSets:
    """Makes the manifests of one snapshot after another."""

    io: MetadataIO
    location: Callable[[str], str]
    new_id: Callable[[], str]
    specs: Mapping[int, PartitionSpec]
    # The schema in which the columns of a spec are looked up.
    schema_of: Callable[[PartitionSpec], Schema]
    _read: dict[str, list[ManifestEntry]] = field(default_factory=dict)
    _keys: dict[str, set[FileKey]] = field(default_factory=dict)
    _lists: dict[str, tuple[ManifestFile, ...]] = field(default_factory=dict)

    def of_list(self, location: str) -> tuple[ManifestFile, ...]:
        """The manifests that a list names."""
        found = self._lists.get(location)
        if found is None:
            found = self._lists[location] = tuple(read_manifest_list(self.io.new_input(location)))
        return found

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """The live entries of a manifest."""
        found = self._read.get(manifest.manifest_path)
        if found is None:
            found = self._read[manifest.manifest_path] = manifest.fetch_manifest_entry(self.io)
        return found

    def _names(self, manifest: ManifestFile, wanted: Collection[FileKey]) -> bool:
        """Whether a manifest may name one of some files, by a look at its bytes.

        Decoding all manifests of a large table takes a minute, where no partitions tell them apart.
        """
        if manifest.manifest_path in self._keys or len(wanted) > _MOST_LOOKED_FOR:
            return not self.keys(manifest).isdisjoint(wanted)
        blocks: Any = fastavro.block_reader(self.io.source(manifest.manifest_path))
        data = b"".join(block.bytes_.getvalue() for block in blocks)
        return any(location.encode() in data for location, _ in wanted)

    def keys(self, manifest: ManifestFile) -> set[FileKey]:
        """The live files of a manifest; some times faster than `entries`."""
        found = self._keys.get(manifest.manifest_path)
        if found is None:
            found = self._keys[manifest.manifest_path] = {
                (each["data_file"]["file_path"], manifest.partition_spec_id)
                for each in fastavro.reader(self.io.source(manifest.manifest_path))
                if isinstance(each, dict) and each["status"] != ManifestEntryStatus.DELETED
            }
        return found

    def all_keys(self, manifests: Iterable[ManifestFile]) -> set[FileKey]:
        """The live files of manifests."""
        return {key for manifest in manifests for key in self.keys(manifest)}

    def changed(
        self,
        before: Sequence[ManifestFile],
        added: Sequence[DataFile],
        removed: Collection[FileKey],
        *,
        snapshot_id: int,
        content: ManifestContent,
        bounds: Sequence[tuple[int, Sequence[object]]] | None,
    ) -> list[ManifestFile]:
        """The manifests of a snapshot, of one content.

        `bounds` are the specs and partitions of the removed files; without them each manifest is
        read.
        """
        kept: list[ManifestFile] = []
        made: list[ManifestFile] = []
        gone = set(removed)
        for manifest in before:
            if not gone or not self._may_hold(manifest, bounds) or not self._names(manifest, gone):
                kept.append(manifest)
                continue
            entries = self.entries(manifest)
            left = [each for each in entries if key_of(each.data_file) not in gone]
            if len(left) == len(entries):
                kept.append(manifest)
            elif left:
                made += self._written(left, snapshot_id, content)
        kept = self._merged(kept, snapshot_id, content)
        new = [_entry(ManifestEntryStatus.ADDED, snapshot_id, each) for each in added]
        return [*kept, *made, *self._written(new, snapshot_id, content)]

    def _merged(
        self, manifests: list[ManifestFile], snapshot_id: int, content: ManifestContent
    ) -> list[ManifestFile]:
        small: dict[int, list[ManifestFile]] = defaultdict(list)
        for each in manifests:
            if _count(each) < _SMALL_FILES:
                small[each.partition_spec_id].append(each)
        going = {
            each.manifest_path: each
            for some in small.values()
            if len(some) >= _SMALL_MANIFESTS
            for each in some
        }
        if not going:
            return manifests
        entries = [entry for each in going.values() for entry in self.entries(each)]
        kept = [each for each in manifests if each.manifest_path not in going]
        return [*kept, *self._written(entries, snapshot_id, content)]

    def _may_hold(
        self, manifest: ManifestFile, wanted: Sequence[tuple[int, Sequence[object]]] | None
    ) -> bool:
        if wanted is None or not manifest.partitions:
            return True
        spec = self.specs[manifest.partition_spec_id]
        kinds = [each.field_type for each in spec.partition_type(self.schema_of(spec)).fields]
        limits: list[tuple[object, object, bool]] = []
        for kind, summary in zip(kinds, manifest.partitions, strict=True):
            assert isinstance(kind, PrimitiveType)
            low, high = summary.lower_bound, summary.upper_bound
            limits.append(
                (
                    None if low is None else from_bytes(kind, low),
                    None if high is None else from_bytes(kind, high),
                    summary.contains_null,
                )
            )
        return any(
            spec_id == manifest.partition_spec_id
            and all(_within(value, *each) for value, each in zip(values, limits, strict=True))
            for spec_id, values in wanted
        )

    def _written(
        self, entries: Sequence[ManifestEntry], snapshot_id: int, content: ManifestContent
    ) -> list[ManifestFile]:
        """New manifests of entries, one spec in each, by partition."""
        by_spec: dict[int, list[ManifestEntry]] = defaultdict(list)
        for each in entries:
            by_spec[each.data_file.spec_id].append(each)
        found = []
        for spec_id, some in by_spec.items():
            some.sort(key=_partition_of)
            for begin in range(0, len(some), _FILES_A_MANIFEST):
                part = some[begin : begin + _FILES_A_MANIFEST]
                found.append(self._write(spec_id, part, snapshot_id, content))
        return found

    def _write(
        self,
        spec_id: int,
        entries: Sequence[ManifestEntry],
        snapshot_id: int,
        content: ManifestContent,
    ) -> ManifestFile:
        spec = self.specs[spec_id]
        schema, output = self.schema_of(spec), self.io.new_output(self._new_location("m"))
        writer: ManifestWriter
        if content is ManifestContent.DATA:
            writer = write_manifest(2, spec, schema, output, snapshot_id, CODEC)
        else:
            writer = _DeletesWriter(spec, schema, output, snapshot_id, CODEC)
        with writer:
            for each in entries:
                is_new = each.snapshot_id == snapshot_id
                status = ManifestEntryStatus.ADDED if is_new else ManifestEntryStatus.EXISTING
                writer.add_entry(_again(status, each))
        return writer.to_manifest_file()

    def write_list(
        self, manifests: Sequence[ManifestFile], snapshot_id: int, parent_id: int | None
    ) -> str:
        """Write the list of a snapshot; returns its location."""
        location = self._new_location(f"snap-{snapshot_id}")
        output = self.io.new_output(location)
        with write_manifest_list(2, output, snapshot_id, parent_id, snapshot_id, CODEC) as writer:
            numbered = [writer.prepare_manifest(each) for each in manifests]
            writer.add_manifests(numbered)
        self._lists[location] = tuple(numbered)
        return location

    def _new_location(self, name: str) -> str:
        return self.location(f"{name}-{self.new_id()}.avro")


def _entry(status: ManifestEntryStatus, snapshot_id: int, file: DataFile) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=snapshot_id,
        file_sequence_number=snapshot_id,
        data_file=file,
    )


def _again(status: ManifestEntryStatus, entry: ManifestEntry) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def _count(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def _within(value: object, low: object, high: object, has_null: bool) -> bool:
    if value is None:
        return has_null
    if low is None or high is None or (isinstance(value, float) and isnan(value)):
        return True
    return bool(low <= value <= high)  # type: ignore[operator]  # values of one type
