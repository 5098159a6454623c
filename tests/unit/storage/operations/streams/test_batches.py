"""Batches of a stream: each is committed once, whatever was lost in between."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.storage import Catalog, EventTime, Table
from lakewright.storage.errors import (
    BucketCountChanged,
    CommitOutcomeUnknownError,
    InvalidRequestError,
    NotFoundError,
    UnavailableError,
)
from lakewright.storage.operations.streams.batches import (
    commit_batch,
    is_committed,
    put_back,
    set_back,
)
from lakewright.storage.spec.commit import CommitResult
from lakewright.storage.spec.partition_clock import PartitionClock, partition_clock
from lakewright.storage.spec.stream import SetBack, StreamBatch
from tests.support.stores.watched_files import (
    Call,
    Crashed,
    Fault,
    WatchedFiles,
    over,
    puts_snapshot,
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
    if is_committed(files, which, clock):
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
        assert [each.committed for each in table.history.streams()] == [True], number
        if not has_died:
            break
    else:
        pytest.fail("a batch makes fewer than a hundred changes")
    assert number > 8


@pytest.mark.mission("PT13", "PT49")
def test_a_batch_is_not_written_again_after_the_expiry_of_its_snapshot(table: Table) -> None:
    write(table, batch(0))
    for number in range(3):
        table.write(rows(table, events(100 + number, 101 + number)))
    expire(table)
    assert table.find_committed("q1", 0) is None
    assert write(table, batch(0)) is None
    assert values_of(table, "id") == [0, 1, 100, 101, 102]


def after_a_death_between_commit_and_record(table: Table) -> None:
    """Batch 0 is in the table, its record does not know it, and its snapshot has expired."""
    process, _ = watched(table, fail_at=1, fault=Fault.DIES_AFTER, counts=puts_snapshot)
    with pytest.raises(Crashed):
        write(process, batch(0))
    for number in range(2):
        table.write(rows(table, events(100 + number, 101 + number)))
    (record,) = table.history.streams()
    assert not record.committed


@pytest.mark.mission("PT13", "PT49")
def test_files_of_a_batch_prove_its_commit_when_the_snapshot_has_expired(table: Table) -> None:
    after_a_death_between_commit_and_record(table)
    expire(table)
    assert write(table, batch(0)) is None
    assert values_of(table, "id") == [0, 1, 100, 101]
    (record,) = table.history.streams()
    assert record.committed


@pytest.mark.mission("PT13", "PT49")
@pytest.mark.parametrize("rows_are_there", [True, False])
def test_a_batch_of_which_nothing_is_left_to_prove_is_asked_about_and_not_doubled(
    table: Table, rows_are_there: bool
) -> None:
    after_a_death_between_commit_and_record(table)
    compact(table, full=True)
    expire(table)
    with pytest.raises(
        CommitOutcomeUnknownError, match=r"stream settle db\.t q1, and if not: .*forget db"
    ):
        write(table, batch(0))
    assert values_of(table, "id") == [0, 1, 100, 101]
    if rows_are_there:
        table.history.settle_stream("q1")
        assert write(table, batch(0)) is None
    else:
        table.history.forget_stream("q1")
        assert write(table, batch(0)) is not None


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
def test_a_driver_that_settles_late_does_not_take_the_record_back(table: Table) -> None:
    write(table, batch(0))
    records: list[Call] = []

    def meanwhile(call: Call) -> None:
        if call.name == "replace" and "/stream-q1" in call.path:
            records.append(call)
            # The first one says that the batch is tried, the second one that it is committed.
            if len(records) == 2:
                two_more_batches_and_expiry(table)

    write(over(table, WatchedFiles(table.table_files.fs, before=meanwhile)), batch(1))
    (record,) = table.history.streams()
    assert (record.batch, record.committed) == (2, True)
    assert write(table, batch(2)) is None
    assert values_of(table, "id") == [0, 1, 10, 11, 20, 21, 100]


@pytest.mark.mission("PT13", "PT49")
@pytest.mark.parametrize("number", [1, 2])
def test_a_driver_that_stages_while_another_one_goes_on_writes_nothing(
    table: Table, number: int
) -> None:
    write(table, batch(0))
    staged = table.stage(rows(table, events(50, 52)), commit_user="q1", commit_identifier=number)
    two_more_batches_and_expiry(table)
    if number == 1:
        with pytest.raises(InvalidRequestError, match="holds batch 2 of stream q1"):
            commit_batch(table.table_files, batch(number), staged)
    else:
        assert commit_batch(table.table_files, batch(number), staged).already_committed
    assert values_of(table, "id") == [0, 1, 10, 11, 20, 21, 100]
    (record,) = table.history.streams()
    assert (record.batch, record.committed) == (2, True)
    assert_only_reachable_files(table)


def test_a_batch_without_rows_makes_no_snapshot_and_only_the_first_a_record(table: Table) -> None:
    staged = table.stage(rows(table, []), commit_user="q1", commit_identifier=0)
    assert commit_batch(table.table_files, batch(0), staged).snapshot is None
    assert table.history.snapshots() == ()
    for number in (1, 2):
        staged = table.stage(rows(table, []), commit_user="q1", commit_identifier=number)
        assert commit_batch(table.table_files, batch(number), staged).snapshot is None
    assert [(each.batch, each.committed) for each in table.history.streams()] == [(0, True)]
    # So the table is known to be the stream's own when rows come at last.
    write(table, batch(3))
    assert values_of(table, "id") == [30, 31]


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


def test_a_record_that_was_lost_is_made_up_for_by_the_snapshots_of_the_stream(table: Table) -> None:
    for number in (0, 1):
        write(table, batch(number))
    table.history.forget_stream("q1")
    write(table, batch(2))
    assert values_of(table, "id") == [0, 1, 10, 11, 20, 21]


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
    table.history.rollback(snapshot=1)
    to = set_back(table.table_files, "q1")
    assert to == SetBack(number=0, position=None, lost=1)
    put_back(table.table_files, "q1", to)
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


def test_a_stream_goes_on_after_a_recorded_watermark_outside_of_the_calendar(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, partitions=["day"])
    clock = clock_of(table)
    write(table, batch(0), day="2024-01-01", clock=clock, time_ms=START_MS)
    (record,) = table.history.streams()
    table.table_files.streams.put(replace(record, committed=False, watermark=START_MS * 1000))
    assert write(table, batch(0), clock=clock) is None
    write(table, batch(1), day="2024-01-02", clock=clock, time_ms=START_MS + DAY_MS)
    (record,) = table.history.streams()
    assert (record.watermark, record.waiting) == (START_MS + DAY_MS, ("2024-01-02",))


def test_to_forget_a_batch_that_died_leaves_the_position_of_the_one_before(table: Table) -> None:
    for number in (0, 1):
        write(table, replace(batch(number), position=f'{{"at": {number}}}'))
    (record,) = table.history.streams()
    died = replace(record, batch=2, committed=False, position='{"at": 2}')
    table.table_files.streams.put(died)
    table.history.forget_stream("q1")
    (record,) = table.history.streams()
    assert (record.batch, record.position) == (1, '{"at": 1}')
