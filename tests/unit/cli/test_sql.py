"""`sql`: statements as text and from a file, and their results in every form."""

from __future__ import annotations

import io
from pathlib import Path

import click
import pytest

from lakewright.cli.shell import Shell
from lakewright.session import Session
from lakewright.storage import Catalog
from tests.unit.cli.conftest import Lakewright

CHANGES = """
-- the statements of a day
CREATE TABLE page_view (user STRING, cnt INT) PARTITIONED BY (dt STRING);
INSERT INTO page_view PARTITION (dt='2024-01-31') VALUES ('ann', 3), ('b,b', NULL);
SELECT user, cnt FROM page_view WHERE dt = '2024-01-31' ORDER BY user;
"""


@pytest.mark.mission("PT24", "SQ4", "SQ10")
def test_statements_print_rows_or_what_they_did(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    catalog.create_database("shop")
    file = tmp_path / "changes.sql"
    file.write_text(CHANGES)
    done = lakewright(catalog, "sql", "--file", str(file), "--database", "shop")
    assert done.lines[0].startswith("shop.page_view is created at ")
    assert done.lines[1] == "2 rows written into shop.page_view, snapshot 1"
    assert [line.split() for line in done.lines[4:]] == [
        ["ann", "3"],
        ["b,b", "null"],
        ["(2", "rows)"],
    ]
    shown = lakewright(catalog, "sql", "SHOW PARTITIONS shop.page_view", "--format", "csv")
    assert shown.lines == ["partition", "dt='2024-01-31'"]
    overwritten = lakewright(
        catalog, "sql", "INSERT OVERWRITE page_view VALUES ('eve', 1, '2024-02-01')",
        "--set", "database=shop", "--set", "dynamic-partition-overwrite=false", "--format", "json",
    )  # fmt: skip
    assert overwritten.json == {"table": "shop.page_view", "rows": 1, "snapshot": 2}
    counted = lakewright(catalog, "sql", "SELECT count(*) FROM shop.page_view", "--format", "json")
    assert counted.json == {"count_star()": 1}


def test_a_wrong_statement_is_said_with_its_place_and_exits_with_2(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    catalog.create_database("shop")
    for arguments, message in (
        (("SHOW\n  PARTITION t",), "line 2, column 3: 'PARTITION' cannot be shown"),
        (("SHOW TABLES", "--set", "nope"), "--set nope has no value"),
        (("SHOW TABLES", "-e", "SHOW TABLES"), "--execute is not allowed with"),
    ):
        refused = lakewright(catalog, "sql", *arguments, code=2)
        assert message in refused.err
    assert (
        "\n    PARTITION t\n    ^^^^^^^^^\n"
        in lakewright(catalog, "sql", "SHOW\n  PARTITION t", code=2).err
    )
    lakewright(catalog, "sql", "--file", "no/such.sql", code=3)
    lakewright(catalog, "sql", "SELECT a + FROM shop.t", code=2)


def test_commits_of_statements_are_undone_by_the_name_of_their_run(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    catalog.create_database("shop")
    for text in (
        "CREATE TABLE t (id INT) PARTITIONED BY (dt STRING)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "ALTER TABLE t DROP PARTITION (dt='b'); INSERT OVERWRITE t PARTITION (dt='a') VALUES (3)",
    ):
        lakewright(catalog, "sql", text, "--database", "shop")
    table = catalog.table("shop.t")
    users = [each.commit_user for each in table.history.snapshots()]
    (run,) = {user.partition("(")[2][:8] for user in users[-2:]}
    assert all(user.startswith("lakewright sql (") for user in users)
    lakewright(catalog, "undo", run)
    assert sorted(table.read()["id"].to_pylist()) == [1, 2]


def test_a_statement_that_is_shown_can_be_read_and_columns_may_have_one_name(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    catalog.create_database("shop")
    made = "CREATE TABLE t (id INT, m MAP<STRING, INT>); INSERT INTO t VALUES (1, NULL)"
    lakewright(catalog, "sql", made, "--database", "shop")
    shown = lakewright(catalog, "sql", "SHOW CREATE TABLE shop.t")
    assert shown.lines[:2] == ["CREATE TABLE shop.t (", "  id INT,"]
    twice = lakewright(catalog, "sql", "SELECT id, id FROM shop.t", "--format", "csv")
    assert twice.lines == ["id,id", "1,1"]
    refused = lakewright(catalog, "sql", "INSERT INTO shop.t VALUES (1, MAP(NULL, 1))", code=2)
    assert "column m is MAP<STRING, INT>, and a key of it is null" in refused.err
    half = lakewright(
        catalog, "sql", "USE shop; INSERT INTO t VALUES ('x', NULL); SHOW TABLES", code=2
    )
    assert "statement 2 failed; what came before it is done" in half.err


def test_names_of_partitions_are_printed_whole(catalog: Catalog, lakewright: Lakewright) -> None:
    catalog.create_database("shop")
    long = "x" * 100
    text = (
        "CREATE TABLE shop.t (id INT) PARTITIONED BY (dt STRING); "
        f"INSERT INTO shop.t VALUES (1, '{long}'); SHOW PARTITIONS shop.t; SELECT dt FROM shop.t"
    )
    done = lakewright(catalog, "sql", text)
    assert f"dt='{long}'" in [line.strip() for line in done.lines]
    assert [line for line in done.lines if line.strip() == long] == []


def test_statements_come_from_an_option_or_a_pipe(
    catalog: Catalog, lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_database("shop")
    assert lakewright(catalog, "sql", "-e", "SHOW DATABASES", "--format", "csv").lines == [
        "database", "shop",
    ]  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO("CREATE TABLE shop.t (a INT);\nSHOW TABLES"))
    assert "shop      t" in lakewright(catalog, "sql").out


def test_a_warehouse_that_is_not_there_is_made_by_its_first_database(
    tmp_path: Path, lakewright: Lakewright
) -> None:
    catalog = Catalog.open(str(tmp_path / "new"))
    lakewright(catalog, "sql", "SHOW TABLES", code=3)
    made = lakewright(catalog, "sql", "CREATE DATABASE shop; SHOW DATABASES")
    assert "was not there: it is made, with database shop" in made.out


def test_the_shell_keeps_its_session_and_goes_on_after_an_error(
    catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(
        Session(catalog), lambda _, result: click.echo(result.message or str(result.rows)), str
    )
    shell.run(
        iter(
            [
                "CREATE DATABASE shop;", "\\c shop", "CREATE TABLE t (", "  amount INT); -- made",
                "SHOW", "nothing;", "\\timing", "\\d t", "\\nope", "\\d", "\\q", "DROP TABLE t;",
            ]
        )
    )  # fmt: skip
    said = capsys.readouterr()
    assert catalog.list_tables("shop") == ("t",)
    assert "amount" in said.out
    assert "line 2, column 1: 'nothing' cannot be shown" in said.err
    assert "time: " in said.err
    assert "  nothing;\n  ^^^^^^^\n" in said.err
    assert "\\nope is no command of the shell" in said.err
    assert [shell.complete("am", 0), shell.complete("shop.", 0), shell.complete("des", 0)] == [
        "amount", "shop.t", "DESCRIBE",
    ]  # fmt: skip
    assert shell.complete("shop.t", 1) is None
