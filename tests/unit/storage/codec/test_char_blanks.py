"""Bounds of CHAR columns whose values lose their blanks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.codec.char_blanks import lower_without_blanks

TEXTS = st.text(alphabet="\t !ab\x1f", max_size=6)


@given(st.lists(TEXTS, min_size=1))
def test_a_lower_bound_holds_the_values_without_their_blanks(values: list[str]) -> None:
    bound = lower_without_blanks(min(values))
    assert all(bound <= value.rstrip(" ") for value in values)


def test_blanks_before_other_characters_stay_in_the_bound() -> None:
    assert lower_without_blanks("a b  ") == "a b"
    assert lower_without_blanks("a \tb") == "a"
