"""Batches of a stream: each is committed once, whatever was lost in between."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.storage import Catalog, EventTime, Table
from lakewright.storage.errors import (
    BucketCountChanged,
    InvalidRequestError,
    NotFoundError,
    UnavailableError,
)
from lakewright.storage.operations.streams.batches import (
    commit_batch,
    is_committed,
)
from lakewright.storage.spec.commit import CommitResult
from lakewright.storage.spec.partition_clock import PartitionClock, partition_clock
from lakewright.storage.spec.stream import StreamBatch
from tests.support.stores.watched_files import (
    Crashed,
    Fault,
    watched,
)
from tests.support.tables.builders import compact, events, expire, new_table, rows, values_of
from tests.support.tables.environment import START_MS
from tests.support.tables.fixtures import memory_catalog
from tests.support.tables.invariants import assert_only_reachable_files

DAY_MS = 86_400_000


def batch(number: int, *, stream: str = "q1", checkpoint: str = "/checkpoint") -> StreamBatch:
    return StreamBatch(stream=stream, checkpoint=checkpoint, number=number)


def write(
    table: Table,
    which: StreamBatch,
    *,
    day: str = "a",
    clock: PartitionClock | None = None,
    time_ms: int | None = None,
) -> CommitResult | None:
    """What the sink does with a batch, whose rows follow from its number; None if it is known."""
    files = table.table_files
    if is_committed(files, which):
        return None
    first = which.number * 10
    staged = table.stage(
        rows(table, events(first, first + 2, day=day)),
        commit_user=which.stream,
        commit_identifier=which.number,
    )
    return commit_batch(files, which, staged, clock=clock, time_ms=time_ms)


def clock_of(table: Table, **given: dt.timedelta) -> PartitionClock:
    fields = {field.name: field for field in table.schema.partition_fields}
    return partition_clock(fields, {"day": EventTime("ts", **given)}, table=table.name)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made: Table = new_table(catalog)
    return made


def dies_before(table: Table, which: StreamBatch, number: int) -> bool:
    """Write a batch in a process that dies before one of its changes; False if it has fewer."""
    process, files = watched(
        table, fail_at=number, fault=Fault.DIES_BEFORE, counts=lambda call: call.changes
    )
    with suppress(Crashed):
        write(process, which)
    return files.dead


@pytest.mark.mission("PT13", "PT49", "PT50")
def test_a_batch_whose_process_died_at_any_change_is_there_once_after_its_repetition() -> None:
    for number in range(1, 100):
        table = new_table(memory_catalog())
        write(table, batch(0))
        has_died = dies_before(table, batch(1), number)
        write(table, batch(1))
        assert values_of(table, "id") == [0, 1, 10, 11], number
        assert [each.batch for each in table.history.streams()] == [1], number
        if not has_died:
            break
    else:
        pytest.fail("a batch makes fewer than a hundred changes")
    assert number > 5


@pytest.mark.mission("PT13", "PT49")
def test_a_batch_is_not_written_again_after_the_expiry_of_its_snapshot(table: Table) -> None:
    write(table, batch(0))
    for number in range(3):
        table.write(rows(table, events(100 + number, 101 + number)))
    expire(table)
    assert table.find_committed("q1", 0) is None
    assert write(table, batch(0)) is None
    assert values_of(table, "id") == [0, 1, 100, 101, 102]


def committed_by_another_client(table: Table) -> None:
    """A snapshot that says nothing of streams, as other clients write it."""
    table.write(rows(table, events(100, 101)))
    without_properties(table)


def without_properties(table: Table) -> None:
    latest = table.at().snapshot
    assert latest is not None
    files = table.table_files
    path = files.paths.snapshot(latest.id)
    read = json.loads(files.fs.read_bytes(path))
    del read["properties"]
    files.fs.replace(path, json.dumps(read).encode())


@pytest.mark.mission("PT13", "PT49")
def test_an_expiry_says_again_where_streams_stand_if_only_expired_snapshots_did(
    table: Table,
) -> None:
    write(table, batch(0))
    committed_by_another_client(table)
    assert write(table, batch(0)) is None
    before = table.history.streams()
    expire(table)
    assert table.history.streams() == before
    assert write(table, batch(0)) is None
    write(table, batch(1))
    assert values_of(table, "id") == [0, 1, 10, 11, 100]
    assert_only_reachable_files(table)


@pytest.mark.mission("PT13", "PT49")
def test_a_batch_is_neither_doubled_nor_lost_where_another_client_expired_its_snapshot(
    table: Table,
) -> None:
    write(table, batch(0))
    table.write(rows(table, events(100, 101)))
    expire(table)
    without_properties(table)
    for number in (0, 1):
        with pytest.raises(InvalidRequestError, match=r"another client expired .*forget db\.t q1"):
            write(table, batch(number))
    assert values_of(table, "id") == [0, 1, 100]
    table.history.forget_stream("q1")
    write(table, batch(0))
    assert values_of(table, "id") == [0, 0, 1, 1, 100]


def test_a_branch_of_a_snapshot_of_another_client_knows_the_streams_of_its_rows(
    table: Table,
) -> None:
    write(table, batch(0))
    committed_by_another_client(table)
    before = table.history.streams()
    table.history.create_tag("t")
    for branch in (
        table.history.create_branch("b", tag="t"),
        table.history.create_branch("c", snapshot=2),
    ):
        assert branch.history.streams() == before
        assert write(branch, batch(0)) is None
        write(branch, batch(1))
        assert values_of(branch, "id") == [0, 1, 10, 11, 100]
        # Without the file that says how the stream began.
        committed_by_another_client(branch)
        expire(branch)
        assert write(branch, batch(1)) is None
    table.history.fast_forward("b", grace_ms=0)
    assert write(table, batch(1)) is None


@pytest.mark.mission("PT49")
def test_a_new_stream_with_the_checkpoint_of_another_is_refused(table: Table) -> None:
    write(table, batch(0))
    with pytest.raises(InvalidRequestError, match=r"/checkpoint was deleted.*forget db\.t q1"):
        write(table, batch(0, stream="q2"))
    write(table, batch(0, stream="q3", checkpoint="/elsewhere"))
    assert values_of(table, "id") == [0, 0, 1, 1]
    table.history.forget_stream("q1")
    write(table, batch(0, stream="q2"))
    assert values_of(table, "id") == [0, 0, 0, 1, 1, 1]
    with pytest.raises(NotFoundError, match=r"no stream q1 has written into db\.t; there are q"):
        table.history.forget_stream("q1")


@pytest.mark.mission("PT49")
def test_a_checkpoint_that_is_older_than_the_table_is_refused(table: Table) -> None:
    for number in (0, 1):
        write(table, batch(number))
    with pytest.raises(InvalidRequestError, match=r"holds batch 1 of stream q1, .* at batch 0"):
        write(table, batch(0))


def two_more_batches_and_expiry(table: Table) -> None:
    """What another driver of the query does meanwhile: batches 1 and 2, whose snapshots expire."""
    for number in (1, 2):
        write(table, batch(number))
    table.write(rows(table, events(100, 101)))
    expire(table)


@pytest.mark.mission("PT13", "PT49")
def test_a_driver_that_stages_while_another_one_goes_on_writes_nothing(table: Table) -> None:
    write(table, batch(0))
    staged = [
        table.stage(rows(table, events(50, 52)), commit_user="q1", commit_identifier=number)
        for number in (1, 2)
    ]
    two_more_batches_and_expiry(table)
    with pytest.raises(InvalidRequestError, match="holds batch 2 of stream q1"):
        commit_batch(table.table_files, batch(1), staged[0])
    # The snapshot of batch 2 has expired; the position is in those behind it.
    assert commit_batch(table.table_files, batch(2), staged[1]).already_committed
    assert values_of(table, "id") == [0, 1, 10, 11, 20, 21, 100]
    assert [each.batch for each in table.history.streams()] == [2]
    assert_only_reachable_files(table)


def test_a_batch_without_rows_is_a_commit_since_the_next_one_follows_it(table: Table) -> None:
    for number in range(3):
        staged = table.stage(rows(table, []), commit_user="q1", commit_identifier=number)
        assert commit_batch(table.table_files, batch(number), staged).snapshot is not None
    assert [each.batch for each in table.history.streams()] == [2]
    write(table, batch(3))
    assert values_of(table, "id") == [30, 31]
    assert_only_reachable_files(table)


def test_a_stream_notices_that_its_table_was_dropped_and_created_anew(catalog: Catalog) -> None:
    """Rows of its earlier batches are not there, and its source does not bring them again."""
    table = new_table(catalog)
    for number in (0, 1):
        write(table, batch(number))
    catalog.drop_table(table.name)
    table = new_table(catalog)
    with pytest.raises(InvalidRequestError, match=r"knows no batch of stream q1, .* at batch 2"):
        write(table, batch(2))
    assert table.history.snapshots() == ()
    # A new checkpoint begins anew, with an id of its own.
    write(table, batch(0, stream="q2", checkpoint="/new"))
    assert values_of(table, "id") == [0, 1]


def test_the_start_of_a_stream_may_be_lost_without_its_position(table: Table) -> None:
    for number in (0, 1):
        write(table, batch(number))
    files = table.table_files
    files.fs.delete(files.paths.stream("q1"))
    write(table, batch(2))
    assert values_of(table, "id") == [0, 1, 10, 11, 20, 21]


def test_commits_of_all_kinds_say_again_where_streams_stand(table: Table) -> None:
    write(table, batch(0))
    before = table.history.streams()
    table.write(rows(table, events(100, 101)))
    compact(table, full=True)
    table.delete("id = 100")
    table.upkeep.run(table.upkeep.plan_analyze())
    for each in table.history.snapshots():
        assert "lakewright.streams" in (each.properties or {}), each.commit_kind
    assert table.history.streams() == before


def test_a_batch_that_lost_to_another_change_leaves_no_file_and_no_doubt(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "2"})
    write(table, batch(0))
    before = table.history.streams()
    staged = table.stage(rows(table, events(10, 12)), commit_user="q1", commit_identifier=1)
    table.upkeep.run(table.upkeep.plan_rescale(4))
    with pytest.raises(BucketCountChanged):
        commit_batch(table.table_files, batch(1), staged)
    assert table.history.streams() == before
    assert_only_reachable_files(table)


@pytest.mark.mission("PT48")
def test_partitions_are_done_once_the_watermark_has_passed_them(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    clock = clock_of(table, delay=dt.timedelta(hours=2))

    def done() -> list[str]:
        folder = Path(table.location.removeprefix("file://"))
        return sorted(path.parent.name for path in folder.glob("*/_SUCCESS"))

    first = START_MS + DAY_MS
    write(table, batch(0), day="2024-01-01", clock=clock, time_ms=first - 1)
    write(table, batch(1), day="2024-01-02", clock=clock, time_ms=first + 3_600_000)
    assert done() == []
    # The store fails after the commit; the repetition marks what is over.
    process, _ = watched(table, fail_at=1, counts=lambda call: "_SUCCESS" in call.path)
    with pytest.raises(UnavailableError):
        write(process, batch(2), day="2024-01-02", clock=clock, time_ms=first + 7_200_000)
    assert write(table, batch(2), clock=clock) is None
    assert done() == ["day=2024-01-01"]
    assert table.at(watermark=first).snapshot is not None
    (record,) = table.history.streams()
    assert (record.watermark, record.waiting) == (first, ("2024-01-02",))


def test_partitions_of_batches_that_a_rollback_left_are_marked_as_done_later(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, partitions=["day"])
    clock, first = clock_of(table), START_MS + DAY_MS
    write(table, batch(0), day="2024-01-01", clock=clock, time_ms=first - 1)
    write(table, batch(1), day="2024-01-02", clock=clock, time_ms=first - 1)
    table.history.rollback(snapshot=1, grace_ms=0)
    (record,) = table.history.streams()
    assert (record.batch, record.watermark) == (0, first - 1)
    write(table, batch(1), day="2024-01-02", clock=clock, time_ms=first)
    (record,) = table.history.streams()
    assert record.waiting == ("2024-01-02",)
    folder = Path(table.location.removeprefix("file://"))
    assert [path.parent.name for path in folder.glob("*/_SUCCESS")] == ["day=2024-01-01"]


@pytest.mark.parametrize("bad", [START_MS * 1000, -START_MS * 1000, 10**30])
def test_a_time_outside_of_the_calendar_is_refused_before_the_commit(
    catalog: Catalog, bad: int
) -> None:
    table = new_table(catalog, partitions=["day"])
    clock = clock_of(table)
    write(table, batch(0), day="2024-01-01", clock=clock, time_ms=START_MS)
    before = table.history.streams()
    for _ in range(2):
        with pytest.raises(
            InvalidRequestError, match=f"batch 1 for db.t .* time {bad} .*column ts"
        ):
            write(table, batch(1), day="2024-01-02", clock=clock, time_ms=bad)
    assert values_of(table, "id") == [0, 1]
    assert table.history.streams() == before
    assert_only_reachable_files(table)
    write(table, batch(1), day="2024-01-02", clock=clock, time_ms=START_MS + DAY_MS)
    assert values_of(table, "id") == [0, 1, 10, 11]


def test_a_batch_that_begins_elsewhere_than_the_rows_of_the_table_end_is_refused(
    table: Table,
) -> None:
    """As one that was staged before a rollback, behind which another process went on."""
    for number in (0, 1):
        write(table, at(number, start=number - 1, end=number))
    table.history.rollback(snapshot=1, grace_ms=0)
    write(table, at(1, start=0, end=5))
    with pytest.raises(InvalidRequestError, match="rolled back behind batch 1 of stream q1"):
        write(table, at(2, start=1, end=2))
    with pytest.raises(InvalidRequestError, match="another process runs the stream q1"):
        write(table, at(1, start=0, end=1))
    write(table, at(2, start=5, end=6))
    assert values_of(table, "id") == [0, 1, 10, 11, 20, 21]


def at(number: int, *, start: int, end: int) -> StreamBatch:
    first = None if number == 0 else str(start)
    return replace(batch(number), start=first, position=str(end))
