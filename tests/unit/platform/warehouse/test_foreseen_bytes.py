"""Measures: what a compaction of small files will write is known from metadata."""

from __future__ import annotations

import random

import pytest

from lakewright.platform.upkeep.compact import COMPACT, CompactOptions
from lakewright.platform.upkeep.verb import Outcome
from lakewright.platform.warehouse.table_state import read_state
from lakewright.storage import Catalog
from tests.support.tables.builders import new_table, rows


@pytest.mark.parametrize(
    ("file_format", "keys"), [("parquet", ()), ("orc", ()), ("avro", ()), ("parquet", ("id",))]
)
def test_the_bytes_of_joined_files_are_foreseen_before_any_run_is_known(
    catalog: Catalog, file_format: str, keys: tuple[str, ...]
) -> None:
    table = new_table(
        catalog,
        keys=keys,
        options={"bucket": "1", "file.format": file_format}
        | ({} if keys else {"bucket-key": "id"}),
    )
    chance = random.Random(7)
    for number in range(12):
        made = [{"id": 4 * number + at, "v": f"value {chance.random()}"} for at in range(4)]
        table.write(rows(table, made))
    empty = read_state(catalog, table.name, now_ms=0).survey.empty_bytes
    assert 0 < empty < 2 * min(each.file.file_size for each in table.at().files())
    options = CompactOptions(full=True)
    plan = COMPACT.plan(table, options)
    assert COMPACT.measures is not None
    foreseen = COMPACT.measures(table, Outcome(options=options, plan=plan)).cost
    result = table.upkeep.run(plan)
    assert result.bytes_after / 2 < foreseen.bytes_written < 2.5 * result.bytes_after
    # That all bytes stay would be far off.
    assert foreseen.bytes > 3 * result.bytes_after
