"""Restates the live entries of a table under other partition keys; no data file changes.

A manifest entry holds the partition of its file as a row, and every client decodes the row by the
keys of the schema that it reads with. A row may have more values than there are keys: clients
decode its first values. So while keys are added or dropped at the end of the list, rows of the
longer list are right under both lists, and the entries are restated in two snapshots: with rows of
the longer list before the schema changes, and with rows of the new keys after it.

A restated entry names the place of its file (`_EXTERNAL_PATH`), since readers would look for it in
the folder of the new partition. Source: Paimon specification, chapters Manifest and Partition;
Paimon `BinaryRow`, `PartitionUtils`, `DataFilePathFactory`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from threading import Lock
from typing import TypeAlias

import numpy as np

from lakewright.storage.codec.binary_row import encode_row, row_arity
from lakewright.storage.errors import (
    CorruptionError,
    SchemaMoved,
    SchemaNotFound,
    StalePlan,
    UnsupportedError,
)
from lakewright.storage.files.external_files import external_uri
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.key_values import KeyValues
from lakewright.storage.operations.running.concurrency import map_concurrently
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.live_columns import live_columns
from lakewright.storage.operations.state.live_files import index_entries
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.commit import RestatedBase
from lakewright.storage.spec.index import DELETION_VECTORS_INDEX, IndexEntry
from lakewright.storage.spec.manifest import ManifestEntry, ManifestFileMeta
from lakewright.storage.spec.partition import Partition, PartitionKeys
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.values import Value

ValuesOf: TypeAlias = Callable[[Sequence[ManifestEntry]], Mapping[str, Mapping[str, Value]]]


def _no_values(_: Sequence[ManifestEntry]) -> Mapping[str, Mapping[str, Value]]:
    return {}


def known_values(files: TableFiles, engine: Engine, values: KeyValues | None = None) -> ValuesOf:
    """The values of the table's keys in files that hold one of each; others are left out."""
    found = values or KeyValues(files, files.schema.partition_fields)

    def values_of(entries: Sequence[ManifestEntry]) -> Mapping[str, Mapping[str, Value]]:
        found.look(entries, engine)
        single = ((each.file.file_name, found.single(each.file)) for each in entries)
        return {name: each for name, each in single if each is not None}

    return values_of


def schemas_with_keys(files: TableFiles, schema_ids: Iterable[int]) -> dict[int, int | None]:
    """Schemas with the table's keys and the columns of older schemas; None where there is none.

    A schema whose keys are the first of the table's keys needs no other.
    """
    keys = files.schema.partition_keys
    found: dict[int, int | None] = {}
    for each in set(schema_ids):
        own = files.at_schema(each).schema
        if own.partition_keys == keys[: len(own.partition_keys)]:
            continue
        alike = (
            number
            for number in reversed(files.schemas.ids())
            if number > each and _is_alike(files.at_schema(number).schema, own, keys)
        )
        found[each] = next(alike, None)
    return found


def _is_alike(schema: TableSchema, own: TableSchema, keys: tuple[str, ...]) -> bool:
    return schema.partition_keys == keys and schema.fields == own.fields


def has_rows_of(metas: Iterable[ManifestFileMeta], keys: PartitionKeys) -> bool:
    """Whether the partition rows of all manifests have one value for each key."""
    arity = len(keys.fields)
    return all(row_arity(meta.partition_stats.min_values) == arity for meta in metas)


def keys_fit(files: TableFiles, metas: Sequence[ManifestFileMeta]) -> bool:
    """Whether the rows of all manifests have the table's keys: as many, and the same ones.

    A row tells how many keys it has, and the schema of its manifest which ones. Manifests with as
    many other keys come from a client that opened the table before its keys were replaced.
    """
    if not has_rows_of(metas, files.partitions.keys):
        return False
    return not any(_has_other_keys(files, each) for each in {each.schema_id for each in metas})


def files_fit(files: TableFiles, metas: Sequence[ManifestFileMeta]) -> bool:
    """`keys_fit`, and of a table whose keys ever changed, of each live file.

    Any client may merge manifests. One with the present keys then writes those of a late client
    into a manifest of its own, whose bounds and schema say nothing of other keys.
    """
    if not keys_fit(files, metas):
        return False
    if not _ever_had_other_keys(files):
        return True
    unknown = [each for each in metas if not FITTING.has(files, each.file_name)]
    if _entries_of_fit(files, unknown):
        for each in unknown:
            FITTING.add(files, each.file_name)
        return True
    # What one manifest adds another one may have removed.
    return _entries_of_fit(files, metas)


def _entries_of_fit(files: TableFiles, metas: Sequence[ManifestFileMeta]) -> bool:
    live = live_columns(files, metas, PartitionFilter(files))
    schema_ids = np.unique(live.numbers("_FILE._SCHEMA_ID", live.rows)).tolist()
    rows = live.texts("_PARTITION", live.rows).unique().to_pylist()
    return rows_fit(files, rows) and schemas_fit(files, schema_ids)


def rows_fit(files: TableFiles, rows: Iterable[bytes]) -> bool:
    """Whether partition rows of files have a value for each of the table's keys."""
    own = len(files.schema.partition_keys)
    return all(row_arity(row) == own for row in rows)


def schemas_fit(files: TableFiles, schema_ids: Iterable[int]) -> bool:
    """Whether files with these schemas, and with rows that fit, have the table's keys.

    A restated entry names a schema with keys with which the table's begin. A late one has a row, or
    a schema, of other keys.
    """
    return all(_begin_with_keys_of(files, each) for each in schema_ids)


def entries_of_other_keys(
    files: TableFiles, entries: Iterable[ManifestEntry]
) -> list[ManifestEntry]:
    """The entries whose rows or schemas have other keys than the table's."""
    own = len(files.schema.partition_keys)
    fits = cache(partial(_begin_with_keys_of, files))
    return [
        each
        for each in entries
        if row_arity(each.partition) != own or not fits(each.file.schema_id)
    ]


def _begin_with_keys_of(files: TableFiles, schema_id: int) -> bool:
    try:
        keys = files.at_schema(schema_id).schema.partition_keys
    except SchemaNotFound:
        # As of a manifest.
        return True
    return files.schema.partition_keys[: len(keys)] == keys


class _OfTables:
    """What is known of tables with a schema, by words; the oldest goes when there is much.

    A process that commits again and again looks at new manifests only, and at no schema twice.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = Lock()
        self._known: dict[tuple[str, int, int, str], bool] = {}

    def has(self, files: TableFiles, word: str) -> bool | None:
        return self._known.get(self._key(files, word))

    def add(self, files: TableFiles, word: str, *, value: bool = True) -> None:
        with self._lock:
            self._known[self._key(files, word)] = value
            while len(self._known) > self.most:
                del self._known[next(iter(self._known))]

    def _key(self, files: TableFiles, word: str) -> tuple[str, int, int, str]:
        # A table that was dropped and created again has a schema of another time.
        root = f"{files.paths.root}#{files.paths.branch}"
        return root, files.schema.id, files.schema.time_millis, word


FITTING, CHANGED = _OfTables(1 << 16), _OfTables(1 << 10)


def _ever_had_other_keys(files: TableFiles) -> bool:
    """Whether an earlier schema has other partition keys; true if one cannot be read."""
    if files.schema.id == 0:
        return False
    known = CHANGED.has(files, "keys")
    if known is None:
        earlier = [each for each in files.schemas.ids() if each < files.schema.id]
        known = any(map_concurrently(files.env, partial(_may_have_other_keys, files), earlier))
        CHANGED.add(files, "keys", value=known)
    return known


def _may_have_other_keys(files: TableFiles, schema_id: int) -> bool:
    try:
        return _has_other_keys(files, schema_id)
    except CorruptionError:
        return True


def _has_other_keys(files: TableFiles, schema_id: int) -> bool:
    try:
        return files.at_schema(schema_id).schema.partition_keys != files.schema.partition_keys
    except SchemaNotFound:
        # Of a branch that began late. Its first schema had the keys of the next ones.
        return False


def check_keys_fit(files: TableFiles, metas: Sequence[ManifestFileMeta]) -> None:
    """Check that live files have a row for each partition that the table has by its keys.

    Amid a change of the keys one partition has several rows, or none that its values name; and a
    row that a late client wrote under other keys may equal that of another partition.

    Raises:
        SchemaMoved: they have rows of other keys; names the way on.
    """
    if files_fit(files, metas):
        return
    raise keys_do_not_fit(files)


def keys_do_not_fit(files: TableFiles) -> SchemaMoved:
    """The error of work to which files of other partition keys are in the way."""
    keys = ",".join(files.schema.partition_keys)
    return SchemaMoved(
        f"the partition keys of {files.name} are changing, which takes a moment, or a process was "
        f"stopped that changed them, or wrote under former ones; end it (lakewright respec "
        f"{files.name} --keys {keys!r}), and plan again",
        table=files.name,
    )


@dataclass(frozen=True, kw_only=True)
class Restatement:
    """How entries are restated; without keys they keep their rows, and name the places of files.

    `values_of` gives the values of the keys in all rows of data files, by file name. `schemas` are
    the ids of schemas with the new keys and the same columns, by the id of a file's schema.
    `run_id` begins the names of new index files.
    """

    files: TableFiles
    keys: PartitionKeys | None
    values_of: ValuesOf = _no_values
    schemas: Mapping[int, int] = field(default_factory=dict)
    run_id: str = ""

    def base(
        self,
        latest: Snapshot | None,
        live: Sequence[ManifestEntry],
        *,
        leaving: Collection[str] = (),
    ) -> RestatedBase:
        """All live entries with rows of the keys, in the order of their partitions.

        The same commit removes the files with the names `leaving`, and their deletion vectors go.

        Raises:
            StalePlan: another change of keys is under way, and its rows have keys of its own.
            UnsupportedError: a file has no value for a key, so its rows must be split first.
        """
        pairs = self.restated(live)
        rows = {
            now.file.file_name: now.partition
            for _, now in pairs
            if now.file.file_name not in leaving
        }
        indexes = (
            each
            for number, entry in enumerate(index_entries(self.files, latest))
            for each in self.restated_index(entry, rows, f"{self.run_id}-{number}")
        )
        return RestatedBase(
            keys=self.keys, entries=tuple(now for _, now in pairs), indexes=tuple(indexes)
        )

    def restated(
        self, entries: Sequence[ManifestEntry]
    ) -> list[tuple[ManifestEntry, ManifestEntry]]:
        """Each entry, and what becomes of it, in the order of their new partitions.

        Raises:
            StalePlan: another change of keys is under way, and its rows have keys of its own.
            UnsupportedError: a file has no value for a key, so its rows must be split first.
        """
        self._check_rows(entries)
        values = self.values_of(entries)
        found = [(self._partition(each, values), each) for each in entries]
        found.sort(key=lambda each: each[0].order)
        return [(entry, self._entry(entry, partition.row)) for partition, entry in found]

    def _check_rows(self, live: Sequence[ManifestEntry]) -> None:
        """Check that entries which keep their rows have those of the table's keys, or their own.

        A client that opened the table before its keys changed gives its files rows of their own.
        """
        if self.keys is not None:
            return
        partitions = self.files.partitions
        for each in live:
            if row_arity(each.partition) != len(partitions.of_entry(each).keys.fields):
                raise StalePlan(
                    f"another process is changing the partition keys of {self.files.name}; wait "
                    "for its end, and plan again",
                    table=self.files.name,
                )

    def _partition(
        self, entry: ManifestEntry, values: Mapping[str, Mapping[str, Value]]
    ) -> Partition:
        partition = self.files.partitions.of_entry(entry)
        if self.keys is None:
            return partition
        known = {**values.get(entry.file.file_name, {}), **partition.stored}
        missing = [name for name in self.keys.names if name not in known]
        if missing:
            raise UnsupportedError(
                f"data file {entry.file.file_name} of {self.files.name} holds several values of "
                f"{missing[0]}, which is a partition key now; a client that opened the table "
                f"before wrote it: run respec with the keys {', '.join(self.keys.names)} to split "
                "it",
                table=self.files.name,
            )
        row = tuple(known[name] for name in self.keys.names)
        return Partition(self.keys, encode_row(row, self.keys.types), row)

    def _entry(self, entry: ManifestEntry, row: bytes) -> ManifestEntry:
        file = entry.file
        path = file.external_path
        if path is None:
            path = external_uri(self.files.fs, self.files.data_file_path(entry.place, file))
        schema_id = self.schemas.get(file.schema_id, file.schema_id)
        return replace(
            entry, partition=row, file=replace(file, external_path=path, schema_id=schema_id)
        )

    def restated_index(
        self, entry: IndexEntry, rows: Mapping[str, bytes], name: str
    ) -> Iterator[IndexEntry]:
        """The deletion vectors of an index file, each file of them in one partition only.

        `rows` are the new rows of the live data files, and `name` begins the names of new files.
        Java Paimon knows the index files of a table by their names, so the vectors of files that
        come to several partitions are copied to an index file for each.
        """
        if entry.file.index_type != DELETION_VECTORS_INDEX:
            raise UnsupportedError(
                f"{self.files.name} has an index of kind {entry.file.index_type}, which cannot "
                "be restated under other partition keys",
                table=self.files.name,
            )
        by_row = defaultdict(list)
        for each in entry.file.deletion_vectors or ():
            if each.data_file in rows:
                by_row[rows[each.data_file]].append(each)
        if len(by_row) == 1:
            yield replace(entry, partition=next(iter(by_row)))
            return
        for part, (row, ranges) in enumerate(by_row.items()):
            positions = self.files.indexes.read_deletion_vectors(entry.file.file_name, ranges)
            copied = self.files.indexes.write_deletion_vectors(
                positions,
                write_id=f"{name}-{part}",
                bitmap64=self.files.options.deletion_vectors_bitmap64,
            )
            yield IndexEntry(partition=row, bucket=entry.bucket, file=copied)
