"""Deciding: thresholds, obstacles, and reasons with their numbers."""

from __future__ import annotations

from lakewright.platform.declare.partition_keys import PartitionColumn
from lakewright.platform.declare.upkeep_policies import CompactionPolicy
from lakewright.platform.upkeep.decide import (
    Asked,
    Declined,
    Intent,
    asked_now,
    decide,
    intents,
    summarize,
)
from lakewright.platform.upkeep.health import PartitionHealth, TableHealth, table_health
from lakewright.storage import BucketStats, PartitionStats, parse_data_type
from lakewright.storage.spec.data_types import STRING, DataField
from lakewright.storage.spec.partition import Partition, PartitionKeys

NOW_MS = 1_000_000_000


def bucket(
    number: int, *, small: int = 0, runs: int = 0, waiting: tuple[int, int] = (0, 0)
) -> BucketStats:
    """A bucket of small files; `waiting` are files and rows that no reader sees."""
    return BucketStats(
        bucket=number,
        file_count=small,
        small_file_count=small,
        level0_count=small,
        sorted_run_count=runs,
        size_bytes=small * 100,
        row_count=small * 10,
        waiting_file_count=waiting[0],
        waiting_row_count=waiting[1],
    )


def stats(day: str | None, *buckets: BucketStats, written_ms: int = NOW_MS) -> PartitionStats:
    return PartitionStats(
        partition=Partition(PartitionKeys(0, (DataField(0, "dt", STRING),)), b"", (day,)),
        row_count=sum(each.row_count for each in buckets),
        file_count=sum(each.file_count for each in buckets),
        size_bytes=sum(each.size_bytes for each in buckets),
        last_file_creation_ms=written_ms,
        buckets=buckets,
    )


def health(*partitions: PartitionStats, keyed: bool = False) -> TableHealth:
    columns = [PartitionColumn("dt", parse_data_type("STRING"))]
    return table_health("nyc.flights", partitions, columns, keyed=keyed, snapshot_id=7)


POLICY = CompactionPolicy(small_files=5)


def reasons(found: TableHealth, policy: CompactionPolicy = POLICY, **more: object) -> list[str]:
    return [each.reason for each in decide(found, policy, now_ms=NOW_MS, **more)]  # type: ignore[arg-type]


def test_the_numbers_are_in_the_reasons() -> None:
    found = health(
        stats("2013-12-03", bucket(0, small=24)), stats("2013-12-04", bucket(0, small=2))
    )
    assert reasons(found) == [
        "partition dt=2013-12-03: 24 small files ≥ 5: compact",
        "partition dt=2013-12-04: 2 small files < 5: leave",
    ]


def test_the_threshold_itself_is_enough() -> None:
    found = health(stats("a", bucket(0, small=5)), stats("b", bucket(0, small=4)))
    decisions = decide(found, POLICY, now_ms=NOW_MS)
    assert [type(each) for each in decisions] == [Intent, Declined]
    assert [each.partition.key for each in intents(decisions)] == ["a"]


def test_the_worst_bucket_decides_and_is_named() -> None:
    spread = health(stats("a", bucket(0, small=4), bucket(1, small=4)))
    assert reasons(spread) == ["partition dt=a: 4 small files < 5: leave"]
    one = health(stats("a", bucket(0, small=1), bucket(1, small=6)))
    assert reasons(one) == ["partition dt=a: 6 small files in bucket 1 ≥ 5: compact"]


def test_keyed_tables_count_sorted_runs() -> None:
    found = health(stats("a", bucket(0, small=9, runs=2)), keyed=True)
    assert reasons(found) == ["partition dt=a: 2 sorted runs < 5: leave"]
    found = health(stats(None, bucket(0, small=1, runs=5)), keyed=True)
    assert reasons(found) == ["partition dt=null: 5 sorted runs ≥ 5: compact"]


def test_rows_that_wait_are_reason_enough_over_all_buckets() -> None:
    spread = stats("a", bucket(0, small=3, waiting=(2, 90)), bucket(1, small=1, waiting=(1, 30)))
    found = health(spread, stats("b", bucket(0, small=1, runs=1)), keyed=True)
    assert reasons(found) == [
        "partition dt=a: 3 files with 120 rows wait for a compaction: compact",
        "partition dt=b: 1 sorted runs < 5: leave",
    ]
    assert (found.waiting_files, found.waiting_rows) == (3, 120)
    single = health(stats("a", bucket(-2, small=1, runs=1, waiting=(1, 1))), keyed=True)
    assert reasons(single) == ["partition dt=a: 1 file with 1 row waits for a compaction: compact"]


def test_rows_that_wait_were_asked_for_once_in_each_state() -> None:
    found = health(stats("a", bucket(0, small=1, waiting=(1, 10))), keyed=True)
    mark = found.partitions[0].fingerprint
    told = "partition dt=a: 1 file with 10 rows waits for a compaction"
    assert reasons(found, acted={"a": Asked(fingerprint=mark)}) == [
        f"{told}: was asked for already in this state"
    ]
    assert reasons(found, in_flight=["run 7"]) == [f"{told}: waits for run 7"]


def test_a_table_without_partitions_is_one() -> None:
    whole = PartitionHealth(
        key="",
        spec={},
        row_count=1,
        file_count=9,
        size_bytes=9,
        small_files=9,
        sorted_runs=9,
        worst_bucket=0,
        last_file_creation_ms=None,
    )
    found = TableHealth(table="a.b", keyed=False, snapshot_id=1, partitions=(whole,))
    assert reasons(found) == ["the table: 9 small files ≥ 5: compact"]


def test_nothing_is_begun_while_a_run_is_in_flight() -> None:
    found = health(stats("a", bucket(0, small=9)), stats("b", bucket(0, small=1)))
    decisions = decide(found, POLICY, in_flight=["run 1f2e of ingest (started)"], now_ms=NOW_MS)
    assert not intents(decisions)
    assert [each.reason for each in decisions] == [
        "partition dt=a: 9 small files ≥ 5: waits for run 1f2e of ingest (started)",
        "partition dt=b: 1 small files < 5: leave",
    ]
    assert [isinstance(each, Declined) and each.waits for each in decisions] == [True, False]


def test_what_was_asked_for_is_not_asked_for_again_until_it_changes() -> None:
    found = health(stats("a", bucket(0, small=9)))
    mark = found.partitions[0].fingerprint
    assert reasons(found, acted={"a": Asked(fingerprint=mark)}) == [
        "partition dt=a: 9 small files ≥ 5: was asked for already in this state"
    ]
    changed = health(stats("a", bucket(0, small=10)))
    assert (
        len(intents(decide(changed, POLICY, acted={"a": Asked(fingerprint=mark)}, now_ms=NOW_MS)))
        == 1
    )


def test_what_came_to_nothing_is_asked_for_again_later_and_later_and_not_for_ever() -> None:
    found = health(stats("a", bucket(0, small=9)))
    partition, now_ms, asked = found.partitions[0], NOW_MS, None
    waited: list[int] = []
    while True:
        asked = asked_now(partition, asked, now_ms)
        if asked.again_ms is None:
            break
        early = decide(found, POLICY, acted={"a": asked}, now_ms=asked.again_ms - 1)
        assert isinstance(early[0], Declined)
        assert (early[0].waits, early[0].again_ms) == (False, asked.again_ms)
        assert intents(decide(found, POLICY, acted={"a": asked}, now_ms=asked.again_ms))
        waited.append((asked.again_ms - now_ms) // 60_000)
        now_ms = asked.again_ms
    assert waited == [10, 20, 40, 80, 160, 320, 640]
    assert not intents(decide(found, POLICY, acted={"a": asked}, now_ms=2 * now_ms))
    changed = health(stats("a", bucket(0, small=10))).partitions[0]
    assert asked_now(changed, asked, now_ms).times == 1


def test_when_it_is_asked_again_is_told() -> None:
    found = health(stats("a", bucket(0, small=9)))
    asked = Asked(fingerprint=found.partitions[0].fingerprint, again_ms=NOW_MS + 60_000)
    (told,) = reasons(found, acted={"a": asked})
    assert told.endswith("was asked for already in this state, and is again from 13:47 UTC on")


def test_a_partition_being_written_is_left_until_it_is_quiet() -> None:
    policy = CompactionPolicy.model_validate({"quiet_for": "60s"})
    hot = health(stats("a", bucket(0, small=9), written_ms=NOW_MS - 59_000))
    assert reasons(hot, policy) == [
        "partition dt=a: 9 small files ≥ 5: waits, written 59 s ago, until it is quiet for 60 s"
    ]
    cold = health(stats("a", bucket(0, small=9), written_ms=NOW_MS - 60_000))
    assert len(intents(decide(cold, policy, now_ms=NOW_MS))) == 1


def test_work_of_one_run_is_bounded_and_the_rest_waits() -> None:
    policy = CompactionPolicy(max_partitions=1)
    found = health(stats("a", bucket(0, small=9)), stats("b", bucket(0, small=9)))
    first, second = decide(found, policy, now_ms=NOW_MS)
    assert isinstance(first, Intent)
    assert isinstance(second, Declined)
    assert second.waits
    assert second.reason.endswith("waits, 1 partitions are compacted at once")


def test_a_long_list_of_reasons_is_told_by_its_worst() -> None:
    found = health(*[stats(f"{day:02}", bucket(0, small=day)) for day in range(1, 10)])
    said = summarize(decide(found, POLICY, now_ms=NOW_MS), shown=2)
    assert said == (
        "partition dt=09: 9 small files ≥ 5: compact; partition dt=08: 8 small files ≥ 5: compact; "
        "and 7 other partitions, none with more"
    )
    assert summarize(()) == "the table has no data"


def test_health_adds_up() -> None:
    found = health(
        stats("a", bucket(0, small=2), bucket(1, small=3)), stats("b", bucket(0, small=1))
    )
    assert (found.file_count, found.size_bytes, found.row_count) == (6, 600, 60)
    assert found.small_files == 4
