"""Source files: every format, from folders and stores, read as the columns are declared."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import pickle
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakewright.platform.ingest.given_rows import given_rows
from lakewright.platform.ingest.source_files import source_files
from lakewright.platform.tables.declaration_checks import check_declaration
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage import Catalog
from lakewright.storage.errors import CorruptionError, InvalidRows, NotFoundError
from lakewright.storage.file_reader.reader import FileReader, divided, read_in_turn
from lakewright.storage.files.file_systems import open_file_system

COLUMNS = [
    {"name": "id", "type": "BIGINT NOT NULL"},
    {"name": "day", "type": "DATE"},
    {"name": "at", "type": "TIMESTAMP(6) WITH LOCAL TIME ZONE"},
    {"name": "amount", "type": "DECIMAL(10, 2)"},
    {"name": "tags", "type": "ARRAY<STRING>"},
    {"name": "item", "type": "ROW<sku STRING, n INT>"},
    {"name": "ratio", "type": "FLOAT"},
]
UTC = dt.UTC
ROW: dict[str, Any] = {
    "id": 1,
    "day": dt.date(2024, 1, 31),
    "at": dt.datetime(2024, 1, 31, 12, 30, tzinfo=UTC),
    "amount": Decimal("1.50"),
    "tags": ["a", None],
    "item": {"sku": "x", "n": 2},
    "ratio": 0.5,
}
EMPTY: dict[str, Any] = {"id": 2, **dict.fromkeys(list(ROW)[1:])}


def declared(columns: list[dict[str, str]] | None = None, **more: Any) -> TableDeclaration:
    declaration = TableDeclaration.model_validate(
        {"table": "shop.orders", "columns": columns or COLUMNS, **more}
    )
    assert list(check_declaration(declaration)) == []
    return declaration


def read(declaration: TableDeclaration, *days: str, **key: str) -> list[dict[str, Any]]:
    wanted = tuple({"dt": day, **key} for day in days) or None
    files = source_files(declaration, wanted)
    # Tasks of Spark get the files pickled.
    files = pickle.loads(pickle.dumps(files))  # made here
    return [row for rows in read_in_turn(files, wanted) for row in rows.to_pylist()]


def put_parquet(path: Path) -> None:
    rows = pa.Table.from_pylist([ROW, EMPTY])
    pq.write_table(rows.set_column(6, "ratio", rows.column("ratio").cast(pa.float32())), path)


def put_orc(path: Path) -> None:
    rows = pa.Table.from_pylist([ROW, EMPTY])
    orc.write_table(rows.set_column(6, "ratio", rows.column("ratio").cast(pa.float32())), path)


def put_avro(path: Path) -> None:
    def maybe(kind: Any) -> list[Any]:
        return ["null", kind]

    item = [{"name": "sku", "type": maybe("string")}, {"name": "n", "type": maybe("int")}]
    kinds = {
        "id": "long",
        "day": maybe({"type": "int", "logicalType": "date"}),
        "at": maybe({"type": "long", "logicalType": "timestamp-micros"}),
        "amount": maybe({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
        "tags": maybe({"type": "array", "items": maybe("string")}),
        "item": maybe({"type": "record", "name": "item", "fields": item}),
        "ratio": maybe("float"),
    }
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    schema = {"type": "record", "name": "orders", "fields": fields}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [ROW, EMPTY], codec="deflate")


def put_json(path: Path) -> None:
    lines = [json.dumps(ROW, default=str), '{"id": 2}']
    path.write_text("\n".join(lines).replace("+00:00", "Z"))


def put_array(path: Path) -> None:
    path.write_text("\ufeff" + json.dumps([ROW, {"id": 2.0}], default=str, indent=2))


@pytest.mark.parametrize(
    ("kind", "put"),
    [
        ("parquet", put_parquet),
        ("orc", put_orc),
        ("avro", put_avro),
        ("json", put_json),
        ("json", put_array),
    ],
)
def test_every_format_gives_the_declared_rows(
    tmp_path: Path, kind: str, put: Callable[[Path], None]
) -> None:
    put(tmp_path / f"a.{kind}")
    assert read(declared(source={kind: str(tmp_path)})) == [ROW, EMPTY]


@pytest.mark.parametrize(
    ("marks", "day"),
    [
        ({}, dt.date(1500, 3, 11)),
        ({"org.apache.spark.version": "3.5.0"}, dt.date(1500, 3, 11)),
        (
            {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""},
            dt.date(1500, 3, 1),
        ),
    ],
)
def test_days_of_avro_are_counted_by_the_calendar_that_its_writer_marks(
    tmp_path: Path, marks: dict[str, str], day: dt.date
) -> None:
    day_type = {"type": "int", "logicalType": "date"}
    schema = {"type": "record", "name": "r", "fields": [{"name": "day", "type": day_type}]}
    with (tmp_path / "a.avro").open("wb") as file:
        # As Spark stores the 1st of March of 1500 in the Julian calendar.
        rows = [{"day": dt.date(1500, 3, 11)}]
        fastavro.writer(file, fastavro.parse_schema(schema), rows, metadata=marks)
    columns = [{"name": "day", "type": "DATE"}]
    assert read(declared(columns, source={"avro": str(tmp_path)})) == [{"day": day}]


def test_packed_text_is_unpacked_and_layouts_hold_in_json_too(tmp_path: Path) -> None:
    text = '{"id": 1, "day": "31.01.2024"}\n\n{"id": 2}\n'
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode("utf-16")))
    source = {"json": str(tmp_path), "date_format": "%d.%m.%Y", "encoding": "utf-16"}
    assert [row["day"] for row in read(declared(source=source))] == [ROW["day"], None]


def test_long_json_is_read_in_parts(tmp_path: Path) -> None:
    rows = [{"id": number, "tags": ["x" * 50]} for number in range(70_000)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (file,) = source_files(declared(source={"json": str(tmp_path)}), None)
    sizes = [part.num_rows for part in file.read(None)]
    assert sum(sizes) == len(rows)
    assert max(sizes) < len(rows) / 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"id": 1}\n{"id": }\n', "line 2, column 8 is not JSON: Expecting value"),
        ('{"id": 1}\n{"id": 2\n', "line 2, column 9 is not JSON: Expecting ',' delimiter"),
        ('{"id": 1} {"id": 2}\n', "line 1, column 10 is not JSON: more follows the value"),
        ('[\n{"id": 1}\n {"id": 2}]', "line 3, column 2 is not JSON: a comma, or ] at the end"),
        ('[{"id": 1},\n {"id": 2', "line 2, column 10 is not JSON"),
        ('[{"id": 1},\n]', "line 2, column 1 is not JSON: an element is missing after the comma"),
        ('{"id": 1, "ratio": 1e39}\n', "column ratio is FLOAT, and 1e+39 is too large"),
        ('[{"id": 1}, {"id": tru}]', "line 1, column 20 is not JSON: Expecting value"),
        ('{"id": 1}\n{"id": ' + "9" * 5000 + "}", "line 2, column 1 is not JSON: a number has too"),
        (
            '[{"id": ' + "9" * 5000 + "}]",
            "line 1, column 2 is not JSON: a number has too many digits",
        ),
        ('{"id": 1}\n[2]\n', "line 2: [2] is not an object with a member for each column"),
        ('{"id": 1}\n\n{"id": "x"}\n', "line 3: column id is BIGINT NOT NULL, and 'x' is not a"),
        ('{"id": 1, "amount": 1.555}\n', "line 1: column amount is DECIMAL(10, 2), and Decimal"),
        ('{"id": 1, "item": {"sku": "a", "m": 1}}\n', "holds the unknown member m"),
        ('{"id": 1, "tags": [1]}\n', "line 1: column tags[] is STRING, and 1 is not a valid"),
        ('{"id": 1, "at": "2024-01-01T00:00:00"}\n', "column at is TIMESTAMP(6) WITH LOCAL TIME"),
        ('{"id": 1, "idd": 1}\n', "the file has unknown column idd; declare it in `columns` and"),
        ("{}\n", "column id is NOT NULL"),
        ('{"id": 1, "tags": ["\xe9"]}\n', "give its encoding"),
    ],
)
def test_json_that_does_not_hold_what_is_declared_is_named_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "bad.json").write_text(text, "latin-1")
    with pytest.raises(InvalidRows) as refused:
        read(declared(source={"json": str(tmp_path)}))
    assert said in str(refused.value)
    assert str(tmp_path / "bad.json") in str(refused.value)


def test_a_file_of_another_format_is_told_as_what_it_is(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a")
    for kind in ("orc", "avro", "csv", "json"):
        columns = [{"name": "id", "type": "INT"}]
        with pytest.raises(InvalidRows, match=r"begins as a file of format parquet does: declare"):
            read(declared(columns, source={kind: str(tmp_path / "a")}))


def test_unknown_columns_are_named_with_the_files_or_ignored(tmp_path: Path) -> None:
    for name, columns in (("a", {}), ("b", {"more": [1]}), ("c", {"more": [1], "x.y": [2]})):
        pq.write_table(pa.table({"id": [7], **columns}), tmp_path / f"{name}.parquet")
    columns = [{"name": "id", "type": "INT"}]
    with pytest.raises(InvalidRows, match=r"b.parquet: the file has unknown column more.*so have"):
        read(declared(columns, source={"parquet": str(tmp_path)}))
    ignoring = {"parquet": str(tmp_path), "extra_columns": "ignore"}
    assert read(declared(columns, source=ignoring)) == [{"id": 7}] * 3

    (tmp_path / "a.json").write_text('{"ID": 7, "more": 1}')
    ignoring = {"json": str(tmp_path), "extra_columns": "ignore"}
    with pytest.raises(InvalidRows, match="no row has column id; did you mean 'id' by 'ID'"):
        read(declared(columns, source=ignoring))


# --- folders of partitions ------------------------------------------------------------------------

SALES = [
    {"name": "dt", "type": "DATE NOT NULL"},
    {"name": "region", "type": "STRING"},
    {"name": "hour", "type": "INT"},
    {"name": "id", "type": "INT"},
]


def sales(pattern: str, **more: Any) -> TableDeclaration:
    keys = ["dt", "region", "hour"]
    return declared(SALES, partition_keys=keys, source={"csv": pattern, **more})


def put(folder: Path, *files: str) -> None:
    for number, name in enumerate(files):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"id\n{number}\n")


def test_folders_of_three_levels_are_the_partitions_of_a_table(tmp_path: Path) -> None:
    put(
        tmp_path,
        "dt=2024-01-01/region=a%2Fb/hour=01/x.csv",
        "dt=2024-01-01/region=__HIVE_DEFAULT_PARTITION__/hour=2/deep/y.csv.x/z.csv",
        "dt=2024-01-02/region=c/hour=3/x.csv",
        "dt=2024-01-02/region=c/hour=3/_temporary/0/x.csv",
        "_temporary/region=c/hour=3/x.csv",
    )
    found = read(sales(f"{tmp_path}/dt={{dt}}/region={{region}}/hour={{hour}}"))
    first, second = dt.date(2024, 1, 1), dt.date(2024, 1, 2)
    assert sorted(found, key=lambda row: row["id"]) == [
        {"dt": first, "region": "a/b", "hour": 1, "id": 0},
        {"dt": first, "region": None, "hour": 2, "id": 1},
        {"dt": second, "region": "c", "hour": 3, "id": 2},
    ]


def test_only_folders_of_the_wanted_partitions_are_looked_at(tmp_path: Path) -> None:
    put(tmp_path, "2024/01/01/a/1.csv", "2024/01/02/a/2.csv", "2024/01/02/b/3.csv")
    (tmp_path / "2024/01/01/broken").mkdir()
    (tmp_path / "2024/01/01/broken/no hour.csv").write_text("x")
    source = sales(f"{tmp_path}/{{dt:%Y/%m/%d}}/{{region}}/{{hour}}.csv")
    wanted = ({"dt": dt.date(2024, 1, 2), "region": "b", "hour": 3},)
    (file,) = source_files(source, wanted)
    assert file.path.endswith("2024/01/02/b/3.csv")
    assert source_files(source, ({"dt": dt.date(2024, 1, 3), "region": "b", "hour": 3},)) == []
    with pytest.raises(InvalidRows, match=r"hour=no hour: 'no hour' is not a valid INT"):
        source_files(source, None)


@pytest.mark.parametrize(
    ("folder", "pattern", "said"),
    [
        ("dt=01.02.2024", "dt={dt}", "dt=01.02.2024: '01.02.2024' is not a valid DATE"),
        ("2024/13/01", "{dt:%Y/%m/%d}", "does not have the layout '%Y %m %d'"),
        ("2024-01-01/2024-01-02", "{dt}/{dt}", "dt has two values: 2024-01-01, 2024-01-02"),
    ],
)
def test_a_folder_that_is_no_partition_is_named(
    tmp_path: Path, folder: str, pattern: str, said: str
) -> None:
    put(tmp_path, f"{folder}/a/1/x.csv")
    with pytest.raises(InvalidRows) as refused:
        read(sales(f"{tmp_path}/{pattern}/{{region}}/{{hour}}/*.csv"))
    assert said in str(refused.value)
    assert f"{tmp_path}/{folder}" in str(refused.value)


def test_a_layout_says_how_long_a_value_is_before_a_wildcard(tmp_path: Path) -> None:
    put(tmp_path, "sales_20240131.csv", "sales_20240131_2.csv", "sales_x.csv")
    columns = [SALES[0], SALES[3]]
    source = {"csv": f"{tmp_path}/sales_{{dt:%Y%m%d}}*.csv"}
    found = read(declared(columns, partition_keys=["dt"], source=source))
    assert found == [{"dt": dt.date(2024, 1, 31), "id": number} for number in (0, 1)]


@pytest.mark.parametrize("kind", ["STRING", "INT", "DATE"])
def test_a_folder_without_a_text_holds_the_empty_text(tmp_path: Path, kind: str) -> None:
    good = {"STRING": "a", "INT": "1", "DATE": "2024-01-01"}[kind]
    put(tmp_path, f"p={good}/a.csv", "p=/a.csv")
    columns = [{"name": "p", "type": kind}, SALES[3]]
    source = {"csv": f"{tmp_path}/p={{p}}/*.csv"}
    declaration = declared(columns, partition_keys=["p"], source=source)
    if kind == "STRING":
        assert [row["p"] for row in read(declaration)] == ["", "a"]
        return
    with pytest.raises(InvalidRows, match=rf"{tmp_path}/p= is no place of a part.*not a valid"):
        read(declaration)


def test_a_column_that_path_and_file_both_have_must_agree(tmp_path: Path) -> None:
    put(tmp_path, "dt=2024-01-01/a/1/x.csv")
    (tmp_path / "dt=2024-01-01/a/1/x.csv").write_text("id,dt\n1,2024-01-01\n2,2024-01-05\n")
    with pytest.raises(InvalidRows, match=r"the path tells that dt is 2024-01-01, and a row holds"):
        read(sales(f"{tmp_path}/dt={{dt}}/{{region}}/{{hour}}/*.csv"))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("/x/{day}/*.csv", "{day} is not a partition key; "),
        ("/x/{dt:%Y-%m}/*.csv", "'%Y-%m' is not a strptime layout that gives a day"),
        ("/x/{dt:%Y-%m-%d %H}/*.csv", "gives a time of day, which dt DATE NOT NULL does not hold"),
        ("/x/{hour:%H}/*.csv", "is a layout of dates, and hour is INT"),
        ("/x/{dt}/{dt:%Y%m%d}/*.csv", "has a layout in one place and none in another"),
        ("/x/{hour}*.csv", "{hour} is beside a wildcard, so where its value ends is unclear"),
        ("/x/*{hour}.csv", "{hour} is beside a wildcard"),
        ("s3://key:secret@bucket/{dt}/*.csv", "holds credentials"),
        ("ftq://bucket/{dt}/*.csv", "store ftq:// is not implemented"),
    ],
)
def test_patterns_that_tell_no_partition_are_found_before_a_run(pattern: str, said: str) -> None:
    declaration = TableDeclaration.model_validate(
        {
            "table": "shop.sales",
            "columns": SALES,
            "partition_keys": ["dt", "region", "hour"],
            "source": {"csv": pattern},
        }
    )
    ((place, message),) = check_declaration(declaration)
    assert place == ("source", "csv")
    assert said in message
    assert "secret" not in message


def test_files_of_a_store_are_named_by_their_uri(tmp_path: Path) -> None:
    fs, root = open_file_system("memory://sources")
    try:
        fs.write_bytes(f"{root}/dt=2024-01-01/a/1/x.csv", b"id\n1\n")
        fs.write_bytes(f"{root}/dt=2024-01-02/a/1/x.csv", b"id\nno\n")
        source = sales("memory://sources/dt={dt}/{region}/{hour}/*.csv")
        wanted = ({"dt": dt.date(2024, 1, 1), "region": "a", "hour": 1},)
        (rows,) = [rows for rows in read_in_turn(source_files(source, wanted), wanted) if rows]
        assert rows.column("id").to_pylist() == [1]
        with pytest.raises(InvalidRows, match=r"memory://sources/dt=2024-01-02/a/1/x\.csv: colu"):
            read(source)
        whole = declared(SALES[3:], source={"csv": "memory://sources"})
        assert [file.file.size_bytes for file in source_files(whole, None)] == [5, 6]
        with pytest.raises(NotFoundError, match="no file matches memory://nowhere"):
            source_files(declared(SALES[3:], source={"csv": "memory://nowhere"}), None)
    finally:
        fs.delete_tree(root)


def test_links_are_followed_and_names_may_be_patterns(tmp_path: Path) -> None:
    put(tmp_path, "real/a.csv", "in[1]/b.csv")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "c.csv").symlink_to(tmp_path / "real/a.csv")
    (tmp_path / "real/up").symlink_to(tmp_path)
    columns = [{"name": "id", "type": "INT"}]
    for path, ids in (("link", [0]), ("**/*.csv", [0, 0, 0, 1]), ("in[1]", [1]), ("?.csv", [0])):
        found = read(declared(columns, source={"csv": f"{tmp_path}/{path}"}))
        assert sorted(row["id"] for row in found) == ids, path


def test_a_pipe_is_passed_over_in_a_folder_and_refused_by_its_name(tmp_path: Path) -> None:
    put(tmp_path, "a.csv")
    for name in ("b.csv", "c.csv.x"):
        os.mkfifo(tmp_path / name)
    columns = [{"name": "id", "type": "INT"}]
    assert len(read(declared(columns, source={"csv": str(tmp_path)}))) == 1
    with pytest.raises(CorruptionError, match=r"c\.csv\.x is a named pipe, and only regular files"):
        read(declared(columns, source={"csv": str(tmp_path / "c.csv.x")}))


def test_row_groups_are_read_by_themselves(tmp_path: Path) -> None:
    rows = pa.table({"id": range(10), "x": ["a"] * 10})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=4)
    columns = [{"name": "id", "type": "INT"}]
    source = {"parquet": str(tmp_path), "extra_columns": "ignore"}
    parts = divided(source_files(declared(columns, source=source), None))
    assert [ids(part) for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def ids(file: FileReader) -> list[int]:
    def numbers() -> Iterator[int]:
        for rows in file.read(None):
            yield from rows.column("id").to_pylist()

    return list(numbers())


# --- kinds of rows --------------------------------------------------------------------------------

CHANGES = [{"id": 1, "v": "a"}, {"id": 2, "v": "b", "_rowkind": "+U"}, {"id": 3, "_rowkind": "-D"}]


def changed(tmp_path: Path, file_format: str, **more: Any) -> list[dict[str, Any]]:
    """The rows of a table with the keys 1 and 3, after the changes of a file."""
    columns = [{"name": "id", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]
    source = {file_format: str(tmp_path / f"a.{file_format}"), "extra_columns": "ignore"}
    declaration = declared(columns, source=source, **more)
    catalog = Catalog.open(str(tmp_path / "wh"))
    catalog.create_database("shop", if_not_exists=True)
    table = catalog.create_table("shop.orders", declaration.schema_spec, if_not_exists=True)
    table.write([{"id": 1, "v": "old"}, {"id": 3, "v": "old"}])
    given = read_in_turn(source_files(declaration, None), None)
    table.write(given_rows(given, table=table, declaration=declaration, fixed=()))
    return sorted(table.read().to_pylist(), key=lambda row: int(row["id"]))


def put_changes(tmp_path: Path, file_format: str) -> None:
    whole = [{"v": None, "_rowkind": "+I", "more": 1, **each} for each in CHANGES]
    path = tmp_path / f"a.{file_format}"
    if file_format == "json":
        path.write_text("\n".join(map(json.dumps, CHANGES)))
    elif file_format == "parquet":
        pq.write_table(pa.Table.from_pylist(whole), path)
    else:
        path.write_text("id,_rowkind,v\n1,+I,a\n2,+U,b\n3,-D,\n")


@pytest.mark.parametrize("file_format", ["json", "parquet", "csv"])
def test_a_row_of_a_file_that_is_a_deletion_deletes_its_key(
    tmp_path: Path, file_format: str
) -> None:
    put_changes(tmp_path, file_format)
    assert changed(tmp_path, file_format, primary_key=["id"]) == [
        {"id": 1, "v": "a"},
        {"id": 2, "v": "b"},
    ]


@pytest.mark.parametrize("file_format", ["json", "parquet", "csv"])
def test_kinds_of_rows_are_never_ignored(tmp_path: Path, file_format: str) -> None:
    put_changes(tmp_path, file_format)
    with pytest.raises(InvalidRows, match="unknown column _rowkind; only a table with a primary"):
        changed(tmp_path, file_format)


def test_files_without_kinds_and_without_a_header_add_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,a\n2,b\n")
    columns = [{"name": "id", "type": "INT NOT NULL"}, {"name": "v", "type": "STRING"}]
    source = {"csv": str(tmp_path / "a.csv"), "header": False}
    found = read(declared(columns, source=source, primary_key=["id"]))
    assert [row["_rowkind"] for row in found] == ["+I", "+I"]
    (tmp_path / "a.json").write_text('{"id": 1, "_rowkind": "delete"}')
    with pytest.raises(InvalidRows, match="_rowkind holds 'delete' in row 0"):
        changed(tmp_path, "json", primary_key=["id"])
