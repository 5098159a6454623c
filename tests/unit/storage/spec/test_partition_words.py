"""Partitions in messages: what people read is what options take back."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.partition_words import (
    ExactText,
    describe_partition,
    name_partition,
    read_partition,
    value_word,
)
from tests.unit.storage.spec.test_partition import VALUES, keys_of, partition_of

TEXTS = st.text(max_size=12) | st.sampled_from(
    ["", " ", "null", "__DEFAULT_PARTITION__", "a,b=1", "{", "50%", "x,", "'", '"null"', "\u202e"]
)


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    names = draw(
        st.lists(
            st.text(min_size=1, max_size=5) | st.sampled_from(["a", "b", "dt"]),
            min_size=3,
            max_size=3,
            unique=True,
        ).map(tuple)
    )
    values = tuple(
        draw(st.none() | (TEXTS if each == "STRING" else VALUES[each])) for each in types
    )
    return partition_of(keys_of(*types, names=names), values)


@given(partitions())
@example(partition_of(keys_of("STRING"), ("null",)))
@example(partition_of(keys_of("STRING", "STRING"), ("a,b=1", "2")))
@example(partition_of(keys_of("TIMESTAMP(9)"), (1_767_225_600_123_456_789,)))
def test_the_words_of_a_partition_typed_as_an_option_name_it_again(partition: Partition) -> None:
    beyond = [kind for kind in map(str, partition.keys.types) if kind[:4] in ("DATE", "TIME")]
    # Python has no date for such numbers.
    assume(not beyond or "-" in partition.words or ":" in partition.words)
    assume(not any(isinstance(each, int) for each in partition.spec.values()) or not beyond)
    words = partition.words
    assert words.isprintable()
    assert words == words.strip()
    given = read_partition(words)
    null = "__DEFAULT_PARTITION__"
    assert all(type(each) is ExactText or each != null for each in given.values())
    stored = partition.keys.stored(given, table="t")
    assert partition_of(partition.keys, tuple(stored.values())) == partition


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"dt": dt.date(2013, 12, 3), "c": "50%"}, "dt=2013-12-03,c=50%"),
        ({"c": "b,c", "n": 1}, "c=b,c,n=1"),
        ({"dt": dt.date(2013, 12, 3), "c": None}, '{"dt": "2013-12-03", "c": null}'),
        ({"c": ""}, '{"c": ""}'),
        ({"c": "null"}, '{"c": "null"}'),
        ({"c": "a,b=1"}, '{"c": "a,b=1"}'),
        ({"c": "é\x1b"}, '{"c": "é\\u001b"}'),
        ({"c": "é\u202e"}, '{"c": "\\u00e9\\u202e"}'),
        ({}, "the table"),
    ],
)
def test_values_stand_in_plain_words_and_in_json_where_these_would_mislead(
    spec: dict[str, object], words: str
) -> None:
    assert describe_partition(spec) == words


def test_a_table_without_keys_has_one_partition_that_needs_no_values() -> None:
    assert name_partition({}) == "the only partition"
    assert name_partition({"a": 1}) == "partition a=1"


def test_a_column_of_values_tells_null_from_texts() -> None:
    assert [value_word(each) for each in (None, "null", "", " ", "x", True)] == [
        *("null", '"null"', '""', '" "', "x", "true")
    ]


@given(TEXTS)
@example('"null"')
@example("__DEFAULT_PARTITION__")
@example("a,t=1")
@example("a,b")
def test_a_listed_value_names_its_partition_bare_or_in_quotes_in_a_json_object(text: str) -> None:
    word = value_word(text)
    quoted = word.startswith('"')
    typed = f'{{"s": {word}}}' if quoted else f"s={word}"
    keys = keys_of("STRING", names=("s",))
    stored = keys.stored(read_partition(typed), table="t")
    assert stored == {"s": text}


@pytest.mark.parametrize("text", ["", "a", "=1", "a=1,a=2", "{", "{]"])
def test_what_names_no_partition_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        read_partition(text)


def test_a_key_that_is_named_twice_is_told_with_the_way_to_type_its_value() -> None:
    with pytest.raises(InvalidRequestError, match="names t twice; a value that holds ,t= is"):
        read_partition("s=a,t=1,t=x")
