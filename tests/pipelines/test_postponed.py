"""Postponed buckets in Dagster: the sensor sees rows that wait, the run gives them buckets."""

from __future__ import annotations

from tests.pipelines.lake import EVENTS, Lake, events

POSTPONED = EVENTS.replace(
    "    partition_keys: [dt]\n",
    "    partition_keys: [dt]\n    primary_key: [dt, id]\n"
    '    options: {bucket: -2, "postpone.default-bucket-num": 2}\n',
)


def test_rows_that_wait_are_asked_for_and_get_their_buckets(lake: Lake) -> None:
    lake.declare(POSTPONED)
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5))
    lake.materialize(partitions=("2024-01-01", "2024-01-02"))
    lake.write_small_files("2024-01-02", 2)
    assert lake.rows() == []
    (request,) = lake.tick().run_requests
    config = request.run_config["ops"]["upkeep"]["config"]["verb"]["compact"]["tables"][
        "shop.events"
    ]
    assert config["partitions"] == ["2024-01-02", "2024-01-01"]
    lake.request(request)
    assert [row["dt"] for row in lake.rows()].count("2024-01-02") == 4
    assert [row["dt"] for row in lake.rows()].count("2024-01-01") == 3
    assert not lake.tick().run_requests


def test_a_run_for_one_partition_leaves_the_others_waiting(lake: Lake) -> None:
    lake.declare(POSTPONED)
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5))
    lake.materialize(partitions=("2024-01-01", "2024-01-02"))
    lake.run("compact", partitions=["2024-01-02"])
    assert {row["dt"] for row in lake.rows()} == {"2024-01-02"}
    (request,) = lake.tick().run_requests
    config = request.run_config["ops"]["upkeep"]["config"]["verb"]["compact"]["tables"][
        "shop.events"
    ]
    assert config["partitions"] == ["2024-01-01"]
