"""`lakewright alter`: changes as texts, plans, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from tests.support.tables.builders import events, new_table, rows
from tests.unit.cli.conftest import Lakewright


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = new_table(catalog)
    made.write(rows(made, events(0, 2)))
    return made


@pytest.mark.mission("SE2", "SE3", "SE4", "SE5")
def test_a_table_is_altered_and_the_change_is_told(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    said = lakewright(
        catalog,
        "alter",
        "db.t",
        "--add",
        "amount DECIMAL(10, 2) DEFAULT 0 AFTER id",
        "--rename",
        "v:value",
        "--drop",
        "day",
        "--set",
        "owner=me",
    )
    assert "db.t has schema 1: 4 differences to schema 0" in said.out
    assert "+ column amount: DECIMAL(10, 2) DEFAULT '0'" in said.out
    altered = catalog.table("db.t")
    assert altered.schema.field_names == ("id", "amount", "value")
    assert altered.schema.options["owner"] == "me"


def test_a_dry_run_changes_nothing_and_a_saved_plan_is_carried_out(
    catalog: Catalog, lakewright: Lakewright, table: Table, tmp_path: Path
) -> None:
    words = ("alter", "db.t", "--type", "v:VARCHAR(9)", "--comment", "id:who: the first")
    said = lakewright(catalog, *words, "--dry-run", "--format", "json", code=1)
    # Statistics may leave open whether a value is cut, which is a warning.
    assert said.code in (0, 1)
    assert json.loads(said.out)["schema_id"] == 0
    assert table.table_files.schemas.ids() == [0]
    plan = tmp_path / "plan.json"
    lakewright(catalog, *words, "--save-plan", str(plan))
    unjudged = lakewright(catalog, "alter", "db.t", "--plan", str(plan), "--dry-run", code=2)
    assert "--dry-run is not allowed with --plan" in unjudged.err
    lakewright(catalog, "alter", "db.t", "--plan", str(plan))
    assert str(catalog.table("db.t").schema.field("v").type) == "VARCHAR(9)"
    assert catalog.table("db.t").schema.field("id").description == "who: the first"
    again = lakewright(catalog, "alter", "db.t", "--plan", str(plan), code=5)
    assert "type of column v: STRING -> VARCHAR(9)" in again.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "no change of db.t is given"),
        (("--drop", "nowhere"), 2, "no column 'nowhere'"),
        (("--add", "id INT"), 2, "a column 'id' already"),
        (("--add", "w"), 2, "write NAME TYPE"),
        (("--type", "v:INT"), 2, "only an explicit cast leads to INT"),
        (("--set", "bucket=4"), 2, "option bucket cannot change"),
    ],
)
def test_a_change_that_does_not_fit_is_refused_in_one_line(
    catalog: Catalog,
    lakewright: Lakewright,
    table: Table,
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    said = lakewright(catalog, "alter", "db.t", *words, code=code)
    assert said.code == code
    assert message in said.err
    assert table.table_files.schemas.ids() == [0]
