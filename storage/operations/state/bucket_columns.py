"""The buckets of a snapshot as columns, from a few numbers of each live file.

1. Decode one manifest after the other to columns, and keep some numbers of each entry.
2. Fold ADD and DELETE entries: of several entries of one file in one place, the last one counts.
3. Sum up by bucket of each partition, as the table's keys name it: during a change of keys, the
   files of one partition have several rows.

Memory: 71 bytes for each entry, held twice for a moment, and two decoded manifests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.manifest_columns import NO_NUMBER, EntryColumns
from lakewright.storage.files.external_files import external_uri
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.bin_packing import units_of_ranges
from lakewright.storage.operations.state.keys import check_key_types
from lakewright.storage.operations.state.keys_of_files import keys_fit, schemas_fit
from lakewright.storage.operations.state.live_columns import live_columns, selected
from lakewright.storage.operations.state.live_files import level_0_waits, looks_level_0_up
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.manifest import FileKind, ManifestFileMeta, names_one_column

_LATEST = np.iinfo(np.int64).max
# Files are counted by size from each of these up to the next.
LEAST_SIZES = (0, 1 << 20, 8 << 20, 32 << 20, 128 << 20, 512 << 20)


@dataclass(frozen=True, kw_only=True, eq=False)
class BucketColumns:
    """Buckets with live files; element n of each array is of bucket n.

    `partition` is an index of `partition_rows`, whose schema is that of one of its files.
    `mergeable` are the files that a compaction could join with others: small files of an append
    bucket that has several, and files above the deepest level of a keyed bucket. Of these and the
    deepest level, `joined` are those that a compaction takes, if one is due. Only keyed tables have
    levels. `is_merged` says whether a reader sees each row that the files of a bucket hold, unless
    deletion vectors mark some: no file holds a retraction, and there is nothing to merge or to wait
    for. With data evolution, small files are those that a compaction can join, as they are of the
    same or the next rows, and `small_file_count` the most that become one file.
    `names` has a number for the name of each live file, bucket after bucket, and `begins` where
    those of a bucket begin. `has_other_rows` says that files have partition rows of other keys than
    the table's. `away_files` are named by their places in the table, as a change of keys leaves
    them. `shapes` count the files of all buckets: level, least size, files, bytes.
    """

    partition_rows: tuple[bytes, ...]
    partition_schemas: tuple[int, ...]
    schema_ids: tuple[int, ...]
    partition: np.ndarray
    bucket: np.ndarray
    file_count: np.ndarray
    row_count: np.ndarray
    size_bytes: np.ndarray
    small_file_count: np.ndarray
    small_bytes: np.ndarray
    level0_count: np.ndarray
    level0_bytes: np.ndarray
    sorted_run_count: np.ndarray
    waiting_file_count: np.ndarray
    waiting_row_count: np.ndarray
    is_merged: np.ndarray
    mergeable_count: np.ndarray
    mergeable_bytes: np.ndarray
    joined_count: np.ndarray
    joined_bytes: np.ndarray
    left_run_count: np.ndarray
    first_creation_ms: np.ndarray
    last_creation_ms: np.ndarray
    names: np.ndarray
    begins: np.ndarray
    shapes: tuple[tuple[int, int, int, int], ...]
    has_other_rows: bool = False
    away_files: int = 0
    away_bytes: int = 0

    def __len__(self) -> int:
        return len(self.bucket)

    def is_settled(self, files: TableFiles, metas: Sequence[ManifestFileMeta]) -> bool:
        """Whether all live files have the table's keys, of the buckets of all these manifests."""
        has_rows = keys_fit(files, metas) and not self.has_other_rows
        return has_rows and schemas_fit(files, self.schema_ids)

    def names_of(self, index: int) -> np.ndarray:
        """A number for the name of each file of a bucket."""
        begin = int(self.begins[index])
        return self.names[begin : begin + int(self.file_count[index])]

    def of_partitions(self) -> Iterator[np.ndarray]:
        """The indexes of the buckets of each partition, in the order of `partition_rows`."""
        order = np.lexsort((self.bucket, self.partition))
        ends = np.cumsum(np.bincount(self.partition, minlength=len(self.partition_rows)))
        begin = 0
        for end in ends.tolist():
            yield order[begin:end]
            begin = end


def bucket_columns(
    files: TableFiles, metas: Sequence[ManifestFileMeta], wanted: PartitionFilter
) -> BucketColumns:
    """The buckets of the wanted partitions whose files some manifests name.

    Raises:
        CorruptionError: a file is added twice.
        UnreadableManifest: a manifest is missing or damaged.
        UnsupportedError: a primary key had another type when one of the files was written.
    """
    partitions = _Partitions({}, [])
    # What is read here once is not worth keeping: each manifest goes before the next one comes.
    manifests = replace(files.manifests, decoded=None)
    home = f"{external_uri(files.fs, files.paths.root)}/".encode()
    read = manifests.read_all_columns(_held(metas, wanted))
    parts = (selected(part, wanted) for part in read)
    numbers = _Numbers.joined(_Numbers.of(part, None, partitions, home) for part in parts)
    live = numbers.live()
    if live is None:
        columns = live_columns(files, metas, wanted)
        partitions = _Partitions({}, [])
        numbers = _Numbers.joined(
            _Numbers.of(part, rows, partitions, home)
            for part, rows, _ in columns.by_part(columns.rows)
        )
        live = np.arange(len(numbers.name))
    others = partitions.of_other_keys(files)
    has_other_rows = bool(np.isin(numbers.partition[live], others).any())
    # Only now: a removal under other keys than its file's has removed nothing.
    numbers = replace(numbers, partition=partitions.named_by(files, others)[numbers.partition])
    order = live[np.lexsort((numbers.bucket[live], numbers.partition[live]))]
    # Two copies of the numbers are the most that is held.
    numbers = numbers.taken(order)
    return replace(_by_bucket(files, numbers, partitions), has_other_rows=has_other_rows)


def _held(metas: Iterable[ManifestFileMeta], wanted: PartitionFilter) -> Iterator[ManifestFileMeta]:
    return (meta for meta in metas if wanted.may_hold(meta))


@dataclass(frozen=True, slots=True)
class _Partitions:
    """The numbers of partition rows, and a schema of each."""

    numbers: dict[bytes, int]
    schemas: list[int]

    def numbered(self, rows: pa.LargeBinaryArray, schema_ids: np.ndarray) -> np.ndarray:
        encoded = rows.dictionary_encode()
        codes = encoded.indices.to_numpy()
        # One entry of each row, whose schema tells how to read it.
        one = np.zeros(len(encoded.dictionary), np.int64)
        one[codes] = np.arange(len(codes))
        known = np.zeros(len(one), np.int32)
        for index, row in enumerate(encoded.dictionary.to_pylist()):
            number = self.numbers.setdefault(row, len(self.numbers))
            if number == len(self.schemas):
                self.schemas.append(int(schema_ids[one[index]]))
            known[index] = number
        found: np.ndarray = known[codes]
        return found

    def of_other_keys(self, files: TableFiles) -> list[int]:
        """The numbers of rows that have other keys than the table."""
        known = files.partitions
        return [
            number
            for row, number in self.numbers.items()
            if not known.has_these_keys(row, self.schemas[number])
        ]

    def named_by(self, files: TableFiles, others: Iterable[int]) -> np.ndarray:
        """The number of each row's partition, of which several rows are, during a change of keys.

        `others` are the rows of other keys.
        """
        known, own = files.partitions, files.schema.id
        named = np.arange(len(self.numbers), dtype=np.int32)
        rows = tuple(self.numbers)
        for number in others:
            row = rows[number]
            partition = known.as_named(row, self.schemas[number])
            if partition.keys.names == known.keys.names:
                named[number] = self.numbers.setdefault(partition.row, len(self.numbers))
                if named[number] == len(self.schemas):
                    self.schemas.append(own)
        return named


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers that are kept of each entry."""

    name: np.ndarray
    partition: np.ndarray
    bucket: np.ndarray
    level: np.ndarray
    schema: np.ndarray
    size: np.ndarray
    rows: np.ndarray
    created: np.ndarray
    added: np.ndarray
    plain: np.ndarray
    retracts: np.ndarray
    away: np.ndarray
    first_row: np.ndarray
    # Files of all columns of their rows but blobs and vectors.
    whole: np.ndarray

    @classmethod
    def of(
        cls, part: EntryColumns, rows: np.ndarray | None, partitions: _Partitions, home: bytes
    ) -> _Numbers:
        """Those of all entries of a manifest, or of some; `home` begins places in the table."""
        chosen = np.arange(len(part)) if rows is None else rows
        schema = part.numbers("_FILE._SCHEMA_ID", chosen)
        return cls(
            name=part.name_keys()[chosen],
            partition=partitions.numbered(part.texts("_PARTITION", chosen), schema),
            bucket=part.numbers("_BUCKET", chosen).astype(np.int32),
            level=part.numbers("_FILE._LEVEL", chosen).astype(np.int32),
            schema=schema.astype(np.int32),
            size=part.numbers("_FILE._FILE_SIZE", chosen),
            rows=part.numbers("_FILE._ROW_COUNT", chosen),
            created=part.numbers("_FILE._CREATION_TIME", chosen),
            added=part.numbers("_KIND", chosen) == FileKind.ADD,
            plain=part.are_plain(chosen),
            # Without a number it may.
            retracts=part.numbers("_FILE._DELETE_ROW_COUNT", chosen) != 0,
            away=_are_away(part, chosen, home),
            first_row=part.numbers("_FILE._FIRST_ROW_ID", chosen),
            whole=_hold_rows(part, chosen),
        )

    @classmethod
    def joined(cls, several: Iterable[_Numbers]) -> _Numbers:
        held = list(several)
        names = [field.name for field in fields(cls)]
        if not held:
            return cls(*(np.zeros(0, bool if name in _FLAGS else np.int64) for name in names))
        return cls(*(np.concatenate([getattr(each, name) for each in held]) for name in names))

    def taken(self, rows: np.ndarray) -> _Numbers:
        return _Numbers(*(getattr(self, field.name)[rows] for field in fields(self)))

    def live(self) -> np.ndarray | None:
        """The entries whose file is added, and not removed after; None if names must tell.

        Files are identified by numbers of their names. What else belongs to a file's identity
        counts where a file has several entries.
        """
        order = np.argsort(self.name, kind="stable")
        named = self.name[order]
        again = np.zeros(len(order), bool)
        again[1:] = named[1:] == named[:-1]
        again[:-1] |= again[1:]
        live = self.added.copy()
        several = np.sort(order[again])
        if not self.plain[several].all():
            return None
        # The sort is stable: the entries of one file in one place stay in their order.
        places = (self.level, self.bucket, self.partition, self.name)
        several = several[np.lexsort([place[several] for place in places])]
        same = np.ones(max(len(several) - 1, 0), bool)
        for place in places:
            same &= place[several[1:]] == place[several[:-1]]
        added = self.added[several]
        if (same & added[1:] & added[:-1]).any():
            # A file is added twice, or numbers of two names are equal.
            return None
        live[several[:-1][same]] = False
        return np.flatnonzero(live)


_FLAGS = frozenset({"added", "plain", "retracts", "away", "whole"})


def _hold_rows(part: EntryColumns, chosen: np.ndarray) -> np.ndarray:
    """Whether files are of rows; of others, none has row ids and no blob beside it."""
    has_ids = part.numbers("_FILE._FIRST_ROW_ID", chosen) != NO_NUMBER
    if has_ids.any():
        names = part.texts("_FILE._FILE_NAME", chosen[has_ids]).to_pylist()
        has_ids[has_ids] = [not names_one_column(name.decode()) for name in names]
    found: np.ndarray = has_ids
    return found


def _are_away(part: EntryColumns, chosen: np.ndarray, home: bytes) -> np.ndarray:
    away: np.ndarray = part.are_filled("_FILE._EXTERNAL_PATH", chosen)
    if away.any():
        places = part.texts("_FILE._EXTERNAL_PATH", chosen[away])
        away[away] = pc.starts_with(places, home).to_numpy(zero_copy_only=False)
    return away


def _by_bucket(files: TableFiles, found: _Numbers, partitions: _Partitions) -> BucketColumns:
    """Sums over entries that are sorted by partition and bucket."""
    starts = np.ones(len(found.name), bool)
    starts[1:] = (found.bucket[1:] != found.bucket[:-1]) | (
        found.partition[1:] != found.partition[:-1]
    )
    begins = np.flatnonzero(starts)
    of_bucket = np.cumsum(starts) - 1

    def sums(values: np.ndarray) -> np.ndarray:
        return _reduced(np.add, values.astype(np.int64), begins)

    options, keyed = files.options, files.schema.is_keyed
    small = found.size < options.target_file_size * options.compaction_small_file_ratio
    most_small = None
    if options.data_evolution_enabled:
        small, most_small = _joined_ranges(found, of_bucket, len(begins), options.target_file_size)
    at_level_0 = (found.level == 0) & keyed
    waiting = found.bucket < 0
    if level_0_waits(files):
        waiting |= found.level == 0
    check_key_types(files, np.unique(found.schema[~waiting]).tolist())
    runs = _run_counts(found, of_bucket, begins) if keyed else sums(np.ones(len(starts)))
    several = runs > 1 if keyed else sums(small) > 1
    deepest = _reduced(np.maximum, found.level.astype(np.int64), begins)
    beside = ((found.level < deepest[of_bucket]) | (found.level == 0)) if keyed else small
    mergeable = beside & several[of_bucket]
    is_merged = sums(waiting) == 0
    if keyed:
        is_merged &= (runs <= 1) & (sums(found.retracts) == 0) & (not options.counts_rows)
        joined = _joined_runs(files, found, of_bucket, begins)
    else:
        joined = sums(mergeable), sums(found.size * mergeable), runs
    created = np.where(found.created == NO_NUMBER, _LATEST, found.created)
    return BucketColumns(
        # Partitions of removed files stay in the numbering, and have no bucket.
        partition_rows=tuple(partitions.numbers),
        partition_schemas=tuple(partitions.schemas),
        schema_ids=tuple(np.unique(found.schema).tolist()),
        partition=found.partition[begins],
        bucket=found.bucket[begins],
        file_count=np.diff(np.append(begins, len(starts))),
        row_count=sums(found.rows),
        size_bytes=sums(found.size),
        small_file_count=sums(small) if most_small is None else most_small,
        small_bytes=sums(found.size * small),
        level0_count=sums(at_level_0),
        level0_bytes=sums(found.size * at_level_0),
        sorted_run_count=runs,
        waiting_file_count=sums(waiting),
        waiting_row_count=sums(found.rows * waiting),
        is_merged=is_merged,
        mergeable_count=sums(mergeable),
        mergeable_bytes=sums(found.size * mergeable),
        joined_count=joined[0],
        joined_bytes=joined[1],
        left_run_count=joined[2],
        first_creation_ms=_reduced(np.minimum, created, begins),
        last_creation_ms=_reduced(np.maximum, found.created, begins),
        names=found.name,
        begins=begins,
        shapes=tuple(_shapes(found)),
        # During a change of keys those of a keyed table are for a moment.
        away_files=0 if keyed else int(found.away.sum()),
        away_bytes=0 if keyed else int(found.size[found.away].sum()),
    )


def _shapes(found: _Numbers) -> Iterator[tuple[int, int, int, int]]:
    """Level, least size, number and bytes of the files that are alike in both."""
    sizes = np.searchsorted(LEAST_SIZES, found.size, "right") - 1
    places = found.level.astype(np.int64) * len(LEAST_SIZES) + sizes
    for place in np.unique(places).tolist():
        alike = places == place
        level, size = divmod(place, len(LEAST_SIZES))
        yield level, LEAST_SIZES[size], int(alike.sum()), int(found.size[alike].sum())


def _reduced(function: np.ufunc, values: np.ndarray, begins: np.ndarray) -> np.ndarray:
    if not len(begins):
        return np.zeros(0, np.int64)
    found: np.ndarray = function.reduceat(values, begins)
    return found


def _run_counts(found: _Numbers, of_bucket: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Runs that a reader merges: each file of level 0, and each deeper level with files."""
    counts = _reduced(np.add, (found.level == 0).astype(np.int64), begins)
    deep, levels = found.level > 0, int(found.level.max(initial=0)) + 1
    runs = np.unique(of_bucket[deep] * levels + found.level[deep])
    summed: np.ndarray = counts + np.bincount(runs // levels, minlength=len(begins))
    return summed


def _joined_ranges(
    found: _Numbers, of_bucket: np.ndarray, buckets: int, target_bytes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Files that a compaction of evolving columns can join; of each bucket, the most in one file.

    They are those that `_pick_columns` of the plan takes, if it needs two.
    """
    small, most = np.zeros(len(found.name), bool), np.zeros(buckets, np.int64)
    chosen = np.flatnonzero(found.whole)
    chosen = chosen[np.lexsort((found.rows[chosen], found.first_row[chosen], of_bucket[chosen]))]
    for bucket, rows in groupby(chosen.tolist(), key=lambda row: int(of_bucket[row])):
        ranges = [
            (place, [*same])
            for place, same in groupby(
                rows, key=lambda row: (int(found.first_row[row]), int(found.rows[row]))
            )
        ]
        sized = ((*place, int(found.size[same].sum())) for place, same in ranges)
        units: dict[int, list[int]] = {}
        numbers = units_of_ranges(sized, target_bytes=target_bytes)
        for unit, (_, same) in zip(numbers, ranges, strict=True):
            units.setdefault(unit, []).extend(same)
        for together in units.values():
            small[together] = len(together) > 1
            most[bucket] = max(most[bucket], len(together) if len(together) > 1 else 0)
    return small, most


def _joined_runs(
    files: TableFiles, found: _Numbers, of_bucket: np.ndarray, begins: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What universal compaction takes in each keyed bucket, files and bytes; the runs it leaves.

    From the newest run on, until one is much larger than those before it; or all, if those above
    the oldest outweigh it. Where rows wait in level 0, only buckets that have such are compacted.
    """
    options, waits = files.options, looks_level_0_up(files)
    bucket, buckets = found.bucket[begins], len(begins)
    levels = int(found.level.max(initial=0)) + 1
    places = of_bucket * levels + np.maximum(found.level, 0)
    counts = np.bincount(places, minlength=buckets * levels).reshape(buckets, levels)
    sizes = np.zeros((buckets, levels), np.int64)
    np.add.at(sizes.reshape(-1), places, found.size)
    count, size = counts[:, 0].copy(), sizes[:, 0].copy()
    left = np.ones(buckets, np.int64)
    oldest, goes_on = np.zeros(buckets, np.int64), np.ones(buckets, bool)
    for level in range(1, levels):
        there = counts[:, level] > 0
        is_near = size * (100 + options.compaction_size_ratio) >= 100 * sizes[:, level]
        goes_on &= ~there | is_near | (count == 0) | (level == 1)
        count += np.where(goes_on, counts[:, level], 0)
        size += np.where(goes_on, sizes[:, level], 0)
        left += there & ~goes_on
        oldest = np.where(there, sizes[:, level], oldest)
    every, total = counts.sum(axis=1), sizes.sum(axis=1)
    runs = counts[:, 0] + (counts[:, 1:] > 0).sum(axis=1)
    # What only empties level 0 does not look at the oldest run.
    is_due = runs >= options.num_sorted_run_compaction_trigger if waits else runs > 1
    limit = options.compaction_max_size_amplification_percent
    outweighs = is_due & ((total - oldest) * 100 > limit * oldest)
    taken = counts[:, 0] > 0 if waits else runs > 1
    # Rows without a bucket all get one.
    taken |= bucket < 0
    count = np.where(taken, np.where(outweighs, every, count), 0)
    size = np.where(taken, np.where(outweighs, total, size), 0)
    return count, size, np.where(taken, np.where(outweighs, 1, left), runs)
