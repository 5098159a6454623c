"""Bin packing: choose the files of an append table that a compaction rewrites as fewer files.

Sources: Paimon `AppendCompactCoordinator`, `BucketedAppendCompactManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from lakewright.storage.spec.manifest import DataFileMeta

_T = TypeVar("_T")

# A file below this share of the target size counts as small (Paimon: compaction.small-file-ratio).
SMALL_FILE_RATIO = 0.7
# A bin, or a window of neighbours, holds at most this many times the target size.
TARGETS_PER_GROUP = 2
# Files of fewer rows, in fewer bytes beside what each file has, say little of what a row takes.
_TELLING_ROWS = 1_000
_TELLING_SIZE = 8
# A file has some bytes for its rows at least.
_LEAST_SHARE = 0.03
# Rows that were written one by one take up to ten times the bytes of the same rows in one file.
_SHRINKING = 10


def is_small(file: DataFileMeta, target_bytes: int, ratio: float = SMALL_FILE_RATIO) -> bool:
    """Whether a compaction would rewrite the file."""
    return file.file_size < target_bytes * ratio


def bytes_once_joined(
    files: Iterable[DataFileMeta], empty_bytes: int
) -> Callable[[DataFileMeta], float]:
    """About how many bytes each file of a bucket adds to a large file with its rows.

    `empty_bytes` are those of a file without rows. What rows of small files take once they are
    joined is known from the bucket's files of many rows or bytes. Without any it is taken for
    little: a group that is too large is written as several files of the target size, while groups
    that are too small become files that are small again.
    """

    def tells(file: DataFileMeta) -> bool:
        return file.row_count >= _TELLING_ROWS or file.file_size >= _TELLING_SIZE * empty_bytes

    telling = [file for file in files if tells(file)]
    rows, size = sum(file.row_count for file in telling), _size(telling)

    def joined(file: DataFileMeta) -> float:
        own = max(file.file_size - empty_bytes, _LEAST_SHARE * file.file_size)
        if tells(file):
            return own
        return min(own, file.row_count * size / rows) if rows else own / _SHRINKING

    return joined


def units_of_ranges(ranges: Iterable[tuple[int, int, int]], *, target_bytes: int) -> Iterator[int]:
    """The number of the unit in which files of each range of row ids are joined.

    A range is its first id, its rows, and the bytes of its files; they come in the order of ids.
    Joined files leave no gap. As in Java's `DataEvolutionCompactCoordinator`, a unit ends at the
    target size, and a range that is larger begins one.
    """
    unit = end = size = 0
    for first, rows, own in ranges:
        if first != end or size > target_bytes or own > target_bytes:
            unit, size = unit + 1, 0
        yield unit
        size += own
        end = first + rows


def pack_small_files(
    files: Iterable[DataFileMeta],
    *,
    target_bytes: int,
    min_files: int,
    weight_of: Callable[[DataFileMeta], float] = lambda file: file.file_size,
    small_ratio: float = SMALL_FILE_RATIO,
) -> list[tuple[DataFileMeta, ...]]:
    """Groups of small files to rewrite, smallest files first.

    A group is complete when it weighs twice the target size; the rest is a group if it has
    `min_files` files. Every group has at least two files.
    """
    small = [each for each in files if is_small(each, target_bytes, small_ratio)]
    groups: list[tuple[DataFileMeta, ...]] = []
    current: list[DataFileMeta] = []
    weight = 0.0
    for file in sorted(small, key=lambda each: (each.file_size, each.file_name)):
        current.append(file)
        weight += weight_of(file)
        if len(current) > 1 and weight >= TARGETS_PER_GROUP * target_bytes:
            groups.append(tuple(current))
            current, weight = [], 0.0
    if len(current) >= max(2, min_files):
        groups.append(tuple(current))
    return groups


def pack_neighbours(
    files: Sequence[DataFileMeta],
    *,
    target_bytes: int,
    min_files: int,
    small_ratio: float = SMALL_FILE_RATIO,
) -> list[tuple[DataFileMeta, ...]]:
    """Groups of adjacent files, for tables whose rows must keep their order.

    A group begins with `min_files` neighbours that together weigh less than twice the target size,
    and takes the small files after them. It is left out if the rewrite would not reduce the number
    of files.
    """
    groups: list[tuple[DataFileMeta, ...]] = []
    window: list[DataFileMeta] = []
    for file in sorted(files, key=lambda each: each.min_sequence_number):
        grows = len(window) >= min_files
        if grows and not is_small(file, target_bytes, small_ratio):
            groups.append(tuple(window))
            window, grows = [], False
        window.append(file)
        while not grows and _size(window) >= TARGETS_PER_GROUP * target_bytes:
            window.pop(0)
    if len(window) >= min_files:
        groups.append(tuple(window))
    return [group for group in groups if _shrinks(group, target_bytes)]


def pack_small_stretches(
    files: Sequence[DataFileMeta], *, target_bytes: int, small_ratio: float = SMALL_FILE_RATIO
) -> list[tuple[DataFileMeta, ...]]:
    """Groups of two or more small files without a large file between them, in the order of rows."""
    groups: list[tuple[DataFileMeta, ...]] = []
    stretch: list[DataFileMeta] = []
    for file in sorted(files, key=lambda each: each.min_sequence_number):
        if is_small(file, target_bytes, small_ratio):
            stretch.append(file)
            continue
        groups.append(tuple(stretch))
        stretch = []
    groups.append(tuple(stretch))
    return [group for group in groups if _shrinks(group, target_bytes)]


def pack_all(files: Sequence[DataFileMeta], *, target_bytes: int) -> list[tuple[DataFileMeta, ...]]:
    """All files in groups of neighbours, each of about twice the target size."""
    groups: list[list[DataFileMeta]] = []
    for file in sorted(files, key=lambda each: each.min_sequence_number):
        if not groups or _size(groups[-1]) >= TARGETS_PER_GROUP * target_bytes:
            groups.append([])
        groups[-1].append(file)
    return [tuple(group) for group in groups]


def _size(files: Iterable[DataFileMeta]) -> int:
    return sum(file.file_size for file in files)


def _shrinks(group: Sequence[DataFileMeta], target_bytes: int) -> bool:
    return -(-_size(group) // target_bytes) < len(group)


def pack_in_order(
    items: Iterable[_T], *costs: tuple[Callable[[_T], int], int]
) -> Iterator[tuple[_T, ...]]:
    """Items in their order, together while no sum of a cost is above its limit."""
    group: list[_T] = []
    sums = [0] * len(costs)
    for item in items:
        own = [cost(item) for cost, _ in costs]
        sums = [before + each for before, each in zip(sums, own, strict=True)]
        if group and any(total > most for total, (_, most) in zip(sums, costs, strict=True)):
            yield tuple(group)
            group, sums = [], own
        group.append(item)
    if group:
        yield tuple(group)
