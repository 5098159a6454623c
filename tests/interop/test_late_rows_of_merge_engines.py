"""Rows that pypaimon commits under former partition keys, by how the table merges rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import UnsupportedError
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import JavaOracle, WritingOracle
from tests.support.tables.builders import compact, content, expire, new_table, remove_orphans, rows
from tests.support.tables.invariants import assert_only_reachable_files

pytestmark = pytest.mark.mission("PT1", "PT4")

COLUMNS = {
    "dt": "STRING NOT NULL",
    "hh": "INT NOT NULL",
    "id": "BIGINT NOT NULL",
    "v": "STRING",
    "w": "INT",
}
VECTORS = {"deletion-vectors.enabled": "true"}
SUM = {"merge-engine": "aggregation", "fields.w.aggregate-function": "sum"}
PARTIAL = {"merge-engine": "partial-update"}
WAYS = {
    "partial": PARTIAL,
    "partial, vectors": PARTIAL | VECTORS,
    "sum": SUM,
    "sum, vectors": SUM | VECTORS,
    "vectors": VECTORS,
}
Row = dict[str, Any]


def event(hour: int, number: int, v: str | None, w: int | None) -> Row:
    return {"dt": "a", "hh": hour, "id": number, "v": v, "w": w}


class Model:
    """Rows by key, merged as the table merges them."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.rows: dict[tuple[int, int], Row] = {}

    def put(self, given: Sequence[Row]) -> list[Row]:
        for new in given:
            key = (new["hh"], new["id"])
            old = self.rows.get(key, dict.fromkeys(COLUMNS))
            if self.engine == "deduplicate":
                self.rows[key] = new
                continue
            merged = old | {name: value for name, value in new.items() if value is not None}
            if self.engine == "aggregation":
                numbers = [each["w"] for each in (old, new) if each["w"] is not None]
                merged["w"] = sum(numbers) if numbers else None
            self.rows[key] = merged
        return list(given)

    def check(self, table: Table) -> None:
        found = {(each["hh"], each["id"]): each for each in table.read().to_pylist()}
        assert found == self.rows
        assert table.read().num_rows == len(self.rows)


@pytest.mark.parametrize("keys", [("dt", "hh"), ("hh",)], ids=["finer", "replaced"])
@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.sampled(each="way")
def test_late_rows_are_merged_as_the_last_of_their_keys(
    catalog: Catalog,
    released_pypaimon: WritingOracle,
    java_latest: JavaOracle,
    way: str,
    keys: tuple[str, ...],
) -> None:
    options = WAYS[way]
    model = Model(options.get("merge-engine", "deduplicate"))
    table = new_table(
        catalog,
        COLUMNS,
        partitions=["dt"],
        keys=("dt", "hh", "id"),
        options={"bucket": "2", **options},
    )
    for turn in range(2):
        given = [event(hour, n, f"old {turn}", n) for hour in (1, 2) for n in range(turn, 6)]
        table.write(rows(table, model.put(given)))
        # Of tables with deletion vectors: rows of the first turn get them in the second.
        compact(table)
    late = [event(1, 2, "late", 10), event(2, 3, None, 7), event(2, 40, "new", None)]
    released_pypaimon.begin_write(catalog.root, table.name, model.put(late)[:1])
    table.upkeep.respec(keys)
    released_pypaimon.finish_write(catalog.root, table.name, late[1:])
    table = catalog.table(table.name)
    with pytest.raises(UnsupportedError, match=r"lakewright respec db\.t --keys"):
        table.read()
    table.upkeep.respec(keys)
    table = catalog.table(table.name)
    for after in ([], [event(1, 2, "after", 1), event(2, 3, None, 5)]):
        if after:
            table.write(rows(table, model.put(after)))
        if VECTORS.items() <= options.items():
            # Readers of such tables see no row of level 0.
            compact(table)
        model.check(table)
        for reader in (java_latest, released_pypaimon):
            assert as_read_by(reader, catalog, table) == content(table)
    compact(table, full=True)
    model.check(table)
    expire(table)
    remove_orphans(table)
    assert_only_reachable_files(table)
