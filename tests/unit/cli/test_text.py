"""Text for people: what lines up, and what a size or a duration is called."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from lakewright.cli.output.tables import TextColumn, table_lines
from lakewright.cli.output.text import cut, iso_time, printable, shown_text, time_text


def test_numbers_stand_right_and_text_left() -> None:
    columns = [TextColumn("name"), TextColumn("rows", right=True)]
    assert table_lines(columns, [["a", 1], ["longer", 1234567]]) == [
        "name         rows",
        "------  ---------",
        "a               1",
        "longer  1,234,567",
    ]


def test_wide_and_combining_characters_line_up() -> None:
    lines = table_lines(
        [TextColumn("s"), TextColumn("n", right=True)],
        [["漢字", 1], ["e\u0301", 2], ["żó", 3], ["👍", 4]],
    )
    assert {cell_len(line) for line in lines} == {len("----  -")}


def test_null_is_told_from_text_that_says_null() -> None:
    assert table_lines([TextColumn("s")], [[None]])[-1] == "null"
    assert shown_text("null") == "'null'"
    assert shown_text("nullable") == "nullable"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("plain żółć 漢字", "plain żółć 漢字"),
        ("a\tb\r\n", "a\\tb\\r\\n"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202eright to left", "\\u202eright to left"),
        ("narrow\u00a0space", "narrow\u00a0space"),
    ],
)
def test_what_would_move_a_terminal_is_written_as_a_code(text: str, printed: str) -> None:
    assert printable(text) == printed


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("漢字漢字", 8, "漢字漢字"),
        ("漢字漢字", 7, "漢字漢…"),
    ],
)
def test_long_values_are_cut_by_what_they_take_of_the_screen(
    text: str, width: int, expected: str
) -> None:
    assert cut(text, width) == expected
    assert cell_len(expected) <= width


def test_times_are_utc_to_the_millisecond() -> None:
    assert time_text(1_704_067_200_007) == "2024-01-01 00:00:00.007"
    assert iso_time(1_704_067_200_007) == "2024-01-01T00:00:00.007Z"
