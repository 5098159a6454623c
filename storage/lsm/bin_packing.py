"""Bin packing: which files of an append table are worth writing as fewer.

Sources: Paimon `AppendCompactCoordinator`, `BucketedAppendCompactManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakewright.storage.spec.manifest import DataFileMeta

# A file below this share of the target size counts as small (Paimon: compaction.small-file-ratio).
SMALL_FILE_RATIO = 0.7
# A bin, or a window of neighbours, holds up to this many targets.
_TARGETS_PER_GROUP = 2


def is_small(file: DataFileMeta, target_bytes: int, ratio: float = SMALL_FILE_RATIO) -> bool:
    """Whether compaction would take the file in."""
    return file.file_size < target_bytes * ratio


def pack_small_files(
    files: Iterable[DataFileMeta],
    *,
    target_bytes: int,
    min_files: int,
    open_cost_bytes: int = 0,
    small_ratio: float = SMALL_FILE_RATIO,
) -> list[tuple[DataFileMeta, ...]]:
    """Groups of small files to be written as few, the smallest first.

    A group is closed when it weighs two targets, each file `open_cost_bytes` more than its
    size; what is left is a group if it has `min_files`. Every group has at least two.
    """
    small = [each for each in files if is_small(each, target_bytes, small_ratio)]
    groups: list[tuple[DataFileMeta, ...]] = []
    current: list[DataFileMeta] = []
    weight = 0
    for file in sorted(small, key=lambda each: (each.file_size, each.file_name)):
        current.append(file)
        weight += file.file_size + open_cost_bytes
        if len(current) > 1 and weight >= _TARGETS_PER_GROUP * target_bytes:
            groups.append(tuple(current))
            current, weight = [], 0
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
    """Groups of files that follow each other, where the order of rows counts.

    A group begins as `min_files` neighbours that weigh less than two targets together, and
    takes the small files behind them in. It is left out if as many files would come of it.
    """
    groups: list[tuple[DataFileMeta, ...]] = []
    window: list[DataFileMeta] = []
    for file in sorted(files, key=lambda each: each.min_sequence_number):
        grows = len(window) >= min_files
        if grows and not is_small(file, target_bytes, small_ratio):
            groups.append(tuple(window))
            window, grows = [], False
        window.append(file)
        while not grows and _size(window) >= _TARGETS_PER_GROUP * target_bytes:
            window.pop(0)
    if len(window) >= min_files:
        groups.append(tuple(window))
    return [group for group in groups if _shrinks(group, target_bytes)]


def pack_small_stretches(
    files: Sequence[DataFileMeta], *, target_bytes: int, small_ratio: float = SMALL_FILE_RATIO
) -> list[tuple[DataFileMeta, ...]]:
    """Groups of two small files or more with no large one between them, in the order of rows."""
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


def _size(files: Iterable[DataFileMeta]) -> int:
    return sum(file.file_size for file in files)


def _shrinks(group: Sequence[DataFileMeta], target_bytes: int) -> bool:
    return -(-_size(group) // target_bytes) < len(group)
