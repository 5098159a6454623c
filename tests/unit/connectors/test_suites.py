"""Our own connectors pass the suites that authors inherit."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from lakewright.connectors.datagen import Datagen
from lakewright.connectors.filesystem.connector import Filesystem
from lakewright.connectors.http_json import Http
from lakewright.connectors.jdbc.connector import Jdbc
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.python_rows import PythonRows
from lakewright.connectors.testing import KeyedSinkSuite, SinkSuite, SourceSuite
from lakewright.connectors.testing.tables import comparable
from lakewright.storage.errors import UnavailableError
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from tests.support.tables.environment import FixedEnv

_COLUMNS = {
    "id": "BIGINT",
    "name": "STRING",
    "price": "DECIMAL(10, 2)",
    "day": "DATE",
    "at": "TIMESTAMP(3)",
    "ok": "BOOLEAN",
}
_ROWS: Sequence[Mapping[str, Any]] = [
    {
        "id": 1,
        "name": 'ann, "a"',
        "price": Decimal("1.25"),
        "day": dt.date(2024, 1, 31),
        "at": dt.datetime(2024, 1, 31, 12, 0, 0, 5000),
        "ok": True,
    },
    {"id": 2, "name": "bob's\nline", "price": None, "day": None, "at": None, "ok": None},
    {
        "id": 3,
        "name": "ärger",
        "price": Decimal("-0.01"),
        "day": dt.date(1969, 12, 31),
        "at": dt.datetime(1969, 12, 31, 23, 59, 59),
        "ok": False,
    },
]


def some_rows() -> Iterator[Mapping[str, Any]]:
    """What the connector `python` calls."""
    yield from _ROWS


def rows_behind(after: int | None) -> list[Mapping[str, Any]]:
    """The same behind an id."""
    return [row for row in _ROWS if after is None or row["id"] > after]


class TestPython(SourceSuite):
    factory = PythonRows()
    columns = _COLUMNS
    options: ClassVar = {"function": f"{__name__}:some_rows"}
    rows = _ROWS


class TestPythonBehindACursor(TestPython):
    options: ClassVar = {"function": f"{__name__}:rows_behind", "incremental": "id"}


class TestDatagen(SourceSuite):
    factory = Datagen()
    columns: ClassVar = {"id": "BIGINT", "word": "STRING"}
    options: ClassVar = {
        "fields.id.kind": "sequence",
        "fields.id.start": "1",
        "fields.id.end": "40",
        "fields.word.length": "3",
    }

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:  # type: ignore[override]
        planned = plan_scan(self.context(), ScanRequest())
        found = [row for piece in planned.rows() for row in piece.to_pylist()]
        assert [row["id"] for row in found] == list(range(1, 41))
        assert len({row["word"] for row in found}) > 30
        return found


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC, day TEXT, "
            "at TEXT, ok INTEGER)"
        )
    connection.close()
    return path


class _OnSqlite:
    path: Path
    factory = Jdbc()
    columns = _COLUMNS
    primary_key: ClassVar[Sequence[str]] = ("id",)

    @pytest.fixture(autouse=True)
    def _opened(self, database: Path) -> None:
        self.path = database

    def given_options(self) -> Mapping[str, str]:
        return {"url": f"jdbc:sqlite:{self.path}", "table-name": "items"}


class TestSqliteSource(_OnSqlite, SourceSuite):
    rows = _ROWS

    @pytest.fixture(autouse=True)
    def _filled(self, _opened: None) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.executemany(
                "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)",
                [
                    tuple(
                        value if value is None or isinstance(value, (str, int)) else str(value)
                        for value in row.values()
                    )
                    for row in _ROWS
                ],
            )
        connection.close()


class TestSqliteInRanges(TestSqliteSource):
    def given_options(self) -> Mapping[str, str]:
        parts = {"scan.partition.column": "id", "scan.partition.num": "2"}
        return {**super().given_options(), **parts}


class TestSqliteSink(_OnSqlite, KeyedSinkSuite):
    rows = _ROWS

    def written(self) -> Sequence[Mapping[str, Any]]:
        planned = plan_scan(self.context(), ScanRequest())
        return [row for piece in planned.rows() for row in piece.to_pylist()]

    def test_a_row_whose_key_changes_is_there_under_its_new_key_alone(self) -> None:
        sink = self.planned(ChangelogMode.all())
        first, second, third = _ROWS
        moved, renamed = {**first, "id": 9}, {**second, "name": "eve"}
        changes = self.table([first, second, third, first, moved, second, renamed])
        kinds = pa.array(["+I", "+I", "+I", "-U", "+U", "-U", "+U"])
        sink.write([changes.append_column(ROW_KIND_COLUMN, kinds)])
        assert comparable(self.written()) == comparable([moved, renamed, third])


class _InFolder:
    format: ClassVar[str]
    folder: Path
    factory = Filesystem()
    columns = _COLUMNS

    @pytest.fixture(autouse=True)
    def _opened(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "files"

    def given_options(self) -> Mapping[str, str]:
        return {"path": str(self.folder), "format": self.format}

    def test_a_required_option_that_is_missing_is_named(self) -> None:
        # Without the path there is no place; the format is asked for when it is planned.
        assert [each.name for each in self.factory.required_options] == ["path"]


class _FileSink(_InFolder, SinkSuite):
    rows = _ROWS

    def written(self) -> Sequence[Mapping[str, Any]]:
        planned = plan_scan(self.context(), ScanRequest())
        found = [row for piece in planned.rows() for row in piece.to_pylist()]
        hidden = [each for each in self.folder.rglob(".*") if each.is_file()]
        assert not hidden, "a file in progress was left behind"
        return found


class TestParquetSink(_FileSink):
    format = "parquet"


class TestOrcSink(_FileSink):
    format = "orc"


class TestAvroSink(_FileSink):
    format = "avro"


class TestCsvSink(_FileSink):
    format = "csv"


class TestJsonSink(_FileSink):
    format = "json"


class TestHiveTextSink(_FileSink):
    format = "hive-text"
    # Lines end records there, whatever is within them.
    rows: ClassVar = [{**row, "name": row["name"].replace("\n", " ")} for row in _ROWS]


class _FileSource(_InFolder, SourceSuite):
    rows = _ROWS

    @pytest.fixture(autouse=True)
    def _filled(self, _opened: None) -> None:
        sink = _FileSink()
        sink.format, sink.folder = self.format, self.folder
        sink.planned().write([sink.table(_ROWS[:2])])
        sink.planned().write([sink.table(_ROWS[2:])])


class TestParquetSource(_FileSource):
    format = "parquet"


class TestCsvSource(_FileSource):
    format = "csv"


class TestJsonSource(_FileSource):
    format = "json"


class _Pages(BaseHTTPRequestHandler):
    """Pages of two rows, by the parameter `page`, in an object; first as often busy as is said."""

    busy: ClassVar[int] = 0

    def do_GET(self) -> None:  # the server's name
        if _Pages.busy:
            _Pages.busy -= 1
            self.send_response(429)
            self.send_header("Retry-After", "7")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        asked = parse_qs(urlsplit(self.path).query)
        page, after = int(asked.get("page", ["1"])[0]), int(asked.get("after", ["0"])[0])
        rows = [row for row in _ROWS if row["id"] > after]
        shown = [
            {name: _json(value) for name, value in row.items()}
            for row in rows[2 * (page - 1) : 2 * page]
        ]
        data = json.dumps({"data": {"items": shown}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def _json(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int)) else str(value)


@pytest.fixture(scope="module")
def interface() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/items"
    server.shutdown()
    thread.join()
    server.server_close()


class TestHttp(SourceSuite):
    factory = Http()
    columns = _COLUMNS
    rows = _ROWS
    address: str

    @pytest.fixture(autouse=True)
    def _opened(self, interface: str) -> None:
        self.address = interface

    def given_options(self) -> Mapping[str, str]:
        return {"url": self.address, "records": "data.items", "pagination": "page"}

    def test_a_busy_server_is_asked_again_after_the_pause_that_it_names(self) -> None:
        _Pages.busy = 2
        env = FixedEnv()
        planned = plan_scan(replace(self.context(), env=env), ScanRequest())
        found = [row for piece in planned.rows() for row in piece.to_pylist()]
        assert comparable(found) == comparable(_ROWS)
        assert (_Pages.busy, env.slept_ms) == (0, [7000, 7000])

    def test_a_server_that_stays_busy_is_named_with_its_answer(self) -> None:
        _Pages.busy = 100
        try:
            planned = plan_scan(replace(self.context(), env=FixedEnv()), ScanRequest())
            with pytest.raises(UnavailableError, match="answers 429 Too Many Requests"):
                list(planned.rows())
        finally:
            _Pages.busy = 0


class TestHttpBehindACursor(TestHttp):
    def given_options(self) -> Mapping[str, str]:
        cursor = {"incremental": "id", "cursor-parameter": "after"}
        return {**super().given_options(), **cursor}
