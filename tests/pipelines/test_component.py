"""The component: the same definitions in a project that is not ours."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import dagster as dg
import pytest
from dagster.components.core.component_tree import ComponentTreeException

from lakewright.platform.declare.yaml_files import DeclarationError
from tests.pipelines.describe import describe
from tests.pipelines.lake import EVENTS


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project as `create-dagster project` lays it out."""
    root = tmp_path / "their_project"
    package = root / "src" / "their_project"
    (package / "defs" / "lake" / "tables").mkdir(parents=True)
    (root / "pyproject.toml").write_text(
        '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "their_project"\n'
    )
    (package / "__init__.py").touch()
    (package / "defs" / "__init__.py").touch()
    (package / "defs" / "lake" / "tables" / "events.yaml").write_text(dedent(EVENTS))
    monkeypatch.syspath_prepend(str(root / "src"))
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == "their_project"]:
        del sys.modules[name]


def write_component(project: Path, folder: str, attributes: str) -> None:
    (project / "defs" / folder).mkdir(exist_ok=True)
    (project / "defs" / folder / "defs.yaml").write_text(
        f"type: lakewright.component.LakehouseTables\nattributes:\n{attributes}"
    )


def test_a_defs_yaml_gives_asset_checks_jobs_sensor_and_schedule(project: Path) -> None:
    write_component(project, "lake", f"  warehouse: {project}/warehouse\n")

    loaded = dg.load_from_defs_folder(path_within_project=project)

    said = describe(loaded)
    assert "asset shop/events in shop, 31 partitions, single run" in said
    assert "blocking check amount__be_between" in said
    for job in ("ingest__shop__events", "compact__lake", "expire_snapshots__lake"):
        assert f"job {job} " in said
    assert "sensor upkeep_sensor__lake: " in said
    # The project's own executor is the project's business.
    assert loaded.executor is None
    warehouse = loaded.resources["lakewright_warehouse"]
    assert warehouse.location == f"{project}/warehouse"


def test_values_may_come_from_the_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEIR_WAREHOUSE", "/data/theirs")
    write_component(project, "lake", "  warehouse: '{{ env.THEIR_WAREHOUSE }}'\n")
    loaded = dg.load_from_defs_folder(path_within_project=project)
    assert loaded.resources["lakewright_warehouse"].location == "/data/theirs"


def test_two_components_share_a_warehouse_or_have_one_each(project: Path) -> None:
    other = project / "defs" / "other"
    (other / "tables").mkdir(parents=True)
    (other / "tables" / "more.yaml").write_text("table: shop.more\n")
    write_component(project, "lake", "  warehouse: /data/one\n")

    write_component(project, "other", "  warehouse: /data/one\n")
    said = describe(dg.load_from_defs_folder(path_within_project=project))
    assert "asset shop/events" in said
    assert "asset shop/more" in said

    write_component(project, "other", "  warehouse: /data/two\n  resource_prefix: second\n")
    loaded = dg.load_from_defs_folder(path_within_project=project)
    assert loaded.resources["second_warehouse"].location == "/data/two"


def test_what_is_wrong_with_a_declaration_names_its_file(project: Path) -> None:
    write_component(project, "lake", "  tables: [tables]\n")
    file = project / "defs" / "lake" / "tables" / "events.yaml"
    file.write_text(file.read_text().replace("DOUBLE", "DUBLE"))
    with pytest.raises(ComponentTreeException) as raised:
        dg.load_from_defs_folder(path_within_project=project)
    cause = raised.value.__cause__
    assert isinstance(cause, DeclarationError)
    assert "events.yaml:6: columns[2].type: " in str(cause)
