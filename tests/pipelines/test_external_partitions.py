"""The jobs `add_partitions` and `repair_partitions`, on a declared table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.lake import Lake
from tests.support.tables.builders import new_table
from tests.support.tables.landed import LANDED, land, land_days, rows_of

LANDING = """
table: shop.events
columns:
  - {name: id, type: BIGINT}
  - {name: v, type: STRING}
  - {name: day, type: STRING}
partition_keys: [day]
"""


@pytest.mark.mission("PT37", "PT65")
def test_a_run_takes_folders_over_and_another_adds_what_came_since(
    lake: Lake, tmp_path: Path
) -> None:
    root = land_days(tmp_path / "landed")
    lake.declare(LANDING)
    new_table(lake.catalog, LANDED, name="shop.events", partitions=["day"])
    lake.run("add_partitions", folder=str(root), age="0s", dry_run=True)
    assert not lake.table().at().partitions()
    done = lake.run("add_partitions", folder=str(root), age="0s")
    assert done.observations[None]["lakewright/files"] == 4
    land(root / "day=c" / "f.parquet", rows_of(90, 92))
    lake.run("repair_partitions", age="0s")
    assert lake.table().read().num_rows == 14
