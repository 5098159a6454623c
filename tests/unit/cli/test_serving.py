"""`lakewright init` and `lakewright up`: a project that runs, and what is served in any folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from lakewright.definitions import defs
from lakewright.project.serve import serve, workspace_of
from lakewright.storage import Catalog
from tests.pipelines.lake import ingest_job
from tests.unit.cli.conftest import Lakewright

REPORTS = "http://127.0.0.1:3002"
SETTINGS = Path(__file__).parents[3] / "dagster_home" / "dagster.yaml"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is no checkout, with nothing of the workspace in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("TABLES", "POLICY", "WAREHOUSE"):
        # Set first, so that what serving sets goes again.
        monkeypatch.setenv(f"LAKEWRIGHT_{name}", "")
        monkeypatch.delenv(f"LAKEWRIGHT_{name}")
    monkeypatch.setenv("DAGSTER_HOME", "")
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that took this process's place."""
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: commands.append(command))
    monkeypatch.setattr(os, "environ", os.environ.copy())
    # The server would live as long as this process does.
    monkeypatch.setattr("lakewright.project.serve.start_server", lambda *_: REPORTS)
    return commands


def test_an_empty_folder_is_served_on_loopback_and_says_what_to_do_first(
    elsewhere: Path, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    serve("./warehouse", (), (), 3001)
    (command,) = started
    assert command[:4] == [sys.executable, "-m", "dagster", "dev"]
    shown = " ".join(command)
    assert "--module-name lakewright.definitions --host 127.0.0.1 --port 3001" in shown
    said = capsys.readouterr().out
    assert "lakewright init" in said
    assert f"report: {REPORTS} " in said
    assert os.environ["LAKEWRIGHT_REPORTS_URL"] == REPORTS
    assert "lakewright adopt" in said
    assert (elsewhere / "dagster_home" / "dagster.yaml").read_bytes() == SETTINGS.read_bytes()
    assert os.environ["DAGSTER_HOME"] == str(elsewhere / "dagster_home")
    assert os.environ["LAKEWRIGHT_TABLES"] == ""
    # Nothing is declared, and that is no error.
    dg.Definitions.validate_loadable(defs())


def test_settings_that_are_there_stay(elsewhere: Path) -> None:
    (elsewhere / "dagster_home").mkdir()
    (elsewhere / "dagster_home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    workspace_of("./warehouse")
    settings = (elsewhere / "dagster_home" / "dagster.yaml").read_text()
    assert settings == "telemetry: {enabled: false}\n"


@pytest.mark.parametrize("option", ["--tables", "--policy"])
def test_paths_that_are_not_there_are_named_and_nothing_is_written(
    lakewright: Lakewright, elsewhere: Path, option: str
) -> None:
    ended = lakewright(None, "up", option, "nowhere", code=3)
    assert f"{elsewhere / 'nowhere'} does not exist" in ended.err
    assert list(elsewhere.iterdir()) == []


def test_tables_that_a_variable_names_are_served_from_any_folder(
    lakewright: Lakewright,
    elsewhere: Path,
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (elsewhere / "tables").mkdir()
    (elsewhere / "more.yaml").touch()
    monkeypatch.setenv("LAKEWRIGHT_TABLES", os.pathsep.join(["tables", "more.yaml"]))
    lakewright(None, "up")
    named = os.pathsep.join([str(elsewhere / "tables"), str(elsewhere / "more.yaml")])
    assert os.environ["LAKEWRIGHT_TABLES"] == named
    assert os.environ["LAKEWRIGHT_WAREHOUSE"] == str(elsewhere / "warehouse")
    assert "lakewright.definitions" in started[0]


def test_policies_alone_are_served_from_any_folder(
    lakewright: Lakewright, elsewhere: Path, started: list[list[str]]
) -> None:
    (elsewhere / "policy.yaml").write_text("warehouse: {mode: shadow}\n")
    lakewright(None, "up", "--policy", "policy.yaml")
    assert os.environ["LAKEWRIGHT_POLICY"] == str(elsewhere / "policy.yaml")
    assert "lakewright.definitions" in started[0]


def test_an_empty_folder_of_tables_is_served(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "tables").mkdir()
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", str(elsewhere / "warehouse"))
    monkeypatch.setenv("LAKEWRIGHT_TABLES", "tables")
    dg.Definitions.validate_loadable(defs())


def test_the_example_of_a_new_project_is_written_by_dagster(
    lakewright: Lakewright, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lakewright(None, "init", "shop")
    shop = elsewhere / "shop"
    written = [Path(line.removeprefix("wrote ")) for line in made.lines if "wrote" in line]
    assert {elsewhere / each for each in written} == {
        each for each in shop.rglob("*") if each.is_file()
    }
    assert "lakewright up" in made.lines[-2]
    monkeypatch.chdir(shop)
    lakewright(None, "check", "tables", "policy.yaml")

    # As Dagster has the folder in which it was started.
    monkeypatch.syspath_prepend(str(shop))
    # Runs begin in folders of their own.
    monkeypatch.chdir(elsewhere)
    loaded = dg.load_from_defs_folder(path_within_project=shop / "lake")
    monkeypatch.setenv("DAGSTER_HOME", str(shop / "dagster_home"))
    with dg.DagsterInstance.get() as instance:
        asked = ingest_job(loaded, dg.AssetKey(["shop", "orders"]))
        assert asked.execute_in_process(instance=instance).success
    rows = Catalog.open(str(shop / "warehouse")).table("shop.orders").read()
    assert rows.num_rows == 3


def test_a_new_project_is_served_as_it_says_itself(
    lakewright: Lakewright,
    elsewhere: Path,
    started: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lakewright(None, "init")
    ended = lakewright(None, "up")
    assert "init" not in ended.out
    assert "--module-name" not in started[0]
    assert os.environ["DAGSTER_HOME"] == str(elsewhere / "dagster_home")
    settings = yaml.safe_load((elsewhere / "dagster_home" / "dagster.yaml").read_text())
    assert settings["run_launcher"]["class"] == "WarmRunLauncher"


def test_a_project_overwrites_no_file(lakewright: Lakewright, elsewhere: Path) -> None:
    (elsewhere / "policy.yaml").write_text("warehouse: {}\n")
    ended = lakewright(None, "init", code=2)
    assert "policy.yaml exists; nothing was written" in ended.err
    assert [each.name for each in elsewhere.iterdir()] == ["policy.yaml"]


def test_a_project_is_not_written_through_a_link(lakewright: Lakewright, elsewhere: Path) -> None:
    (elsewhere / "policy.yaml").symlink_to(elsewhere / "nowhere.yaml")
    ended = lakewright(None, "init", code=2)
    assert "policy.yaml exists; nothing was written" in ended.err
    assert not (elsewhere / "nowhere.yaml").exists()


def test_a_home_of_dagster_that_cannot_be_made_is_named(
    lakewright: Lakewright, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "home").write_text("a file")
    monkeypatch.setenv("DAGSTER_HOME", "home")
    ended = lakewright(None, "up", code=2)
    assert f"{elsewhere / 'home'} (DAGSTER_HOME), which cannot be made: File exists" in ended.err
