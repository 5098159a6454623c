"""Values that a change of a schema would lose, counted in Spark tasks and in this process."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakewright.storage import Catalog, ChangeNullability, ChangeType, GateRules, Table
from lakewright.storage.errors import SchemaDenied
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.spark import SparkEngine
from lakewright.storage.spec.schema_change import SchemaChange
from lakewright.storage.spec.schema_gate import GateVerdict, Rule
from tests.support.tables.builders import new_table, rows
from tests.unit.cli.conftest import Lakewright, lakewright

__all__ = ["lakewright"]

COLUMNS = {"k": "INT", "d": "STRING", "v": "STRING", "n": "DOUBLE", "r": "ROW<x BIGINT>"}
CHANGES: tuple[SchemaChange, ...] = (
    ChangeType("v", "INT"),
    ChangeType("n", "DECIMAL(4, 1)"),
    ChangeType("r.x", "SMALLINT"),
    ChangeNullability("d", nullable=False),
)
SCANNED = GateRules(is_scanned=True)


def filled(catalog: Catalog, *, keyed: bool) -> Table:
    """Three files, one with what is lost, one with none of it, and one deleted row."""
    options = {
        "lakewright.cast-mode": "explicit",
        "alter-column-null-to-not-null.disabled": "false",
    }
    vectors = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}
    table = new_table(
        catalog,
        COLUMNS,
        keys=["k"] if keyed else [],
        options={**options, **(vectors if keyed else {})},
    )
    held = {"d": "x", "v": "1", "n": 0.5, "r": {"x": 1}}
    table.write(rows(table, [{"k": number, **held} for number in range(3)]))
    lost = {"d": None, "v": "many", "n": 0.25, "r": {"x": 70_000}}
    table.write(rows(table, [{"k": 10 + number, **lost} for number in range(4)]))
    if keyed:
        table.upkeep.compact(full=True)
        table.write(rows(table, [{"k": 10}], kinds=["-D"]))
        table.upkeep.compact(full=True)
    table.write(rows(table, [{"k": 20, **held, "v": None}]))
    return table


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
def test_a_scan_in_spark_finds_what_a_scan_in_this_process_finds(
    catalog: Catalog, spark: SparkSession, keyed: bool
) -> None:
    table = filled(catalog, keyed=keyed)
    local, in_tasks = (
        table.plan_alter(*CHANGES, rules=SCANNED, engine=engine)
        for engine in (LocalEngine(), SparkEngine(spark))
    )
    assert in_tasks == local
    lost = {each.column: each for each in local.findings if each.rule is Rule.VALUES_LOST}
    assert set(lost) == {"v", "n", "r.x", "d"}
    assert f"loses {3 if keyed else 4} values" in lost["v"].message
    assert local.verdict is GateVerdict.DENY
    with pytest.raises(SchemaDenied) as refused:
        table.run_alter(in_tasks, SparkEngine(spark))
    assert {each.column for each in refused.value.details["findings"]} == set(lost)
    assert table.table_files.schemas.ids() == [0]


def test_the_command_scans_on_spark_with_the_same_answer(
    catalog: Catalog, lakewright: Lakewright, spark: SparkSession
) -> None:
    filled(catalog, keyed=False)
    words = ("alter", "db.t", "--type", "v:INT", "--dry-run", "--scan", "--format", "json")
    local, on_spark = (
        lakewright(catalog, *words, "--engine", engine, code=2) for engine in ("local", "spark")
    )
    assert (local.code, on_spark.code) == (2, 2), on_spark.err
    assert on_spark.json == local.json
    assert local.json["summary"]["breaking"] == 1
