"""Looks up single keys without reading the whole table.

1. Cast the keys to the types of the primary key and group them by partition and bucket. The
   hash of a key gives its bucket, or the hash index does for dynamic buckets.
2. Open only the files of the bucket whose key range holds one of the keys, and only the Parquet
   row groups whose statistics do.
3. Merge the rows that were found with the table's engine.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import value_of
from lakewright.storage.codec.bucket_hash import buckets_of, hashes_of
from lakewright.storage.codec.conform import conform
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.data_files import WantedPieces, read_pieces
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.blank_keys import first_key_read, hashed_with_blanks
from lakewright.storage.operations.read.file_rows import FileRows, KeyValueReading
from lakewright.storage.operations.read.merge_read import merged_rows
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.read.unfit_values import NulledValues, logged
from lakewright.storage.operations.state.assign_buckets import (
    hash_indexes,
    partitions_of,
    rows_by_code,
)
from lakewright.storage.operations.state.keys import key_decoder
from lakewright.storage.operations.state.live_files import (
    deletions_by_bucket,
    grouped_by_bucket,
    readable_entries,
)
from lakewright.storage.operations.state.table_state import ANY_KEYS, state_at
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.index import IndexEntry
from lakewright.storage.spec.manifest import DataFileMeta, ManifestEntry
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.supported_options import Use, check_supported
from lakewright.storage.spec.values import order_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The rows found, and the files and row groups read out of the total.

    `row_groups` counts those of the files read; stripes of ORC files count, and an Avro file
    counts as one.
    """

    rows: pa.Table
    files_read: int
    files_live: int
    row_groups_read: int
    row_groups: int


def lookup(
    files: TableFiles,
    keys: pa.Table,
    snapshot: Snapshot | None,
    *,
    columns: Sequence[str] | None = None,
) -> Lookup:
    """The rows of some keys, in no defined order; a missing key has no row.

    `keys` has a column for each column of the primary key, including partition keys. `columns` None
    means all columns.

    Raises:
        InvalidRequestError: the table has no primary key, or a column does not exist.
        InvalidRows: the keys lack a column, hold null, or do not fit their types.
    """
    check_supported(files.schema, Use.READ, table=files.name)
    if not files.schema.has_primary_key:
        raise InvalidRequestError(
            f"{files.name} has no primary key to look up; read it with a filter"
        )
    wanted = files.schema.names_of(columns)
    fields = files.schema.fields_of(wanted)
    key_fields = files.schema.fields_of(files.schema.primary_keys)
    conformed = conform(keys, key_fields, table=files.name).combine_chunks()
    needed = files.merge_spec.with_needed((*wanted, *files.schema.primary_keys))
    reader = _KeyReader(files, needed)
    parts: list[pa.Table] = []
    plan = _plan(files, conformed, snapshot)
    with logged(reader.nulled, files.name):
        for split, sought in plan.splits:
            parts += reader.find(split, sought)
    found = _exactly(parts, conformed, files) if parts else None
    empty = pa.schema([each.with_nullable(True) for each in to_arrow_schema(fields)]).empty_table()
    return Lookup(
        rows=empty if found is None else found.select(list(wanted)),
        files_read=sum(len(split.files) for split, _ in plan.splits),
        files_live=plan.files_live,
        row_groups_read=reader.row_groups_read,
        row_groups=reader.row_groups,
    )


# --- which files -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """The files to open, by bucket, with the keys to look up in each bucket."""

    splits: tuple[tuple[DataSplit, pa.Table], ...]
    files_live: int


def _plan(files: TableFiles, keys: pa.Table, snapshot: Snapshot | None) -> _Plan:
    state = state_at(files, snapshot, takes=ANY_KEYS)
    live = state.entries
    if not live or not keys.num_rows:
        return _Plan((), len(live))
    state.check_looked_up(live)
    partitions, codes = partitions_of(files, keys)
    asked = set(partitions)
    buckets: dict[bytes, list[list[ManifestEntry]]] = defaultdict(list)
    readable = (each for each in readable_entries(files, live) if each.partition in asked)
    for (partition, _), entries in grouped_by_bucket(readable).items():
        buckets[partition].append(entries)
    indexes = hash_indexes(state.indexes)
    deletions = deletions_by_bucket(state.indexes)
    splits = []
    for partition, members in zip(partitions, rows_by_code(codes), strict=True):
        own = keys.take(pa.array(members))
        for entries in buckets[partition]:
            bucket = entries[0].bucket
            sought = _keys_of_bucket(files, own, entries, indexes.get(partition, ()))
            metas = _files_of_keys(files, sought, [entry.file for entry in entries])
            if metas:
                split = DataSplit(
                    partition=partition,
                    bucket=bucket,
                    files=tuple(metas),
                    merge=True,
                    deletions=deletions.get(Place(partition, bucket), ()),
                )
                splits.append((split, sought))
    return _Plan(tuple(splits), len(live))


def _keys_of_bucket(
    files: TableFiles,
    keys: pa.Table,
    entries: Sequence[ManifestEntry],
    indexes: Sequence[IndexEntry],
) -> pa.Table:
    """The keys of a partition that a bucket may hold."""
    bucket, count = entries[0].bucket, entries[0].total_buckets
    if hashed_with_blanks(entries, files.schema.key_fields):
        return keys
    if count > 0:
        fields = files.schema.fields_of(files.options.bucket_keys)
        buckets = buckets_of(keys, fields, count, files.options.bucket_function)
        return keys.filter(pa.array(buckets == bucket))
    held = [
        files.indexes.read_hash_index(index.file) for index in indexes if index.bucket == bucket
    ]
    if not held:
        return keys
    hashes = hashes_of(keys, files.schema.key_fields)
    return keys.filter(pa.array(np.isin(hashes, np.concatenate(held))))


def _files_of_keys(
    files: TableFiles, keys: pa.Table, metas: Sequence[DataFileMeta]
) -> list[DataFileMeta]:
    """Files whose key range holds one of the keys."""
    if keys.num_rows == 0:
        return []
    decode = key_decoder(files.schema)
    columns = [
        [order_key(value_of(scalar, key_field.type)) for scalar in keys.column(key_field.name)]
        for key_field in files.schema.key_fields
    ]
    ordered = sorted(zip(*columns, strict=True))

    def holds(file: DataFileMeta) -> bool:
        first = first_key_read(file, decode(file.min_key), files.schema.key_fields)
        low = tuple(order_key(value) for value in first)
        high = tuple(order_key(value) for value in decode(file.max_key))
        return bisect_left(ordered, low) < bisect_right(ordered, high)

    return [file for file in metas if holds(file)]


# --- what is in them ----------------------------------------------------------------------------


class _KeyReader:
    """Finds the rows of keys in buckets, and counts the row groups read."""

    def __init__(self, files: TableFiles, columns: Sequence[str]) -> None:
        self._files = files
        self._fields = tuple(field for field in files.schema.fields if field.name in columns)
        self.nulled = NulledValues()
        self.row_groups = 0
        self.row_groups_read = 0

    def find(self, split: DataSplit, keys: pa.Table) -> list[pa.Table]:
        """Merged rows of a bucket whose hash matches a key; may include other keys."""
        source = _KeyedRows(self._files, self._fields, keys, self.nulled)
        names = [field.name for field in self._fields]
        found = list(merged_rows(source, split, names))
        self.row_groups += source.ranges.asked
        self.row_groups_read += source.ranges.taken
        return found


@dataclass
class _Ranges:
    """The sorted values of each key column to look up; counts its calls."""

    values: Mapping[str, Sequence[Any]]
    asked: int = 0
    taken: int = 0

    @classmethod
    def of(cls, files: TableFiles, keys: pa.Table) -> _Ranges:
        return cls(
            {
                key_field.name: sorted(keys.column(key_field.name).unique().to_pylist())
                for key_field in files.schema.key_fields
            }
        )

    def meet(self, bounds: Mapping[str, tuple[Any, Any]]) -> bool:
        """Whether every bounded column has a value within its bounds."""
        self.asked += 1
        met = all(
            _any_between(self.values[name], low, high) for name, (low, high) in bounds.items()
        )
        self.taken += met
        return met


def _any_between(ordered: Sequence[Any], low: Any, high: Any) -> bool:
    if type(low) is not type(ordered[0]):
        # Statistics of another representation than the values cannot prune.
        return True
    return bisect_left(ordered, low) < bisect_right(ordered, high)


class _KeyedRows(FileRows):
    """Reads the rows of data files that may belong to some keys."""

    def __init__(
        self, files: TableFiles, fields: Sequence[DataField], keys: pa.Table, nulled: NulledValues
    ) -> None:
        super().__init__(files, fields, shown=True, nulled=nulled)
        self.ranges = _Ranges.of(files, keys)
        self._hashes = np.unique(hashes_of(keys, files.schema.key_fields))

    def row_bytes(
        self,
        split: DataSplit,
        metas: Sequence[DataFileMeta],
        batch_bytes: int,
        *,
        with_keys: bool = False,
    ) -> int:
        """A fixed estimate: few rows remain of a lookup, so sampling costs more than it saves."""
        return 1

    def key_value_rows(
        self, split: DataSplit, file: DataFileMeta, **reading: Unpack[KeyValueReading]
    ) -> Iterator[pa.Table]:
        """As in `FileRows`, but only rows whose hash matches a key."""
        marks_stay = reading.get("marked", False)
        # Values of keys that are not looked up are neither counted nor refused.
        own: KeyValueReading = {**reading, "marked": marks_stay or self.may_mark(split)}
        for rows in super().key_value_rows(split, file, **own):
            held = np.isin(hashes_of(rows, self.files.schema.key_fields), self._hashes)
            found = rows if held.all() else rows.filter(pa.array(held))
            yield found if marks_stay else self.settled(found, split)

    def pieces(
        self, path: str, columns: Sequence[str], file: DataFileMeta, batch_rows: int | None
    ) -> Iterator[tuple[int, pa.Table]]:
        # Bounds of a retyped key do not compare with the values of the lookup.
        now = self.schemas.mapping_of(file).same_columns(self.files.schema.key_fields)

        def may_hold(bounds: Mapping[str, tuple[Any, Any]]) -> bool:
            return self.ranges.meet({now[name]: known for name, known in bounds.items()})

        yield from read_pieces(
            self.files.fs,
            path,
            columns,
            expected_rows=file.row_count,
            wanted=WantedPieces(list(now), may_hold),
            reading=self.reading(file),
        )


def _exactly(parts: Sequence[pa.Table], keys: pa.Table, files: TableFiles) -> pa.Table:
    """The rows whose key equals a key of the lookup, not only its hash."""
    names = list(files.schema.primary_keys)
    found = pa.concat_tables(parts)
    order = pa.array(np.arange(found.num_rows))
    numbered = found.select(names).append_column("_row", order)
    kept = numbered.join(keys.select(names), keys=names, join_type="left semi")
    return found.take(kept.column("_row").combine_chunks())
