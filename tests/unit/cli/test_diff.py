"""`lakewright diff`, and `lakewright alter` beside declarations and SQL files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.platform.documents.variables import TABLES_VARIABLE
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

# Only the users of a column are asked.
ALONE = ("--compatibility", "none")


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


def test_other_partition_keys_are_allowed_with_the_rewrite_that_a_respec_is(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    columns = {"id": "BIGINT NOT NULL", "day": "STRING", "v": "STRING"}
    made = new_table(catalog, columns, partitions=["day"])
    made.write(rows(made, events(0, 2)))
    file = tmp_path / "tables.yaml"
    head = DECLARED.split("    primary_key", maxsplit=1)[0]
    file.write_text(f"{head}    partition_keys: [day, id]\n")
    said = lakewright(catalog, "diff", "db.t", str(file), code=1)
    assert not said.err
    assert "allowed with rewrite" in said.out
    assert "change the partition keys from (day) to (day, id)" in said.out
    assert "lakewright respec db.t --keys day,id --dry-run" in said.out
    (row,) = lakewright(catalog, "diff", "db.t", str(file), "--format", "json", code=1).json[
        "findings"
    ]
    assert (row["rule"], row["severity"]) == ("rewrite-first", "rewrite")
    assert row["details"] == {"keys_before": ["day"], "keys_after": ["day", "id"]}
    assert made.schema == catalog.table("db.t").schema


def test_a_table_that_is_as_declared_differs_in_nothing(
    catalog: Catalog, lakewright: Lakewright, table: Table, declared: Path
) -> None:
    said = lakewright(catalog, "diff", "db.t", str(declared))
    assert not said.err
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
    said = lakewright(catalog, "diff", "db.t", str(declared), "--format", "json", code=2)
    assert said.json["differences"] == ["~ name of column v2: v -> v2", "- column day: STRING"]
    found = {each["rule"]: each for each in said.json["findings"]}
    assert "option bucket is declared 4 and is 1" in found["refused"]["message"]
    assert "SQL file late.sql uses column day, which goes" in found["column-used"]["message"]
    assert table.table_files.schemas.ids() == [0]


def test_a_change_of_a_used_column_is_denied_by_the_workspace(
    catalog: Catalog,
    lakewright: Lakewright,
    table: Table,
    declared: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("alter", "db.t", "--rename", "v:w", *ALONE)
    # Readers by the old name are a warning.
    lakewright(catalog, *words, "--dry-run", code=1)
    monkeypatch.setenv(TABLES_VARIABLE, str(declared.parent))
    said = lakewright(catalog, *words, "--dry-run", "--format", "json", code=2)
    used = [each for each in said.json["findings"] if each["rule"] == "column-used"]
    assert [each["details"]["kind"] for each in used] == ["declaration", "asset check", "column"]
    lakewright(catalog, *words, code=2)
    assert table.table_files.schemas.ids() == [0]
    waived = ("--waive", "column-used:v", "--owner", "reports", "--until", "2999-01-31")
    dry = lakewright(catalog, *words, *waived, "--dry-run", code=1)
    assert "allowed: 1 warning, 3 waived" in dry.out
    lakewright(catalog, *words, *waived)
    assert catalog.table("db.t").schema.field_names == ("id", "day", "w")


def test_a_user_that_is_not_certain_is_a_warning(
    catalog: Catalog, lakewright: Lakewright, table: Table, tmp_path: Path
) -> None:
    (tmp_path / "all.sql").write_text("SELECT * FROM db.t")
    words = ("alter", "db.t", "--drop", "v", "--drop", "day", "--sql", str(tmp_path), *ALONE)
    said = lakewright(catalog, *words, "--dry-run", code=1)
    assert said.out.count("SQL file all.sql may use") == 2
    lakewright(catalog, *words)


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
    said = lakewright(catalog, "diff", "db.t", str(declared), code=2)
    assert message in said.err
    nowhere = lakewright(catalog, "diff", "db.t", str(declared.parent / "no.yaml"), code=2)
    assert "no such file" in nowhere.err


def test_a_table_differs_in_nothing_from_the_contract_that_it_exports(
    catalog: Catalog, lakewright: Lakewright, table: Table, declared: Path, tmp_path: Path
) -> None:
    exported = lakewright(catalog, "export-contract", "db.t")
    file = tmp_path / "t.odcs.yaml"
    file.write_text(exported.out)
    same = lakewright(catalog, "diff", "db.t", str(file))
    assert not same.err
    assert "as wanted" in same.out

    file.write_text(exported.out, encoding="utf-16")
    lakewright(catalog, "diff", "db.t", str(file))

    file.write_text(
        exported.out.replace("name: v", "name: w").replace("status:", "team: {}\nstatus:")
    )
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "t.yaml").write_text(DECLARED)
    said = lakewright(
        catalog,
        "diff",
        "db.t",
        str(file),
        "--tables",
        str(tmp_path / "tables"),
        "--format",
        "json",
        code=2,
    )
    assert said.json["differences"] == ["+ column w: STRING", "- column v: STRING"]
    # The contract is not the declaration, which would have to follow.
    assert "declaration" in [each["details"].get("kind") for each in said.json["findings"]]
    assert said.json["summary"]["notes"] == ["team is not compared (the contract)"]

    file.write_text("kind: DataContract\napiVersion: v2.2.2\n")
    wrong = lakewright(catalog, "diff", "db.t", str(file), code=2)
    assert "t.odcs.yaml: apiVersion is 'v2.2.2'" in wrong.err


MERGED_WITHOUT_END = "".join(
    f"x{at}: &x{at} {{<<: [{', '.join([f'*x{at - 1}'] * 10)}]}}\n" for at in range(1, 9)
)
CONTRACT = "kind: DataContract\napiVersion: v3.1.0\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CONTRACT + "contractCreatedTs: 2024-13-45\n", "t.yaml is no valid YAML: month must be"),
        (CONTRACT + "tenant: !!int foo\n", "t.yaml is no valid YAML: invalid literal"),
        (CONTRACT + "tags: " + "[" * 1000 + "]" * 1000, "nested too deeply"),
        (CONTRACT + "schema: [{name: [a]}]", "t.yaml: schema[0].name: ['a'] is not text"),
        (
            CONTRACT + "schema: [{name: t, properties: [{name: c, items: &a {items: *a}}]}]",
            "t.yaml is no valid YAML: an alias makes the document contain itself",
        ),
        (
            CONTRACT + "x0: &x0 {a: 1}\n" + MERGED_WITHOUT_END,
            "t.yaml is no valid YAML: aliases or merge keys make more than",
        ),
        (CONTRACT + "---\n" + CONTRACT, "t.yaml holds 2 YAML documents, and a contract is one"),
        (CONTRACT + "---\ntable: db.t\n", "t.yaml holds 2 YAML documents, and a contract is one"),
        ("", "t.yaml holds neither a declaration nor a data contract; declare db.t in it"),
        ("since: 2024-13-45\n", "the declarations are wrong:"),
        ("table: " + "[" * 400 + "]" * 400, "the declarations are wrong:"),
    ],
)
def test_a_file_that_is_no_valid_yaml_is_a_wrong_request(
    catalog: Catalog, lakewright: Lakewright, table: Table, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(text)
    said = lakewright(catalog, "diff", "db.t", str(file), code=2)
    assert not said.out
    assert message in said.err
    assert "Traceback" not in said.err


POLICY = """\
    schema:
      compatibility: FULL
      columns: [id, day]
      readers: [java-1.4.2]
      waivers:
        - {rule: column-used, column: v, owner: reports, until: 2999-01-31, reason: unused}
"""


def test_the_declaration_says_how_changes_of_its_table_are_judged(
    catalog: Catalog, lakewright: Lakewright, table: Table, tmp_path: Path
) -> None:
    file = tmp_path / "tables.yaml"
    file.write_text(DECLARED.replace("    expectations:", f"{POLICY}    expectations:"))
    words = ("alter", "db.t", "--rename", "v:w", "--tables", str(tmp_path), "--dry-run")
    said = lakewright(catalog, *words, "--format", "json", code=1)
    rules = said.json["rules"]
    assert rules["compatibility"] == "FULL"
    assert (rules["columns"], rules["readers"]) == (["id", "day"], ["java-1.4.2"])
    used = [each for each in said.json["findings"] if each["rule"] == "column-used"]
    assert {each["waived_by"] for each in used} == {"reports until 2999-01-31"}
    other = lakewright(catalog, *words, "--compatibility", "none", "--format", "json", code=1)
    assert other.json["rules"]["compatibility"] == "NONE"
    lakewright(catalog, "diff", "db.t", str(file))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("[id, day]", "[id, dya]"),
            "schema.columns[1]: 'dya' is not a column; did you mean 'day'?",
        ),
        (("compatibility: FULL", "compatibility: full"), "full is not one of NONE, BACKWARD"),
        (("rule: column-used", "rule: refused"), "findings of refused cannot be waived"),
        (("2999-01-31", "soon"), "'soon' is not a day"),
        (("owner: reports, ", ""), "owner is missing"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_with_its_place(
    catalog: Catalog,
    lakewright: Lakewright,
    table: Table,
    tmp_path: Path,
    change: tuple[str, str],
    message: str,
) -> None:
    file = tmp_path / "tables.yaml"
    file.write_text(
        DECLARED.replace("    expectations:", f"{POLICY}    expectations:").replace(*change)
    )
    said = lakewright(catalog, "diff", "db.t", str(file), code=2)
    assert message in said.err
