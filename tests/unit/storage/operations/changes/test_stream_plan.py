"""What a stream tells of a table: all rows, then changes; what waits, and what overwrites did."""

from __future__ import annotations

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.operations.changes.change_read import ChangeReader
from lakewright.storage.operations.changes.stream_plan import check_streamable, plan_stream
from tests.support.tables.builders import compact, events, new_table, rows, with_options

Told = list[tuple[str, int, str]]


class Follower:
    """Reads a table as a stream does, up to the latest snapshot each time."""

    def __init__(self, table: Table) -> None:
        self.table, self.read = table, 0

    def told(self) -> Told:
        files, first = self.table.table_files, self.read
        self.read = files.snapshots.latest_id() or 0
        plan = plan_stream(files, first, self.read)
        reader = ChangeReader(files, columns=["id", "v"], predicate=None)
        found = [batch.to_pylist() for split in plan.splits for batch in reader.read(split)]
        return sorted((row["_rowkind"], row["id"], row["v"]) for part in found for row in part)


def write(table: Table, first: int, last: int, v: str = "v", mode: str = "append") -> None:
    table.write(rows(table, events(first, last, v=v)), mode=mode)


def keyed(catalog: Catalog, **options: str) -> Table:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    table: Table = new_table(catalog, keys=["id"], options={"bucket": "2", **named})
    return table


@pytest.mark.parametrize("waits", ["postponed", "level 0", "level 0, whose input is recorded"])
def test_rows_that_wait_and_that_no_changelog_will_tell_are_told_as_they_were_written(
    catalog: Catalog, waits: str
) -> None:
    if waits == "postponed":
        table = keyed(catalog, bucket="-2")
    else:
        producer = "input" if "input" in waits else "none"
        table = keyed(catalog, deletion_vectors__enabled="true", changelog_producer=producer)
    write(table, 1, 3)
    follower = Follower(table)
    assert follower.told() == [("+I", 1, "v1"), ("+I", 2, "v2")]
    write(table, 2, 3, v="w")
    assert follower.told() == [("+I", 2, "w2")]
    if waits == "postponed":
        table.upkeep.postpone_compact()
    compact(table, full=True)
    assert follower.told() == []
    write(table, 3, 4)
    assert Follower(table).told() == [("+I", 1, "v1"), ("+I", 2, "w2"), ("+I", 3, "v3")]


@pytest.mark.parametrize("bucket", ["2", "-2"])
@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_rows_that_a_changelog_will_tell_are_told_by_it_alone(
    catalog: Catalog, producer: str, bucket: str
) -> None:
    table = keyed(catalog, bucket=bucket, changelog_producer=producer)
    write(table, 1, 3)
    follower = Follower(table)
    assert follower.told() == []
    for told in ([("+I", 1, "v1"), ("+I", 2, "v2")], []):
        if bucket == "-2":
            table.upkeep.postpone_compact()
        compact(table, full=True)
        assert follower.told() == told
    assert Follower(table).told() == [("+I", 1, "v1"), ("+I", 2, "v2")]


@pytest.mark.parametrize("keys", [["id"], []])
def test_overwrites_are_passed_over_with_a_warning(
    catalog: Catalog, keys: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    table = new_table(catalog, keys=keys, options={"bucket": "2", "bucket-key": "id"})
    write(table, 1, 3)
    follower = Follower(table)
    follower.told()
    write(table, 3, 4)
    write(table, 7, 8, mode="overwrite")
    assert follower.told() == [("+I", 3, "v3")]
    option = "streaming-read-overwrite" if keys else "streaming-read-append-overwrite"
    assert f"overwrites changed: snapshots 3; set {option}=true" in caplog.text


@pytest.mark.parametrize(
    ("producer", "way"),
    [
        ("none", "set streaming-read-overwrite=true if it should"),
        ("input", "set streaming-read-overwrite=true if it should"),
        ("lookup", "empty what the stream fills, and begin a new stream"),
        ("full-compaction", "empty what the stream fills, and begin a new stream"),
    ],
)
@pytest.mark.parametrize("change", ["emptied", "replaced", "reverted"])
def test_what_is_taken_out_of_a_table_with_keys_is_warned_of_whatever_its_changelog(
    catalog: Catalog, producer: str, way: str, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = keyed(catalog, changelog_producer=producer)
    write(table, 1, 3)
    write(table, 3, 5)
    if change != "reverted":
        compact(table, full=True)
    follower = Follower(table)
    follower.told()
    if change == "emptied":
        table.write(rows(table, []), mode="overwrite", dynamic=False)
    elif change == "reverted":
        table.history.revert(1)
    else:
        table.write(rows(table, events(7, 8)), mode="overwrite")
    last = table.table_files.snapshots.latest_id()
    assert follower.told() == []
    assert f"overwrites changed: snapshots {last}; " in caplog.text
    assert way in caplog.text


@pytest.mark.parametrize("producer", ["none", "input"])
def test_an_overwrite_is_told_as_what_it_changed_if_the_table_wants_it(
    catalog: Catalog, producer: str
) -> None:
    table = keyed(catalog, streaming_read_overwrite="true", changelog_producer=producer)
    write(table, 1, 3)
    follower = Follower(table)
    follower.told()
    write(table, 3, 4)
    write(table, 2, 3, v="over", mode="overwrite")
    assert follower.told() == [("+I", 2, "over2"), ("-D", 1, "v1")]
    compact(table, full=True)
    table.upkeep.run(table.upkeep.plan_rescale(4))
    assert follower.told() == []


def test_an_overwrite_of_a_table_without_keys_is_told_by_its_new_rows_if_the_table_wants_it(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, options={"streaming-read-append-overwrite": "true"})
    write(table, 1, 3)
    follower = Follower(table)
    follower.told()
    write(table, 7, 8, mode="overwrite")
    write(table, 8, 9)
    assert follower.told() == [("+I", 7, "v7"), ("+I", 8, "v8")]


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ({"changelog_producer": "lookup"}, "changelog-producer=lookup reports rows of overwrites"),
        ({"bucket": "-2"}, "rows of postponed buckets"),
        ({"deletion_vectors__enabled": "true"}, "rows of level 0"),
    ],
)
def test_overwrites_that_cannot_be_told_once_are_refused(
    catalog: Catalog, option: dict[str, str], reason: str
) -> None:
    # As another client may have made it: with the first option no newer one opens it.
    table = with_options(keyed(catalog, **option), streaming_read_overwrite="true")
    with pytest.raises(UnsupportedError, match=f"{reason}.*; set the option to false"):
        check_streamable(table.table_files)
