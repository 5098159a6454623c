"""The workspace file at the top of a checkout: what `dagster dev -w workspace.yaml` serves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from lakewright.demo import DEMO_TABLES
from lakewright.platform.documents.variables import POLICY_VARIABLE, TABLES_VARIABLE
from tests.pipelines.lake import EVENTS

FILE = Path(__file__).parents[2] / "workspace.yaml"
_KEYS = """
import importlib, sys
found = importlib.import_module(sys.argv[1]).defs()
print(*(each.to_user_string() for each in found.resolve_asset_graph().get_all_asset_keys()))
"""


def ran(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A process in an empty folder, whose environment names these tables and policies only."""
    others = {key: text for key, text in os.environ.items() if not key.startswith("LAKEWRIGHT_")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**others, "LAKEWRIGHT_WAREHOUSE": str(folder / "warehouse"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("named", [False, True], ids=["the demo", "tables that are named"])
def test_the_workspace_file_serves_the_demo_or_the_tables_that_are_named(
    tmp_path: Path, *, named: bool
) -> None:
    declared, variables = DEMO_TABLES, {}
    if named:
        declared = tmp_path / "tables"
        declared.mkdir()
        (declared / "events.yaml").write_text(dedent(EVENTS))
        variables = {TABLES_VARIABLE: str(declared), POLICY_VARIABLE: ""}
    (location,) = yaml.safe_load(FILE.read_text())["load_from"]
    served = ran(tmp_path, "-c", _KEYS, location["python_module"], **variables)
    assert served.returncode == 0, served.stderr
    keys = set(served.stdout.split())
    tables = {
        each["table"].replace(".", "/")
        for file in declared.glob("*.yaml")
        for document in yaml.safe_load_all(file.read_text())
        for each in document.get("tables", [document])
    }
    assert tables
    assert keys >= tables
    assert named is ("nyc/flights" not in keys)


def test_dagster_finds_nothing_wrong_with_the_workspace_file(tmp_path: Path) -> None:
    told = ran(tmp_path, "-m", "dagster", "definitions", "validate", "-w", str(FILE))
    assert told.returncode == 0, told.stderr
    assert "All code locations passed validation" in told.stdout + told.stderr
