"""The connector `mysql-cdc` against a real MariaDB: exact values, refusals, and kills."""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakewright.connectors import ExternalTables
from lakewright.connectors.mysql_cdc import database as mysql_database
from lakewright.connectors.mysql_cdc import scan as mysql_scan
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.storage.errors import (
    AccessRefused,
    InvalidRequestError,
    InvalidRows,
    SourceChanged,
    UnavailableError,
)
from tests.stores.capturing import Capture, killed_run
from tests.support.stores.servers import SECRET, free_port, mariadb_server
from tests.support.tally import tally

pymysql = pytest.importorskip("pymysql")
pytestmark = pytest.mark.servers

KILLS, MANY_KILLS = 6, 50
WRITERS = 3


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with mariadb_server() as port:
        yield port


class Lake(Capture):
    """A table of the server, and what captures it."""

    def __init__(self, port: int, folder: Path) -> None:
        super().__init__(folder)
        self.port = port
        self.options = {
            "connector": "mysql-cdc",
            "hostname": "127.0.0.1",
            "port": str(port),
            "username": "keeper",
            "password": "${env:CAPTURE_PASSWORD}",
            "database-name": "shop",
        }
        self.client = self.connect()

    def connect(self) -> Any:
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="keeper",
            password=SECRET,
            database="shop",
            charset="utf8mb4",
            autocommit=True,
        )

    def run(self, *statements: str) -> Any:
        """What the last one of some statements gives."""
        with closing(self.client.cursor()) as cursor:
            for each in statements:
                cursor.execute(each.replace("TABLE_NAME", self.name))
            return cursor.fetchall()

    def source_rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.run("SELECT * FROM TABLE_NAME"))


@pytest.fixture
def lake(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
    made = Lake(port, tmp_path)
    with closing(made.client):
        yield made
        made.run("DROP TABLE IF EXISTS TABLE_NAME")


# Types of the server, declared types, a value as the server takes it, and as it arrives.
_VALUES: list[tuple[str, str, str, Any]] = [
    ("TINYINT(1)", "BOOLEAN", "1", True),
    ("BIT(1)", "BOOLEAN", "b'1'", True),
    ("TINYINT", "TINYINT", "-128", -128),
    ("TINYINT UNSIGNED", "SMALLINT", "255", 255),
    ("SMALLINT UNSIGNED", "INT", "65535", 65535),
    ("MEDIUMINT", "INT", "-8388608", -8388608),
    ("MEDIUMINT UNSIGNED", "INT", "16777215", 16777215),
    ("INT UNSIGNED", "BIGINT", "4294967295", 4294967295),
    ("BIGINT", "BIGINT", "-9223372036854775808", -(1 << 63)),
    ("BIGINT UNSIGNED", "DECIMAL(20, 0)", "18446744073709551615", Decimal((1 << 64) - 1)),
    ("YEAR", "INT", "2024", 2024),
    ("FLOAT", "FLOAT", "0.1", 0.10000000149011612),
    ("FLOAT UNSIGNED", "DOUBLE", "16777215", 16777215.0),
    ("DOUBLE", "DOUBLE", "-1.7976931348623157e308", -1.7976931348623157e308),
    ("DECIMAL(30,5)", "DECIMAL(30, 5)", "-1234567890123456789012345.00012", None),
    ("DECIMAL(10,10)", "DECIMAL(10, 10)", "0.0000000001", Decimal("0.0000000001")),
    ("DECIMAL(65,3)", "STRING", "-0.5", "-0.500"),
    ("DECIMAL(9,0) UNSIGNED", "DECIMAL(9, 0)", "999999999", Decimal(999999999)),
    ("VARCHAR(300)", "STRING", "'a\\\\n\\n\"ü\U0001f600'", 'a\\n\n"ü\U0001f600'),
    ("CHAR(4)", "CHAR(4)", "'ab  '", "ab"),
    ("CHAR(255) CHARACTER SET utf8mb4", "STRING", "'é'", "é"),
    ("TEXT CHARACTER SET latin1", "STRING", "'é€\x81'", "é€\x81"),
    ("VARCHAR(9) CHARACTER SET ucs2", "STRING", "'aé'", "aé"),
    ("VARCHAR(9) CHARACTER SET utf32", "STRING", "'a\U0001f600'", "a\U0001f600"),
    ("VARCHAR(9) CHARACTER SET utf16le", "STRING", "'aé'", "aé"),
    ("VARCHAR(9) CHARACTER SET cp1251", "STRING", "'Ж'", "Ж"),
    ("VARCHAR(9) CHARACTER SET latin2", "STRING", "'ł'", "ł"),
    ("VARCHAR(9) CHARACTER SET koi8r", "STRING", "'Ж'", "Ж"),
    ("VARCHAR(9) CHARACTER SET gbk", "STRING", "'中'", "中"),
    ("VARCHAR(9) COLLATE utf8mb4_uca1400_ai_ci", "STRING", "'é'", "é"),
    ("LONGTEXT", "STRING", "REPEAT('ü', 40000)", "ü" * 40000),
    ("BINARY(4)", "BYTES", "x'ff00'", b"\xff\0\0\0"),
    ("VARBINARY(300)", "BYTES", "x'ff00'", b"\xff\0"),
    ("MEDIUMBLOB", "BYTES", "x'00ff'", b"\0\xff"),
    ("BIT(20)", "BYTES", "b'10000000000000000011'", b"\x08\0\x03"),
    ("DATE", "DATE", "'1582-10-04'", dt.date(1582, 10, 4)),
    ("DATE", "STRING", "'0000-00-00'", "0000-00-00"),
    ("DATETIME", "TIMESTAMP(0)", "'9999-12-31 23:59:59'", dt.datetime(9999, 12, 31, 23, 59, 59)),
    ("DATETIME(6)", "TIMESTAMP(6)", "'2024-01-31 12:00:00.000005'", None),
    ("DATETIME(1)", "STRING", "'2024-00-31 12:00:00.5'", "2024-00-31 12:00:00.5"),
    ("TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", "'2024-07-01 12:00:00.000005'", None),
    ("TIMESTAMP(3)", "TIMESTAMP(3)", "'2024-07-01 12:00:00.123'", None),
    ("TIME(3)", "TIME(3)", "'23:59:59.123'", dt.time(23, 59, 59, 123000)),
    ("TIME(6)", "STRING", "'-838:59:58.000001'", "-838:59:58.000001"),
    ("TIME(1)", "STRING", "'-00:00:00.5'", "-00:00:00.5"),
    ("ENUM('a','ü','') CHARACTER SET utf8mb4", "STRING", "'ü'", "ü"),
    ("SET('x','y','z')", "STRING", "'z,x'", "x,z"),
    ("SET('x','y','z')", "STRING", "''", ""),
    ("JSON", "STRING", "'{\"a\": [1, null]}'", '{"a": [1, null]}'),
]


def test_values_are_exact_in_the_snapshot_and_in_changes(lake: Lake) -> None:
    columns = ", ".join(f"c{at} {each[0]} NULL" for at, each in enumerate(_VALUES))
    declared = ", ".join(f"c{at} {each[1]}" for at, each in enumerate(_VALUES))
    lake.run(
        "SET time_zone = '+00:00'",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        f"CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, {columns}, skipped POINT, other UUID)",
    )
    lake.define(f"id INT, {declared}", "id", {"server-time-zone": "Europe/Berlin"})
    names = ", ".join(f"c{at}" for at in range(len(_VALUES)))
    ids = iter(range(100))

    def insert() -> None:
        values = ", ".join(each[2] for each in _VALUES)
        lake.run(
            f"INSERT INTO TABLE_NAME VALUES ({next(ids)}, {values}, POINT(1, 2), UUID())",
            f"INSERT INTO TABLE_NAME (id, {names}) VALUES ({next(ids)}{', NULL' * len(_VALUES)})",
        )

    insert()
    lake.batches()
    insert()
    lake.batches()
    expected = [each[3] for each in _VALUES]
    for name, value in {
        "DECIMAL(30,5)": Decimal("-1234567890123456789012345.00012"),
        "DATETIME(6)": dt.datetime(2024, 1, 31, 12, 0, 0, 5),
        "TIMESTAMP(6)": dt.datetime(2024, 7, 1, 12, 0, 0, 5, dt.UTC),
        "TIMESTAMP(3)": dt.datetime(2024, 7, 1, 14, 0, 0, 123000),
    }.items():
        expected[[each[0] for each in _VALUES].index(name)] = value
    found = lake.rows()
    nulls = [None] * len(expected)
    assert [list(each) for each in found] == [
        [0, *expected],
        [1, *nulls],
        [2, *expected],
        [3, *nulls],
    ]


def test_keys_of_several_columns_change(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (a VARCHAR(9), b VARBINARY(9), at DATETIME(3), n INT, "
        "PRIMARY KEY (b, a, at))",
        "INSERT INTO TABLE_NAME SELECT CONCAT('é', seq), CHAR(seq % 7), "
        "'2024-01-01' + INTERVAL seq SECOND, seq FROM seq_1_to_100",
    )
    columns = "a STRING, b BYTES, `at` TIMESTAMP(3), n INT"
    lake.define(columns, "a, b, `at`", {"scan.incremental.snapshot.chunk.size": "7"})
    ends = [each.end for each in lake.batches(max_rows=10)]
    assert [each["phase"] for each in ends] == ["snapshot"] * 10 + ["stream"]
    assert lake.rows() == lake.source_rows()
    lake.run(
        "UPDATE TABLE_NAME SET n = -n WHERE n < 10",
        "UPDATE TABLE_NAME SET b = CONCAT(b, 'x') WHERE n BETWEEN 20 AND 30",
        "UPDATE TABLE_NAME SET a = UPPER(a) WHERE n BETWEEN 30 AND 40",
        "BEGIN",
        "UPDATE TABLE_NAME SET n = 1000, a = 'moved' WHERE n = 40",
        "DELETE FROM TABLE_NAME WHERE n = 1000",
        "COMMIT",
        "BEGIN",
        "DELETE FROM TABLE_NAME",
        "ROLLBACK",
        "INSERT INTO TABLE_NAME VALUES ('a', 'b', '2024-01-01', 1) ON DUPLICATE KEY UPDATE n = 2",
        "REPLACE INTO TABLE_NAME VALUES ('a', 'b', '2024-01-01', 3)",
    )
    lake.batches()
    assert lake.rows() == lake.source_rows()


@pytest.mark.parametrize(
    ("kind", "declared", "value"),
    [
        ("BIGINT UNSIGNED", "DECIMAL(20, 0)", "18446744073709551515 + {at}"),
        ("BIGINT", "BIGINT", "-9223372036854775807 + CAST({at} AS SIGNED)"),
        ("DECIMAL(30, 5)", "DECIMAL(30, 5)", "1234567890123456789012345.00001 + {at} / 100000"),
        ("DATE", "DATE", "'2024-01-01' + INTERVAL {at} DAY"),
        ("TIME(6)", "STRING", "SEC_TO_TIME({at} / 10 - 2)"),
        ("DATETIME(6)", "TIMESTAMP(6)", "'2024-01-01' + INTERVAL {at} MICROSECOND"),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "'2024-01-01' + INTERVAL {at} * 1000 MICROSECOND"),
        ("VARCHAR(20) COLLATE utf8mb4_general_ci", "STRING", "CONCAT('ä', {at}, 'A ''\\\\')"),
        ("CHAR(9) CHARACTER SET latin1", "STRING", "CONCAT('é', {at})"),
        ("BINARY(4)", "BYTES", "UNHEX(HEX({at} * 1000003))"),
        ("SMALLINT UNSIGNED", "INT", "65430 + {at}"),
    ],
)
def test_chunks_of_a_key_have_each_row_once(
    lake: Lake, kind: str, declared: str, value: str
) -> None:
    lake.run(
        "SET time_zone = '+00:00'",
        f"CREATE TABLE TABLE_NAME (k {kind}, n INT, PRIMARY KEY (k, n))",
        *(
            f"INSERT INTO TABLE_NAME SELECT {value.format(at='seq')}, {n} FROM seq_1_to_40"
            for n in (1, 2)
        ),
    )
    options = {"scan.incremental.snapshot.chunk.size": "3"}
    lake.define(f"k {declared}, n INT", "k, n", options)
    batches = lake.batches(max_rows=7)
    assert [each.rows for each in batches] == [7] * 11 + [3]
    assert len(lake.rows()) == 80


def test_the_first_position_waits_for_transactions_that_wrote(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    other = lake.connect()
    with closing(other), closing(other.cursor()) as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {lake.name} VALUES (1)")
        drain = threading.Thread(target=lake.batches)
        drain.start()
        waits = "SELECT 1 FROM information_schema.processlist WHERE state LIKE '%%metadata lock'"
        while not lake.run(waits):
            assert drain.is_alive()
        cursor.execute("COMMIT")
        drain.join()
    assert lake.rows() == [(1,)]
    assert lake.batches() == []


def test_without_a_snapshot_rows_before_updates_are_given(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT NOT NULL)",
        "INSERT INTO TABLE_NAME VALUES (1, 1)",
    )
    lake.define("id INT, n INT NOT NULL", "id", {"scan.startup.mode": "latest-offset"})
    scan = plan_scan(ExternalTables(lake.session.catalog).context("db.src"), ScanRequest()).runtime
    begin = scan.latest(scan.earliest())
    lake.run(
        "UPDATE TABLE_NAME SET n = 2", "UPDATE TABLE_NAME SET id = 2", "DELETE FROM TABLE_NAME"
    )
    # A task of Spark has a copy, which connects for itself.
    (split,) = scan.plan(begin, scan.latest(begin))
    copied = pickle.loads(pickle.dumps(scan))
    scan.close()
    expected = [("-U", 1, 1), ("+U", 1, 2), ("-D", 1, 2), ("+I", 2, 2), ("-D", 2, 2)]
    found = [tuple(row.values()) for rows in copied.read(split) for row in rows.to_pylist()]
    assert [(row[-1], *row[:-1]) for row in found] == expected
    # The same place, named by its file and position.
    options = {
        "scan.startup.mode": "specific-offset",
        "scan.startup.specific-offset.file": begin["file"],
        "scan.startup.specific-offset.pos": str(begin["at"]),
    }
    lake.define("id INT, n INT NOT NULL", "id", options)
    assert lake.changes() == expected


def test_a_transaction_that_is_too_large_to_be_kept_is_read_event_by_event(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql_scan, "_MOST_HELD_ROWS", 100)
    monkeypatch.setattr(mysql_scan, "_ROWS_AT_ONCE", 64)
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, t VARCHAR(200))")
    lake.define("id INT, t STRING", "id")
    lake.batches()
    lake.run("INSERT INTO TABLE_NAME SELECT seq, REPEAT('x', 200) FROM seq_1_to_5000")
    (batch,) = lake.batches(max_rows=10)
    assert batch.rows == 5000
    assert lake.rows() == lake.source_rows()


def test_what_cannot_be_captured_is_refused_with_a_way_out(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT UNSIGNED, "
        "v INT AS (n + 1) VIRTUAL, l ENUM('ü') CHARACTER SET latin1, "
        "big VARCHAR(9) CHARACTER SET big5, z TIMESTAMP NULL)"
    )
    for columns, key, said in (
        ("id INT, n BIGINT", "n", r"primary key is \(n\).*by \(id\)"),
        ("id INT, n INT", "id", r"column n .* INT, and is int\(10\) unsigned"),
        ("id INT, nn INT", "id", "column nn .* is not there"),
        ("id INT, v INT", "id", "v of .* is computed when it is read"),
        ("id INT, big STRING", "id", "is in big5, which is not read"),
        ("id INT, l STRING", "id", "has labels in latin1"),
        ("id INT, z TIMESTAMP(3)", "id", "declare TIMESTAMP_LTZ, or set server-time-zone"),
    ):
        lake.define(columns, key)
        with pytest.raises(InvalidRequestError, match=said):
            lake.batches()
    lake.define("id INT", "id", {"server-time-zone": "Mars/Phobos"})
    with pytest.raises(InvalidRequestError, match="is no time zone"):
        lake.batches()
    lake.define("id INT", "id", {"scan.startup.mode": "specific-offset"})
    with pytest.raises(InvalidRequestError, match="needs both"):
        lake.batches()
    lake.run("DROP TABLE TABLE_NAME", "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY) ENGINE=MyISAM")
    lake.define("id INT", "id")
    with pytest.raises(InvalidRequestError, match="engine MyISAM; tables of InnoDB are captured"):
        lake.batches()
    lake.run("DROP TABLE TABLE_NAME", "CREATE TABLE TABLE_NAME (e ENUM('b','a') PRIMARY KEY)")
    lake.define("e STRING", "e")
    with pytest.raises(InvalidRequestError, match="which chunks cannot be cut by"):
        lake.batches()


def test_values_without_a_meaning_are_an_error_by_name(lake: Lake) -> None:
    lake.run("SET sql_mode = ''", "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, day DATE)")
    lake.define("id INT, day DATE", "id")
    lake.batches()
    lake.run("INSERT INTO TABLE_NAME VALUES (1, '0000-00-00')")
    with pytest.raises(InvalidRows, match=r"column day .*'0000-00-00' is no DATE"):
        lake.batches()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("TRUNCATE TABLE_NAME", "empties the table"),
        ("DROP TABLE TABLE_NAME", "drops the table"),
        ("RENAME TABLE TABLE_NAME TO shop.z1, shop.z1 TO TABLE_NAME", "renames the table"),
        ("ALTER TABLE `TABLE_NAME` /* why */ RENAME TO shop.z2", "renames the table"),
        ("CREATE OR REPLACE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT)", "replaces the table"),
        ("ALTER TABLE shop.TABLE_NAME ADD x INT, MODIFY n SMALLINT", "changes column n"),
        ("ALTER TABLE TABLE_NAME CHANGE COLUMN `n` n BIGINT", "changes column n"),
        ("ALTER TABLE TABLE_NAME DROP COLUMN N", "changes column n"),
        (
            "SET STATEMENT binlog_format = 'STATEMENT' FOR LOAD DATA INFILE 'ROWS' INTO TABLE z3",
            "LOAD DATA as a statement",
        ),
        ("SET STATEMENT binlog_format = 'STATEMENT' FOR UPDATE TABLE_NAME SET n = 2", "not ROW"),
    ],
)
def test_a_statement_that_changes_rows_untold_ends_the_stream_before_it(
    lake: Lake, statement: str, said: str
) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT)",
        "INSERT INTO TABLE_NAME VALUES (1, 1)",
    )
    lake.define("id INT, n INT", "id")
    lake.batches()
    (lake.folder / "rows").write_text("3\n")
    lake.run("CREATE TABLE IF NOT EXISTS z3 (id INT)")
    lake.run(
        "INSERT INTO TABLE_NAME VALUES (2, 2)", statement.replace("ROWS", str(lake.folder / "rows"))
    )
    if "DROP TABLE" in statement or "z2" in statement:
        lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT)")
    if "DROP COLUMN" in statement:
        lake.run("ALTER TABLE TABLE_NAME ADD n INT")
    if "BIGINT" in statement or "SMALLINT" in statement:
        lake.run("ALTER TABLE TABLE_NAME MODIFY n INT")
    # What comes before it is carried, and every drain says that the stream has stopped.
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match=said):
            lake.batches()
        assert lake.rows() == [(1, 1), (2, 2)]
    with pytest.raises(InvalidRequestError, match=said) as refused:
        lake.batches()
    assert "new checkpoint" in refused.value.message
    lake.run("DROP TABLE IF EXISTS z2")


@pytest.mark.parametrize("limit", [1, 1000])
def test_a_statement_stops_a_stream_behind_whatever_was_written_to_other_tables(
    lake: Lake, limit: int
) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS beside (id INT)",
        "INSERT INTO TABLE_NAME VALUES (1)",
    )
    lake.define("id INT", "id")
    lake.batches()
    lake.run("INSERT INTO beside VALUES (1)", "TRUNCATE TABLE_NAME")
    lake.run("INSERT INTO TABLE_NAME VALUES (2)")
    for _ in range(3):
        with pytest.raises(InvalidRequestError, match="empties the table"):
            lake.batches(limit)
        lake.run("INSERT INTO beside VALUES (1)")
    # The lag of the stream is asked for in the same way.
    scan = _scan_of(lake)
    with closing(scan), pytest.raises(InvalidRequestError, match="empties the table"):
        scan.latest(_last_offset(lake))
    lake.run("DROP TABLE beside")


@pytest.mark.parametrize(
    "written",
    ["UPDATE TABLE_NAME SET n = 21 WHERE id = 2", "DELETE FROM TABLE_NAME WHERE id = 3"],
)
def test_a_session_that_logs_less_than_whole_rows_stops_a_stream_at_its_first_event(
    lake: Lake, written: str
) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT, v VARCHAR(20))",
        "INSERT INTO TABLE_NAME VALUES (1, 10, 'one'), (2, 20, 'two'), (3, 30, 'three')",
    )
    lake.define("id INT, n INT, v STRING", "id")
    lake.batches()
    with closing(lake.connect()) as minimal, closing(minimal.cursor()) as cursor:
        cursor.execute("SET SESSION binlog_row_image = MINIMAL")
        lake.run("INSERT INTO TABLE_NAME VALUES (4, 40, 'four')")
        cursor.execute(written.replace("TABLE_NAME", lake.name))
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match="for the session that wrote them"):
            lake.batches()
    assert lake.rows() == [(1, 10, "one"), (2, 20, "two"), (3, 30, "three"), (4, 40, "four")]


def test_a_change_of_a_column_that_is_not_in_the_log_stops_a_stream(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n VARCHAR(9))",
        "INSERT INTO TABLE_NAME VALUES (1, 'one')",
    )
    lake.define("id INT, n STRING", "id")
    lake.batches()
    lake.run("SET sql_mode = '', sql_log_bin = 0", "ALTER TABLE TABLE_NAME MODIFY n VARCHAR(2)")
    lake.run("SET sql_log_bin = 1")
    with pytest.raises(SourceChanged, match=r"column n is varchar\(2\).* was varchar\(9\)"):
        lake.batches()


@pytest.mark.parametrize("key", ["id", "id, n", "v(2), id"])
def test_files_of_the_log_with_and_without_checksums_are_read_whatever_the_setting_is_now(
    lake: Lake, key: str
) -> None:
    lake.run(f"CREATE TABLE TABLE_NAME (id INT, v VARCHAR(9), n INT, PRIMARY KEY ({key}))")
    lake.define("id INT, v STRING, n INT", key.replace("(2)", ""))
    lake.batches()
    try:
        for number, setting in enumerate(("NONE", "CRC32", "NONE", "CRC32")):
            # Rows are read under the next setting, and under the one that they were written with.
            lake.run(f"INSERT INTO TABLE_NAME VALUES ({number}, 'a', {number})")
            lake.run(f"SET GLOBAL binlog_checksum = {setting}")
            lake.batches()
            assert lake.rows() == lake.source_rows()
            lake.run(f"INSERT INTO TABLE_NAME VALUES (1{number}, 'b', {number})")
            lake.batches()
            assert lake.rows() == lake.source_rows()
    finally:
        lake.run("SET GLOBAL binlog_checksum = CRC32")


def test_rows_of_another_key_or_of_other_columns_in_the_log_say_to_begin_anew(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT)")
    lake.define("id INT, n INT", "id")
    lake.batches()
    lake.run(
        "ALTER TABLE TABLE_NAME DROP PRIMARY KEY",
        "INSERT INTO TABLE_NAME VALUES (1, 1)",
        "ALTER TABLE TABLE_NAME ADD PRIMARY KEY (id)",
    )
    for _ in range(2):
        with pytest.raises(
            InvalidRequestError, match=r"that were identified by \(nothing\); .*; begin anew"
        ):
            lake.batches()
    lake.checkpoint += "-2"
    lake.batches()
    lake.run(
        "SET sql_log_bin = 0",
        "ALTER TABLE TABLE_NAME RENAME COLUMN n TO m",
        "SET sql_log_bin = 1",
        "INSERT INTO TABLE_NAME VALUES (2, 2)",
        "SET sql_log_bin = 0",
        "ALTER TABLE TABLE_NAME RENAME COLUMN m TO n",
        "SET sql_log_bin = 1",
    )
    with pytest.raises(
        InvalidRequestError, match=r"column n .* is not there .* had others when .* begin anew"
    ):
        lake.batches()


def test_of_a_column_with_a_default_it_is_told_that_older_rows_lack_it(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)", "INSERT INTO TABLE_NAME VALUES (1)")
    lake.define("id INT", "id")
    lake.batches()
    lake.run(
        "ALTER TABLE TABLE_NAME ADD b VARCHAR(9) DEFAULT 'dd', ADD c INT",
        "INSERT INTO TABLE_NAME VALUES (2, 'x', 1)",
    )
    with caplog.at_level(logging.WARNING):
        lake.batches()
    assert "(b DEFAULT 'dd')" in caplog.text
    assert "read the table again" in caplog.text
    caplog.clear()
    lake.session.sql("ALTER TABLE dst ADD COLUMN b STRING")
    lake.define("id INT, b STRING", "id")
    lake.run("INSERT INTO TABLE_NAME VALUES (3, 'y', 1)")
    with caplog.at_level(logging.WARNING):
        lake.batches()
    assert "without the columns b have null" in caplog.text
    assert lake.rows() == [(1, None), (2, None), (3, "y")]


def test_empty_labels_are_read_and_compressed_columns_are_refused(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, e ENUM('a', '', 'it''s'), s SET('', 'x'))",
        "INSERT INTO TABLE_NAME VALUES (1, '', 'x')",
    )
    lake.define("id INT, e STRING, s STRING", "id")
    lake.batches()
    lake.run(
        "INSERT INTO TABLE_NAME VALUES (2, '', ',x'), (3, 'it''s', ''), (4, 'a', NULL)",
    )
    lake.batches()
    assert lake.rows() == lake.source_rows()
    lake.run("ALTER TABLE TABLE_NAME ADD z VARCHAR(100) COMPRESSED")
    lake.run("INSERT INTO TABLE_NAME VALUES (5, 'a', 'x', 'zzz')")
    with pytest.raises(InvalidRequestError, match=r"column z of .* COMPRESSED"):
        lake.batches()


def test_a_first_start_beside_an_open_transaction_says_what_it_waits_for(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = mysql_database._SETTINGS.replace("lock_wait_timeout = 60", "lock_wait_timeout = 1")
    monkeypatch.setattr(mysql_database, "_SETTINGS", settings)
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    with closing(lake.connect()) as other, closing(other.cursor()) as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {lake.name} VALUES (1)")
        with pytest.raises(UnavailableError, match=r"wrote to .* one is open; end it"):
            lake.batches()


def test_behind_a_statement_that_changed_no_row_a_stream_goes_on(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT)",
        "INSERT INTO TABLE_NAME VALUES (1, 1)",
    )
    lake.define("id INT, n BIGINT", "id")
    lake.batches()
    lake.run("ALTER TABLE TABLE_NAME MODIFY n BIGINT", "INSERT INTO TABLE_NAME VALUES (2, 1 << 40)")
    with pytest.raises(InvalidRequestError, match="changes column n") as refused:
        lake.batches()
    words = refused.value.message.split("'")
    lake.checkpoint += "-2"
    lake.define("id INT, n BIGINT", "id", dict(zip(words[-12::4], words[-10::4], strict=True)))
    lake.batches()
    assert lake.rows() == [(1, 1), (2, 1 << 40)]


def test_other_statements_do_not_stop_a_stream(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT)")
    lake.define("id INT, n INT", "id")
    lake.batches()
    lake.run(
        "ALTER TABLE TABLE_NAME ADD extra INT FIRST, ADD INDEX i (n), ALTER n SET DEFAULT 7",
        "ALTER TABLE TABLE_NAME DROP INDEX i, COMMENT 'MODIFY n, DROP TABLE TABLE_NAME'",
        "CREATE TABLE other (TABLE_NAME INT PRIMARY KEY)",
        "ALTER TABLE other MODIFY TABLE_NAME BIGINT",
        "TRUNCATE other",
        "INSERT INTO TABLE_NAME (id) VALUES (1)",
        "DROP TABLE other",
        "CREATE DATABASE elsewhere",
        "CREATE TABLE elsewhere.TABLE_NAME (id INT)",
        "INSERT INTO elsewhere.TABLE_NAME VALUES (5)",
        "DROP DATABASE elsewhere",
    )
    lake.batches()
    assert lake.rows() == [(1, 7)]


def test_a_new_column_is_told_and_not_read(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    scan = plan_scan(ExternalTables(lake.session.catalog).context("db.src"), ScanRequest()).runtime
    start = scan.latest(scan.latest(scan.earliest()))
    lake.run("ALTER TABLE TABLE_NAME ADD extra INT", "INSERT INTO TABLE_NAME VALUES (1, 2)")
    with caplog.at_level(logging.WARNING):
        end = scan.latest(start)
        rows = [row for split in scan.plan(start, end) for row in scan.read(split)]
    scan.close()
    assert rows[0].to_pylist() == [{"id": 1, "_rowkind": "+I"}]
    assert caplog.text.count("not declared and not read: extra") == 1


def test_changes_that_the_log_lacks_are_told(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    lake.run("CREATE TABLE parent (id INT PRIMARY KEY)")
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, p INT, "
        "CONSTRAINT cascading FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)"
    )
    lake.define("id INT", "id")
    with caplog.at_level(logging.WARNING):
        lake.batches()
    assert r"foreign keys (cascading) change rows" in caplog.text
    lake.run("DROP TABLE TABLE_NAME", "DROP TABLE parent")


def test_a_log_that_does_not_say_enough_is_refused(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    lake.run("SET GLOBAL binlog_row_metadata = 'NO_LOG'")
    try:
        with pytest.raises(InvalidRequestError, match="SET GLOBAL binlog_row_metadata = 'FULL'"):
            lake.batches()
        lake.run("SET GLOBAL binlog_row_metadata = 'FULL'")
        lake.batches()
        lake.run("SET GLOBAL binlog_row_metadata = 'NO_LOG'", "INSERT INTO TABLE_NAME VALUES (1)")
    finally:
        lake.run("SET GLOBAL binlog_row_metadata = 'FULL'")
    with pytest.raises(InvalidRequestError, match="without all columns and their names"):
        lake.batches()


@pytest.mark.parametrize("user", ["keeper", "capture"])
def test_a_replica_whose_log_lacks_what_it_replicates_is_refused(
    lake: Lake, tmp_path: Path, user: str
) -> None:
    with mariadb_server("--server-id=2") as port:
        replica = Lake(port, tmp_path / "replica")
        with closing(replica.client):
            replica.run(
                "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)",
                f"CREATE USER capture@'%' IDENTIFIED BY '{SECRET}'",
                "GRANT SELECT, LOCK TABLES ON shop.* TO capture@'%'",
                "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO capture@'%'",
            )
            replica.define("id INT", "id", {"username": user})
            replica.batches()
            [(file, at, *_)] = lake.run("SHOW MASTER STATUS")
            replica.run(
                f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {lake.port}, "
                f"MASTER_USER = 'keeper', MASTER_PASSWORD = '{SECRET}', "
                f"MASTER_LOG_FILE = '{file}', MASTER_LOG_POS = {at}",
                "START SLAVE",
            )
            for _ in range(2):
                with pytest.raises(InvalidRequestError, match="is a replica, and its binary log"):
                    replica.batches()
            replica.run("STOP SLAVE", "RESET SLAVE ALL")
            replica.run("INSERT INTO TABLE_NAME VALUES (1)")
            replica.batches()
            assert replica.rows() == [(1,)]


def test_prepared_transactions_are_refused(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    lake.batches()
    begun = ["XA START 'x'", "INSERT INTO TABLE_NAME VALUES ({})", "XA END 'x'"]
    lake.run(*(each.format(1) for each in begun), "XA COMMIT 'x' ONE PHASE")
    lake.batches()
    assert lake.rows() == [(1,)]
    lake.run(*(each.format(2) for each in begun), "XA PREPARE 'x'", "XA COMMIT 'x'")
    with pytest.raises(InvalidRequestError, match="prepared XA transaction"):
        lake.batches()


def test_a_purged_log_is_an_error_that_says_how_to_begin_anew(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    lake.batches()
    lake.run("INSERT INTO TABLE_NAME VALUES (1)", "FLUSH BINARY LOGS")
    ((last, *_),) = lake.run("SHOW MASTER STATUS")
    # The server keeps a file that a reader which has just left was sent.
    for _ in range(100):
        lake.run(f"PURGE BINARY LOGS TO '{last}'")
        if lake.run("SHOW BINARY LOGS")[0][0] == last:
            break
        time.sleep(0.1)
    with pytest.raises(InvalidRequestError, match=r"purged or reset.*lost; begin anew") as refused:
        lake.batches()
    assert SECRET not in refused.value.message


def test_a_position_moves_on_while_other_tables_are_written(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    (first,) = lake.batches()
    lake.run("CREATE TABLE filler AS SELECT REPEAT('x', 1000) AS t FROM seq_1_to_8000")
    (batch,) = lake.batches()
    assert batch.rows == 0
    assert batch.end["at"] - first.end["at"] > 4 << 20
    assert lake.batches() == []
    lake.run("FLUSH BINARY LOGS", "INSERT INTO TABLE_NAME VALUES (1)", "DROP TABLE filler")
    (batch,) = lake.batches()
    assert (batch.rows, batch.end["file"]) == (1, lake.run("SHOW MASTER STATUS")[0][0])


def test_a_drain_ends_where_the_log_ended_when_it_began(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    scan = plan_scan(ExternalTables(lake.session.catalog).context("db.src"), ScanRequest()).runtime
    start = scan.latest(scan.earliest())
    for number in range(3):
        lake.run(f"INSERT INTO TABLE_NAME VALUES ({number})", "FLUSH BINARY LOGS")
    end = scan.latest(start)
    scan.end_at(end)
    lake.run("INSERT INTO TABLE_NAME VALUES (7)")
    rows = 0
    while (until := scan.latest(start, 1)) != start:
        for split in scan.plan(start, until):
            rows += sum(each.num_rows for each in scan.read(split))
        start = until
    scan.close()
    assert (rows, start) == (3, end)


def test_without_rights_the_error_has_the_statements_to_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)",
        f"CREATE USER TABLE_NAME@'%' IDENTIFIED BY '{SECRET}'",
        "GRANT SELECT ON shop.* TO TABLE_NAME@'%'",
    )
    lake.define("id INT", "id", {"username": lake.name})
    with pytest.raises(
        InvalidRequestError, match=r"run (GRANT .*) and (GRANT .*) TO it"
    ) as refused:
        lake.batches()
    first, _, second = refused.value.message.rpartition("run ")[2].partition(" and GRANT")
    lake.run(first, f"GRANT{second.replace('TO it', 'TO TABLE_NAME')}")
    lake.batches()
    monkeypatch.setenv("CAPTURE_PASSWORD", "a-wrong-one")
    with pytest.raises(AccessRefused, match="Access denied for user") as failed:
        lake.batches()
    assert "a-wrong-one" not in failed.value.message
    lake.run("DROP USER TABLE_NAME@'%'")


# --- other logs -----------------------------------------------------------------------------------


def _written_and_killed(data: Path, port: int, folder: Path) -> tuple[Lake, list[tuple[Any, ...]]]:
    """A table with a transaction that is the last in the log of a server that was killed."""
    with mariadb_server(data=data, port=port):
        lake = Lake(port, folder)
        lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
        lake.define("id INT", "id")
        lake.batches()
        lake.run("INSERT INTO TABLE_NAME VALUES (1)", "INSERT INTO TABLE_NAME VALUES (2), (3)")
        file = lake.run("SHOW MASTER STATUS")[0][0]
        events = list(lake.run(f"SHOW BINLOG EVENTS IN '{file}'"))
        os.kill(int((data / "pid").read_text()), signal.SIGKILL)
        return lake, events


@pytest.mark.parametrize("cut", ["at an event", "inside of an event"])
@pytest.mark.parametrize("held", ["kept", "not kept"])
def test_rows_of_a_transaction_that_a_crash_cut_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str, held: str
) -> None:
    monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
    monkeypatch.setattr(mysql_scan, "_MOST_HELD_ROWS", 1000 if held == "kept" else 0)
    port, data = free_port(), tmp_path / "mariadb"
    lake, events = _written_and_killed(data, port, tmp_path)
    *_, (file, at, kind, *_) = events
    assert kind == "Xid"
    with (data / file).open("r+b") as log:
        log.truncate(at - (5 if cut == "inside of an event" else 0))
    with mariadb_server(data=data, port=port):
        lake.client = lake.connect()
        lake.run("INSERT INTO TABLE_NAME VALUES (4)")
        if cut == "at an event":
            lake.batches()
            assert lake.rows() == [(1,), (4,)]
            lake.run("INSERT INTO TABLE_NAME VALUES (5)")
            lake.batches()
            assert lake.rows() == [(1,), (4,), (5,)]
            return
        with pytest.raises(InvalidRequestError, match="ends inside of an event"):
            lake.batches()
        with pytest.raises(InvalidRequestError, match="ends inside of an event") as refused:
            lake.batches()
        assert lake.rows() == [(1,)]
        # The message says where the log goes on.
        words = refused.value.message.split("'")
        lake.checkpoint += "-2"
        lake.define("id INT", "id", dict(zip(words[-12::4], words[-10::4], strict=True)))
        lake.batches()
        assert lake.rows() == [(1,), (4,)]


def test_a_log_that_was_reset_is_another_log_even_at_the_same_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
    with mariadb_server() as port:
        lake = Lake(port, tmp_path)
        lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)", "RESET MASTER")
        lake.define("id INT", "id")
        lake.run("INSERT INTO TABLE_NAME VALUES (1)")
        lake.batches()
        # A log is known by its second.
        time.sleep(1.1)
        lake.run("RESET MASTER")
        for number in range(2, 5):
            lake.run(f"INSERT INTO TABLE_NAME VALUES ({number})")
        with pytest.raises(SourceChanged, match="was reset"):
            lake.batches()
        with pytest.raises(SourceChanged, match=r"log is binlog.000001 of .*was reset") as said:
            lake.batches()
        assert said.value.details["thing"] == "log"
        # Shorter than the position, or with files before it.
        lake.checkpoint += "-2"
        lake.run("FLUSH BINARY LOGS", "INSERT INTO TABLE_NAME VALUES (6)")
        lake.batches()
        lake.run("RESET MASTER", "INSERT INTO TABLE_NAME VALUES (7)")
        for _ in range(2):
            with pytest.raises(InvalidRequestError, match="purged or reset"):
                lake.batches()


def test_a_server_with_another_id_is_known_by_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
    data = tmp_path / "mariadb"
    with mariadb_server(data=data) as port:
        lake = Lake(port, tmp_path)
        lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
        lake.define("id INT", "id")
        lake.batches()
        ((_, before),) = lake.run("SHOW VARIABLES LIKE 'server_uid'")
    # MariaDB's id is made of its port, among others.
    with mariadb_server(data=data) as port:
        lake.port = port
        lake.options = {**lake.options, "port": str(port)}
        lake.client = lake.connect()
        assert lake.run("SHOW VARIABLES LIKE 'server_uid'") != (("server_uid", before),)
        lake.run("INSERT INTO TABLE_NAME VALUES (1)")
        scan = _scan_of(lake)
        with caplog.at_level(logging.WARNING), closing(scan):
            end = scan.latest(_last_offset(lake))
        assert "its log is the same" in caplog.text
        assert end["rests on"]["server"] != before
    time.sleep(1.1)
    with mariadb_server() as port:
        lake.port = port
        lake.options = {**lake.options, "port": str(port)}
        lake.client = lake.connect()
        lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
        for number in range(9):
            lake.run(f"INSERT INTO TABLE_NAME VALUES ({number})")
        scan = _scan_of(lake)
        with closing(scan), pytest.raises(InvalidRequestError, match=r"server is|purged or reset"):
            scan.latest(_last_offset(lake))


def _scan_of(lake: Lake) -> Any:
    lake.define("id INT", "id")
    return plan_scan(ExternalTables(lake.session.catalog).context("db.src"), ScanRequest()).runtime


def _last_offset(lake: Lake) -> Any:
    (stream,) = lake.session.catalog.table("db.dst").history.streams()
    return json.loads(stream.position or "")


# --- kills ----------------------------------------------------------------------------------------


class Writer(threading.Thread):
    """Random transactions on keys of its own, carried out on a dict when they commit."""

    def __init__(self, lake: Lake, number: int, model: dict[int, tuple[Any, ...]]) -> None:
        super().__init__()
        self.lake, self.number, self.model = lake, number, model
        self.chance = random.Random(number)
        self.is_over = threading.Event()
        self.transactions = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with closing(self.lake.connect()) as client:
                client.autocommit(False)
                while not self.is_over.is_set():
                    self.transact(client)
                    time.sleep(self.chance.uniform(0, 0.02))
        except BaseException as error:  # noqa: BLE001 - told by the test
            self.failure = error

    def transact(self, client: Any) -> None:
        rows, table = dict(self.model), self.lake.name
        cursor = client.cursor()
        for _ in range(self.chance.choice([1, 1, 2, 5, 40])):
            key, other = (self.chance.randrange(4000) * WRITERS + self.number for _ in range(2))
            n = self.chance.randrange(1 << 30)
            if key not in rows:
                size = self.chance.choice([0, 10, 3000])
                rows[key] = (n, self.chance.randbytes(size).hex())
                cursor.execute(f"INSERT INTO {table} VALUES (%s, %s, %s)", (key, *rows[key]))
                continue
            action = self.chance.choice(["n", "n", "big", "key", "delete"])
            old = rows.pop(key)
            if action == "n":
                rows[key] = (n, old[1])
                cursor.execute(f"UPDATE {table} SET n = %s WHERE id = %s", (n, key))
            elif action == "big":
                rows[key] = (old[0], self.chance.randbytes(4000).hex())
                cursor.execute(f"UPDATE {table} SET big = %s WHERE id = %s", (rows[key][1], key))
            elif action == "key" and other not in rows:
                rows[other] = old
                cursor.execute(f"UPDATE {table} SET id = %s WHERE id = %s", (other, key))
            else:
                cursor.execute(f"DELETE FROM {table} WHERE id = %s", (key,))
        if self.chance.random() > 0.15:
            client.commit()
            self.transactions += 1
            self.model.clear()
            self.model.update(rows)
        else:
            client.rollback()


def test_a_server_that_is_killed_is_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
    port, data, chance = free_port(), tmp_path / "mariadb", random.Random(7)
    # A transaction that a reader of the log has seen is not lost.
    settings = "--innodb-flush-log-at-trx-commit=1"
    lake: Lake | None = None
    for number in range(4):
        with mariadb_server(settings, data=data, port=port):
            if lake is None:
                lake = Lake(port, tmp_path)
                lake.run("CREATE TABLE TABLE_NAME (id BIGINT PRIMARY KEY, n BIGINT, big TEXT)")
                lake.define("id BIGINT, n BIGINT, big STRING", "id")
            lake.client = lake.connect()
            if number == 3:
                lake.batches()
                assert lake.rows() == lake.source_rows()
                assert lake.rows()
                return
            known = {row[0]: row[1:] for row in lake.source_rows()}
            writer = Writer(lake, 0, known)
            writer.start()
            for _ in range(chance.randrange(1, 4)):
                lake.batches(max_rows=500)
            os.kill(int((data / "pid").read_text()), signal.SIGKILL)
            writer.join()
            assert isinstance(writer.failure, pymysql.Error), writer.failure
            with pytest.raises(UnavailableError):
                lake.batches()


@pytest.mark.parametrize(
    "kills", [KILLS, pytest.param(MANY_KILLS, marks=pytest.mark.deep)], ids=["few", "many"]
)
def test_a_stream_that_is_killed_at_any_moment_loses_and_doubles_nothing(
    lake: Lake, kills: int
) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id BIGINT PRIMARY KEY, n BIGINT, big TEXT)")
    options = {"scan.incremental.snapshot.chunk.size": "100"}
    lake.define("id BIGINT, n BIGINT, big STRING", "id", options)
    models: list[dict[int, tuple[Any, ...]]] = [{} for _ in range(WRITERS)]
    for key in range(10_000):
        models[key % WRITERS][key] = (key, "b" * (2500 if key % 10 == 0 else 5))
    with closing(lake.client.cursor()) as cursor:
        rows = [(key, *row) for model in models for key, row in model.items()]
        cursor.executemany(f"INSERT INTO {lake.name} VALUES (%s, %s, %s)", rows)
    writers = [Writer(lake, number, model) for number, model in enumerate(models)]
    for each in writers:
        each.start()
    chance = random.Random(kills)
    phases = [killed_run(lake, chance) for _ in range(kills)]
    for each in writers:
        each.is_over.set()
        each.join()
        assert each.failure is None, each.failure
    lake.batches()
    expected = {key: row for model in models for key, row in model.items()}
    found = lake.rows()
    assert found == lake.source_rows()
    assert {row[0]: row[1:] for row in found} == expected
    for phase in phases:
        tally(f"kills survived, last told: {phase}")
    tally("transactions captured", sum(each.transactions for each in writers))
