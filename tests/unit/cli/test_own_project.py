"""Commands in the folder of a project: they find what it declares, and what it keeps tables by."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Lakewright


@pytest.fixture
def project(
    tmp_path: Path, lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """What `lakewright init` makes, with a second table."""
    folder = tmp_path / "my-shop.1"
    lakewright(None, "init", str(folder))
    for name in ("LAKEWRIGHT_TABLES", "LAKEWRIGHT_POLICY", "LAKEWRIGHT_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("LAKEWRIGHT_LEDGER", raising=False)
    monkeypatch.chdir(folder)
    (folder / "tables" / "visits.yaml").write_text(
        "table: web.visits\n"
        "columns: [{name: id, type: BIGINT NOT NULL}, {name: page, type: STRING}]\n"
        "primary_key: [id]\n"
        "source: {csv: visits.csv}\n"
    )
    (folder / "tables" / "visits.csv").write_text("id,page\n1,a\n")
    before = [*sys.path]
    yield folder
    sys.path[:] = before


def test_the_module_of_a_project_has_the_name_of_its_folder(project: Path) -> None:
    assert (project / "my_shop_1" / "definitions.py").is_file()
    assert 'root_module = "my_shop_1"' in (project / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("folder", "module"), [("json", "json_lake"), ("tables", "tables_lake"), ("2024", "lake_2024")]
)
def test_a_module_that_would_hide_another_gets_another_name(
    tmp_path: Path, lakewright: Lakewright, folder: str, module: str
) -> None:
    lakewright(None, "init", str(tmp_path / folder))
    assert (tmp_path / folder / module / "definitions.py").is_file()


def test_backfill_finds_the_tables_and_goes_past_a_wrong_declaration_of_another(
    project: Path, lakewright: Lakewright
) -> None:
    wrong = "table: web.bad\ncolumns: [{name: x, type: NOSUCH}]\nsource: {csv: x.csv}\n"
    (project / "tables" / "bad.yaml").write_text(wrong)
    written = lakewright(None, "backfill", "web.visits")
    assert "1 row written into web.visits" in written.out
    assert "another declaration is wrong: tables/bad.yaml:2" in written.err
    refused = lakewright(None, "backfill", "web.bad", code=2)
    assert "the declaration of web.bad is wrong" in refused.err
    (project / "tables" / "visits.csv").write_text("id\n1\n")
    lacking = lakewright(None, "backfill", "web.visits")
    assert "column page is missing in" in lacking.out
    assert "null, or its default, in 1 row" in lacking.out


def test_what_is_done_by_hand_is_recorded_in_a_project_with_policies(
    project: Path, lakewright: Lakewright
) -> None:
    lakewright(None, "backfill", "web.visits")
    assert "has no ledger" in lakewright(None, "ledger").out
    lakewright(None, "compact", "web.visits", "--full")
    assert "compact" in lakewright(None, "ledger", "web.visits").out


def test_policies_of_the_project_are_not_those_of_another_warehouse(
    project: Path, tmp_path: Path, lakewright: Lakewright
) -> None:
    lakewright(None, "backfill", "web.visits")
    assert "nothing was due" in lakewright(None, "upkeep").out
    (project / "warehouse").rename(tmp_path / "other")
    other = lakewright(None, "--warehouse", str(tmp_path / "other"), "upkeep", code=2)
    assert "no policy says what upkeep may do" in other.err


def test_a_change_that_waits_for_a_person_is_no_success(
    project: Path, lakewright: Lakewright
) -> None:
    lakewright(None, "backfill", "web.visits")
    file = project / "tables" / "visits.yaml"
    file.write_text(file.read_text().replace(", {name: page, type: STRING}", ""))
    for how in ([], ["--dry-run"]):
        waiting = lakewright(None, "evolve-schema", "web.visits", *how, code=1)
        assert "accept it by: lakewright alter web.visits --drop page" in waiting.out


def test_the_first_statement_of_an_empty_folder_is_told_the_way_out(
    tmp_path: Path, lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = lakewright(None, "sql", "CREATE TABLE a.b (id INT)", code=3)
    assert "CREATE DATABASE name" in refused.err
