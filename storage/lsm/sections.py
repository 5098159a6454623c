"""Sections: parts of a bucket's key space that share no key with each other.

Files of one section overlap, directly or through others, so their rows must be merged; rows of
different sections never are. Within a section files are arranged
into as few sorted runs as hold them. Source: Paimon `IntervalPartition`.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappush, heapreplace
from typing import Any, TypeAlias, TypeVar

from lakewright.storage.spec.manifest import DataFileMeta
from lakewright.storage.spec.values import Value, order_key

Item = TypeVar("Item")
Key = tuple[Value, ...]
DecodeKey = Callable[[bytes], Key]
# A file with the order keys of its first and its last key.
_Keyed: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...], DataFileMeta]


@dataclass(frozen=True, slots=True)
class Section:
    """Overlapping files, as sorted runs: the files of a run never overlap, in key order."""

    runs: tuple[tuple[DataFileMeta, ...], ...]

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(file for run in self.runs for file in run)


def sections_of(files: Iterable[DataFileMeta], decode_key: DecodeKey) -> tuple[Section, ...]:
    """Sections of a bucket's files, in key order."""
    keyed = [
        (sortable(decode_key(file.min_key)), sortable(decode_key(file.max_key)), file)
        for file in files
    ]
    keyed.sort(key=lambda each: each[:2])
    sections: list[Section] = []
    current: list[_Keyed] = []
    bound: tuple[Any, ...] | None = None
    for low, high, file in keyed:
        # Equal bounds overlap too: both files could hold that key.
        if bound is not None and low > bound:
            sections.append(_section(current))
            current, bound = [], None
        current.append((low, high, file))
        bound = high if bound is None or high > bound else bound
    if current:
        sections.append(_section(current))
    return tuple(sections)


def _section(keyed: Iterable[_Keyed]) -> Section:
    return Section(tuple(map(tuple, arranged(keyed))))


def arranged(keyed: Iterable[tuple[Any, Any, Item]]) -> list[list[Item]]:
    """As few sorted runs as hold overlapping items, given with their bounds and sorted by them."""
    runs: list[list[Item]] = []
    # A heap of each run's last key and number; the run that ends first is on top.
    ends: list[tuple[Any, int]] = []
    for low, high, item in keyed:
        if ends and low > ends[0][0]:
            number = ends[0][1]
            runs[number].append(item)
            heapreplace(ends, (high, number))
        else:
            heappush(ends, (high, len(runs)))
            runs.append([item])
    return runs


def runs_by_age(
    oldest_first: Iterable[DataFileMeta], decode_key: DecodeKey
) -> list[tuple[DataFileMeta, ...]]:
    """Sorted runs in which, wherever keys overlap, the later run holds the newer file."""
    runs: list[list[_Keyed]] = []
    for file in oldest_first:
        low, high = sortable(decode_key(file.min_key)), sortable(decode_key(file.max_key))
        place = len(runs)
        while place and not _meets(runs[place - 1], low, high):
            place -= 1
        if place == len(runs):
            runs.append([])
        insort(runs[place], (low, high, file), key=_first_key)
    return [tuple(file for *_, file in run) for run in runs]


def _meets(run: Sequence[_Keyed], low: tuple[Any, ...], high: tuple[Any, ...]) -> bool:
    """Whether a sorted run has keys in a range."""
    # Of the files that begin before the end of the range, the last one reaches furthest.
    count = bisect_right(run, high, key=_first_key)
    return count > 0 and run[count - 1][1] >= low


def _first_key(keyed: _Keyed) -> tuple[Any, ...]:
    return keyed[0]


def sortable(key: Key) -> tuple[Any, ...]:
    """A key with the order of the format."""
    # Nulls come first; only keys that are whole rows hold nulls.
    return tuple((value is not None, order_key(value)) for value in key)


def first_overlap(
    files: Iterable[DataFileMeta], decode_key: DecodeKey
) -> tuple[DataFileMeta, DataFileMeta] | None:
    """Two files whose key ranges overlap, None if they form one sorted run."""
    for section in sections_of(files, decode_key):
        if len(section.files) > 1:
            return section.files[0], section.files[1]
    return None
