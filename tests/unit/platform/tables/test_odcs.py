"""Data contracts: what is exported differs in nothing, and what a contract says is compared."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lakewright.platform.tables.declared_changes import declared_changes
from lakewright.platform.tables.odcs import contract_of, is_contract, read_contract
from lakewright.storage import TableSchema
from lakewright.storage.errors import InvalidRequestError, UnsupportedError
from lakewright.storage.spec.data_types import DataField, DataType, RowType, parse_data_type
from lakewright.storage.spec.schema import Column, SchemaSpec, new_schema
from lakewright.storage.spec.schema_change_text import shown
from tests.support.values.strategies import data_types

TYPES = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT NOT NULL",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(12, 3)",
    "CHAR(4)",
    "VARCHAR(9)",
    "STRING",
    "BINARY(3)",
    "VARBINARY(5)",
    "BYTES",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(3)",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    "ARRAY<INT NOT NULL>",
    "ARRAY<ROW<a INT, b ARRAY<STRING>>> NOT NULL",
    "MAP<STRING, ARRAY<DOUBLE>>",
    "MULTISET<STRING>",
    "ROW<a INT NOT NULL, `b.c` ROW<d DATE>>",
]


def schema_of(*types: str | DataType, **given: Any) -> TableSchema:
    columns = [
        Column(f"c{at}", parse_data_type(each) if isinstance(each, str) else each, f"column {at}")
        for at, each in enumerate(types)
    ]
    return new_schema(SchemaSpec(columns=tuple(columns), **given), time_millis=0)


def through_yaml(schema: TableSchema) -> Any:
    return yaml.safe_load(yaml.safe_dump(contract_of("shop.orders", "u", schema)))


def changes(contract: Any, schema: TableSchema) -> list[str]:
    declaration = read_contract(contract, "shop.orders", schema).declaration
    found = declared_changes(declaration, schema)
    return [*map(shown, found.changes), *found.others]


@pytest.mark.parametrize("options", [{}, {"bucket": "4"}, {"bucket": "-1"}], ids=str)
def test_an_exported_table_differs_in_nothing_from_its_contract(options: dict[str, str]) -> None:
    schema = schema_of(
        *TYPES,
        "STRING NOT NULL",
        "BIGINT NOT NULL",
        "INT NOT NULL",
        partition_keys=("c24", "c23"),
        primary_keys=("c25", "c23", "c24"),
        comment="orders of the shop",
        options=options,
    )
    contract = through_yaml(schema)
    assert is_contract(contract)
    assert changes(contract, schema) == []
    assert read_contract(contract, "shop.orders", schema).notes == ()


@given(st.lists(data_types(nanoseconds=True), min_size=1, max_size=4))
def test_every_type_comes_back_from_a_contract(types: list[DataType]) -> None:
    schema = schema_of(*types)
    assert changes(through_yaml(schema), schema) == []
    read = read_contract(through_yaml(schema), "shop.orders", schema_of("INT")).declaration
    # Types come from the contract alone, not from the table.
    assert [each.type for each in read.columns] == [str(each) for each in types]


def contract(*properties: dict[str, Any], **others: Any) -> dict[str, Any]:
    table = {"name": "orders", "properties": list(properties)}
    return {"apiVersion": "v3.0.2", "kind": "DataContract", "schema": [table], **others}


def test_a_contract_that_differs_changes_the_table() -> None:
    schema = schema_of("INT", "STRING", "ROW<a INT, b INT>", "DOUBLE")
    wanted = contract(
        {"name": "c0", "physicalType": "bigint", "required": True},
        {
            "name": "city",
            "physicalType": "STRING",
            "customProperties": [
                {"property": "was", "value": "c1"},
                {"property": "default", "value": "Ulm"},
            ],
        },
        {
            "name": "c2",
            "logicalType": "object",
            "properties": [
                {"name": "a", "logicalType": "integer"},
                {"name": "z", "logicalType": "date"},
            ],
        },
        {"name": "tags", "logicalType": "array", "items": {"logicalType": "string"}},
    )
    assert sorted(changes(wanted, schema)) == sorted(
        [
            "drop column c2.b",
            "drop column c3",
            "rename column c1 to city",
            "change the type of column c0 to BIGINT",
            "refuse null in column c0",
            "default column city to 'Ulm'",
            "add column c2.z DATE",
            "add column tags ARRAY<STRING>",
        ]
    )


def test_a_logical_type_alone_fits_every_type_of_it() -> None:
    schema = schema_of("SMALLINT", "VARCHAR(3)", "DECIMAL(4, 1)", "TIMESTAMP(0)", "MAP<INT, INT>")
    logical = ["integer", "string", "number", "timestamp", "object"]
    wanted = contract(*({"name": f"c{at}", "logicalType": t} for at, t in enumerate(logical)))
    assert changes(wanted, schema) == []


def test_what_is_not_compared_is_told() -> None:
    wanted = contract(
        {"name": "c0", "logicalType": "integer", "physicalType": "NUMBER(38)", "quality": []},
        servers=[],
    )
    notes = read_contract(wanted, "shop.orders", schema_of("INT")).notes
    assert notes == (
        "servers is not compared (the contract)",
        "quality is not compared (schema[0].properties[0])",
        "schema[0].properties[0]: NUMBER(38) is no type of Paimon; its logicalType is compared",
    )


def test_what_is_told_of_members_is_not_compared_unless_the_table_has_it() -> None:
    described = RowType((DataField(0, "a", parse_data_type("INT"), "first"),))
    schema = schema_of(described, "ARRAY<INT>")
    assert read_contract(through_yaml(schema), "shop.orders", schema).notes == ()
    wanted = through_yaml(schema)
    row, array = wanted["schema"][0]["properties"]
    row["properties"][0] |= {"description": "other", "customProperties": [{"property": "default"}]}
    array["items"]["description"] = "each"
    array["customProperties"] = [{"property": "owner", "value": "ann"}]
    assert read_contract(wanted, "shop.orders", schema).notes == (
        (
            "description is not compared (schema[0].properties[0].properties[0], "
            "schema[0].properties[1].items)"
        ),
        "customProperties is not compared (schema[0].properties[0].properties[0])",
        "owner is not compared (schema[0].properties[1].customProperties)",
    )


@pytest.mark.parametrize(
    ("objects", "place"),
    [
        ([{"name": "orders", "physicalName": "old.orders"}, {"name": "orders"}], 1),
        ([{"name": "orders"}, {"name": "x", "physicalName": "shop.orders"}], 1),
        ([{"name": "lines"}, {"name": "x", "physicalName": "orders"}], 1),
        ([{"name": "shop.orders"}, {"name": "orders"}], 0),
    ],
)
def test_the_physical_name_and_the_whole_name_come_first(
    objects: list[dict[str, str]], place: int
) -> None:
    described = [
        {**each, "properties": [{"name": f"c{at}", "physicalType": "INT"}]}
        for at, each in enumerate(objects)
    ]
    read = read_contract(contract(schema=described), "shop.orders", schema_of("INT"))
    assert [each.name for each in read.declaration.columns] == [f"c{place}"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"schema": [{"name": "orders", "physicalName": "old.orders"}]},
            "the contract describes old.orders, and not shop.orders",
        ),
        ({"schema": [{"name": "orders"}] * 2}, "schema[0], schema[1] all describe orders"),
        ({"schema": [{"name": ["a"]}]}, "schema[0].name: ['a'] is not text"),
        ({"apiVersion": "v2.2.2"}, "contracts of version 3 can be read"),
        ({"kind": "Table"}, "a contract has kind: DataContract"),
        ({"schema": [{"name": "lines"}]}, "the contract describes lines, and not shop.orders"),
        ({"schema": "orders"}, "schema: 'orders' is not a list"),
        ({"schema": [{"name": "orders", "properties": []}]}, "schema[0] has no properties"),
        ({"schema": [{"name": "orders", "properties": [{}]}]}, "properties[0] has no name"),
    ],
)
def test_a_wrong_contract_is_refused_by_its_part(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_contract(contract(**wrong), "shop.orders", schema_of("INT"))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "properties[0] has no type"),
        ({"logicalType": "integers"}, "the standard has boolean, integer"),
        ({"logicalType": "array"}, "and no items; add them"),
        ({"logicalType": "date", "required": "so"}, "required: 'so' is neither true nor false"),
        ({"logicalType": 3}, "logicalType: 3 is not text"),
        ({"logicalType": "array", "items": []}, "items: [] is not a mapping"),
        (
            {"logicalType": "date", "primaryKey": True, "primaryKeyPosition": "a"},
            "primaryKeyPosition: 'a' is not a whole number",
        ),
    ],
)
def test_a_wrong_property_is_refused_by_its_part(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_contract(contract({"name": "new", **wrong}), "shop.orders", schema_of("INT"))
    assert message in str(refused.value)


def test_without_its_package_a_contract_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_data_contract_standard.model", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'lakewright\[contracts\]'"):
        contract_of("shop.orders", "u", schema_of("INT"))
