"""The entries of a manifest as columns, of which only those asked for become `ManifestEntry`.

A large manifest is held as its decompressed bytes and the positions of the fields that planning
needs; a small one as its entries. Both answer alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from lakewright.storage.codec.avro_columns import (
    RecordPositions,
    UnknownLayout,
    find_in_blocks,
    find_records,
)
from lakewright.storage.codec.avro_container import Header, packed_blocks
from lakewright.storage.codec.byte_slices import (
    array_spans,
    end_with,
    joined,
    keys_of,
    sliced,
)
from lakewright.storage.codec.manifest_avro import decode_manifest, entry_from_record
from lakewright.storage.errors import StorageError, UnreadableManifest
from lakewright.storage.spec.manifest import MANIFEST_VERSION, FileKind, ManifestEntry

# A number that is null or that the writer does not know.
NO_NUMBER = np.iinfo(np.int64).min
# With fewer blocks than this, one record after the other is decoded faster.
LEAST_BLOCKS = 24

_PARQUET = ".parquet"

_REQUIRED_NUMBERS: dict[str, Callable[[ManifestEntry], int]] = {
    "_KIND": lambda entry: int(entry.kind),
    "_BUCKET": lambda entry: entry.bucket,
    "_TOTAL_BUCKETS": lambda entry: entry.total_buckets,
    "_FILE._FILE_SIZE": lambda entry: entry.file.file_size,
    "_FILE._ROW_COUNT": lambda entry: entry.file.row_count,
    "_FILE._MIN_SEQUENCE_NUMBER": lambda entry: entry.file.min_sequence_number,
    "_FILE._SCHEMA_ID": lambda entry: entry.file.schema_id,
    "_FILE._LEVEL": lambda entry: entry.file.level,
}
_OPTIONAL_NUMBERS: dict[str, Callable[[ManifestEntry], int | None]] = {
    "_FILE._CREATION_TIME": lambda entry: entry.file.creation_time,
    "_FILE._DELETE_ROW_COUNT": lambda entry: entry.file.delete_row_count,
    "_FILE._FIRST_ROW_ID": lambda entry: entry.file.first_row_id,
}
_BYTES: dict[str, Callable[[ManifestEntry], bytes]] = {
    "_PARTITION": lambda entry: entry.partition,
    "_FILE._FILE_NAME": lambda entry: entry.file.file_name.encode(),
    "_FILE._MIN_KEY": lambda entry: entry.file.min_key,
    "_FILE._MAX_KEY": lambda entry: entry.file.max_key,
    "_FILE._KEY_STATS._MIN_VALUES": lambda entry: entry.file.key_stats.min_values,
    "_FILE._KEY_STATS._MAX_VALUES": lambda entry: entry.file.key_stats.max_values,
    "_FILE._VALUE_STATS._MIN_VALUES": lambda entry: entry.file.value_stats.min_values,
    "_FILE._VALUE_STATS._MAX_VALUES": lambda entry: entry.file.value_stats.max_values,
}
_COUNTS: dict[str, Callable[[ManifestEntry], tuple[int | None, ...]]] = {
    "_FILE._KEY_STATS._NULL_COUNTS": lambda entry: entry.file.key_stats.null_counts,
    "_FILE._VALUE_STATS._NULL_COUNTS": lambda entry: entry.file.value_stats.null_counts,
}
# Which columns statistics and files have; alike for most files of a table.
_LAYOUT = ("_FILE._VALUE_STATS_COLS", "_FILE._WRITE_COLS")
# What tells two files of one name apart, beside their places; most files have none of it.
_RARE: dict[str, Callable[[ManifestEntry], bool]] = {
    "_FILE._EXTRA_FILES": lambda entry: bool(entry.file.extra_files),
    "_FILE._EMBEDDED_FILE_INDEX": lambda entry: entry.file.embedded_file_index is not None,
    "_FILE._EXTERNAL_PATH": lambda entry: entry.file.external_path is not None,
}
_RARE_BYTES: dict[str, Callable[[ManifestEntry], bytes]] = {
    "_FILE._EXTERNAL_PATH": lambda entry: (entry.file.external_path or "").encode(),
}
# The fields whose positions are held.
COLUMNS = (
    "_VERSION",
    *_REQUIRED_NUMBERS,
    *_OPTIONAL_NUMBERS,
    *_BYTES,
    *_COUNTS,
    *_LAYOUT,
    *_RARE,
)
_NUMBER_TYPES = ("int", "long")


class EntryColumns(ABC):
    """Entries in order. Numbers, bytes and null counts are named as the format names its fields."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def numbers(self, name: str, rows: np.ndarray | None = None) -> np.ndarray:
        """A number of all entries or some, `NO_NUMBER` for null."""

    @abstractmethod
    def texts(self, name: str, rows: np.ndarray | None = None) -> pa.LargeBinaryArray:
        """The bytes of a field, of all entries or some."""

    @abstractmethod
    def spans(self, name: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A buffer, and where in it the bytes of a field begin and end, of some entries."""

    @abstractmethod
    def are_parquet(self, rows: np.ndarray) -> np.ndarray:
        """Whether the names of files end as those of Parquet files."""

    @abstractmethod
    def name_keys(self) -> np.ndarray:
        """A number for the name of each file: different numbers are of different names."""

    @abstractmethod
    def null_counts(self, name: str, index: int, rows: np.ndarray) -> np.ndarray:
        """The null count of the column at an index, of some entries; `NO_NUMBER` for unknown."""

    @abstractmethod
    def layouts(self, rows: np.ndarray) -> np.ndarray:
        """A number for each of some entries: equal where statistics and files name equal columns.

        It is 0 where they name none.
        """

    @abstractmethod
    def are_filled(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Whether files have extra files, an embedded index or an external path, by the field.

        `texts` has the external paths of files that have one.
        """

    def are_plain(self, rows: np.ndarray) -> np.ndarray:
        """Whether a file has no extra files, no embedded index and no external path."""
        rare: np.ndarray = np.logical_or.reduce([self.are_filled(name, rows) for name in _RARE])
        return ~rare

    @abstractmethod
    def entry(self, row: int) -> ManifestEntry: ...

    @abstractmethod
    def take(self, rows: np.ndarray) -> EntryColumns:
        """Some entries, which hold on to no others."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """About how much memory they take."""

    @property
    def is_packed(self) -> bool:
        """Whether entries become objects only on use."""
        return isinstance(self, PackedEntries)


def decode_entry_columns(data: bytes, *, name: str) -> EntryColumns:
    """The entries of a manifest; error messages call the file `name`.

    Raises:
        UnreadableManifest: the file is not a manifest, or ends too early.
        UnsupportedError: it is of another version.
    """
    try:
        found = find_records(data, COLUMNS, least_blocks=LEAST_BLOCKS)
        if found is not None:
            packed = PackedEntries(found, name)
            packed.check()
            return packed
    except (StorageError, ValueError, LookupError, TypeError, ArithmeticError):
        # Damage, and forms that columns are not made of: the other decoder tells which.
        pass
    return ObjectEntries(tuple(decode_manifest(data, name=name)))


def decode_together(
    manifests: Sequence[bytes], *, names: Sequence[str]
) -> tuple[EntryColumns, tuple[int, ...]] | None:
    """The entries of small manifests in order, and how many are of each.

    Their blocks together may be enough for columns. None if they are not, if writers encode them
    differently, or if one is damaged.
    """
    if len(manifests) < 2:
        return None
    try:
        packed = [packed_blocks(data, path="") for data in manifests]
        header, *others = (header for header, _, _ in packed)
        blocks = [block for _, some, _ in packed for block in some]
        if len(blocks) < LEAST_BLOCKS or any(not _encode_alike(header, each) for each in others):
            return None
        counts = [count for _, _, some in packed for count in some]
        part = PackedEntries(
            find_in_blocks(blocks, counts, header, COLUMNS), f"{names[0]} to {names[-1]}"
        )
        part.check()
    except (StorageError, ValueError, LookupError, TypeError, ArithmeticError):
        return None
    return part, tuple(sum(some) for _, _, some in packed)


def _encode_alike(left: Header, right: Header) -> bool:
    return (left.schema, left.codec) == (right.schema, right.codec)


@dataclass(frozen=True, slots=True)
class ObjectEntries(EntryColumns):
    """Entries that are decoded already."""

    entries: tuple[ManifestEntry, ...]

    def __len__(self) -> int:
        return len(self.entries)

    def numbers(self, name: str, rows: np.ndarray | None = None) -> np.ndarray:
        get = _REQUIRED_NUMBERS.get(name) or _OPTIONAL_NUMBERS[name]
        chosen = self._chosen(rows)
        return _numbers(map(get, chosen), len(chosen))

    def texts(self, name: str, rows: np.ndarray | None = None) -> pa.LargeBinaryArray:
        get = _BYTES.get(name) or _RARE_BYTES[name]
        return joined([get(each) for each in self._chosen(rows)])

    def spans(self, name: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return array_spans(self.texts(name, rows))

    def are_parquet(self, rows: np.ndarray) -> np.ndarray:
        names = (entry.file.file_name for entry in self._chosen(rows))
        return np.array([name.endswith(_PARQUET) for name in names], bool)

    def name_keys(self) -> np.ndarray:
        return keys_of(*array_spans(self.texts("_FILE._FILE_NAME")))

    def null_counts(self, name: str, index: int, rows: np.ndarray) -> np.ndarray:
        counts = map(_COUNTS[name], self._chosen(rows))
        found = (count[index] if index < len(count) else None for count in counts)
        return _numbers(found, len(rows))

    def layouts(self, rows: np.ndarray) -> np.ndarray:
        known: dict[object, int] = {(None, None): 0}
        files = [entry.file for entry in self._chosen(rows)]
        found = [
            known.setdefault((file.value_stats_cols, file.write_cols), len(known)) for file in files
        ]
        return np.array(found, np.int64)

    def are_filled(self, name: str, rows: np.ndarray) -> np.ndarray:
        return np.array(list(map(_RARE[name], self._chosen(rows))), bool)

    def entry(self, row: int) -> ManifestEntry:
        return self.entries[row]

    def take(self, rows: np.ndarray) -> EntryColumns:
        return ObjectEntries(tuple(self._chosen(rows)))

    @property
    def size_bytes(self) -> int:
        # A little more than a decoded entry of a dozen columns takes.
        return 2048 * len(self.entries)

    def _chosen(self, rows: np.ndarray | None) -> Sequence[ManifestEntry]:
        if rows is None:
            return self.entries
        return [self.entries[row] for row in rows.tolist()]


@dataclass(frozen=True)
class PackedEntries(EntryColumns):
    """Entries that are decoded on use."""

    records: RecordPositions
    name: str

    def check(self) -> None:
        """Check what the decoder of single entries checks, as far as entries may never be decoded.

        Raises:
            UnknownLayout: some entry is not as it should be.
        """
        types = self.records.types
        for name, kinds in (
            *((name, _NUMBER_TYPES) for name in ("_VERSION", *_REQUIRED_NUMBERS)),
            *((name, ("bytes", "string")) for name in _BYTES),
        ):
            if _branch(types.get(name)) not in kinds:
                raise UnknownLayout(f"{name} is of type {types.get(name)}")
        for name in _OPTIONAL_NUMBERS:
            if name in types and not _is_moment_or_number(_branch(types[name])):
                raise UnknownLayout(f"{name} is of type {types[name]}")
        for name in (*_REQUIRED_NUMBERS, *_BYTES):
            if isinstance(types[name], list):
                self._inner(self._at(name))
        versions = self._required(self._at("_VERSION"), types["_VERSION"])
        if not (versions == MANIFEST_VERSION).all():
            raise UnknownLayout("it is of another version")
        if not np.isin(self.numbers("_KIND"), list(FileKind)).all():
            raise UnknownLayout("an entry is of an unknown kind")
        names = self.texts("_FILE._FILE_NAME")
        names.cast(pa.large_string())
        # What else is no plain name is refused when the entry is decoded.
        if not _are_plain_names(names):
            raise UnknownLayout("a file has no plain name")
        for name in self._known(_RARE_BYTES):
            filled = np.flatnonzero(self.are_filled(name, np.arange(len(self))))
            if len(filled) and _branch(types[name]) != "string":
                raise UnknownLayout(f"{name} is of type {types[name]}")
            self.texts(name, filled).cast(pa.large_string())

    def __len__(self) -> int:
        return len(self.records.bounds) - 1

    def numbers(self, name: str, rows: np.ndarray | None = None) -> np.ndarray:
        count = len(self) if rows is None else len(rows)
        if name not in self.records.types:
            return np.full(count, NO_NUMBER, np.int64)
        at, kind = self._at(name, rows), self.records.types[name]
        if name in _REQUIRED_NUMBERS:
            return self._required(at, kind)
        if not isinstance(kind, list):
            return self.records.numbers(at)
        found = np.full(count, NO_NUMBER, np.int64)
        present = self.records.present(at)
        found[present] = self.records.numbers(at[present] + 1)
        return found

    def texts(self, name: str, rows: np.ndarray | None = None) -> pa.LargeBinaryArray:
        return sliced(self.records.data, *self._spans(name, rows))

    def spans(self, name: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.records.data, *self._spans(name, rows)

    def are_parquet(self, rows: np.ndarray) -> np.ndarray:
        data, begins, ends = self.spans("_FILE._FILE_NAME", rows)
        return end_with(data, begins, ends, _PARQUET.encode())

    def name_keys(self) -> np.ndarray:
        return self._name_keys

    def null_counts(self, name: str, index: int, rows: np.ndarray) -> np.ndarray:
        found = np.full(len(rows), NO_NUMBER, np.int64)
        kind = self.records.types.get(name)
        if kind is None:
            return found
        at = self._at(name, rows)
        chosen = np.arange(len(rows))
        if isinstance(kind, list):
            there = self.records.present(at)
            at, chosen, kind = at[there] + 1, chosen[there], kind[1]
        lengths, at = self.records.numbers(at), self.records.after("long", at)
        there = lengths > index
        at, chosen, lengths = at[there], chosen[there], lengths[there]
        at = self.records.after_items(kind["items"], at, index)
        if isinstance(kind["items"], list):
            there = self.records.present(at)
            at, chosen = at[there] + 1, chosen[there]
        found[chosen] = self.records.numbers(at)
        return found

    def layouts(self, rows: np.ndarray) -> np.ndarray:
        at = [self._at(name, rows) for name in _LAYOUT if name in self.records.types]
        # Where no columns are named, both unions are null, and nothing needs to be compared.
        alike = np.zeros(len(rows), np.int64)
        for positions, name in zip(at, self._known(_LAYOUT), strict=True):
            named = np.flatnonzero(self._is_filled(name, positions))
            if len(named):
                ends = self.records.after(self.records.types[name], positions[named])
                parts = sliced(self.records.data, positions[named], ends).dictionary_encode()
                codes = np.zeros(len(rows), np.int64)
                codes[named] = parts.indices.to_numpy().astype(np.int64) + 1
                alike = alike * (len(parts.dictionary) + 1) + codes
        return alike

    def are_filled(self, name: str, rows: np.ndarray) -> np.ndarray:
        if name not in self.records.types:
            return np.zeros(len(rows), bool)
        return self._is_filled(name, self._at(name, rows))

    def entry(self, row: int) -> ManifestEntry:
        return _decoded(self.records.record_bytes(row), self._parsed, self.name)

    def encoded(self, rows: Sequence[int]) -> EncodedEntries:
        """Some entries as they are stored."""
        return EncodedEntries(
            self.records.schema, self.name, tuple(map(self.records.record_bytes, rows))
        )

    def take(self, rows: np.ndarray) -> EntryColumns:
        return PackedEntries(self.records.take(rows), self.name)

    @property
    def size_bytes(self) -> int:
        return self.records.size_bytes

    @cached_property
    def _name_keys(self) -> np.ndarray:
        # Each plan that a kept manifest serves asks for them.
        return keys_of(self.records.data, *self._spans("_FILE._FILE_NAME"))

    @cached_property
    def _parsed(self) -> Any:
        return fastavro.parse_schema(self.records.schema)

    def _known(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.records.types]

    def _at(self, name: str, rows: np.ndarray | None = None) -> np.ndarray:
        at = self.records.fields[name]
        chosen = at if rows is None else at[rows]
        return chosen.astype(np.int64)

    def _spans(self, name: str, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Where the bytes of a field begin and end."""
        at = self._at(name, rows)
        if isinstance(self.records.types[name], list):
            at = self._inner(at)
        return self.records.texts(at)

    def _is_filled(self, name: str, at: np.ndarray) -> np.ndarray:
        """Whether fields hold a value other than null or an array without elements."""
        found: np.ndarray = self.records.data.take(at) != 0
        return found

    def _required(self, at: np.ndarray, kind: Any) -> np.ndarray:
        return self.records.numbers(self._inner(at) if isinstance(kind, list) else at)

    def _inner(self, at: np.ndarray) -> np.ndarray:
        if not self.records.present(at).all():
            raise UnknownLayout("a required field is null")
        return at + 1


@dataclass(frozen=True, slots=True)
class EncodedEntries:
    """Entries as a manifest stores them, for another process to decode.

    The schema is as fastavro parsed it, which takes as long as decoding some entries.
    """

    schema: Any
    name: str
    records: tuple[bytes, ...]

    def decode(self) -> list[ManifestEntry]:
        """The entries.

        Raises:
            UnreadableManifest: one of them is damaged.
        """
        return [_decoded(record, self.schema, self.name) for record in self.records]


def _decoded(encoded: bytes, schema: Any, name: str) -> ManifestEntry:
    """An entry; error messages call its manifest `name`."""
    try:
        record: Any = fastavro.schemaless_reader(BytesIO(encoded), schema, None)
        return entry_from_record(record)
    except Exception as error:
        # Whatever is damaged, Avro and the nouns have errors of their own for it.
        raise UnreadableManifest(f"{name} cannot be read as Avro: {error!r}") from error


def _are_plain_names(names: pa.LargeBinaryArray) -> bool:
    """Whether each name is of an entry directly inside of a folder, as far as ASCII tells."""
    data, begins, ends = array_spans(names)
    if not len(begins):
        return True
    # All names at once, which takes a hundredth of the time of a search in each.
    together = data[begins[0] : ends[-1]].tobytes()
    short = np.flatnonzero(ends - begins <= len(".."))
    return not any(each in together for each in (b"/", b"\\", b"\0")) and not any(
        each in (b"", b".", b"..") for each in names.take(pa.array(short)).to_pylist()
    )


def _numbers(values: Iterable[int | None], count: int) -> np.ndarray:
    return np.fromiter((NO_NUMBER if each is None else each for each in values), np.int64, count)


def _branch(kind: Any) -> Any:
    """The type of a field, of its values if they may be null."""
    return kind[1] if isinstance(kind, list) else kind


def _is_moment_or_number(kind: Any) -> bool:
    if isinstance(kind, dict):
        return kind.get("type") == "long" and kind.get("logicalType") == "timestamp-millis"
    return kind in _NUMBER_TYPES
