"""Levels: a bucket's files as sorted runs, from the newest to the oldest.

Every file of level 0 is a run of its own, a deeper level is one run. Runs in this
order are what compaction counts and picks. Source: Paimon `Levels`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from lakewright.storage.errors import CorruptionError
from lakewright.storage.spec.manifest import DataFileMeta


@dataclass(frozen=True, slots=True)
class LevelRun:
    """A sorted run and the level it lies at."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True, slots=True)
class Levels:
    """The runs of one bucket, newest first; `count` includes empty levels."""

    runs: tuple[LevelRun, ...]
    count: int

    @property
    def max_level(self) -> int:
        return self.count - 1

    @property
    def deepest(self) -> int:
        """The deepest level that holds files, -1 if there are none."""
        return max((run.level for run in self.runs), default=-1)

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        return tuple(file for run in self.runs for file in run.files)


def levels_of(files: Iterable[DataFileMeta], level_count: int) -> Levels:
    """Arrange the files of a bucket.

    A bucket written under a larger `level_count` keeps its number of levels.

    Raises:
        CorruptionError: a file lies at no level.
    """
    by_level: dict[int, list[DataFileMeta]] = defaultdict(list)
    for file in files:
        if file.level < 0:
            raise CorruptionError(f"data file {file.file_name} lies at level {file.level}")
        by_level[file.level].append(file)
    newest_first = sorted(by_level.pop(0, []), key=age, reverse=True)
    runs = [LevelRun(0, (file,)) for file in newest_first]
    runs += [LevelRun(level, tuple(by_level[level])) for level in sorted(by_level)]
    return Levels(tuple(runs), max(level_count, max(by_level, default=-1) + 1))


def age(file: DataFileMeta) -> tuple[int, int, int, int, str]:
    """A sort key that orders a bucket's files strictly from the oldest to the newest.

    Concurrent writers may have used the same sequence numbers: then the file created later is the
    newer, for readers and compactions alike.
    """
    return (
        -file.level,
        file.max_sequence_number,
        file.min_sequence_number,
        file.creation_time or 0,
        file.file_name,
    )


def may_tie(files: Iterable[DataFileMeta]) -> bool:
    """Whether files of different runs may hold rows of the same sequence number."""
    ranges: list[tuple[int, int]] = []
    deeper: dict[int, tuple[int, int]] = {}
    for file in files:
        low, high = file.min_sequence_number, file.max_sequence_number
        if file.level == 0:
            ranges.append((low, high))
        else:
            known = deeper.get(file.level, (low, high))
            deeper[file.level] = (min(low, known[0]), max(high, known[1]))
    ordered = sorted([*ranges, *deeper.values()])
    return any(before[1] >= after[0] for before, after in pairwise(ordered))
