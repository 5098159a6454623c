"""Aggregates, metadata and keys: what goes down to a connector, and what comes back."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.connectors.factories import Context
from lakewright.connectors.formats.model import Decoder
from lakewright.connectors.jdbc.connector import Jdbc
from lakewright.connectors.lookups import CachedLookup, looked_up
from lakewright.connectors.planning.plan_source import (
    AggregateRequest,
    PlannedScan,
    ScanRequest,
    plan_aggregates,
    plan_scan,
    source_of,
)
from lakewright.connectors.runtime import AsyncLookup, BoundedScan, Split
from lakewright.connectors.sources import Aggregate, LookupTableSource, ScanTableSource
from lakewright.connectors.testing.tables import context_of
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import InvalidOption, InvalidRequestError
from lakewright.storage.spec.data_types import DataField, parse_data_type
from lakewright.storage.spec.predicate import And, Leaf, Operator
from tests.unit.connectors.doubles import Memory

_COLUMNS = {"id": "BIGINT", "name": "STRING", "price": "DECIMAL(10, 2)"}
_WHOLE = parse_data_type("BIGINT")


@pytest.fixture
def shop(tmp_path: Path) -> Context:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price TEXT)")
        connection.executemany(
            "INSERT INTO items VALUES (?, ?, ?)", [(at, f"n{at % 3}", "1.5") for at in range(10)]
        )
    connection.close()
    options = {"url": f"sqlite:///{path}", "table-name": "items", "lookup.cache": "PARTIAL"}
    return context_of(Jdbc(), _COLUMNS, options, primary_key=["id"])


def rows_of(planned: Any) -> list[dict[str, Any]]:
    return [row for piece in planned.rows() for row in piece.to_pylist()]


def aggregate(function: str, column: str | None, name: str) -> Aggregate:
    return Aggregate(function, column, DataField(0, name, _WHOLE))


@pytest.mark.mission("CN22")
def test_aggregates_are_planned_where_the_database_makes_them(shop: Context) -> None:
    asked = (aggregate("count", None, "n"), aggregate("max", "id", "last"))

    def planned(where: Leaf | None, *group_by: str) -> PlannedScan | None:
        request = AggregateRequest(where=where, group_by=group_by, aggregates=asked)
        return plan_aggregates(shop, request)

    every = planned(None)
    assert every is not None
    assert [each.to_json()["type"] for each in every.abilities] == ["AggregatePushDown"]
    assert "MAX" in every.source.summary
    assert rows_of(every) == [{"n": 10, "last": 9}]
    some = planned(Leaf("id", Operator.GE, (5,)), "name")
    assert some is not None
    assert [each.to_json()["type"] for each in some.abilities] == [
        "FilterPushDown",
        "AggregatePushDown",
    ]
    assert sorted(rows_of(some), key=lambda row: row["name"]) == [
        {"name": "n0", "n": 2, "last": 9},
        {"name": "n1", "n": 1, "last": 7},
        {"name": "n2", "n": 2, "last": 8},
    ]
    # Texts are compared here, so the rows have to come.
    assert planned(Leaf("name", Operator.EQ, ("n1",))) is None
    assert planned(None, "price") is None


def test_what_goes_to_the_database_is_what_it_reads_alike(shop: Context) -> None:
    where = And(
        (
            Leaf("id", Operator.GE, (4,)),
            Leaf("name", Operator.EQ, ("n1",)),
            Leaf("price", Operator.IS_NOT_NULL),
        )
    )
    planned = plan_scan(shop, ScanRequest(("id",), where, limit=5))
    assert planned.source.summary.endswith(
        'SELECT "id", "name" FROM "items" WHERE "id" >= 4 AND "price" IS NOT NULL'
    )
    assert rows_of(planned) == [{"id": 4}, {"id": 7}]
    whole = plan_scan(shop, ScanRequest(("id",), Leaf("id", Operator.IN, (1, 2, 3)), limit=2))
    assert whole.source.summary.endswith('WHERE "id" IN (1, 2, 3) LIMIT 2')
    assert len(rows_of(whole)) == 2


def test_a_database_that_refuses_is_named_without_its_password(tmp_path: Path) -> None:
    options = {"url": f"sqlite:///{tmp_path}/none.db", "table-name": "no"}
    context = context_of(Jdbc(), _COLUMNS, options)
    with pytest.raises(InvalidRequestError, match="unable to open database file"):
        rows_of(plan_scan(context, ScanRequest()))
    for url, said in (("mysql://me:hunter2@host/db", "write sqlite"), ("nowhere", "write sqlite")):
        with pytest.raises(InvalidOption, match=said) as told:
            source_of(context_of(Jdbc(), _COLUMNS, {"url": url, "table-name": "t"}))
        assert "hunter2" not in told.value.message


# --- lookups --------------------------------------------------------------------------------------


class _Counting(AsyncLookup):
    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    async def lookup(self, keys: pa.Table) -> pa.Table:
        ids = keys.column("id").to_pylist()
        self.asked.append(ids)
        known = [each for each in ids if each < 10]
        texts = pa.array([f"n{each}" for each in known], pa.string())
        return pa.table({"id": pa.array(known, pa.int64()), "name": texts})


class _Clock(SystemEnv):
    now = 0

    def now_ms(self) -> int:
        return type(self).now


@pytest.mark.mission("CN26", "RS21")
def test_a_cache_asks_again_when_rows_are_old_or_were_displaced() -> None:
    inner, clock = _Counting(), _Clock()
    cached = CachedLookup(inner, clock, max_rows=3, expire_ms=1000)
    keys = pa.table({"id": [1, 2, 99, 1]})
    first = cached.lookup(keys).to_pylist()
    assert first == [{"id": 1, "name": "n1"}, {"id": 2, "name": "n2"}]
    assert cached.lookup(keys).to_pylist() == first
    # That a key has no row is kept, too.
    assert inner.asked == [[1, 2, 99]]
    _Clock.now = 2000
    cached.lookup(pa.table({"id": [1]}))
    assert inner.asked[-1] == [1]
    cached.lookup(pa.table({"id": [3, 4, 5]}))
    cached.lookup(pa.table({"id": [1]}))
    assert inner.asked[-1] == [1]
    _Clock.now = 0


@pytest.mark.mission("CN24", "CN25", "CN26")
def test_rows_are_looked_up_in_a_database(shop: Context) -> None:
    source = source_of(shop)
    assert isinstance(source, LookupTableSource)
    by_id = looked_up(source.lookup(["id"]), pa.table({"id": [3, 77]}))
    assert [row["name"] for row in by_id.to_pylist()] == ["n0"]
    by_two = looked_up(
        source.lookup(["id", "name"]), pa.table({"id": [3, 4], "name": ["n0", "it's"]})
    )
    assert [row["id"] for row in by_two.to_pylist()] == [3]


# --- formats of keys and values -------------------------------------------------------------------


class _Keyed(Memory):
    """A connector of messages with a key and a value, each in a format of its own."""

    identifier = "keyed"
    required_options = ()
    format_options = ("key.format", "value.format")

    def create_source(self, context: Context) -> ScanTableSource:
        names = {each.name: each for each in context.table.fields}
        keys, values = [names["id"]], [names["name"], names["price"]]
        return _KeyedSource(
            context.decoding_format("key.format").decoder(keys),
            context.decoding_format("value.format").decoder(values),
        )


class _KeyedSource(ScanTableSource):
    def __init__(self, keys: Decoder, values: Decoder) -> None:
        self.keys, self.values = keys, values

    def scan(self) -> BoundedScan:
        return _KeyedScan(self.keys, self.values)


class _KeyedScan(BoundedScan):
    def __init__(self, keys: Decoder, values: Decoder) -> None:
        self.keys, self.values = keys, values

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        keys = self.keys.decode([b"1", b"2"])
        values = self.values.decode([b'{"name": "a", "price": 1}', b'{"name": "b"}'])
        yield pa.record_batch(
            [*keys.columns, *values.columns], names=[*keys.schema.names, *values.schema.names]
        )


@pytest.mark.mission("CN31", "CN33", "CN40", "CN41", "CN42", "RS22", "RS23")
def test_keys_and_values_have_formats_with_options_of_their_own() -> None:
    options = {
        "key.format": "csv",
        "key.csv.field-delimiter": ";",
        "value.format": "json",
        "value.json.fail-on-missing-field": "false",
    }
    context = context_of(_Keyed(), _COLUMNS, options)
    planned = plan_scan(context, ScanRequest(("id", "name")))
    assert rows_of(planned) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert pickle.loads(pickle.dumps(planned.runtime))
    with pytest.raises(InvalidOption, match=r"format json of suite.table has no option feil"):
        plan_scan(
            context_of(_Keyed(), _COLUMNS, {**options, "value.json.feil": "x"}), ScanRequest()
        )
    with pytest.raises(InvalidOption, match=r"lacks option value\.format; it names a format"):
        plan_scan(context_of(_Keyed(), _COLUMNS, {"key.format": "csv"}), ScanRequest())


def test_secrets_are_no_part_of_a_message_about_an_option() -> None:
    from lakewright.connectors.options import Option, OptionKind

    secret = Option(name="pin", kind=OptionKind.INTEGER, secret=True)
    with pytest.raises(InvalidOption) as told:
        secret.read("hunter2", "x")
    assert "hunter2" not in told.value.message
