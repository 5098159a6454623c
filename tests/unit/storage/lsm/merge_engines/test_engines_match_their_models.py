"""The vectorised engines against plain-Python ones, over random rows, kinds and nulls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.storage.errors import InvalidRows
from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.lsm.merge_engines import SelectingMerge, merge_function
from lakewright.storage.spec.merge_options import read_merge_spec
from lakewright.storage.spec.merge_spec import MergeSpec
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import TableSchema
from tests.support.models.merge_engines import Event, Refused, merge_events
from tests.support.tables.key_rows import groups_of, schema_of

KINDS = list(RowKind)
# Tables of many columns try many things with each example.
BROAD = settings(max_examples=max(15, settings.default.max_examples // 4))
INSERTS = [RowKind.INSERT, RowKind.UPDATE_AFTER]


def merged(spec: MergeSpec, schema: TableSchema, groups: KeyGroups) -> pa.Table:
    function = merge_function(spec, schema.fields)
    result = function.merge(groups)
    assert result.schema == groups.rows.schema
    result.validate(full=True)
    if isinstance(function, SelectingMerge):
        kinds = groups.rows.column("_VALUE_KIND").to_numpy()
        assert result == groups.rows.take(pa.array(function.pick(kinds, groups.starts)))
    return result


def check(
    columns: dict[str, str], options: dict[str, str], keys: Sequence[Sequence[Event]]
) -> None:
    """Check that the engine and its model give the same rows."""
    schema = schema_of(columns, options)
    spec = read_merge_spec(schema, table="shop.orders")
    decimals = {
        each.name: (each.type.precision, each.type.scale)
        for each in schema.fields
        if str(each.type).startswith("DECIMAL")
    }
    groups = groups_of(schema, keys)
    try:
        expected = [
            (number, event)
            for number, each in enumerate(keys)
            if (event := merge_events(spec, each, decimals=decimals)) is not None
        ]
    except Refused:
        with pytest.raises(InvalidRows, match=r"shop\.orders"):
            merged(spec, schema, groups)
        return
    found = merged(spec, schema, groups).to_pylist()
    assert [shown(row, columns) for row in found] == [
        (number, int(event.kind), event.sequence, comparable(event.values, columns))
        for number, event in expected
    ]


def shown(row: dict[str, Any], columns: dict[str, str]) -> tuple[Any, ...]:
    assert row["k"] == row["_KEY_k"]
    values = {name: row[name] for name in columns}
    return (row["_KEY_k"], row["_VALUE_KIND"], row["_SEQUENCE_NUMBER"], comparable(values, columns))


def comparable(values: dict[str, Any], columns: dict[str, str]) -> dict[str, Any]:
    """Values with NaN and the signs of zeros told apart, maps without their order."""
    result = {}
    for name, value in values.items():
        if columns[name].startswith("MAP") and value is not None:
            result[name] = repr(_in_order(sorted(value, key=str)))
        else:
            result[name] = repr(_in_order(value))
    return result


def _in_order(value: Any) -> Any:
    """The same, members of nested rows by name."""
    if isinstance(value, dict):
        return sorted((name, _in_order(member)) for name, member in value.items())
    if isinstance(value, list | tuple):
        return [_in_order(each) for each in value]
    return value


def keys_of(
    columns: dict[str, st.SearchStrategy[Any]], kinds: Sequence[RowKind]
) -> st.SearchStrategy[list[list[Event]]]:
    """A few keys of a few rows each, nulls among the values."""
    values = st.fixed_dictionaries(
        {name: st.none() | strategy for name, strategy in columns.items()}
    )
    rows = st.lists(st.tuples(st.sampled_from(kinds), values), min_size=1, max_size=6)

    def numbered(keys: list[list[tuple[RowKind, dict[str, Any]]]]) -> list[list[Event]]:
        return [
            [Event(kind, 10 + 3 * index, row) for index, (kind, row) in enumerate(each)]
            for each in keys
        ]

    return st.lists(rows, min_size=1, max_size=6).map(numbered)


NUMBERS = st.integers(-3, 3)
TEXTS = st.sampled_from(["", " ", "a", "b", "ab", "a,b", "b,,a", "c"])
FLOATS = st.sampled_from([0.0, -0.0, 0.5, -1.5, 3.0, float("inf"), float("nan")])


# --- engines that keep a row -----------------------------------------------------------------


@given(keys=keys_of({"v": NUMBERS}, KINDS), ignore=st.booleans(), first=st.booleans())
def test_the_row_kept_is_the_models(keys: list[list[Event]], ignore: bool, first: bool) -> None:
    engine = "first-row" if first else "deduplicate"
    check({"v": "INT"}, {"merge-engine": engine, "ignore-delete": str(ignore).lower()}, keys)


# --- aggregation -----------------------------------------------------------------------------

Columns = dict[str, tuple[str, str, dict[str, str], st.SearchStrategy[Any]]]
# Columns with their type, function, other options and values.
AGGREGATED: Columns = {
    "sum": ("INT", "sum", {}, NUMBERS),
    "sum_decimal": ("DECIMAL(4, 1)", "sum", {}, st.decimals("-9", "9", places=1)),
    "sum_long_decimal": (
        "DECIMAL(38, 2)",
        "sum",
        {},
        st.sampled_from(
            [Decimal("0.01"), Decimal("9" * 36 + ".00"), Decimal("-" + "9" * 36 + ".99")]
        ),
    ),
    "sum_float": ("FLOAT", "sum", {}, st.sampled_from([0.5, -1.25, 1024.0])),
    "sum_double": ("DOUBLE", "sum", {}, st.sampled_from([0.1, 1e16, -1e16, 3.3])),
    "product": ("BIGINT", "product", {}, NUMBERS.filter(bool)),
    "product_double": ("DOUBLE", "product", {}, st.sampled_from([0.1, 3.0, -7.0])),
    "product_decimal": (
        "DECIMAL(5, 2)",
        "product",
        {"ignore-retract": "true"},
        st.sampled_from([Decimal("0.05"), Decimal("-1.10"), Decimal("99.00")]),
    ),
    "last": ("STRING", "last_value", {}, TEXTS),
    "last_non_null": ("STRING", "last_non_null_value", {}, TEXTS),
    "by_default": (
        "TIMESTAMP(3)",
        "",
        {},
        st.datetimes().map(lambda each: each.replace(microsecond=0, fold=0)),
    ),
    "collect": ("ARRAY<INT>", "collect", {}, st.lists(st.none() | NUMBERS, max_size=3)),
    "collect_distinct": (
        "ARRAY<STRING>",
        "collect",
        {"distinct": "true"},
        st.lists(st.none() | TEXTS, max_size=3),
    ),
}
UNRETRACTABLE: Columns = {
    "max": ("INT", "max", {}, NUMBERS),
    "min": ("INT", "min", {}, NUMBERS),
    "max_text": ("STRING", "max", {}, TEXTS),
    "min_decimal": ("DECIMAL(30, 1)", "min", {}, st.decimals("-9", "9", places=1)),
    "max_bytes": ("BYTES", "max", {}, st.binary(max_size=2)),
    "min_date": ("DATE", "min", {}, st.dates()),
    "first": ("INT", "first_value", {}, NUMBERS),
    "first_non_null": ("INT", "first_non_null_value", {}, NUMBERS),
    "all": ("BOOLEAN", "bool_and", {}, st.booleans()),
    "one": ("BOOLEAN", "bool_or", {}, st.booleans()),
    "list": ("STRING", "listagg", {}, TEXTS),
    "list_distinct": ("STRING", "listagg", {"distinct": "true"}, TEXTS),
    "list_delimited": ("STRING", "listagg", {"list-agg-delimiter": "; "}, TEXTS),
}
NESTED_ROW = "ROW<a INT, b INT, s INT>"
NESTED = st.lists(
    st.none()
    | st.fixed_dictionaries({name: st.none() | st.integers(0, 2) for name in ("a", "b", "s")}),
    max_size=3,
)
TIMES = st.sampled_from(["100", "2", "30"])
NESTING: Columns = {
    "map": (
        "MAP<STRING, INT>",
        "merge_map",
        {},
        st.dictionaries(TEXTS, st.none() | NUMBERS, max_size=3).map(lambda each: [*each.items()]),
    ),
    "appended": (f"ARRAY<{NESTED_ROW}>", "nested_update", {}, NESTED),
    "limited": (f"ARRAY<{NESTED_ROW}>", "nested_update", {"count-limit": "2"}, NESTED),
    "keyed": (f"ARRAY<{NESTED_ROW}>", "nested_update", {"nested-key": "a"}, NESTED),
    "keyed_twice": (
        f"ARRAY<{NESTED_ROW}>",
        "nested_update",
        {"nested-key": "a, b", "nested-key-null-strategy": "ignore", "count-limit": "3"},
        NESTED,
    ),
    "in_sequence": (
        f"ARRAY<{NESTED_ROW}>",
        "nested_update",
        {"nested-key": "a", "nested-sequence-field": "s"},
        NESTED,
    ),
}
NESTING_UNRETRACTABLE: Columns = {
    "timed": (
        "MAP<STRING, ROW<v INT, t STRING>>",
        "merge_map_with_keytime",
        {},
        st.dictionaries(
            st.sampled_from(["x", "y"]),
            st.none() | st.fixed_dictionaries({"v": NUMBERS, "t": st.none() | TIMES}),
        ).map(lambda each: [*each.items()]),
    ),
    "overlaid": (f"ARRAY<{NESTED_ROW}>", "nested_partial_update", {"nested-key": "a"}, NESTED),
}


def aggregated(
    columns: Columns,
) -> tuple[dict[str, str], dict[str, str], dict[str, st.SearchStrategy[Any]]]:
    types = {name: each[0] for name, each in columns.items()}
    options = {"merge-engine": "aggregation"}
    for name, (_, function, more, _) in columns.items():
        if function:
            options[f"fields.{name}.aggregate-function"] = function
        options |= {f"fields.{name}.{suffix}": value for suffix, value in more.items()}
    return types, options, {name: each[3] for name, each in columns.items()}


TABLES = {"values": {**AGGREGATED, **UNRETRACTABLE}, "nested": {**NESTING, **NESTING_UNRETRACTABLE}}


def compare(
    columns: Columns, kinds: Sequence[RowKind], more: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Try histories of these columns; of an option that is empty, none is set."""
    types, options, values = aggregated(columns)
    options = {name: value for name, value in {**options, **more}.items() if value}

    @BROAD
    @given(keys=keys_of(values, kinds))
    def compared(keys: list[list[Event]]) -> None:
        check(types, options, keys)

    compared()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("table", TABLES)
def test_columns_aggregate_as_the_models_do(table: str) -> None:
    compare(TABLES[table], INSERTS)


@pytest.mark.parametrize("table", [AGGREGATED, NESTING], ids=["values", "nested"])
def test_columns_take_values_back_as_the_models_do(table: Columns) -> None:
    compare(table, KINDS)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("table", TABLES)
def test_columns_that_ignore_retractions_are_the_models(table: str) -> None:
    ignoring = {f"fields.{name}.ignore-retract": "true" for name in TABLES[table]}
    compare(TABLES[table], KINDS, ignoring)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("table", TABLES)
def test_aggregated_records_are_removed_as_the_models_are(table: str) -> None:
    taking_back = {f"fields.{name}.ignore-retract": "" for name in TABLES[table]}
    removing = {"aggregation.remove-record-on-delete": "true", **taking_back}
    compare(TABLES[table], [*INSERTS, RowKind.DELETE], removing)


REFUSING: Columns = {
    **UNRETRACTABLE,
    **NESTING_UNRETRACTABLE,
    "divided": (
        "DECIMAL(5, 2)",
        "product",
        {},
        st.sampled_from([Decimal("0.00"), Decimal("0.50"), Decimal("-1.10"), Decimal("99.00")]),
    ),
    "divided_number": ("INT", "product", {}, NUMBERS),
    "keyless": (
        f"ARRAY<{NESTED_ROW}>",
        "nested_update",
        {"nested-key": "a", "nested-key-null-strategy": "error"},
        NESTED,
    ),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", REFUSING)
def test_what_the_model_refuses_is_refused(name: str) -> None:
    compare({name: REFUSING[name]}, KINDS)


@given(keys=keys_of({"s": NUMBERS, "v": NUMBERS}, KINDS))
def test_sequence_fields_take_the_last_rows_value(keys: list[list[Event]]) -> None:
    options = {"merge-engine": "aggregation", "sequence.field": "s"}
    check({"s": "INT", "v": "INT"}, {**options, "fields.default-aggregate-function": "sum"}, keys)


# --- partial update --------------------------------------------------------------------------

PLAIN = {"a": NUMBERS, "b": TEXTS}
PLAIN_TYPES = {"a": "INT", "b": "STRING"}


@given(
    keys=keys_of(PLAIN, KINDS),
    option=st.sampled_from(["", "ignore-delete", "partial-update.remove-record-on-delete"]),
)
def test_partial_updates_are_the_models(keys: list[list[Event]], option: str) -> None:
    options = {"merge-engine": "partial-update"} | ({option: "true"} if option else {})
    check(PLAIN_TYPES, options, keys)


GROUPED = {
    "a": NUMBERS,
    "g": st.integers(0, 3),
    "b": TEXTS,
    "c": NUMBERS,
    "h1": st.integers(0, 1),
    "d": TEXTS,
    "h2": st.integers(0, 2),
}
GROUPED_TYPES = {
    "a": "INT",
    "g": "INT",
    "b": "STRING",
    "c": "BIGINT",
    "h1": "INT",
    "d": "STRING",
    "h2": "TINYINT",
}
GROUPS = {
    "merge-engine": "partial-update",
    "fields.g.sequence-group": "b",
    "fields.h1,h2.sequence-group": "c,d",
}


@given(
    keys=keys_of(GROUPED, KINDS),
    option=st.sampled_from(
        [
            {},
            {"ignore-delete": "true"},
            {"partial-update.remove-record-on-sequence-group": "g"},
            {"partial-update.remove-record-on-sequence-group": "h2"},
            {"partial-update.remove-record-on-sequence-group": "g,h1"},
        ]
    ),
)
def test_sequence_groups_are_the_models(keys: list[list[Event]], option: dict[str, str]) -> None:
    check(GROUPED_TYPES, {**GROUPS, **option}, keys)


REMOVED_BY_G = {"partial-update.remove-record-on-sequence-group": "g"}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kinds", [INSERTS, KINDS], ids=["inserts", "all"])
@pytest.mark.parametrize("option", [{}, REMOVED_BY_G], ids=["kept", "removed"])
@pytest.mark.sampled(1)
def test_columns_of_groups_aggregate_as_the_models_do(
    table: str, kinds: list[RowKind], option: dict[str, str]
) -> None:
    types, options, values = aggregated(TABLES[table])
    options |= {
        f"fields.{name}.ignore-retract": "true"
        for name in types
        if kinds == KINDS and name in {**UNRETRACTABLE, **NESTING_UNRETRACTABLE}
    }
    options |= {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": ",".join(types),
        "fields.default-aggregate-function": "last_non_null_value",
        **option,
    }

    @BROAD
    @given(keys=keys_of({"g": st.integers(0, 2), **values}, kinds))
    def compared(keys: list[list[Event]]) -> None:
        check({"g": "INT", **types}, options, keys)

    compared()


@given(keys=keys_of({"g": st.integers(0, 2), "first": NUMBERS, "sum": NUMBERS}, KINDS))
def test_ignored_deletions_of_groups_are_the_models(keys: list[list[Event]]) -> None:
    options = {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "first,sum",
        "fields.first.aggregate-function": "first_non_null_value",
        "fields.sum.aggregate-function": "sum",
        "ignore-delete": "true",
    }
    check({"g": "INT", "first": "INT", "sum": "INT"}, options, keys)
