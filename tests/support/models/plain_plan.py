"""Planning one entry after the other, as the model that planning on columns must equal."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import array_of
from lakewright.storage.codec.binary_row import decode_row
from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.sections import sections_of
from lakewright.storage.operations.read.blank_keys import first_key_read, hashed_with_blanks
from lakewright.storage.operations.read.scan import DataSplit
from lakewright.storage.operations.state.file_schemas import FileSchemas
from lakewright.storage.operations.state.keys import key_decoder
from lakewright.storage.operations.state.live_files import (
    deletions_by_bucket,
    grouped_by_bucket,
    index_entries,
    readable_entries,
    snapshot_manifests,
)
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.index import DeletionVectorRange
from lakewright.storage.spec.manifest import DataFileMeta, FileKind, ManifestEntry, fold_entries
from lakewright.storage.spec.options import BucketMode
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.predicate import (
    Bounds,
    Leaf,
    Operator,
    Predicate,
    conjuncts,
    may_match,
    only_on,
)
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.values import Value


def plain_entries(
    files: TableFiles, snapshot: Snapshot, predicate: Predicate | None
) -> list[ManifestEntry]:
    """The live entries of the partitions that a filter selects, in the order of their manifests."""
    wanted = PartitionFilter(files, predicate=predicate)
    metas = snapshot_manifests(files, snapshot)
    entries = list(
        files.manifests.entries(metas, keep_manifest=wanted.may_hold, keep_entry=wanted.takes)
    )
    live = [each for each in fold_entries(entries).values() if each.kind is FileKind.ADD]
    # An entry that follows its own removal stands in the fold where the removal does.
    place_of = {id(entry): place for place, entry in enumerate(entries)}
    return sorted(live, key=lambda entry: place_of[id(entry)])


def plain_splits(
    files: TableFiles, snapshot: Snapshot, predicate: Predicate | None
) -> list[DataSplit]:
    """The splits to read."""
    pruner = _Pruner(files, predicate)
    deletions = deletions_by_bucket(index_entries(files, snapshot))
    entries = readable_entries(files, plain_entries(files, snapshot, predicate))
    return [
        split
        for place, group in grouped_by_bucket(entries).items()
        if pruner.takes_bucket(group)
        for split in _bucket_splits(files, place, group, pruner, deletions.get(place, ()))
    ]


def _bucket_splits(
    files: TableFiles,
    place: Place,
    entries: list[ManifestEntry],
    pruner: _Pruner,
    deletions: tuple[tuple[str, DeletionVectorRange], ...],
) -> list[DataSplit]:
    metas = [entry.file for entry in entries]

    def split(chosen: tuple[DataFileMeta, ...], *, merge: bool) -> DataSplit:
        names = {file.file_name for file in chosen}
        gone = tuple(each for each in deletions if each[1].data_file in names)
        return DataSplit(
            partition=place.partition,
            bucket=place.bucket,
            files=chosen,
            merge=merge,
            deletions=gone,
        )

    if not files.schema.is_keyed:
        metas.sort(key=lambda file: (file.min_sequence_number, file.creation_time or 0))
        kept = tuple(file for file in metas if pruner.takes_values(file))
        return [split(kept, merge=False)] if kept else []
    # A file outside of the requested key range holds no version of these keys.
    metas = [file for file in metas if pruner.takes_keys(file)]
    splits = []
    raw: list[DataFileMeta] = []
    if files.options.deletion_vectors_enabled:
        # Each key has one visible row: deletion vectors remove the others.
        kept = tuple(file for file in metas if pruner.takes_values(file))
        return [split(kept, merge=False)] if kept else []
    for section in sections_of(metas, key_decoder(files.schema)):
        needs_merge = len(section.files) > 1 or section.files[0].delete_row_count != 0
        # A counted row may exist several times, or not at all.
        if needs_merge or files.schema.counts_rows:
            splits.append(split(section.files, merge=True))
        elif pruner.takes_values(section.files[0]):
            raw.append(section.files[0])
    return [split(tuple(raw), merge=False), *splits] if raw else splits


class _Pruner:
    """Decides by bucket and statistics which files may hold matching rows."""

    def __init__(self, files: TableFiles, predicate: Predicate | None) -> None:
        self._files = files
        self._predicate = predicate
        self._on_keys = only_on(predicate, frozenset(files.schema.key_names))
        self._schemas = FileSchemas(files)
        self._bucket_fields = files.schema.fields_of(files.options.bucket_keys)
        self._buckets: dict[int, frozenset[int] | None] = {}

    def takes_bucket(self, entries: Sequence[ManifestEntry]) -> bool:
        bucket, total_buckets = entries[0].bucket, entries[0].total_buckets
        if total_buckets <= 0 or self._predicate is None:
            return True
        if total_buckets not in self._buckets:
            self._buckets[total_buckets] = self._buckets_asked_for(total_buckets)
        asked = self._buckets[total_buckets]
        if asked is None or bucket in asked:
            return True
        return hashed_with_blanks(entries, self._bucket_fields)

    def takes_keys(self, file: DataFileMeta) -> bool:
        if self._on_keys is None:
            return True
        fields = self._files.schema.key_fields
        types = [field.type for field in fields]
        low, high = decode_row(file.min_key, types), decode_row(file.max_key, types)
        low = first_key_read(file, low, fields)
        bounds: dict[str, Bounds] = {}
        if file.key_stats.null_counts:
            bounds = self._schemas.key_bounds_of(file)
        # A key range bounds only the first key column by itself.
        if low[0] is not None:
            bounds[fields[0].name] = Bounds(low[0], high[0], 0, file.row_count)
        return may_match(self._on_keys, bounds)

    def takes_values(self, file: DataFileMeta) -> bool:
        if self._predicate is None:
            return True
        known = self._schemas.bounds_of(file)
        bounds = self._schemas.mapping_of(file).bounds(known, file.row_count)
        return may_match(self._predicate, bounds)

    def _buckets_asked_for(self, total_buckets: int) -> frozenset[int] | None:
        """The buckets of the keys that the filter names by equality; None means all buckets."""
        options = self._files.options
        if options.bucket_mode not in (BucketMode.FIXED, BucketMode.POSTPONE):
            return None
        fields = self._bucket_fields
        literals: list[tuple[Value, ...]] = []
        for field in fields:
            for part in conjuncts(self._predicate):
                if (
                    isinstance(part, Leaf)
                    and part.column == field.name
                    and part.operator in (Operator.EQ, Operator.IN)
                    and None not in part.literals
                ):
                    asked = _all_bits(part.literals)
                    if asked is None:
                        return None
                    literals.append(asked)
                    break
            else:
                return None
        if len(fields) > 1 and any(len(values) > 1 for values in literals):
            return None
        arrays = [
            array_of(values, field.type) for field, values in zip(fields, literals, strict=True)
        ]
        rows = pa.table(arrays, schema=to_arrow_schema(fields))
        buckets = buckets_of(rows, fields, total_buckets, options.bucket_function)
        return frozenset(buckets.tolist())


def _all_bits(literals: Sequence[Value]) -> tuple[Value, ...] | None:
    """The literals, with both zeros where one is given: they are equal but hash differently.

    None if a literal is NaN, which has too many bit patterns to list.
    """
    floats = [value for value in literals if isinstance(value, float)]
    if any(map(math.isnan, floats)):
        return None
    return (*literals, *(-value for value in floats if value == 0))
