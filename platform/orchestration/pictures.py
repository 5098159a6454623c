"""Pictures: what a table is made of and what a rewrite did, as drawings and bars for the UI."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from lakewright.platform.upkeep.health import PartitionHealth
from lakewright.platform.upkeep.words import counted, size_text, small_text, time_text
from lakewright.platform.warehouse.survey import FileFigures
from lakewright.platform.warehouse.trend import Trend

_SMALL = "small file"
_WIDTH = 640
_ROW_HEIGHT = 92
_MARGIN = 12
# More bars would be thinner than a line.
_MAX_BARS = 160
_BEFORE = "#e07a5f"
_AFTER = "#3d8b7d"
_MAX_PARTITIONS = 12
_LINE_HEIGHT = 22
_LEGEND_HEIGHT = 16
_NAMES_WIDTH = 190
# As wide as a character of a figure or a word is on average, rounded up.
_CHARACTER_WIDTH = 7
_MAX_NAME = 28
_MOST_BARS = 4
_BAR_CHARACTERS = 30
_SIZES_MIB = (1, 8, 32, 128, 512)


def file_sizes_picture(before: Sequence[int], after: Sequence[int]) -> str:
    """Two rows of bars, one a file, in one scale; SVG."""
    tallest = max([*before, *after, 1])
    rows = [
        _row(before, tallest, 0, "before", _BEFORE),
        _row(after, tallest, 1, "after", _AFTER),
    ]
    return _svg(2 * _ROW_HEIGHT + _MARGIN, rows)


def small_files_picture(
    table: FileFigures, partitions: Sequence[PartitionHealth], *, keyed: bool
) -> str:
    """A bar for the table and one for each of its worst partitions: their files, small ones first.

    A bar of a partition has the small files or sorted runs of its worst bucket; SVG.
    """
    lines, others = _file_lines(table, partitions, keyed=keyed, most=_MAX_PARTITIONS)
    most = max((files for _, _, files, _ in lines), default=0)
    height = len(lines) * _LINE_HEIGHT + 2 * _MARGIN
    longest = max(
        (len(_file_counts(files, small, what)) for _, small, files, what in lines), default=0
    )
    room = _WIDTH - 2 * _MARGIN - _NAMES_WIDTH - longest * _CHARACTER_WIDTH - 8
    drawn = [_bar(line, position, room / max(most, 1)) for position, line in enumerate(lines)]
    if others:
        drawn.append(f'<text x="{_MARGIN}" y="{height + 4}" fill="#333333">{others}</text>')
        height += _LINE_HEIGHT
    return _svg(height, drawn)


def small_files_bars(
    table: FileFigures, partitions: Sequence[PartitionHealth], *, keyed: bool
) -> list[str]:
    """The same for the few worst partitions, in characters: `█` of small files, `░` of others."""
    lines, others = _file_lines(table, partitions, keyed=keyed, most=_MOST_BARS)
    named = [(_short(name), small, files, what) for name, small, files, what in lines]
    widest = max(len(name) for name, *_ in named)
    most = max(files for _, _, files, _ in named)
    drawn = []
    for name, small, files, what in named:
        whole, front = (-(-each * _BAR_CHARACTERS // max(most, 1)) for each in (files, small))
        bar = "█" * front + "░" * (whole - front)
        drawn.append(f"{name:<{widest}}  {bar} {_file_counts(files, small, what)}")
    return [*drawn, others] if others else drawn


def _file_lines(
    table: FileFigures, partitions: Sequence[PartitionHealth], *, keyed: bool, most: int
) -> tuple[list[tuple[str, int, int, str]], str]:
    """Name, small files or sorted runs, files, and what is counted; and what is left out."""
    counts = {each.key: each.sorted_runs if keyed else each.small_files for each in partitions}
    worst = sorted(partitions, key=lambda each: -counts[each.key])
    shown = worst[:most] if any(each.key for each in worst) else []
    lines = [("the table", table.small_files, table.files, _SMALL)]
    what = "sorted run" if keyed else _SMALL
    lines += [
        (each.key, min(counts[each.key], each.file_count), each.file_count, what) for each in shown
    ]
    left = len(worst) - len(shown) if shown else 0
    return lines, f"and {counted(left, 'other partition')}" if left else ""


def file_shapes_picture(files: Sequence[tuple[int, int]], *, keyed: bool) -> str:
    """A bar for each range of sizes, and of a keyed table for each level: its files; SVG.

    `files` are pairs of level and bytes.
    """
    sizes = [size for _, size in files]
    bounds = (0, *(each << 20 for each in _SIZES_MIB))
    lines: list[tuple[str, list[int]]] = []
    for low, high in zip(bounds, (*bounds[1:], None), strict=True):
        found = [each for each in sizes if each >= low and (high is None or each < high)]
        name = f"from {size_text(low)}" if high is None else f"below {size_text(high)}"
        lines.append((name, found))
    if keyed:
        lines += [
            (f"level {level}", [size for at, size in files if at == level])
            for level in sorted({level for level, _ in files})
        ]
    most = max((len(found) for _, found in lines), default=0)
    room = (_WIDTH - 2 * _MARGIN - _NAMES_WIDTH - 170) / max(most, 1)
    drawn = []
    for position, (name, found) in enumerate(lines):
        top, left = _MARGIN + position * _LINE_HEIGHT, _MARGIN + _NAMES_WIDTH
        wide = len(found) * room
        told = f"{counted(len(found), 'file')}, {size_text(sum(found))}"
        drawn.append(
            f'<text x="{_MARGIN}" y="{top + 13}" fill="#333333">{name}</text>'
            f'<rect x="{left}" y="{top + 2}" width="{max(wide, 1):.1f}" height="14" '
            f'fill="{_AFTER}"/>'
            f'<text x="{left + wide + 8:.1f}" y="{top + 13}" fill="#333333">{told}</text>'
        )
    return _svg(len(lines) * _LINE_HEIGHT + 2 * _MARGIN, drawn)


def debt_picture(trend: Trend) -> str:
    """The files of a table and those that upkeep could take away, over time, as recorded; SVG.

    A compaction takes the files away at once. What it replaced stays a debt for as long as older
    snapshots may need it, so that the debt alone would hide what was done.
    """
    figures = trend.at_even_distances(_MAX_BARS)
    debt, files = [each.debt_files for each in figures], [each.files for each in figures]
    most = max(*debt, *files, 1)
    left = _MARGIN + max(52, len(f"{most:,}") * _CHARACTER_WIDTH + 6)
    right, floor = _WIDTH - _MARGIN, _ROW_HEIGHT + 2 * _MARGIN + _LEGEND_HEIGHT
    step = (right - left) / max(len(figures) - 1, 1)
    drawn = []
    for at, (values, color) in enumerate(((debt, _BEFORE), (files, _AFTER))):
        points = " ".join(
            f"{left + number * step:.1f},{floor - value * (_ROW_HEIGHT - 20) / most:.1f}"
            for number, value in enumerate(values)
        )
        name = ("debt", "files in the table")[at]
        told = f"{name}: {counted(values[0], 'file')}, then at most {max(values):,}, "
        line = _MARGIN + at * _LEGEND_HEIGHT
        drawn.append(
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
            f'<rect x="{left}" y="{line - 5}" width="9" height="9" fill="{color}"/>'
            f'<text x="{left + 14}" y="{line + 4}" fill="#333333">'
            f"{told}now {values[-1]:,}</text>"
        )
    begin, end = time_text(trend.first.taken_ms), time_text(trend.last.taken_ms)
    drawn += [
        f'<line x1="{left}" y1="{floor}" x2="{right}" y2="{floor}" stroke="#999999"/>',
        f'<text x="{_MARGIN}" y="{floor - _ROW_HEIGHT + 24}" fill="#333333">{most:,}</text>',
        f'<text x="{_MARGIN}" y="{floor}" fill="#333333">0</text>',
        f'<text x="{left}" y="{floor + 18}" fill="#333333">{begin}</text>',
        f'<text x="{right}" y="{floor + 18}" text-anchor="end" fill="#333333">{end}</text>',
    ]
    return _svg(floor + 2 * _MARGIN, drawn)


def as_markdown(svg: str, title: str) -> str:
    """The picture inline, without a file or a server."""
    encoded = base64.b64encode(svg.encode("utf-8")).decode("ascii")
    return f"![{title}](data:image/svg+xml;base64,{encoded})"


def _svg(height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">'
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>{"".join(parts)}</svg>'
    )


def _bar(line: tuple[str, int, int, str], position: int, room: float) -> str:
    """One line: a name, the bar of all files with the small ones in front, and the figures.

    `room` is the width of one file.
    """
    name, small, files, what = line
    top, left = _MARGIN + position * _LINE_HEIGHT, _MARGIN + _NAMES_WIDTH
    shown, told = _short(name), _file_counts(files, small, what)
    return (
        f'<text x="{_MARGIN}" y="{top + 13}" fill="#333333">{escape(shown)}</text>'
        f'<rect x="{left}" y="{top + 2}" width="{max(files * room, 1):.1f}" height="14" '
        f'fill="{_AFTER}"/>'
        f'<rect x="{left}" y="{top + 2}" width="{small * room:.1f}" height="14" fill="{_BEFORE}"/>'
        f'<text x="{left + files * room + 8:.1f}" y="{top + 13}" fill="#333333">{told}</text>'
    )


def _short(name: str) -> str:
    """The name without its middle: of several keys, the last values differ first."""
    if len(name) <= _MAX_NAME:
        return name
    end = _MAX_NAME // 2
    return f"{name[: _MAX_NAME - 1 - end]}…{name[-end:]}"


def _file_counts(files: int, small: int, what: str) -> str:
    found = counted(small, what) if what != _SMALL else small_text(files, small)
    return f"{counted(files, 'file')}, {found}"


def _row(sizes: Sequence[int], tallest: int, position: int, name: str, color: str) -> str:
    top = position * _ROW_HEIGHT + _MARGIN
    floor = top + _ROW_HEIGHT - _MARGIN
    label = f"{name}: {counted(len(sizes), 'file')}, {size_text(sum(sizes))}"
    shown = sorted(sizes, reverse=True)
    if len(shown) > _MAX_BARS:
        label += f" (the {_MAX_BARS} largest shown)"
        shown = shown[:_MAX_BARS]
    room = floor - top - 22
    step = min((_WIDTH - 2 * _MARGIN) / max(len(shown), 1), 24.0)
    bars = []
    for at, size in enumerate(shown):
        tall = max(room * size / tallest, 1.0)
        bars.append(
            f'<rect x="{_MARGIN + at * step:.1f}" y="{floor - tall:.1f}" '
            f'width="{max(step - 1, 0.8):.1f}" height="{tall:.1f}" fill="{color}"/>'
        )
    line = (
        f'<line x1="{_MARGIN}" y1="{floor}" x2="{_WIDTH - _MARGIN}" y2="{floor}" stroke="#999999"/>'
    )
    text = f'<text x="{_MARGIN}" y="{top + 12}" fill="#333333">{label}</text>'
    return text + "".join(bars) + line
