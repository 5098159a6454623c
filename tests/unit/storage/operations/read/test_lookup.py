"""Lookup: single keys are found, and little is opened for them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, InvalidRows, InvalidSchema
from lakewright.storage.operations.read.lookup import Lookup, lookup
from lakewright.storage.spec.data_types import DataField, parse_data_type
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import compact, comparable, events, new_table, rows


def many(catalog: Catalog, **options: str) -> Table:
    """Two partitions, eight buckets, five commits of 4,000 keys each that overlap by half."""
    settings = {"bucket": "8", "parquet.block.size": "16 kb", **options}
    table = new_table(catalog, partitions=["day"], keys=["day", "id"], options=settings)
    for number in range(5):
        first = number * 2_000
        table.write(rows(table, events(first, first + 4_000, v=f"{number}-")))
    table.write(rows(table, events(0, 500, day="b")))
    return table


def keys(*ids: int, day: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "day": [day] * len(ids)})


def look_up(table: Table, wanted: pa.Table, **more: Any) -> Lookup:
    return lookup(table.table_files, wanted, table.history.latest_snapshot(), **more)


@pytest.mark.mission("CN24")
def test_single_keys_are_found_by_opening_few_files_and_row_groups(catalog: Catalog) -> None:
    table = many(catalog)
    watching, fs = watched(table)
    found = lookup(watching.table_files, keys(2_500, 7_000), watching.history.latest_snapshot())
    assert sorted(found.rows.column("v").to_pylist()) == ["1-2500", "3-7000"]
    opened = [call for call in fs.calls if call.name == "open_input" and "bucket-" in call.path]
    # Each key lies in one bucket of eight, and in two commits of five.
    assert found.files_live == 48
    assert len(opened) == found.files_read <= 4
    compact(table, full=True)
    settled = look_up(table, keys(2_500, 7_000))
    assert comparable(settled.rows) == comparable(found.rows)
    assert settled.files_read == 2
    # A file of one bucket has more row groups than are read of it.
    assert settled.row_groups_read == 2 < settled.row_groups


@pytest.mark.mission("CN24")
def test_what_is_found_is_what_a_read_finds(catalog: Catalog) -> None:
    table = many(catalog)
    table.write(rows(table, events(10, 20), ["-D"] * 10))
    everything = {(row["day"], row["id"]): row for row in table.read().to_pylist()}
    wanted = [("a", number) for number in range(0, 13_000, 61)] + [("b", 5), ("b", 4_000), ("z", 1)]
    wanted += [("a", 15), ("a", 15)]
    asked = pa.table({"day": [day for day, _ in wanted], "id": [number for _, number in wanted]})
    expected = [everything[key] for key in dict.fromkeys(wanted) if key in everything]
    found = table.lookup(asked)
    by_key = {(row["day"], row["id"]): row for row in found.to_pylist()}
    assert len(by_key) == found.num_rows == len(expected) > 150
    assert all(by_key[row["day"], row["id"]] == row for row in expected)


def test_columns_are_chosen_and_earlier_states_too(catalog: Catalog) -> None:
    table = many(catalog)
    assert table.lookup(keys(100), columns=["v"]).to_pylist() == [{"v": "0-100"}]
    assert table.at(snapshot=1).lookup(keys(2_500), columns=["v"]).to_pylist() == [{"v": "0-2500"}]
    assert table.at(snapshot=1).lookup(keys(9_000)).num_rows == 0
    nothing = table.lookup(keys(10**9))
    assert nothing.schema.names == ["id", "day", "v"]
    assert nothing.num_rows == 0
    assert table.lookup(keys()).num_rows == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "partial-update"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"},
        {"sequence.field": "v"},
        {"bucket": "-1", "dynamic-bucket.target-row-num": "700"},
        {"file.format": "orc"},
        {"file.format": "avro"},
        {"deletion-vectors.enabled": "true"},
        {"merge-engine": "first-row"},
        {
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "listagg",
            "changelog-producer": "lookup",
        },
    ],
    ids=lambda options: "-".join(options.values()),
)
@pytest.mark.mission("CN24", "FS2")
def test_keys_are_found_whatever_the_table_makes_of_its_rows(
    catalog: Catalog, options: dict[str, str]
) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "4", **options})
    for number in range(3):
        table.write(rows(table, events(number * 500, number * 500 + 1_000, v=f"{9 - number}-")))
    wanted = pa.table({"id": list(range(0, 2_000, 7))})

    def expected() -> list[str]:
        read = table.read()
        ids = set(wanted.column("id").to_pylist())
        return comparable(
            read.filter(pa.array([i.as_py() in ids for i in read.column("id")], pa.bool_()))
        )

    assert comparable(table.lookup(wanted)) == expected()
    table.upkeep.run(table.upkeep.plan_compact(min_files=2))
    assert comparable(table.lookup(wanted)) == expected()
    compact(table, full=True)
    assert comparable(table.lookup(wanted)) == expected()
    assert table.lookup(wanted).num_rows == 286


def test_keys_of_a_dynamic_bucket_are_found_through_its_index(catalog: Catalog) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "100"}
    table = new_table(catalog, keys=["id"], options=options)
    table.write(rows(table, events(0, 1_000)))
    found = look_up(table, pa.table({"id": [123]}))
    assert found.rows.column("v").to_pylist() == ["v123"]
    assert (found.files_live, found.files_read) == (10, 1)


KEYS: dict[str, list[Any]] = {
    "BOOLEAN": [False, True],
    "TINYINT": [-1, 0, 5],
    "BIGINT": [-(2**62), 0, 2**62],
    "DOUBLE": [-1.5, -0.0, 0.0, float("inf"), float("nan")],
    "STRING": ["", "a", "b", "zebra", "é", "\U0001f600"],
    "BYTES": [b"", b"\x00", b"\xff\x01"],
    "DECIMAL(5, 2)": [Decimal("-1.50"), Decimal("0.00"), Decimal("999.99")],
    "DECIMAL(30, 5)": [Decimal("-1.50000"), Decimal("123456789012345678901234.00001")],
    "DATE": [dt.date(1969, 1, 1), dt.date(2024, 1, 2)],
    "TIMESTAMP(3)": [dt.datetime(1969, 1, 1), dt.datetime(2024, 1, 2, 3, 4, 5)],
    "TIMESTAMP(6)": [dt.datetime(1969, 1, 1), dt.datetime(2024, 1, 2, 3, 4, 5, 6)],
    "TIMESTAMP(9)": [dt.datetime(1969, 1, 1), dt.datetime(2024, 1, 2, 3, 4, 5, 6)],
    "TIME": [dt.time(0, 0, 1), dt.time(23, 59, 59)],
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("type_name", list(KEYS))
def test_keys_of_every_type_are_found(catalog: Catalog, type_name: str) -> None:
    values = KEYS[type_name]
    table = new_table(catalog, {"k": type_name, "v": "INT"}, keys=["k"], options={"bucket": "2"})
    for _ in range(2):
        table.write(rows(table, [{"k": value, "v": n} for n, value in enumerate(values)]))
    for settled in (False, True):
        if settled:
            compact(table, full=True)
        for number, value in enumerate(values):
            wanted = rows(table, [{"k": value}]).select(["k"])
            assert table.lookup(wanted).column("v").to_pylist() == [number], value


def test_keys_of_several_columns_are_found(catalog: Catalog) -> None:
    columns = {"a": "STRING", "b": "INT", "v": "INT"}
    table = new_table(catalog, columns, keys=["a", "b"], options={"bucket": "2", "bucket-key": "b"})
    table.write(rows(table, [{"a": a, "b": b, "v": b} for a in "xyz" for b in range(50)]))
    found = table.lookup(pa.table({"b": [7, 9, 99], "a": ["y", "q", "x"]}))
    assert found.to_pylist() == [{"a": "y", "b": 7, "v": 7}]


def test_columns_added_and_renamed_since_are_found_by_their_id(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "INT", "v": "STRING"}, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, [{"id": n, "v": str(n)} for n in range(5)]))
    renamed = tuple(
        replace(f, name={"id": "key", "v": "text"}[f.name]) for f in table.schema.fields
    )
    added = DataField(2, "more", parse_data_type("INT"))
    schema = replace(
        table.schema, id=1, fields=(*renamed, added), highest_field_id=2, primary_keys=("key",)
    )
    assert table.table_files.schemas.put_schema(schema)
    table = catalog.table(table.name)
    table.write(rows(table, [{"key": 9, "text": "nine", "more": 1}]))
    found = table.lookup(pa.table({"key": [3, 9]})).sort_by("key").to_pylist()
    assert found == [{"key": 3, "text": "3", "more": None}, {"key": 9, "text": "nine", "more": 1}]


def test_keys_that_cannot_be_are_refused(catalog: Catalog) -> None:
    table = many(catalog)
    for bad, words in (
        (pa.table({"id": [1]}), "lack column day"),
        (keys(1).append_column("v", pa.array(["x"])), "unknown column v"),
        (pa.table({"id": pa.array([None], pa.int64()), "day": ["a"]}), "id is NOT NULL"),
        (pa.table({"id": ["1"], "day": ["a"]}), "convert the text first"),
    ):
        with pytest.raises(InvalidRows, match=words):
            table.lookup(bad)
    with pytest.raises(InvalidSchema, match="no column 'nope'"):
        table.lookup(keys(1), columns=["nope"])
    append = new_table(catalog, name="db.append")
    with pytest.raises(InvalidRequestError, match="no primary key to look up"):
        append.lookup(pa.table({"id": [1]}))
    empty = new_table(catalog, name="db.empty", keys=["id"], options={"bucket": "1"})
    assert empty.lookup(pa.table({"id": [1]})).num_rows == 0


@pytest.mark.parametrize("format_name", ["parquet", "orc"])
@pytest.mark.parametrize(
    "columns",
    [{"a.b": "INT", "a": "ROW<b INT>"}, {"a": "ROW<b INT>", "a.b": "INT"}],
    ids=["before", "after"],
)
def test_a_key_with_a_dot_in_its_name_is_found_beside_a_member_of_that_path(
    catalog: Catalog, columns: dict[str, str], format_name: str
) -> None:
    options = {"bucket": "1", "file.format": format_name}
    table = new_table(catalog, columns, keys=["a.b"], options=options)
    given = [{"a.b": number, "a": {"b": -number}} for number in range(1, 9)]
    table.write(rows(table, given))
    found = look_up(table, pa.table({"a.b": pa.array([3, 7, 99], pa.int32())}))
    assert comparable(found.rows) == comparable(rows(table, [given[2], given[6]]))
    compact(table, full=True)
    assert comparable(table.read()) == comparable(rows(table, given))
