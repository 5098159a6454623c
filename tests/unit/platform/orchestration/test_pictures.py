"""Pictures: valid SVG, one bar a file, and not more than can be seen."""

from __future__ import annotations

import base64
from xml.etree import ElementTree as ET

from lakewright.platform.orchestration.pictures import as_markdown, file_sizes_picture

_RECT = "{http://www.w3.org/2000/svg}rect"
_TEXT = "{http://www.w3.org/2000/svg}text"


def bars(svg: str, color: str) -> list[float]:
    return [
        float(rect.get("height", ""))
        for rect in ET.fromstring(svg).iter(_RECT)
        if rect.get("fill") == color
    ]


def test_every_file_is_a_bar_in_one_scale() -> None:
    svg = file_sizes_picture([100, 50, 50], [200])
    before, after = bars(svg, "#e07a5f"), bars(svg, "#3d8b7d")
    assert len(before) == 3
    assert len(after) == 1
    assert after[0] == 2 * before[0] == 4 * before[1]
    labels = [text.text for text in ET.fromstring(svg).iter(_TEXT)]
    assert labels == ["before: 3 files, 200 B", "after: 1 file, 200 B"]


def test_of_very_many_files_the_largest_are_shown() -> None:
    svg = file_sizes_picture(range(1000), [])
    assert len(bars(svg, "#e07a5f")) == 160
    assert "before: 1,000 files, 487.8 KiB (the 160 largest shown)" in svg


def test_nothing_is_a_picture_too() -> None:
    ET.fromstring(file_sizes_picture([], []))


def test_the_picture_is_inline() -> None:
    text = as_markdown(file_sizes_picture([1], [1]), "sizes")
    assert text.startswith("![sizes](data:image/svg+xml;base64,")
    encoded = text.removeprefix("![sizes](data:image/svg+xml;base64,").removesuffix(")")
    assert base64.b64decode(encoded).startswith(b"<svg")
