"""Plans which files a read opens.

1. Select the manifests of the snapshot whose partition bounds may match.
2. Merge their entries, and keep entries with a matching partition and bucket.
3. Prune files whose statistics exclude the filter, where that is safe.
4. Make splits: files without overlap, and sections of overlapping files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from lakewright.storage.codec.manifest_columns import NO_NUMBER
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.column_files import with_newer_files
from lakewright.storage.operations.read.key_sections import key_sections
from lakewright.storage.operations.read.prune_files import FilePruner
from lakewright.storage.operations.state.live_columns import LiveColumns, PlannedFiles
from lakewright.storage.operations.state.live_files import deletions_by_bucket, readable_rows
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.operations.state.table_state import ANY_KEYS, TableState, state_at
from lakewright.storage.spec.index import DeletionVectorRange
from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.partition import Place
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSplit:
    """Files of one bucket for one reader; `merge` says whether their keys overlap.

    `deletions` locates the deletion vector of each file with deleted rows: the index file and the
    range in it.
    """

    partition: bytes
    bucket: int
    files: Sequence[DataFileMeta]
    merge: bool
    deletions: tuple[tuple[str, DeletionVectorRange], ...] = ()

    @property
    def place(self) -> Place:
        """Partition and bucket."""
        return Place(self.partition, self.bucket)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan(Shown):
    """What a read opens, and what the planner pruned."""

    snapshot: Snapshot | None
    predicate: Predicate | None
    splits: tuple[DataSplit, ...]
    manifests_read: int
    manifests_total: int
    files_live: int

    @property
    def files_read(self) -> int:
        return sum(len(split.files) for split in self.splits)


def plan_scan(
    files: TableFiles,
    snapshot: Snapshot | None,
    predicate: Predicate | None = None,
    *,
    levels: range | None = None,
) -> ScanPlan:
    """The splits to read; `files` must have the read schema.

    With levels only their files are read: the state after some compaction.
    """
    state = state_at(files, snapshot, takes=ANY_KEYS)
    wanted = PartitionFilter(files, predicate=predicate)
    live = state.columns_of(wanted)
    state.check_read(live)
    rows = live.rows
    if levels is not None:
        rows = rows[np.isin(live.numbers("_FILE._LEVEL", rows), levels)]
    return ScanPlan(
        snapshot=snapshot,
        predicate=predicate,
        splits=tuple(_Splitter(state, live, predicate).splits(rows)),
        manifests_read=sum(wanted.may_hold(meta) for meta in state.manifests),
        manifests_total=len(state.manifests),
        files_live=len(rows),
    )


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Rows sorted by partition and bucket; bucket n has those from `bounds[n]` on."""

    rows: np.ndarray
    bounds: np.ndarray
    places: list[Place]
    numbers: np.ndarray
    total_buckets: np.ndarray

    def of(self, index: int) -> np.ndarray:
        found: np.ndarray = self.rows[self.bounds[index] : self.bounds[index + 1]]
        return found

    @property
    def index_of_row(self) -> np.ndarray:
        """The bucket of each row."""
        found: np.ndarray = np.repeat(np.arange(len(self.places)), np.diff(self.bounds))
        return found


class _Splitter:
    """Divides live files into splits, and leaves out those that the filter excludes."""

    def __init__(self, state: TableState, live: LiveColumns, predicate: Predicate | None) -> None:
        self._files = files = state.files
        self._live = live
        # Such files have bounds of no keys, and share no key.
        self._bridged = bridged = state.is_bridged
        self._pruner = FilePruner(files, live, predicate)
        self._deletions = deletions_by_bucket(state.indexes)
        options = files.options
        is_marked = (
            options.deletion_vectors_enabled and not options.deletion_vectors_merge_on_read
        ) or options.pk_clustering_override
        self._merges = files.schema.is_keyed and not is_marked and not bridged

    def splits(self, rows: np.ndarray) -> Iterator[DataSplit]:
        """The splits of some live files, by partition and bucket."""
        buckets = self._buckets(readable_rows(self._files, self._live, rows))
        taken = self._pruner.takes_buckets(buckets.numbers, buckets.total_buckets, buckets.of)
        chosen = np.flatnonzero(taken[buckets.index_of_row])
        if self._files.schema.is_keyed and not self._bridged:
            # A file outside of the requested key range holds no version of these keys.
            chosen = chosen[self._pruner.takes_keys(buckets.rows[chosen])]
        if self._merges:
            yield from self._section_splits(buckets, chosen)
            return
        if self._files.options.data_evolution_enabled:
            yield from self._column_splits(buckets, chosen)
            return
        # Append tables have no keys; deletion vectors, or first rows, are one row of each key.
        self._check_clustered(buckets.rows[chosen])
        chosen = chosen[self._pruner.takes_values(buckets.rows[chosen])]
        rows = buckets.rows[chosen]
        for index, begin, end in _runs(buckets.index_of_row[chosen]):
            yield self._split(buckets.places[index], PlannedFiles(self._live, rows, begin, end))

    def _check_clustered(self, rows: np.ndarray) -> None:
        """Refuse deletions in files whose rows are not sorted by key, which no merge can drop."""
        deletions = self._live.numbers("_FILE._DELETE_ROW_COUNT", rows) > 0
        if self._files.options.pk_clustering_override and deletions.any():
            name = self._live.file(int(rows[np.flatnonzero(deletions)[0]])).file_name
            raise UnsupportedError(
                f"{self._files.name} sets pk-clustering-override, and {name} holds deletions of "
                "rows, which are not merged in files that are sorted by other columns than the key",
                option="pk-clustering-override",
            )

    def _column_splits(self, buckets: _Buckets, chosen: np.ndarray) -> Iterator[DataSplit]:
        """Statistics of a file tell nothing of the columns that newer files have."""
        rows = buckets.rows[chosen]
        for index, begin, end in _runs(buckets.index_of_row[chosen]):
            split = self._split(buckets.places[index], PlannedFiles(self._live, rows, begin, end))
            yield replace(split, files=with_newer_files(split.files, table=self._files.name))

    def _buckets(self, rows: np.ndarray) -> _Buckets:
        live = self._live
        numbers = live.numbers("_BUCKET", rows)
        encoded = live.texts("_PARTITION", rows).dictionary_encode()
        partitions = encoded.dictionary.to_pylist()
        by_bytes = sorted(range(len(partitions)), key=partitions.__getitem__)
        rank = np.empty(len(partitions), np.int64)
        rank[by_bytes] = np.arange(len(partitions))
        of_row = rank[encoded.indices.to_numpy()] if len(rows) else np.zeros(0, np.int64)
        order = np.lexsort((numbers, of_row))
        bounds = np.flatnonzero(_changes(of_row[order], numbers[order]))
        first = order[bounds]
        if not self._files.schema.is_keyed:
            created = live.numbers("_FILE._CREATION_TIME", rows)
            created[created == NO_NUMBER] = 0
            sequence = live.numbers("_FILE._MIN_SEQUENCE_NUMBER", rows)
            order = np.lexsort((created, sequence, numbers, of_row))
        places = [
            Place(partitions[by_bytes[partition]], bucket)
            for partition, bucket in zip(
                of_row[first].tolist(), numbers[first].tolist(), strict=True
            )
        ]
        return _Buckets(
            rows[order],
            np.append(bounds, len(rows)),
            places,
            numbers[first],
            live.numbers("_TOTAL_BUCKETS", rows[first]),
        )

    def _section_splits(self, buckets: _Buckets, chosen: np.ndarray) -> list[DataSplit]:
        """Of each bucket the files that share no key in one split, then overlapping files."""
        rows, of_row = buckets.rows[chosen], buckets.index_of_row[chosen]
        sections = key_sections(self._files.schema, self._live, rows, of_row)
        found: list[tuple[int, int, DataSplit]] = []
        # A counted row may exist several times, or not at all.
        alone = [] if self._files.schema.counts_rows else sections.alone
        raw = np.array(alone, np.int64)
        raw = raw[self._pruner.takes_values(rows[raw])]
        unmerged = rows[raw]
        for index, begin, end in _runs(of_row[raw]):
            planned = PlannedFiles(self._live, unmerged, begin, end)
            found.append((index, 0, self._split(buckets.places[index], planned)))
        merged = sections.merged
        if self._files.schema.counts_rows:
            merged = sorted([*merged, *([each] for each in sections.alone)])
        for number, section in enumerate(merged, start=1):
            index = int(of_row[section[0]])
            planned = PlannedFiles(self._live, rows[section], 0, len(section))
            found.append((index, number, self._split(buckets.places[index], planned, merge=True)))
        return [split for *_, split in sorted(found, key=itemgetter(0, 1))]

    def _split(self, place: Place, planned: PlannedFiles, *, merge: bool = False) -> DataSplit:
        gone = self._deletions.get(place, ())
        if gone:
            names = set(self._live.texts("_FILE._FILE_NAME", planned.rows).to_pylist())
            gone = tuple(each for each in gone if each[1].data_file.encode() in names)
        return DataSplit(
            partition=place.partition,
            bucket=place.bucket,
            files=planned,
            merge=merge,
            deletions=gone,
        )


def _changes(*columns: np.ndarray) -> np.ndarray:
    """Whether each row differs from the one before it."""
    found = np.ones(len(columns[0]), bool)
    found[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return found


def _runs(indexes: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Each index with where its run of equal ones begins and ends."""
    begins = np.flatnonzero(_changes(indexes))
    ends = [*begins[1:].tolist(), len(indexes)][: len(begins)]
    return zip(indexes[begins].tolist(), begins.tolist(), ends, strict=True)
