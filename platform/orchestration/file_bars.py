"""Bars of characters: the files of a table and of its worst partitions, small ones first."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.platform.decide.survey import FileFigures
from lakewright.platform.upkeep.health import PartitionHealth
from lakewright.platform.upkeep.words import counted, small_text

_SMALL = "small file"
_MAX_NAME = 28
_MOST_BARS = 4
_BAR_CHARACTERS = 30


def small_files_bars(
    table: FileFigures, partitions: Sequence[PartitionHealth], *, keyed: bool
) -> list[str]:
    """A bar for the table and one for each of its worst partitions: `█` small files, `░` others.

    A bar of a partition has the small files or sorted runs of its worst bucket.
    """
    lines, others = _file_lines(table, partitions, keyed=keyed)
    widest = max(len(name) for name, *_ in lines)
    most = max(files for _, _, files, _ in lines)
    drawn = []
    for name, small, files, what in lines:
        whole, front = (-(-each * _BAR_CHARACTERS // max(most, 1)) for each in (files, small))
        bar = "█" * front + "░" * (whole - front)
        drawn.append(f"{name:<{widest}}  {bar} {_file_counts(files, small, what)}")
    return [*drawn, others] if others else drawn


def _file_lines(
    table: FileFigures, partitions: Sequence[PartitionHealth], *, keyed: bool
) -> tuple[list[tuple[str, int, int, str]], str]:
    """Name, small files or sorted runs, files, and what is counted; and what is left out."""
    counts = {
        partition.key: partition.sorted_runs if keyed else partition.small_files
        for partition in partitions
    }
    worst = sorted(partitions, key=lambda each: -counts[each.key])
    shown = worst[:_MOST_BARS] if any(each.key for each in worst) else []
    lines = [("the table", table.small_files, table.files, _SMALL)]
    what = "sorted run" if keyed else _SMALL
    lines += [
        (_short(each.key), min(counts[each.key], each.file_count), each.file_count, what)
        for each in shown
    ]
    left = len(worst) - len(shown) if shown else 0
    return lines, f"and {counted(left, 'other partition')}" if left else ""


def _short(name: str) -> str:
    """The name without its middle: of several keys, the last values differ first."""
    if len(name) <= _MAX_NAME:
        return name
    end = _MAX_NAME // 2
    return f"{name[: _MAX_NAME - 1 - end]}…{name[-end:]}"


def _file_counts(files: int, small: int, what: str) -> str:
    found = counted(small, what) if what != _SMALL else small_text(files, small)
    return f"{counted(files, 'file')}, {found}"
