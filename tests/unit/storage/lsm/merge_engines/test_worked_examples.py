"""Merging by hand: the examples of Paimon's documentation and tests, and what does not fit."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewright.storage.errors import InvalidRows
from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.lsm.merge_engines import merge_function
from lakewright.storage.spec.merge_options import read_merge_spec
from lakewright.storage.spec.merge_spec import MergeSpec
from lakewright.storage.spec.rows import RowKind
from tests.support.models.merge_engines import Event
from tests.support.tables.key_rows import groups_of, schema_of

KINDS = {kind.short: kind for kind in RowKind}


def merged(
    columns: dict[str, str], options: dict[str, str], *rows: tuple[Any, ...]
) -> tuple[Any, ...]:
    """What the rows of one key become: its kind, then its columns; rows may begin with a kind."""
    schema = schema_of(columns, options)
    events = []
    for number, row in enumerate(rows):
        has_kind = isinstance(row[0], str) and row[0] in KINDS
        kind, values = (row[0], row[1:]) if has_kind else ("+I", row)
        events.append(Event(KINDS[kind], number, dict(zip(columns, values, strict=True))))
    spec = read_merge_spec(schema, table="shop.orders")
    result = merge_function(spec, schema.fields).merge(groups_of(schema, [events]))
    (found,) = result.to_pylist()
    return (RowKind(found["_VALUE_KIND"]).short, *(found[name] for name in columns))


def partial(*, groups: dict[str, str], **more: str) -> dict[str, str]:
    named = {f"fields.{fields}.sequence-group": members for fields, members in groups.items()}
    return {"merge-engine": "partial-update", **named, **more}


def aggregating(**functions: str) -> dict[str, str]:
    named = {f"fields.{name}.aggregate-function": each for name, each in functions.items()}
    return {"merge-engine": "aggregation", **named}


# --- partial update --------------------------------------------------------------------------


@pytest.mark.mission("FS2")
def test_partial_rows_fill_each_other() -> None:
    assert merged(
        {"price": "DOUBLE", "sales": "INT", "title": "STRING"},
        {"merge-engine": "partial-update"},
        (23.0, 10, None),
        (None, None, "This is a book"),
        (25.2, None, None),
    ) == ("+I", 25.2, 10, "This is a book")


SIX = dict.fromkeys(("a", "b", "g1", "c", "d", "g2"), "INT")
TWO_GROUPS = partial(groups={"g1": "a,b", "g2": "c,d"})


def test_a_group_changes_only_when_its_sequence_does_not_go_back() -> None:
    first, second, third = (1, 1, 1, 1, 1, 1), (2, 2, 2, 2, 2, None), (3, 3, 1, 3, 3, 3)
    assert merged(SIX, TWO_GROUPS, first, second) == ("+I", 2, 2, 2, 1, 1, 1)
    assert merged(SIX, TWO_GROUPS, first, second, third) == ("+I", 2, 2, 2, 3, 3, 3)


def test_a_deletion_empties_the_groups_that_accept_it() -> None:
    rows = [(2, 2, 2, 3, 3, 3), ("-D", 1, 1, 3, 1, 1, None)]
    assert merged(SIX, TWO_GROUPS, *rows) == ("+I", None, None, 3, 3, 3, 3)
    rows += [("-D", 1, 1, 3, 1, 1, 4)]
    assert merged(SIX, TWO_GROUPS, *rows) == ("+I", None, None, 3, None, None, 4)
    rows += [(4, 4, 4, 5, 5, 5)]
    assert merged(SIX, TWO_GROUPS, *rows) == ("+I", 4, 4, 4, 5, 5, 5)


def test_a_deletion_takes_the_record_away_by_the_group_that_may() -> None:
    options = {**TWO_GROUPS, "partial-update.remove-record-on-sequence-group": "g2"}
    rows = [(2, 2, 2, 3, 3, 3), ("-D", 1, 1, 3, 1, 1, None)]
    assert merged(SIX, options, *rows) == ("+I", None, None, 3, 3, 3, 3)
    rows += [("-D", 1, 1, 3, 1, 1, 4)]
    assert merged(SIX, options, *rows) == ("-D", 1, 1, 3, 1, 1, 4)
    rows += [(4, 4, 4, 5, 5, 5)]
    assert merged(SIX, options, *rows) == ("+I", 4, 4, 4, 5, 5, 5)


def test_sequences_of_several_columns_are_compared_from_the_left() -> None:
    columns = dict.fromkeys(("a", "b", "g1", "c", "d", "g2", "g3"), "INT")
    options = partial(groups={"g1": "a,b", "g2,g3": "c,d"})
    rows = [(1, 1, 1, 1, 1, 1, 1), (2, 2, 2, 2, 2, 1, None)]
    assert merged(columns, options, *rows) == ("+I", 2, 2, 2, 1, 1, 1, 1)
    rows += [(3, 3, 1, 3, 3, 3, 1)]
    assert merged(columns, options, *rows) == ("+I", 2, 2, 2, 3, 3, 3, 1)


def test_groups_may_aggregate() -> None:
    columns = dict.fromkeys(("a", "b", "c", "d"), "INT")
    options = partial(
        groups={"a": "b", "c": "d"},
        **{"fields.b.aggregate-function": "first_value", "fields.d.aggregate-function": "sum"},
    )
    rows = [(1, 1, None, None), (None, None, 1, 1), (2, 2, None, None), (None, None, 2, 2)]
    assert merged(columns, options, *rows) == ("+I", 2, 1, 2, 3)


def test_an_aggregated_column_takes_what_comes_late_into_account() -> None:
    columns = {"a": "INT", "b": "INT", "g1": "INT", "c": "STRING", "g2": "INT", "g3": "INT"}
    options = partial(groups={"g1,g3": "a", "g2": "c"}, **{"fields.a.aggregate-function": "sum"})
    rows = [(1, 1, 1, "1", 1, 1), (2, 2, 2, "2", None, 2)]
    assert merged(columns, options, *rows) == ("+I", 3, 2, 2, "1", 1, 2)
    rows += [(3, 3, 2, "3", 3, 1)]
    assert merged(columns, options, *rows) == ("+I", 6, 3, 2, "3", 3, 2)


def test_retractions_of_aggregated_groups_count_however_old_they_are() -> None:
    columns = {"g": "INT", "sum": "INT", "plain": "INT"}
    options = partial(groups={"g": "sum,plain"}, **{"fields.sum.aggregate-function": "sum"})
    rows = [(3, 3, 1), ("-U", 3, 2, 1)]
    assert merged(columns, options, *rows) == ("+I", 3, 1, None)
    assert merged(columns, options, *rows, ("-D", 2, 4, 1)) == ("+I", 3, -3, None)


def test_a_group_of_which_a_row_is_late_is_first_where_the_late_row_is() -> None:
    columns = {"g": "INT", "first": "INT", "last": "INT"}
    options = partial(
        groups={"g": "first,last"},
        **{
            "fields.first.aggregate-function": "first_value",
            "fields.last.aggregate-function": "last_value",
        },
    )
    assert merged(columns, options, (1, 1, 1), (2, 2, 2)) == ("+I", 2, 1, 2)
    assert merged(columns, options, (1, 1, 1), (2, 2, 2), (0, 3, 3)) == ("+I", 2, 3, 2)


def test_partial_updates_refuse_deletions_until_an_option_says_what_they_mean() -> None:
    columns, options = {"a": "INT", "b": "INT"}, {"merge-engine": "partial-update"}
    rows = [(1, 1), ("-D", 1, 1)]
    with pytest.raises(InvalidRows, match=r"shop\.orders.*1 of its rows.*ignore-delete=true"):
        merged(columns, options, *rows)
    assert merged(columns, {**options, "ignore-delete": "true"}, *rows) == ("+I", 1, 1)
    removing = {**options, "partial-update.remove-record-on-delete": "true"}
    assert merged(columns, removing, *rows) == ("-D", 1, 1)
    # What follows is laid over the values that were deleted.
    assert merged(columns, removing, *rows, (None, 2)) == ("+I", 1, 2)


def test_a_key_that_only_retractions_know_stays_deleted() -> None:
    assert merged(SIX, TWO_GROUPS, ("-U", 1, 1, 1, 1, 1, 1), ("-D", 1, 1, 2, 1, 1, None)) == (
        *("-D", None, None, 2),
        *(None, None, 1),
    )


# --- aggregation -----------------------------------------------------------------------------


@pytest.mark.mission("FS2")
def test_each_column_aggregates_by_its_function() -> None:
    assert merged(
        {"price": "DOUBLE", "sales": "BIGINT", "note": "STRING"},
        aggregating(price="max", sales="sum"),
        (23.0, 15, "first"),
        (30.2, 20, None),
    ) == ("+I", 30.2, 35, "first")


def test_sums_take_back_what_is_retracted() -> None:
    rows = [(5,), ("-U", 5), ("+U", 7), (None,)]
    assert merged({"v": "INT"}, aggregating(v="sum"), *rows) == ("+I", 7)
    # Everything taken back is a sum of nothing, and the record stays.
    assert merged({"v": "INT"}, aggregating(v="sum"), (5,), ("-D", 5)) == ("+I", 0)
    assert merged({"v": "INT"}, aggregating(v="sum"), ("-D", 5), ("-D", None)) == ("+I", -5)


@pytest.mark.parametrize("function", ["max", "min", "first_value", "first_non_null_value"])
def test_functions_that_cannot_take_back_say_so_and_name_the_way_out(function: str) -> None:
    with pytest.raises(
        InvalidRows, match=rf"'v' is aggregated with {function}.*fields\.v\.ignore-retract=true"
    ):
        merged({"v": "INT"}, aggregating(v=function), (5,), ("-D", 5))
    ignoring = {**aggregating(v=function), "fields.v.ignore-retract": "true"}
    assert merged({"v": "INT"}, ignoring, (5,), ("-D", 5)) == ("+I", 5)


def test_a_deletion_removes_the_aggregated_record_where_that_is_asked() -> None:
    options = {**aggregating(v="sum"), "aggregation.remove-record-on-delete": "true"}
    assert merged({"v": "INT"}, options, (5,), ("-D", 2)) == ("-D", 2)
    assert merged({"v": "INT"}, options, (5,), ("-D", 2), (4,)) == ("+I", 6)


INTEGERS = [("TINYINT", 7), ("SMALLINT", 15), ("INT", 31), ("BIGINT", 63)]


@pytest.mark.parametrize(
    ("kind", "largest"),
    [
        *((kind, 2**bits - 1) for kind, bits in INTEGERS),
        ("DECIMAL(3, 1)", Decimal("99.9")),
        ("DECIMAL(18, 0)", Decimal(10**18 - 1)),
    ],
)
def test_sums_that_do_not_fit_are_refused_not_wrapped(kind: str, largest: Any) -> None:
    columns, one = {"v": kind}, largest - largest + 1
    options = {**aggregating(v="sum"), "lakewright.overflow": "refuse"}
    with pytest.raises(InvalidRows, match=r"the sum of column 'v' over 2 rows.*wider type"):
        merged(columns, options, (largest,), (largest,))
    # Only the result must fit, not the way there.
    assert merged(columns, options, (largest,), (one,), ("-U", one)) == ("+I", largest)
    assert merged(columns, options, (-largest,), (largest,)) == ("+I", one - one)


@pytest.mark.parametrize(("kind", "bits"), INTEGERS)
def test_products_that_do_not_fit_are_refused_not_wrapped(kind: str, bits: int) -> None:
    columns, largest = {"v": kind}, 2**bits - 1
    options = {**aggregating(v="product"), "lakewright.overflow": "refuse"}
    with pytest.raises(InvalidRows, match=r"the product of column 'v' over 2 rows.*wider type"):
        merged(columns, options, (largest,), (largest,))
    assert merged(columns, options, (largest,), (1,), (-1,)) == ("+I", -largest)


def test_long_decimals_become_null_and_begin_anew_where_they_do_not_fit() -> None:
    columns, options = {"v": "DECIMAL(38, 0)"}, aggregating(v="sum")
    largest, one = Decimal(10**38 - 1), Decimal(1)
    assert merged(columns, options, (largest,), (one,)) == ("+I", None)
    assert merged(columns, options, (largest,), (one,), (one,)) == ("+I", one)
    assert merged(columns, options, (largest,), ("-U", one)) == ("+I", Decimal(10**38 - 2))


def test_products_take_back_by_dividing() -> None:
    assert merged({"v": "INT"}, aggregating(v="product"), (7,), ("-U", 2)) == ("+I", 3)
    assert merged({"v": "INT"}, aggregating(v="product"), (-7,), ("-U", 2)) == ("+I", -3)
    decimals = merged(
        {"v": "DECIMAL(4, 2)"}, aggregating(v="product"), (Decimal("1.05"),), (Decimal("0.50"),)
    )
    assert decimals == ("+I", Decimal("0.53"))
    with pytest.raises(InvalidRows, match="product of column 'v'"):
        merged({"v": "INT"}, aggregating(v="product"), (7,), ("-U", 0))


def test_floating_numbers_are_added_in_the_rows_order() -> None:
    numbers = [0.1, 1e16, -1e16, 0.3, 7.7, *[0.1] * 200]
    total = numbers[0]
    for number in numbers[1:]:
        total += number
    rows = [(number,) for number in numbers]
    assert merged({"v": "DOUBLE"}, aggregating(v="sum"), *rows) == ("+I", total)
    assert merged({"v": "DOUBLE"}, aggregating(v="sum"), *rows[:50]) != (
        "+I",
        math.fsum(numbers[:50]),
    )


def test_extremes_order_as_the_format_does() -> None:
    highest = merged({"v": "DOUBLE"}, aggregating(v="max"), (math.nan,), (math.inf,))
    assert math.isnan(highest[1])
    lowest = merged({"v": "FLOAT"}, aggregating(v="min"), (0.0,), (-0.0,))
    assert math.copysign(1, lowest[1]) == -1
    for kind, low, high in (
        ("STRING", "￿", "\U0001f600"),
        ("BYTES", b"a", b"\xff"),
        ("DATE", dt.date(1, 1, 1), dt.date(9999, 12, 31)),
        ("TIME(3)", dt.time(0), dt.time(23)),
        ("TIMESTAMP(6)", dt.datetime(1900, 1, 1), dt.datetime(2024, 1, 1)),
        ("BOOLEAN", False, True),
        ("DECIMAL(38, 1)", Decimal("-0.1"), Decimal("1e36")),
    ):
        rows = [(high,), (low,), (None,)]
        assert merged({"v": kind}, aggregating(v="max"), *rows) == ("+I", high), kind
        assert merged({"v": kind}, aggregating(v="min"), *rows) == ("+I", low), kind


def test_texts_are_joined_without_blank_ones() -> None:
    rows = [("a",), (" ",), ("b",), (None,), ("",), ("a",)]
    assert merged({"v": "STRING"}, aggregating(v="listagg"), *rows) == ("+I", "a,b,a")
    options = {
        **aggregating(v="listagg"),
        "fields.v.list-agg-delimiter": "; ",
        "fields.v.distinct": "true",
    }
    assert merged({"v": "STRING"}, options, ("a; b",), ("b; c",)) == ("+I", "a; b; c")
    # A no-break space is a character to the format.
    assert merged({"v": "STRING"}, aggregating(v="listagg"), ("a",), ("\u00a0",)) == (
        "+I",
        "a,\u00a0",
    )


@pytest.mark.mission("FS2")
def test_nested_rows_update_by_their_key() -> None:
    columns = {"orders": "ARRAY<ROW<id BIGINT, product STRING, at TIMESTAMP(9)>>"}
    options = {**aggregating(orders="nested_update"), "fields.orders.nested-key": "id"}
    found = merged(
        columns,
        options,
        ([{"id": 1, "product": "pen", "at": None}],),
        ([{"id": 2, "product": "ink", "at": None}],),
        ([{"id": 1, "product": "pencil", "at": None}],),
        ("-D", [{"id": 2, "product": "ink", "at": None}]),
    )
    assert found == ("+I", [{"id": 1, "product": "pencil", "at": None}])


def test_map_entries_keep_the_latest_by_their_times_as_texts() -> None:
    columns = {"m": "MAP<STRING, ROW<value STRING, ts STRING>>"}
    options = {**aggregating(m="merge_map_with_keytime"), "fields.m.ts-field": "ts"}

    def entries(**given: tuple[str, str]) -> list[tuple[str, dict[str, str]]]:
        return [(name, {"value": each[0], "ts": each[1]}) for name, each in given.items()]

    _, found = merged(
        columns,
        options,
        (entries(product_name=("iPhone", "100"), color=("Black", "100")),),
        (entries(product_name=("iPad", "200"), price=("999", "200")),),
        (entries(color=("White", "050")),),
    )
    assert dict(found) == {
        "product_name": {"value": "iPad", "ts": "200"},
        "color": {"value": "Black", "ts": "100"},
        "price": {"value": "999", "ts": "200"},
    }


def test_collected_elements_of_any_type_are_told_apart() -> None:
    for element, values in (
        ("ARRAY<INT>", [[1, 2], [1], [], [1, 2]]),
        ("MAP<STRING, INT>", [[("a", 1)], [("a", 2)], [], [("a", 1)]]),
        ("ROW<x INT, y BYTES>", [{"x": 1, "y": b"a"}, {"x": 1, "y": None}, None]),
        ("DOUBLE", [0.0, -0.0, 1.0, 1.0]),
        ("BYTES", [b"", b"a", b"a"]),
    ):
        options = {**aggregating(v="collect"), "fields.v.distinct": "true"}
        _, found = merged({"v": f"ARRAY<{element}>"}, options, (values,), (values,))
        distinct = [
            each for at, each in enumerate(values) if repr(each) not in map(repr, values[:at])
        ]
        assert repr(found) == repr(distinct), element


# --- all engines -----------------------------------------------------------------------------


def test_first_row_keeps_the_first_and_refuses_deletions() -> None:
    options = {"merge-engine": "first-row"}
    assert merged({"v": "INT"}, options, (1,), (2,)) == ("+I", 1)
    with pytest.raises(InvalidRows, match=r"first-row.*1 of its rows are deletions; set"):
        merged({"v": "INT"}, options, (1,), ("-D", 1))
    ignoring = {**options, "ignore-delete": "true"}
    assert merged({"v": "INT"}, ignoring, ("-D", 0), (1,), (2,)) == ("+I", 1)


@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "partial-update", "aggregation"])
def test_a_key_with_one_row_keeps_it_whatever_its_kind(engine: str) -> None:
    assert merged({"v": "INT"}, {"merge-engine": engine}, ("-D", 5)) == ("-D", 5)


@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "partial-update", "aggregation"])
def test_no_rows_become_no_rows(engine: str) -> None:
    schema = schema_of({"v": "INT"}, {"merge-engine": engine})
    none = groups_of(schema, [])
    empty = KeyGroups(none.rows, np.empty(0, dtype=np.int64))
    result = merge_function(read_merge_spec(schema), schema.fields).merge(empty)
    assert (result.num_rows, result.schema) == (0, none.rows.schema)


def test_columns_left_out_change_nothing_for_the_others() -> None:
    schema = schema_of({"a": "INT", "g": "INT", "b": "INT"}, partial(groups={"g": "a"}))
    spec = read_merge_spec(schema)
    events = [Event(RowKind.INSERT, n, {"a": n, "g": 5 - n, "b": n}) for n in range(3)]
    groups = groups_of(schema, [events])
    wanted = spec.with_needed(["a"])
    assert wanted == ("a", "g")
    narrow = KeyGroups(groups.rows.drop_columns(["b"]), groups.starts)
    fields = schema.fields_of(["k", *wanted])
    found = merge_function(spec, fields).merge(narrow)
    assert found.column("a").to_pylist() == [0]


def test_rows_in_several_chunks_merge_as_in_one() -> None:
    columns = {"s": "INT", "t": "STRING", "n": "ARRAY<INT>"}
    options = aggregating(s="sum", t="listagg", n="collect")
    schema = schema_of(columns, options)
    events = [Event(RowKind.INSERT, n, {"s": n, "t": str(n), "n": [n]}) for n in range(6)]
    groups = groups_of(schema, [events[:4], events[4:]])
    pieces = pa.concat_tables(
        [groups.rows.slice(0, 1), groups.rows.slice(1, 4), groups.rows.slice(5)]
    )
    function = merge_function(MergeSpec(), schema.fields)
    assert function.merge(KeyGroups(pieces, groups.starts)).num_rows == 2
    function = merge_function(read_merge_spec(schema), schema.fields)
    assert function.merge(KeyGroups(pieces, groups.starts)) == function.merge(groups)
