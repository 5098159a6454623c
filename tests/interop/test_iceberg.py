"""Iceberg metadata that Java and we write by turns: pyiceberg reads the rows after each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakewright.storage import Catalog
from tests.oracles.client import JavaOracle
from tests.support.tables.builders import compact, events, new_table, rows
from tests.support.tables.iceberg import (
    comparable_rows,
    grow_older,
    iceberg_rows,
    opened,
    shown_rows,
)

KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "append by day": {"partitions": ["day"]},
    "keyed": {"keys": ["id"], "options": {"bucket": "1"}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_java_goes_on_from_our_metadata_and_we_from_its(
    catalog: Catalog, java_latest: JavaOracle, kind: str
) -> None:
    given = dict(KINDS[kind])
    # Its own default needs a library that this Java has not.
    options = {
        "metadata.iceberg.storage": "table-location",
        "metadata.iceberg.manifest-compression": "deflate",
        **given.pop("options", {}),
    }
    table = new_table(catalog, options=options, **given)

    def ours(first: int) -> None:
        table.write(rows(table, [r for day in "ab" for r in events(first, first + 2, day=day)]))

    def theirs(number: int) -> None:
        written = [{"id": 50 + number, "day": "a", "v": "theirs"}]
        java_latest.write(catalog.root, "db.t", written)

    steps: list[Callable[[], object]] = [
        lambda: theirs(0),
        lambda: ours(0),
        lambda: theirs(1),
        lambda: compact(table, full=True),
        lambda: theirs(2),
        lambda: java_latest.compact(catalog.root, "db.t", full=True),
        lambda: ours(4),
        lambda: compact(table, full=True),
        lambda: theirs(3),
    ]
    for number, step in enumerate(steps):
        step()
        found = opened(table)
        latest = table.history.latest_snapshot()
        assert latest is not None
        current = found.current_snapshot()
        assert current is not None
        assert current.snapshot_id == latest.id, f"after step {number}"
        if kind == "keyed" and number in (0, 2, 4, 8):
            # Java shows also what no compaction has merged yet, if it is alone.
            continue
        assert comparable_rows(iceberg_rows(table)) == comparable_rows(shown_rows(table)), number
    assert len(opened(table).snapshots()) >= len(steps) - 1
    # Java forgets which files it or we left behind; the verb finds them.
    grow_older(table, 48)
    table.upkeep.publish_iceberg()
