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
from typing import TypeAlias

from lakewright.storage.codec.binary_row import encode_row, row_arity
from lakewright.storage.errors import StalePlan, UnsupportedError
from lakewright.storage.files.external_files import external_uri
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.key_values import KeyValues
from lakewright.storage.operations.running.engine import Engine
from lakewright.storage.operations.state.table_state import TableState
from lakewright.storage.spec.commit import RestatedBase
from lakewright.storage.spec.index import DELETION_VECTORS_INDEX, IndexEntry
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.partition import Partition, PartitionKeys
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.values import Value

ValuesOf: TypeAlias = Callable[[Sequence[ManifestEntry]], Mapping[str, Mapping[str, Value]]]


def _no_values(_: Sequence[ManifestEntry]) -> Mapping[str, Mapping[str, Value]]:
    return {}


def known_values(files: TableFiles, engine: Engine, values: KeyValues | None = None) -> ValuesOf:
    """The values of the table's keys in files that hold one of each; others are left out."""
    found = values or KeyValues(files, files.schema.partition_fields)

    def values_of(entries: Sequence[ManifestEntry]) -> Mapping[str, Mapping[str, Value]]:
        found.look(entries, engine)
        single = ((entry.file.file_name, found.single(entry.file)) for entry in entries)
        return {name: each for name, each in single if each is not None}

    return values_of


def schemas_with_keys(files: TableFiles, schema_ids: Iterable[int]) -> dict[int, int | None]:
    """Schemas with the table's keys and the columns of older schemas; None where there is none.

    A schema whose keys are the first of the table's keys needs no other.
    """
    keys = files.schema.partition_keys
    found: dict[int, int | None] = {}
    for schema_id in set(schema_ids):
        own = files.at_schema(schema_id).schema
        if own.partition_keys == keys[: len(own.partition_keys)]:
            continue
        alike = (
            number
            for number in reversed(files.schemas.ids())
            if number > schema_id and _is_alike(files.at_schema(number).schema, own, keys)
        )
        found[schema_id] = next(alike, None)
    return found


def _is_alike(schema: TableSchema, own: TableSchema, keys: tuple[str, ...]) -> bool:
    return schema.partition_keys == keys and schema.fields == own.fields


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

    def base(self, state: TableState, *, leaving: Collection[str] = ()) -> RestatedBase:
        """All standing entries with rows of the keys, in the order of their partitions.

        The same commit removes the files with the names `leaving`, and their deletion vectors go.

        Raises:
            StalePlan: another change of keys is under way, and its rows have keys of its own.
            UnsupportedError: a file has no value for a key, so its rows must be split first.
        """
        pairs = self.restated(state.standing)
        rows = {
            now.file.file_name: now.partition
            for _, now in pairs
            if now.file.file_name not in leaving
        }
        indexes = (
            each
            for number, entry in enumerate(state.indexes)
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
        for entry in live:
            if row_arity(entry.partition) != len(partitions.of_entry(entry).keys.fields):
                raise StalePlan(
                    f"another process is changing the partition keys of {self.files.name}; wait "
                    "for its end, and plan again"
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
                "it"
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
                "be restated under other partition keys"
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
