"""Arguments of calls: which values are whole numbers and texts."""

from __future__ import annotations

import numpy as np
import pytest

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.arguments import (
    listed_names,
    listed_partitions,
    text_argument,
    whole_number,
    whole_or_none,
)


@pytest.mark.parametrize("value", [0, -(2**63), 2**63 - 1, np.int64(7), np.uint8(3)], ids=repr)
def test_whole_numbers_of_64_bits_become_plain_ints(value: object) -> None:
    number = whole_number(value, "limit")
    assert type(number) is int
    assert number == value


@pytest.mark.parametrize(
    "value",
    [None, True, np.True_, 1.0, float("nan"), "1", b"1", [1], np.array([1, 2]), np.float64(1)],
    ids=repr,
)
def test_other_types_are_no_whole_numbers(value: object) -> None:
    with pytest.raises(InvalidRequestError, match=r"limit is .*not a whole number"):
        whole_number(value, "limit")


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**20_000], ids=["large", "small", "huge"])
def test_numbers_of_more_than_64_bits_are_refused(value: int) -> None:
    with pytest.raises(InvalidRequestError, match=r"limit is .*give a number from"):
        whole_number(value, "limit")


def test_a_number_below_its_minimum_is_refused() -> None:
    assert whole_number(0, "limit", minimum=0) == 0
    with pytest.raises(InvalidRequestError, match="limit is -1; give a number from 0"):
        whole_number(-1, "limit", minimum=0)


def test_an_argument_that_is_not_given_stays_none() -> None:
    assert whole_or_none(None, "limit") is None
    assert whole_or_none(np.int32(2), "limit") == 2


@pytest.mark.parametrize("value", [None, 5, b"u", "\ud800"], ids=repr)
def test_only_encodable_text_is_text(value: object) -> None:
    with pytest.raises(InvalidRequestError, match="commit_user is "):
        text_argument(value, "commit_user")


def test_names_are_listed_in_anything_but_a_text_or_a_mapping() -> None:
    for given in (
        ["a", "b"],
        ("a", "b"),
        iter("ab"),
        {"a": 1, "b": 2}.keys(),
        np.array(["a", "b"]),
    ):
        assert listed_names(given, "columns") == ("a", "b")
    with pytest.raises(
        InvalidRequestError, match=r"columns is the text 'ab'; give a list: \['ab'\]"
    ):
        listed_names("ab", "columns")
    for wrong in (b"ab", {"a": 1}, 5, None):
        with pytest.raises(InvalidRequestError, match=r"columns is .* not a list; give a list"):
            listed_names(wrong, "columns")
    with pytest.raises(InvalidRequestError, match=r"columns\[1\] is 5, which is not text"):
        listed_names(["a", 5], "columns")


def test_partitions_are_listed_by_the_values_of_their_keys() -> None:
    assert listed_partitions(None, "partitions") is None
    assert listed_partitions([{"p": 1}], "partitions") == ({"p": 1},)
    with pytest.raises(
        InvalidRequestError, match=r"partitions\[0\] is 'p=1', which names no values"
    ):
        listed_partitions(["p=1"], "partitions")
    with pytest.raises(InvalidRequestError, match=r"a name in partitions\[0\] is 1, which is not"):
        listed_partitions([{1: "p"}], "partitions")
