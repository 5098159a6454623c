"""What Spark's pages and listeners see of actions of ours, in sessions that users bring."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from lakewright.storage import Catalog
from lakewright.storage.spark import SparkEngine
from tests.support.tables.builders import events, new_table, rows

_DESCRIPTION = "spark.job.description"


class Listener:
    """What a listener for lineage asks of each query: where it reads, and what it tells."""

    def __init__(self) -> None:
        self.seen: list[tuple[dict[str, tuple[int, ...]], list[str]]] = []

    def onSuccess(self, name: str, query: Any, took_ns: int) -> None:  # noqa: N802
        metrics = query.observedMetrics()
        told = {}
        for pair in (metrics.toSeq().apply(at) for at in range(metrics.size())):
            row = pair._2()
            told[pair._1()] = tuple(row.getLong(at) for at in range(row.size()))
        leaves = query.analyzed().collectLeaves()
        self.seen.append((told, [str(leaves.apply(at)) for at in range(leaves.size())]))

    def onFailure(self, name: str, query: Any, error: Any) -> None:  # noqa: N802
        self.seen.append(({}, ["failed"]))

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


@pytest.fixture
def listener(spark: SparkSession) -> Iterator[Listener]:
    ensure_callback_server_started(spark.sparkContext._gateway)
    heard = Listener()
    listeners = spark._jsparkSession.listenerManager()  # type: ignore[attr-defined]
    listeners.register(heard)
    yield heard
    listeners.unregister(heard)


def descriptions(spark: SparkSession) -> list[str]:
    """What the page of jobs says, the newest first, when all listeners have heard of them."""
    java = spark.sparkContext._jsc.sc()
    java.listenerBus().waitUntilEmpty()
    jobs = java.statusStore().jobsList(None)
    said = [jobs.apply(at).description() for at in range(jobs.size())]
    return [each.get() if each.isDefined() else "" for each in said]


def test_jobs_say_verb_and_table_beside_what_the_caller_says_and_listeners_get_what_was_written(
    catalog: Catalog, spark: SparkSession, listener: Listener, tmp_path: Path
) -> None:
    table = new_table(catalog, partitions=["day"])
    source = str(tmp_path / "source")
    spark.range(40).selectExpr("id", "'a' AS day").write.parquet(source)
    context = spark.sparkContext
    context.setJobDescription("nightly load")
    try:
        for _ in range(2):
            table.write(spark.read.parquet(source))
        assert context.getLocalProperty(_DESCRIPTION) == "nightly load"
    finally:
        context.setLocalProperty(_DESCRIPTION, None)  # type: ignore[arg-type]
    table.upkeep.compact(full=True, engine=SparkEngine(spark))
    assert context.getLocalProperty(_DESCRIPTION) is None

    assert descriptions(spark)[:2] == [
        "lakewright compact db.t",
        "lakewright append db.t\nnightly load",
    ]
    size = sum(entry.file.file_size for entry in table.at().files())
    ours = [(told, leaves) for told, leaves in listener.seen if told]
    for told, leaves in ours[:2]:
        assert told["lakewright append db.t"][0] == 40
        # The input of the caller's query is there to be found.
        assert [each.split()[0] for each in leaves] == ["Relation"]
    assert ours[2][0] == {"lakewright compact db.t": (80, size)}


def test_a_failed_action_leaves_the_callers_description(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = new_table(catalog)
    spark.sparkContext.setJobDescription("mine")
    try:
        with pytest.raises(Exception, match="no such row"):
            table.write(spark.range(2).selectExpr("id", "raise_error('no such row') AS v"))
        assert spark.sparkContext.getLocalProperty(_DESCRIPTION) == "mine"
    finally:
        spark.sparkContext.setLocalProperty(_DESCRIPTION, None)  # type: ignore[arg-type]


def test_actions_of_two_threads_have_names_of_their_own(
    catalog: Catalog, spark: SparkSession
) -> None:
    tables = [new_table(catalog, name=f"db.t{number}") for number in range(2)]
    for table in tables:
        for first in range(3):
            table.write(rows(table, events(first, first + 1)))

    def compact(number: int) -> None:
        tables[number].upkeep.compact(full=True, engine=SparkEngine(spark))

    threads = [Thread(target=compact, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = {"lakewright compact db.t0", "lakewright compact db.t1"}
    assert wanted <= {*descriptions(spark)}
    assert all(len(table.at().files()) == 1 for table in tables)
