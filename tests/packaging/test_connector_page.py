"""The connector of the page: installed as a package, found, and used from SQL, YAML and Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "writing-a-connector.md"

_DECLARATION = """
table: shop.days
columns:
  - {name: day, type: DATE}
  - {name: degrees, type: INT}
source:
  connector: weather
  options: {station: "10637", days: "40"}
"""
_MATERIALIZE = """
import sys
import dagster as dg
from lakewright.cli import main
from lakewright.definitions import build_definitions
from lakewright.platform.orchestration.resources import WarehouseResource
assert main(["check", sys.argv[1]]) == 0
found = build_definitions([sys.argv[1]], warehouse=WarehouseResource(uri=sys.argv[2]))
own = [each for each in found.assets if isinstance(each, dg.AssetsDefinition)]
assert dg.materialize(own, resources=found.resources, selection="shop/days").success
assert main(["--warehouse", sys.argv[2], "read", "shop.days"]) == 0
"""


def block(kind: str, beginning: str) -> str:
    """The block of the page that begins so."""
    found = [
        text
        for text in re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)
        if text.startswith(beginning)
    ]
    assert len(found) == 1, beginning
    return found[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the package of the page is installed."""
    source = tmp_path_factory.mktemp("package")
    code = block("python", '"""Degrees')
    assert len([line for line in code.splitlines() if line.strip()]) < 50
    (source / "lakewright_weather.py").write_text(code)
    (source / "pyproject.toml").write_text(block("toml", "[build-system]"))
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
            *("--no-build-isolation", "--target", str(folder), str(source)),
        ],
        check=True,
        capture_output=True,
    )
    return folder


def run(site: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.mission("CN2", "CN4", "CN11", "CN16", "RS19")
def test_the_page_makes_a_connector_that_is_found_and_queried(site: Path, tmp_path: Path) -> None:
    listed = json.loads(run(site, "-m", "lakewright.cli", "connectors", "--format", "json"))
    weather = next(each for each in listed if each["name"] == "weather")
    assert weather["distribution"] == "lakewright-weather"
    assert [each["name"] for each in weather["options"]] == ["station", "days"]

    warehouse = str(tmp_path / "warehouse")
    statements = "CREATE DATABASE shop; " + block("sql", "CREATE TABLE shop.degrees")
    sql = ("-m", "lakewright.cli", "--warehouse", warehouse, "sql", "--format", "json")
    told = run(site, *sql, statements)
    assert f"{sum(at % 30 - 5 for at in range(366)) / 366:.6f}"[:6] in told


@pytest.mark.mission("CN14", "RS23")
@pytest.mark.spark
@pytest.mark.deep
def test_the_connector_of_the_page_runs_in_sparks_tasks(site: Path, tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    statements = (
        "CREATE DATABASE shop; CREATE TABLE shop.degrees (day DATE, degrees INT) WITH "
        "('connector' = 'weather', 'station' = '1', 'days' = '250'); "
        "SET 'query.engine' = 'spark'; SELECT count(DISTINCT day) AS n FROM shop.degrees"
    )
    told = run(site, "-m", "lakewright.cli", "--warehouse", warehouse, "sql", statements)
    assert "250" in told


def test_the_connector_of_the_page_is_the_source_of_a_declared_table(
    site: Path, tmp_path: Path
) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "days.yaml").write_text(_DECLARATION)
    warehouse = str(tmp_path / "warehouse")
    told = run(site, "-c", _MATERIALIZE, str(tmp_path / "tables"), warehouse)
    assert "2024-02-09" in told


def test_the_tests_of_the_page_pass(site: Path, tmp_path: Path) -> None:
    suite = block("python", "from lakewright.connectors.testing")
    suite = suite.replace("SparkSourceSuite", "SourceSuite")
    (tmp_path / "test_weather.py").write_text(
        f"import datetime as dt\nfrom lakewright_weather import Weather\n{suite}"
    )
    told = run(site, "-m", "pytest", "-q", "-c", os.devnull, str(tmp_path / "test_weather.py"))
    assert re.search(r"1\d passed", told), told
