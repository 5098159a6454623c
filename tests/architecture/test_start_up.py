"""What a process imports: a run that asks no expectation and needs no Spark pays for neither."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.architecture.sources import ROOT

_TABLE = """
table: shop.events
columns:
  - {name: id, type: BIGINT NOT NULL}
  - {name: amount, type: DOUBLE}
source: {python: "tests.pipelines.sources:rows"}
write: {engine: local, mode: append}
maintenance: {compaction: {min_bytes: 0 b, small_files: 2}}
"""
_EXPECTATION = """
expectations:
  - {expect: expect_column_values_to_be_between, column: amount, min_value: 0}
"""
_LOAD = """
import sys
from pathlib import Path
from lakewright.definitions import build_definitions
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.resources import WarehouseResource

names = TableNames("shop.events")

folder = Path(sys.argv[1])
warehouse = WarehouseResource(uri=str(folder / "warehouse"))
definitions = build_definitions([folder / "tables.yaml"], warehouse=warehouse)
repository = definitions.get_repository_def()
"""
_INGEST = """
from tests.pipelines import sources
sources.give("shop.events", [{"id": 1, "amount": 1.0}])
for _ in range(2):
    assert definitions.resolve_job_def(names.job("ingest")).execute_in_process().success
"""
_COMPACT = """
config = {"ops": {"compact": {"config": {"tables": {"shop.events": {}}}}}}
assert definitions.resolve_job_def("compact").execute_in_process(run_config=config).success
assert len(warehouse.catalog().table("shop.events").history.snapshots()) == 3
"""


def imported(tmp_path: Path, declaration: str, work: str) -> set[str]:
    """Names of modules that a process has imported after some work."""
    (tmp_path / "tables.yaml").write_text(declaration)
    told = "\nprint(*sys.modules, file=sys.stderr)"
    ran = subprocess.run(
        [sys.executable, "-c", _LOAD + work + told, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stderr.splitlines()[-1].split())


def test_loading_definitions_imports_no_expectations_and_no_spark(tmp_path: Path) -> None:
    found = imported(tmp_path, _TABLE + _EXPECTATION, "")
    assert not found & {"great_expectations", "pyspark", "pandas", "scipy"}


def test_runs_that_ask_no_expectation_import_none_and_no_spark(tmp_path: Path) -> None:
    found = imported(tmp_path, _TABLE, _INGEST + _COMPACT)
    assert not found & {"great_expectations", "pyspark", "scipy"}


def test_a_run_imports_of_its_expectations_what_it_needs(tmp_path: Path) -> None:
    found = imported(tmp_path, _TABLE + _EXPECTATION, _INGEST)
    assert "great_expectations" in found
    assert not found & {"altair.vegalite", "scipy.stats.distributions"}
