"""The digits of a second: every way into a table keeps those that the type declares, and no cut."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import fastavro
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakewright.platform.ingest.source_files import source_files
from lakewright.platform.tables.declarations import TableDeclaration
from lakewright.session import Session
from lakewright.storage import Catalog, StorageError, Table
from lakewright.storage.file_reader.reader import read_in_turn

TEXT = "2024-01-31 10:00:00.123456789"
HELD = {
    kind: int(kind[-2])
    for kind in ("TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(4)", "TIMESTAMP(6)", "TIMESTAMP(7)")
}
HELD |= {"TIMESTAMP(9)": 9, "TIME(0)": 0, "TIME(3)": 3}


def text_of(kind: str, digits: int) -> str:
    text = TEXT[: len(TEXT) - 9 + digits].rstrip(".")
    return text[11:] if kind.startswith("TIME(") else text


def arrow(kind: str, digits: int) -> pa.Table:
    unit = "ms" if digits <= 3 else "us" if digits <= 6 else "ns"
    text = text_of(kind, digits)
    if kind.startswith("TIME("):
        held = pa.time32("ms") if unit == "ms" else pa.time64(unit)
        return pa.table({"at": pa.array([dt.time.fromisoformat(text)], held)})
    return pa.table({"at": pa.array([text]).cast(pa.timestamp(unit))})


def _files(of: str, kind: str, put: Callable[[Path], object]) -> Callable[[Table, Path], object]:
    def write(table: Table, folder: Path) -> None:
        (folder / "land").mkdir()
        put(folder / f"land/a.{of}")
        declaration = TableDeclaration.model_validate(
            {
                "table": "s.t",
                "columns": [{"name": "at", "type": kind}],
                "source": {of: str(folder / "land")},
            }
        )
        table.write(read_in_turn(source_files(declaration, None), None))

    return write


def _avro(path: Path, kind: str, digits: int) -> None:
    unit, count = ("millis", 3) if digits <= 3 else ("micros", 6)
    fields = [{"name": "at", "type": {"type": "long", "logicalType": f"local-timestamp-{unit}"}}]
    value = arrow(kind, digits).column("at").cast(pa.int64())[0].as_py()
    assert count >= digits
    out = BytesIO()
    moments = pa.array([value], pa.timestamp("ms" if unit == "millis" else "us")).to_pylist()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, [{"at": moments[0]}])
    path.write_bytes(out.getvalue())


def ways(kind: str, digits: int) -> dict[str, Callable[[Table, Path], object]]:
    text = text_of(kind, digits)
    found: dict[str, Callable[[Table, Path], object]] = {
        "dicts of texts": lambda table, _: table.write([{"at": text.replace(" ", "T")}]),
        "arrow": lambda table, _: table.write(arrow(kind, digits)),
        "sql": lambda _, folder: Session(Catalog.open(str(folder))).sql(
            f"INSERT INTO s.t VALUES ({kind.partition('(')[0]} '{text}')"
        ),
        "csv": _files("csv", kind, lambda path: path.write_text(f"at\n{text}\n")),
        "json": _files("json", kind, lambda path: path.write_text(json.dumps({"at": text}))),
        "parquet": _files("parquet", kind, lambda path: pq.write_table(arrow(kind, digits), path)),
    }
    if digits <= 6:
        found["dicts of values"] = lambda table, _: table.write(arrow(kind, digits).to_pylist())
    if not kind.startswith("TIME("):
        found["orc"] = _files("orc", kind, lambda path: orc.write_table(arrow(kind, digits), path))
        found["pandas"] = lambda table, _: table.write(
            pd.DataFrame({"at": arrow(kind, digits).column("at").to_pandas()})
        )
        if digits <= 6:
            found["avro"] = _files("avro", kind, lambda path: _avro(path, kind, digits))
    return found


@pytest.mark.parametrize("kind", HELD)
@pytest.mark.sampled(3)
def test_every_way_in_keeps_the_declared_digits_and_refuses_finer_ones(
    tmp_path: Path, kind: str
) -> None:
    for digits in (0, 3, 6, 9):
        if kind.startswith("TIME(") and digits == 9:
            # Python and SQL have no such times of day.
            continue
        held = min(digits, HELD[kind])
        for name, write in ways(kind, digits).items():
            folder = tmp_path / f"{digits} {name}"
            folder.mkdir()
            catalog = Catalog.open(str(folder))
            catalog.create_database("s")
            table = catalog.create_table("s.t", {"at": kind})
            where = f"{kind} with {digits} digits by {name}"
            if digits > HELD[kind]:
                with pytest.raises(StorageError, match="at"):
                    write(table, folder)
                assert table.read().num_rows == 0, where
                continue
            write(table, folder)
            rows = catalog.table("s.t").read()
            stored = rows.column("at").cast(arrow(kind, max(held, 1)).column("at").type)
            assert stored.to_pylist() == arrow(kind, digits).column("at").to_pylist(), where
