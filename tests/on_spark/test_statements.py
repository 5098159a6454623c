"""Statements whose queries Spark answers."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakewright.session import Session
from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidStatement


@pytest.mark.mission("PT24", "SQ4", "SQ24")
def test_a_query_of_several_tables_is_inserted_and_read(
    catalog: Catalog, spark: SparkSession
) -> None:
    catalog.create_database("db")
    session = Session(catalog)
    session.sql(
        """USE db; SET 'query.engine' = 'spark';
        CREATE TABLE clicks (user INT, n INT) PARTITIONED BY (dt STRING);
        CREATE TABLE users (id INT, name STRING);
        CREATE TABLE sums (name STRING, n BIGINT) PARTITIONED BY (dt STRING);
        INSERT INTO users VALUES (1, 'ann'), (2, 'bob');
        INSERT INTO clicks VALUES (1, 3, 'a'), (1, 4, 'a'), (2, 5, 'b'), (2, 6, 'c');
        INSERT OVERWRITE sums PARTITION (dt='a')
          SELECT u.name, sum(db.clicks.n) FROM db.clicks JOIN users u ON user = u.id
          WHERE clicks.dt <> 'c' GROUP BY u.name"""
    )
    found = session.sql("SELECT name, n, dt FROM sums ORDER BY n DESC LIMIT 5").rows
    assert found is not None
    assert found.to_pylist() == [
        {"name": "ann", "n": 7, "dt": "a"},
        {"name": "bob", "n": 5, "dt": "a"},
    ]
    with pytest.raises(InvalidStatement, match=r"Spark does not understand the query: .*nope"):
        session.sql("SELECT nope FROM sums")


def test_expressions_without_a_table_are_computed_and_inserted(
    catalog: Catalog, spark: SparkSession
) -> None:
    catalog.create_database("db")
    session = Session(catalog)
    session.sql(
        """USE db; SET 'query.engine' = 'spark'; CREATE TABLE t (id INT, name STRING);
        INSERT INTO t VALUES (1 + 1, upper('x')), (7, concat('a', 'b'))"""
    )
    found = session.sql("SELECT id, name FROM t WHERE id < 7.5 ORDER BY id").rows
    assert found is not None
    assert found.to_pylist() == [{"id": 2, "name": "X"}, {"id": 7, "name": "ab"}]
    computed = session.sql("SELECT 1 + 1 AS two").rows
    assert computed is not None
    assert computed.to_pylist() == [{"two": 2}]
