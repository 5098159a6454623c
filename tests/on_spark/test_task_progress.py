"""Work on Spark tells how many of its tasks are done."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.platform.upkeep.procedure import Work
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.spark import SparkEngine
from tests.support.processes.told_tasks import TASKS, Heard, LastWaits
from tests.support.tables.builders import new_table, rows


def test_tasks_are_told_while_others_still_work(spark: SparkSession, tmp_path: Path) -> None:
    heard = Heard(tmp_path)
    engine = SparkEngine(spark, counts=heard)
    assert engine.map(LastWaits(tmp_path), range(TASKS)) == [0, 10, 20, 30]
    assert (heard.totals, heard.done) == ([TASKS], [TASKS])
    assert not spark.sparkContext.getJobTags()


def refuses(number: int) -> int:
    raise InvalidRequestError(f"task {number} is refused")


def breaks(number: int) -> int:
    if number == 1:
        raise ValueError("task 1 is broken")
    return number


def test_a_job_that_fails_leaves_no_tag_and_does_not_tell_that_all_is_done(
    spark: SparkSession,
) -> None:
    heard = Heard()
    engine = SparkEngine(spark, counts=heard)
    with pytest.raises(Exception, match="task 1 is broken"):
        engine.map(breaks, [0, 1])
    assert heard.totals == [2]
    assert heard.done[0] < 2
    assert not spark.sparkContext.getJobTags()
    with pytest.raises(InvalidRequestError, match="task 0 is refused"):
        engine.map(refuses, [0])


def test_a_receiver_that_fails_beside_the_job_does_not_end_it(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Heard):
        def advance(self) -> None:
            super().advance()
            if self.done[-1] >= TASKS - 1:
                raise OSError("the terminal is gone")

    engine = SparkEngine(spark, counts=Broken(tmp_path))
    assert engine.map(LastWaits(tmp_path), range(TASKS)) == [0, 10, 20, 30]
    assert "the terminal is gone" in caplog.text


def test_a_verb_of_upkeep_tells_its_tasks(catalog: Catalog, spark: SparkSession) -> None:
    table = new_table(catalog, {"day": "STRING NOT NULL", "id": "BIGINT"}, partitions=["day"])
    for _ in range(2):
        table.write(rows(table, [{"day": day, "id": 1} for day in ("a", "b", "c")]))
    heard = Heard()
    work = Work(run="a run", session=lambda: spark, counts=heard)
    engine = work.engine(EngineChoice.SPARK, 0)
    assert engine.name == "spark"
    table.upkeep.compact(full=True, min_files=2, engine=engine)
    assert len(table.at().files()) == 3
    assert sum(heard.totals) >= 3
    assert heard.done == heard.totals
