"""INSERT from sources without an end, run by Spark from SQL: aggregates, windows, joins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakewright.session import Session, StatementResult
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidStatement, UnsupportedError
from tests.support.tables.fixtures import catalog, env

__all__ = ["catalog", "env"]


@pytest.fixture
def session(catalog: Catalog, tmp_path: Path, spark: SparkSession) -> Session:
    """A session whose statements Spark runs, with clicks that arrive as files."""
    made = Session(catalog)
    made.sql(f"""
        CREATE DATABASE db; USE db;
        CREATE TABLE clicks (
          page STRING, at TIMESTAMP(3), n INT, WATERMARK FOR at AS at - INTERVAL '1' MINUTE
        ) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}/clicks',
          'source.monitor-interval' = '100 ms');
        CREATE TABLE pages (page STRING, title STRING, PRIMARY KEY (page) NOT ENFORCED);
        INSERT INTO pages VALUES ('a', 'Start'), ('b', 'End');
        SET 'execution.runtime-mode' = 'streaming'; SET 'query.engine' = 'spark'
    """)
    (tmp_path / "clicks").mkdir()
    return made


def arrive(tmp_path: Path, name: str, *rows: tuple[str, str, int]) -> None:
    text = "".join(
        f'{{"page": "{page}", "at": "2024-01-01 {at}", "n": {n}}}\n' for page, at, n in rows
    )
    (tmp_path / "clicks" / name).write_text(text)


def started(session: Session, statement: str, checkpoint: Path) -> Iterator[StatementResult]:
    """A statement that goes on until no further answer is asked for."""
    session.sql(f"SET 'stream.checkpoint' = '{checkpoint}'")
    return session.run(statement)


def rows_of(session: Session, table: str) -> set[tuple[object, ...]]:
    rows = session.catalog.table(table).read().to_pylist()
    return {tuple(row.values()) for row in rows}


@pytest.mark.mission("SQ22", "CN22")
def test_updating_counts_go_into_a_table_with_a_key(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE totals (page STRING, total BIGINT, PRIMARY KEY (page) NOT ENFORCED)")
    statement = "INSERT INTO totals SELECT page, sum(n) AS total FROM clicks GROUP BY page"
    arrive(tmp_path, "0.json", ("a", "10:00:00", 1), ("b", "10:00:00", 2))
    running = started(session, statement, tmp_path / "checkpoint")
    assert "2 rows written into db.totals" in next(running).message
    arrive(tmp_path, "1.json", ("a", "09:00:00", 5))
    next(running)
    running.close()
    assert rows_of(session, "db.totals") == {("a", 6), ("b", 2)}
    # A second start goes on with the counts of the first.
    arrive(tmp_path, "2.json", ("b", "10:00:00", 10))
    running = started(session, statement, tmp_path / "checkpoint")
    # The last batch is told again if Spark did not learn of its end.
    while rows_of(session, "db.totals") != {("a", 6), ("b", 12)}:
        next(running)
    running.close()


@pytest.mark.mission("CN22")
def test_windows_go_into_a_table_when_the_watermark_has_passed_them(
    session: Session, tmp_path: Path
) -> None:
    session.sql("CREATE TABLE hourly (page STRING, hour TIMESTAMP(6), total BIGINT)")
    statement = """INSERT INTO hourly SELECT page, window.start, sum(n) FROM clicks
                   GROUP BY page, window(at, '1 hour')"""
    arrive(tmp_path, "0.json", ("a", "10:10:00", 1), ("a", "10:50:00", 2))
    # One minute behind its time, the watermark is in the next hour but one.
    arrive(tmp_path, "1.json", ("a", "12:02:00", 4))
    running = started(session, statement, tmp_path / "checkpoint")
    assert next(running).facts["rows"] == 1
    # What is later than the watermark comes too late.
    arrive(tmp_path, "2.json", ("a", "10:59:00", 100), ("a", "13:30:00", 1))
    next(running)
    running.close()
    found = rows_of(session, "db.hourly")
    assert {(page, hour.hour, total) for page, hour, total in found} == {  # type: ignore[attr-defined]
        ("a", 10, 3),
        ("a", 12, 4),
    }


def test_rows_are_joined_with_a_table_on_their_way(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE titled (title STRING, n INT)")
    arrive(tmp_path, "0.json", ("a", "10:00:00", 1), ("c", "10:00:00", 2))
    statement = "INSERT INTO titled SELECT title, n FROM clicks JOIN pages USING (page)"
    running = started(session, statement, tmp_path / "checkpoint")
    next(running)
    running.close()
    assert rows_of(session, "db.titled") == {("Start", 1)}


def test_what_spark_cannot_stream_is_said(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE totals (page STRING, total BIGINT)")
    statement = "INSERT INTO totals SELECT page, sum(n) FROM clicks GROUP BY page"
    with pytest.raises(InvalidStatement, match="watermark"):
        next(started(session, statement, tmp_path / "checkpoint"))
    with pytest.raises(UnsupportedError, match=r"db\.pages gives changes, and Spark takes back"):
        session.sql("INSERT INTO totals SELECT page, 1 FROM pages")


@pytest.mark.mission("CN22")
@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("at - INTERVAL '1' MONTH", r"write at, at - INTERVAL '5' SECOND"),
        ("SOURCE_WATERMARK()", r"has no watermarks of its own"),
    ],
)
def test_a_watermark_that_nobody_can_keep_is_refused(
    session: Session, expression: str, told: str
) -> None:
    session.sql(f"""
        CREATE TABLE late (at TIMESTAMP(3), WATERMARK FOR at AS {expression})
        WITH ('connector' = 'datagen');
        CREATE TABLE kept (at TIMESTAMP(3))
    """)
    with pytest.raises(UnsupportedError, match=told):
        session.sql("INSERT INTO kept SELECT at FROM late")
