"""What the demo says when Dagster cannot start."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakewright.demo.dagster_server import DagsterServer
from lakewright.storage.errors import UnavailableError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.deep
def test_definitions_that_cannot_be_loaded_are_told_with_the_cause(tmp_path: Path) -> None:
    home, tables = tmp_path / "home", tmp_path / "tables"
    home.mkdir()
    tables.mkdir()
    (tables / "none.yaml").write_text("table: none\n")
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", home)
    environment = {"LAKEWRIGHT_WAREHOUSE": str(tmp_path / "wh"), "LAKEWRIGHT_TABLES": str(tables)}
    server = DagsterServer(None, home, environment)
    with pytest.raises(UnavailableError, match=r"none\.yaml"), server:
        pytest.fail("it started")
