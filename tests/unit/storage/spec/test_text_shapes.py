"""Two shapes share a text: what a table can hold and what a reader takes."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from lakewright.storage.spec.text_shapes import Run, share_a_text

RUNS = st.builds(
    Run,
    st.sampled_from([None, frozenset("0"), frozenset("01"), frozenset("-")]),
    st.integers(0, 2),
    st.sampled_from([0, 1, None]),
).map(lambda run: Run(run.among, run.least, None if run.most is None else run.least + run.most))
SHAPES = st.lists(RUNS, max_size=4)
TEXTS = st.text("01-", max_size=8)


def as_pattern(shape: list[Run]) -> str:
    """The shape as a regular expression."""
    parts = []
    for run in shape:
        among = "." if run.among is None else f"[{re.escape(''.join(sorted(run.among)))}]"
        parts.append(f"{among}{{{run.least},{'' if run.most is None else run.most}}}")
    return "".join(parts)


@given(SHAPES, SHAPES, TEXTS)
def test_shapes_of_which_both_have_a_text_share_one(
    one: list[Run], other: list[Run], text: str
) -> None:
    if all(re.fullmatch(as_pattern(each), text) for each in (one, other)):
        assert share_a_text(one, other)


@given(SHAPES, SHAPES)
def test_shapes_share_a_text_only_if_a_short_one_shows_it(one: list[Run], other: list[Run]) -> None:
    if share_a_text(one, other):
        assert any(
            re.fullmatch(as_pattern(one), text) and re.fullmatch(as_pattern(other), text)
            for text in _texts()
        )


def _texts() -> list[str]:
    found = [""]
    for text in found:
        if len(text) < 8:
            found += [text + each for each in "01-"]
    return found
