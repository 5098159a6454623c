"""One rule for values at every door: each way in, each form of a value, and what becomes of it.

A door is a way in; a case says how a value is written in files of columns, in texts and in JSON,
and the one thing that is right. A new case meets every door, a new door every case.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import fastavro
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakewright.connectors.fitted import fitted
from lakewright.platform.ingest.given_file import rows_of_file
from lakewright.platform.ingest.source_files import source_files
from lakewright.platform.ingest.stream_files import stream_file_reader
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.platform.tables.source_declarations import SourceDeclaration
from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.avro_container import encode_block, encode_header, make_header
from lakewright.storage.errors import StorageError
from lakewright.storage.file_reader.bad_rows import BadRows
from lakewright.storage.file_reader.reader import read_in_turn
from lakewright.storage.spec.data_types import DataField, parse_data_type
from tests.support.formats import decoding


class Refused:
    """What is right for a value that its column cannot hold."""


REFUSED = Refused()
LOCAL = dt.datetime(2024, 1, 31, 13, 45)


Door: TypeAlias = "Callable[[Ways, str], object]"


@dataclass(frozen=True)
class Case:
    """A value in its forms; None where it has none, and what each of them becomes."""

    name: str
    type: str
    right: object = REFUSED
    arrow: pa.Array | None = None
    text: str | None = None
    json: str | None = None
    # The type of a field of Avro, and the bytes of a record that has it alone.
    avro: tuple[object, bytes] | None = None
    # Where another form of the value means another thing.
    right_of_text: object = None

    def of(self, form: str, door: Door) -> object:
        """What is right for a form."""
        kind = to_arrow_type(parse_data_type(self.type))
        if door is Ways.takeover and (self.arrow is None or self.arrow.type != kind):
            # Files that stay as they are convert nothing.
            return REFUSED
        # Drivers hand exact numbers over as texts.
        is_text = form != "arrow" or door is Ways.driver
        return self.right_of_text if is_text and self.right_of_text is not None else self.right


def _micros(count: int, **zone: str) -> pa.Array:
    return pa.array([count], pa.int64()).cast(pa.timestamp("us", **zone))


def _wider(unscaled: int, precision: int, scale: int) -> pa.Array:
    """A decimal of more digits than its type has, which Arrow does not judge."""
    data = unscaled.to_bytes(16, "little", signed=True)
    kind = pa.decimal128(precision, scale)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(data)])


def _numbers(kind: pa.DataType, *numbers: int) -> pa.Array:
    return pa.array(numbers, pa.int32()).cast(kind)


_TIMES = pa.time32("ms")
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
_YEAR_10000 = 253_402_300_800 * 10**6
CASES = (
    Case("an amount", "DECIMAL(5, 2)", Decimal("1.50"), pa.array([Decimal("1.5000")]),
         "1.5", "1.5"),
    Case("too many digits", "DECIMAL(5, 2)", REFUSED, pa.array([1.005]), "1.005", "1.005"),
    Case("the largest number", "BIGINT", 2**63 - 1, pa.array([2**63 - 1]), str(2**63 - 1),
         str(2**63 - 1)),
    Case("more than the largest number", "BIGINT", REFUSED, None, str(2**63), str(2**63)),
    Case("a number of another base", "BIGINT", REFUSED, None, "0x10", '"0x10"'),
    Case("many digits", "DECIMAL(20, 2)", Decimal("123456789012345678.25"),
         pa.array([Decimal("123456789012345678.25")]), "123456789012345678.25",
         "123456789012345678.25"),
    Case("too large for a double", "DOUBLE", REFUSED, None, "1e999", "1e999"),
    Case("the first day", "DATE", dt.date(1, 1, 1), pa.array([dt.date(1, 1, 1)]), "0001-01-01",
         '"0001-01-01"'),
    Case("the last moment", "TIMESTAMP(3)", dt.datetime(9999, 12, 31, 23, 59, 59),
         pa.array([dt.datetime(9999, 12, 31, 23, 59, 59)]), "9999-12-31 23:59:59",
         '"9999-12-31 23:59:59"'),
    Case("too large for a float", "FLOAT", REFUSED, pa.array([1e300]), "1e300", "1e300"),
    Case("too large for an int", "INT", REFUSED, pa.array([2**40]), str(2**40), str(2**40)),
    Case("a fraction for an int", "INT", REFUSED, pa.array([1.5]), "1.5", "1.5"),
    Case("text for a number", "INT", REFUSED, pa.array(["12"]), "12", '"12"', right_of_text=12),
    Case("a word for a number", "INT", REFUSED, pa.array(["x"]), "x", '"x"'),
    Case("a number for a truth value", "BOOLEAN", REFUSED, pa.array([5]), "5", "5"),
    Case("a number for a moment", "TIMESTAMP(3)", REFUSED, pa.array([1706708700000]),
         "1706708700000", "1706708700000"),
    Case("a number for a day", "DATE", REFUSED, pa.array([19000], pa.int32()), "19000", "19000"),
    Case("a moment for a day", "DATE", REFUSED, pa.array([dt.datetime(2024, 1, 1, 5)]),
         "2024-01-01 05:00:00", '"2024-01-01 05:00:00"'),
    Case("a moment without a zone", "TIMESTAMP_LTZ(3)", REFUSED, pa.array([LOCAL]),
         "2024-01-31 13:45:00", '"2024-01-31 13:45:00"'),
    Case("a moment with a zone", "TIMESTAMP(3)", REFUSED, _micros(0, tz="UTC"),
         "2024-01-31 13:45:00+01:00", '"2024-01-31 13:45:00+01:00"'),
    Case("zeros are no digits", "TIMESTAMP(3)", LOCAL.replace(microsecond=123000),
         pa.array([LOCAL.replace(microsecond=123000)]), "2024-01-31 13:45:00.123000",
         '"2024-01-31T13:45:00.123000"'),
    Case("fewer digits than declared", "TIMESTAMP(4)", LOCAL.replace(microsecond=123000),
         pa.array([LOCAL.replace(microsecond=123000)]), "2024-01-31 13:45:00.123",
         '"2024-01-31 13:45:00.123"'),
    Case("six digits of seven", "TIMESTAMP(7)", pd.Timestamp("2024-01-31 13:45:00.123456"),
         pa.array([LOCAL.replace(microsecond=123456)]), "2024-01-31 13:45:00.123456",
         '"2024-01-31T13:45:00.123456"'),
    Case("a time with its digits", "TIME(3)", dt.time(0, 0, 0, 123000), _numbers(_TIMES, 123),
         "00:00:00.123", '"00:00:00.123"'),
    Case("digits of a second, none declared", "TIMESTAMP(0)", REFUSED,
         pa.array([LOCAL.replace(microsecond=500000)]), "2024-01-31 13:45:00.5",
         '"2024-01-31 13:45:00.5"'),
    Case("digits of a second, four declared", "TIMESTAMP(4)", REFUSED,
         pa.array([LOCAL.replace(microsecond=123456)]), "2024-01-31 13:45:00.123456",
         '"2024-01-31 13:45:00.123456"'),
    Case("digits of a time", "TIME(0)", REFUSED, pa.array([500], pa.int32()).cast(pa.time32("ms")),
         "00:00:00.5", '"00:00:00.5"'),
    Case("digits for a time", "TIME(3)", REFUSED, pa.array([20240131]), "20240131", '"20240131"'),
    Case("a time beyond its day", "TIME(3)", REFUSED,
         pa.array([86_400_000_000], pa.int64()).cast(pa.time64("us")), "24:00:00", '"24:00:00"'),
    Case("a time before its day", "TIME(3)", REFUSED, _numbers(_TIMES, -5),
         avro=({"type": "int", "logicalType": "time-millis"}, b"\x09")),
    Case("a time beyond its day, in a list", "ARRAY<TIME(3)>", REFUSED,
         pa.array([[86_400_000]], pa.list_(pa.int32())).cast(pa.list_(_TIMES))),
    Case("more digits than a file declares", "DECIMAL(4, 2)", REFUSED, _wider(12345, 4, 2),
         avro=(_DECIMAL, b"\x06" + (123456).to_bytes(3, "big"))),
    Case("as many digits as the column has", "DECIMAL(10, 2)", Decimal("1234.56"),
         avro=(_DECIMAL, b"\x06" + (123456).to_bytes(3, "big"))),
    Case("a decimal of 17 bytes", "DECIMAL(4, 2)", avro=(_DECIMAL, b"\x22\x01" + b"\0" * 16)),
    Case("text for bytes", "BYTES", avro=("string", b"\x04cd")),
    Case("text for a whole number", "INT", avro=("string", b"\x025")),
    Case("a day of another era", "DATE",
         avro=({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f")),
    Case("a day with a zone", "TIMESTAMP(3)", REFUSED, None, "2024-01-01+02:00",
         '"2024-01-01+02:00"'),
    Case("a day with a zone, for a moment", "TIMESTAMP_LTZ(3)", REFUSED, None, "2024-01-01-05:00",
         '"2024-01-01-05:00"'),
    Case("a day for a moment", "TIMESTAMP_LTZ(3)", REFUSED, None, "2024-01-01", '"2024-01-01"'),
    Case("the year 10000", "TIMESTAMP(6)", REFUSED, _micros(_YEAR_10000),
         "10000-01-01 00:00:00", '"10000-01-01 00:00:00"'),
    Case("infinity of a database", "TIMESTAMP(6)", REFUSED, _micros(2**63 - 1), "infinity",
         '"infinity"'),
    Case("a day of infinity", "DATE", REFUSED, pa.array([2**31 - 1], pa.int32()).cast(pa.date32()),
         "infinity", '"infinity"'),
    Case("the year 0", "DATE", REFUSED, pa.array([-719_163], pa.int32()).cast(pa.date32()),
         "0000-12-31", '"0000-12-31"'),
    Case("a text that is too long", "VARCHAR(3)", REFUSED, pa.array(["abcd"]), "abcd", '"abcd"'),
    Case("a whole number that no double is", "DOUBLE", REFUSED, pa.array([2**53 + 1])),
    Case("a whole number that no float is", "ARRAY<FLOAT>", REFUSED, pa.array([[2**24 + 1]])),
    # Neither JSON nor a text says that it is whole.
    Case("a number near a double", "DOUBLE", 2.0**53, None, str(2**53 + 1), str(2**53 + 1)),
    Case("nanoseconds", "TIMESTAMP(9)", pd.Timestamp("2024-01-31 13:45:00.123456789"),
         pa.array([1706708700123456789], pa.int64()).cast(pa.timestamp("ns")),
         "2024-01-31 13:45:00.123456789", '"2024-01-31 13:45:00.123456789"'),
    Case("more nanoseconds than declared", "TIMESTAMP(6)", REFUSED,
         pa.array([1706708700123456789], pa.int64()).cast(pa.timestamp("ns"))),
    Case("members that are missing", "ROW<a INT, b INT>", REFUSED, pa.array([{"a": 1}]),
         right_of_text={"a": 1, "b": None}),
    Case("a name twice", "INT", REFUSED, None, None, '1, "x": 2'),
)  # fmt: skip


@dataclass
class Ways:
    """The doors, over one catalog; each gives the value as the table or the query has it."""

    folder: Path
    catalog: Catalog
    case: Case

    @property
    def session(self) -> Session:
        return Session(self.catalog)

    def _file(self, of: str) -> Path:
        (self.folder / "land").mkdir(exist_ok=True)
        path = self.folder / f"land/a.{of}"
        rows = None if self.case.arrow is None else pa.table({"x": self.case.arrow})
        match of:
            case "parquet":
                pq.write_table(rows, path)
            case "orc":
                orc.write_table(rows, path)
            case "csv":
                path.write_text(f"x\n{self.case.text}\n")
            case "json":
                path.write_text(f'{{"x": {self.case.json}}}\n')
            case "avro":
                assert self.case.avro is not None
                kind, record = self.case.avro
                schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": kind}]}
                header = make_header(schema, compression="none", sync=bytes(16))
                block = encode_block(record, 1, header, level=1)
                path.write_bytes(encode_header(header) + block)
        return path

    def _table(self) -> Any:
        return self.catalog.create_table("s.t", {"x": self.case.type})

    def _stored(self) -> object:
        return self.catalog.table("s.t").read().column("x")[0].as_py()

    def _read(self, of: str, folder: str, bad: BadRows | None = None) -> pa.Table:
        declaration = TableDeclaration.model_validate(
            {
                "table": "s.t",
                "columns": [{"name": "x", "type": self.case.type}],
                "source": {of: str(self.folder / folder)},
            }
        )
        return pa.concat_tables(read_in_turn(source_files(declaration, None), None, bad))

    def source(self, of: str) -> object:
        """A file of a declared source."""
        self._file(of)
        self._table().write(self._read(of, "land"))
        return self._stored()

    def kept(self, of: str) -> object:
        """A row of a file as it is kept where bad rows are, when it is read again."""
        self._file(of)
        bad = BadRows(most=1, keeps=True)
        rows = self._read(of, "land", bad)
        if bad.rows:
            (self.folder / "kept").mkdir()
            (self.folder / "kept/a.json").write_text(bad.rows[0].text)
            rows = self._read("json", "kept")
        return rows.column("x")[0].as_py()

    def stream(self, of: str) -> object:
        """A file of a stream."""
        path = self._file(of)
        source = SourceDeclaration.model_validate({of: str(self.folder / "land")})
        reader = stream_file_reader(self._table(), source, {})
        (rows,) = [rows for rows in reader(str(path), path.stat().st_size) if rows.num_rows]
        return rows.column("x")[0].as_py()

    def merged(self, of: str) -> object:
        """A file that `merge --from` names."""
        table = self._table()
        return rows_of_file(self._file(of), table.schema).column("x")[0].as_py()

    def filesystem(self, of: str) -> object:
        """A file of an external table."""
        path = self._file(of)
        if of == "csv":
            path.write_text(f"{self.case.text}\n")
        self.session.sql(
            f"CREATE TABLE s.e (x {self.case.type}) WITH ('connector' = 'filesystem', "
            f"'format' = '{of}', 'path' = '{path}')"
        )
        return self.session.sql("SELECT x FROM s.e").rows.column("x")[0].as_py()

    def format_table(self, of: str) -> object:
        """A file of a format table."""
        path = self._file(of)
        if of == "csv":
            path.write_text(f"{self.case.text}\n")
        table = self.catalog.create_format_table(
            "s.f", {"x": self.case.type}, file_format=of, location=str(path.parent)
        )
        return table.read().column("x")[0].as_py()

    def message(self, of: str) -> object:
        """A message of a topic."""
        text = self.case.text if of == "csv" else f'{{"x": {self.case.json}}}'
        assert text is not None
        fields = [DataField(0, "x", parse_data_type(self.case.type))]
        return decoding(of).decoder(fields).decode([text.encode()]).column("x")[0].as_py()

    def rows(self, _: str) -> object:
        """Rows of Arrow that a caller writes."""
        self._table().write(pa.table({"x": self.case.arrow}))
        return self._stored()

    def merge(self, _: str) -> object:
        """A source whose columns a merge writes as they are, into old rows and new ones."""
        table = self.catalog.create_table("s.t", {"id": "INT", "x": self.case.type})
        table.write(pa.table({"id": pa.array([1], pa.int32())}))
        assert self.case.arrow is not None
        for at, how in ((2, {"when_not_matched": "insert"}), (1, {"when_matched": "update"})):
            source = pa.table({"id": [at], "x": self.case.arrow})
            if self.case.right is not REFUSED:
                table.merge(source, on="id", **how)
                continue
            with pytest.raises(StorageError, match=r"\bx\b") as refused:
                table.merge(source, on="id", **how)
        if self.case.right is REFUSED:
            raise refused.value
        old, new = table.read(columns=["x"]).column("x").to_pylist()
        assert old == new
        return new

    def mappings(self, of: str) -> object:
        """Rows of Python that a caller writes."""
        value = self.case.text if of == "csv" else json.loads(f'{{"x": {self.case.json}}}')["x"]
        self._table().write([{"x": value}])
        return self._stored()

    def driver(self, of: str) -> object:
        """A column of a driver of a database."""
        column = self.case.arrow if of == "parquet" else pa.array([self.case.text])
        fields = [DataField(0, "x", parse_data_type(self.case.type))]
        batch = pa.record_batch([column], names=["x"])
        return fitted(batch, fields, table="s.t").column("x")[0].as_py()

    def takeover(self, of: str) -> object:
        """A file that a table takes over as it is."""
        path = self._file(of)
        self._table()
        table = self.catalog.table("s.t")
        table.upkeep.run(table.upkeep.plan_add_partitions(str(path.parent), age_ms=0))
        return self._stored()


# By form: the file that holds it, and the doors that take it.
DOORS: Mapping[str, Mapping[str, tuple[Door, ...]]] = {
    "arrow": {
        "parquet": (Ways.source, Ways.stream, Ways.merged, Ways.filesystem, Ways.format_table,
                    Ways.rows, Ways.merge, Ways.driver, Ways.takeover, Ways.kept),
        "orc": (Ways.source, Ways.merged, Ways.filesystem, Ways.format_table),
    },
    "text": {
        "csv": (Ways.source, Ways.stream, Ways.merged, Ways.filesystem, Ways.format_table,
                Ways.message, Ways.mappings, Ways.driver),
    },
    "json": {"json": (Ways.source, Ways.stream, Ways.merged, Ways.filesystem, Ways.format_table,
                      Ways.message)},
    "avro": {"avro": (Ways.source, Ways.stream, Ways.merged, Ways.filesystem, Ways.format_table,
                      Ways.takeover, Ways.kept)},
}  # fmt: skip


def _all() -> list[Any]:
    found = []
    for case in CASES:
        for form, files in DOORS.items():
            if getattr(case, form) is None:
                continue
            for of, doors in files.items():
                if of == "orc" and re.search(r"time\d", str(getattr(case.arrow, "type", ""))):
                    # The library writes no times of day.
                    continue
                found += [
                    pytest.param(case, form, of, door, id=f"{case.name}-{of}-{door.__name__}")
                    for door in doors
                ]
    return found


@pytest.mark.sampled(each="case, of")
@pytest.mark.parametrize(("case", "form", "of", "door"), _all())
def test_a_value_stays_itself_or_is_refused_by_its_column(
    tmp_path: Path, case: Case, form: str, of: str, door: Door
) -> None:
    catalog = Catalog.open(str(tmp_path / "wh"))
    catalog.create_database("s")
    ways, right = Ways(tmp_path, catalog, case), case.of(form, door)
    if right is not REFUSED:
        assert door(ways, of) == right
        return
    # The library of ORC does not say the column of a timestamp that it cannot read.
    with pytest.raises(StorageError, match=r"\bx\b|a\.orc"):
        pytest.fail(f"it became {door(ways, of)!r}")


@pytest.mark.parametrize("digits", [0, 3, 6, 9])
@pytest.mark.parametrize("declared", [0, 3, 4, 6, 9])
@pytest.mark.parametrize("way", ["values", "frame", "statement"])
def test_moments_of_python_and_of_statements_keep_their_digits_or_are_refused(
    tmp_path: Path, way: str, declared: int, digits: int
) -> None:
    catalog = Catalog.open(str(tmp_path))
    table = catalog.create_table("s.t", {"x": f"TIMESTAMP({declared})"})
    moment = pd.Timestamp("2024-01-31 13:45:00.123456789").floor(f"{10 ** (9 - digits)}ns")

    def write() -> None:
        match way:
            case "values":
                table.write([{"x": moment}])
            case "frame":
                table.write(pd.DataFrame({"x": [moment]}))
            case _:
                Session(catalog).sql(f"INSERT INTO s.t VALUES (TIMESTAMP '{moment}')")

    if digits > declared:
        with pytest.raises(StorageError, match=r"\bx\b"):
            write()
        assert table.read().num_rows == 0
    else:
        write()
        assert catalog.table("s.t").read().column("x").to_pylist() == [moment]


@pytest.mark.parametrize("kind", ["DOUBLE", "FLOAT"])
def test_a_whole_number_of_python_or_of_a_database_is_not_rounded(
    tmp_path: Path, kind: str
) -> None:
    number = (2**53 if kind == "DOUBLE" else 2**24) + 1
    catalog = Catalog.open(str(tmp_path / "wh"))
    table = catalog.create_table("s.t", {"x": kind, "list": f"ARRAY<{kind}>"})
    for row in ({"x": number}, {"list": [number]}):
        with pytest.raises(StorageError, match=f"no {kind} is equal to {number}, the nearest is"):
            table.write([row])
    table.write([{"x": number - 1, "list": [number + 1]}])
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE t (x INTEGER)")
        shop.execute("INSERT INTO t VALUES (?)", [number])
    session = Session(catalog)
    session.sql(
        f"CREATE TABLE s.e (x {kind}) WITH ('connector' = 'jdbc', 'table-name' = 't', "
        f"'url' = 'sqlite:///{tmp_path}/shop.db')"
    )
    with pytest.raises(StorageError, match=f"no {kind} is equal to {number}"):
        session.sql("SELECT x FROM s.e")
    (tmp_path / "land").mkdir()
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long"}]}
    with (tmp_path / "land/a.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"x": number}])
    with pytest.raises(StorageError, match=f"no {kind} is equal to {number}"):
        rows_of_file(tmp_path / "land/a.avro", table.schema)
