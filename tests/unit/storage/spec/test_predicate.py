"""Filters: three results for rows, two for bounds, and pruning never loses a matching row."""

from __future__ import annotations

import math
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakewright.storage.codec.arrow_values import keep_matching
from lakewright.storage.spec.predicate import (
    And,
    Bounds,
    Leaf,
    Not,
    Operator,
    Or,
    Predicate,
    columns_of,
    conjunction,
    conjuncts,
    matches,
    may_match,
    only_on,
)
from lakewright.storage.spec.schema import new_schema
from lakewright.storage.spec.values import order_key
from tests.support.tables.builders import spec

SCHEMA = new_schema(spec({"i": "INT", "s": "STRING", "d": "DOUBLE", "b": "BOOLEAN"}), time_millis=0)
ARROW = pa.schema([("i", pa.int32()), ("s", pa.string()), ("d", pa.float64()), ("b", pa.bool_())])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3),
    "s": st.text("ab\U0001f600", max_size=3),
    "d": st.sampled_from([-math.inf, -1.0, -0.0, 0.0, 1.5, math.inf, math.nan]),
    "b": st.booleans(),
}
COMPARISONS = [Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE]


@st.composite
def leaves(draw: st.DrawFn) -> Leaf:
    column = draw(st.sampled_from(sorted(VALUES)))
    literal = st.none() | VALUES[column]
    operator = draw(
        st.sampled_from([*COMPARISONS, Operator.IN, Operator.IS_NULL, Operator.IS_NOT_NULL])
    )
    if operator is Operator.IN:
        return Leaf(column, operator, tuple(draw(st.lists(literal, min_size=1, max_size=3))))
    if operator in (Operator.IS_NULL, Operator.IS_NOT_NULL):
        return Leaf(column, operator)
    if column == "s" and draw(st.booleans()):
        return Leaf(column, Operator.STARTS_WITH, (draw(VALUES["s"]),))
    return Leaf(column, operator, (draw(literal),))


def predicates() -> st.SearchStrategy[Predicate]:
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
            inner.map(Not),
        ),
        max_leaves=4,
    )


ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | each for name, each in VALUES.items()}),
    min_size=1,
    max_size=6,
)


def bounds_of(rows: list[dict[str, Any]]) -> dict[str, Bounds]:
    found = {}
    for name in VALUES:
        known = [row[name] for row in rows if row[name] is not None]
        nan = any(isinstance(value, float) and math.isnan(value) for value in known)
        usable = known and not nan
        found[name] = Bounds(
            min(known, key=order_key) if usable else None,
            max(known, key=order_key) if usable else None,
            len(rows) - len(known),
            len(rows),
        )
    return found


NO_NUMBER: dict[str, Any] = {"i": None, "s": None, "d": None, "b": None}


@example(Not(Leaf("d", Operator.LE, (math.nan,))), [NO_NUMBER])
@example(Not(Leaf("d", Operator.EQ, (math.nan,))), [NO_NUMBER, {**NO_NUMBER, "d": math.nan}])
@example(Leaf("s", Operator.STARTS_WITH, (None,)), [{**NO_NUMBER, "s": "a"}])
@given(predicates(), ROWS)
def test_rows_one_by_one_and_rows_in_arrow_are_kept_alike(
    predicate: Predicate, rows: list[dict[str, Any]]
) -> None:
    table = pa.Table.from_pylist(
        [{**row, "n": number} for number, row in enumerate(rows)],
        pa.schema([*ARROW, ("n", pa.int32())]),
    )
    kept = keep_matching(table, predicate, SCHEMA).column("n").to_pylist()
    assert kept == [n for n, row in enumerate(rows) if matches(predicate, row) is True]


@given(predicates(), ROWS)
@pytest.mark.mission("PT8", "FS19", "SE37")
def test_bounds_never_rule_out_a_row_that_is_kept(
    predicate: Predicate, rows: list[dict[str, Any]]
) -> None:
    if any(matches(predicate, row) is True for row in rows):
        assert may_match(predicate, bounds_of(rows))
        # Bounds may also be unknown, or wider than they need be.
        assert may_match(predicate, {})
        assert may_match(predicate, {name: Bounds(None, None, None) for name in VALUES})
        wider = bounds_of([*rows, {"i": -9, "s": "", "d": -math.inf, "b": False}])
        assert may_match(predicate, wider)


def test_bounds_rule_out_what_lies_beyond_them() -> None:
    known = {"i": Bounds(5, 9, 0, 3), "s": Bounds("b", "d", 1, 3)}
    out: list[Predicate] = [
        Leaf("i", Operator.EQ, (4,)),
        Leaf("i", Operator.IN, (4, 10)),
        Leaf("i", Operator.LT, (5,)),
        Leaf("i", Operator.GT, (9,)),
        Leaf("i", Operator.IS_NULL),
        Leaf("s", Operator.STARTS_WITH, ("a",)),
        Leaf("s", Operator.STARTS_WITH, ("e",)),
        Leaf("s", Operator.EQ, (None,)),
        Not(Leaf("i", Operator.GE, (5,))),
        And((Leaf("i", Operator.EQ, (6,)), Leaf("s", Operator.EQ, ("z",)))),
        Or((Leaf("i", Operator.EQ, (1,)), Leaf("s", Operator.EQ, ("z",)))),
    ]
    assert [each for each in out if may_match(each, known)] == []
    stay: list[Predicate] = [
        Leaf("i", Operator.EQ, (5,)),
        Leaf("i", Operator.IN, (4, 9)),
        Leaf("s", Operator.STARTS_WITH, ("c",)),
        Leaf("s", Operator.IS_NULL),
        Not(Leaf("i", Operator.EQ, (5,))),
        Or((Leaf("i", Operator.EQ, (1,)), Leaf("s", Operator.EQ, ("c",)))),
    ]
    assert [each for each in stay if not may_match(each, known)] == []
    same = {"i": Bounds(5, 5, 0, 3)}
    assert not may_match(Leaf("i", Operator.NE, (5,)), same)
    assert not may_match(Leaf("i", Operator.IS_NOT_NULL), {"i": Bounds(None, None, 3, 3)})


def test_conjuncts_are_taken_apart_and_put_together() -> None:
    a, b, c = (Leaf(name, Operator.IS_NULL) for name in "abc")
    whole = And((a, And((b, Or((a, c))))))
    assert conjuncts(whole) == (a, b, Or((a, c)))
    assert conjunction(conjuncts(whole)) == And((a, b, Or((a, c))))
    assert conjunction(()) is None
    assert only_on(whole, frozenset("ab")) == And((a, b))
    assert only_on(whole, frozenset("x")) is None
    assert columns_of(Not(whole)) == frozenset("abc")


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "STRING"])
def test_a_hundred_thousand_literals_are_looked_up_at_once(kind: str) -> None:
    """Compared one by one they would take minutes."""
    schema = new_schema(spec({"x": kind}), time_millis=0)
    as_stored = {"BIGINT": int, "DOUBLE": float, "STRING": str}[kind]
    held = pa.array([as_stored(number) for number in range(300_000)])
    leaf = Leaf("x", Operator.IN, tuple(as_stored(number) for number in range(0, 1_000_000, 10)))
    started = time.process_time()
    assert keep_matching(pa.table({"x": held}), leaf, schema).num_rows == 30_000
    between = [Bounds(as_stored(n * 10 + 1), as_stored(n * 10 + 1), 0, 1) for n in range(1_000)]
    assert not any(may_match(leaf, {"x": bounds}) for bounds in between)
    assert sum(matches(leaf, {"x": as_stored(number)}) is True for number in range(1_000)) == 100
    assert time.process_time() - started < 20


def test_a_list_of_literals_may_hold_null_both_zeros_and_nan() -> None:
    schema = new_schema(spec({"x": "DOUBLE"}), time_millis=0)
    rows = pa.table({"x": [0.0, -0.0, math.nan, 1.0, None]})

    def kept(predicate: Any) -> list[str]:
        return [repr(each) for each in keep_matching(rows, predicate, schema)["x"].to_pylist()]

    assert kept(Leaf("x", Operator.IN, (-0.0, 7.0))) == ["0.0", "-0.0"]
    assert kept(Leaf("x", Operator.IN, (math.nan, 7.0))) == ["nan"]
    assert kept(Not(Leaf("x", Operator.IN, (0.0, math.nan)))) == ["1.0"]
    assert kept(Leaf("x", Operator.IN, (1.0, None))) == ["1.0"]
    assert kept(Not(Leaf("x", Operator.IN, (1.0, None)))) == []
    assert kept(Leaf("x", Operator.IN, (None,))) == []
