"""Sections: parts of a bucket's key space that share no key with each other.

Files of one section overlap, directly or through others, so their rows must be
merged; two sections never need to meet. Within a section files are arranged
into as few sorted runs as hold them. Source: Paimon `IntervalPartition`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.values import Value, order_key

Key = tuple[Value, ...]
DecodeKey = Callable[[bytes], Key]


@dataclass(frozen=True, slots=True)
class Section:
    """Overlapping files, as sorted runs: the files of a run never overlap, in key order."""

    runs: tuple[tuple[DataFileMeta, ...], ...]

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(file for run in self.runs for file in run)

    @property
    def needs_merge(self) -> bool:
        """Whether rows must be merged, or deleted keys taken out, to read it."""
        files = self.files
        return len(files) > 1 or files[0].delete_row_count != 0


def sections_of(files: Iterable[DataFileMeta], decode_key: DecodeKey) -> tuple[Section, ...]:
    """Sections of a bucket's files, in key order."""
    keyed = [
        (_sortable(decode_key(file.min_key)), _sortable(decode_key(file.max_key)), file)
        for file in files
    ]
    keyed.sort(key=lambda each: each[:2])
    sections: list[Section] = []
    current: list[tuple[tuple[Any, ...], tuple[Any, ...], DataFileMeta]] = []
    bound: tuple[Any, ...] | None = None
    for low, high, file in keyed:
        # Equal bounds overlap too: both files could hold that key.
        if bound is not None and low > bound:
            sections.append(_arranged(current))
            current, bound = [], None
        current.append((low, high, file))
        bound = high if bound is None or high > bound else bound
    if current:
        sections.append(_arranged(current))
    return tuple(sections)


def _arranged(
    keyed: Sequence[tuple[tuple[Any, ...], tuple[Any, ...], DataFileMeta]],
) -> Section:
    runs: list[list[DataFileMeta]] = []
    ends: list[tuple[Any, ...]] = []
    for low, high, file in keyed:
        for index, end in enumerate(ends):
            if low > end:
                runs[index].append(file)
                ends[index] = high
                break
        else:
            runs.append([file])
            ends.append(high)
    return Section(tuple(tuple(run) for run in runs))


def runs_by_age(
    oldest_first: Iterable[DataFileMeta], decode_key: DecodeKey
) -> list[tuple[DataFileMeta, ...]]:
    """Sorted runs, of which a later one holds the newer file wherever keys overlap."""
    runs: list[list[tuple[tuple[Any, ...], tuple[Any, ...], DataFileMeta]]] = []
    for file in oldest_first:
        low, high = _sortable(decode_key(file.min_key)), _sortable(decode_key(file.max_key))
        place = len(runs)
        while place and not any(
            first <= high and low <= last for first, last, _ in runs[place - 1]
        ):
            place -= 1
        if place == len(runs):
            runs.append([])
        runs[place].append((low, high, file))
    return [tuple(file for *_, file in sorted(run, key=lambda each: each[:2])) for run in runs]


def _sortable(key: Key) -> tuple[Any, ...]:
    # Nulls, which only keys that are whole rows hold, come first.
    return tuple((value is not None, order_key(value)) for value in key)


def first_overlap(
    files: Iterable[DataFileMeta], decode_key: DecodeKey
) -> tuple[DataFileMeta, DataFileMeta] | None:
    """Two files whose key ranges overlap, None if they form one sorted run."""
    for section in sections_of(files, decode_key):
        if len(section.files) > 1:
            return section.files[0], section.files[1]
    return None


def sorted_run_count(files: Iterable[DataFileMeta]) -> int:
    """Runs a reader merges: every level-0 file is one, and every deeper level that is not empty."""
    levels = [file.level for file in files]
    return levels.count(0) + len({level for level in levels if level > 0})
