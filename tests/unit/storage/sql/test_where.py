"""Filters as text: their meaning, and the errors for unsupported ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.arrow_values import keep_matching, scalar_of
from lakewright.storage.errors import InvalidPredicate
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.predicate import (
    And,
    Bounds,
    Leaf,
    Not,
    Operator,
    Or,
    Predicate,
    matches,
    may_match,
)
from lakewright.storage.spec.schema import Column, SchemaSpec, new_schema
from lakewright.storage.spec.values import Value, comparison_key
from lakewright.storage.sql import parse_where

TYPES = {
    "id": "BIGINT",
    "Small": "TINYINT",
    "ratio": "DOUBLE",
    "real4": "FLOAT",
    "price": "DECIMAL(10, 2)",
    "name": "STRING",
    "tag": "CHAR(3)",
    "blob": "BYTES",
    "ok": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMP(3)",
    "fine": "TIMESTAMP(9)",
    "moment": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "hour": "TIME(3)",
    "we ird.`name": "INT",
    "list": "ARRAY<INT>",
}
SCHEMA = new_schema(
    SchemaSpec(columns=tuple(Column(name, parse_data_type(text)) for name, text in TYPES.items())),
    time_millis=0,
)


def nanos(text: str, extra: int = 0) -> int:
    micros = (dt.datetime.fromisoformat(text) - dt.datetime(1970, 1, 1)) // dt.timedelta(
        microseconds=1
    )
    return micros * 1000 + extra


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 1", Leaf("id", Operator.EQ, (1,))),
        ("id == 1", Leaf("id", Operator.EQ, (1,))),
        ("id <> -1", Leaf("id", Operator.NE, (-1,))),
        ("id != - -1", Leaf("id", Operator.NE, (1,))),
        ("1 < id", Leaf("id", Operator.GT, (1,))),
        ("1 >= id", Leaf("id", Operator.LE, (1,))),
        ("'x' = name", Leaf("name", Operator.EQ, ("x",))),
        ("id = '7'", Leaf("id", Operator.EQ, (7,))),
        ("id = 1e3", Leaf("id", Operator.EQ, (1000,))),
        ("(((id) = (1)))", Leaf("id", Operator.EQ, (1,))),
        ("id IN (1, -2, NULL)", Leaf("id", Operator.IN, (1, -2, None))),
        ("id NOT IN (1)", Not(Leaf("id", Operator.IN, (1,)))),
        ("id BETWEEN 1 AND 2", And((Leaf("id", Operator.GE, (1,)), Leaf("id", Operator.LE, (2,))))),
        (
            "id NOT BETWEEN 1 AND 2",
            Not(And((Leaf("id", Operator.GE, (1,)), Leaf("id", Operator.LE, (2,))))),
        ),
        ("id IS NULL", Leaf("id", Operator.IS_NULL)),
        ("id IS NOT NULL", Leaf("id", Operator.IS_NOT_NULL)),
        ("list IS NOT NULL", Leaf("list", Operator.IS_NOT_NULL)),
        ("id <> NULL", Leaf("id", Operator.NE, (None,))),
        ("NOT id = 1", Not(Leaf("id", Operator.EQ, (1,)))),
        ("`we ird.``name` = 1", Leaf("we ird.`name", Operator.EQ, (1,))),
        ("ok = true", Leaf("ok", Operator.EQ, (True,))),
        ("price = 1.5", Leaf("price", Operator.EQ, (Decimal("1.50"),))),
        ("ratio > .5", Leaf("ratio", Operator.GT, (0.5,))),
        ("ratio = 'Infinity'", Leaf("ratio", Operator.EQ, (float("inf"),))),
        ("real4 = 0.1", Leaf("real4", Operator.EQ, (0.10000000149011612,))),
        ("real4 < 1e39", Leaf("real4", Operator.LT, (float("inf"),))),
        ("blob = X'0aFF'", Leaf("blob", Operator.EQ, (b"\x0a\xff",))),
        ("name = 'it''s'", Leaf("name", Operator.EQ, ("it's",))),
        (r"name = 'it\'s'", Leaf("name", Operator.EQ, ("it's",))),
        (r"name = 'a\\b'", Leaf("name", Operator.EQ, ("a\\b",))),
        ('name = "x"', Leaf("name", Operator.EQ, ("x",))),
        ("name = 'żółć 漢字'", Leaf("name", Operator.EQ, ("żółć 漢字",))),
        ("name LIKE 'ab%'", Leaf("name", Operator.STARTS_WITH, ("ab",))),
        ("name LIKE '%'", Leaf("name", Operator.STARTS_WITH, ("",))),
        (r"name LIKE 'a\_b\%%'", Leaf("name", Operator.STARTS_WITH, ("a_b%",))),
        ("name NOT LIKE 'ab%'", Not(Leaf("name", Operator.STARTS_WITH, ("ab",)))),
        ("day = DATE '1970-01-02'", Leaf("day", Operator.EQ, (1,))),
        ("day = '1970-01-02'", Leaf("day", Operator.EQ, (1,))),
        (
            "at = TIMESTAMP '2024-01-31 13:45:00.123'",
            Leaf("at", Operator.EQ, (nanos("2024-01-31T13:45:00.123"),)),
        ),
        (
            "fine = '2024-01-31 13:45:00.123456789'",
            Leaf("fine", Operator.EQ, (nanos("2024-01-31T13:45:00.123456", 789),)),
        ),
        ("at >= DATE '2024-01-31'", Leaf("at", Operator.GE, (nanos("2024-01-31"),))),
        (
            "moment = '2024-01-31T13:45:00+02:00'",
            Leaf("moment", Operator.EQ, (nanos("2024-01-31T11:45:00"),)),
        ),
        (
            "moment = TIMESTAMP '2024-01-31 13:45:00'",
            Leaf("moment", Operator.EQ, (nanos("2024-01-31T13:45:00"),)),
        ),
        ("hour = TIME '00:00:01.5'", Leaf("hour", Operator.EQ, (1500,))),
    ],
)
def test_a_filter_means_what_sql_says(text: str, expected: Predicate) -> None:
    assert parse_where(text, SCHEMA) == expected


def test_chains_of_one_connector_stay_flat_however_long() -> None:
    one = Leaf("id", Operator.EQ, (1,))
    assert parse_where(" AND ".join(["id = 1"] * 3000), SCHEMA) == And((one,) * 3000)
    assert parse_where("id = 1 AND id = 1 OR id = 1", SCHEMA) == Or((And((one, one)), one))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the filter is empty"),
        ("id =", "not understood at"),
        ("id = 1 name = 'x'", "not understood at \"name = 'x'\""),
        ("SELECT 1", "not understood"),
        ("name = 'x", "a quote is not closed"),
        ("id = 1; id = 2", "join them by AND"),
        ("name = 5", "5 does not fit column name STRING"),
        ("id = '1.5'", "not a whole number"),
        ("Small = '128'", "does not fit in 8 bits"),
        ("price = '1.234'", "more than 2 digits after the point"),
        ("day = 5", "write DATE '2024-01-31'"),
        ("day = '2024-13-01'", "month must be in 1..12"),
        ("day = TIMESTAMP '2024-01-31 00:00:00'", "it is a timestamp"),
        ("hour = DATE '2024-01-31'", "it is a date"),
        ("name = DATE '2024-01-31'", "it is a date"),
        ("at = '2024-01-31 13:45:00.1234'", "holds 3 digits of a second"),
        ("at = '2024-01-31T13:45:00+02:00'", "time zone"),
        ("hour = '10:00:00.1234'", "holds milliseconds"),
        ("hour = '10:00:00+01:00'", "time zone"),
        ("blob = '0a'", "write X'…'"),
        ("blob = X'0a1'", "even number of digits"),
        ("list = 1", "only IS NULL and IS NOT NULL"),
        ("list = NULL", "only IS NULL and IS NOT NULL"),
        ("list <> NULL", "only IS NULL and IS NOT NULL"),
        ("list IN (NULL)", "only IS NULL and IS NOT NULL"),
        ("name = '\ud800'", "half of a surrogate pair"),
        ("`\ud800` = 1", "half of a surrogate pair"),
        ("ok", "write `name = true`"),
        ("ok IS TRUE", "name = true"),
        ("true", "names no column"),
        ("1 = 1", "a column must stand on one side"),
        ('"id" = 1', "or in `…`"),
        ("id = Small", "compared with a literal"),
        ("name = x", "text needs quotes"),
        ("id + 1 = 2", "id + 1 = 2 is not understood"),
        ("upper(name) = 'X'", "a column must stand on one side"),
        ("id IN (SELECT 1)", "write the values"),
        ("id IN ()", "at least one value"),
        ("id IN (Small)", "compared with a literal"),
        ("id BETWEEN SYMMETRIC 2 AND 1", "a filter compares columns with literals"),
        ("id <=> 1", "IS NULL"),
        ("id = CAST('1' AS INT)", "write the literal itself"),
        ("id = CURRENT_DATE", "a filter compares columns with literals"),
        ("name LIKE '%a'", "LIKE 'prefix%'"),
        ("name LIKE 'abc'", "write = for a whole text"),
        ("name LIKE 'a_c%'", "LIKE 'prefix%'"),
        ("name LIKE id", "LIKE takes a text"),
        ("id LIKE '1%'", "LIKE is for text"),
        ("name ILIKE 'a%'", "exact case"),
        ("name RLIKE 'a.*'", "a filter compares columns with literals"),
        ("t.id = 1", "write id alone"),
        ("ID = 1", "did you mean id?"),
        ("small = 1", "did you mean Small?"),
        ("momnet IS NULL", "did you mean moment?"),
        ("zzz = 1", "there is no zzz; columns are id, Small"),
        ("(" * 3000 + "id = 1" + ")" * 3000, "nested too deeply"),
    ],
)
def test_what_is_no_filter_is_refused_with_what_is_possible(text: str, said: str) -> None:
    with pytest.raises(InvalidPredicate) as caught:
        parse_where(text, SCHEMA)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 600


# --- the three ways to evaluate a filter agree ---------------------------------------------------

VALUES: dict[str, st.SearchStrategy[Value]] = {
    "id": st.integers(-3, 3),
    "ratio": st.sampled_from([0.0, -0.0, 1.5, -2.5, float("nan"), float("inf"), float("-inf")]),
    "real4": st.sampled_from([0.10000000149011612, 0.5, float("nan"), -0.0, 0.0]),
    "price": st.integers(-200, 200).map(lambda cents: Decimal(cents).scaleb(-2)),
    "name": st.text("abć%_'\\", max_size=3),
    "blob": st.binary(max_size=2),
    "ok": st.booleans(),
    "day": st.integers(-2, 2),
    "at": st.integers(-2, 2).map(lambda ms: ms * 1_000_000),
    "fine": st.integers(-2, 2),
    "moment": st.integers(-2, 2).map(lambda micros: micros * 1000),
    "hour": st.integers(0, 3),
}
Row = dict[str, Value]

rows_strategy = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}), max_size=6
)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def written(column: str, value: Value) -> str:
    """A value as a literal."""
    if value is None:
        return "NULL"
    match column:
        case "name":
            return quoted(str(value))
        case "blob":
            assert isinstance(value, bytes)
            return f"X'{value.hex()}'"
        case "ratio" | "real4":
            return f"'{value!r}'"
        case "day":
            assert isinstance(value, int)
            return f"DATE '{dt.date(1970, 1, 1) + dt.timedelta(days=value)}'"
        case "hour":
            assert isinstance(value, int)
            return f"TIME '00:00:00.{value:03d}'"
        case "at" | "fine" | "moment":
            assert isinstance(value, int)
            second, fraction = divmod(value, 10**9)
            whole = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=second)
            return f"TIMESTAMP '{whole}.{fraction:09d}'"
        case _:
            assert not isinstance(value, bytes)
            return str(value)


@st.composite
def leaves(draw: st.DrawFn) -> tuple[str, Predicate]:
    column = draw(st.sampled_from(sorted(VALUES)))
    values = VALUES[column]
    if column == "name" and draw(st.booleans()):
        prefix = str(draw(values))
        escaped = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return f"{column} LIKE {quoted(escaped + '%')}", Leaf(
            column, Operator.STARTS_WITH, (prefix,)
        )
    operator = draw(st.sampled_from([each for each in Operator if each.name != "STARTS_WITH"]))
    if operator in (Operator.IS_NULL, Operator.IS_NOT_NULL):
        return f"{column} {operator.value}", Leaf(column, operator)
    if operator is Operator.IN:
        several = tuple(draw(st.lists(st.none() | values, min_size=1, max_size=3)))
        listed = ", ".join(written(column, each) for each in several)
        return f"{column} IN ({listed})", Leaf(column, operator, several)
    value = draw(st.none() | values)
    return f"{column} {operator.value} {written(column, value)}", Leaf(column, operator, (value,))


def joined(parts: list[tuple[str, Predicate]], word: str) -> tuple[str, Predicate]:
    text = f" {word} ".join(f"({text})" for text, _ in parts)
    inner = tuple(predicate for _, predicate in parts)
    return text, And(inner) if word == "AND" else Or(inner)


def negated(part: tuple[str, Predicate]) -> tuple[str, Predicate]:
    return f"NOT ({part[0]})", Not(part[1])


filters = st.recursive(
    leaves(),
    lambda inner: (
        st.builds(joined, st.lists(inner, min_size=2, max_size=3), st.sampled_from(["AND", "OR"]))
        | inner.map(negated)
    ),
    max_leaves=6,
)


def same(left: Value, right: Value) -> bool:
    return bool(comparison_key(left) == comparison_key(right))


def bounds_of(rows: list[Row]) -> dict[str, Bounds]:
    bounds = {}
    for name in VALUES:
        there = [row[name] for row in rows if row[name] is not None]
        low = min(there, key=comparison_key, default=None)
        high = max(there, key=comparison_key, default=None)
        bounds[name] = Bounds(low, high, len(rows) - len(there), len(rows))
    return bounds


def arrow_rows(rows: list[Row]) -> pa.Table:
    fields = [field for field in SCHEMA.fields if field.name in VALUES]
    number = pa.array(range(len(rows)), pa.int64())
    columns = [
        pa.chunked_array(
            [
                pa.array(
                    [scalar_of(row[field.name], field.type) for row in rows],
                    to_arrow_schema([field]).field(0).type,
                )
            ]
        )
        for field in fields
    ]
    return pa.table([*columns, number], names=[*(field.name for field in fields), "number"])


def kept_by_matches(rows: list[Row], predicate: Predicate) -> list[int]:
    return [number for number, row in enumerate(rows) if matches(predicate, row) is True]


def evaluated(rows: list[Row], predicate: Predicate) -> list[int]:
    kept = keep_matching(arrow_rows(rows), predicate, SCHEMA)
    numbers: list[int] = kept.column("number").to_pylist()
    return numbers


@given(filters, rows_strategy)
@example(("NOT (id IN (1, NULL))", Not(Leaf("id", Operator.IN, (1, None)))), [])
def test_text_rows_and_bounds_agree_on_what_a_filter_keeps(
    written_filter: tuple[str, Predicate], rows: list[Row]
) -> None:
    text, meant = written_filter
    predicate = parse_where(text, SCHEMA)

    kept = kept_by_matches(rows, predicate)

    assert kept == kept_by_matches(rows, meant)
    assert evaluated(rows, predicate) == kept
    if kept:
        assert may_match(predicate, bounds_of(rows))
        unknown: Mapping[str, Bounds] = {name: Bounds(None, None, None, None) for name in VALUES}
        assert may_match(predicate, unknown)
    for number in kept:
        assert may_match(predicate, bounds_of([rows[number]]))


@given(st.sampled_from(sorted(VALUES)).flatmap(lambda n: st.tuples(st.just(n), VALUES[n])))
def test_a_literal_written_out_is_read_back(case: tuple[str, Value]) -> None:
    column, value = case
    predicate = parse_where(f"{column} = {written(column, value)}", SCHEMA)
    assert isinstance(predicate, Leaf)
    assert same(predicate.literals[0], value)
    assert matches(predicate, {column: value}) is True


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("id = NULL", None),
        ("id <> NULL", None),
        ("NOT id = NULL", None),
        ("id NOT IN (2, NULL)", None),
        ("id NOT IN (1, NULL)", False),
        ("id = 1 OR id = NULL", True),
        ("id = 2 AND id = NULL", False),
        ("name = 'x'", None),
        ("NOT name = 'x'", None),
        ("name IS NULL OR name = 'x'", True),
        ("name NOT LIKE 'x%'", None),
    ],
)
def test_unknown_stays_unknown(text: str, verdict: bool | None) -> None:
    predicate = parse_where(text, SCHEMA)
    row: Row = dict.fromkeys(VALUES)
    row["id"] = 1
    assert matches(predicate, row) is verdict
    assert evaluated([row], predicate) == ([0] if verdict else [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # Written out, these numbers would have ten million digits.
        ("price = '1e9999999'", "it has more than 10 digits"),
        ("price = '1e-9999999'", "it has more than 2 digits after the point"),
        ("price = 'NaN'", "it is not a number of digits"),
        ("price = 'ten'", "it is not a number"),
        ("id = 'Infinity'", "it is not a whole number"),
        ("hour = 1e9999999", "a time of day is expected"),
        ("at = 1e9999999", "a number is no moment"),
        ("day = 1e9999999", "write DATE"),
        ("id = 1e", "1e does not fit column id BIGINT .*it is not a number"),
        ("ratio = 1e99999999999999999999", "it is not a number"),
        ("at = INTERVAL '99999999999999' DAY", "is not understood"),
        ("fine < TIMESTAMP '9999-01-01 00:00:00'", "the column holds the years 1677 to 2262"),
        ("at = TIMESTAMP '99999-01-01 00:00:00'", "write TIMESTAMP"),
        ("moment = TIMESTAMP '0001-01-01 00:00:00+14:00'", "out of range"),
        ("day = DATE '99999-01-01'", "Invalid isoformat"),
    ],
)
def test_a_literal_beyond_its_column_is_refused_at_once(text: str, said: str) -> None:
    with pytest.raises(InvalidPredicate, match=f"(?s){said}"):
        parse_where(text, SCHEMA)


@pytest.mark.parametrize(
    ("column", "quote"),
    [
        *((column, "'") for column in ("id", "price", "fine", "day", "hour", "ok")),
        *((column, "") for column in ("fine", "day", "hour", "ok")),
    ],
)
def test_a_literal_of_very_many_digits_is_refused_in_few_words(column: str, quote: str) -> None:
    digits = "9" * 20_000
    with pytest.raises(InvalidPredicate, match="does not fit column") as refused:
        parse_where(f"{column} = {quote}{digits}{quote}", SCHEMA)
    assert len(str(refused.value)) < 600


BIG = 2**63
EXACT = [
    (
        "id",
        [-BIG, -1, 0, 1, 2, BIG - 1],
        ["1.5", "-0.5", str(BIG), f"-{BIG}.5", "1e30", "-1e9999999", "1e-9999999"],
    ),
    (
        "price",
        [Decimal(text) for text in ("-99999999.99", "-0.01", "0", "1", "1.01", "99999999.99")],
        ["1.005", "1.5", "-0.001", "1e8", "-99999999.995", "9e9999999", "1e-9999999"],
    ),
]


@pytest.mark.parametrize(("column", "values", "literals"), EXACT, ids=["BIGINT", "DECIMAL"])
@pytest.mark.parametrize(
    ("form", "holds"),
    [
        ("{c} = {x}", lambda v, x: v == x),
        ("NOT {c} = {x}", lambda v, x: v != x),
        ("{c} <> {x}", lambda v, x: v != x),
        ("{c} < {x}", lambda v, x: v < x),
        ("{x} >= {c}", lambda v, x: v <= x),
        ("{c} > {x}", lambda v, x: v > x),
        ("NOT {c} < {x}", lambda v, x: v >= x),
        ("{c} IN ({x})", lambda v, x: v == x),
        ("{c} IN ({x}, 1)", lambda v, x: v in (x, 1)),
        ("{c} NOT IN ({x}, 1)", lambda v, x: v not in (x, 1)),
        ("{c} NOT IN ({x})", lambda v, x: v != x),
        ("{c} BETWEEN {x} AND 1", lambda v, x: x <= v <= 1),
        ("{c} NOT BETWEEN 0 AND {x}", lambda v, x: not 0 <= v <= x),
    ],
)
def test_a_number_that_the_column_cannot_hold_is_compared_by_its_value(
    column: str,
    values: list[Any],
    literals: list[str],
    form: str,
    holds: Callable[[Any, Decimal], bool],
) -> None:
    rows = [dict.fromkeys(VALUES) | {column: value} for value in [*values, None]]
    for literal in literals:
        predicate = parse_where(form.format(c=column, x=literal), SCHEMA)
        kept = [at for at, value in enumerate(values) if holds(value, Decimal(literal))]
        assert evaluated(rows, predicate) == kept, literal
        assert [matches(predicate, row) for row in rows] == [
            *(at in kept for at in range(len(values))),
            None,
        ], literal


def test_a_negative_zero_is_the_zero_of_types_that_have_one() -> None:
    for column, zero in {"id": "0", "price": "0.00"}.items():
        (literal,) = leaf(parse_where(f"{column} = -0.0", SCHEMA)).literals
        assert str(literal) == zero
    assert leaf(parse_where("ratio = -0.0", SCHEMA)).keys == {comparison_key(0.0)}


def leaf(predicate: Predicate) -> Leaf:
    assert isinstance(predicate, Leaf)
    return predicate
