"""`lakewright check` finds what a run would find; `lakewright backfill` finds modules."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog
from tests.support.tables.builders import new_table
from tests.unit.cli.conftest import Lakewright

ORDERS = """\
table: shop.orders
columns:
  - {name: day, type: STRING NOT NULL}
  - {name: id, type: BIGINT NOT NULL}
partition_keys: [day]
partitions: {static: {column: day, values: [a, b]}}
source: {python: "shop_code.orders:rows"}
write: {engine: local}
"""
ROWS = """\
def rows(request):
    for day in request.values("day"):
        yield {"day": day, "id": 1}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project in `src` layout, looked at from another folder."""
    folder = tmp_path / "project"
    (folder / "tables").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("")
    (folder / "src" / "shop_code").mkdir(parents=True)
    (folder / "src" / "shop_code" / "__init__.py").write_text("")
    (folder / "src" / "shop_code" / "orders.py").write_text(ROWS)
    (folder / "tables" / "orders.yaml").write_text(ORDERS)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    before = [*sys.path]
    yield folder
    sys.path[:] = before
    for name in [each for each in sys.modules if each.partition(".")[0] == "shop_code"]:
        del sys.modules[name]


def declared(project: Path, text: str) -> str:
    (project / "tables" / "orders.yaml").write_text(text)
    return str(project / "tables")


def test_check_imports_the_functions_of_the_project_around_the_declarations(
    project: Path, lakewright: Lakewright
) -> None:
    ended = lakewright(None, "check", str(project / "tables"))
    assert ended.lines == ["1 declaration and 0 policy files: nothing is wrong"]


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        ("shop_code.order:rows", ROWS, "module shop_code.order cannot be imported"),
        ("shop_code.orders:row", ROWS, "module shop_code.orders has no function row"),
        ("shop_code.orders:rows", "1 / 0", "fails when it is imported: ZeroDivisionError"),
        ("shop_code.orders:rows", "import no_such_thing", "No module named 'no_such_thing'"),
    ],
)
def test_check_finds_a_source_that_a_run_could_not_import(
    project: Path, lakewright: Lakewright, source: str, code: str, said: str
) -> None:
    (project / "src" / "shop_code" / "orders.py").write_text(code)
    tables = declared(project, ORDERS.replace("shop_code.orders:rows", source))
    ended = lakewright(None, "check", tables, code=2)
    assert "orders.yaml:7: source.python: " in ended.out
    assert said in ended.out


def test_check_resolves_upstream_tables_in_the_declarations_and_the_warehouse(
    project: Path, catalog: Catalog, lakewright: Lakewright
) -> None:
    new_table(catalog, name="raw.there")
    text = ORDERS + "depends_on: [raw.there, raw.nowhere]\n"
    ended = lakewright(catalog, "check", declared(project, text), code=2)
    (problem, count) = ended.lines
    assert "depends_on[1]: raw.nowhere is neither declared here nor in the warehouse" in problem
    assert count == "1 problem"


def test_check_notes_upstream_tables_where_there_is_no_warehouse(
    project: Path, lakewright: Lakewright, tmp_path: Path
) -> None:
    tables = declared(project, ORDERS + "depends_on: [raw.nowhere]\n")
    ended = lakewright(None, "--warehouse", str(tmp_path / "none"), "check", tables)
    assert "raw.nowhere is not declared here, and there is no warehouse" in ended.lines[0]


def test_check_names_the_extras_that_a_declaration_needs(
    project: Path, lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name in ("great_expectations", "pyspark") else found(name, *more)

    monkeypatch.setattr("lakewright.platform.ingest.check_runs.find_spec", without)
    expecting = "expectations: [{expect: expect_column_values_to_not_be_null, column: id}]\n"
    text = ORDERS.replace("engine: local", "engine: spark") + expecting
    ended = lakewright(None, "check", declared(project, text), code=2)
    assert "pip install 'lakewright[expectations]'" in ended.out
    assert "pip install 'lakewright[spark]'" in ended.out
    # Queries need neither.
    asked = "expectations: [{name: a, sql: SELECT * FROM batch WHERE id < 0}]\n"
    lakewright(None, "check", declared(project, ORDERS + asked))


def test_check_tells_all_errors_at_once(project: Path, lakewright: Lakewright) -> None:
    text = ORDERS.replace("BIGINT", "BIGNIT").replace(":rows", ":row")
    text = text.replace("engine: local", "engine: loca") + "scheduel: daily\n"
    other = ORDERS.replace("shop.orders", "shop.totals") + "depends_on: [shop.ordesr]\nfoo: 1\n"
    (project / "tables" / "totals.yaml").write_text(other)
    ended = lakewright(None, "check", declared(project, text), code=2)
    for said in ("'BIGNIT", "no function row", "'loca' is", "'scheduel'", "'shop.ordesr'", "'foo'"):
        assert said in ended.out.replace("loca is", "'loca' is"), said


def test_backfill_finds_the_modules_of_the_project(
    project: Path, catalog: Catalog, lakewright: Lakewright
) -> None:
    ended = lakewright(
        catalog, "backfill", "shop.orders", "--tables", str(project / "tables"), "--missing"
    )
    assert "published 2 partitions, with 2 rows" in ended.out


def test_a_dagster_home_that_is_not_there_is_an_error_of_the_caller(
    project: Path, catalog: Catalog, lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(project / "nowhere"))
    ended = lakewright(
        catalog, "backfill", "shop.orders", "--tables", str(project / "tables"), code=2
    )
    assert "$DAGSTER_HOME is" in ended.err
    assert "no folder is there" in ended.err
