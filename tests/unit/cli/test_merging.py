"""`lakewright merge`: a file changes the rows that it matches."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from tests.support.tables.builders import new_table, rows
from tests.unit.cli.conftest import Lakewright

COLUMNS = {"zip": "STRING", "city": "STRING", "price": "DECIMAL(20, 2)", "tags": "ARRAY<INT>"}
LARGE = Decimal("123456789012345678.91")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = new_table(catalog, COLUMNS)
    made.write(rows(made, [{"zip": "01", "city": "a"}, {"zip": "1", "city": "b"}]))
    return made


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("new.csv", "zip,city,price,more\n01,,LARGE,x\n007,2024-01-01,1.10,x\n"),
        (
            "new.json",
            """{"zip": "01", "city": null, "price": LARGE}
            {"zip": "007", "city": "2024-01-01", "price": 1.1, "more": 1}""",
        ),
    ],
)
def test_values_of_a_file_have_the_types_of_the_columns(
    catalog: Catalog, lakewright: Lakewright, table: Table, tmp_path: Path, name: str, text: str
) -> None:
    file = tmp_path / name
    file.write_text(text.replace("LARGE", str(LARGE)))
    merge = ("merge", "db.t", "--from", str(file), "--on", "zip")
    dry_run = lakewright(catalog, *merge, "--dry-run")
    assert "1 row to update, 1 row to insert, 0 rows to delete" in dry_run.out
    assert len(table.history.snapshots()) == 1
    ended = lakewright(catalog, *merge, "--format", "json")
    assert (ended.json["updated"], ended.json["inserted"], ended.json["deleted"]) == (1, 1, 0)
    found = {
        row["zip"]: (row["city"], row["price"]) for row in catalog.table("db.t").read().to_pylist()
    }
    assert found == {"01": (None, LARGE), "1": ("b", None), "007": ("2024-01-01", Decimal("1.10"))}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("new.txt", "zip\n1\n", "ends as one of csv, json, parquet, orc, avro does"),
        ("empty.csv", "", "is empty, and a CSV begins"),
        ("other.csv", "a,b\n1,2\n", "has none of the columns zip, city, price"),
        ("bad.csv", "zip,price\n1,much\n", "column price is DECIMAL"),
        ("nested.csv", "zip,price,tags\n1,1,a\n", "column tags is ARRAY<INT>, and the rows hold"),
        ("cases.csv", "zip,ZIP,price\n1,2,1\n", "has columns zip and ZIP"),
        ("cases.json", '{"zip": "1", "city": "x"}\n{"zip": "2", "City": "y"}', "city and City"),
        ("missing.csv", None, "no file is at"),
        ("..", None, "name each file"),
    ],
)
def test_a_file_that_does_not_fit_changes_nothing(
    catalog: Catalog,
    lakewright: Lakewright,
    table: Table,
    tmp_path: Path,
    name: str,
    text: str | None,
    why: str,
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    given = ("merge", "db.t", "--from", str(tmp_path / name), "--on", "zip")
    ended = lakewright(catalog, *given, code=None)
    assert ended.code in (2, 3, 4)
    assert why in ended.err
    assert len(table.history.snapshots()) == 1


def test_a_merge_is_recorded_and_undone_by_the_short_name_of_its_run(
    catalog: Catalog,
    lakewright: Lakewright,
    table: Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAKEWRIGHT_LEDGER", "on")
    before = table.read().to_pylist()
    file = tmp_path / "new.csv"
    file.write_text("zip,city\n01,c\n2,d\n")
    lakewright(catalog, "merge", "db.t", "--from", str(file), "--on", "zip")
    (action,) = lakewright(catalog, "ledger", "db.t", "--format", "json").json
    assert (action["verb"], action["verdict"], action["table_name"]) == ("merge", "done", "db.t")
    assert "1 row updated, 1 row inserted, 0 rows deleted" in action["summary"]
    last = table.history.latest_snapshot()
    assert last is not None
    assert last.commit_user.startswith(action["run"])
    short = action["run"].removeprefix("lakewright merge (").removesuffix(")")
    assert len(short) == 8
    lakewright(catalog, "undo", short)
    assert table.read().to_pylist() == before


def test_what_a_merge_needs_is_named(
    catalog: Catalog, lakewright: Lakewright, table: Table, tmp_path: Path
) -> None:
    file = tmp_path / "new.csv"
    file.write_text("zip,zip\n01,c\n")
    for words, why in (
        (("--on", "zip"), "--from FILE"),
        (("--from", str(file)), "--on A,B"),
        (("--from", str(file), "--on", "zip,zip"), "names zip more than once"),
        (("--from", str(file), "--on", "zip"), "column zip more than once"),
    ):
        assert why in lakewright(catalog, "merge", "db.t", *words, code=2).err
    values = ("--set", "city='a'", "--set", "city='b'")
    ended = lakewright(catalog, "update", "db.t", *values, "--all-rows", code=2)
    assert "city gets two values" in ended.err
    assert len(table.history.snapshots()) == 1
