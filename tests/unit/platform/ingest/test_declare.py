"""Proposed declarations: the types that are guessed, and that the proposal is one that runs."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyarrow import orc

import lakewright
from lakewright.cli import main
from lakewright.platform.documents.yaml_files import DeclarationError
from lakewright.platform.ingest.inferred_columns import with_columns_of_source
from lakewright.platform.ingest.source_files import source_files
from lakewright.platform.tables.workspace import read_workspace
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError, NotFoundError
from lakewright.storage.file_reader.reader import read_in_turn


def types(text: str) -> dict[str, str]:
    return {each["name"]: each["type"] for each in yaml.safe_load(text)["columns"]}


def put(folder: Path, name: str, text: str, encoding: str = "utf-8") -> str:
    (folder / name).write_bytes(text.encode(encoding))
    return str(folder / name)


def test_types_of_texts_are_the_narrowest_that_read_them_all(tmp_path: Path) -> None:
    rows = "".join(
        f"{at},0{at},{at}.5,{at}.25,2024-01-0{at % 9 + 1},2024-01-01T10:00:00,true,{at or 'x'},\n"
        for at in range(20)
    )
    path = put(tmp_path, "a.csv", f"id,zip,much,price,day,at,is,mixed,none\n{rows}")
    text = lakewright.declare(path, table="shop.a")
    assert types(text) == {
        "id": "BIGINT",
        "zip": "STRING",
        "much": "DOUBLE",
        "price": "DECIMAL(18, 2)",
        "day": "DATE",
        "at": "TIMESTAMP(6)",
        "is": "BOOLEAN",
        "mixed": "STRING",
        "none": "STRING",
    }
    assert "# guessed from 20 values" in text
    assert "# no value in 20 rows" in text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("id;name\n1;a\n2;b,c\n", "utf-8"),
        ("id\tname\n1\ta\n2\tb,c\n", "utf-8"),
        ("id,name\n1,a\n2,'b'\n", "utf-8"),
        ("1,Zoë\n2,a\n", "latin-1"),
    ],
)
def test_a_proposal_of_a_csv_reads_it_without_a_change(
    tmp_path: Path, text: str, encoding: str
) -> None:
    path = put(tmp_path, "a.csv", text, encoding)
    (tmp_path / "tables.yaml").write_text(lakewright.declare(path, table="shop.a"))
    (declaration,) = read_workspace([tmp_path / "tables.yaml"]).declarations
    rows = pa.concat_tables(read_in_turn(source_files(declaration, None), None))
    assert rows.column(0).to_pylist() == [1, 2]
    assert rows.num_columns == 2


def test_types_are_those_of_all_files_of_a_folder(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", "id,price\n1,1.25\n")
    put(tmp_path, "b.csv", "id,price,city\n2x,7.50,Bonn\n")
    text = lakewright.declare(tmp_path)
    assert types(text) == {"id": "STRING", "price": "DECIMAL(18, 2)", "city": "STRING"}
    assert "2 rows of 2 files" in text
    assert "1 empty" in text


def test_amounts_have_as_many_digits_each_and_measures_have_not(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "money,whole,measure,exact\n9.90,7,1.5,1e3\n20,8,2.25,2.50\n")
    assert types(lakewright.declare(path)) == {
        "money": "DECIMAL(18, 2)",
        "whole": "BIGINT",
        "measure": "DOUBLE",
        "exact": "DOUBLE",
    }


def test_of_many_large_files_some_are_read_from_the_first_to_the_last(tmp_path: Path) -> None:
    for at in range(12):
        rows = f"1,{'x' * 1_000}\n" * 1_600 if at < 11 else "1.5,x\n"
        put(tmp_path, f"{at:02}.csv", f"n,t\n{rows}")
    text = lakewright.declare(tmp_path)
    assert types(text)["n"] == "DOUBLE"
    assert "8 of 12 files" in text


def test_a_missing_header_hides_no_row_from_the_guess(tmp_path: Path) -> None:
    text = lakewright.declare(put(tmp_path, "a.csv", "1,a\n2,b\n"))
    assert types(text) == {"column1": "BIGINT", "column2": "STRING"}
    assert "guessed from 2 values" in text


@pytest.mark.parametrize(
    ("source", "text", "found"),
    [
        ("csv: PATH, on_bad_row: skip", "a,b\n1,x\n2\n", {"a": "BIGINT", "b": "STRING"}),
        ("json: PATH, on_bad_row: quarantine", '{"a": 1}\nnope\n', {"a": "BIGINT"}),
        (
            'csv: PATH, delimiter: ";", decimal: ",", date_format: "%d.%m.%Y", nulls: ["-"]',
            "n;day;i\n1,5;01.02.2024;-\n2,25;31.12.2024;7\n",
            {"n": "DOUBLE", "day": "DATE", "i": "BIGINT"},
        ),
    ],
)
def test_columns_are_inferred_of_the_rows_that_parse_in_the_declared_form(
    tmp_path: Path, source: str, text: str, found: dict[str, str]
) -> None:
    assert inferred(tmp_path, source, text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty, and a CSV begins with the names"),
        ("a,a\n1,2\n", "has column a twice"),
        ("a,b\n1,2\n3\n", "row 2 has 1 values"),
        ("gr\u00f6\u00dfe\n1\n", "encoding: latin-1"),
    ],
)
def test_a_file_that_tells_no_columns_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(DeclarationError, match=f"a.dat.*{why}"):
        inferred(tmp_path, "csv: PATH", text)


def inferred(folder: Path, source: str, text: str) -> dict[str, str]:
    path = put(folder, "a.dat", text, "latin-1")
    declared = folder / "a.yaml"
    declared.write_text(
        f"table: shop.a\nschema: infer\nsource: {{{source.replace('PATH', path)}}}\n"
    )
    workspace = read_workspace([declared], infer=with_columns_of_source)
    declaration = workspace.declaration("shop.a")
    assert declaration is not None
    return {each.name: each.type for each in declaration.columns}


def test_json_gives_nested_types_and_says_where_values_are_of_several_kinds(tmp_path: Path) -> None:
    lines = (
        '{"id": 1, "n": {"a": [1], "b": null}, "x": 1, "t": "2024-01-01"}\n{"id": 2, "x": "a"}\n'
    )
    text = lakewright.declare(put(tmp_path, "a.jsonl", lines))
    assert types(text) == {
        "id": "BIGINT",
        "n": "ROW<a ARRAY<BIGINT>, b STRING>",
        "x": "STRING",
        "t": "DATE",
    }
    assert "of several kinds; choose a type" in text
    assert "# guessed from 1 value; 1 without it" in text


def frame() -> pa.Table:
    return pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "price": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            "day": [dt.date(2024, 1, 1)],
        }
    )


TYPES = {"id": "INT", "price": "DECIMAL(10, 2)", "day": "DATE"}


def test_types_of_files_frames_and_queries_are_exact(tmp_path: Path) -> None:
    pq.write_table(frame(), tmp_path / "a.parquet")
    orc.write_table(frame(), tmp_path / "a.orc")
    for name in ("a.parquet", "a.orc"):
        assert types(lakewright.declare(tmp_path / name)) == TYPES
    given: list[Any] = [frame(), frame().to_pandas(types_mapper=None)]
    assert types(lakewright.declare(given[0])) == TYPES
    assert types(lakewright.declare(given[1]))["id"] == "INT"
    catalog = Catalog.open(str(tmp_path / "warehouse"))
    catalog.create_table("shop.a", TYPES).write(frame())
    query = "SELECT day, id FROM shop.a"
    text = lakewright.declare(query, table="shop.b", catalog=catalog)
    assert types(text) == {"day": "DATE", "id": "INT"}
    assert yaml.safe_load(text)["source"] == {"sql": query}


def test_columns_of_the_path_are_keys_of_the_proposal(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    put(tmp_path / "day=1", "a.csv", "id\n1\n")
    text = lakewright.declare(f"{tmp_path}/day={{day}}/*.csv", table="shop.a")
    assert types(text) == {"id": "BIGINT", "day": "STRING NOT NULL"}
    assert yaml.safe_load(text)["partition_keys"] == ["day"]


def test_what_is_no_file_and_a_query_without_a_catalog_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no file at"):
        lakewright.declare(str(tmp_path / "nothing.csv"))
    with pytest.raises(InvalidRequestError, match="needs the catalog"):
        lakewright.declare("SELECT 1 AS a")


def test_the_command_prints_a_declaration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path, "My orders.csv", "id,name\n1,a\n")
    assert main(["declare", path]) == 0
    told = capsys.readouterr().out
    assert yaml.safe_load(told)["table"] == "database.my_orders"
    assert yaml.safe_load(told)["source"] == {"csv": path}
