"""Pictures: file sizes before and after a rewrite, as a small drawing for the UI."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from lakewright.platform.upkeep.words import size_text

_WIDTH = 640
_ROW_HEIGHT = 92
_MARGIN = 12
# More bars would be thinner than a line.
_MAX_BARS = 160
_BEFORE = "#e07a5f"
_AFTER = "#3d8b7d"


def file_sizes_picture(before: Sequence[int], after: Sequence[int]) -> str:
    """Two rows of bars, one a file, in one scale; SVG."""
    tallest = max([*before, *after, 1])
    rows = [
        _row(before, tallest, 0, "before", _BEFORE),
        _row(after, tallest, 1, "after", _AFTER),
    ]
    height = 2 * _ROW_HEIGHT + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">'
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>{"".join(rows)}</svg>'
    )


def as_markdown(svg: str, title: str) -> str:
    """The picture inline, without a file or a server."""
    encoded = base64.b64encode(svg.encode("utf-8")).decode("ascii")
    return f"![{title}](data:image/svg+xml;base64,{encoded})"


def _row(sizes: Sequence[int], tallest: int, position: int, name: str, color: str) -> str:
    top = position * _ROW_HEIGHT + _MARGIN
    floor = top + _ROW_HEIGHT - _MARGIN
    label = f"{name}: {len(sizes)} files, {size_text(sum(sizes))}"
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
