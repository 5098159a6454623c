"""Figures and names in words."""

from __future__ import annotations

import pytest

from lakewright.platform.upkeep.words import (
    counted,
    duration_text,
    named,
    size_text,
    snapshots_text,
)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (5 * 1024**3, "5.0 GiB"),
        (5 << 20, "5.0 MiB"),
        (5000 * 1024**4, "5,000.0 TiB"),
    ],
)
def test_sizes_are_human(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


def test_durations_have_the_unit_they_need() -> None:
    assert [duration_text(each) for each in (5, 1500, 59_949, 245_000, 3_600_000, 695_000_000)] == [
        "5 ms",
        "1.5 s",
        "59.9 s",
        "4 min 5 s",
        "1 h",
        "8 d 1 h",
    ]


def test_counts_agree_with_their_noun() -> None:
    assert [counted(each, "file") for each in (0, 1, 1200)] == ["0 files", "1 file", "1,200 files"]


def test_names_and_snapshots_are_told_in_few_words() -> None:
    assert [named("tag", each) for each in (("a",), ("a", "b"))] == ["tag a", "tags a, b"]
    given = (), (3,), (3, 4, 5), (12, 15), (*range(1, 9), 40)
    assert [snapshots_text(each) for each in given] == [
        "no snapshot",
        "snapshot 3",
        "3 snapshots (3 to 5)",
        "2 snapshots (12, 15)",
        "9 snapshots (between 1 and 40)",
    ]
