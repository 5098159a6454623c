"""Columns that came later: older files that lack them, and sources that bring new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.platform.ingest.replay_rejects import replay_rejects
from lakewright.platform.ledger.action import Action
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.tables.declaration_checks import SCHEMA_MATCHES
from lakewright.session import Session
from tests.pipelines.lake import EVENTS, Lake

ORDERS = """
    table: shop.orders
    columns:
      - {name: day, type: STRING NOT NULL}
      - {name: id, type: BIGINT NOT NULL}
      MORE
    partition_keys: [day]
    source: SOURCE
    write: {engine: local}
    EVOLVE
"""
CITY = "- {name: city, type: STRING}"


def declare(lake: Lake, more: str = "", *, source: str = "", evolve: str = "") -> None:
    text = source or "csv: 'FOLDER/in/day={day}/*.csv'"
    text = "{" + text.replace("FOLDER", str(lake.folder)) + "}"
    lake.declare(ORDERS.replace("MORE", more).replace("SOURCE", text).replace("EVOLVE", evolve))


def put(lake: Lake, day: int, text: str, suffix: str = "csv") -> Path:
    folder = lake.folder / "in" / f"day=2024-01-0{day}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"a.{suffix}"
    path.write_text(text)
    return path


def orders(lake: Lake) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k != "day"} for row in lake.rows("shop.orders")]


def test_an_older_file_without_a_declared_column_is_null_there_or_has_its_default(
    lake: Lake,
) -> None:
    more = f"{CITY}\n      - {{name: n, type: INT, default: 7}}"
    more += '\n      - {name: k, type: "INT NOT NULL", default: 8}'
    declare(lake, more)
    put(lake, 1, "id\n1\n")
    put(lake, 2, "city,k,id,n\nBonn,1,2,3\n")

    lake.materialize("shop.orders")

    assert orders(lake) == [
        {"id": 1, "city": None, "n": 7, "k": 8},
        {"id": 2, "city": "Bonn", "n": 3, "k": 1},
    ]


def test_a_run_warns_of_a_column_that_its_source_lacks_and_of_the_rows(lake: Lake) -> None:
    declare(lake, CITY, source="csv: 'FOLDER/in/day={day}/*.csv'")
    put(lake, 1, "id\n1\n2\n")
    put(lake, 2, "city,id\nBonn,2\n")

    outcome = lake.materialize("shop.orders")

    path = lake.folder / "in" / "day=2024-01-01" / "a.csv"
    told = f"column city is missing in {path}: null, or its default, in 2 rows"
    (metadata,) = (each for key, each in outcome.materializations.items() if key is None)
    assert metadata["missing_columns"] == told
    assert any(
        told in event.message and "`missing_columns: refuse`" in event.message
        for event in lake.instance.all_logs(outcome.run_id)
    )


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_other_formats_follow_the_same_rule(lake: Lake, kind: str) -> None:
    more = f'{CITY}\n      - {{name: k, type: "INT NOT NULL", default: 8}}'
    declare(lake, more, source=f"{kind}: 'FOLDER/in/day={{day}}/*.{kind}'")
    if kind == "json":
        put(lake, 1, '{"id": 1}\n', kind)
        put(lake, 2, '{"id": 2, "city": "Bonn", "k": 1}\n{"id": 3, "city": null}\n', kind)
    else:
        pq.write_table(pa.table({"id": [1]}), put(lake, 1, "", kind))
        rows = [{"id": 2, "city": "Bonn", "k": 1}, {"id": 3, "city": None, "k": 8}]
        pq.write_table(pa.Table.from_pylist(rows), put(lake, 2, "", kind))

    lake.materialize("shop.orders")

    assert orders(lake) == [
        {"id": 1, "city": None, "k": 8},
        {"id": 2, "city": "Bonn", "k": 1},
        {"id": 3, "city": None, "k": 8},
    ]


def test_a_function_may_leave_out_nullable_columns_and_no_others(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give([{"dt": "2024-01-01", "id": 1}])
    lake.materialize(partitions="2024-01-01", fails=None)
    lake.give([{"dt": "2024-01-02", "amount": 1.0}])

    refused = lake.materialize(partitions="2024-01-02", fails=True)

    assert [row["amount"] for row in lake.rows()] == [None]
    assert "rows that lack column id (NOT NULL without a default)" in refused.failure


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_missing_columns_are_refused_where_that_is_declared(lake: Lake, kind: str) -> None:
    source = f"{kind}: 'FOLDER/in/day={{day}}/*.{kind}', missing_columns: refuse"
    declare(lake, CITY, source=source)
    put(lake, 1, "id\n1\n" if kind == "csv" else '{"id": 1}\n', kind)

    refused = lake.materialize("shop.orders", fails=True)

    assert "city" in refused.failure
    assert "`missing_columns: refuse` is declared" in refused.failure


def test_a_partition_whose_file_cannot_be_read_does_not_fail_the_others(lake: Lake) -> None:
    declare(lake, '- {name: city, type: "STRING NOT NULL"}')
    put(lake, 1, "id,city\n1,Bonn\n")
    lake.materialize("shop.orders")
    put(lake, 1, "id\n1\n")
    put(lake, 2, "id,city\n2,Ulm\n")

    outcome = lake.materialize("shop.orders", fails=True)

    assert orders(lake) == [{"id": 1, "city": "Bonn"}, {"id": 2, "city": "Ulm"}]
    assert "rejected 1 partition of shop.orders" in outcome.failure
    assert "day=2024-01-01 (source: " in outcome.failure
    assert "lacks column city (NOT NULL without a default)" in outcome.failure
    assert list(outcome.materializations) == ["2024-01-02"]


def test_a_broken_partition_is_not_emptied_where_missing_rows_are_allowed(lake: Lake) -> None:
    days = "partitions: {daily: {column: day, start: 2024-01-01, end: 2024-02-01}}"
    declare(
        lake,
        '- {name: city, type: "STRING NOT NULL"}',
        source="csv: 'FOLDER/in/day={day}/*.csv', allow_empty: true",
        evolve=days,
    )
    asked = ("2024-01-01", "2024-01-02")
    put(lake, 1, "id,city\n1,Bonn\n")
    put(lake, 2, "id,city\n2,Ulm\n")
    lake.materialize("shop.orders", partitions=asked)
    # Rows of the first file are staged before its second breaks it.
    put(lake, 1, "id,city\n1,Bonn\n3,Rom\n").with_name("b.csv").write_text("id\n4\n")
    put(lake, 2, "id,city\n5,Ulm\n")

    outcome = lake.materialize("shop.orders", partitions=asked, fails=True)

    assert orders(lake) == [{"id": 1, "city": "Bonn"}, {"id": 5, "city": "Ulm"}]
    assert list(outcome.materializations) == ["2024-01-02"]
    put(lake, 2, "id\n5\n")
    outcome = lake.materialize("shop.orders", partitions=asked, fails=True)
    assert "lacks column city" in outcome.failure
    assert orders(lake) == [{"id": 1, "city": "Bonn"}, {"id": 5, "city": "Ulm"}]


def test_rejects_from_before_a_column_are_replayed(lake: Lake) -> None:
    source = "csv: 'FOLDER/in/day={day}/*.csv', on_bad_row: quarantine"
    declare(lake, "- {name: n, type: INT}", source=source)
    put(lake, 1, "id,n\n1,3000000000\n2,2\n")
    lake.materialize("shop.orders")
    declare(lake, f"- {{name: n, type: BIGINT}}\n      {CITY}", source=source)
    lake.run("evolve_schema", "shop.orders")

    found = replay_rejects(lake.catalog, "shop.orders", tables=[lake.folder / "tables"])

    assert found.appended == 1
    assert orders(lake) == [
        {"id": 1, "n": 3_000_000_000, "city": None},
        {"id": 2, "n": 2, "city": None},
    ]


def test_an_unknown_column_is_to_be_declared_first(lake: Lake) -> None:
    declare(lake)
    put(lake, 1, "id,city\n1,Bonn\n")

    refused = lake.materialize("shop.orders", fails=True)

    said = "unknown column city; declare it in `columns` and run `lakewright evolve-schema`"
    assert said in refused.failure


def evolutions(lake: Lake) -> list[Action]:
    return [each for each in Ledger(lake.catalog).actions() if each.verb == "evolve_schema"]


def test_columns_that_files_bring_are_added_recorded_and_written_where_a_table_grows(
    lake: Lake,
) -> None:
    declare(lake, evolve="schema: {evolve: additive}")
    put(lake, 1, "id\n1\n")
    lake.materialize("shop.orders")
    put(lake, 2, "id,city,n\n2,Bonn,7\n")

    outcome = lake.materialize("shop.orders")

    assert orders(lake) == [
        {"id": 1, "city": None, "n": None},
        {"id": 2, "city": "Bonn", "n": 7},
    ]
    (action,) = evolutions(lake)
    assert "the source has new columns: city, n" in action.reason
    said = outcome.checks[SCHEMA_MATCHES]
    assert not said.passed
    assert said.severity.value == "WARN"
    assert "- {name: city, type: STRING}; - {name: n, type: BIGINT}" in (said.description or "")
    # The declaration is behind: nothing is dropped, and the next runs write on.
    told = lake.run("evolve_schema", "shop.orders", on_destructive="allow")
    assert told.success
    assert lake.table("shop.orders").schema.field_names == ("day", "id", "city", "n")
    lake.materialize("shop.orders")
    assert lake.table("shop.orders").schema.id == 1
    declare(lake, f"{CITY}\n      - {{name: n, type: BIGINT}}", evolve="schema: {evolve: additive}")
    assert lake.check(SCHEMA_MATCHES, "shop.orders").checks[SCHEMA_MATCHES].passed


@pytest.mark.parametrize("on_bad_row", ["fail", "quarantine"])
def test_columns_that_a_function_brings_are_added_too(lake: Lake, on_bad_row: str) -> None:
    text = EVENTS.replace('events:rows"}', f'events:rows", on_bad_row: {on_bad_row}}}')
    lake.declare(text.replace("    write:", "    schema: {evolve: additive}\n    write:"))
    lake.give([{"dt": "2024-01-01", "id": 1, "amount": 1.0, "city": "Bonn"}])

    lake.materialize(partitions="2024-01-01")

    assert [row["city"] for row in lake.rows()] == ["Bonn"]


def test_a_column_in_another_spelling_is_not_added(lake: Lake) -> None:
    declare(lake, CITY, evolve="schema: {evolve: additive}")
    put(lake, 1, "id,City\n1,Bonn\n")

    refused = lake.materialize("shop.orders", fails=True)

    assert "did you mean 'city' by 'City'" in refused.failure
    assert lake.table("shop.orders").schema.field_names == ("day", "id", "city")


def test_a_file_with_a_misspelt_and_a_new_column_is_named_and_stops_no_other_day(
    lake: Lake,
) -> None:
    declare(lake, evolve="schema: {evolve: additive}")
    put(lake, 1, "id,n\n1,7\n")
    wrong = put(lake, 2, "ID,city\n2,Bonn\n")

    refused = lake.materialize("shop.orders", fails=True)

    assert f"{wrong}: the file lacks column id, n and has unknown column ID" in refused.failure
    assert "did you mean 'id' by 'ID'" in refused.failure
    assert lake.table("shop.orders").schema.field_names == ("day", "id", "n")
    assert orders(lake) == [{"id": 1, "n": 7}]


def test_a_declaration_that_cannot_grow_is_refused(lake: Lake) -> None:
    declare(
        lake,
        source="csv: 'FOLDER/in/day={day}/*.csv', missing_columns: refuse",
        evolve="schema: {evolve: additive}",
    )
    assert "missing_columns: refuse refuses files from before a new column" in lake.wrong


def test_bad_rows_of_a_partition_that_cannot_be_read_are_not_kept_to_be_replayed(
    lake: Lake,
) -> None:
    more = '- {name: city, type: "STRING NOT NULL"}'
    source = "csv: 'FOLDER/in/day={day}/*.csv', on_bad_row: quarantine"
    declare(lake, more, source=source)
    put(lake, 1, "id,city\nx,Bonn\n").with_name("b.csv").write_text("id\n1\n")
    put(lake, 2, "id,city\ny,Ulm\n2,Ulm\n")

    lake.materialize("shop.orders", fails=True)

    kept = lake.table("shop.orders__rejects").read().to_pylist()
    assert [row["text"] for row in kept] == ["y,Ulm"]


def test_a_growing_table_keeps_values_that_another_client_put_into_a_column_of_its_own(
    lake: Lake,
) -> None:
    declare(lake, evolve="schema: {evolve: additive}")
    put(lake, 1, "id\n1\n")
    lake.materialize("shop.orders")
    session = Session(lake.catalog)
    session.sql("ALTER TABLE shop.orders ADD COLUMN score INT")
    session.sql("UPDATE shop.orders SET score = 9 WHERE id = 1")

    refused = lake.materialize("shop.orders", fails=True)

    assert "without column score" in refused.failure
    assert orders(lake) == [{"id": 1, "score": 9}]
    put(lake, 1, "id,score\n1,8\n")
    lake.materialize("shop.orders")
    assert orders(lake) == [{"id": 1, "score": 8}]
