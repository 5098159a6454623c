"""What a process imports: a run that asks no expectation and needs no Spark pays for neither."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakewright.platform.ledger.ledger import Ledger
from lakewright.storage import Catalog
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
config = names.run_config("compact", {})
assert definitions.resolve_job_def("upkeep").execute_in_process(run_config=config).success
assert len(warehouse.catalog().table("shop.events").history.snapshots()) == 3
"""

_TOLD = "print(*sys.modules, file=sys.stderr)\n"
_LOOK = f"""
import sys
from lakewright.cli import main

_, warehouse, *commands = sys.argv
for command in commands:
    # As a process of the command: it reads its words from there.
    sys.argv[1:] = ["--warehouse", warehouse, *command.split(",")]
    assert main() == 0
    {_TOLD}"""
# In one process, one after the other: what one does not import, those before it did not.
_COMMANDS = {
    "ls": "ls",
    "show": "show,shop.events",
    "ledger": "ledger",
    "snapshots": "snapshots,shop.events",
    "files": "files,shop.events",
    "read": "read,shop.events",
    "sql": "sql,SHOW TABLES IN shop",
    "filter": "read,shop.events,--where,id = 1",
}
_PARSING = {"sql", "filter"}
_SPARK_AND_DAGSTER = {"dagster", "pyspark", "great_expectations", "scipy", "pydantic", "yaml"}
_CLIENTS = {"adlfs", "azure", "s3fs", "aiobotocore", "gcsfs", "thriftpy2", "paramiko", "requests"}


def imported(tmp_path: Path, declaration: str, *works: str) -> list[set[str]]:
    """Names of modules that a process has imported after each of these works."""
    (tmp_path / "tables.yaml").write_text(declaration)
    return _modules_after(_LOAD + _TOLD.join((*works, "")), str(tmp_path))


def _modules_after(program: str, *arguments: str) -> list[set[str]]:
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [set(line.split()) for line in ran.stderr.splitlines() if line.startswith("sys ")]


def test_definitions_and_runs_import_of_their_expectations_what_they_need(tmp_path: Path) -> None:
    loaded, ran = imported(tmp_path, _TABLE + _EXPECTATION, "", _INGEST)
    assert not loaded & {"great_expectations", "pyspark", "pandas", "scipy", "lakewright.demo"}
    assert "great_expectations" in ran
    assert not ran & {"altair.vegalite", "scipy.stats.distributions"}


def test_runs_that_ask_no_expectation_import_none_and_no_spark(tmp_path: Path) -> None:
    (found,) = imported(tmp_path, _TABLE, _INGEST + _COMPACT)
    assert not found & {"great_expectations", "pyspark", "scipy"}


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules of a process after each command that looks."""
    warehouse = str(tmp_path_factory.mktemp("looked") / "warehouse")
    catalog = Catalog.open(warehouse)
    Ledger(catalog).create()
    table = catalog.create_table("shop.events", {"id": "BIGINT", "v": "DOUBLE"})
    table.write([{"id": 1, "v": 1.0}])
    others = {
        "plan": "compact,shop.events,--dry-run",
        "report": f"report,--output,{warehouse}.html",
    }
    commands = {**_COMMANDS, **others}
    return dict(zip(commands, _modules_after(_LOOK, warehouse, *commands.values()), strict=True))


@pytest.mark.parametrize("command", _COMMANDS)
@pytest.mark.sampled(3)
def test_a_command_that_looks_imports_no_orchestrator_declarations_parser_or_client_of_a_store(
    looked: dict[str, set[str]], command: str
) -> None:
    """A listing statement and a filter import the parser alone."""
    assert not looked[command] & (_SPARK_AND_DAGSTER | _CLIENTS)
    assert "pandas" not in looked[command]
    assert ("sqlglot" in looked[command]) == (command in _PARSING)


def test_plans_and_the_report_need_no_orchestrator(looked: dict[str, set[str]]) -> None:
    assert not looked["report"] & {"dagster", "pyspark", "great_expectations"}


def test_the_library_imports_no_verb_that_nobody_asked_for() -> None:
    open_table = "from lakewright.storage import Catalog, Table\n"
    imported, opened = _modules_after(f"import sys, lakewright.storage\n{_TOLD}{open_table}{_TOLD}")
    assert not imported & {"pyarrow", "numpy", "fsspec", "lakewright.storage.table"}
    assert "lakewright.storage.table" in opened
    assert not opened & {"lakewright.storage.upkeep", "lakewright.storage.history", "sqlglot"}
    assert not opened & _CLIENTS


def test_the_library_has_each_of_its_names_and_no_other() -> None:
    import lakewright.storage

    for name in lakewright.storage.__all__:
        assert getattr(lakewright.storage, name) is not None
    assert set(lakewright.storage.__all__) <= set(dir(lakewright.storage))
    with pytest.raises(AttributeError, match="no attribute 'Tabel'"):
        lakewright.storage.Tabel  # type: ignore[attr-defined]  # noqa: B018  # it is looked up
