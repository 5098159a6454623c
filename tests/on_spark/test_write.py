"""A DataFrame staged on Spark leaves the table that the local writer leaves."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from lakewright.storage import Catalog, Table, WriterKind
from lakewright.storage.errors import (
    BucketCountChanged,
    InvalidRequestError,
    InvalidRows,
    UnsupportedError,
)
from lakewright.storage.spark import SparkEngine
from lakewright.storage.spark.spark_types import to_spark_schema
from lakewright.storage.spec.predicate import Leaf, Operator
from tests.support.tables.builders import (
    EVENTS,
    comparable,
    content,
    events,
    new_table,
    rows,
    values_of,
    with_options,
)
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.values.every_type import ATOMS, NESTED, PARTITIONS, table_of
from tests.support.values.evolution import with_default_values

KINDS: dict[str, dict[str, Any]] = {
    "append": {"partitions": ("day",)},
    "unpartitioned": {},
    "append in buckets": {"partitions": ("day",), "options": {"bucket": "3", "bucket-key": "id"}},
    "keyed": {"partitions": ("day",), "keys": ("day", "id"), "options": {"bucket": "3"}},
}
DAYS = ("a", "b", "c/d=e%")
# Of the partition types those that Spark may see otherwise than we do.
SPARK_PARTITIONS = ["BOOLEAN", "DATE", "STRING", "DECIMAL(30, 12)", "TIMESTAMP(6)"]


def twins(catalog: Catalog, kind: str) -> tuple[Table, Table]:
    """The same empty table twice."""
    return (
        new_table(catalog, name="db.spark", **KINDS[kind]),
        new_table(catalog, name="db.local", **KINDS[kind]),
    )


def dataframe(spark: SparkSession, table: Table, new: pa.Table) -> DataFrame:
    """Arrow rows as a DataFrame with the column types that Spark has for them."""
    fields = [table.schema.field(name) for name in new.column_names]
    return spark.createDataFrame(new, to_spark_schema(fields))


def by_bucket(table: Table) -> dict[tuple[bytes, int], list[str]]:
    """Rows as they lie in data files, by partition and bucket."""
    found: dict[tuple[bytes, int], list[str]] = {}
    for entry in table.at().files():
        path = table.table_files.data_file_path(entry.place, entry.file)
        own = pq.read_table(path, partitioning=None).select(list(table.schema.field_names))
        found.setdefault((entry.partition, entry.bucket), []).extend(comparable(own))
    return {place: sorted(lines) for place, lines in found.items()}


def some_rows(table: Table) -> pa.Table:
    return rows(table, [row for day in DAYS for row in events(0, 40, day=day)])


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.mission("PT10", "PT12", "PT28", "BK2")
@pytest.mark.sampled(each="kind")
def test_an_append_lays_rows_where_the_local_writer_lays_them(
    catalog: Catalog, any_spark: SparkSession, kind: str
) -> None:
    on_spark, local = twins(catalog, kind)
    new = some_rows(on_spark)
    staged = on_spark.stage(dataframe(any_spark, on_spark, new))
    assert on_spark.history.latest_snapshot() is None
    on_spark.commit(staged)
    local.write(new)
    assert content(on_spark) == content(local)
    assert by_bucket(on_spark) == by_bucket(local)
    assert (
        Counter(row.total_buckets for row in on_spark.at().files()).keys()
        == Counter(row.total_buckets for row in local.at().files()).keys()
    )


@pytest.mark.mission("PT47", "PT59", "PT63")
@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_tasks_sort_their_rows_and_have_one_partition_open_at_a_time(
    catalog: Catalog, spark: SparkSession, kind: str
) -> None:
    table = new_table(catalog, **KINDS[kind])
    days = [f"day {number % 70}" for number in range(280)]
    new = pa.table({"id": range(280), "day": days, "v": days})
    by_writer: dict[bool, list[str]] = {}
    for grouped in (True, False):
        staged = table.stage(dataframe(spark, table, new), grouped=None if grouped else False)
        assert staged.writer is not None
        assert staged.writer.kind is (WriterKind.GROUPED if grouped else WriterKind.UNGROUPED)
        if grouped:
            # The partition that goes on, with its buckets, and what is closed on two cores.
            assert staged.writer.most_open <= 5
        assert len(staged.partitions) == 70
        by_writer[grouped] = comparable(table.read_staged(staged))
        table.abort(staged)
    assert by_writer[True] == by_writer[False] == comparable(new)


def test_many_tasks_write_a_file_a_partition_with_and_without_adaptive_execution(
    catalog: Catalog, any_spark: SparkSession
) -> None:
    table = new_table(catalog, **KINDS["append"])
    numbered = any_spark.range(0, 400, 1, 8)
    table.write(numbered.selectExpr("id", "CAST(id % 40 AS STRING) AS day", "'v' AS v"))
    found = table.at().partitions()
    assert [(each.row_count, each.file_count) for each in found] == [(10, 1)] * 40


@pytest.mark.parametrize("kind", ["append", "keyed"])
@pytest.mark.parametrize(
    ("partition", "dynamic"),
    [(None, None), (None, False), ({"day": "a"}, None), ({"day": "new"}, None)],
    ids=["dynamic", "everything", "static", "static new"],
)
@pytest.mark.mission("PT11", "PT24", "PT27", "PT29", "PT36")
@pytest.mark.sampled(each="partition")
def test_an_overwrite_replaces_what_the_local_writer_replaces(
    catalog: Catalog,
    spark: SparkSession,
    kind: str,
    partition: dict[str, object] | None,
    dynamic: bool | None,
) -> None:
    on_spark, local = twins(catalog, kind)
    for table in (on_spark, local):
        table.write(some_rows(table))
    new = rows(on_spark, events(7, 12, day="b"))
    if partition:
        new = new.drop_columns(["day"])
    staged = on_spark.stage(
        dataframe(spark, on_spark, new), mode="overwrite", partition=partition, dynamic=dynamic
    )
    on_spark.commit(staged)
    local.write(new, mode="overwrite", partition=partition, dynamic=dynamic)
    assert content(on_spark) == content(local)
    assert by_bucket(on_spark) == by_bucket(local)


@pytest.mark.mission("PT31", "PT35")
def test_a_partly_static_overwrite_takes_the_other_columns_from_the_rows(
    catalog: Catalog, spark: SparkSession
) -> None:
    columns = {"id": "BIGINT", "day": "DATE", "hour": "INT"}
    tables = [
        new_table(catalog, columns, name=name, partitions=["day", "hour"])
        for name in ("db.spark", "db.local")
    ]
    first, second = dt.date(2024, 1, 1), dt.date(2024, 1, 2)
    for table in tables:
        table.write(
            rows(
                table,
                [
                    {"id": number, "day": day, "hour": hour}
                    for number in range(3)
                    for day in (first, second)
                    for hour in (0, 1)
                ],
            )
        )
    new = rows(tables[0], [{"id": 9, "hour": 1}]).drop_columns(["day"])
    on_spark, local = tables
    options: dict[str, Any] = {"mode": "overwrite", "partition": {"day": "2024-01-01"}}
    on_spark.commit(on_spark.stage(dataframe(spark, on_spark, new), **options))
    local.write(new, **options)
    assert content(on_spark) == content(local)
    assert on_spark.read().num_rows == 10


@pytest.mark.parametrize("types", [ATOMS, NESTED], ids=["atomic", "nested"])
@pytest.mark.sampled(each="types")
def test_every_type_that_spark_has_is_written_alike(
    catalog: Catalog, any_spark: SparkSession, types: dict[str, list[Any]]
) -> None:
    known = {name: values for name, values in types.items() if not name.startswith("TIME(")}
    columns, values = table_of(known)
    for keyed in (False, True):
        settings: dict[str, Any] = {"keys": ["k"], "options": {"bucket": "2"}} if keyed else {}
        on_spark = new_table(catalog, columns, name=f"db.spark{keyed}", **settings)
        local = new_table(catalog, columns, name=f"db.local{keyed}", **settings)
        new = rows(on_spark, values)
        on_spark.commit(on_spark.stage(dataframe(any_spark, on_spark, new)))
        local.write(new)
        assert content(on_spark) == content(local)


@pytest.mark.parametrize("type_name", SPARK_PARTITIONS)
@pytest.mark.sampled(2)
def test_partitions_of_every_type_are_made_alike(
    catalog: Catalog, spark: SparkSession, type_name: str
) -> None:
    tables = [
        new_table(catalog, {"k": "INT", "p": type_name}, name=name, partitions=["p"])
        for name in ("db.spark", "db.local")
    ]
    on_spark, local = tables
    values = [*PARTITIONS[type_name], None]
    new = rows(local, [{"k": key, "p": value} for key, value in enumerate(values)])
    on_spark.commit(on_spark.stage(dataframe(spark, on_spark, new)))
    local.write(new)
    assert by_bucket(on_spark) == by_bucket(local)


def test_upserts_and_deletions_by_row_kind_number_on_from_what_is_there(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "2"})
    table.write(rows(table, events(0, 20)))
    changes = [(number, "a", f"new{number}", "+U") for number in range(5)]
    changes += [(number, None, None, "-D") for number in range(5, 10)]
    frame = spark.createDataFrame(changes, "id long, day string, v string, _rowkind string")
    table.commit(table.stage(frame))
    assert values_of(table, "id") == [*range(5), *range(10, 20)]
    assert values_of(table, "v")[-5:] == [f"v{number}" for number in (15, 16, 17, 18, 19)]
    assert sum(value.startswith("new") for value in values_of(table, "v")) == 5


def test_staged_rows_can_be_looked_at_before_anybody_else_sees_them(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, **KINDS["keyed"])
    table.write(rows(table, events(0, 3, day="old")))
    staged = table.stage(dataframe(spark, table, some_rows(table)))
    seen = table.scan_staged(staged).to_spark(spark)
    assert seen.count() == 120 == staged.row_count
    assert comparable(table.read_staged(staged)) == comparable(some_rows(table))
    assert table.read().num_rows == 3
    assert table.abort(staged) == staged.file_count
    assert_only_reachable_files(table)


def test_an_empty_dataframe_changes_nothing(catalog: Catalog, spark: SparkSession) -> None:
    table = new_table(catalog, **KINDS["keyed"])
    frame = dataframe(spark, table, some_rows(table).slice(0, 0))
    result = table.commit(table.stage(frame))
    assert result.snapshot is None
    assert table.history.latest_snapshot() is None


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_a_row_that_does_not_fit_leaves_no_file_and_keeps_its_kind(
    catalog: Catalog, spark: SparkSession, kind: str
) -> None:
    columns = {**EVENTS, "v": "VARCHAR(3)"}
    table = new_table(catalog, columns, **KINDS[kind])
    good = events(0, 200, v="")
    bad = [{"id": 300, "day": "a", "v": "too long"}]
    frame = dataframe(spark, table, rows(table, [*good, *bad])).repartition(4)
    with pytest.raises(InvalidRows, match="8 long"):
        table.stage(frame)
    assert_only_reachable_files(table)


BAD_FRAMES: dict[str, tuple[str, list[tuple[Any, ...]], str]] = {
    "a missing partition": ("id long, v string", [(1, "a")], "lack column day"),
    "a missing key": ("day string, v string", [("a", "b")], "lack column id"),
    "an unknown column": ("id long, day string, v string, w int", [(1, "a", "b", 2)], "unknown"),
    "text for a number": ("id string, day string, v string", [("1", "a", "b")], "convert"),
    "a number out of range": (
        "id decimal(30,0), day string, v string",
        [(Decimal(2**70), "a", "b")],
        "id",
    ),
}


@pytest.mark.parametrize("case", list(BAD_FRAMES))
@pytest.mark.sampled(3)
def test_a_dataframe_that_does_not_fit_is_refused_in_the_words_of_every_write(
    catalog: Catalog, spark: SparkSession, case: str
) -> None:
    # Keyed, so that Spark hashes the columns before the writer looks at them.
    table = new_table(catalog, **KINDS["keyed"])
    schema, values, words = BAD_FRAMES[case]
    with pytest.raises(InvalidRows, match=words):
        table.stage(spark.createDataFrame(values, schema))
    assert_only_reachable_files(table)


def test_other_refusals_keep_their_kind_too(catalog: Catalog, spark: SparkSession) -> None:
    table = new_table(catalog, **KINDS["keyed"])
    frame = dataframe(spark, table, some_rows(table))
    table.write(some_rows(table))
    with pytest.raises(BucketCountChanged, match="3 buckets"):
        with_options(table, bucket="4").stage(frame)
    with pytest.raises(InvalidRequestError, match="not a partition key"):
        table.stage(frame, partition={"v": 1})
    with pytest.raises(UnsupportedError, match="upsert-key"):
        with_options(table, upsert_key="v").stage(frame)
    with pytest.raises(InvalidRows, match="for partition day=zzz"):
        table.stage(frame, partition={"day": "zzz"})
    assert_only_reachable_files(table)


@pytest.mark.parametrize("format_name", ["parquet", "orc"])
@pytest.mark.parametrize("keys", [[], ["a.b"]], ids=["append", "keyed"])
@pytest.mark.sampled(each="format_name")
def test_names_with_dots_and_backticks_are_names(
    catalog: Catalog, spark: SparkSession, format_name: str, keys: list[str]
) -> None:
    columns = {"a.b": "INT", "a": "ROW<b INT>", "`x` y": "INT"}
    options = {"bucket": "2", "bucket-key": "a.b", "file.format": format_name}
    table = new_table(catalog, columns, keys=keys, options=options)
    given = [{"a.b": n, "a": {"b": -n}, "`x` y": 2 * n} for n in range(1, 6)]
    table.commit(table.stage(dataframe(spark, table, rows(table, given))))
    assert content(table) == comparable(rows(table, given))
    where = Leaf("a.b", Operator.GT, (3,))
    found = table.to_spark(spark, where, ["`x` y", "a.b"])
    assert sorted(map(tuple, found.collect())) == [(8, 4), (10, 5)]


def test_columns_left_out_of_a_dataframe_have_their_defaults(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = with_default_values(catalog, new_table(catalog, **KINDS["keyed"]), {"v": "7"})
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id long, day string")
    table.commit(table.stage(frame))
    expected = [{"id": 1, "day": "a", "v": "7"}, {"id": 2, "day": "b", "v": "7"}]
    assert content(table) == comparable(rows(table, expected))


def test_a_task_that_dies_leaves_no_file(catalog: Catalog, spark: SparkSession) -> None:
    """What fails in Spark itself is no error of ours; nothing may be left all the same."""
    table = new_table(catalog, **KINDS["append"])
    failing = f.when(f.col("id") == 39, f.raise_error(f.lit("no such value"))).otherwise("x")
    frame = dataframe(spark, table, some_rows(table)).withColumn("v", failing)
    with pytest.raises(PySparkException, match="no such value"):
        table.stage(frame.repartition(4))
    assert_only_reachable_files(table)


def test_tables_in_memory_are_refused(spark: SparkSession) -> None:
    table = new_table(Catalog.open("memory://refused"))
    with pytest.raises(UnsupportedError, match="memory"):
        table.stage(spark.range(1))


@dataclass(frozen=True)
class Watching:
    """Spark, and who looks at the store once its tasks are done."""

    inner: SparkEngine
    look: Callable[[], object]
    name: str = "watching"
    may_repeat: bool = False

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        results = self.inner.map(function, tasks)
        self.look()
        return results


@pytest.mark.mission("PT55")
def test_tasks_write_files_of_buckets_and_the_driver_commits_once(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, **KINDS["keyed"])
    some = [*events(0, 30, day="a"), *events(0, 30, day="b")]
    table.write(rows(table, some))
    seen: list[dict[str, int]] = []

    def look() -> None:
        listed = table.table_files.fs.list_tree(table.table_files.paths.root)
        seen.append({each.path: each.modified_ms for each in listed})

    look()
    staged = table.stage(spark.createDataFrame(rows(table, some)))
    look()
    table.commit(staged)
    look()
    plan = table.upkeep.plan_compact(full=True)
    result = table.upkeep.run(plan, Watching(SparkEngine(spark), look))
    look()

    assert result.snapshot is not None
    assert len(table.history.snapshots()) == 3
    for before, after in ((seen[0], seen[1]), (seen[2], seen[3])):
        new = after.keys() - before.keys()
        assert new
        assert all("/bucket-" in path for path in new)
        assert {path: after[path] for path in before} == before
    for before, after in ((seen[1], seen[2]), (seen[3], seen[4])):
        new = after.keys() - before.keys()
        assert len([path for path in new if "/snapshot/snapshot-" in path]) == 1
        assert not any("/bucket-" in path for path in new)


@pytest.mark.parametrize(
    ("kind", "held"), [("TIMESTAMP(0)", 0), ("TIMESTAMP(3)", 3), ("TIMESTAMP(6)", 6)]
)
def test_digits_that_the_format_does_not_store_are_refused_and_not_cut(
    catalog: Catalog, spark: SparkSession, kind: str, held: int
) -> None:
    table = new_table(catalog, {"at": kind})
    text = "2024-01-31 10:00:00.123456"
    for digits in (3, 6):
        rows = spark.sql(f"SELECT TIMESTAMP_NTZ '{text[: 20 + digits]}' AS at")
        if digits > held:
            with pytest.raises(InvalidRows, match="column at is"):
                table.write(rows)
        else:
            table.write(rows)
    assert [str(each) for each in table.read().column("at").to_pylist()] == [
        text[: 20 + digits].ljust(26, "0") for digits in (3, 6) if digits <= held
    ]


def test_rows_of_one_key_in_one_dataframe_are_refused_on_request(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog, **KINDS["keyed"])
    frame = spark.range(0, 100, 1, 4).selectExpr("id % 99 AS id", "'a' AS day", "'x' AS v")
    with pytest.raises(InvalidRows, match="day='a', id=0 in 2 rows"):
        table.write(frame, on_duplicate="refuse")
    assert_only_reachable_files(table)
    table.write(frame.where("id <> 0"), on_duplicate="refuse")
    assert len(content(table)) == 98
