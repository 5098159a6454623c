"""Partition keys: every value has a key that Dagster can take, and the key gives it back."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.platform.tables.partition_keys import (
    InvalidPartitionKeyError,
    PartitionColumn,
    decode_partition,
    encode_partition,
)
from lakewright.platform.tables.partition_schemes import (
    Cadence,
    DynamicDimension,
    FormattedColumn,
    PartitionScheme,
    StaticDimension,
    TimeDimension,
)
from lakewright.storage import parse_data_type


def column(name: str, type_: str) -> PartitionColumn:
    return PartitionColumn(name, parse_data_type(type_))


# What trips Dagster or ourselves, more often than chance would bring it.
TRICKY = st.sampled_from(
    [
        "",
        ".",
        "..",
        "...",
        "a...b",
        "a|b",
        "%",
        "%null",
        "%empty",
        "%2E",
        " ",
        " a ",
        "a/b",
        "a=b",
        "[a,b]",
        "\x00",
        "\t\n",
        "ä",
        "\u2028",
        "NULL",
        "null",
    ]
)
TEXTS = st.one_of(TRICKY, st.text(max_size=12), st.lists(TRICKY, max_size=4).map("".join))
VALUES = {
    "STRING": TEXTS,
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "BOOLEAN": st.booleans(),
    "DATE": st.dates(dt.date(1, 1, 1)),
    "TIME(3)": st.times().map(
        lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)
    ),
    "TIMESTAMP(6)": st.datetimes(dt.datetime(1677, 9, 22), dt.datetime(2262, 4, 10)),
    "DECIMAL(9, 2)": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda number: Decimal(number) / 100),
    "DOUBLE": st.floats(allow_nan=False),
    "BYTES": st.binary(max_size=6),
}


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[PartitionColumn], dict[str, object]]:
    names = draw(st.lists(TEXTS.filter(bool), min_size=1, max_size=3, unique=True))
    columns, spec = [], {}
    for name in names:
        type_ = draw(st.sampled_from(sorted(VALUES)))
        columns.append(column(name, type_))
        spec[name] = draw(st.one_of(st.none(), VALUES[type_]))
    return columns, spec


@given(partitions())
def test_decoding_undoes_encoding(drawn: tuple[list[PartitionColumn], dict[str, object]]) -> None:
    columns, spec = drawn
    assert decode_partition(encode_partition(spec, columns), columns) == spec


@given(partitions())
def test_keys_hold_nothing_that_dagster_parts_them_at(
    drawn: tuple[list[PartitionColumn], dict[str, object]],
) -> None:
    columns, spec = drawn
    key = encode_partition(spec, columns)
    assert key
    assert key.isprintable()
    assert key == key.strip()
    assert "..." not in key
    assert not key.startswith(".")
    assert not key.endswith(".")
    assert not set(key) & set("|[],")


@given(st.lists(st.one_of(st.none(), TEXTS), unique=True, min_size=2, max_size=2))
def test_different_values_have_different_keys(values: list[str | None]) -> None:
    text = [column("a", "STRING")]
    first, second = (encode_partition({"a": value}, text) for value in values)
    assert first != second


@given(TEXTS)
def test_dagster_takes_the_keys_in_two_dimensions(text: str) -> None:
    key = encode_partition({"a": text}, [column("a", "STRING")])
    definition = dg.MultiPartitionsDefinition(
        {
            "a": dg.StaticPartitionsDefinition([key]),
            "dt": dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-02"),
        }
    )
    assert definition.get_partition_keys() == [f"{key}|2024-01-01"]


def test_keys_read_well() -> None:
    assert encode_partition({"dt": "2013-12-03"}, [column("dt", "STRING")]) == "2013-12-03"
    assert encode_partition({"dt": dt.date(2013, 12, 3)}, [column("dt", "DATE")]) == "2013-12-03"
    two = [column("dt", "STRING"), column("hh", "INT")]
    assert encode_partition({"dt": "2013-12-03", "hh": 7}, two) == "dt=2013-12-03/hh=7"
    assert encode_partition({"dt": None}, [column("dt", "STRING")]) == "%null"
    assert encode_partition({"dt": "v1.2"}, [column("dt", "STRING")]) == "v1.2"


def test_infinity_and_nan_have_keys_too() -> None:
    real = [column("x", "DOUBLE")]
    assert decode_partition(encode_partition({"x": math.inf}, real), real) == {"x": math.inf}
    found = decode_partition(encode_partition({"x": math.nan}, real), real)["x"]
    assert isinstance(found, float)
    assert math.isnan(found)


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("", [column("a", "STRING")]),
        ("50%", [column("a", "STRING")]),
        ("seven", [column("a", "INT")]),
        ("a=1", [column("a", "INT"), column("b", "INT")]),
        ("a=1/c=2", [column("a", "INT"), column("b", "INT")]),
        ("1/2", [column("a", "INT"), column("b", "INT")]),
    ],
)
def test_a_text_that_is_no_key_is_refused(key: str, columns: list[PartitionColumn]) -> None:
    with pytest.raises(InvalidPartitionKeyError):
        decode_partition(key, columns)


def test_values_without_a_key_are_refused() -> None:
    with pytest.raises(InvalidPartitionKeyError, match="has no value for b"):
        encode_partition({"a": 1}, [column("a", "INT"), column("b", "INT")])
    with pytest.raises(InvalidPartitionKeyError, match="a: 'x' is not a valid INT"):
        encode_partition({"a": "x"}, [column("a", "INT")])


# --- schemes ----------------------------------------------------------------------------------


def daily(type_: str = "STRING", form: str = "%Y-%m-%d") -> TimeDimension:
    return TimeDimension(
        cadence=Cadence.DAILY,
        columns=(FormattedColumn(column("dt", type_), form),),
        start=dt.datetime(2013, 1, 1),
    )


HOURLY = TimeDimension(
    cadence=Cadence.HOURLY,
    columns=(
        FormattedColumn(column("dt", "STRING"), "%Y-%m-%d"),
        FormattedColumn(column("hh", "STRING"), "%H"),
    ),
    start=dt.datetime(2013, 1, 1),
)


@given(st.dates(dt.date(1900, 1, 1)), st.sampled_from(["STRING", "DATE", "INT", "TIMESTAMP(3)"]))
def test_days_and_their_keys_give_each_other_back(day: dt.date, type_: str) -> None:
    dimension = daily(type_, "%Y%m%d" if type_ == "INT" else "%Y-%m-%d")
    scheme = PartitionScheme((dimension,))
    key = day.isoformat()
    assert scheme.key_of(scheme.spec_of(key)) == key


def test_an_hour_in_two_columns_is_one_key() -> None:
    scheme = PartitionScheme((HOURLY,))
    assert scheme.key_of({"dt": "2013-12-03", "hh": "07"}) == "2013-12-03-07:00"
    assert scheme.spec_of("2013-12-03-07:00") == {"dt": "2013-12-03", "hh": "07"}


@given(st.dates(dt.date(1900, 1, 1)), TEXTS)
def test_two_dimensions_join_in_the_order_of_their_names(day: dt.date, country: str) -> None:
    countries = DynamicDimension(columns=(column("country", "STRING"),))
    scheme = PartitionScheme((daily(), countries))
    spec = {"dt": day.isoformat(), "country": country}
    key = scheme.key_of(spec)
    assert key.endswith(f"|{day.isoformat()}")
    assert scheme.spec_of(key) == spec
    assert list(scheme.spec_of(key)) == ["dt", "country"]


@pytest.mark.parametrize(
    "spec", [{"dt": None}, {"dt": "yesterday"}, {"dt": "2013-12-03 "}, {"dt": "2013-12-3"}, {}]
)
def test_a_partition_outside_the_scheme_has_no_key(spec: dict[str, object]) -> None:
    with pytest.raises(InvalidPartitionKeyError):
        PartitionScheme((daily(),)).key_of(spec)


def test_a_moment_within_a_partition_is_not_its_beginning() -> None:
    moments = PartitionScheme((daily("TIMESTAMP(3)", "%Y-%m-%dT%H:%M:%S"),))
    assert moments.key_of({"dt": dt.datetime(2013, 12, 3)}) == "2013-12-03"
    with pytest.raises(InvalidPartitionKeyError, match="does not begin"):
        moments.key_of({"dt": dt.datetime(2013, 12, 3, 6)})


@pytest.mark.parametrize("key", ["2013-12", "2013-12-03|no", "", "W2013-12-02"])
def test_a_key_of_another_form_is_refused(key: str) -> None:
    with pytest.raises(InvalidPartitionKeyError):
        PartitionScheme((daily(),)).spec_of(key)


def test_each_cadence_has_keys_of_its_own_form() -> None:
    forms = {cadence.key_format for cadence in Cadence}
    assert len(forms) == len(Cadence)
    moment = dt.datetime(2013, 12, 2)
    assert len({moment.strftime(form) for form in forms}) == len(forms)


def test_values_of_a_list_are_read_as_the_columns_type() -> None:
    years = StaticDimension(column=column("year", "INT"), values=("2013", "2014"))
    assert years.keys == ("2013", "2014")
    assert years.spec_of("2013") == {"year": 2013}
