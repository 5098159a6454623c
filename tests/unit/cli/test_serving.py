"""`lakewright up`: what is served, and what is said where nothing says so."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
import pytest

from lakewright.definitions import defs
from lakewright.demo.workspace import workspace_to_serve
from tests.unit.cli.conftest import Lakewright


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is no checkout, with nothing of the workspace in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("TABLES", "POLICY", "WAREHOUSE"):
        monkeypatch.delenv(f"LAKEWRIGHT_{name}", raising=False)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return tmp_path


def test_outside_a_checkout_it_says_how_to_name_tables(
    lakewright: Lakewright, elsewhere: Path
) -> None:
    ended = lakewright(None, "up")
    assert ended.code == 3
    assert f"{elsewhere} holds no workspace.yaml, and neither LAKEWRIGHT_TABLES nor " in ended.err
    assert "LAKEWRIGHT_TABLES=tables" in ended.err
    assert list(elsewhere.iterdir()) == []


def test_tables_that_are_not_there_are_named(
    lakewright: Lakewright, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWRIGHT_TABLES", "tables")
    ended = lakewright(None, "up")
    assert ended.code == 3
    assert f"LAKEWRIGHT_TABLES names {elsewhere / 'tables'}, which does not exist" in ended.err


def test_tables_that_are_named_are_served_from_any_folder(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "tables").mkdir()
    (elsewhere / "more.yaml").touch()
    monkeypatch.setenv("LAKEWRIGHT_TABLES", os.pathsep.join(["tables", "more.yaml"]))

    served = workspace_to_serve(None)

    assert served.file is None
    assert served.environment["LAKEWRIGHT_TABLES"] == os.pathsep.join(
        [str(elsewhere / "tables"), str(elsewhere / "more.yaml")]
    )
    assert served.environment["LAKEWRIGHT_WAREHOUSE"] == str(elsewhere / "warehouse")
    assert served.home == elsewhere / "dagster_home"


def test_policies_alone_are_served_from_any_folder(
    lakewright: Lakewright, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWRIGHT_POLICY", "policy.yaml")
    ended = lakewright(None, "up")
    assert ended.code == 3
    assert f"LAKEWRIGHT_POLICY names {elsewhere / 'policy.yaml'}, which does not" in ended.err

    (elsewhere / "policy.yaml").write_text("warehouse: {mode: shadow}\n")
    served = workspace_to_serve(None)

    assert served.file is None
    assert served.environment["LAKEWRIGHT_POLICY"] == str(elsewhere / "policy.yaml")
    assert served.environment["LAKEWRIGHT_TABLES"] == ""


def test_an_empty_folder_of_tables_is_served(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "tables").mkdir()
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", str(elsewhere / "warehouse"))
    monkeypatch.setenv("LAKEWRIGHT_TABLES", "tables")
    assert workspace_to_serve(None).tables == str(elsewhere / "tables")
    dg.Definitions.validate_loadable(defs())
