"""Merge options: read as values, or refused with the option, its value and what to do."""

from __future__ import annotations

import pytest

from lakewright.storage.errors import InvalidOption, UnsupportedError
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.merge_option_reader import is_merge_option
from lakewright.storage.spec.merge_options import read_merge_spec
from lakewright.storage.spec.merge_spec import (
    AggregateFunction,
    FieldAggregate,
    MergeEngine,
    MergeSpec,
    NestedKeyNulls,
    SequenceGroup,
)
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import Column, SchemaSpec, TableSchema, new_schema

COLUMNS = {
    "k": "INT NOT NULL",
    "a": "INT",
    "b": "STRING",
    "c": "BIGINT",
    "flag": "BOOLEAN",
    "short": "VARCHAR(8)",
    "list": "ARRAY<INT>",
    "map": "MAP<STRING, INT>",
    "rows": "ARRAY<ROW<id INT, v STRING, at INT>>",
    "timed": "MAP<STRING, ROW<v INT, ts STRING>>",
    "g": "INT",
    "h": "INT",
}


def schema(options: dict[str, str], *, keys: tuple[str, ...] = ("k",)) -> TableSchema:
    columns = tuple(Column(name, parse_data_type(text)) for name, text in COLUMNS.items())
    spec = SchemaSpec(columns=columns, primary_keys=keys, options=options)
    return new_schema(spec, time_millis=0)


def read(engine: str = "", /, **options: str) -> MergeSpec:
    """Options with `__` for dots and `_` for dashes."""
    named = {name.replace("__", ".").replace("_", "-"): each for name, each in options.items()}
    if engine:
        named["merge-engine"] = engine
    return read_merge_spec(schema(named), table="shop.orders")


def test_a_table_that_says_nothing_keeps_the_last_row_of_each_key() -> None:
    spec = read()
    assert spec == MergeSpec(table="shop.orders", primary_keys=("k",))
    assert spec.engine is MergeEngine.DEDUPLICATE
    assert not spec.dropped_kinds


def test_tables_without_a_primary_key_do_not_merge() -> None:
    options = {"merge-engine": "aggregation", "sequence.field": "nothing"}
    spec = read_merge_spec(schema(options, keys=()))
    assert (spec.engine, spec.sequence_fields) == (MergeEngine.DEDUPLICATE, ())


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_engines_are_read_in_any_case(engine: str) -> None:
    assert read(engine.upper()).engine is MergeEngine(engine)


def test_several_sequence_fields_order_rows_either_way() -> None:
    spec = read(sequence__field=" g , a", sequence__field__sort_order="DESCENDING")
    assert (spec.sequence_fields, spec.sequence_descending) == (("g", "a"), True)
    assert not read(sequence__field="g").sequence_descending
    assert spec.with_needed(["b", "a"]) == ("b", "a", "g")


@pytest.mark.parametrize(
    "option",
    [
        "ignore-delete",
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
    ],
)
def test_deletions_are_ignored_by_any_of_the_options_names(option: str) -> None:
    spec = read_merge_spec(schema({option: "true"}))
    assert spec.ignore_delete
    assert spec.dropped_kinds == {RowKind.DELETE, RowKind.UPDATE_BEFORE}
    # The name without an engine counts before the others.
    assert not read_merge_spec(schema({"ignore-delete": "false", option: "false"})).ignore_delete


def test_the_old_halves_of_updates_alone_may_be_ignored() -> None:
    assert read(ignore_update_before="true").dropped_kinds == {RowKind.UPDATE_BEFORE}


def test_the_kind_of_rows_may_be_a_column() -> None:
    assert read(rowkind__field="b").rowkind_field == "b"


def test_sequence_groups_know_their_columns() -> None:
    spec = read_merge_spec(
        schema(
            {
                "merge-engine": "partial-update",
                "fields.g.sequence-group": "a,b",
                "fields.h,c.sequence-group": "flag, h",
                "partial-update.remove-record-on-sequence-group": "c",
                "fields.a.aggregate-function": "sum",
                "fields.a.ignore-retract": "true",
                "fields.default-aggregate-function": "last_non_null_value",
            }
        )
    )
    assert spec.sequence_groups == (
        SequenceGroup(("g",), ("a", "b")),
        SequenceGroup(("h", "c"), ("flag",), removes_record=True),
    )
    newest = FieldAggregate(function=AggregateFunction.LAST_NON_NULL_VALUE)
    assert spec.aggregates == {
        "a": FieldAggregate(function=AggregateFunction.SUM, ignore_retract=True, wraps=True),
        "b": newest,
        "flag": newest,
    }
    # A group that removes records is needed whatever is read.
    assert spec.with_needed(["k", "b"]) == ("k", "b", "g", "h", "c")
    assert spec.with_needed(["short"]) == ("short", "h", "c")


def test_every_column_of_an_aggregation_has_a_function() -> None:
    options = {
        "merge-engine": "aggregation",
        "sequence.field": "g",
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "listagg",
        "fields.b.list-agg-delimiter": " ; ",
        "fields.b.distinct": "true",
        "fields.rows.aggregate-function": "nested_update",
        "fields.rows.nested-key": "id, at",
        "fields.rows.nested-key-null-strategy": "IGNORE",
        "fields.rows.nested-sequence-field": "at",
        "fields.rows.count-limit": "5",
        "fields.timed.aggregate-function": "merge_map_with_keytime",
        "fields.c.aggregate-function": "first_not_null_value",
    }
    aggregates = read_merge_spec(schema(options)).aggregates
    assert set(aggregates) == set(COLUMNS) - {"k"}
    assert aggregates["a"] == FieldAggregate(function=AggregateFunction.SUM, wraps=True)
    assert aggregates["b"] == FieldAggregate(
        function=AggregateFunction.LISTAGG, delimiter=" ; ", distinct=True
    )
    assert aggregates["rows"] == FieldAggregate(
        function=AggregateFunction.NESTED_UPDATE,
        nested_key=("id", "at"),
        nested_key_nulls=NestedKeyNulls.IGNORE,
        nested_sequence=("at",),
        count_limit=5,
    )
    assert aggregates["timed"].time_field == "ts"
    assert aggregates["c"].function is AggregateFunction.FIRST_NON_NULL_VALUE
    assert aggregates["g"].function is AggregateFunction.LAST_VALUE
    assert aggregates["flag"].function is AggregateFunction.LAST_NON_NULL_VALUE


PARTIAL = {"merge-engine": "partial-update"}
AGGREGATION = {"merge-engine": "aggregation"}
FIRST = {"merge-engine": "first-row"}
GROUPED = {**PARTIAL, "fields.g.sequence-group": "a,b"}
REMOVES = "partial-update.remove-record-on-delete"
REMOVES_ON_GROUP = "partial-update.remove-record-on-sequence-group"

CONTRADICTIONS: dict[str, tuple[dict[str, str], str]] = {
    "sequence field that is no column": ({"sequence.field": "z"}, r"sequence\.field=z names 'z'"),
    "sequence field twice": ({"sequence.field": "g,g"}, "'g' more than once"),
    "sequence field of a nested type": ({"sequence.field": "list"}, "take a primitive type"),
    "aggregated sequence field": (
        {**AGGREGATION, "sequence.field": "g", "fields.g.aggregate-function": "max"},
        r"leave out fields\.g\.aggregate-function",
    ),
    "first-row with a sequence field": ({**FIRST, "sequence.field": "g"}, "first-row"),
    "first-row with a full changelog": (
        {**FIRST, "changelog-producer": "full-compaction"},
        "changelog-producer=full-compaction.*use none or lookup",
    ),
    "first-row with deletion vectors": (
        {**FIRST, "deletion-vectors.enabled": "true"},
        "leave it out",
    ),
    "unknown order": ({"sequence.field.sort-order": "up"}, "ascending nor descending"),
    "unknown truth": ({"ignore-delete": "yes"}, "ignore-delete=yes is neither true nor false"),
    "row kinds in no column": ({"rowkind.field": "z"}, r"rowkind\.field=z names 'z'"),
    "row kinds as numbers": ({"rowkind.field": "a"}, "take a STRING"),
    "removing and ignoring deletions": (
        {**PARTIAL, REMOVES: "true", "ignore-delete": "true"},
        "contradicts ignore-delete=true",
    ),
    "removing records of groups": ({**GROUPED, REMOVES: "true"}, f"use {REMOVES_ON_GROUP}"),
    "removing by a group and ignoring": (
        {**GROUPED, REMOVES_ON_GROUP: "g", "partial-update.ignore-delete": "true"},
        "contradicts ignore-delete=true",
    ),
    "removing by what is no group": ({**GROUPED, REMOVES_ON_GROUP: "a"}, "there are g"),
    "ignored retractions and removed records": (
        {
            **AGGREGATION,
            "aggregation.remove-record-on-delete": "true",
            "fields.a.ignore-retract": "true",
        },
        r"fields\.a\.ignore-retract=true contradicts",
    ),
    "group of a column that is none": (
        {**PARTIAL, "fields.z.sequence-group": "a"},
        r"fields\.z\.sequence-group=a names 'z'",
    ),
    "group over a column that is none": ({**PARTIAL, "fields.g.sequence-group": "a,z"}, "'z'"),
    "group over the key": ({**PARTIAL, "fields.g.sequence-group": "k"}, "primary key"),
    "group by the key": ({**PARTIAL, "fields.k.sequence-group": "a"}, "primary key"),
    "column in two groups": (
        {**GROUPED, "fields.h.sequence-group": "b"},
        r"'b', which fields\.g\.sequence-group holds too",
    ),
    "sequence of two groups": ({**GROUPED, "fields.g,h.sequence-group": "c"}, "'g'"),
    "aggregate outside of groups": (
        {**GROUPED, "fields.c.aggregate-function": "sum"},
        "no sequence group protects.*add it to one",
    ),
    "default aggregate outside of groups": (
        {**GROUPED, "fields.default-aggregate-function": "last_value"},
        "default-aggregate-function=last_value aggregates 'c'",
    ),
    "aggregate of a column that is none": (
        {**AGGREGATION, "fields.z.aggregate-function": "sum"},
        "names 'z', which is not a column",
    ),
    "sum of texts": ({**AGGREGATION, "fields.b.aggregate-function": "sum"}, "takes numbers"),
    "greatest list": ({**AGGREGATION, "fields.list.aggregate-function": "max"}, "primitive"),
    "all of numbers": ({**AGGREGATION, "fields.a.aggregate-function": "bool_and"}, "BOOLEAN"),
    "list of short texts": (
        {**AGGREGATION, "fields.short.aggregate-function": "listagg"},
        r"takes STRING without a length, and column 'short' is VARCHAR\(8\)",
    ),
    "collected texts": ({**AGGREGATION, "fields.b.aggregate-function": "collect"}, "ARRAY"),
    "merged list": ({**AGGREGATION, "fields.list.aggregate-function": "merge_map"}, "MAP"),
    "nested update of numbers": (
        {**AGGREGATION, "fields.list.aggregate-function": "nested_update"},
        "ARRAY<ROW>",
    ),
    "timed map without rows": (
        {**AGGREGATION, "fields.map.aggregate-function": "merge_map_with_keytime"},
        "ROWs of two members",
    ),
    "time that is no text": (
        {
            **AGGREGATION,
            "fields.timed.aggregate-function": "merge_map_with_keytime",
            "fields.timed.ts-field": "v",
        },
        "compared as texts",
    ),
    "nested key that is no member": (
        {
            **AGGREGATION,
            "fields.rows.aggregate-function": "nested_update",
            "fields.rows.nested-key": "z",
        },
        "there are id, v, at",
    ),
    "nested nulls without a key": (
        {
            **AGGREGATION,
            "fields.rows.aggregate-function": "nested_update",
            "fields.rows.nested-key-null-strategy": "error",
        },
        r"needs fields\.rows\.nested-key",
    ),
    "partly updated rows without a key": (
        {**AGGREGATION, "fields.rows.aggregate-function": "nested_partial_update"},
        r"needs fields\.rows\.nested-key",
    ),
    "limit that is no number": (
        {
            **AGGREGATION,
            "fields.rows.aggregate-function": "nested_update",
            "fields.rows.count-limit": "many",
        },
        "count-limit=many is not a number",
    ),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_options_that_contradict_name_table_option_and_way_out(case: str) -> None:
    options, message = CONTRADICTIONS[case]
    with pytest.raises(InvalidOption, match=message) as caught:
        read_merge_spec(schema(options), table="shop.orders")
    assert caught.value.message.startswith("shop.orders: ")
    assert caught.value.details["option"] in caught.value.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge-engine": "newest"}, "merge-engine=newest.*implemented: deduplicate"),
        ({**AGGREGATION, "fields.a.aggregate-function": "median"}, "implemented: sum, product"),
        ({**AGGREGATION, "fields.a.aggregate-function": "rbm64"}, "only Java libraries"),
        ({**AGGREGATION, "fields.default-aggregate-function": "hll_sketch"}, "only Java libraries"),
    ],
)
def test_engines_and_functions_of_others_are_refused_by_name(
    options: dict[str, str], message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        read_merge_spec(schema(options), table="shop.orders")


def test_options_of_engines_that_are_not_chosen_do_not_count() -> None:
    spec = read(fields__g__sequence_group="a,b", fields__a__aggregate_function="rbm64")
    assert (spec.sequence_groups, spec.aggregates) == ((), {})


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("merge-engine", True),
        ("fields.default-aggregate-function", True),
        ("fields.a,b.sequence-group", True),
        ("fields.a.aggregate-function", True),
        ("fields.with.dots.nested-key", True),
        ("fields.a.stats-mode", False),
        ("bucket", False),
    ],
)
def test_merge_options_are_known_by_name(name: str, known: bool) -> None:
    assert is_merge_option(name) is known
