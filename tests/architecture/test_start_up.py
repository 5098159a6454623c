"""What a process imports: a run that asks no expectation and needs no Spark pays for neither."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
from tests.pipelines.lake import ingest_job
sources.give("shop.events", [{"id": 1, "amount": 1.0}])
for _ in range(2):
    assert ingest_job(definitions, names.asset_key).execute_in_process().success
"""
_COMPACT = """
config = {"ops": {"compact": {"config": {"tables": {"shop.events": {}}}}}}
assert definitions.resolve_job_def("compact").execute_in_process(run_config=config).success
assert len(warehouse.catalog().table("shop.events").history.snapshots()) == 3
"""

_MAKE_TABLE = """
import sys
from lakewright.cli import main
from lakewright.platform.ledger.ledger import Ledger
from lakewright.storage import Catalog

catalog = Catalog.open(sys.argv[1])
Ledger(catalog).create()
table = catalog.create_table("shop.events", {"id": "BIGINT", "v": "DOUBLE"})
table.write([{"id": 1, "v": 1.0}])
assert main(["--warehouse", sys.argv[1], *sys.argv[2:]]) == 0
"""
_SPARK_AND_DAGSTER = {"dagster", "pyspark", "great_expectations", "scipy", "pydantic", "yaml"}
_CLIENTS = {"adlfs", "azure", "s3fs", "aiobotocore", "gcsfs", "thriftpy2", "paramiko", "requests"}


def imported(tmp_path: Path, declaration: str, work: str) -> set[str]:
    """Names of modules that a process has imported after some work."""
    (tmp_path / "tables.yaml").write_text(declaration)
    return _modules_after(_LOAD + work, str(tmp_path))


def _modules_after(program: str, *arguments: str) -> set[str]:
    told = "\nprint(*sys.modules, file=sys.stderr)"
    ran = subprocess.run(
        [sys.executable, "-c", program + told, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stderr.splitlines()[-1].split())


def test_loading_definitions_imports_no_expectations_and_no_spark(tmp_path: Path) -> None:
    found = imported(tmp_path, _TABLE + _EXPECTATION, "")
    assert not found & {"great_expectations", "pyspark", "pandas", "scipy", "lakewright.demo"}


def test_runs_that_ask_no_expectation_import_none_and_no_spark(tmp_path: Path) -> None:
    found = imported(tmp_path, _TABLE, _INGEST + _COMPACT)
    assert not found & {"great_expectations", "pyspark", "scipy"}


def test_a_run_imports_of_its_expectations_what_it_needs(tmp_path: Path) -> None:
    found = imported(tmp_path, _TABLE + _EXPECTATION, _INGEST)
    assert "great_expectations" in found
    assert not found & {"altair.vegalite", "scipy.stats.distributions"}


@pytest.mark.parametrize(
    "command",
    [
        ["ls"],
        ["show", "shop.events"],
        ["read", "shop.events"],
        ["ledger"],
        ["snapshots", "shop.events"],
        ["files", "shop.events"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_that_looks_imports_no_orchestrator_declarations_parser_or_client_of_a_store(
    tmp_path: Path, command: list[str]
) -> None:
    found = _modules_after(_MAKE_TABLE, str(tmp_path / "warehouse"), *command)
    assert not found & (_SPARK_AND_DAGSTER | _CLIENTS | {"sqlglot"})


def test_a_listing_statement_imports_the_parser_alone(tmp_path: Path) -> None:
    statement = ["sql", "SHOW TABLES IN shop"]
    found = _modules_after(_MAKE_TABLE, str(tmp_path / "warehouse"), *statement)
    assert "sqlglot" in found
    assert not found & (_SPARK_AND_DAGSTER | _CLIENTS)


def test_importing_the_library_imports_no_verb_and_no_arrow() -> None:
    found = _modules_after("import sys, lakewright.storage")
    assert not found & {"pyarrow", "numpy", "fsspec", "lakewright.storage.table"}


def test_opening_a_table_imports_no_verb_of_upkeep() -> None:
    found = _modules_after("import sys; from lakewright.storage import Catalog, Table")
    assert "lakewright.storage.table" in found
    assert not found & {"lakewright.storage.upkeep", "lakewright.storage.history", "sqlglot"}
    assert not found & _CLIENTS


def test_the_library_has_each_of_its_names_and_no_other() -> None:
    import lakewright.storage

    for name in lakewright.storage.__all__:
        assert getattr(lakewright.storage, name) is not None
    assert set(lakewright.storage.__all__) <= set(dir(lakewright.storage))
    with pytest.raises(AttributeError, match="no attribute 'Tabel'"):
        lakewright.storage.Tabel  # type: ignore[attr-defined]  # noqa: B018  # it is looked up


@pytest.mark.parametrize("command", [["show", "shop.events"], ["sql", "SHOW TABLES IN shop"]])
def test_a_command_that_looks_does_not_import_pandas_for_arrow(
    tmp_path: Path, command: list[str]
) -> None:
    _modules_after(_MAKE_TABLE, str(tmp_path / "warehouse"), "ls")
    program = (
        "import sys; from lakewright.cli import main; code = main()\n"
        "print(code, sys.modules.get('pandas'))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines()[-1] == "0 None"
