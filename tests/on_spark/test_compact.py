"""Compaction on Spark does what it does in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakewright.storage import Catalog, LocalEngine, VerifyLevel
from lakewright.storage.errors import CorruptionError, FileMissing, StorageError, VerificationFailed
from lakewright.storage.operations.rewrite.compaction_plan import CompactionPlan
from lakewright.storage.spark import SparkEngine
from tests.on_spark.test_read import filled
from tests.on_spark.test_write import KINDS, by_bucket, twins
from tests.support.stores import planted
from tests.support.tables.builders import content, events, rows
from tests.support.tables.invariants import unreachable_files


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.mission("FS7")
def test_the_same_plan_leaves_the_same_files_rows_and_levels(
    catalog: Catalog, spark: SparkSession, kind: str
) -> None:
    tables = twins(catalog, kind)
    results = []
    for table, engine in zip(tables, (SparkEngine(spark), LocalEngine()), strict=True):
        for day in ("a", "b"):
            table.write(rows(table, events(0, 30, day=day)))
            table.write(rows(table, events(10, 40, day=day, v="new")))
        before = content(table)
        plan = CompactionPlan.from_json(table.upkeep.plan_compact(full=True).to_json())
        results.append(table.upkeep.run(plan, engine))
        assert content(table) == before
    on_spark, local = tables
    assert content(on_spark) == content(local)
    assert by_bucket(on_spark) == by_bucket(local)
    assert levels(on_spark) == levels(local)
    for field in ("files_before", "files_after", "rows_before", "rows_after", "dropped_tasks"):
        assert getattr(results[0], field) == getattr(results[1], field)


def levels(table: object) -> list[tuple[bytes, int, int, int]]:
    files = table.at().files()  # type: ignore[attr-defined]
    return sorted(
        (each.partition, each.bucket, each.file.level, each.file.row_count) for each in files
    )


def test_a_task_that_fails_stops_the_compaction_and_keeps_its_kind(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = filled(catalog, "keyed")
    before = content(table)
    plan = table.upkeep.plan_compact(full=True)
    victim = next(entry for entry in table.at().files() if entry.file.level == 0)
    path = Path(table.table_files.data_file_path(victim.place, victim.file))
    kept = path.read_bytes()
    path.write_bytes(kept[:-8] + b"damaged!")
    with pytest.raises(CorruptionError, match="cannot be read"):
        table.upkeep.run(plan, SparkEngine(spark))
    path.unlink()
    with pytest.raises(FileMissing):
        table.upkeep.run(plan, SparkEngine(spark))
    path.write_bytes(kept)
    assert unreachable_files(table) == []
    assert content(table) == before


def test_an_engine_returns_results_in_order_and_errors_of_ours_as_themselves(
    spark: SparkSession,
) -> None:
    engine = SparkEngine(spark)
    assert engine.map(lambda number: number * number, range(17)) == [n * n for n in range(17)]
    assert engine.map(str, []) == []

    def refuse(number: int) -> int:
        if number > 2:
            raise StorageError(f"number {number} is too much", number=number)
        return number

    with pytest.raises(StorageError, match="number 3 is too much") as caught:
        engine.map(refuse, range(6))
    assert caught.value.details == {"number": 3}


def test_rows_that_change_in_a_task_are_never_published(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = filled(catalog, "keyed")
    before, snapshot = content(table), table.history.latest_snapshot()
    with pytest.raises(VerificationFailed, match="v differ") as caught:
        planted.compact_levels(
            table, planted.changed, VerifyLevel.CHECKSUMS, engine=SparkEngine(spark)
        )
    assert caught.value.details["differs"] == "v"
    assert (content(table), table.history.latest_snapshot()) == (before, snapshot)
    assert unreachable_files(table) == []
    result = table.upkeep.run(
        table.upkeep.plan_compact(full=True), SparkEngine(spark), verify="full"
    )
    assert result.snapshot is not None
    assert content(table) == before
