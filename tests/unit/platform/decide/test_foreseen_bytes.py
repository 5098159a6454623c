"""Measures: what a compaction of small files will write is known from metadata."""

from __future__ import annotations

import random

import pytest

from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.decide import decide, intents
from lakewright.platform.decide.upkeep_state import read_state
from lakewright.platform.ledger.known_work import Past
from lakewright.platform.tables.upkeep_policies import CompactionPolicy, UpkeepPolicy
from lakewright.platform.upkeep.compact import COMPACT, CompactRun
from lakewright.platform.upkeep.procedure import Outcome
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
    options = CompactRun(full=True)
    plan = COMPACT.planned(table, options)
    assert COMPACT.measures is not None
    foreseen = COMPACT.measures(table, Outcome(options=options, plan=plan)).cost
    result = table.upkeep.run(plan)
    assert result.bytes_after / 2 < foreseen.bytes_written < 2.5 * result.bytes_after
    # That all bytes stay would be far off.
    assert foreseen.bytes > 3 * result.bytes_after


ENGINES = {
    "deduplicate": {},
    "partial-update": {},
    "aggregation": {"fields.v.aggregate-function": "max"},
    "first-row": {},
}
KEYED = {
    f"{engine} of {buckets}": {"merge-engine": engine, "bucket": buckets, **more}
    for engine, more in ENGINES.items()
    for buckets in ("1", "4")
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("keys", "options"),
    [
        *(pytest.param(("id",), each, id=name) for name, each in KEYED.items()),
        pytest.param(
            ("id",), {"bucket": "2", "deletion-vectors.enabled": "true"}, id="deletion vectors"
        ),
        pytest.param((), {"bucket": "-1"}, id="append without buckets"),
        pytest.param((), {"bucket": "3", "bucket-key": "id"}, id="append in buckets"),
    ],
)
def test_a_decision_foresees_how_many_files_a_compaction_takes_and_leaves(
    catalog: Catalog, keys: tuple[str, ...], options: dict[str, str]
) -> None:
    table = new_table(catalog, keys=keys, options=options)
    chance = random.Random(7)
    policy = UpkeepPolicy(compaction=CompactionPolicy(small_files=5, min_bytes=0))
    foreseen, came = [], []
    # Full buckets, few new rows above a large run, one new row, and a bucket's worth of new rows.
    for commits, count in ((6, 100), (6, 10), (1, 1), (7, 8), (6, 200)):
        for _ in range(commits):
            ids = chance.sample(range(100_000), count)
            made = [{"id": each, "v": chance.randbytes(50).hex()} for each in ids]
            table.write(rows(table, made))
        state = read_state(catalog, table.name, now_ms=0)
        found = intents(decide(state, policy, Past(), Clock(now_ms=0, last_tick_ms=lambda *_: 0)))
        for due in (each for each in found if each.verb == "compact"):
            plan = COMPACT.planned(table, CompactRun(min_files=5))
            result = table.upkeep.run(plan)
            (before,), (after,) = state.health.partitions, table.at().partitions()
            left = max(each.sorted_run_count for each in after.buckets) if keys else None
            foreseen.append(
                (
                    due.cost.files,
                    due.cost.bytes,
                    due.benefit.files_fewer,
                    before.left_runs if keys else None,
                )
            )
            came.append(
                (
                    result.files_before,
                    result.bytes_before,
                    result.files_before - result.files_after,
                    left,
                )
            )
    assert len(came) >= 3
    assert foreseen == came
