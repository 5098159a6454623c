"""Manifest and manifest-list files of one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from lakewright.storage.codec.avro_records import SimilarRecords
from lakewright.storage.codec.column_stats import partition_stats
from lakewright.storage.codec.index_manifest import (
    INDEX_MANIFEST_SCHEMA,
    decode_index_manifest,
    encode_index_manifest,
)
from lakewright.storage.codec.manifest_avro import (
    MANIFEST_LIST_SCHEMA,
    MANIFEST_SCHEMA,
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
    similar_manifest_lists,
)
from lakewright.storage.codec.manifest_blocks import (
    NOT_COPIED,
    StoredEntries,
    pack_manifest,
    store_entries,
)
from lakewright.storage.codec.manifest_columns import (
    EntryColumns,
    decode_entry_columns,
    decode_together,
)
from lakewright.storage.codec.manifest_formats import as_avro, from_avro
from lakewright.storage.env import Env, FileSystem
from lakewright.storage.errors import FileMissing, UnreadableManifest
from lakewright.storage.files.paths import TablePaths
from lakewright.storage.files.seen_files import SeenFiles
from lakewright.storage.spec.file_format import AVRO
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import (
    ManifestContents,
    ManifestEntry,
    ManifestFileMeta,
)
from lakewright.storage.spec.partition import PartitionKeys
from lakewright.storage.spec.snapshot import Snapshot

KeepManifest = Callable[[ManifestFileMeta], bool]
KeepEntry = Callable[[ManifestEntry], bool]


# So many bytes of manifests are kept for a second reading; of larger tables, the first ones.
_MOST_KEPT_BYTES = 1 << 25
# About 20 MB of decoded lists, and 40 MB of the manifests that they name.
_MOST_NAMED = 1 << 20
_MOST_METAS = 1 << 15
# Manifests of fewer entries are decoded together, so many at once.
_FEW_ENTRIES = 1000
_MOST_TOGETHER = 64
# Decoded manifests of about half a million data files.
_MOST_DECODED_BYTES = 1 << 28


@dataclass(slots=True)
class ReadLists:
    """The manifest lists that were used last, decoded; their names are never reused.

    Many lists name the same manifests, and share one object for each.
    """

    by_name: dict[str, tuple[int, tuple[ManifestFileMeta, ...]]] = field(default_factory=dict)
    decoder: SimilarRecords[ManifestFileMeta] = field(init=False)
    _metas: dict[str, ManifestFileMeta] = field(default_factory=dict)
    _named: int = 0

    def __post_init__(self) -> None:
        self.decoder = similar_manifest_lists(self._shared)

    def find(self, name: str) -> tuple[int, tuple[ManifestFileMeta, ...]] | None:
        """The size of a list in bytes, and its manifests."""
        found = self.by_name.pop(name, None)
        if found is not None:
            # The dict is in the order of the last use.
            self.by_name[name] = found
        return found

    def keep(self, name: str, size: int, metas: tuple[ManifestFileMeta, ...]) -> None:
        """Keep a list that the decoder made."""
        if len(self._metas) > _MOST_METAS:
            # Which of them a list still names is not known.
            self.by_name, self._metas, self._named = {}, {}, 0
        self.by_name[name] = size, metas
        self._named += len(metas)
        while self._named > _MOST_NAMED:
            self._named -= len(self.by_name.pop(next(iter(self.by_name)))[1])

    def _shared(self, meta: ManifestFileMeta) -> ManifestFileMeta:
        known = self._metas.setdefault(meta.file_name, meta)
        return known if known == meta else meta


@dataclass(slots=True)
class ReadManifests:
    """What one piece of work has read of a table's metadata, so that it reads nothing twice."""

    by_name: dict[str, bytes] = field(default_factory=dict)
    size_bytes: int = 0
    lists: ReadLists = field(default_factory=ReadLists)
    seen: SeenFiles = field(default_factory=SeenFiles)

    def keep(self, name: str, data: bytes) -> None:
        if name not in self.by_name and self.size_bytes + len(data) <= _MOST_KEPT_BYTES:
            self.by_name[name] = data
            self.size_bytes += len(data)


@dataclass(slots=True)
class DecodedManifests:
    """Large manifests that plans of one table decoded last; their names are never reused.

    Small ones are read again each time, so that what is kept pays for its memory.
    """

    by_name: dict[str, EntryColumns] = field(default_factory=dict)
    size_bytes: int = 0
    lock: Lock = field(default_factory=Lock)

    def find(self, name: str) -> EntryColumns | None:
        with self.lock:
            found = self.by_name.pop(name, None)
            if found is not None:
                # The dict is in the order of the last use.
                self.by_name[name] = found
            return found

    def keep(self, name: str, columns: EntryColumns) -> None:
        size_bytes = columns.size_bytes
        if not columns.is_packed or size_bytes > _MOST_DECODED_BYTES:
            return
        with self.lock:
            if name in self.by_name:
                return
            self.by_name[name] = columns
            self.size_bytes += size_bytes
            while self.size_bytes > _MOST_DECODED_BYTES:
                self.size_bytes -= self.by_name.pop(next(iter(self.by_name))).size_bytes


@dataclass(frozen=True, slots=True)
class ManifestStore:
    """Reads manifests that snapshots name, and writes those of the next snapshot.

    A missing, truncated or malformed manifest raises `UnreadableManifest`; `missing` in its details
    tells a missing file.
    """

    fs: FileSystem
    paths: TablePaths
    env: Env
    # The table's name, for error messages.
    table: str = ""
    known: ReadManifests | None = None
    decoded: DecodedManifests | None = None
    # That of new manifests; those that are read say theirs.
    form: str = AVRO

    def read_list(self, name: str, *, size: int | None = None) -> tuple[ManifestFileMeta, ...]:
        """The manifests of a list; `size` is its length in bytes according to the snapshot."""
        found = self.known.lists.find(name) if self.known else None
        if found is not None and size in (None, found[0]):
            return found[1]
        with self._reading(name):
            stored, path = self._stored(name, size, is_list=True), self.paths.manifest(name)
            data = as_avro(stored, MANIFEST_LIST_SCHEMA, name=path)
            if self.known:
                metas = self.known.lists.decoder.decode(data, name=path)
            else:
                metas = decode_manifest_list(data, name=path)
        if self.known:
            self.known.lists.keep(name, len(stored), metas)
        return metas

    def read_state_lists(self, snapshot: Snapshot) -> tuple[ManifestFileMeta, ...]:
        """The manifests of a snapshot's state, in order."""
        base = self.read_list(snapshot.base_manifest_list, size=snapshot.base_manifest_list_size)
        return base + self.read_delta_list(snapshot)

    def read_delta_list(self, snapshot: Snapshot) -> tuple[ManifestFileMeta, ...]:
        """The manifests of a snapshot's delta."""
        return self.read_list(snapshot.delta_manifest_list, size=snapshot.delta_manifest_list_size)

    def read_manifest(self, name: str) -> Iterator[ManifestEntry]:
        with self._reading(name):
            yield from decode_manifest(self._read(name), name=self.paths.manifest(name))

    def read_listed(self, meta: ManifestFileMeta) -> Iterator[ManifestEntry]:
        """Entries of a manifest, whose number must be that of its list.

        Raises:
            UnreadableManifest: also after the last entry, if their number contradicts the list.
        """
        count = 0
        for entry in self.read_manifest(meta.file_name):
            count += 1
            yield entry
        self._check_count(meta, count)

    def _check_count(self, meta: ManifestFileMeta, count: int) -> None:
        expected = meta.num_added_files + meta.num_deleted_files
        if count != expected:
            # A file that is cut short between two blocks still decodes.
            raise self._unreadable(
                meta.file_name, f"holds {count} entries where its list says {expected}"
            )

    def read_columns(self, meta: ManifestFileMeta) -> EntryColumns:
        """Entries of a manifest as columns, whose number must be that of its list.

        Raises:
            UnreadableManifest: also if their number contradicts the list.
        """
        name = meta.file_name
        columns = self.decoded.find(name) if self.decoded else None
        if columns is None:
            with self._reading(name):
                columns = decode_entry_columns(self._read(name), name=self.paths.manifest(name))
            if self.decoded:
                self.decoded.keep(name, columns)
        self._check_count(meta, len(columns))
        return columns

    def read_all_columns(self, metas: Iterable[ManifestFileMeta]) -> Iterator[EntryColumns]:
        """Entries of several manifests in order; small ones that follow each other are one part.

        Raises:
            UnreadableManifest: as `read_columns`.
        """
        small: list[ManifestFileMeta] = []
        for meta in metas:
            is_small = meta.num_added_files + meta.num_deleted_files < _FEW_ENTRIES
            if is_small:
                small.append(meta)
            if not is_small or len(small) == _MOST_TOGETHER:
                yield from self._read_together(small)
                small = []
            if not is_small:
                yield self.read_columns(meta)
        yield from self._read_together(small)

    def _read_together(self, metas: Sequence[ManifestFileMeta]) -> Iterator[EntryColumns]:
        data = [self._read(meta.file_name) for meta in metas]
        together = decode_together(data, names=[meta.file_name for meta in metas])
        if together is not None:
            part, counts = together
            for meta, count in zip(metas, counts, strict=True):
                self._check_count(meta, count)
            yield part
            return
        for meta, each in zip(metas, data, strict=True):
            name = meta.file_name
            with self._reading(name):
                part = decode_entry_columns(each, name=self.paths.manifest(name))
            self._check_count(meta, len(part))
            yield part

    def read_stored(
        self, metas: Sequence[ManifestFileMeta], *, compression: str, always: bool = False
    ) -> StoredEntries | None:
        """Entries of several manifests in order, to be copied; None if they cannot be.

        Unless `always`, None also if to take so few as objects is faster.

        `compression` is that of the manifests that they are copied to. What is damaged is found by
        the decoder of single entries, which tells the file.

        Raises:
            UnreadableManifest: a manifest is missing, or its list contradicts the number of its
                entries.
        """
        data = {meta.file_name: self._read(meta.file_name) for meta in metas}
        try:
            packed = [
                pack_manifest(data[meta.file_name], codec=compression, name=meta.file_name)
                for meta in metas
            ]
            found = store_entries(packed, codec=compression, always=always)
        except NOT_COPIED:
            return None
        for meta, each in zip(metas, packed, strict=True):
            self._check_count(meta, len(each))
        return found

    def read_index_manifest(self, name: str) -> tuple[IndexEntry, ...]:
        """Every index file of a snapshot."""
        with self._reading(name):
            path = self.paths.manifest(name)
            data = as_avro(self._stored(name), INDEX_MANIFEST_SCHEMA, name=path)
            return decode_index_manifest(data, name=path)

    def entries(
        self,
        metas: Iterable[ManifestFileMeta],
        *,
        keep_manifest: KeepManifest | None = None,
        keep_entry: KeepEntry | None = None,
    ) -> Iterator[ManifestEntry]:
        """Entries of several manifests, in order; filtered records are never decoded to values."""
        for meta in metas:
            if keep_manifest is None or keep_manifest(meta):
                entries = self.read_listed(meta)
                yield from entries if keep_entry is None else filter(keep_entry, entries)

    def write_manifest(
        self,
        entries: Sequence[ManifestEntry],
        *,
        keys: PartitionKeys,
        compression: str,
        written: list[str],
    ) -> ManifestFileMeta:
        """Write one manifest of entries with one set of partition keys; returns its list entry."""
        data = encode_manifest(entries, compression=compression)
        contents = ManifestContents.of(entries)
        return self.write_contents(data, contents, keys=keys, written=written)

    def write_contents(
        self, data: bytes, contents: ManifestContents, *, keys: PartitionKeys, written: list[str]
    ) -> ManifestFileMeta:
        """Write a manifest that is encoded already; returns its list entry."""
        name = f"manifest-{self.env.new_id()}-0"
        size = self._write(name, data, written)
        return ManifestFileMeta(
            file_name=name,
            file_size=size,
            num_added_files=contents.added,
            num_deleted_files=contents.deleted,
            partition_stats=partition_stats(contents.partitions, keys.fields),
            schema_id=keys.schema_id,
            min_bucket=contents.buckets[0],
            max_bucket=contents.buckets[1],
            min_level=contents.levels[0],
            max_level=contents.levels[1],
        )

    def write_list(
        self, metas: Iterable[ManifestFileMeta], *, compression: str, written: list[str]
    ) -> tuple[str, int]:
        """Write a manifest list; returns its name and size in bytes."""
        name = f"manifest-list-{self.env.new_id()}-0"
        data = encode_manifest_list(metas, compression=compression)
        return name, self._write(name, data, written)

    def write_index_manifest(
        self, entries: Iterable[IndexEntry], *, compression: str, written: list[str]
    ) -> str:
        """Write an index manifest; returns its name."""
        name = f"index-manifest-{self.env.new_id()}-0"
        data = encode_index_manifest(entries, compression=compression)
        self._write(name, data, written)
        return name

    def _write(self, name: str, data: bytes, written: list[str]) -> int:
        """Write an Avro file in the table's format; its size in bytes."""
        stored = from_avro(data, self.form)
        # A failed write may leave half a file, so the name is recorded before the write for the
        # cleanup.
        written.append(name)
        self.fs.write_bytes(self.paths.manifest(name), stored)
        return len(stored)

    def read_bytes(self, name: str) -> bytes:
        """A manifest as it is stored, or as Avro if it is stored in another format.

        Raises:
            UnreadableManifest: it is missing.
        """
        return self._read(name)

    def _read(self, name: str) -> bytes:
        path = self.paths.manifest(name)
        with self._reading(name):
            return as_avro(self._stored(name), MANIFEST_SCHEMA, name=path)

    def _stored(self, name: str, size: int | None = None, *, is_list: bool = False) -> bytes:
        path = self.paths.manifest(name)
        data = self.known.by_name.get(name) if self.known else None
        try:
            if data is None:
                data = self.fs.read_bytes(path)
        except FileMissing as error:
            raise UnreadableManifest(
                f"{path} is missing though a snapshot names it; if that snapshot was just "
                "expired, read a later one; otherwise restore the file from a copy",
                path=path,
                missing=True,
            ) from error
        if size is not None and len(data) != size:
            raise self._unreadable(name, f"has {len(data)} bytes where its snapshot says {size}")
        if self.known and not is_list:
            self.known.keep(name, data)
        return data

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Add a remedy to errors of decoding."""
        try:
            yield
        except UnreadableManifest as error:
            if "missing" in error.details:
                raise
            path = self.paths.manifest(name)
            raise self._unreadable(name, error.message.removeprefix(f"{path} ")) from error

    def _unreadable(self, name: str, why: str) -> UnreadableManifest:
        path = self.paths.manifest(name)
        return UnreadableManifest(
            f"{path} of {self.table or self.paths.root} {why}; restore it from a copy, or roll "
            "back to a snapshot or tag that does not name it",
            path=path,
            missing=False,
        )
