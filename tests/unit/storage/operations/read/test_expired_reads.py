"""Readers that an expiry overtakes: they finish, or get one clear error; some are protected."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import FileMissing, HistoryGap, SnapshotNotFound
from tests.support.stores.watched_files import Call, interrupted
from tests.support.tables.builders import compact, comparable, events, expire, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_catalog
from tests.support.tables.remade import Remade
from tests.support.tally import tally

Read = Callable[[Table], list[str]]
SAID = r"snapshot \d+ of db\.t expired while it was read; read one of.* by a tag or a consumer"


def history(kind: str = "changelog", catalog: Catalog | None = None) -> Table:
    """Three commits of a file each, which the next compaction replaces."""
    options = {"bucket": "1", "changelog-producer": "input"}
    if kind == "dynamic":
        options = {"bucket": "-1"}
    if kind == "lasting":
        options |= {"changelog.num-retained.min": "20", "changelog.time-retained": "10 h"}
    table = new_table(catalog or memory_catalog(), keys=["id"], options=options)
    for number in range(3):
        table.write(rows(table, events(number, number + 3, v=f"v{number}-")))
    return table


def read(table: Table) -> list[str]:
    return comparable(table.at(snapshot=3).read())


def read_in_pieces(table: Table) -> list[str]:
    return [row for rows in table.at(snapshot=3).scan().batches() for row in comparable(rows)]


def look_up(table: Table) -> list[str]:
    keys = rows(table, [{"id": 0}, {"id": 3}]).select(["id"])
    return comparable(table.at(snapshot=3).lookup(keys))


def expire_all(table: Table) -> object:
    """What is left is a compaction, which needs none of the files before."""
    compact(table, full=True)
    return expire(table)


def changes(mode: str) -> Read:
    def read_changes(table: Table) -> list[str]:
        return comparable(table.read_changes(1, 3, mode=mode))

    return read_changes


READS: dict[str, Read] = {
    "read": read,
    "read in pieces": read_in_pieces,
    "look up": look_up,
    "delta": changes("delta"),
    "changelog": changes("changelog"),
    "difference": changes("diff"),
}


@pytest.mark.sampled(2)
@pytest.mark.mission("FS19")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "changelog") for name in ("read", "look up", "delta", "difference")),
        *(
            pytest.param(name, "changelog", marks=pytest.mark.deep)
            for name in ("read in pieces", "changelog")
        ),
        # Tables of dynamic buckets have no changelogs here.
        *(
            pytest.param(name, "dynamic", marks=pytest.mark.deep)
            for name in READS
            if name != "changelog"
        ),
    ],
)
def test_a_reader_that_an_expiry_overtakes_finishes_or_gets_one_clear_error(
    name: str, kind: str
) -> None:
    made = Remade(lambda catalog: history(kind, catalog))
    expected = READS[name](made.again())
    told = 0
    for moment in range(1, 200):
        table = made.again()
        calls = 0

        def is_next(call: Call) -> bool:
            nonlocal calls
            calls += 1
            return calls == moment  # noqa: B023 - it is called before the loop goes on

        def meanwhile() -> None:
            expire_all(table)  # noqa: B023 - see above

        slow, fs = interrupted(table, when=is_next, meanwhile=meanwhile)
        try:
            assert READS[name](slow) == expected
        except SnapshotNotFound as error:
            told += "expired while it was read" in error.message
        if not fs.has_happened:
            assert told
            tally("moments at which an expiry overtook a reader", moment - 1)
            return
    raise AssertionError("the reader made too many calls")


@pytest.mark.parametrize("name", ["read", "look up", "difference"])
def test_a_changelog_that_outlives_its_snapshot_does_not_hide_that_the_state_is_gone(
    name: str,
) -> None:
    table = history("lasting")
    slow, fs = interrupted(
        table, when=lambda call: call.name == "open_input", meanwhile=lambda: expire_all(table)
    )
    with pytest.raises(SnapshotNotFound, match=SAID):
        READS[name](slow)
    assert fs.has_happened


@pytest.mark.parametrize("name", ["read", "read in pieces", "look up", "difference"])
def test_a_tag_made_in_time_protects_a_reader(name: str) -> None:
    table = history()
    table.history.create_tag("for-me", snapshot=3)
    table.history.create_tag("from", snapshot=1)
    expected = READS[name](table)
    slow, _ = interrupted(
        table, when=lambda call: call.name == "open_input", meanwhile=lambda: expire_all(table)
    )
    assert READS[name](slow) == expected


def test_a_consumer_protects_a_reader_of_changes() -> None:
    table = history()
    expected = changes("changelog")(table)
    table.history.set_consumer("me", 2)
    slow, fs = interrupted(
        table, when=lambda call: call.name == "open_input", meanwhile=lambda: expire_all(table)
    )
    assert changes("changelog")(slow) == expected
    assert fs.has_happened
    assert table.history.snapshots()[0].id == 2


def test_retention_protects_a_reader_that_is_no_slower_than_it() -> None:
    table = history()
    env = table.table_files.env
    slow, fs = interrupted(
        table,
        when=lambda call: call.name == "open_input",
        meanwhile=lambda: table.upkeep.run(
            table.upkeep.plan_expire_snapshots(retain_min=1, time_retained_ms=3_600_000, grace_ms=0)
        ),
    )
    env.sleep_ms(1_800_000)
    assert read(slow) == read(table)
    assert fs.has_happened


def test_a_file_that_is_missing_though_its_snapshot_is_there_is_no_expiry() -> None:
    table = history()
    for entry in table.at().files():
        table.table_files.fs.delete(table.table_files.data_file_path(entry.place, entry.file))
    with pytest.raises(FileMissing):
        table.read()


def test_the_error_says_which_snapshots_there_are() -> None:
    table = history()

    def meanwhile() -> None:
        compact(table, full=True)
        table.write(rows(table, events(7, 8)))
        expire(table, keep=2)

    slow, _ = interrupted(table, when=lambda call: call.name == "open_input", meanwhile=meanwhile)
    with pytest.raises(SnapshotNotFound, match=SAID) as told:
        read(slow)
    assert "(from 4 to 5)" in told.value.message
    assert told.value.details["snapshot_id"] == 3


# --- holes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["delta", "changelog"])
def test_changes_across_missing_snapshots_are_refused(
    unchecked_catalog: Catalog, env: FixedEnv, mode: str
) -> None:
    options = {"bucket": "1", "changelog-producer": "input"}
    table = new_table(unchecked_catalog, keys=["id"], options=options)
    times = [env.now_ms()]
    for number in range(8):
        table.write(rows(table, events(number, number + 1)))
        times.append(table.history.snapshots()[-1].time_millis)
    Path(table.table_files.paths.snapshot(5)).unlink()
    with pytest.raises(HistoryGap, match="the changes of snapshot 5 are missing"):
        table.read_changes(3, 6, mode=mode)
    Path(table.table_files.paths.snapshot(4)).unlink()
    with pytest.raises(HistoryGap) as told:
        table.read_changes(1, 7, mode=mode)
    assert "from snapshot 1 to 7" in told.value.message
    assert "snapshots 4 to 5 are missing" in told.value.message
    assert "up to 3 and from 6 on" in told.value.message
    with pytest.raises(HistoryGap, match="snapshots 4 to 5 are missing"):
        table.read_changes(_time(times[1]), _time(times[7]), mode=mode)
    # On either side of the hole, and across it by comparing the states, changes are read.
    assert table.read_changes(1, 3, mode=mode).num_rows == 2
    assert table.read_changes(6, 8, mode=mode).num_rows == 2
    assert table.read_changes(_time(times[6]), _time(times[8]), mode=mode).num_rows == 2
    assert table.read_changes(1, 8, mode="diff").num_rows == 7


def _time(time_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC)
