"""Paths of columns as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.errors import InvalidSchema
from lakewright.storage.spec.schema_change import Position, Side, path_of, path_text


@given(st.lists(st.text(min_size=1).filter(lambda name: name.strip() == name), min_size=1))
def test_a_path_reads_back(path: list[str]) -> None:
    assert path_of(path_text(path)) == tuple(path)


def test_dots_separate_and_backticks_keep() -> None:
    assert path_of("address.city") == ("address", "city")
    assert path_of("`a.b`.`c``d`.e f") == ("a.b", "c`d", "e f")


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "`a", "`a`b", "a`b", " ", "a. .b"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema, match="is no path of a column"):
        path_of(text)


def test_only_after_and_before_have_a_neighbour() -> None:
    assert str(Position(Side.AFTER, "a")) == "after a"
    for side, neighbour in ((Side.AFTER, None), (Side.FIRST, "a")):
        with pytest.raises(InvalidSchema, match="is no place"):
            Position(side, neighbour)
