"""Pictures: valid SVG, one bar a file, and not more than can be seen."""

from __future__ import annotations

import base64
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

from lakewright.platform.orchestration.pictures import (
    as_markdown,
    debt_picture,
    file_sizes_picture,
    small_files_bars,
    small_files_picture,
)
from lakewright.platform.upkeep.health import PartitionHealth
from lakewright.platform.warehouse.survey import FileFigures
from lakewright.platform.warehouse.survey_rows import HealthFigures
from lakewright.platform.warehouse.trend import Trend

_RECT = "{http://www.w3.org/2000/svg}rect"
_TEXT = "{http://www.w3.org/2000/svg}text"


def bars(svg: str, color: str) -> list[float]:
    return [
        float(rect.get("height", ""))
        for rect in ET.fromstring(svg).iter(_RECT)
        if rect.get("fill") == color
    ]


def of_small_files(key: str, count: int) -> PartitionHealth:
    return PartitionHealth(
        key=key,
        spec={},
        row_count=count,
        file_count=count,
        size_bytes=count,
        small_files=count,
        sorted_runs=count,
        worst_bucket=0,
        last_file_creation_ms=0,
    )


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


def test_no_text_of_large_figures_leaves_the_picture_or_meets_another() -> None:
    figures = HealthFigures(table="t", taken_ms=0, files=12_345_678, debt_files=12_345_678)
    trend = Trend(table="t", points=(figures, replace(figures, taken_ms=86_400_000)))
    table = FileFigures(files=12_345_678, small_files=12_345_678)
    partition = of_small_files("dt=2026-01-01", 12_345_678)
    for svg in (
        debt_picture(trend),
        small_files_picture(table, [partition], keyed=False),
        small_files_picture(table, [partition], keyed=True),
    ):
        lines = defaultdict(list)
        for text in ET.fromstring(svg).iter(_TEXT):
            # Digits and small letters of 12 px are less than 6.8 px wide on average.
            at, wide = float(text.get("x", "")), len(text.text or "") * 6.8
            begin = at - wide if text.get("text-anchor") == "end" else at
            lines[text.get("y")].append((begin, begin + wide))
            assert begin >= 0, text.text
            assert begin + wide <= 640, text.text
        for found in lines.values():
            ordered = sorted(found)
            assert all(a[1] < b[0] for a, b in pairwise(ordered)), ordered


def test_all_texts_of_a_picture_have_one_color() -> None:
    figures = HealthFigures(table="t", taken_ms=0, files=3, debt_files=1)
    svg = debt_picture(Trend(table="t", points=(figures, replace(figures, taken_ms=1))))
    assert {each.get("fill") for each in ET.fromstring(svg).iter(_TEXT)} == {"#333333"}


def test_names_of_several_keys_that_differ_at_their_ends_stay_apart() -> None:
    keys = [f"dt=2026-01-01/origin=JFK/carrier={each}" for each in ("AA", "DL", "UA")]
    partitions = [of_small_files(key, 3) for key in keys]
    table = FileFigures(files=9, small_files=9)
    svg = small_files_picture(table, partitions, keyed=False)
    names = [text.text for text in ET.fromstring(svg).iter(_TEXT)]
    assert "dt=2026-01-01…JFK/carrier=UA" in names
    bars = small_files_bars(table, partitions, keyed=False)
    assert len({bar.split()[0] for bar in bars}) == 4
