"""The source of streams without Spark: its offsets, its shares and what they hold."""

from __future__ import annotations

import base64
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, StalePlan, UnsupportedError
from lakewright.storage.operations.streams.change_stream import open_stream
from lakewright.storage.spark.pickling import dumps, loads
from lakewright.storage.spark.stream_source import ChangesReader, ChangesSource
from tests.support.tables.builders import compact, events, expire, new_table, rows

Offset = dict[str, Any]


def reader_of(table: Table, after: int | None = None, consumer: str | None = None) -> ChangesReader:
    """What Spark makes of a query, which it starts anew each time."""
    asked = open_stream(table.table_files, columns=["id"], after=after, consumer=consumer)
    source = ChangesSource({"asked": base64.b64encode(dumps(asked)).decode()})
    return source.streamReader(source.schema())


def latest(reader: ChangesReader, start: Offset) -> Offset:
    return reader.latestOffset(start, ReadAllAvailable())


def told(reader: ChangesReader, start: Offset, end: Offset) -> list[tuple[str, int]]:
    """What the tasks of a batch read, each with copies of its own."""
    found = []
    for share in reader.partitions(start, end):
        there: ChangesReader = loads(dumps(reader))
        for batch in there.read(pickle.loads(pickle.dumps(share))):
            found += [(row["_rowkind"], row["id"]) for row in batch.to_pylist()]
    return sorted(found)


def write(table: Table, first: int, last: int, kind: str = "+I") -> None:
    table.write(rows(table, events(first, last), [kind] * (last - first)))


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made: Table = new_table(catalog, keys=["id"], options={"bucket": "2"})
    return made


def test_a_stream_has_all_rows_first_and_then_what_changes(table: Table) -> None:
    reader = reader_of(table)
    start = reader.initialOffset()
    assert latest(reader, start) == start
    write(table, 1, 4)
    write(table, 1, 2, "-D")
    first = latest(reader, start)
    # A deletion that files still hold deletes nothing of a copy that begins here.
    assert told(reader, start, first) == [("+I", 2), ("+I", 3), ("-D", 1)]
    compact(table, full=True)
    write(table, 3, 5, "+U")
    second = latest(reader, first)
    assert told(reader, first, second) == [("+U", 3), ("+U", 4)]
    assert told(reader, second, latest(reader, second)) == []
    later = reader_of(table, after=2)
    assert told(later, later.initialOffset(), second) == [("+U", 3), ("+U", 4)]


@pytest.mark.parametrize("keys", [[], ["day", "id"]], ids=["append", "primary key"])
@pytest.mark.mission("PT1", "PT4")
def test_a_stream_that_began_before_goes_on_across_changes_of_partition_keys(
    catalog: Catalog, keys: list[str]
) -> None:
    """The same reader, one that begins again, and one that has the change still before it."""
    options = {"bucket": "2"} if keys else {}
    table = new_table(catalog, partitions=["day"], keys=keys, options=options)
    write(table, 1, 4)
    reader = reader_of(table)
    before = latest(reader, reader.initialOffset())
    assert told(reader, reader.initialOffset(), before) == [("+I", 1), ("+I", 2), ("+I", 3)]
    write(table, 4, 5)
    table.upkeep.respec([])
    table = catalog.table(table.name)
    write(table, 5, 6)
    table.upkeep.respec(["day"])
    table = catalog.table(table.name)
    write(table, 6, 7)
    for each in (reader, reader_of(table)):
        after = latest(each, before)
        assert told(each, before, after) == [("+I", 4), ("+I", 5), ("+I", 6)]
        assert told(each, after, latest(each, after)) == []


def test_a_stream_that_ends_when_all_is_read_leaves_what_comes_meanwhile(table: Table) -> None:
    write(table, 1, 2)
    reader = reader_of(table)
    reader.prepareForTriggerAvailableNow()
    write(table, 2, 3)
    start = reader.initialOffset()
    assert told(reader, start, latest(reader, start)) == [("+I", 1)]


def test_a_stream_goes_on_where_its_consumer_keeps_the_snapshots(table: Table) -> None:
    for number in (1, 2, 3):
        write(table, number, number + 1)
    reader = reader_of(table, consumer="c")
    reader.commit({"snapshot": 1, "commit": ""})
    expire(table)
    assert [each.id for each in table.history.snapshots()] == [2, 3]
    again = reader_of(table, consumer="c")
    start = again.initialOffset()
    assert told(again, start, latest(again, start)) == [("+I", 2), ("+I", 3)]


@pytest.mark.parametrize("meanwhile", ["nothing", "rollback"])
def test_a_stream_that_is_started_again_before_its_first_batch_begins_with_all_rows_still(
    table: Table, meanwhile: str
) -> None:
    for number in range(1, 7):
        write(table, number, number + 1)
    expire(table, keep=2)
    all_rows = [("+I", number) for number in range(1, 7)]
    for _ in range(2):
        reader = reader_of(table, consumer="c")
        start = reader.initialOffset()
        first = latest(reader, start)
        assert told(reader, start, first) == all_rows
    if meanwhile == "rollback":
        write(table, 9, 10)
        table.history.set_consumer("d", 8)
        table.table_files.references.set_consumer("c", 8, without_rows=True)
        table.history.rollback(snapshot=6, grace_ms=0)
        again = reader_of(table, consumer="c")
        assert told(again, again.initialOffset(), first) == all_rows
        other = reader_of(table, consumer="d")
        assert told(other, other.initialOffset(), first) == []
    reader.commit(first)
    again = reader_of(table, consumer="c")
    assert told(again, again.initialOffset(), first) == []


def test_a_consumer_keeps_the_state_to_which_an_overwrite_is_compared(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"streaming-read-overwrite": "true"})
    write(table, 1, 3)
    reader = reader_of(table, consumer="c")
    first = latest(reader, reader.initialOffset())
    reader.commit(first)
    table.write(rows(table, events(2, 3)), mode="overwrite")
    expire(table)
    assert told(reader, first, latest(reader, first)) == [("-D", 1)]


def test_a_stream_that_would_begin_at_expired_changes_makes_no_consumer(table: Table) -> None:
    for number in range(1, 5):
        write(table, number, number + 1)
    expire(table, keep=2)
    with pytest.raises(InvalidRequestError, match="cannot continue at snapshot 2; name a snapshot"):
        reader_of(table, after=1, consumer="c")
    assert table.history.consumers() == ()


def test_a_stream_that_has_told_rows_of_a_rollback_ends(table: Table) -> None:
    write(table, 1, 2)
    write(table, 2, 3)
    reader = reader_of(table)
    read = latest(reader, reader.initialOffset())
    table.history.rollback(snapshot=1, grace_ms=0)
    with pytest.raises(StalePlan, match="rolled back behind snapshot 2"):
        latest(reader, read)
    write(table, 5, 6)
    with pytest.raises(StalePlan, match="rolled back behind snapshot 2"):
        latest(reader, read)


def test_changes_are_numbered_by_their_snapshots_and_places_whichever_task_reads_them(
    catalog: Catalog,
) -> None:
    source = new_table(
        catalog,
        name="db.ordered",
        partitions=["day"],
        keys=["day", "id"],
        options={"bucket": "1", "changelog-producer": "input"},
    )
    source.write(rows(source, [{"id": 9, "day": "k", "v": "w"}]))
    reader = reader_of(source)
    start = latest(reader, reader.initialOffset())
    given = [("z", "+I"), ("a", "-U"), ("a", "+U"), ("m", "-D"), ("b", "+I")]
    for number, (day, kind) in enumerate(given):
        values = {"id": number, "day": day, "v": "w"}
        again = [] if number else [values]
        source.write(rows(source, [values, *again], [kind] * (1 + len(again))))
    end = latest(reader, start)
    found = []
    for share in reader.partitions(start, end):
        found += [row for batch in reader.read(share) for row in batch.to_pylist()]
    assert len({row["_change_order"] for row in found}) == len(given) + 1
    found.sort(key=lambda row: row["_change_order"])
    assert [row["id"] for row in found] == [0, 0, 1, 2, 3, 4]
    # What the table holds comes before what changes later, and removals before additions.
    first = reader_of(source)
    state = [
        (row["_change_order"], row["_rowkind"])
        for share in first.partitions(first.initialOffset(), end)
        for batch in first.read(share)
        for row in batch.to_pylist()
    ]
    assert [kind[0] for _, kind in sorted(state)] == sorted((kind[0] for _, kind in state))[::-1]


def test_a_table_with_a_column_of_the_order_is_refused(catalog: Catalog) -> None:
    table = new_table(catalog, {"id": "BIGINT", "_change_order": "BIGINT"}, name="db.other")
    with pytest.raises(UnsupportedError, match="name the columns to read without it"):
        open_stream(table.table_files)
    assert open_stream(table.table_files, columns=["id"]).columns == ("id",)
