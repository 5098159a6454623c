"""Durations that people write: a number says nothing without its unit."""

from __future__ import annotations

import pytest

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.durations import duration_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0s", 0),
        ("250ms", 250),
        ("30 s", 30_000),
        (" 5min ", 300_000),
        ("1 H", 3_600_000),
        ("7d", 604_800_000),
    ],
)
def test_a_duration_is_a_number_with_its_unit(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("given", ["7", " 7 ", 30])
def test_a_bare_number_is_refused_with_what_could_be_meant(given: object) -> None:
    with pytest.raises(InvalidRequestError, match=r"has no unit; write (7|30)d"):
        duration_ms(given)


@pytest.mark.parametrize(
    "given",
    ["", "soon", "1.5h", "-1d", "7 parsecs", True, 1.5, None, [7], "²", "9" * 5_000, "0" * 5_000],
)
def test_what_is_no_duration_is_refused_with_an_example(given: object) -> None:
    with pytest.raises(InvalidRequestError, match=r"is not a duration.*such as 30s, 1h or 7d"):
        duration_ms(given)
