"""The streaming sink: batches of a query of Spark become commits, each once."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from lakewright.cli import main
from lakewright.connectors.managed_stream import TableStream
from lakewright.storage import AddColumn, Catalog, EventTime, ProcessingTime, Table
from lakewright.storage.errors import CommitOutcomeUnknownError, InvalidRequestError
from lakewright.storage.spark.streaming import run_stream
from tests.support.stores.watched_files import Call, WatchedFiles, over, puts_snapshot, watched
from tests.support.tables.builders import (
    compact,
    content,
    expire,
    new_table,
    remove_orphans,
    rows,
    values_of,
)
from tests.support.tables.invariants import assert_only_reachable_files

EVENTS = "id long, day string, v string"


class Feed:
    """A folder of JSON files as a stream, a file in each batch."""

    def __init__(self, spark: SparkSession, folder: Path, schema: str = EVENTS) -> None:
        self.spark, self.folder, self.schema = spark, folder, schema
        self.checkpoint = str(folder.parent / "checkpoint")
        folder.mkdir()

    def add(self, *rows: Mapping[str, Any]) -> None:
        number = len(list(self.folder.iterdir()))
        lines = "\n".join(map(json.dumps, rows))
        path = self.folder / f"{number:04}.json"
        path.write_text(lines)
        # Spark takes files in the order of their times, which may be equal otherwise.
        os.utime(path, (1_700_000_000 + number,) * 2)

    def rows(self) -> DataFrame:
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))

    def into(self, table: Table, rows: DataFrame | None = None, **given: Any) -> None:
        """Write all that is there, and wait for the end."""
        query = table.write_stream(
            self.rows() if rows is None else rows,
            checkpoint=self.checkpoint,
            trigger="available-now",
            **given,
        )
        query.awaitTermination()


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "feed")


def batches_of(table: Table) -> list[int]:
    return [each.commit_identifier for each in table.history.snapshots()]


def events(*ids: int, day: str = "a", v: str = "v") -> Iterable[Mapping[str, Any]]:
    return [{"id": each, "day": day, "v": f"{v}{each}"} for each in ids]


@pytest.mark.mission("PT13", "PT48", "PT49", "PT67")
def test_each_batch_is_a_commit_and_a_restart_goes_on_where_it_ended(
    catalog: Catalog, feed: Feed, capsys: pytest.CaptureFixture[str]
) -> None:
    table = new_table(catalog, partitions=["day"])
    feed.add(*events(1, 2), *events(3, day="b"))
    feed.add(*events(4))
    feed.into(table)
    feed.add(*events(5, day="c"))
    command = ["--warehouse", catalog.uri, "stream", "run", "db.t", "--json", str(feed.folder)]
    for said in ("db.t: 1 row in 1 batch, up to batch 2 of stream", "db.t: no new rows"):
        assert main([*command, "--checkpoint", feed.checkpoint]) == 0
        assert capsys.readouterr().out.startswith(said)
    assert values_of(table, "id") == [1, 2, 3, 4, 5]
    assert values_of(table, "day") == ["a", "a", "a", "b", "c"]
    assert batches_of(table) == [0, 1, 2]
    (stream,) = table.history.streams()
    assert {each.commit_user for each in table.history.snapshots()} == {stream.stream}


def test_rows_that_a_rollback_took_away_are_not_hidden_by_later_batches(
    catalog: Catalog, feed: Feed
) -> None:
    table = new_table(catalog)
    for number in (1, 2, 3):
        feed.add(*events(number))
    feed.into(table)
    table.history.rollback(snapshot=1, grace_ms=0)
    feed.add(*events(4))
    with pytest.raises(InvalidRequestError, match="rolled back behind batch 2 of stream"):
        run_stream(
            table.table_files, feed.rows(), checkpoint=feed.checkpoint, trigger="available-now"
        )
    assert_only_reachable_files(table)
    (stream,) = table.history.streams()
    table.history.forget_stream(stream.stream)
    feed.into(table)
    assert values_of(table, "id") == [1, 4]


def test_a_checkpoint_that_was_put_back_by_one_batch_loses_no_row(
    catalog: Catalog, feed: Feed
) -> None:
    table, kept = new_table(catalog), Path(feed.checkpoint)
    feed.add(*events(1))
    feed.into(table)
    shutil.copytree(kept, kept.with_name("older"))
    feed.add(*events(2))
    feed.into(table)
    newest = shutil.move(kept, kept.with_name("newest"))
    shutil.copytree(kept.with_name("older"), kept)
    feed.add(*events(3))
    # Its next batch has the number of one that the table holds, and reads more files.
    with pytest.raises(InvalidRequestError, match=r"is back at batch 1.* bring back the newer"):
        run_stream(
            table.table_files, feed.rows(), checkpoint=feed.checkpoint, trigger="available-now"
        )
    assert values_of(table, "id") == [1, 2]
    shutil.rmtree(kept)
    shutil.move(newest, kept)
    # The same batch again is known.
    for name in ("1", ".1.crc"):
        (kept / "commits" / name).unlink()
    feed.into(table)
    assert values_of(table, "id") == [1, 2, 3]


def test_a_checkpoint_of_a_stream_without_spark_is_refused(catalog: Catalog, feed: Feed) -> None:
    table = new_table(catalog)
    stream = TableStream(table).of_stream("", feed.checkpoint)
    batch = stream.stand("files", lambda: {"at": 0})
    assert stream.commit_until([stream.write(iter([]))], batch, {"at": 1})
    feed.add(*events(1))
    with pytest.raises(InvalidRequestError, match="is now that of a new stream"):
        run_stream(
            table.table_files, feed.rows(), checkpoint=feed.checkpoint, trigger="available-now"
        )
    assert table.at().count() == 0


@pytest.mark.mission("PT13", "PT49", "PT50")
def test_a_batch_whose_commit_failed_after_its_rows_were_staged_is_there_once_after_a_restart(
    catalog: Catalog, feed: Feed
) -> None:
    table = new_table(catalog, partitions=["day"])
    feed.add(*events(1))
    feed.add(*events(2))
    failing, _ = watched(table, fail_at=2, counts=puts_snapshot)
    with pytest.raises(CommitOutcomeUnknownError):
        run_stream(
            failing.table_files, feed.rows(), checkpoint=feed.checkpoint, trigger="available-now"
        )
    assert values_of(table, "id") == [1]
    feed.into(table)
    assert values_of(table, "id") == [1, 2]
    # Spark has lost what it knew of the last batch, and its snapshot has expired.
    (commits := Path(feed.checkpoint) / "commits" / "1").unlink()
    commits.with_name(".1.crc").unlink(missing_ok=True)
    compact(table, full=True)
    expire(table)
    feed.add(*events(3))
    feed.into(table)
    assert values_of(table, "id") == [1, 2, 3]
    # The checkpoint is deleted, so that its source would begin anew.
    shutil.rmtree(feed.checkpoint)
    with pytest.raises(InvalidRequestError, match="was deleted"):
        run_stream(
            table.table_files, feed.rows(), checkpoint=feed.checkpoint, trigger="available-now"
        )
    assert values_of(table, "id") == [1, 2, 3]
    remove_orphans(table)


@pytest.mark.mission("PT48", "PT59")
def test_partitions_follow_from_the_time_of_events_and_are_marked_when_it_has_passed(
    catalog: Catalog, spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(
        catalog, {"id": "BIGINT", "dt": "STRING", "hour": "INT"}, partitions=["dt", "hour"]
    )
    feed = Feed(spark, tmp_path / "feed", "id long, at timestamp")
    feed.add({"id": 1, "at": "2024-06-30T21:59:59Z"}, {"id": 2, "at": "2024-06-30T22:00:00Z"})
    feed.add({"id": 3, "at": "2024-06-30T22:30:00Z"})
    at = EventTime("at", zone="Europe/Berlin", delay=dt.timedelta(minutes=30))
    feed.into(table, partition={"dt": at, "hour": replace(at, layout="H")})
    found = {row["id"]: (row["dt"], row["hour"]) for row in table.read().to_pylist()}
    assert found == {1: ("2024-06-30", 23), 2: ("2024-07-01", 0), 3: ("2024-07-01", 0)}
    plan = table.upkeep.plan_mark_done("dt > '2024'")
    is_marked = {each.partition["hour"]: each.done_since_ms is not None for each in plan.partitions}
    assert is_marked == {23: True, 0: False}
    latest = table.history.latest_snapshot()
    assert latest is not None
    assert latest.watermark == 1_719_784_800_000


@pytest.mark.mission("PT48", "RS10")
def test_a_stream_goes_into_a_fixed_partition_or_into_that_of_the_present(
    catalog: Catalog, spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(catalog, {"id": "BIGINT", "day": "DATE"}, partitions=["day"])
    feed = Feed(spark, tmp_path / "feed", "id long")
    feed.add({"id": 1})
    feed.into(table, partition={"day": dt.date(2020, 2, 3)})
    feed.add({"id": 2})
    before = dt.datetime.now(dt.UTC).date()
    feed.into(table, partition={"day": ProcessingTime()})
    after = dt.datetime.now(dt.UTC).date()
    days = {row["id"]: row["day"] for row in table.read().to_pylist()}
    assert days[1] == dt.date(2020, 2, 3)
    assert before <= days[2] <= after


@pytest.mark.deep
@pytest.mark.mission("PT48", "PT49")
def test_upserts_go_on_beside_a_compaction_and_a_new_column(catalog: Catalog, feed: Feed) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "2"})

    def meanwhile(call: Call) -> None:
        if puts_snapshot(call) and call.path.endswith("/snapshot-2"):
            compact(table, full=True)
            table.alter(AddColumn("more", "STRING"))

    feed.add(*events(1, 2))
    feed.add(*events(2, 3, v="w"))
    feed.add(*events(3, 4, v="x"))
    raced = over(table, WatchedFiles(table.table_files.fs, before=meanwhile))
    feed.into(raced, output="update")
    assert values_of(catalog.table("db.t"), "v") == ["v1", "w2", "x3", "x4"]
    assert batches_of(table).count(1) == 1


@pytest.mark.parametrize("keys", [[], ["day", "id"]], ids=["append", "upsert"])
@pytest.mark.mission("PT1", "PT13", "PT49")
@pytest.mark.sampled(1)
def test_a_stream_goes_on_when_the_partition_keys_change_under_a_staged_batch(
    catalog: Catalog, feed: Feed, keys: list[str]
) -> None:
    options = {"bucket": "2"} if keys else {}
    table = new_table(catalog, partitions=["day"], keys=keys, options=options)

    def change(call: Call) -> None:
        if puts_snapshot(call) and call.path.endswith("/snapshot-2"):
            table.upkeep.respec([])

    for day in ("a", "b"):
        feed.add(*events(1, 2, day="a", v=day), *events(3, day=day))
    feed.into(over(table, WatchedFiles(table.table_files.fs, before=change)), output="append")
    table = catalog.table(table.name)
    assert table.schema.partition_keys == ()
    assert batches_of(table).count(1) == 1
    expected = ["a1", "a2", "b1", "b2", "v3", "v3"]
    assert values_of(table, "v") == sorted(expected[2:] if keys else expected)


@pytest.mark.deep
@pytest.mark.mission("PT49")
def test_the_states_of_a_query_advance_with_a_batch_that_the_table_holds_already(
    catalog: Catalog, feed: Feed
) -> None:
    table = new_table(catalog, {"day": "STRING", "n": "BIGINT"})

    def counts() -> DataFrame:
        return feed.rows().groupBy("day").agg(f.count("*").alias("n"))

    for ids in ((1, 2), (3,)):
        feed.add(*events(*ids))
        feed.into(table, counts(), output="complete")
    assert table.read().to_pylist() == [{"day": "a", "n": 3}]
    for name in ("1", ".1.crc"):
        (Path(feed.checkpoint) / "commits" / name).unlink(missing_ok=True)
    feed.add(*events(4))
    feed.into(table, counts(), output="complete")
    assert table.read().to_pylist() == [{"day": "a", "n": 4}]
    assert batches_of(table) == [0, 1, 2]


def test_columns_of_csv_files_go_by_their_names_and_others_end_the_stream(
    catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = new_table(catalog, {"id": "BIGINT", "first": "STRING", "last": "STRING"})
    folder = tmp_path / "feed"
    folder.mkdir()
    command = ["--warehouse", catalog.uri, "stream", "run", "db.t", "--csv", str(folder)]
    command += ["--checkpoint", str(tmp_path / "checkpoint")]
    (folder / "a.csv").write_text("id,first,last\n1,Ada,Lovelace\n")
    (folder / "b.csv").write_text("id,last,first\n2,Hopper,Grace\n")
    assert main(command) == 0
    (folder / "c.csv").write_text("id,name\n3,Hedy\n")
    assert main(command) != 0
    said = capsys.readouterr().err
    assert "c.csv: the file lacks column first, last and has unknown column name" in said
    assert "nothing of the batch was written" in said
    assert sorted(table.read().to_pylist(), key=lambda row: int(row["id"])) == [
        {"id": 1, "first": "Ada", "last": "Lovelace"},
        {"id": 2, "first": "Grace", "last": "Hopper"},
    ]


def test_what_is_no_stream_of_the_table_is_refused_before_the_query_starts(
    catalog: Catalog, feed: Feed
) -> None:
    table = new_table(catalog, partitions=["day"])
    rows, at, v = feed.rows(), EventTime("at"), EventTime("v")
    refused: list[tuple[str, dict[str, Any]]] = [
        ("are no stream", {"rows": feed.spark.range(1)}),
        ("columns that db.t lacks: id2", {"rows": rows.withColumnRenamed("id", "id2")}),
        ("has no primary key", {"rows": rows, "output": "update"}),
        ("output 'sometimes'", {"rows": rows, "output": "sometimes"}),
        ("'dya' is not a partition key", {"rows": rows, "partition": {"dya": at}}),
        ("has the column day", {"rows": rows, "partition": {"day": at}}),
        ("column at, which is not", {"rows": rows.drop("day"), "partition": {"day": at}}),
        ("column v, which is string", {"rows": rows.drop("day"), "partition": {"day": v}}),
    ]
    for said, given in refused:
        with pytest.raises(InvalidRequestError, match=said):
            table.write_stream(**{"checkpoint": feed.checkpoint, **given})
    assert not Path(feed.checkpoint).exists()


@pytest.mark.mission("PT13", "PT49")
def test_the_changes_of_a_table_stream_into_another_each_once(
    catalog: Catalog, spark: SparkSession, tmp_path: Path
) -> None:
    source = new_table(catalog, keys=["id"], options={"bucket": "2"})
    target = new_table(catalog, name="db.copy", keys=["id"], options={"bucket": "1"})

    def follow() -> None:
        query = target.write_stream(
            source.read_stream(spark, consumer="copy"),
            checkpoint=str(tmp_path / "checkpoint"),
            trigger="available-now",
        )
        query.awaitTermination()

    for day, new, kinds in (
        ("a", events(1, 2, 3), ["+I", "+I", "+I"]),
        ("b", events(2, 3, 4, v="w"), ["+U", "-D", "+I"]),
    ):
        source.write(rows(source, [{**each, "day": day} for each in new], kinds))
        compact(source, full=True)
        follow()
        assert content(target) == content(source)
    # Spark says that a batch is done when it begins the one after it.
    (consumer,) = source.history.consumers()
    assert 3 <= consumer.next_snapshot_id <= 5
    follow()
    assert len(target.history.snapshots()) == 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("bucket", ["2", "-1", "-2"])
def test_of_many_changes_of_a_key_in_one_batch_the_last_one_counts(
    catalog: Catalog, spark: SparkSession, tmp_path: Path, bucket: str
) -> None:
    source = new_table(
        catalog,
        partitions=["day"],
        keys=["day", "id"],
        options={"bucket": "1", "changelog-producer": "input"},
    )
    target = new_table(catalog, name="db.copy", keys=["id"], options={"bucket": bucket})

    def follow() -> None:
        query = target.write_stream(
            source.read_stream(spark, consumer="copy"),
            checkpoint=str(tmp_path / "checkpoint"),
            trigger="available-now",
        )
        query.awaitTermination()
        if bucket == "-2":
            target.upkeep.postpone_compact()

    source.write(rows(source, events(0)))
    follow()
    # The rows of a key lie in several partitions, which different tasks read.
    for day, new, kinds in (
        ("z", [*events(1, 2, 3, v="old")], ["+I"] * 3),
        ("a", [*events(1, 1, v="less"), *events(1, 2, 3, v="new")], ["-U", "+U", "-D", "+U", "+I"]),
        ("m", [*events(3, v="new")], ["-D"]),
        ("c", [*events(4, v="w"), *events(4, v="x"), *events(4, v="y")], ["+I", "-U", "+U"]),
    ):
        source.write(rows(source, [{**each, "day": day} for each in new], kinds))
    follow()
    found = {row["id"]: row["v"] for row in target.read().to_pylist()}
    assert found == {0: "v0", 2: "new2", 4: "y4"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_files_with_other_columns_than_the_table_end_the_stream_and_write_nothing(
    catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    table = new_table(catalog, {"id": "BIGINT", "v": "STRING"})
    folder = tmp_path / "feed"
    folder.mkdir()
    command = ["--warehouse", catalog.uri, "stream", "run", "db.t", f"--{kind}", str(folder)]
    command += ["--checkpoint", str(tmp_path / "checkpoint")]
    write = pq.write_table if kind == "parquet" else orc.write_table
    write(pa.table({"id": [1], "v": ["a"]}), folder / f"the [first] 1%.{kind}")
    assert main(command) == 0
    write(pa.table({"id": [2], "v": ["b"], "city": ["Ulm"]}), folder / f"b.{kind}")
    assert main(command) != 0
    assert f"b.{kind}: the file has unknown column city" in capsys.readouterr().err
    assert values_of(table, "id") == [1]
    assert main([*command, "--ignore-extra-columns"]) == 0
    # Older files may lack a nullable column, and not every one.
    write(pa.table({"id": [3]}), folder / f"c.{kind}")
    assert main(command) == 0
    assert values_of(table, "id") == [1, 2, 3]
    write(pa.table({"city": ["Rom"]}), folder / f"d.{kind}")
    assert main([*command, "--ignore-extra-columns"]) != 0
    assert f"d.{kind}: the file lacks column id, v" in capsys.readouterr().err
    assert values_of(table, "id") == [1, 2, 3]
    assert_only_reachable_files(table)


def test_a_stream_of_a_table_that_was_dropped_and_created_anew_is_refused(
    catalog: Catalog, spark: SparkSession, tmp_path: Path
) -> None:
    """Its offsets are numbers of snapshots, which the new table has, too."""
    source = new_table(catalog, keys=["id"], options={"bucket": "1"})
    target = new_table(catalog, name="db.copy", keys=["id"], options={"bucket": "1"})

    def follow() -> None:
        query = target.write_stream(
            catalog.table("db.t").read_stream(spark),
            checkpoint=str(tmp_path / "checkpoint"),
            trigger="available-now",
        )
        query.awaitTermination()

    source.write(rows(source, events(1)))
    follow()
    catalog.drop_table("db.t")
    source = new_table(catalog, keys=["id"], options={"bucket": "1"})
    for number in (2, 3, 4):
        source.write(rows(source, events(number)))
    expire(source)
    with pytest.raises(StreamingQueryException, match=r"db\.t was dropped and created again"):
        follow()
    assert values_of(target, "id") == [1]
