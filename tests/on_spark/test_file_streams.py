"""Files of a stream hold the rows that a run reads of them, whatever is in them."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from lakewright.platform.ingest.drain_stream import StreamDrain
from lakewright.platform.ingest.source_files import source_files
from lakewright.platform.ingest.stream_files import stream_file_reader
from lakewright.platform.tables.declaration_checks import check_declaration
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRows, StorageError
from lakewright.storage.file_reader.reader import read_in_turn
from lakewright.storage.spark.file_stream import file_stream
from lakewright.storage.spark.streaming import run_stream
from tests.support.tables.invariants import assert_only_reachable_files

UTC = dt.UTC
Rows = list[dict[str, Any]]


def column(name: str, kind: str, **more: str) -> dict[str, str]:
    return {"name": name, "type": kind, **more}


@dataclass
class Landing:
    """A folder of files, which a stream and a run read into tables of the same columns."""

    spark: SparkSession
    catalog: Catalog
    folder: Path
    file_format: str
    columns: list[dict[str, str]]
    settings: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, Any] = field(default_factory=dict)

    def declared(self, source: dict[str, Any]) -> TableDeclaration:
        declaration = TableDeclaration.model_validate(
            {
                "table": "db.t",
                "columns": self.columns,
                "source": {**source, **self.settings},
                **self.keys,
            }
        )
        assert list(check_declaration(declaration)) == []
        return declaration

    @property
    def table(self) -> Table:
        spec = self.declared({self.file_format: str(self.folder)}).schema_spec
        return self.catalog.create_table("db.t", spec, if_not_exists=True)

    def streamed(self, **more: Any) -> Rows:
        """The rows of the table after a run of the stream."""
        source = {"stream": {self.file_format: str(self.folder), **more}}
        drain = StreamDrain(
            declaration=self.declared(source),
            table=self.table,
            session=lambda: self.spark,
            find_table=self.catalog.table,
            catalog=self.catalog,
            tell=lambda _: None,
        )
        drain.run()
        return self.table.read().to_pylist()

    def read(self) -> Rows:
        """The rows that a run would read."""
        files = source_files(self.declared({self.file_format: str(self.folder)}), None)
        return pa.concat_tables(read_in_turn(files, None)).to_pylist()


Opened = Callable[..., Landing]


@pytest.fixture
def landing(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> Opened:
    def open_one(file_format: str, columns: list[dict[str, str]], **more: Any) -> Landing:
        folder = tmp_path / "land"
        folder.mkdir(exist_ok=True)
        catalog.create_database("db", if_not_exists=True)
        return Landing(spark, catalog, folder, file_format, columns, **more)

    return open_one


def outcome(of: Callable[[], Rows]) -> Rows | str:
    """The rows in some order, or what is wrong with the file."""
    try:
        return sorted(of(), key=repr)
    except InvalidRows as error:
        return error.message.partition("; nothing")[0]


PLAIN = [column("id", "STRING"), column("v", "STRING")]
MOMENTS = [
    column("id", "STRING"),
    column("at", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    column("local", "TIMESTAMP(3)"),
    column("day", "DATE"),
]
_MOMENTS = "id,at,local,day\n1,2024-07-01T10:00:00+02:00,2024-07-01T10:00:00.123,2024-07-01\n"


def _parquet(table: pa.Table) -> bytes:
    out = BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def _orc(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    orc.write_table(table, out)
    return bytes(out.getvalue())


def _avro(fields: list[dict[str, Any]], *records: dict[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, records)
    return out.getvalue()


NOON = dt.datetime(2024, 7, 1, 12, tzinfo=UTC)
NUMBERS = [column("id", "INT"), column("v", "DECIMAL(10, 2)"), column("raw", "BYTES")]
CASES: dict[str, tuple[str, bytes, list[dict[str, str]], dict[str, Any]]] = {
    "quotes within quotes": ("a.csv", b'id,v\n1,"say ""hi"" now"\n2,""\n3,\n', PLAIN, {}),
    "line breaks within quotes": ("a.csv", b'id,v\r\n1,"x,\ny,"\r\n2,"z\r\n"\r\n', PLAIN, {}),
    "a decimal with too many digits": ("a.csv", b"id,v,raw\n1,1.005,\n", NUMBERS, {}),
    "bytes and decimals": ("a.csv", b"id,v,raw\n1, +1.50 ,0aff\n", NUMBERS, {}),
    "moments": ("a.csv", _MOMENTS.encode(), MOMENTS, {}),
    "a moment without a zone": ("a.csv", _MOMENTS.replace("+02:00", "").encode(), MOMENTS, {}),
    "no header, own layouts, packed": (
        "a.csv.gz",
        gzip.compress("1;ü;x\n2;-;\n".encode("latin-1")),
        [*PLAIN, column("w", "STRING")],
        {"header": False, "delimiter": ";", "encoding": "latin-1", "nulls": ["-"]},
    ),
    "too many values": ("a.csv", b"id,v\n1,a\n2,b,c\n", PLAIN, {}),
    "objects without line breaks": ("a.json", b'{"id": "1"}{"id": "2"}\n', PLAIN, {}),
    "an array, nested values": (
        "a.json",
        b'[{"id": "1", "v": {"a": 1, "b": ["x", null]}},\n {"id": "2"}]',
        [column("id", "STRING"), column("v", "ROW<a INT, b ARRAY<STRING>>")],
        {},
    ),
    "a number for a text": ("a.json", b'{"id": "1", "v": 1}\n', PLAIN, {}),
    "a long number": (
        "a.json",
        b'{"id": "1", "v": 12345678901234567.89}\n',
        [column("id", "STRING"), column("v", "DECIMAL(30, 2)")],
        {},
    ),
    "a broken line": ("a.json", b'{"id": "1"}\n{"id": \n', PLAIN, {}),
    "widened numbers": (
        "a.parquet",
        _parquet(pa.table({"id": pa.array([1], pa.int64()), "v": [7], "raw": [b"\0\xff"]})),
        NUMBERS,
        {},
    ),
    "columns in another order": (
        "a.parquet",
        _parquet(pa.table({"v": ["a"], "id": ["1"]})),
        PLAIN,
        {},
    ),
    "local times for moments": (
        "a.parquet",
        _parquet(pa.table({"id": ["1"], "at": [dt.datetime(2024, 7, 1)]})),
        MOMENTS[:2],
        {},
    ),
    "moments of ORC": (
        "a.orc",
        _orc(pa.table({"id": ["1"], "at": pa.array([NOON], pa.timestamp("us", "UTC"))})),
        MOMENTS[:2],
        {},
    ),
    "moments of Avro": (
        "a.avro",
        _avro(
            [
                {"name": "id", "type": "string"},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            ],
            {"id": "1", "at": NOON},
        ),
        MOMENTS[:2],
        {},
    ),
    "milliseconds since 1970": (
        "a.json",
        b'{"id": "1", "at": 1706708700123}\n{"id": "2"}\n',
        [column("id", "STRING"), column("at", "TIMESTAMP(3)", **{"from": "epoch_ms"})],
        {},
    ),
    "a number for a moment": ("a.json", b'{"id": "1", "at": 1706708700123}\n', MOMENTS[:2], {}),
    "an open quote": ("a.csv", b'id,v\n1,"a\n2,b\n', PLAIN, {}),
    "another format": ("a.csv", _parquet(pa.table({"id": ["1"], "v": ["a"]})), PLAIN, {}),
    "a header alone": ("a.csv", b"id,v", PLAIN, {}),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES)
def test_a_stream_stores_what_a_run_reads_of_the_same_file(landing: Opened, case: str) -> None:
    name, content, columns, settings = CASES[case]
    land = landing(name.split(".")[1], columns, settings=settings)
    (land.folder / name).write_bytes(content)
    assert outcome(land.streamed) == outcome(land.read)


def test_hidden_files_are_left_out_and_folders_of_partitions_tell_values(landing: Opened) -> None:
    columns = [column("id", "INT"), column("dt", "DATE"), column("n", "INT")]
    land = landing("csv", columns, keys={"partition_keys": ["dt"]})
    put = {
        "dt=2024-01-31/n=1/a%20 b.csv": "id\n1\n",
        "dt=__HIVE_DEFAULT_PARTITION__/n=2/b.csv": "id\n2\n",
        "dt=2024-01-31/_temporary/0/c.csv": "id\n3\n",
        "dt=2024-01-31/n=1/.d.csv": "id\n4\n",
        "_SUCCESS": "",
    }
    for name, text in put.items():
        (land.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (land.folder / name).write_text(text)
    day = dt.date(2024, 1, 31)
    assert sorted(land.streamed(), key=lambda row: int(row["id"])) == [
        {"id": 1, "dt": day, "n": 1},
        {"id": 2, "dt": None, "n": 2},
    ]
    (land.folder / "dt=2024-01-31/n=3").mkdir()
    (land.folder / "dt=2024-01-31/n=3/e.csv").write_text("id,n\n5,4\n")
    with pytest.raises(InvalidRows, match="the path tells that n is 3, and a row holds 4"):
        land.streamed()


def test_a_deletion_in_a_file_deletes_its_key(landing: Opened) -> None:
    columns = [column("id", "INT NOT NULL"), column("v", "STRING")]
    land = landing("json", columns, keys={"primary_key": ["id"]})
    (land.folder / "a.json").write_text('{"id": 1, "v": "a"}\n{"id": 2, "v": "b"}\n')
    assert len(land.streamed()) == 2
    (land.folder / "b.json").write_text('{"id": 1, "_rowkind": "-D"}\n')
    assert land.streamed() == [{"id": 2, "v": "b"}]


def test_of_several_rows_of_a_key_in_one_batch_the_later_one_of_the_later_file_counts(
    landing: Opened,
) -> None:
    """The first run of a stream takes all files that are there in one batch."""
    columns = [column("id", "INT NOT NULL"), column("v", "STRING")]
    land = landing("json", columns, keys={"primary_key": ["id"], "options": {"bucket": 2}})
    first = [{"id": number, "v": "first"} for number in range(40)]
    second = [{"_rowkind": "-D", "id": 2}, *({"id": each, "v": "second"} for each in (3, 4, 4))]
    third = [{"id": 4, "v": "third"}, {"id": 4, "v": "last"}, {"_rowkind": "-D", "id": 3}]
    for name, given in (("c", third), ("a", first), ("b", second)):
        (land.folder / f"{name}.json").write_text("".join(f"{json.dumps(e)}\n" for e in given))
    found = {row["id"]: row["v"] for row in land.streamed()}
    assert sorted({*range(40)} - found.keys()) == [2, 3]
    assert (found[4], found[5]) == ("last", "first")


def test_files_below_other_folders_are_not_of_the_stream(landing: Opened) -> None:
    land = landing("json", PLAIN)
    (land.folder / "done").mkdir()
    (land.folder / "done/old.json").write_text('{"id": "0"}')
    (land.folder / "new.json").write_text('{"id": "1"}')
    assert [row["id"] for row in land.streamed()] == ["1"]


def test_a_file_that_ends_the_stream_is_corrected_or_taken_away(landing: Opened) -> None:
    land = landing("json", PLAIN)
    (land.folder / "a.json").write_text('{"id": "1"}')
    assert len(land.streamed()) == 1
    for name in ("b.json", "c.json"):
        (land.folder / name).write_text('{"id": 2}')
    with pytest.raises(InvalidRows, match=r"json: line 1: column id is STRING, and 2 is not"):
        land.streamed()
    assert land.table.read().num_rows == 1
    (land.folder / "b.json").write_text('{"id": "2"}')
    (land.folder / "c.json").unlink()
    assert sorted(row["id"] for row in land.streamed()) == ["1", "2"]
    assert_only_reachable_files(land.table)


def test_a_file_that_goes_while_its_batch_is_read_ends_the_stream(
    landing: Opened, spark: SparkSession
) -> None:
    land = landing("json", PLAIN)
    (land.folder / "a.json").write_text('{"id": "1"}')

    def read(path: str, size: int) -> Iterator[pa.Table]:
        Path(path.removeprefix("file:")).unlink()
        yield from reader(path, size)

    source = land.declared({"json": str(land.folder)}).source
    assert source is not None
    reader = stream_file_reader(land.table, source, {})
    rows = file_stream(spark, str(land.folder), read, reader.fields)
    with pytest.raises(StorageError, match=r"a\.json"):
        run_stream(
            land.table.table_files,
            rows,
            checkpoint=str(land.folder.parent / "checkpoint"),
            trigger="available-now",
        )
    assert land.table.read().num_rows == 0
    assert_only_reachable_files(land.table)


def test_a_stream_that_spark_read_by_itself_goes_on_with_the_files_that_it_has_not_taken(
    landing: Opened, spark: SparkSession
) -> None:
    land = landing("json", PLAIN)
    (land.folder / "a.json").write_text('{"id": "1"}')
    checkpoint = str(land.folder.parent / "checkpoint")
    rows = spark.readStream.schema("id string, v string").json(str(land.folder))
    land.table.write_stream(rows, checkpoint=checkpoint, trigger="available-now").awaitTermination()
    (land.folder / "b.json").write_text('{"id": "2"}')
    assert sorted(row["id"] for row in land.streamed(checkpoint=checkpoint)) == ["1", "2"]


def test_digits_that_spark_has_not_are_refused_and_not_cut(landing: Opened) -> None:
    land = landing("csv", [column("at", "TIMESTAMP(9)")])
    (land.folder / "a.csv").write_text("at\n2024-01-31T10:00:00.123456789\n")
    with pytest.raises(StorageError, match="column at has digits below microseconds"):
        land.streamed()
    (land.folder / "a.csv").write_text("at\n2024-01-31T10:00:00.123456\n")
    os.utime(land.folder / "a.csv")
    assert len(land.streamed()) == 1


def test_a_stream_of_numbers_and_decimals_holds_every_digit(landing: Opened) -> None:
    land = landing("json", [column("v", "DECIMAL(38, 18)")])
    text = "12345678901234567890.123456789012345678"
    (land.folder / "a.json").write_text(json.dumps({"v": "X"}).replace('"X"', text))
    assert land.streamed() == [{"v": Decimal(text)}]
