"""Every batch of a stream leaves files of its own; upkeep makes few of them."""

from __future__ import annotations

import pytest

from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.decide import decide, intents
from lakewright.platform.decide.upkeep_state import read_state
from lakewright.platform.ledger.past import Past
from lakewright.platform.tables.upkeep_policies import CompactionPolicy, UpkeepPolicy
from lakewright.storage import Catalog
from lakewright.storage.operations.streams.batches import commit_batch
from lakewright.storage.spec.stream import StreamBatch
from tests.support.tables.builders import compact, events, new_table, rows, values_of
from tests.support.tables.environment import START_MS


@pytest.mark.mission("PT51", "PT53")
def test_the_files_of_batches_are_due_and_a_compaction_makes_few_of_them(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    for number in range(6):
        batch = StreamBatch(stream="stream", checkpoint="/checkpoint", number=number)
        staged = table.stage(
            rows(table, events(number, number + 1)), commit_user="stream", commit_identifier=number
        )
        commit_batch(table.table_files, batch, staged)
    policy = UpkeepPolicy(compaction=CompactionPolicy(small_files=5, min_bytes=0))
    clock = Clock(now_ms=START_MS, last_tick_ms=lambda cron, zone: 0)

    def due() -> list[str]:
        state = read_state(catalog, "db.t", now_ms=START_MS)
        return [each.verb for each in intents(decide(state, policy, Past(), clock))]

    assert len(table.at().files()) == 6
    assert "compact" in due()
    compact(table)
    assert len(table.at().files()) == 1
    assert "compact" not in due()
    assert values_of(table, "id") == list(range(6))
