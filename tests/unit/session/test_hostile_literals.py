"""Literals that Python, Arrow or the parser may choke on: each ends in rows or in our own error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError, StorageError
from tests.support.sampling import sampled
from tests.support.tables.fixtures import memory_uri

MANY = "9" * 4400
LITERALS = (
    *(MANY, f"-{MANY}", f"{MANY}.{MANY}", f"0.{MANY}", f"1e{MANY}", f"1e-{MANY}", "1e400"),
    *(f"{MANY}L", f"{MANY}BD", f"{MANY}D", "300Y", "1" * 39 + "BD", "1e", "1.", "..", "1_000"),
    *("X''", "X'abc'", "X'zz'", "x'a b'", "X' ab'", "-X'ab'", "0xabc", f"0x{'f' * 4000}", "b'1'"),
    *("DATE '0000-01-01'", "DATE '10000-01-01'", "DATE '2024-02-30'", f"DATE '{MANY}'", "DATE 1"),
    *("TIMESTAMP '0000-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999999'"),
    *(f"TIMESTAMP '2024-01-01 00:00:00.{MANY}'", "TIMESTAMP_LTZ '0001-01-01 00:00:00+18:00'"),
    *("TIMESTAMP '2024-01-01T25:00'", "TIME '25:00:00'", f"TIME '00:00:00.{MANY}'", "TIME ''"),
    *(
        "'a\0b'",
        "'\ud800'",
        f"'{MANY}'",
        "''",
        "-'a'",
        "U&'\\+110000'",
        "'\\u0000'",
        "²",
        "٣",
        "'٣'",
    ),
    *("NULL", "TRUE", "1/0", "INTERVAL 1 DAY", f"CAST({MANY} AS INT)", "CAST('x' AS DATE)"),
    *(f"ARRAY({MANY})", f"MAP('a', {MANY})", "ARRAY(X'abc')", f"NAMED_STRUCT('a', {MANY})"),
)
TYPES = ("INT", "DOUBLE", "DECIMAL(38, 10)", "STRING", "BYTES", "DATE", "TIMESTAMP(9)", "TIME")
OF_A_TYPE = (
    "INSERT INTO t{at} VALUES (1, {it})",
    "SELECT * FROM t{at} WHERE v = {it}",
    "SELECT * FROM t{at} WHERE v IN ({it}, {it}) OR v < {it}",
    "SELECT * FROM t{at} WHERE v BETWEEN {it} AND {it} AND v NOT LIKE {it}",
    "ALTER TABLE t{at} ADD COLUMN (z DECIMAL(3, 1) DEFAULT {it}, y {type} DEFAULT {it})",
)
OTHERS = (
    "VALUES ({it})",
    "SELECT {it}",
    "SELECT * FROM t0 LIMIT {it}",
    "SELECT * FROM t0 VERSION AS OF {it}",
    "SELECT * FROM t0 TIMESTAMP AS OF {it}",
    "ALTER TABLE t0 SET ('a' = {it})",
    "ALTER TABLE t0 CLUSTERED INTO {it} BUCKETS",
    "ALTER TABLE p DROP PARTITION (p = {it})",
    "ALTER TABLE p DROP PARTITION (p < {it})",
    "ALTER TABLE p ADD PARTITION (p = {it}) LOCATION '/nowhere'",
    "ALTER TABLE p ADD PARTITION (p = 'x') LOCATION {it}",
    "INSERT OVERWRITE p PARTITION (p = {it}) SELECT 1",
    "SHOW PARTITIONS p PARTITION (p = {it})",
    "SHOW TABLES LIKE {it}",
    "CREATE TABLE n (a DECIMAL({it}, 2))",
    "CREATE TABLE n (a CHAR({it}))",
    "CREATE TABLE n (a INT) LOCATION {it}",
    "CREATE TABLE n (a INT) COMMENT {it}",
    "CREATE TABLE n (a INT) TBLPROPERTIES ('bucket' = {it})",
)


def shown(literal: str) -> str:
    return ascii(literal.replace(MANY, "MANY").replace("f" * 4000, "ff"))


@pytest.fixture(scope="module")
def session() -> Session:
    made = Session(Catalog.open(memory_uri()))
    made.sql("CREATE DATABASE d; USE d; CREATE TABLE p (k INT) PARTITIONED BY (p STRING)")
    for at, data_type in enumerate(TYPES):
        made.sql(f"CREATE TABLE t{at} (k INT, v {data_type})")
    return made


def statements(literal: str) -> Iterator[str]:
    for statement in OTHERS:
        yield statement.format(it=literal)
    for at, data_type in enumerate(TYPES):
        for statement in OF_A_TYPE:
            yield statement.format(it=literal, at=at, type=data_type)


@pytest.mark.parametrize("most", [12, pytest.param(None, marks=pytest.mark.deep, id="all")])
@pytest.mark.parametrize("literal", LITERALS, ids=shown)
@pytest.mark.sampled(20)
def test_each_literal_in_each_place_ends_in_rows_or_in_our_own_error(
    session: Session, literal: str, most: int | None
) -> None:
    every = list(statements(literal))
    for statement in sampled(every, most or len(every), seed=shown(literal)):
        try:
            found = session.sql(statement).rows
        except StorageError:
            continue
        if found is not None:
            # Python has no value for each date.
            str(found)


@pytest.mark.parametrize("literal", LITERALS, ids=shown)
def test_each_literal_in_a_filter_of_a_read_ends_in_rows_or_in_our_own_error(
    session: Session, literal: str
) -> None:
    for at in range(len(TYPES)):
        table = session.catalog.table(f"d.t{at}")
        for filtered in (f"v >= {literal}", f"NOT (v <> {literal})", f"v IN ({literal})"):
            try:
                table.read(where=filtered).to_pylist()
            except StorageError:
                continue


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (f"INSERT INTO t0 (k) VALUES ({MANY})", r"99999… is a number of 4,400 digits, and 400 are"),
        ("ALTER TABLE p DROP PARTITION (p = X'abc')", "X'abc' has half a byte"),
        ("INSERT INTO t5 (v) VALUES (DATE '0000-01-01')", "'0000-01-01' is not: year 0"),
        ("ALTER TABLE p ADD PARTITION (p = 'x') LOCATION 'a\0b'", "no path holds a NUL"),
    ],
    ids=shown,
)
def test_what_cannot_be_read_is_named(session: Session, statement: str, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        session.sql(statement)
