"""Manifest and manifest-list files of one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakewright.storage.codec.column_stats import partition_stats
from lakewright.storage.codec.index_manifest import decode_index_manifest, encode_index_manifest
from lakewright.storage.codec.manifest_avro import (
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
)
from lakewright.storage.env import Env, FileSystem
from lakewright.storage.errors import CorruptionError, FileMissing
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import FileKind, ManifestEntry, ManifestFileMeta

KeepManifest = Callable[[ManifestFileMeta], bool]
KeepEntry = Callable[[ManifestEntry], bool]


@dataclass(frozen=True, slots=True)
class ManifestStore:
    """Reads what snapshots name, and writes what the next one will name."""

    fs: FileSystem
    paths: TablePaths
    env: Env

    def read_list(self, name: str) -> tuple[ManifestFileMeta, ...]:
        return decode_manifest_list(self._read(name), name=self.paths.manifest(name))

    def read_manifest(self, name: str) -> Iterator[ManifestEntry]:
        return decode_manifest(self._read(name), name=self.paths.manifest(name))

    def read_index_manifest(self, name: str) -> tuple[IndexEntry, ...]:
        """Every index file of a snapshot."""
        return decode_index_manifest(self._read(name), name=self.paths.manifest(name))

    def entries(
        self,
        metas: Iterable[ManifestFileMeta],
        *,
        keep_manifest: KeepManifest | None = None,
        keep_entry: KeepEntry | None = None,
    ) -> Iterator[ManifestEntry]:
        """Entries of several manifests, in order; those filtered out never become values."""
        for meta in metas:
            if keep_manifest is None or keep_manifest(meta):
                entries = self.read_manifest(meta.file_name)
                yield from entries if keep_entry is None else filter(keep_entry, entries)

    def write_manifest(
        self,
        entries: Sequence[ManifestEntry],
        *,
        schema_id: int,
        partition_fields: Sequence[DataField],
        compression: str,
        written: list[str],
    ) -> ManifestFileMeta:
        """Write one manifest; the result says what a list must say of it."""
        name = f"manifest-{self.env.new_id()}-0"
        data = encode_manifest(entries, compression=compression)
        self._write(name, data, written)
        added = sum(entry.kind is FileKind.ADD for entry in entries)
        buckets = [entry.bucket for entry in entries]
        levels = [entry.file.level for entry in entries]
        return ManifestFileMeta(
            file_name=name,
            file_size=len(data),
            num_added_files=added,
            num_deleted_files=len(entries) - added,
            partition_stats=partition_stats(
                [entry.partition for entry in entries], partition_fields
            ),
            schema_id=schema_id,
            min_bucket=min(buckets),
            max_bucket=max(buckets),
            min_level=min(levels),
            max_level=max(levels),
        )

    def write_list(
        self, metas: Iterable[ManifestFileMeta], *, compression: str, written: list[str]
    ) -> tuple[str, int]:
        """Write a manifest list; its name and size in bytes."""
        name = f"manifest-list-{self.env.new_id()}-0"
        data = encode_manifest_list(metas, compression=compression)
        self._write(name, data, written)
        return name, len(data)

    def write_index_manifest(
        self, entries: Iterable[IndexEntry], *, compression: str, written: list[str]
    ) -> str:
        """Write an index manifest; its name."""
        name = f"index-manifest-{self.env.new_id()}-0"
        data = encode_index_manifest(entries, compression=compression)
        self._write(name, data, written)
        return name

    def _write(self, name: str, data: bytes, written: list[str]) -> None:
        # A write that fails may leave half a file: whoever cleans up must know its name.
        written.append(name)
        self.fs.write_bytes(self.paths.manifest(name), data)

    def _read(self, name: str) -> bytes:
        path = self.paths.manifest(name)
        try:
            return self.fs.read_bytes(path)
        except FileMissing as error:
            raise CorruptionError(
                f"{path} is missing though a snapshot names it; if that snapshot was just "
                "expired, read a later one",
                path=path,
            ) from error
