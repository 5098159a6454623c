"""`record-level.expire-time`: our compactions drop the rows that Java's drop."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import LatestJavaOracle
from tests.support.tables.builders import compact, content, new_table
from tests.support.tables.invariants import assert_only_reachable_files

NOW_S = int(time.time())
HOUR_S = 3600


@pytest.fixture
def real_catalog(tmp_path: Path) -> Catalog:
    """A warehouse by the clock of the machine, which Java reads too."""
    return Catalog.open(str(tmp_path / "warehouse"))


def timed(ids: range, age_s: int | None, v: str, form: str) -> list[dict[str, Any]]:
    """Rows whose times are so old, or null."""
    if age_s is None:
        return [{"id": each, "v": v} for each in ids]
    seconds = NOW_S - age_s
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    at: dict[str, Any] = {"INT": seconds, "BIGINT": seconds * 1000}
    return [{"id": each, "v": v, "at": at.get(form, text)} for each in ids]


@pytest.mark.parametrize(
    ("form", "engine"),
    [
        ("INT", "deduplicate"),
        ("TIMESTAMP(3)", "partial-update"),
        pytest.param("BIGINT", "aggregation", marks=pytest.mark.deep),
        pytest.param("TIMESTAMP(6)", "deduplicate", marks=pytest.mark.deep),
    ],
)
def test_our_compactions_drop_the_rows_that_those_of_java_drop(
    java_latest: LatestJavaOracle, real_catalog: Catalog, form: str, engine: str
) -> None:
    columns = {"id": "BIGINT NOT NULL", "v": "STRING", "at": form}
    options = {
        "bucket": "1",
        "merge-engine": engine,
        "write-only": "true",
        "record-level.expire-time": "10 h",
        "record-level.time-field": "at",
    }
    tables = [
        new_table(real_catalog, columns, name=name, keys=("id",), options=options)
        for name in ("db.ours", "db.theirs")
    ]
    ours, theirs = tables
    rounds = [
        (timed(range(8), 20 * HOUR_S, "old", form), True),
        (timed(range(4, 12), 5 * HOUR_S, "recent", form), False),
        (timed(range(10, 14), None, "timeless", form), True),
        (timed(range(2, 6), 20 * HOUR_S, "old again", form), False),
        (timed(range(12, 16), 9 * HOUR_S, "recent", form), True),
    ]
    for rows, full in rounds:
        for table in tables:
            java_latest.write(real_catalog.root, table.name, rows)
        java_latest.compact(
            real_catalog.root, theirs.name, options={"write-only": "false"}, full=full
        )
        if full:
            compact(ours, full=True)
            assert content(ours) == content(theirs)
    assert content(ours) == as_read_by(java_latest, real_catalog, ours)
    assert {row["id"] for row in ours.read().to_pylist()} == set(range(4, 16))
    assert_only_reachable_files(ours)


def test_a_plan_says_how_many_rows_are_past_and_files_without_such_rows_stay(
    java_latest: LatestJavaOracle, real_catalog: Catalog
) -> None:
    columns = {"id": "BIGINT NOT NULL", "v": "STRING", "at": "INT"}
    table = new_table(real_catalog, columns, keys=("id",), options={"bucket": "1"})
    java_latest.write(real_catalog.root, table.name, timed(range(5), 20 * HOUR_S, "old", "INT"))
    compact(table, full=True)
    assert not table.upkeep.plan_compact(full=True).tasks
    java_latest.alter(
        real_catalog.root,
        table.name,
        {"set_option": "record-level.expire-time", "value": "10 h"},
        {"set_option": "record-level.time-field", "value": "at"},
    )
    table = real_catalog.table(table.name)
    plan = table.upkeep.plan_compact(full=True)
    (task,) = plan.tasks
    assert "drops rows past record-level.expire-time, at most 5" in task.reason
    table.upkeep.run(plan)
    assert content(table) == as_read_by(java_latest, real_catalog, table) == []
    assert not table.upkeep.plan_compact(full=True).tasks
    assert_only_reachable_files(table)
