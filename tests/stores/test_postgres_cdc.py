"""The connector `postgres-cdc` against a real PostgreSQL: exact values, refusals, and kills."""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from lakewright.connectors import ExternalTables
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.connectors.postgres_cdc import database as postgres_database
from lakewright.connectors.postgres_cdc import scan as postgres_scan
from lakewright.connectors.postgres_cdc.database import lsn_number
from lakewright.session import Session
from lakewright.storage.errors import (
    AccessRefused,
    InvalidRequestError,
    InvalidRows,
    SourceChanged,
    UnavailableError,
)
from tests.stores.capturing import Capture, killed_run
from tests.support.stores.servers import SECRET, free_port, postgres_server
from tests.support.tally import tally

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.servers

WRITERS, KILLS, PATIENCE_SECONDS = 3, 24, 120


_VALUES = (
    """1, true, 0.1, 1e300, 1234567890123456789012345.12345, E'a\\n"b,\\\\ü', 'ab', '\\x00ff',
    '1582-10-04', '2024-01-31 12:00:00.000005', '2024-01-31 12:00:00.5+02', '23:59:59.123',
    'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": [1, null]}', '{1,NULL,3}'""",
    "NULL" + ", NULL" * 14,
    """-1, false, 'NaN', '-Infinity', -0.00001, '', '', '', '0001-01-01', '9999-12-31 23:59:59',
    '0001-01-01 00:00:00+00', '00:00', NULL, 'null', '{}'""",
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server("wal_level=logical", "max_replication_slots=60") as url:
        for _ in range(100):
            if subprocess.run(["pg_isready", "-q", "-d", url], check=False).returncode == 0:
                break
            time.sleep(0.1)
        yield url


class Lake(Capture):
    """A table of the server, and what captures it."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(folder)
        self.url = url
        self.options = {
            "connector": "postgres-cdc",
            "hostname": "127.0.0.1",
            "port": str(urlsplit(url).port),
            "username": "keeper",
            "password": "${env:CAPTURE_PASSWORD}",
            "database-name": "postgres",
            "schema-name": "public",
            "slot.name": self.name,
        }
        self.client = self.connect()

    def connect(self) -> Any:
        return psycopg.connect(self.url, password=SECRET, autocommit=True)

    def run(self, *statements: str) -> None:
        for each in statements:
            self.client.execute(each.replace("TABLE_NAME", self.name))

    def source_rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        return sorted(self.client.execute(f"SELECT {columns} FROM {self.name}").fetchall())

    def confirmed(self) -> int | None:
        """The slot's position."""
        asked = "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s"
        found = self.client.execute(asked, (self.name,)).fetchone()
        return None if found is None else int(found[0])


@pytest.fixture
def lake(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
    made = Lake(server, tmp_path)
    with closing(made.client):
        yield made
        made.run(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE slot_name = 'TABLE_NAME'",
            'DROP PUBLICATION IF EXISTS "TABLE_NAME"',
            "DROP TABLE IF EXISTS TABLE_NAME",
        )


def test_values_are_exact_in_the_snapshot_and_in_changes(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id BIGINT PRIMARY KEY, small SMALLINT, flag BOOLEAN, r REAL, "
        "f FLOAT8, price NUMERIC(30, 5), name TEXT, code CHAR(4), bytes BYTEA, day DATE, "
        'at TIMESTAMP, zoned TIMESTAMPTZ, t TIME(3), u UUID, j JSONB, "odd "" %s Näme" INT[])',
        "SET TIME ZONE 'UTC'",
    )
    lake.define(
        "id BIGINT, small INT, flag BOOLEAN, r FLOAT, f DOUBLE, price DECIMAL(30, 5), name STRING, "
        "code STRING, bytes BYTES, day DATE, `at` TIMESTAMP(6), zoned TIMESTAMP_LTZ(6), t TIME(3), "
        'u STRING, j STRING, `odd " %s Näme` STRING',
        "id",
        {"scan.incremental.snapshot.chunk.size": "2"},
    )
    ids = iter(range(-2, 100))

    def insert() -> None:
        for values in _VALUES:
            lake.run(f"INSERT INTO TABLE_NAME VALUES ({next(ids)}, {values})")

    insert()
    lake.batches()
    insert()
    lake.batches()
    found = lake.rows()
    expected = lake.source_rows(
        "id, small, flag, r::float8, f, price, name, code, bytes, day, at, "
        'zoned AT TIME ZONE \'UTC\', t, u::text, j::text, "odd "" %s Näme"::text'
    )
    naive = [
        tuple(each.replace(tzinfo=None) if isinstance(each, dt.datetime) else each for each in row)
        for row in found
    ]
    assert len(found) == 6
    assert repr(naive) == repr(expected)


def test_keys_of_several_columns_change_and_large_values_are_never_null(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (a TEXT, b NUMERIC, n INT, big TEXT, other TEXT, "
        "PRIMARY KEY (b, a))",
        "ALTER TABLE TABLE_NAME ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO TABLE_NAME SELECT 'é' || i, i % 7, i, repeat('x', 5000 + i), '' "
        "FROM generate_series(1, 100) i",
    )
    columns = "a STRING, b DECIMAL(10, 0), n INT, big STRING, other STRING"
    lake.define(columns, "a, b", {"scan.incremental.snapshot.chunk.size": "7"})
    ends = [each.end for each in lake.batches(max_rows=10)]
    assert [each["phase"] for each in ends] == ["snapshot"] * 10 + ["stream"]
    assert lake.rows() == lake.source_rows()
    lake.run(
        "UPDATE TABLE_NAME SET n = -n WHERE n < 10",
        "UPDATE TABLE_NAME SET b = b + 1000 WHERE n BETWEEN 20 AND 30",
        "BEGIN; UPDATE TABLE_NAME SET big = repeat('z', 9000) WHERE n = 40; "
        "UPDATE TABLE_NAME SET n = 1000, a = 'moved' WHERE n = 40; "
        "UPDATE TABLE_NAME SET other = 'again' WHERE n = 1000; COMMIT",
        "UPDATE TABLE_NAME SET n = 1001 WHERE n = 50",
        "DELETE FROM TABLE_NAME WHERE n = 1001",
        "BEGIN; DELETE FROM TABLE_NAME; ROLLBACK",
    )
    lake.batches()
    assert lake.rows() == lake.source_rows()


def test_with_full_identity_and_without_a_snapshot_rows_before_updates_are_given(
    lake: Lake,
) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, big TEXT, n INT)",
        "ALTER TABLE TABLE_NAME ALTER big SET STORAGE EXTERNAL, REPLICA IDENTITY FULL",
        "INSERT INTO TABLE_NAME VALUES (1, repeat('x', 5000), 1)",
    )
    lake.define("id INT, big STRING, n INT", "id", {"scan.startup.mode": "latest-offset"})
    assert lake.changes() == []
    committed = {"scan.startup.mode": "committed-offset"}
    lake.define("id INT, big STRING, n INT", "id", committed)
    lake.run(
        "UPDATE TABLE_NAME SET n = 2", "UPDATE TABLE_NAME SET id = 2", "DELETE FROM TABLE_NAME"
    )
    big = "x" * 5000
    expected = [
        ("-U", 1, big, 1),
        ("+U", 1, big, 2),
        ("-D", 1, big, 2),
        ("+I", 2, big, 2),
        ("-D", 2, big, 2),
    ]
    assert lake.changes() == expected
    # Nothing was acknowledged, so all comes again.
    assert lake.changes() == expected
    # A task of Spark has a copy, which connects for itself.
    scan = plan_scan(ExternalTables(lake.session.catalog).context("db.src"), ScanRequest()).runtime
    begin = scan.latest(scan.earliest())
    (split,) = scan.plan(begin, scan.latest(begin))
    copied = pickle.loads(pickle.dumps(scan))
    scan.close()
    kinds = [kind for rows in copied.read(split) for kind in rows["_rowkind"].to_pylist()]
    assert kinds == [each[0] for each in expected]
    lake.define("n INT, id INT", "id", {})
    assert [each[0] for each in lake.changes()] == ["+U", "-D", "+I", "-D"]


def test_what_cannot_be_captured_is_refused_with_a_way_out(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT, day DATE)")
    lake.define("id INT, n INT, day DATE", "n")
    with pytest.raises(InvalidRequestError, match=r"primary key is \(n\).*by \(id\)"):
        lake.batches()
    lake.define("id INT, n SMALLINT", "id")
    with pytest.raises(InvalidRequestError, match=r"column n .* SMALLINT, and is integer"):
        lake.batches()
    lake.define("id INT, n INT NOT NULL", "id")
    with pytest.raises(InvalidRequestError, match="REPLICA IDENTITY FULL, so a deletion has"):
        lake.batches()
    lake.run("ALTER TABLE TABLE_NAME REPLICA IDENTITY NOTHING")
    lake.define("id INT, n INT, day DATE", "id")
    with pytest.raises(InvalidRequestError, match=r"run ALTER TABLE .* REPLICA IDENTITY DEFAULT"):
        lake.batches()
    assert lake.confirmed() is None
    lake.run("ALTER TABLE TABLE_NAME REPLICA IDENTITY DEFAULT")
    lake.define("id INT, n INT, day DATE", "id", {"debezium.x": "1"})
    with pytest.raises(InvalidRequestError, match=r"has no option debezium\.x"):
        lake.batches()
    lake.define("id INT, n INT, day DATE", "id", {"scan.startup.mode": "committed-offset"})
    with pytest.raises(InvalidRequestError, match="is not there to say what was committed"):
        lake.batches()
    lake.define("id INT, n INT, day DATE", "id")
    lake.session.sql(
        "DROP TABLE dst; CREATE TABLE dst (id INT, n BIGINT, day DATE, "
        "PRIMARY KEY (id) NOT ENFORCED)"
    )
    lake.batches()
    # A column comes, another gets a wider type.
    lake.run(
        "INSERT INTO TABLE_NAME VALUES (1, 1)",
        "ALTER TABLE TABLE_NAME ALTER n TYPE BIGINT",
        "INSERT INTO TABLE_NAME VALUES (2, 20000000000)",
    )
    with pytest.raises(InvalidRequestError, match=r"column n .* INT, and is bigint in public"):
        lake.batches()
    # Only the user knows whether the values stayed as they were.
    lake.define("id INT, n BIGINT, day DATE", "id")
    with pytest.raises(SourceChanged, match=r"column n .* bigint .* integer .*committed-offset"):
        lake.batches()
    lake.checkpoint += "-2"
    lake.define("id INT, n BIGINT, day DATE", "id", {"scan.startup.mode": "committed-offset"})
    lake.batches()
    assert lake.rows() == [(1, 1, None), (2, 20000000000, None)]
    lake.run("INSERT INTO TABLE_NAME VALUES (3, 3, 'infinity')")
    with pytest.raises(InvalidRows, match=r"column day .*'infinity' is no DATE"):
        lake.batches()
    lake.run("TRUNCATE TABLE_NAME")
    lake.define("id INT, n BIGINT", "id")
    with pytest.raises(InvalidRequestError, match=r"was truncated.*begin anew: drop the slot"):
        lake.batches()


def test_a_new_column_is_told_and_not_read(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    externals = ExternalTables(lake.session.catalog)
    scan = plan_scan(externals.context("db.src"), ScanRequest()).runtime
    start = scan.latest(scan.latest(scan.earliest()))
    lake.run("ALTER TABLE TABLE_NAME ADD extra INT", "INSERT INTO TABLE_NAME VALUES (1, 2)")
    with caplog.at_level(logging.WARNING):
        end = scan.latest(start)
        rows = [row for split in scan.plan(start, end) for row in scan.read(split)]
        list(scan.read(("changes", start["lsn"], end["lsn"], end["rests on"])))
    scan.close()
    assert rows[0].to_pylist() == [{"id": 1, "_rowkind": "+I"}]
    assert caplog.text.count("not declared and not read: extra") == 1


@pytest.mark.parametrize(
    ("statements", "thing", "said"),
    [
        (["ALTER PUBLICATION @ SET (publish = 'insert')"], "publication", "is for insert "),
        (
            [
                "ALTER PUBLICATION @ SET (publish = 'insert')",
                "DELETE FROM @",
                "ALTER PUBLICATION @ SET (publish = 'insert, update, delete, truncate')",
            ],
            "publication",
            "changes in between may be left out",
        ),
        (["DROP PUBLICATION @"], "publication", "is dropped now"),
        (
            ["ALTER PUBLICATION @ SET TABLE @ WHERE (id > 1)"],
            "publication of the table",
            "with a filter",
        ),
        (
            [
                "CREATE TABLE IF NOT EXISTS other_t (id INT PRIMARY KEY)",
                "ALTER PUBLICATION @ SET TABLE other_t",
                "INSERT INTO @ VALUES (7)",
                "ALTER PUBLICATION @ ADD TABLE @",
            ],
            "publication of the table",
            "is entry [0-9]+ now, and was entry",
        ),
        (["ALTER PUBLICATION @ SET TABLE @ (id)"], "publication of the table", "columns id"),
        (["ALTER TABLE @ ALTER n TYPE INT USING n * 10"], "column n", "type integer"),
        (["ALTER TABLE @ DROP n, ADD n INT DEFAULT 7"], "column n", "column number 5"),
        (
            [
                "ALTER TABLE @ RENAME n TO x",
                "ALTER TABLE @ RENAME k TO n",
                "ALTER TABLE @ RENAME x TO k",
            ],
            "column n",
            "column number 4",
        ),
        (["ALTER TYPE @_mood RENAME VALUE 'sad' TO 'blue'"], "column m", "of blue.* of sad"),
        (
            [
                "ALTER TYPE @_mood RENAME VALUE 'sad' TO 'blue'",
                "INSERT INTO @ VALUES (2, 2, 'blue')",
                "ALTER TYPE @_mood RENAME VALUE 'blue' TO 'sad'",
            ],
            "column m",
            "of sad.* of sad",
        ),
        (
            ["DROP TABLE @", "CREATE TABLE @ (id INT PRIMARY KEY, n INT, m TEXT)"],
            "table",
            "not the",
        ),
        (
            [
                "ALTER TABLE @ ADD u INT NOT NULL DEFAULT 1 UNIQUE",
                "ALTER TABLE @ REPLICA IDENTITY USING INDEX @_u_key",
            ],
            None,
            r"identified by \(u\)",
        ),
    ],
)
def test_what_a_position_rests_on_is_compared_for_every_batch(
    lake: Lake, statements: list[str], thing: str | None, said: str
) -> None:
    lake.run(
        "CREATE TYPE TABLE_NAME_mood AS ENUM ('sad', 'fine')",
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT, m TABLE_NAME_mood, k INT)",
        "INSERT INTO TABLE_NAME VALUES (1, 1, 'sad')",
    )
    lake.define("id INT, n INT, m STRING", "id")
    lake.batches()
    try:
        lake.run(*(each.replace("@", lake.name) for each in statements))
        for _ in range(2):
            with pytest.raises(InvalidRequestError, match=said) as refused:
                lake.batches()
            if thing is not None:
                assert isinstance(refused.value, SourceChanged)
                assert refused.value.details["thing"] == thing
                assert "begin anew" in refused.value.message
        assert lake.rows() == [(1, 1, "sad")]
    finally:
        lake.run("DROP TABLE TABLE_NAME", "DROP TYPE TABLE_NAME_mood")


@pytest.mark.parametrize("published", ["schema", "parent", "grandparent"])
def test_a_table_that_left_its_publication_and_is_back_stops_the_stream(
    lake: Lake, published: str
) -> None:
    name = lake.name
    away, back = "ALTER TABLE public.@ SET SCHEMA @_away", "ALTER TABLE @_away.@ SET SCHEMA public"
    others = f"{name}_away.t"
    lake.run("CREATE SCHEMA TABLE_NAME_away")
    try:
        if published == "schema":
            lake.run(
                "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT)",
                "CREATE PUBLICATION TABLE_NAME FOR TABLES IN SCHEMA public",
            )
        else:
            parent, above = "TABLE_NAME_away.p", "TABLE_NAME_away.top"
            split = "(id INT PRIMARY KEY, n INT) PARTITION BY RANGE (id)"
            lake.run(
                f"CREATE TABLE {above} {split}",
                f"CREATE TABLE {parent} PARTITION OF {above} FOR VALUES FROM (0) TO (100) "
                "PARTITION BY RANGE (id)",
                f"CREATE TABLE TABLE_NAME PARTITION OF {parent} FOR VALUES FROM (0) TO (9)",
                f"CREATE PUBLICATION TABLE_NAME FOR TABLE {above}",
            )
            table, at = (parent, above) if published == "grandparent" else ("@", parent)
            away = f"ALTER TABLE {at} DETACH PARTITION {table}"
            until = 100 if published == "grandparent" else 9
            back = f"ALTER TABLE {at} ATTACH PARTITION {table} FOR VALUES FROM (0) TO ({until})"
            others = "TABLE_NAME_away.q"
        lake.run("INSERT INTO TABLE_NAME VALUES (1, 1)")
        lake.define("id INT, n INT", "id")
        lake.batches()
        # What becomes of others, or of the table otherwise, stops nothing.
        lake.run(
            f"CREATE TABLE {others} (id INT PRIMARY KEY)",
            "ALTER TABLE TABLE_NAME SET (fillfactor = 50)",
            "ANALYZE TABLE_NAME",
            "INSERT INTO TABLE_NAME VALUES (2, 2)",
        )
        lake.batches()
        assert lake.rows() == [(1, 1), (2, 2)]
        left = [each.replace("@", "TABLE_NAME") for each in (away, back)]
        change = "INSERT INTO {} VALUES (3, 3)"
        where = "TABLE_NAME_away.TABLE_NAME" if published == "schema" else "TABLE_NAME"
        lake.run(left[0], change.format(where), left[1])
        thing = "schema of the table" if published == "schema" else "parents of the table"
        for _ in range(2):
            with pytest.raises(SourceChanged, match="changes in between may be left out") as gone:
                lake.batches()
            assert gone.value.details["thing"] == thing
        assert lake.rows() == [(1, 1), (2, 2)]
    finally:
        lake.run("DROP SCHEMA TABLE_NAME_away CASCADE")


@pytest.mark.parametrize("kind", ["TEXT", "INT"])
def test_a_table_that_was_unlogged_for_a_while_stops_the_stream(lake: Lake, kind: str) -> None:
    lake.run(
        f"CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, v {kind})",
        "INSERT INTO TABLE_NAME VALUES (1, '1')",
        "CREATE PUBLICATION TABLE_NAME FOR ALL TABLES",
    )
    lake.define("id INT, v STRING", "id")
    lake.batches()
    lake.run(
        "ANALYZE TABLE_NAME", "VACUUM TABLE_NAME", "ALTER TABLE TABLE_NAME ADD x INT DEFAULT 7"
    )
    if kind == "TEXT":
        lake.run("VACUUM FULL TABLE_NAME", "CLUSTER TABLE_NAME USING TABLE_NAME_pkey")
    lake.run("INSERT INTO TABLE_NAME VALUES (2, '2')")
    lake.batches()
    lake.run(
        "ALTER TABLE TABLE_NAME SET UNLOGGED",
        "UPDATE TABLE_NAME SET v = '5'",
        "ALTER TABLE TABLE_NAME SET LOGGED",
    )
    with pytest.raises(SourceChanged, match="if it was UNLOGGED for a while") as refused:
        lake.batches()
    assert refused.value.details["thing"] == "rewriting of the table"
    assert lake.rows() == [(1, "1"), (2, "2")]


def test_changes_under_other_names_or_without_a_key_say_to_begin_anew(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT)")
    lake.define("id INT, n INT", "id")
    for number, (statements, said) in enumerate(
        (
            (
                ("ALTER TABLE @ RENAME n TO m", "ALTER TABLE @ RENAME m TO n"),
                r"column n .* is not there .* had others when .* begin anew",
            ),
            (
                (
                    "ALTER TABLE @ REPLICA IDENTITY NOTHING",
                    "ALTER TABLE @ REPLICA IDENTITY DEFAULT",
                ),
                r"identified by \(nothing\), and not by \(id\): .* begin anew",
            ),
        )
    ):
        lake.batches()
        away, back = (each.replace("@", lake.name) for each in statements)
        lake.run(away, f"INSERT INTO TABLE_NAME VALUES ({number}, 1)", back)
        for _ in range(2):
            with pytest.raises(InvalidRequestError, match=said):
                lake.batches()
        lake.run("SELECT pg_drop_replication_slot('TABLE_NAME')")
        lake.checkpoint += "-next"


@pytest.mark.parametrize("kind", ["REGCLASS", "REGTYPE[]", "REGROLE", "ACLITEM"])
def test_a_column_that_shows_names_of_other_objects_is_refused(lake: Lake, kind: str) -> None:
    lake.run(f"CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, c {kind})")
    lake.define("id INT, c STRING", "id")
    with pytest.raises(
        InvalidRequestError, match=rf"is {re.escape(kind.lower())} .* leave the column out"
    ):
        lake.batches()
    lake.define("id INT", "id")
    lake.batches()


def test_a_publication_whose_changes_go_by_the_root_is_refused(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT)",
        "CREATE PUBLICATION TABLE_NAME FOR TABLE TABLE_NAME "
        "WITH (publish_via_partition_root = true)",
    )
    lake.define("id INT, n INT", "id")
    # It may become a partition and be none again, and nothing would tell.
    with pytest.raises(InvalidRequestError, match=r"publish_via_partition_root.* FOR TABLE"):
        lake.batches()


@pytest.mark.parametrize(
    ("kind", "value", "statement", "said"),
    [
        ("@_mood[]", "{sad}", "ALTER TYPE @_mood RENAME VALUE 'sad' TO 'blue'", "of blue"),
        ("@_moody", "sad", "ALTER TYPE @_mood RENAME VALUE 'sad' TO 'blue'", "of blue"),
        ("@_pair", "(sad,1)", "ALTER TYPE @_mood RENAME VALUE 'sad' TO 'blue'", "of blue"),
        ("@_pair[]", '{"(sad,1)"}', "ALTER TYPE @_pair DROP ATTRIBUTE n", "number 1 .*1, 2"),
        ("@_outer", '("(sad,1)")', "ALTER TYPE @_pair ADD ATTRIBUTE x INT", "number 1, 2, 3 "),
        ("@_range", "[sad,fine]", "ALTER TYPE @_mood RENAME VALUE 'sad' TO 'blue'", "of blue"),
    ],
)
def test_types_within_a_column_are_compared_too(
    lake: Lake, kind: str, value: str, statement: str, said: str
) -> None:
    types = (
        "CREATE TYPE TABLE_NAME_mood AS ENUM ('sad', 'fine')",
        "CREATE DOMAIN TABLE_NAME_moody AS TABLE_NAME_mood",
        "CREATE TYPE TABLE_NAME_pair AS (m TABLE_NAME_moody, n INT)",
        "CREATE TYPE TABLE_NAME_outer AS (p TABLE_NAME_pair)",
        "CREATE TYPE TABLE_NAME_range AS RANGE (subtype = TABLE_NAME_mood)",
    )
    lake.run(
        *types,
        f"CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, m {kind.replace('@', lake.name)})",
        f"INSERT INTO TABLE_NAME VALUES (1, '{value}')",
    )
    try:
        lake.define("id INT, m STRING", "id")
        lake.batches()
        lake.run(
            "ALTER TYPE TABLE_NAME_mood ADD VALUE 'glad'",
            "ALTER TYPE TABLE_NAME_pair RENAME ATTRIBUTE n TO k",
            "ALTER TYPE TABLE_NAME_pair RENAME ATTRIBUTE k TO n",
            f"INSERT INTO TABLE_NAME VALUES (2, '{value}')",
        )
        lake.batches()
        assert lake.rows() == [(1, value), (2, value)]
        lake.run(statement.replace("@", lake.name))
        with pytest.raises(SourceChanged, match=said) as refused:
            lake.batches()
        assert refused.value.details["thing"] == "column m"
    finally:
        lake.run("DROP TABLE TABLE_NAME")
        for each in reversed(types):
            lake.run(f"DROP TYPE IF EXISTS {each.split()[2]} CASCADE")


def test_what_changes_no_row_that_was_read_does_not_stop_a_stream(lake: Lake) -> None:
    lake.run(
        "CREATE TYPE TABLE_NAME_mood AS ENUM ('sad', 'fine')",
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, v VARCHAR(5), m TABLE_NAME_mood)",
        "INSERT INTO TABLE_NAME VALUES (1, 'a', 'sad')",
        "CREATE TABLE TABLE_NAME_other (id INT PRIMARY KEY)",
    )
    lake.define("id INT, v STRING, m STRING", "id")
    lake.batches()
    for number, statement in enumerate(
        (
            "ALTER TABLE TABLE_NAME ALTER v TYPE VARCHAR(9)",
            "ALTER TABLE TABLE_NAME ALTER v TYPE TEXT",
            "ALTER TABLE TABLE_NAME ALTER v SET NOT NULL",
            "VACUUM FULL TABLE_NAME",
            "ALTER TYPE TABLE_NAME_mood ADD VALUE 'glad'",
            "ALTER TABLE TABLE_NAME REPLICA IDENTITY FULL",
            "ALTER TABLE TABLE_NAME ADD x INT",
            "ALTER PUBLICATION TABLE_NAME ADD TABLE TABLE_NAME_other",
        ),
        2,
    ):
        lake.run(statement, f"INSERT INTO TABLE_NAME VALUES ({number}, 'b', 'fine')")
        lake.batches()
        assert lake.rows()[-1] == (number, "b", "fine"), statement
    lake.run("DROP TABLE TABLE_NAME", "DROP TYPE TABLE_NAME_mood", "DROP TABLE TABLE_NAME_other")


def test_a_deferrable_key_is_refused_before_the_source_is_changed(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY DEFERRABLE)")
    lake.define("id INT", "id")
    with pytest.raises(InvalidRequestError, match=r"DEFERRABLE .* REPLICA IDENTITY FULL"):
        lake.batches()
    asked = "SELECT count(*) FROM pg_publication WHERE pubname = %s"
    assert lake.client.execute(asked, (lake.name,)).fetchone() == (0,)
    lake.run("ALTER TABLE TABLE_NAME REPLICA IDENTITY FULL")
    lake.batches()
    lake.run("INSERT INTO TABLE_NAME VALUES (1)", "UPDATE TABLE_NAME SET id = 2")
    lake.batches()
    assert lake.rows() == [(2,)]


def test_of_a_column_with_a_default_it_is_told_that_older_rows_lack_it(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)", "INSERT INTO TABLE_NAME VALUES (1)")
    lake.define("id INT", "id")
    lake.batches()
    lake.run("ALTER TABLE TABLE_NAME ADD b TEXT DEFAULT 'dd'", "INSERT INTO TABLE_NAME VALUES (2)")
    with caplog.at_level(logging.WARNING):
        lake.batches()
    assert "b DEFAULT 'dd'::text" in caplog.text
    assert "read the table again" in caplog.text
    caplog.clear()
    lake.session.sql("ALTER TABLE dst ADD COLUMN b STRING")
    lake.define("id INT, b STRING", "id")
    with caplog.at_level(logging.WARNING):
        lake.batches()
    assert "without the columns b have null" in caplog.text


def test_a_first_start_beside_an_open_transaction_names_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_database, "_PATIENCE_MS", 500)
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    with closing(lake.connect()) as other, other.transaction(force_rollback=True):
        other.execute(f"INSERT INTO {lake.name} VALUES (1)")
        with pytest.raises(UnavailableError, match=r"waits until .*process \d+ of keeper"):
            lake.batches()
    lake.batches()
    assert lake.rows() == []


def test_rows_that_a_policy_hides_or_that_are_not_logged_are_an_error(lake: Lake) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)",
        "INSERT INTO TABLE_NAME VALUES (1), (2)",
        "ALTER TABLE TABLE_NAME ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON TABLE_NAME FOR SELECT USING (id > 1)",
        f"CREATE ROLE TABLE_NAME LOGIN REPLICATION PASSWORD '{SECRET}'",
        "GRANT SELECT ON TABLE_NAME TO TABLE_NAME",
        "CREATE PUBLICATION TABLE_NAME FOR TABLE TABLE_NAME",
    )
    lake.define("id INT", "id", {"username": lake.name})
    with pytest.raises(InvalidRequestError, match="row-level security policy"):
        lake.batches()
    lake.run("DROP PUBLICATION TABLE_NAME", "ALTER TABLE TABLE_NAME SET UNLOGGED")
    lake.define("id INT", "id", {"slot.name": f"{lake.name}_2"})
    lake.checkpoint += "-2"
    with pytest.raises(InvalidRequestError, match="is UNLOGGED"):
        lake.batches()
    lake.run("REVOKE ALL ON TABLE_NAME FROM TABLE_NAME", "DROP ROLE TABLE_NAME")


def test_a_position_of_another_server_is_refused(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    (batch,) = lake.batches()
    lake.run("SELECT pg_drop_replication_slot('TABLE_NAME')", "DROP PUBLICATION TABLE_NAME")
    with postgres_server("wal_level=logical") as url:
        other = Lake(url, lake.folder / "other")
        with closing(other.client):
            other.name, other.options = lake.name, {**other.options, "slot.name": lake.name}
            other.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
            other.define("id INT", "id")
            other.batches()
            externals = ExternalTables(other.session.catalog)
            scan = plan_scan(externals.context("db.src"), ScanRequest()).runtime
            with closing(scan), pytest.raises(SourceChanged) as refused:
                scan.latest(batch.end)
    assert refused.value.details["thing"] == "server"
    assert refused.value.details["before"] == batch.end["rests on"]["server"]


@contextmanager
def restorable(folder: Path) -> Iterator[tuple[Path, Callable[[], AbstractContextManager[Lake]]]]:
    """The files of a server that is ended and started, and what captures from it each time."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as place:
        data, port = Path(place) / "data", free_port()
        lakes = list[Lake]()

        @contextmanager
        def started() -> Iterator[Lake]:
            with postgres_server("wal_level=logical", data=data, port=port) as url:
                for _ in range(100):
                    if subprocess.run(["pg_isready", "-q", "-d", url], check=False).returncode == 0:
                        break
                    time.sleep(0.1)
                if lakes:
                    lakes[0].client = lakes[0].connect()
                else:
                    lakes.append(Lake(url, folder))
                [lake] = lakes
                with closing(lake.client):
                    yield lake

        yield data, started


def copied(source: Path, target: Path) -> None:
    """Copy the files of a server with their owners."""
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


@pytest.mark.parametrize("idle", [False, True])
def test_a_server_that_was_restored_with_its_slot_and_went_on_stops_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: bool
) -> None:
    monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
    monkeypatch.setattr(postgres_scan, "_IDLE_BYTES", 1000)
    with restorable(tmp_path) as (data, started):
        with started() as lake:
            lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, a TEXT)")
            lake.run("CREATE TABLE noise (a TEXT)", "INSERT INTO TABLE_NAME VALUES (1, 'a')")
            lake.define("id INT, a STRING", "id")
            lake.batches()
            lake.run("INSERT INTO TABLE_NAME VALUES (2, 'b')")
            lake.batches()
        copied(data, data.parent / "copy")
        with started() as lake:
            # The position moves on, with rows of the table or without.
            table = "noise SELECT" if idle else "TABLE_NAME SELECT n,"
            lake.run(f"INSERT INTO {table} repeat('x', 200) FROM generate_series(10, 60) n")
            lake.batches()
            rows, confirmed = lake.rows(), lake.confirmed()
            assert confirmed is not None
        copied(data.parent / "copy", data)
        with started() as lake:
            assert (lake.confirmed() or 0) < confirmed
            with pytest.raises(InvalidRequestError, match=r"log ends at .* before position"):
                lake.batches()
            lake.run("INSERT INTO TABLE_NAME VALUES (3, 'c')")
            lake.run("INSERT INTO noise SELECT repeat('y', 999) FROM generate_series(1, 99)")
            for _ in range(2):
                with pytest.raises(
                    SourceChanged, match=r"restored from a copy .* begin anew"
                ) as no:
                    lake.batches()
                assert no.value.details["thing"] == "log"
            assert lake.rows() == rows


def test_a_server_that_crashed_behind_an_acknowledgement_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
    with restorable(tmp_path) as (data, started):
        with started() as lake:
            lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)", "CREATE TABLE noise (a INT)")
            lake.define("id INT", "id")
            lake.batches()
            for number in range(5):
                lake.run(
                    f"INSERT INTO TABLE_NAME VALUES ({number})", "INSERT INTO noise VALUES (1)"
                )
                lake.batches()
            acknowledged = lake.confirmed() or 0
            # The slot's place goes to the disk with a checkpoint: the server is without it here.
            for pid in (int(each) for each in (data / "postmaster.pid").read_text().split()[:1]):
                os.kill(pid, signal.SIGKILL)
            time.sleep(1)
        (data / "postmaster.pid").unlink(missing_ok=True)
        with started() as lake:
            assert (lake.confirmed() or 0) < acknowledged
            lake.run("INSERT INTO TABLE_NAME VALUES (9)")
            for _ in range(2):
                lake.batches()
                assert lake.rows() == lake.source_rows()


def test_a_log_that_does_not_tell_rows_is_refused_before_the_source_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPTURE_PASSWORD", SECRET)
    with postgres_server("wal_level=replica") as url:
        lake = Lake(url, tmp_path)
        with closing(lake.client):
            lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
            lake.define("id INT", "id")
            with pytest.raises(InvalidRequestError, match="ALTER SYSTEM SET wal_level"):
                lake.batches()
            found = lake.client.execute("SELECT count(*) FROM pg_publication").fetchone()
            assert found == (0,)


def test_after_a_rollback_of_its_table_a_stream_says_that_the_slot_is_where_it_was(
    lake: Lake,
) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)", "INSERT INTO TABLE_NAME VALUES (1)")
    lake.define("id INT", "id")
    lake.batches()
    for number in (2, 3):
        lake.run(f"INSERT INTO TABLE_NAME VALUES ({number})")
        lake.batches()
    lake.session.catalog.table("db.dst").history.rollback(snapshot=1, grace_ms=0)
    with pytest.raises(InvalidRequestError, match=r"stream itself read them.* was rolled back"):
        lake.batches()


@pytest.mark.parametrize("loss", ["dropped", "advanced", "table"])
def test_lost_changes_are_an_error_that_says_how_to_begin_anew(lake: Lake, loss: str) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    lake.batches()
    lake.run("INSERT INTO TABLE_NAME VALUES (1)")
    if loss == "dropped":
        lake.run("SELECT pg_drop_replication_slot('TABLE_NAME')")
    elif loss == "advanced":
        lake.run("SELECT pg_replication_slot_advance('TABLE_NAME', pg_current_wal_lsn())")
    else:
        lake.run("DROP TABLE TABLE_NAME", "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    said = "is not the table that" if loss == "table" else "are lost.* begin anew"
    with pytest.raises(InvalidRequestError, match=said) as refused:
        lake.batches()
    assert "new checkpoint" in refused.value.message
    assert SECRET not in refused.value.message


def test_a_slot_moves_on_while_other_tables_are_written(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    lake.batches()
    before = lake.confirmed()
    assert before is not None
    lake.run("CREATE TABLE filler AS SELECT repeat('x', 1000) FROM generate_series(1, 8000)")
    is_over = threading.Event()

    def write() -> None:
        # The disk is behind all the time.
        with closing(lake.connect()) as client:
            client.execute("SET synchronous_commit = off")
            while not is_over.is_set():
                client.execute("INSERT INTO filler VALUES ('y')")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        (batch,) = lake.batches()
    finally:
        is_over.set()
        writer.join()
    assert batch.rows == 0
    after = lake.confirmed()
    assert after is not None
    assert after - before > 4 << 20
    assert lake.batches() == []


def test_a_transaction_that_is_too_large_to_be_kept_is_read_piece_by_piece(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_scan, "_MOST_HELD", 100)
    monkeypatch.setattr(postgres_scan, "_ROWS_AT_ONCE", 64)
    monkeypatch.setattr(postgres_database, "_MESSAGES_AT_ONCE", 50)
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY, n INT, big TEXT)",
        "ALTER TABLE TABLE_NAME ALTER big SET STORAGE EXTERNAL",
    )
    lake.define("id INT, n INT, big STRING", "id")
    lake.batches()
    lake.run(
        "BEGIN",
        "INSERT INTO TABLE_NAME SELECT i, i, repeat('x', 3000) FROM generate_series(1, 2000) i",
        "UPDATE TABLE_NAME SET n = -n",
        "UPDATE TABLE_NAME SET id = id + 10000 WHERE id < 500",
        "COMMIT",
    )
    (batch,) = lake.batches(max_rows=10)
    assert batch.rows == 2000 + 2000 + 2 * 499 - 499
    assert lake.rows() == lake.source_rows()


def test_a_drain_ends_where_the_log_ended_when_it_began(lake: Lake) -> None:
    lake.run("CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)")
    lake.define("id INT", "id")
    lake.batches()
    scan = plan_scan(ExternalTables(lake.session.catalog).context("db.src"), ScanRequest()).runtime
    start = scan.latest(scan.latest(scan.earliest()))
    for number in range(3):
        lake.run(f"INSERT INTO TABLE_NAME VALUES ({number})")
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


def test_without_rights_the_error_has_the_statement_to_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id INT PRIMARY KEY)",
        f"CREATE ROLE TABLE_NAME LOGIN PASSWORD '{SECRET}'",
        "GRANT SELECT ON TABLE_NAME TO TABLE_NAME",
    )
    lake.define("id INT", "id", {"username": lake.name})
    with pytest.raises(InvalidRequestError, match=r"run as the owner.*: (CREATE .*)") as refused:
        lake.batches()
    lake.run(refused.value.message.rpartition(": ")[2])
    with pytest.raises(InvalidRequestError, match="ALTER ROLE"):
        lake.batches()
    lake.run("ALTER ROLE TABLE_NAME REPLICATION")
    lake.batches()
    monkeypatch.setenv("CAPTURE_PASSWORD", "a-wrong-one")
    with pytest.raises(AccessRefused, match="password authentication failed") as failed:
        lake.batches()
    assert "a-wrong-one" not in failed.value.message
    lake.run("REVOKE ALL ON TABLE_NAME FROM TABLE_NAME", "DROP ROLE TABLE_NAME")


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
                while not self.is_over.is_set():
                    self.transact(client)
                    time.sleep(self.chance.uniform(0, 0.02))
        except BaseException as error:  # noqa: BLE001 - told by the test
            self.failure = error

    def transact(self, client: Any) -> None:
        rows, table, is_kept = dict(self.model), self.lake.name, self.chance.random() > 0.15
        with client.transaction(force_rollback=not is_kept):
            for _ in range(self.chance.choice([1, 1, 2, 5, 40])):
                key, other = (self.chance.randrange(4000) * WRITERS + self.number for _ in range(2))
                n = self.chance.randrange(1 << 30)
                if key not in rows:
                    size = self.chance.choice([0, 10, 3000])
                    rows[key] = (n, self.chance.randbytes(size).hex(), None)
                    client.execute(
                        f"INSERT INTO {table} VALUES (%s, %s, %s)", (key, *rows[key][:2])
                    )
                    continue
                action = self.chance.choice(["n", "n", "small", "big", "key", "delete"])
                old = rows.pop(key)
                if action == "n":
                    rows[key] = (n, *old[1:])
                    client.execute(f"UPDATE {table} SET n = %s WHERE id = %s", (n, key))
                elif action == "small":
                    rows[key] = (*old[:2], str(n))
                    client.execute(f"UPDATE {table} SET small = %s WHERE id = %s", (str(n), key))
                elif action == "big":
                    rows[key] = (old[0], self.chance.randbytes(4000).hex(), old[2])
                    client.execute(
                        f"UPDATE {table} SET big = %s WHERE id = %s", (rows[key][1], key)
                    )
                elif action == "key" and other not in rows:
                    rows[other] = old
                    client.execute(f"UPDATE {table} SET id = %s WHERE id = %s", (other, key))
                else:
                    client.execute(f"DELETE FROM {table} WHERE id = %s", (key,))
        if is_kept:
            self.transactions += 1
            self.model.clear()
            self.model.update(rows)


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_stream_that_is_killed_at_any_moment_loses_and_doubles_nothing(
    lake: Lake, identity: str
) -> None:
    lake.run(
        "CREATE TABLE TABLE_NAME (id BIGINT PRIMARY KEY, n BIGINT, big TEXT, small TEXT)",
        f"ALTER TABLE TABLE_NAME ALTER big SET STORAGE EXTERNAL, REPLICA IDENTITY {identity}",
    )
    lake.define(
        "id BIGINT, n BIGINT, big STRING, small STRING",
        "id",
        {"scan.incremental.snapshot.chunk.size": "100"},
    )
    models: list[dict[int, tuple[Any, ...]]] = [{} for _ in range(WRITERS)]
    with lake.client.cursor() as cursor, cursor.copy(f"COPY {lake.name} FROM STDIN") as copy:
        for key in range(10_000):
            models[key % WRITERS][key] = (key, "b" * (2500 if key % 10 == 0 else 5), None)
            copy.write_row((key, *models[key % WRITERS][key]))
    writers = [Writer(lake, number, model) for number, model in enumerate(models)]
    for each in writers:
        each.start()
    chance = random.Random(identity)
    phases = []
    for _ in range(KILLS):
        phases.append(killed_run(lake, chance))
        check_confirmed(lake)
    # The last one takes the statement of SQL, with the same checkpoint.
    for each in writers:
        each.is_over.set()
        each.join()
        assert each.failure is None, each.failure
    lake.session.sql(
        f"SET 'execution.runtime-mode' = 'streaming'; SET 'stream.checkpoint' = '{lake.checkpoint}'"
    )
    lake.run("INSERT INTO TABLE_NAME VALUES (-1, 0, 'end', NULL)")
    until = time.monotonic() + PATIENCE_SECONDS
    reader = Session(lake.session.catalog)
    for _ in lake.session.run("INSERT INTO dst SELECT * FROM src"):
        check_confirmed(lake)
        assert time.monotonic() < until
        if reader.sql("SELECT count(*) AS n FROM db.dst WHERE id = -1").rows.to_pylist()[0]["n"]:
            break
    lake.session.sql("RESET 'execution.runtime-mode'")
    expected = {key: row for model in models for key, row in model.items()}
    expected[-1] = (0, "end", None)
    found = lake.rows()
    assert found == lake.source_rows()
    assert {row[0]: row[1:] for row in found} == expected
    assert "snapshot" in phases
    assert "stream" in phases
    for phase in phases:
        tally(f"kills survived, last told: {phase}")
    tally("transactions captured", sum(each.transactions for each in writers))


def check_confirmed(lake: Lake) -> None:
    """The slot is not beyond the last batch that is committed."""
    confirmed = lake.confirmed()
    streams = lake.session.catalog.table("db.dst").history.streams()
    if confirmed is None or not streams:
        return
    end = json.loads(streams[0].position or "{}")
    assert confirmed <= lsn_number(end["lsn"])
