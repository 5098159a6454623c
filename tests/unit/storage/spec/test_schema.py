"""Schemas: ids, keys, and declarations that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage.errors import InvalidRequestError, InvalidSchema
from lakewright.storage.spec.data_types import nested_fields
from lakewright.storage.spec.schema import new_schema
from tests.support.tables.builders import spec

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no column": ({"columns": {}}, "at least one column"),
    "empty name": ({"columns": {" ": "INT"}}, "empty name"),
    "newline": ({"columns": {"a\nb": "INT"}}, r"'a\\nb' has the control character '\\n' at 2"),
    "NUL": ({"columns": {"\0": "INT"}}, "the control character"),
    "surrogate": ({"columns": {"a\ud800": "INT"}}, "the control character"),
    "line separator": ({"columns": {"a\u2028b": "INT"}}, "the control character"),
    "empty member": ({"columns": {"r": "ROW<` ` INT>"}}, "empty name"),
    "newline in a member": ({"columns": {"r": "ARRAY<ROW<`a\n` INT>>"}}, "control character"),
    "long partition key": (
        {"columns": {"ä" * 120: "INT", "a": "INT"}, "partitions": ["ä" * 120]},
        "takes 240 bytes in the name of a folder, which has room for 233",
    ),
    "reserved": ({"columns": {"_SEQUENCE_NUMBER": "INT"}}, "is reserved"),
    "key prefix": ({"columns": {"_KEY_a": "INT"}}, "is reserved"),
    "row kind": ({"columns": {"_rowkind": "INT"}}, "is reserved"),
    "doubled member": ({"columns": {"r": "ROW<a INT, a INT>"}}, "member 'a' more than once"),
    "doubled deeper": (
        {"columns": {"r": "ARRAY<ROW<x ROW<a INT, a INT>>>"}},
        "member 'a' more than once",
    ),
    "no such key": ({"columns": {"a": "INT"}, "keys": ["b"]}, "primary key 'b' is not a column"),
    "no such partition": (
        {"columns": {"a": "INT"}, "partitions": ["b"]},
        "partition key 'b' is not a column",
    ),
    "nested key": (
        {"columns": {"a": "ARRAY<INT>", "b": "INT"}, "keys": ["a"]},
        "must be of primitive types",
    ),
    "nested partition": (
        {"columns": {"a": "ROW<x INT>", "b": "INT"}, "partitions": ["a"]},
        "must be of primitive types",
    ),
    "partition of bytes": (
        {"columns": {"a": "BYTES", "b": "INT"}, "partitions": ["a"]},
        "use a text column",
    ),
    "key twice": ({"columns": {"a": "INT"}, "keys": ["a", "a"]}, "primary keys repeat"),
    "partition twice": (
        {"columns": {"a": "INT", "b": "INT"}, "partitions": ["a", "a"]},
        "partition keys repeat",
    ),
    "partition outside of the key": (
        {"columns": {"a": "INT", "b": "INT"}, "keys": ["a"], "partitions": ["b"]},
        "partition key 'b' is not in the primary key",
    ),
    "nothing but partitions in the key": (
        {"columns": {"a": "INT", "b": "INT"}, "keys": ["a"], "partitions": ["a"]},
        "distinguishes rows",
    ),
    "nothing but partitions": (
        {"columns": {"a": "INT"}, "partitions": ["a"]},
        "every column is a partition key",
    ),
}


@pytest.mark.parametrize("case", list(WRONG))
@pytest.mark.mission("BK11")
def test_a_schema_that_cannot_be_is_refused_with_the_reason(case: str) -> None:
    given, words = WRONG[case]
    with pytest.raises(InvalidSchema, match=words) as caught:
        new_schema(spec(**given), time_millis=0)
    assert isinstance(caught.value, InvalidRequestError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.mission("SE21", "SE22", "SE33")
def test_every_column_and_member_has_an_id_of_its_own_in_order() -> None:
    columns = {"a": "ROW<x INT, y ARRAY<ROW<z INT>>>", "b": "INT", "c": "MAP<INT, ROW<v INT>>"}
    schema = new_schema(spec(columns), time_millis=7)
    assert [field.id for field in schema.fields] == [0, 4, 5]
    members = [each.id for field in schema.fields for each in nested_fields(field.type)]
    assert sorted(members) == [1, 2, 3, 6]
    assert schema.highest_field_id == 6
    assert (schema.id, schema.time_millis) == (0, 7)


def test_key_columns_become_required_and_the_key_is_trimmed_of_partitions() -> None:
    columns = {"day": "DATE", "v": "INT", "id": "INT", "n": "STRING"}
    schema = new_schema(spec(columns, keys=["id", "day", "n"], partitions=["day"]), time_millis=0)
    assert [str(field.type) for field in schema.fields] == [
        "DATE NOT NULL",
        "INT",
        "INT NOT NULL",
        "STRING NOT NULL",
    ]
    assert schema.trimmed_primary_keys == ("id", "n")
    assert [field.name for field in schema.partition_fields] == ["day"]


def test_an_unknown_column_is_told_with_those_there_are() -> None:
    schema = new_schema(spec({"a": "INT", "b": "INT"}), time_millis=0)
    with pytest.raises(InvalidSchema, match="no column 'c'; there are a, b"):
        schema.field("c")
