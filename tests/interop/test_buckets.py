"""Buckets of every mode, kept input and lookups: others see what we see, and go on from it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakewright.storage import Catalog, Table, TableDistribution
from lakewright.storage.errors import BucketCountChanged, IndexMoved
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.arrow_values import canonical_rows
from tests.oracles.client import JavaOracle, Oracle, OracleError, WritingOracle
from tests.support.tables.builders import compact, content, events, new_table, rows, values_of
from tests.support.tables.invariants import assert_nothing_missing, assert_readable_history

KEYED = {"id": "BIGINT NOT NULL", "day": "STRING NOT NULL", "v": "STRING"}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "file.format": "parquet"}


def assert_read_alike(catalog: Catalog, table: Table, *readers: Oracle) -> None:
    """Every client reads the rows that we read, each key once."""
    ours = content(table)
    keys = [(row["day"], row["id"]) for row in map(json.loads, ours)]
    assert len(keys) == len(set(keys)), "a key is there twice"
    for reader in readers:
        assert as_read_by(reader, catalog, table) == ours, f"{reader.name} reads other rows"


def bucket_counts(table: Table) -> dict[Any, set[int]]:
    found: dict[Any, set[int]] = {}
    for entry in table.at().files():
        day = table.table_files.partitions.of_entry(entry).spec["day"]
        found.setdefault(day, set()).add(entry.total_buckets)
    return found


def ours(catalog: Catalog, **options: str) -> Table:
    return new_table(catalog, partitions=["day"], keys=["day", "id"], options=options)


def theirs(catalog: Catalog, writer: WritingOracle, **options: str) -> Table:
    writer.create(
        catalog.root,
        "db.t",
        KEYED,
        partition_keys=["day"],
        primary_keys=["day", "id"],
        options=options,
    )
    return catalog.table("db.t")


# --- dynamic ----------------------------------------------------------------------------------


def test_dynamic_buckets_are_written_in_turn_by_us_and_by_java(
    catalog: Catalog, java: JavaOracle, rust: Oracle, released_pypaimon: WritingOracle
) -> None:
    table = ours(catalog, **DYNAMIC)
    table.write(rows(table, [*events(0, 5), *events(0, 2, day="b")]))
    assert_read_alike(catalog, table, java, rust, released_pypaimon)
    java.write(catalog.root, table.name, [*events(3, 8, v="java"), *events(1, 4, day="b")])
    assert_read_alike(catalog, table, java, rust)
    table.write(rows(table, [*events(0, 10, v="ours"), *events(0, 4, day="c")]))
    assert_read_alike(catalog, table, java, rust)
    assert table.read().num_rows == 10 + 4 + 4
    java.write(catalog.root, table.name, events(0, 12, v="last"))
    table.write(rows(table, events(0, 12), ["-D"] * 12))
    java.write(catalog.root, table.name, events(0, 6, v="back"))
    assert values_of(table, "v")[:6] == [f"back{number}" for number in range(6)]
    compact(table, full=True)
    assert_read_alike(catalog, table, java, rust)
    java.compact(catalog.root, table.name)
    table.write(rows(table, events(0, 12, v="end")))
    assert_read_alike(catalog, table, java, rust)
    assert {entry.total_buckets for entry in table.at().files()} == {-1}


@pytest.mark.parametrize("client", ["java", "released_pypaimon"])
def test_dynamic_buckets_of_others_are_gone_on_with(
    catalog: Catalog, request: pytest.FixtureRequest, java: JavaOracle, client: str
) -> None:
    writer: WritingOracle = request.getfixturevalue(client)
    options = {**DYNAMIC, "dynamic-bucket.initial-buckets": "2"}
    table = theirs(catalog, writer, **options)
    writer.write(catalog.root, table.name, [*events(0, 9), *events(0, 3, day="b")])
    writer.write(catalog.root, table.name, events(5, 12, v="second"))
    table.write(rows(table, [*events(0, 15, v="ours"), *events(2, 5, day="b")]))
    assert_read_alike(catalog, table, java)
    assert table.read().num_rows == 15 + 5
    table.write(rows(table, events(3, 6, v="over")), mode="overwrite")
    writer.write(catalog.root, table.name, events(0, 9, v="after"))
    assert_read_alike(catalog, table, java)
    assert table.read().num_rows == 9 + 5
    assert_nothing_missing(table)
    assert_readable_history(table)


def test_of_us_and_java_at_once_one_gives_way(catalog: Catalog, java: JavaOracle) -> None:
    table = ours(catalog, **DYNAMIC)
    table.write(rows(table, events(0, 2)))
    staged = table.stage(rows(table, events(2, 4, v="ours")))
    java.write(catalog.root, table.name, events(2, 4, v="java"))
    with pytest.raises(IndexMoved):
        table.commit(staged)
    table.abort(staged)
    assert_read_alike(catalog, table, java)


# --- rescaled ---------------------------------------------------------------------------------


@pytest.mark.mission("BK37")
def test_a_rescaled_table_is_everybodys(
    catalog: Catalog, java: JavaOracle, rust: Oracle, released_pypaimon: WritingOracle
) -> None:
    table = ours(catalog, bucket="2")
    for number in range(3):
        new = [*events(number, 20, v=str(number)), *events(0, 6, day="b")]
        table.write(rows(table, new))
    everybody = (java, rust, released_pypaimon)
    table.upkeep.run(table.upkeep.plan_rescale(5, [{"day": "a"}]))
    assert_read_alike(catalog, table, *everybody)
    assert bucket_counts(table) == {"a": {5}, "b": {2}}
    # We go on with the count of the partition; Java wants the option's.
    table.write(rows(table, events(15, 25, v="ours")))
    assert_read_alike(catalog, table, *everybody)
    with pytest.raises(OracleError, match="previous bucket num is 5"):
        java.write(catalog.root, table.name, events(0, 1, v="java"))
    java.write(catalog.root, table.name, events(0, 9, day="b", v="java"))
    assert_read_alike(catalog, table, java, rust)
    table.upkeep.run(table.upkeep.plan_rescale(3))
    table = catalog.table(table.name)
    assert_read_alike(catalog, table, java, rust)
    for day in "abc":
        java.write(catalog.root, table.name, events(3, 30, day=day, v="java"))
    assert_read_alike(catalog, table, java, rust)
    java.compact(catalog.root, table.name)
    table.write(rows(table, events(0, 40, v="end")))
    assert_read_alike(catalog, table, java, rust)
    assert bucket_counts(table) == {day: {3} for day in "abc"}


@pytest.mark.mission("BK8", "BK20", "SQ15")
def test_a_table_with_other_bucket_keys_is_everybodys(
    catalog: Catalog, java: JavaOracle, java_latest: JavaOracle, rust: Oracle,
    released_pypaimon: WritingOracle,
) -> None:  # fmt: skip
    columns = {"id": "BIGINT", "day": "STRING", "k": "INT", "v": "STRING"}
    options = {"bucket": "1", "bucket-key": "id", "file.format": "parquet"}
    keys = ["day", "id", "k"]
    table = new_table(catalog, columns, partitions=["day"], keys=keys, options=options)

    def numbered(first: int, last: int, v: str, day: str = "a") -> list[dict[str, Any]]:
        return [{**each, "k": each["id"] % 4} for each in events(first, last, day=day, v=v)]

    def assert_found(*readers: Oracle) -> None:
        table = catalog.table("db.t")
        assert_read_alike(catalog, table, *readers)
        for name, value in (("k", 3), ("id", 7), ("id", 21)):
            ours = table.read(where=f"{name} = {value}").to_pylist()
            assert ours
            for reader in readers:
                found = reader.read(catalog.root, table.name, where=[(name, "=", value)])
                assert len(found) == len(ours), f"{reader.name} finds other rows"

    everybody = (java, java_latest, rust, released_pypaimon)
    for number in range(2):
        table.write(rows(table, [*numbered(number, 24, f"{number}-"), *numbered(0, 9, "b", "b")]))
    assert_found(*everybody)
    table = table.distribute(TableDistribution.of_hash(["k"], 3))
    assert_found(*everybody)
    for reader in everybody:
        for name, value in (("k", 3), ("id", 7)):
            found = reader.read(catalog.root, table.name, snapshot=2, where=[(name, "=", value)])
            ours = table.at(snapshot=2).read(where=f"{name} = {value}")
            assert len(found) == ours.num_rows, f"{reader.name} finds other rows of the past"
    table.write(rows(table, numbered(3, 12, "ours")))
    for writer in (java, java_latest):
        writer.write(catalog.root, table.name, numbered(7, 26, writer.name))
        assert_found(*everybody[:3])
    java_latest.compact(catalog.root, table.name)
    assert_found(*everybody[:3])
    catalog.table(table.name).distribute(TableDistribution.of_hash(["k"], 5))
    assert_found(*everybody[:3])


def test_a_table_that_java_altered_takes_no_write_before_it_is_rescaled(
    catalog: Catalog, java: JavaOracle, rust: Oracle
) -> None:
    table = theirs(catalog, java, **{"bucket": "2", "file.format": "parquet"})
    java.write(catalog.root, table.name, [*events(0, 9), *events(0, 4, day="b")])
    java.alter(catalog.root, table.name, {"set_option": "bucket", "value": "4"})
    table = catalog.table(table.name)
    with pytest.raises(BucketCountChanged, match="2 buckets and the table's option asks for 4"):
        table.write(rows(table, events(0, 3)))
    java.write(catalog.root, table.name, events(0, 5, day="b", v="over"), overwrite={"day": "b"})
    table.write(rows(table, events(0, 6, day="b", v="ours")))
    table.upkeep.run(table.upkeep.plan_rescale(4))
    assert bucket_counts(table) == {"a": {4}, "b": {4}}
    java.write(catalog.root, table.name, events(4, 12, v="java"))
    table.write(rows(table, events(0, 8, v="ours")))
    assert_read_alike(catalog, table, java, rust)


# --- postponed --------------------------------------------------------------------------------


def test_rows_that_pypaimon_postponed_get_their_buckets_from_us(
    catalog: Catalog, released_pypaimon: WritingOracle, rust: Oracle
) -> None:
    options = {"bucket": "-2", "postpone.default-bucket-num": "3"}
    table = theirs(catalog, released_pypaimon, **options)
    released_pypaimon.write(catalog.root, table.name, [*events(0, 9), *events(0, 4, day="b")])
    released_pypaimon.write(catalog.root, table.name, events(5, 12, v="later"))
    assert table.read().num_rows == 0
    table.upkeep.run(table.upkeep.plan_postpone_compact())
    assert table.read().num_rows == 12 + 4
    assert "later5" in values_of(table, "v")
    assert_read_alike(catalog, table, released_pypaimon, rust)
    # And the other way round: rows of both wait together.
    table.write(rows(table, events(0, 3, v="ours")))
    released_pypaimon.write(catalog.root, table.name, events(2, 4, v="theirs"))
    assert_read_alike(catalog, table, released_pypaimon, rust)
    table.upkeep.run(table.upkeep.plan_postpone_compact())
    assert set(values_of(table, "v")) >= {"ours0", "ours1", "theirs2", "theirs3"}
    assert_read_alike(catalog, table, released_pypaimon, rust)
    assert_nothing_missing(table)


# --- kept input -------------------------------------------------------------------------------


def test_javas_streaming_reader_gets_every_row_that_we_were_given(
    catalog: Catalog, java: JavaOracle
) -> None:
    table = ours(catalog, **{"bucket": "2", "changelog-producer": "input"})
    table.write(rows(table, [*events(0, 2), *events(0, 1, v="w")], ["+I", "+I", "-U"]))
    table.write(rows(table, events(0, 1, v="x"), ["+U"]))
    table.write(rows(table, events(5, 6)), mode="overwrite")
    compact(table, full=True)
    table.write(rows(table, events(5, 6), ["-D"]))
    changes = java.changes(catalog.root, table.name, 1, table.history.snapshots()[-1].id)
    found = sorted((each.snapshot, each.kind, each.row["v"]) for each in changes)
    assert found == [
        (1, "+I", "v0"),
        (1, "+I", "v1"),
        (1, "-U", "w0"),
        (2, "+U", "x0"),
        (table.history.snapshots()[-1].id, "-D", "v5"),
    ]
    # Java goes on keeping what it is given, and we read on.
    java.write(catalog.root, table.name, events(7, 9))
    assert_read_alike(catalog, table, java)


# --- merging writers --------------------------------------------------------------------------

ENGINES: dict[str, dict[str, str]] = {
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "sequence": {"sequence.field": "n"},
    "ignoring": {"ignore-delete": "true"},
}


@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.mission("FS2", "FS6")
def test_rows_merged_in_one_flush_are_what_java_makes_of_them(
    catalog: Catalog, java: JavaOracle, engine: str
) -> None:
    columns = {"k": "INT NOT NULL", "n": "INT", "s": "STRING"}
    options = {"bucket": "1", "file.format": "parquet", **ENGINES[engine]}
    batches: list[list[dict[str, Any]]] = [
        [{"k": 1, "n": 3}, {"k": 1, "s": "a"}, {"k": 2, "n": 1, "s": "b"}, {"k": 1, "n": 2}],
        [{"k": 2, "s": "c"}, {"k": 1, "n": 5}, {"k": 1, "n": 1, "s": "d"}, {"k": 3}],
    ]
    for name in ("db.ours", "db.java"):
        java.create(catalog.root, name, columns, primary_keys=["k"], options=options)
    table = catalog.table("db.ours")
    kinds = ["+I", "+I", "+I", "-D" if engine in ("sequence", "ignoring") else "+I"]
    for batch in batches:
        table.write(rows(table, batch, kinds))
        java.write(catalog.root, "db.java", batch, kinds=kinds)  # type: ignore[arg-type]
        expected = as_read_by(java, catalog, catalog.table("db.java"))
        assert content(table) == expected
        assert as_read_by(java, catalog, table) == expected
    mine, javas = (
        sorted(
            (each.file.row_count, each.file.min_sequence_number, each.file.max_sequence_number)
            for each in catalog.table(name).at().files()
        )
        for name in ("db.ours", "db.java")
    )
    assert mine == javas


# --- lookups ----------------------------------------------------------------------------------


@pytest.mark.mission("CN24")
def test_lookups_find_what_javas_lookups_find(catalog: Catalog, java: JavaOracle) -> None:
    table = ours(catalog, bucket="3")
    for number in range(3):
        table.write(rows(table, events(number * 10, number * 10 + 20, v=f"{number}-")))
    table.write(rows(table, events(5, 8), ["-D"] * 3))
    wanted = [{"day": day, "id": number} for day in "ab" for number in range(0, 45, 3)]
    found = java.lookup(catalog.root, table.name, wanted)
    theirs_found = sorted(json.dumps(row, sort_keys=True) for row in found if row is not None)
    names = ["day", "id"]
    asked = rows(table, wanted).select(names)
    mine = [json.dumps(row, sort_keys=True) for row in canonical_rows(table.lookup(asked))]
    assert sorted(mine) == theirs_found
    assert len(mine) == 13
