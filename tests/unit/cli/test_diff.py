"""`lakewright diff`, and `lakewright alter` beside declarations and SQL files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.platform.declare.variables import TABLES_VARIABLE
from lakewright.storage import Catalog, Table
from tests.support.tables.builders import events, new_table, rows
from tests.unit.cli.conftest import Lakewright

# The columns of the table that the builders make.
DECLARED = """\
tables:
  - table: db.t
    columns:
      - {name: id, type: BIGINT NOT NULL}
      - {name: day, type: STRING}
      - {name: v, type: STRING}
    primary_key: [id]
    options: {bucket: 1}
    source: {csv: "/data/*.csv"}
    expectations:
      - {expect: expect_column_values_to_not_be_null, column: v}
  - table: db.report
    columns:
      - {name: w, type: STRING, from: [db.t.v]}
    source: {python: "m:f"}
    depends_on: [db.t]
"""


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = new_table(catalog, keys=("id",), options={"bucket": "1"})
    made.write(rows(made, events(0, 2)))
    return made


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    file = tmp_path / "tables.yaml"
    file.write_text(DECLARED)
    (tmp_path / "late.sql").write_text("SELECT max(day) FROM db.t")
    return file


def test_a_table_that_is_as_declared_differs_in_nothing(
    catalog: Catalog, lakewright: Lakewright, table: Table, declared: Path
) -> None:
    said = lakewright(catalog, "diff", "db.t", str(declared))
    assert (said.code, said.err) == (0, "")
    assert "schema 0 of db.t is as wanted" in said.out


def test_all_that_a_declaration_would_change_is_judged_and_nothing_is_written(
    catalog: Catalog, lakewright: Lakewright, table: Table, declared: Path
) -> None:
    text = DECLARED.replace("      - {name: day, type: STRING}\n", "").replace(
        "bucket: 1", "bucket: 4"
    )
    declared.write_text(text.replace("name: v, type: STRING", "name: v2, type: STRING, was: v"))
    text = declared.read_text().replace("column: v}", "column: v2}").replace("db.t.v]", "db.t.v2]")
    declared.write_text(text)
    said = lakewright(catalog, "diff", "db.t", str(declared), "--format", "json")
    assert said.code == 2
    assert said.json["differences"] == [
        "~ name of column v2: v -> v2",
        "- column day: STRING",
    ]
    assert [(each["rule"], each["column"]) for each in said.json["findings"]] == [
        ("refused", None),
        ("column-used", "day"),
    ]
    assert "option bucket is declared 4 and is 1" in said.json["findings"][0]["message"]
    assert "SQL file late.sql uses column day, which goes" in said.json["findings"][1]["message"]
    assert table.table_files.schemas.ids() == [0]


def test_a_change_of_a_used_column_is_denied_by_the_workspace(
    catalog: Catalog,
    lakewright: Lakewright,
    table: Table,
    declared: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("alter", "db.t", "--rename", "v:w")
    assert lakewright(catalog, *words, "--dry-run").code == 0
    monkeypatch.setenv(TABLES_VARIABLE, str(declared.parent))
    said = lakewright(catalog, *words, "--dry-run", "--format", "json")
    assert said.code == 2
    assert [each["details"]["kind"] for each in said.json["findings"]] == [
        "declaration",
        "asset check",
        "column",
    ]
    assert lakewright(catalog, *words).code == 2
    assert table.table_files.schemas.ids() == [0]
    waived = ("--waive", "column-used:v", "--owner", "ann", "--until", "2999-01-31")
    dry = lakewright(catalog, *words, *waived, "--dry-run")
    assert dry.code == 0
    assert "allowed: 3 waived" in dry.out
    assert lakewright(catalog, *words, *waived).code == 0
    assert catalog.table("db.t").schema.field_names == ("id", "day", "w")


def test_a_user_that_is_not_certain_is_a_warning(
    catalog: Catalog, lakewright: Lakewright, table: Table, tmp_path: Path
) -> None:
    (tmp_path / "all.sql").write_text("SELECT * FROM db.t")
    words = ("alter", "db.t", "--drop", "v", "--drop", "day", "--sql", str(tmp_path))
    said = lakewright(catalog, *words, "--dry-run")
    assert said.code == 1
    assert "allowed: 1 warning" in said.out
    assert "SQL file all.sql may use column day, which goes; column v, which goes" in said.out
    assert lakewright(catalog, *words).code == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("table: db.t\n", "table: db.u\n"), "declares db.report, db.u, and not db.t"),
        (("BIGINT NOT", "BIGIN NOT"), "the declarations are wrong:"),
    ],
)
def test_a_file_without_the_table_or_with_mistakes_is_refused(
    catalog: Catalog,
    lakewright: Lakewright,
    table: Table,
    declared: Path,
    change: tuple[str, str],
    message: str,
) -> None:
    text = DECLARED.replace("depends_on: [db.t]", "depends_on: [x.y]")
    declared.write_text(text.replace("db.t.v", "x.y.v").replace(*change))
    said = lakewright(catalog, "diff", "db.t", str(declared))
    assert said.code == 2
    assert message in said.err
    nowhere = lakewright(catalog, "diff", "db.t", str(declared.parent / "no.yaml"))
    assert nowhere.code == 2
    assert "no such file" in nowhere.err
