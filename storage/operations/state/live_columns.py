"""The live data files of a snapshot as columns, of which only those asked for become objects.

1. Leave out manifests whose bounds exclude the wanted partitions.
2. Decode each manifest to columns, and keep the entries of the wanted partitions.
3. Fold ADD and DELETE entries: files of one name in one place are compared, all others are live.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.manifest_columns import EncodedEntries, EntryColumns, PackedEntries
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.state.partition_filter import PartitionFilter
from lakewright.storage.spec.manifest import (
    DataFileMeta,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
    fold_entries,
)


@dataclass(frozen=True)
class LiveColumns:
    """Entries of several manifests; `rows` are the live ones among them, in manifest order."""

    parts: tuple[EntryColumns, ...]
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def numbers(self, name: str, rows: np.ndarray) -> np.ndarray:
        """A number of some rows in any order, `NO_NUMBER` for null."""
        return self._gathered(
            rows, [part.numbers(name, inner) for part, inner in self._divided(rows)]
        )

    def texts(self, name: str, rows: np.ndarray) -> pa.LargeBinaryArray:
        """The bytes of a field, of some rows in any order."""
        found = [part.texts(name, inner) for part, inner in self._divided(rows)]
        joined = pa.concat_arrays(found) if found else pa.array([], pa.large_binary())
        order = self._order(rows)
        return joined if order is None else joined.take(pa.array(np.argsort(order)))

    def by_part(self, rows: np.ndarray) -> Iterator[tuple[EntryColumns, np.ndarray, np.ndarray]]:
        """Each part, the rows in it as it counts them, and their indexes among the rows."""
        of_part = self._part_of(rows)
        order = np.argsort(of_part, kind="stable")
        bounds = np.searchsorted(of_part[order], np.arange(len(self.parts) + 1)).tolist()
        for part, (begin, end) in enumerate(pairwise(bounds)):
            if begin < end:
                there = order[begin:end]
                yield self.parts[part], rows[there] - self._begins[part], there

    def are_plain(self, rows: np.ndarray) -> np.ndarray:
        """Whether a file has no extra files, no embedded index and no external path."""
        return self._gathered(rows, [part.are_plain(inner) for part, inner in self._divided(rows)])

    def are_filled(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Whether files have what few files have; see `EntryColumns`."""
        return self._gathered(
            rows, [part.are_filled(name, inner) for part, inner in self._divided(rows)]
        ).astype(bool)

    def are_parquet(self, rows: np.ndarray) -> np.ndarray:
        """Whether the names of files end as those of Parquet files."""
        return self._gathered(
            rows, [part.are_parquet(inner) for part, inner in self._divided(rows)]
        ).astype(bool)

    def encoded(self, rows: Sequence[int]) -> list[EncodedEntries | tuple[DataFileMeta, ...]]:
        """The files of some rows in order, decoded only where they are decoded already."""
        found: list[EncodedEntries | tuple[DataFileMeta, ...]] = []
        for of_part, together in groupby(rows, self._index_of):
            part, begin = self.parts[of_part], int(self._begins[of_part])
            inner = [row - begin for row in together]
            if isinstance(part, PackedEntries):
                found.append(part.encoded(inner))
            else:
                found.append(tuple(part.entry(row).file for row in inner))
        return found

    def entry(self, row: int) -> ManifestEntry:
        part = self._index_of(row)
        return self.parts[part].entry(row - int(self._begins[part]))

    def file(self, row: int) -> DataFileMeta:
        return self.entry(row).file

    def entries(self) -> list[ManifestEntry]:
        """All live entries, in manifest order."""
        return [self.entry(row) for row in self.rows.tolist()]

    @cached_property
    def _ends(self) -> np.ndarray:
        return np.cumsum([len(part) for part in self.parts], dtype=np.int64)

    @cached_property
    def _begins(self) -> np.ndarray:
        return np.append([0], self._ends).astype(np.int64)[:-1]

    @cached_property
    def _ends_list(self) -> list[int]:
        found: list[int] = self._ends.tolist()
        return found

    def _index_of(self, row: int) -> int:
        """The part that holds a row."""
        return bisect_right(self._ends_list, row)

    def _part_of(self, rows: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.searchsorted(self._ends, rows, side="right")
        return found

    def _order(self, rows: np.ndarray) -> np.ndarray | None:
        """Rows by part, as indexes; None if they are in that order."""
        of_part = self._part_of(rows)
        return None if (of_part[1:] >= of_part[:-1]).all() else np.argsort(of_part, kind="stable")

    def _divided(self, rows: np.ndarray) -> list[tuple[EntryColumns, np.ndarray]]:
        """The rows by part, in their order, as the part counts them."""
        order = self._order(rows)
        sorted_rows = rows if order is None else rows[order]
        bounds = np.searchsorted(self._part_of(sorted_rows), np.arange(len(self.parts) + 1))
        return [
            (part, sorted_rows[begin:end] - first)
            for part, first, begin, end in zip(
                self.parts, self._begins, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True
            )
            if begin < end
        ]

    def _gathered(self, rows: np.ndarray, found: Sequence[np.ndarray]) -> np.ndarray:
        """What was found by part, in the order of the rows."""
        if not found:
            return np.zeros(0, np.int64)
        joined = np.concatenate(found)
        order = self._order(rows)
        if order is None:
            return joined
        gathered = np.empty_like(joined)
        gathered[order] = joined
        return gathered


class PlannedFiles(Sequence[DataFileMeta]):
    """Some data files in order, each decoded when it is asked for.

    They are pickled as they are stored, and become a tuple where they are unpickled.
    """

    __slots__ = ("_begin", "_end", "_live", "_rows")

    def __init__(self, live: LiveColumns, rows: np.ndarray, begin: int, end: int) -> None:
        # Positions in one array instead of an array each: a plan has as many as splits.
        self._live, self._rows, self._begin, self._end = live, rows, begin, end

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def live(self) -> LiveColumns:
        """The live files that these are of."""
        return self._live

    @property
    def rows(self) -> np.ndarray:
        """Which of the live files these are."""
        found: np.ndarray = self._rows[self._begin : self._end]
        return found

    @overload
    def __getitem__(self, index: int) -> DataFileMeta: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[DataFileMeta]: ...

    def __getitem__(self, index: int | slice) -> DataFileMeta | Sequence[DataFileMeta]:
        chosen = range(self._begin, self._end)[index]
        if not isinstance(chosen, range):
            return self._live.file(int(self._rows[chosen]))
        if chosen.step == 1:
            return PlannedFiles(self._live, self._rows, chosen.start, chosen.stop)
        return tuple(self._live.file(int(self._rows[each])) for each in chosen)

    def __iter__(self) -> Iterator[DataFileMeta]:
        return map(self._live.file, self._rows[self._begin : self._end].tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlannedFiles | tuple):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Callable[..., tuple[DataFileMeta, ...]], tuple[object]]:
        return _unpickled, (self._live.encoded(self.rows.tolist()),)


def _unpickled(
    parts: Iterable[EncodedEntries | tuple[DataFileMeta, ...]],
) -> tuple[DataFileMeta, ...]:
    found: list[DataFileMeta] = []
    for part in parts:
        if isinstance(part, EncodedEntries):
            found += [entry.file for entry in part.decode()]
        else:
            found += part
    return tuple(found)


def live_columns(
    files: TableFiles,
    metas: Iterable[ManifestFileMeta],
    wanted: PartitionFilter,
    *,
    apart: bool = False,
) -> LiveColumns:
    """The live files that manifests hold in the wanted partitions.

    With `apart` each manifest is a part; else small ones are one part, which is faster.

    Raises:
        CorruptionError: a file is added twice.
        UnreadableManifest: a manifest is missing or damaged.
    """
    held = filter(wanted.may_hold, metas)
    read = map(files.manifests.read_columns, held)
    all_parts = read if apart else files.manifests.read_all_columns(held)
    selection = (selected(part, wanted) for part in all_parts)
    parts = [part for part in selection if len(part)]
    everything = np.arange(sum(map(len, parts)))
    found = LiveColumns(tuple(parts), everything)
    return replace(found, rows=_live(found))


def told_files(live: LiveColumns, texts: Sequence[str], numbers: Sequence[str]) -> pa.Table:
    """Fields of live files as a table, whose order depends on their values alone."""
    rows = np.asarray(live.rows)
    columns = {name: live.texts(name, rows) for name in texts}
    return in_own_order(
        pa.table(columns | {name: pa.array(live.numbers(name, rows)) for name in numbers})
    )


def in_own_order(table: pa.Table) -> pa.Table:
    """The rows in an order that depends on their values alone."""
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    return table.take(order).combine_chunks()


def folded_rows(part: EntryColumns) -> np.ndarray:
    """The entries that `fold_entries` would leave, deletions that wait among them.

    Raises:
        CorruptionError: a file is added twice.
    """
    found = LiveColumns((part,), np.arange(len(part)))
    return _left(found, found.numbers("_KIND", found.rows) == FileKind.ADD)


def selected(part: EntryColumns, wanted: PartitionFilter) -> EntryColumns:
    """The entries of the wanted partitions."""
    if wanted.takes_all:
        return part
    schema_ids = part.numbers("_FILE._SCHEMA_ID")
    encoded = part.texts("_PARTITION").dictionary_encode()
    codes = encoded.indices.to_numpy()
    taken = np.zeros(len(part), bool)
    for schema_id in np.unique(schema_ids).tolist():
        of_schema = schema_ids == schema_id
        found = np.zeros(len(encoded.dictionary), bool)
        asked = np.unique(codes[of_schema])
        found[asked] = wanted.takes_rows(encoded.dictionary.take(pa.array(asked)), schema_id)
        taken[of_schema] = found[codes[of_schema]]
    return part if taken.all() else part.take(np.flatnonzero(taken))


def _live(found: LiveColumns) -> np.ndarray:
    """The rows whose file is added, and not removed after."""
    added = found.numbers("_KIND", found.rows) == FileKind.ADD
    left = _left(found, added)
    live: np.ndarray = left[added[left]]
    return live


def _left(found: LiveColumns, added: np.ndarray) -> np.ndarray:
    """The rows that are left of all if a deletion and the addition before it cancel out."""
    keys = np.concatenate([part.name_keys() for part in found.parts] or [found.rows])
    in_order = np.sort(keys)
    if not (in_order[1:] == in_order[:-1]).any():
        return np.arange(len(keys))
    order = np.argsort(keys)
    ordered = keys[order]
    again = np.zeros(len(order), bool)
    again[1:] = ordered[1:] == ordered[:-1]
    again[:-1] |= again[1:]
    left = np.ones(len(keys), bool)
    several = np.sort(order[again])
    left[several] = False
    left[_folded(found, several, added)] = True
    return np.flatnonzero(left)


def _folded(found: LiveColumns, rows: np.ndarray, added: np.ndarray) -> list[int]:
    """The rows that are left of those that may share a name with others."""
    names = found.texts("_FILE._FILE_NAME", rows).dictionary_encode().indices.to_numpy()
    partitions = found.texts("_PARTITION", rows).dictionary_encode().indices.to_numpy()
    places = (
        found.numbers("_FILE._LEVEL", rows),
        found.numbers("_BUCKET", rows),
        partitions.astype(np.int64),
        names.astype(np.int64),
    )
    order = np.lexsort(places)
    rows, keys = rows[order], [place[order] for place in places]
    begins = np.ones(len(rows), bool)
    begins[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    first = np.flatnonzero(begins)
    sizes = np.diff(np.append(first, len(rows)))
    alone = rows[first[sizes == 1]]
    pairs = first[sizes == 2]
    plain = found.are_plain(rows)
    # A file that was added and then removed, and no more: neither entry is left.
    gone = pairs[added[rows[pairs]] & ~added[rows[pairs + 1]] & plain[pairs] & plain[pairs + 1]]
    left = np.setdiff1d(first[sizes > 1], gone, assume_unique=True)
    size_of = dict(zip(first.tolist(), sizes.tolist(), strict=True))
    result: list[int] = alone.tolist()
    for begin in left.tolist():
        group = rows[begin : begin + size_of[begin]].tolist()
        by_entry = {
            id(entry): (row, entry)
            for row, entry in zip(group, map(found.entry, group), strict=True)
        }
        folded = fold_entries(entry for _, entry in by_entry.values())
        result += [by_entry[id(entry)][0] for entry in folded.values()]
    return result
