"""Rows that wait for a compaction: the sensor asks for one because of them, and the run ends it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipelines.lake import EVENTS, Lake, events

# A bucket with fewer sorted runs than this has no other reason to be compacted.
KEYED = EVENTS.replace(
    "{min_bytes: 0 b, small_files: 3}", "{min_bytes: 0 b, small_files: 9}"
).replace(
    "    partition_keys: [dt]\n",
    "    partition_keys: [dt]\n    primary_key: [dt, id]\n    options: {%s}\n",
)
FIRST_ROW = KEYED % "merge-engine: first-row"
DELETION_VECTORS = KEYED % "deletion-vectors.enabled: true"
POSTPONED = KEYED % "bucket: -2, postpone.default-bucket-num: 2"
POSTPONED_FIRST_ROW = KEYED % "bucket: -2, merge-engine: first-row"
POSTPONED_VECTORS = KEYED % "bucket: -2, deletion-vectors.enabled: true"


def amounts(lake: Lake) -> dict[tuple[str, int], float]:
    return {(row["dt"], row["id"]): row["amount"] for row in lake.rows()}


def compact_as_asked(lake: Lake) -> list[str]:
    """Run what the sensor asks for; the partitions it asked for, none if it is content."""
    requests = lake.tick().run_requests or ()
    asked: list[str] = []
    for request in requests:
        lake.request(request)
        config: dict[str, Any] = request.run_config["ops"]["upkeep"]["config"]["verb"]["compact"]
        asked += config["tables"]["shop.events"]["partitions"]
    return asked


@pytest.mark.parametrize(
    ("declared", "survivor"),
    [
        pytest.param(FIRST_ROW, 1.0, id="first-row"),
        pytest.param(DELETION_VECTORS, 2.0, id="deletion-vectors"),
        pytest.param(POSTPONED, 2.0, id="postponed"),
        pytest.param(POSTPONED_FIRST_ROW, 1.0, id="postponed first-row"),
        pytest.param(POSTPONED_VECTORS, 2.0, id="postponed deletion-vectors"),
    ],
)
@pytest.mark.sampled(1)
def test_rows_come_into_sight_by_the_compaction_that_the_sensor_asks_for(
    lake: Lake, declared: str, survivor: float
) -> None:
    lake.declare(declared)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    assert amounts(lake) == {}
    assert compact_as_asked(lake) == ["2024-01-01"]
    assert amounts(lake) == {("2024-01-01", each): 1.0 for each in range(3)}
    # The second time there are runs below that level 0 is merged with.
    lake.give(events("2024-01-01", 2, 5, amount=2.0))
    lake.materialize(partitions="2024-01-01", config={"mode": "upsert"})
    assert set(amounts(lake)) == {("2024-01-01", each) for each in range(3)}

    assert compact_as_asked(lake) == ["2024-01-01"]

    assert amounts(lake) == {
        ("2024-01-01", 0): 1.0,
        ("2024-01-01", 1): 1.0,
        ("2024-01-01", 2): survivor,
        ("2024-01-01", 3): 2.0,
        ("2024-01-01", 4): 2.0,
    }
    assert compact_as_asked(lake) == []
    assert sum(each.waiting_file_count for each in lake.table().at().partitions()) == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "declared",
    [
        pytest.param(FIRST_ROW, id="first-row"),
        pytest.param(DELETION_VECTORS, id="deletion-vectors"),
        pytest.param(POSTPONED, id="postponed"),
    ],
)
def test_the_sensor_says_how_many_rows_wait_and_asks_for_no_other_partition(
    lake: Lake, declared: str
) -> None:
    lake.declare(declared)
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    compact_as_asked(lake)
    lake.write_small_files("2024-01-02", 2)

    answer = lake.tick()

    (request,) = answer.run_requests
    config = request.run_config["ops"]["upkeep"]["config"]["verb"]["compact"]
    assert config["tables"]["shop.events"]["partitions"] == ["2024-01-02"]
    said = config["asked"]["shop.events"]["reason"]
    assert said == "partition dt=2024-01-02: 2 files with 2 rows wait for a compaction: compact"


def test_rows_that_nobody_waits_for_are_no_reason(lake: Lake) -> None:
    lake.declare(KEYED % "merge-engine: partial-update")
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    assert len(lake.rows()) == 3
    assert compact_as_asked(lake) == []


def test_rows_wait_on_while_their_partition_is_not_quiet(lake: Lake) -> None:
    lake.declare(
        FIRST_ROW.replace(
            "{min_bytes: 0 b, small_files: 9}", "{min_bytes: 0 b, small_files: 9, quiet_for: 1h}"
        )
    )
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")

    answer = lake.tick()

    assert not answer.run_requests
    assert "1 file with 3 rows waits for a compaction: waits, written" in answer.skip_message
