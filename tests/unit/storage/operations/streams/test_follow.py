"""A table is followed in Python: all rows, then changes, from where an earlier reader stopped."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lakewright.storage import Catalog
from lakewright.storage.errors import StalePlan


def rows(*values: tuple[int, str]) -> pa.Table:
    ids, names = zip(*values, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array(names)})


@pytest.mark.mission("LG10")
def test_a_reader_goes_on_behind_its_position_and_a_consumer_keeps_what_it_needs(
    catalog: Catalog,
) -> None:
    table = catalog.create_table(
        "db.t", rows((0, "")).schema, primary_keys=["id"], options={"bucket": "1"}
    )
    table.write(rows((1, "a"), (2, "b")))
    (first,) = table.follow(consumer="me", available_now=True)
    assert first.rows.to_pylist() == [
        {"_rowkind": "+I", "id": 1, "name": "a"},
        {"_rowkind": "+I", "id": 2, "name": "b"},
    ]
    kept = json.loads(json.dumps(first.position))
    table.write(rows((1, "z")))
    table.delete("id = 2")
    (second,) = table.follow(position=kept, available_now=True)
    assert {(row["id"], row["_rowkind"]) for row in second.rows.to_pylist()} == {
        (1, "+I"),
        (2, "-D"),
    }
    # The consumer moved behind the first answer, and holds what came later.
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1, grace_ms=0)
    again = [
        row
        for each in table.follow(consumer="me", available_now=True)
        for row in each.rows.to_pylist()
    ]
    assert {row["id"] for row in again} == {1, 2}

    fresh = table.follow(position=second.position)
    table.write(rows((7, "new")))
    assert next(fresh).rows.column("id").to_pylist() == [7]
    table.history.rollback(snapshot=second.position["snapshot"], grace_ms=0)
    table.write(rows((8, "other")))
    with pytest.raises(StalePlan, match="rolled back behind snapshot"):
        next(fresh)
