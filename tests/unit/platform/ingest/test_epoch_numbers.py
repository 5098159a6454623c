"""Numbers of a source are moments only in the unit that is declared, in every format."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakewright.platform.ingest.given_rows import given_rows
from lakewright.platform.ingest.source_files import source_files
from lakewright.platform.tables.declaration_checks import check_declaration
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRows, StorageError
from lakewright.storage.file_reader.reader import read_in_turn

UTC = dt.UTC
MILLIS = 1_706_708_700_123  # 2024-01-31T13:45:00.123Z
MOMENT = dt.datetime(2024, 1, 31, 13, 45, 0, 123_000)


def declared(kind: str, unit: str | None, source: dict[str, Any], **more: str) -> TableDeclaration:
    column = {"name": "at", "type": kind, **({} if unit is None else {"from": unit}), **more}
    declaration = TableDeclaration.model_validate(
        {"table": "s.t", "columns": [{"name": "id", "type": "INT"}, column], "source": source}
    )
    assert list(check_declaration(declaration)) == []
    return declaration


def _csv(folder: Path, value: object) -> None:
    (folder / "a.csv").write_text(f"id,at\n1,{value}\n2,\n")


def _json(folder: Path, value: object) -> None:
    (folder / "a.json").write_text(f'{{"id": 1, "at": {value}}}\n{{"id": 2}}\n')


def _columns(value: object) -> pa.Table:
    kind = pa.float64() if isinstance(value, float) else pa.int64()
    return pa.table({"id": pa.array([1, 2], pa.int32()), "at": pa.array([value, None], kind)})


def _parquet(folder: Path, value: object) -> None:
    pq.write_table(_columns(value), folder / "a.parquet")


def _orc(folder: Path, value: object) -> None:
    orc.write_table(_columns(value), folder / "a.orc")


def _avro(folder: Path, value: object) -> None:
    kind = "double" if isinstance(value, float) else "long"
    fields = [{"name": "id", "type": "int"}, {"name": "at", "type": ["null", kind]}]
    out = BytesIO()
    records = [{"id": 1, "at": value}, {"id": 2, "at": None}]
    fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, records)
    (folder / "a.avro").write_bytes(out.getvalue())


FILES: dict[str, Callable[[Path, object], None]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
    "orc": _orc,
    "avro": _avro,
}
GIVEN: dict[str, Callable[[object], Any]] = {
    "dicts": lambda value: iter([{"id": 1, "at": value}, {"id": 2, "at": None}]),
    "arrow": _columns,
    "pandas": lambda value: pd.DataFrame(
        {"id": [1, 2], "at": pd.Series([value, None], dtype=object)}
    ),
}


def moments(way: str, tmp_path: Path, kind: str, unit: str | None, value: object) -> list[Any]:
    """The moments of the rows with the value and with null, by one of the ways in."""
    if way in FILES:
        FILES[way](tmp_path, value)
        found = read_in_turn(source_files(declared(kind, unit, {way: str(tmp_path)}), None), None)
        return pa.concat_tables(found).column("at").to_pylist()
    declaration = declared(kind, unit, {"python": "a:b"})
    catalog = Catalog.open(str(tmp_path))
    catalog.create_database("s", if_not_exists=True)
    table = catalog.create_table("s.t", declaration.schema_spec, if_not_exists=True)
    given = GIVEN[way](value)
    rows = given_rows(given, table=table, declaration=declaration, fixed=())
    table.write(rows)
    return [row["at"] for row in sorted(table.read().to_pylist(), key=lambda row: int(row["id"]))]


WAYS = [*FILES, *GIVEN]


@pytest.mark.parametrize("way", WAYS)
def test_a_number_without_a_unit_is_refused_with_the_way_out(tmp_path: Path, way: str) -> None:
    for kind in ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "DATE"):
        with pytest.raises(StorageError) as refused:
            moments(way, tmp_path, kind, None, MILLIS)
        said = refused.value.message
        assert "at is" in said
        assert "`from: epoch_" in said, said


@pytest.mark.parametrize("way", WAYS)
def test_numbers_are_moments_in_the_unit_that_is_declared(tmp_path: Path, way: str) -> None:
    seconds = MILLIS // 1_000
    whole = MOMENT.replace(microsecond=0)
    assert moments(way, tmp_path, "TIMESTAMP(3)", "epoch_ms", MILLIS) == [MOMENT, None]
    for kind, unit, value, moment in (
        ("TIMESTAMP_LTZ(3)", "epoch_ms", MILLIS, MOMENT.replace(tzinfo=UTC)),
        ("TIMESTAMP(0)", "epoch_s", seconds, whole),
        ("TIMESTAMP(6)", "epoch_us", MILLIS * 1_000 + 7, MOMENT + dt.timedelta(microseconds=7)),
        ("TIMESTAMP(6)", "epoch_ns", MILLIS * 1_000_000, MOMENT),
        ("TIMESTAMP(3)", "epoch_s", seconds + 0.125, whole + dt.timedelta(milliseconds=125)),
        ("TIMESTAMP(3)", "epoch_ms", -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)),
        ("DATE", "epoch_days", 19_753, dt.date(2024, 1, 31)),
        ("DATE", "epoch_days", -1, dt.date(1969, 12, 31)),
    ):
        folder = tmp_path / f"{unit}{kind}{value}"
        folder.mkdir()
        assert moments(way, folder, kind, unit, value) == [moment, None], (kind, unit, value)


@pytest.mark.parametrize("way", WAYS)
def test_a_number_that_the_column_cannot_hold_is_refused_and_not_cut(
    tmp_path: Path, way: str
) -> None:
    for kind, unit, value in (
        ("TIMESTAMP(3)", "epoch_us", MILLIS * 1_000 + 7),
        # Milliseconds under the unit of seconds would be the year 56053.
        ("TIMESTAMP(3)", "epoch_s", MILLIS),
        ("TIMESTAMP(9)", "epoch_s", 10_000_000_000),
        ("DATE", "epoch_days", MILLIS),
        ("DATE", "epoch_days", 1.5),
    ):
        folder = tmp_path / f"{unit}{kind}{value}"
        folder.mkdir()
        with pytest.raises(InvalidRows, match="at is"):
            moments(way, folder, kind, unit, value)


def test_what_is_no_number_is_refused_where_a_unit_is_declared(tmp_path: Path) -> None:
    for way, value in (("json", '"x"'), ("json", "true"), ("csv", "2024-01-31"), ("csv", "0x1F")):
        with pytest.raises(InvalidRows, match=r"TIMESTAMP\(3\) from epoch_ms, and"):
            moments(way, tmp_path, "TIMESTAMP(3)", "epoch_ms", value)
    # The text of a number is one, as some writers quote what has more than 53 bits.
    assert moments("json", tmp_path, "TIMESTAMP(3)", "epoch_ms", json.dumps(str(MILLIS))) == [
        MOMENT,
        None,
    ]
    assert moments("dicts", tmp_path, "TIMESTAMP(3)", "epoch_ms", Decimal(MILLIS))[0] == MOMENT


def test_a_column_of_moments_needs_no_numbers_where_a_unit_is_declared(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1], pa.int32()), "at": pa.array([MOMENT], pa.timestamp("ms"))})
    pq.write_table(rows, tmp_path / "a.parquet")
    declaration = declared("TIMESTAMP(3)", "epoch_ms", {"parquet": str(tmp_path)})
    (found,) = [rows for rows in read_in_turn(source_files(declaration, None), None) if rows]
    assert found.column("at").to_pylist() == [MOMENT]


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("DATE", {"from": "epoch_ms"}, "from: a DATE is read from epoch_days, and epoch_ms says"),
        ("TIMESTAMP(3)", {"from": "epoch_days"}, "is read from epoch_s, epoch_ms, epoch_us or"),
        ("TIME", {"from": "epoch_ms"}, "epoch_ms is for columns of type DATE and TIMESTAMP"),
        ("BIGINT", {"from": "epoch_ms"}, "and this one is BIGINT; leave `from` out"),
        ("TIMESTAMP(3)", {"default": "1706708700000"}, "a number is no moment; write such as"),
        ("DATE", {"default": "19753"}, "a number is no moment; write such as"),
        ("INT", {"default": "many"}, "default: column at is INT and has the default 'many'"),
        ("TINYINT", {"default": "300"}, "has the default '300'"),
        ("DECIMAL(3, 1)", {"default": "100.5"}, "has the default '100.5'"),
        ("DECIMAL(10, 2)", {"default": "1.005"}, "'1.005': the column would hold 1.01"),
        ("INT", {"default": "1.5"}, "'1.5': the column would hold 1"),
        ("VARCHAR(3)", {"default": "abcd"}, "'abcd': it is 4 long"),
        ("BINARY(1)", {"default": "ab"}, "'ab': it is 2 long"),
        ("FLOAT", {"default": "1e39"}, "'1e39': it is too large"),
        ("TIMESTAMP(0)", {"default": "2024-01-31 10:00:00.5"}, "reads 0 digits of a second in it"),
        ("TIME(0)", {"default": "10:00:00.0005"}, "reads 3 digits of a second in it"),
        ("DATE", {"default": "20240131"}, "a number is no moment"),
        ("DATE", {"default": "2024-02-30"}, "has the default '2024-02-30'"),
        ("ARRAY<INT>", {"default": "1"}, "defaults of types with parts are not implemented"),
    ],
)
def test_a_unit_or_a_default_that_its_type_cannot_have_is_named_when_the_declaration_is_read(
    kind: str, given: dict[str, str], said: str
) -> None:
    declaration = TableDeclaration.model_validate(
        {
            "table": "s.t",
            "columns": [{"name": "at", "type": kind, **given}],
            "source": {"python": "a:b"},
        }
    )
    ((place, message),) = check_declaration(declaration)
    assert place[:2] == ("columns", 0)
    assert said in f"{place[-1]}: {message}"


def test_a_word_that_is_no_unit_is_refused_with_the_units() -> None:
    with pytest.raises(ValueError, match=r"'epoch_m' is neither a unit of numbers .*epoch_ms"):
        declared("TIMESTAMP(3)", "epoch_m", {"python": "a:b"})
