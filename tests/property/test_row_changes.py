"""Deletes, updates and merges give the rows that a plain list of dicts gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewright.storage import Catalog, Table
from tests.support.tables.builders import compact, expire, new_table, rows
from tests.support.tables.fixtures import empty_memory, memory_uri
from tests.support.tables.invariants import assert_only_reachable_files

COLUMNS = {"id": "INT", "day": "STRING", "n": "BIGINT", "v": "STRING"}
FORMATS = ("parquet", "orc", "avro")
# By name: primary keys, options.
KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "append": ((), {}),
    "marked": ((), {"deletion-vectors.enabled": "true"}),
    "marked by 64 bits": (
        (),
        {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"},
    ),
    "dealt": ((), {"bucket": "2", "bucket-key": "id"}),
    "keyed": (("id", "day"), {"bucket": "2"}),
    "dynamic": (("id", "day"), {"bucket": "-1"}),
    "keyed and marked": (("id", "day"), {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "told": (("id", "day"), {"bucket": "1", "changelog-producer": "input"}),
    "sequenced": (("id", "day"), {"bucket": "1", "sequence.field": "n"}),
    "partly": (
        ("id", "day"),
        {
            "bucket": "1",
            "merge-engine": "partial-update",
            "partial-update.remove-record-on-delete": "true",
        },
    ),
}
STEPS = ("write", "write", "delete", "update", "merge", "compact")
Row = dict[str, Any]
Holds = Callable[[Row], bool]

# A filter of SQL, and the same in Python.
FILTERS: dict[str, Holds] = {
    "id = 3": lambda row: row["id"] == 3,
    "id < 4": lambda row: row["id"] < 4,
    "id IN (1, 5, 7)": lambda row: row["id"] in (1, 5, 7),
    "day = 'a'": lambda row: row["day"] == "a",
    "day = 'b' AND id > 2": lambda row: row["day"] == "b" and row["id"] > 2,
    "n IS NULL": lambda row: row["n"] is None,
    "NOT n > 2": lambda row: row["n"] is not None and row["n"] <= 2,
    "v LIKE 'x%' OR n = 1": lambda row: (row["v"] or "").startswith("x") or row["n"] == 1,
    "id >= 0": lambda _: True,
    "id > 100": lambda _: False,
}


@pytest.fixture(autouse=True)
def _empty_memory() -> Any:
    yield
    empty_memory()


def some_rows(draw: st.DrawFn) -> list[Row]:
    keys = draw(
        st.lists(st.tuples(st.integers(0, 8), st.sampled_from("ab")), max_size=6, unique=True)
    )
    value = st.one_of(st.none(), st.integers(0, 4))
    return [
        {"id": key, "day": day, "n": draw(value), "v": draw(st.sampled_from(["x", "y", None]))}
        for key, day in keys
    ]


class Model:
    """The rows that the table has to hold."""

    def __init__(self, *, keyed: bool, partly: bool, sequenced: bool) -> None:
        self.keyed, self.partly, self.sequenced = keyed, partly, sequenced
        self.rows: list[Row] = []

    def write(self, new: list[Row]) -> None:
        for row in new:
            same = [each for each in self.rows if self.keyed and key(each) == key(row)]
            if not same:
                self.rows.append(dict(row))
            elif self.partly:
                same[0].update({name: each for name, each in row.items() if each is not None})
            elif not self.sequenced or (row["n"] or 0) >= (same[0]["n"] or 0):
                same[0].update(row)


def key(row: Row) -> tuple[Any, Any]:
    return row["id"], row["day"]


def shown(found: list[Row]) -> list[str]:
    return sorted(repr([row[name] for name in COLUMNS]) for row in found)


def same_rows(table: Table, model: Model) -> None:
    assert shown(table.at().read().to_pylist()) == shown(model.rows)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
@pytest.mark.mission("MT18")
def test_changed_rows_are_those_of_a_plain_list(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    keys, options = KINDS[kind]
    form = data.draw(st.sampled_from(FORMATS))
    parted = data.draw(st.booleans())
    catalog = Catalog.open(memory_uri())
    catalog.create_database("db")
    table = new_table(
        catalog,
        COLUMNS,
        keys=keys,
        partitions=("day",) if parted else (),
        options={**options, "file.format": form},
    )
    model = Model(keyed=bool(keys), partly=kind == "partly", sequenced=kind == "sequenced")
    for _ in range(data.draw(st.integers(2, 6))):
        step = data.draw(st.sampled_from(STEPS))
        if step == "write":
            new = data.draw(st.composite(some_rows)())
            if kind == "sequenced":
                new = [{**row, "n": row["n"] or 0} for row in new]
            table.write(rows(table, new))
            model.write(new)
            if kind == "keyed and marked":
                compact(table, full=True)
        elif step == "compact":
            compact(table, full=True)
        elif step == "delete":
            delete(table, model, data)
        elif step == "update":
            update(table, model, data, kind)
        else:
            merge(table, model, data, kind)
        same_rows(table, model)
    expire(table, keep=1)
    same_rows(table, model)
    assert_only_reachable_files(table)


def delete(table: Table, model: Model, data: st.DataObject) -> None:
    where = data.draw(st.sampled_from(sorted(FILTERS)))
    gone = [row for row in model.rows if FILTERS[where](row)]
    planned = table.delete(where, dry_run=True)
    done = table.delete(where)
    by_metadata = table.schema.is_keyed and where == "day = 'a'"
    if not by_metadata:
        assert planned.rows == done.deleted == len(gone)
    model.rows = [row for row in model.rows if row not in gone]


def update(table: Table, model: Model, data: st.DataObject, kind: str) -> None:
    where = data.draw(st.sampled_from(sorted(FILTERS)))
    if data.draw(st.booleans()) and not table.schema.is_keyed:
        values: dict[str, object] = {"day": "CASE day WHEN 'a' THEN 'b' ELSE 'c' END"}
        new = moved
    elif kind == "partly":
        values, new = {"v": "'z'"}, named
    else:
        values = {"n": "n + 1", "v": "upper(v)"}
        new = raised
    chosen = [row for row in model.rows if FILTERS[where](row)]
    assert table.update(values, where).updated == len(chosen)
    for row in chosen:
        row.update(new(row))


def moved(row: Row) -> Row:
    return {"day": "b" if row["day"] == "a" else "c"}


def named(_: Row) -> Row:
    return {"v": "z"}


def raised(row: Row) -> Row:
    number = None if row["n"] is None else row["n"] + 1
    return {"n": number, "v": row["v"] and row["v"].upper()}


def merge(table: Table, model: Model, data: st.DataObject, kind: str) -> None:
    source = [
        {**row, "n": row["n"] or 0, "v": row["v"] or "s"}
        for row in data.draw(st.composite(some_rows)())
    ]
    if kind == "sequenced":
        source = [{**row, "n": 1000} for row in source]
    if not source:
        return
    gone = data.draw(st.sampled_from([None, "x", "y"]))
    matched: list[Any] = [(f"t.v = '{gone}'", "delete")] if gone else []
    inserts = data.draw(st.booleans())
    removes = data.draw(st.booleans())
    done = table.merge(
        source,
        on=["id", "day"],
        when_matched=[*matched, (None, "update")],
        when_not_matched="insert" if inserts else None,
        when_not_matched_by_source=[("t.id > 4", "delete")] if removes else None,
    )
    by_key = {key(row): row for row in source}
    held = {key(row) for row in model.rows}
    left, counts = [], [0, 0, 0]
    for row in model.rows:
        new = by_key.get(key(row))
        if (new is None and removes and row["id"] > 4) or (
            new is not None and gone and row["v"] == gone
        ):
            counts[0] += 1
        else:
            counts[1] += new is not None
            left.append({**row, **(new or {})})
    added = [dict(row) for row in source if key(row) not in held] if inserts else []
    counts[2] = len(added)
    model.rows = [*left, *added]
    assert [done.deleted, done.updated, done.inserted] == counts
