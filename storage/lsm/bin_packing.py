"""Bin packing: which small files of an append table are worth writing as one."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.storage.spec.manifest import DataFileMeta

# A file below this share of the target size counts as small (Paimon: compaction.small-file-ratio).
SMALL_FILE_RATIO = 0.7


def is_small(file: DataFileMeta, target_bytes: int) -> bool:
    """Whether compaction would take the file in."""
    return file.file_size < target_bytes * SMALL_FILE_RATIO


def pack_small_files(
    files: Sequence[DataFileMeta], *, target_bytes: int, min_files: int
) -> list[tuple[DataFileMeta, ...]]:
    """Groups of small files to be written as one each, in the order given.

    A group is closed when it reaches the target size, and kept if it has
    `min_files` files or fills its target; every group has at least two.
    """
    groups: list[tuple[DataFileMeta, ...]] = []
    current: list[DataFileMeta] = []
    size = 0
    for file in (each for each in files if is_small(each, target_bytes)):
        current.append(file)
        size += file.file_size
        if size >= target_bytes and len(current) > 1:
            groups.append(tuple(current))
            current, size = [], 0
    if len(current) >= max(2, min_files):
        groups.append(tuple(current))
    return groups


def pack_neighbours(
    files: Sequence[DataFileMeta], *, target_bytes: int, min_files: int
) -> list[tuple[DataFileMeta, ...]]:
    """The same where the order of rows counts: only files that follow each other are joined."""
    groups: list[tuple[DataFileMeta, ...]] = []
    stretch: list[DataFileMeta] = []
    for file in sorted(files, key=lambda each: each.min_sequence_number):
        if is_small(file, target_bytes):
            stretch.append(file)
            continue
        groups += pack_small_files(stretch, target_bytes=target_bytes, min_files=min_files)
        stretch = []
    return groups + pack_small_files(stretch, target_bytes=target_bytes, min_files=min_files)
