"""Queries as expectations: they run on DuckDB, unless a declaration names Spark."""

from __future__ import annotations

import pytest

from lakewright.platform.orchestration.resources import SparkResource
from tests.pipelines.lake import EVENTS, Lake, events
from tests.pipelines.test_spark import CUSTOMERS, QUERIES, judge_by_queries


def no_session(_: object) -> None:
    raise AssertionError("Spark was asked for")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkResource, "session", no_session)


def test_queries_judge_staged_rows_without_spark(lake: Lake) -> None:
    lake.declare(CUSTOMERS, "customers.yaml")
    lake.declare(EVENTS.replace("\n    maintenance:", QUERIES))
    judge_by_queries(lake)


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("SELECT * FROM batch QUALIFY row_number() OVER (PARTITION BY id) > 1", 1),
        ("SELECT id FROM `batch` WHERE `amount` > 2", 2),
        ("WITH large AS (SELECT * FROM batch WHERE amount > 2) SELECT * FROM large", 2),
        ("SELECT id FROM batch b WHERE b.id IN (SELECT id FROM shop.events)", 2),
        ("SELECT count(*) FROM batch WHERE id > 99", 0),
    ],
)
def test_queries_are_of_duckdb_or_of_spark(lake: Lake, sql: str, count: int) -> None:
    text = f'\n      - {{name: asked, severity: warning, sql: "{sql}"}}\n    maintenance:'
    lake.declare(EVENTS.replace("\n    maintenance:", text))
    lake.give(events("2024-01-01", 0, 2))
    lake.materialize(partitions="2024-01-01")
    lake.give(
        [
            {"dt": "2024-01-02", "id": 0, "amount": 3.0},
            {"dt": "2024-01-02", "id": 0, "amount": 3.0},
            {"dt": "2024-01-02", "id": 7, "amount": 1.0},
        ]
    )
    outcome = lake.materialize(partitions="2024-01-02")
    check = outcome.checks["asked"]
    assert check.metadata["offending_rows"].value == count, check.description
