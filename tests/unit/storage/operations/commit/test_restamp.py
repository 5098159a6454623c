"""Writers that began on one base: the later committer counts as later."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import FilesGone, RetriesExhausted, StorageError
from lakewright.storage.spec.commit import StagedWrite
from tests.support.stores.watched_files import Call, Fault, interrupted, watched
from tests.support.tables.builders import compact, content, events, new_table, rows, values_of
from tests.support.tables.invariants import assert_only_reachable_files, assert_sound

SETTINGS: dict[str, dict[str, Any]] = {
    "parquet": {},
    "orc": {"file.format": "orc"},
    "avro": {"file.format": "avro"},
    "thin": {"data-file.thin-mode": "true"},
    "input": {"changelog-producer": "input"},
    "partial-update": {"merge-engine": "partial-update"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
}


def keyed(catalog: Catalog, **more: str) -> Table:
    return new_table(
        catalog, partitions=["day"], keys=["day", "id"], options={"bucket": "2", **more}
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("setting", list(SETTINGS))
def test_writes_staged_on_one_base_end_as_they_were_committed(
    catalog: Catalog, setting: str
) -> None:
    table = keyed(catalog, **SETTINGS[setting])
    table.write(rows(table, events(0, 8, v="base")))
    staged = [table.stage(rows(table, events(n, n + 4, v=f"w{n}-"))) for n in range(4)]
    for number in (2, 0, 3, 1):
        table.commit(staged[number])

    compact(table, full=True)
    expected = dict.fromkeys(range(8), "base")
    for number in (2, 0, 3, 1):
        expected |= dict.fromkeys(range(number, number + 4), f"w{number}-")
    found = {row["id"]: row["v"] for row in table.read().to_pylist()}
    assert found == {n: f"{v}{n}" for n, v in expected.items()}
    assert_sound(table)
    assert_only_reachable_files(table)


def test_who_commits_after_a_rollback_counts_as_later_than_who_took_the_bases_id(
    catalog: Catalog,
) -> None:
    table = keyed(catalog)
    for version in "abcde":
        table.write(rows(table, events(0, 2, v=version)))
    staged = table.stage(rows(table, events(25, 26, v="later")))
    table.history.run(table.history.plan_rollback(snapshot=4, grace_ms=0))
    other = table.write(rows(table, events(0, 30, v="other"))).snapshot
    assert other is not None
    assert other.id == staged.base_snapshot_id
    table.commit(staged)
    found = {row["id"]: row["v"] for row in table.read().to_pylist()}
    assert (found[25], found[24]) == ("later25", "other24")
    assert_sound(table)


def test_only_the_buckets_that_others_wrote_to_are_numbered_again(catalog: Catalog) -> None:
    table = keyed(catalog)
    both = table.stage(rows(table, [*events(0, 2, day="a"), *events(0, 2, day="b")]))
    other = table.stage(rows(table, events(0, 2, day="b", v="other")))
    table.commit(other)
    table.commit(both)
    names = {entry.file.file_name for entry in table.at().files()}
    renumbered = {name for name in names if "renumbered" in name}
    staged = {file.file_name for message in both.messages for file in message.new_files}
    assert renumbered
    assert names & staged
    assert len(names) == len(staged) + sum(len(each.new_files) for each in other.messages)
    assert_only_reachable_files(table)


def test_a_write_that_was_renumbered_is_recognised_when_it_is_committed_again(
    catalog: Catalog,
) -> None:
    table = keyed(catalog)
    first = table.stage(rows(table, events(0, 3, v="first")))
    second = table.stage(rows(table, events(0, 3, v="second")))
    table.commit(first)
    assert not table.commit(second).already_committed
    again = table.commit(second)
    assert again.already_committed
    assert len(table.history.snapshots()) == 2
    assert table.abort(second) == 0
    assert values_of(table, "v") == ["second0", "second1", "second2"]


def test_what_was_aborted_is_not_renumbered(catalog: Catalog) -> None:
    table = keyed(catalog)
    first = table.stage(rows(table, events(0, 3)))
    second = table.stage(rows(table, events(0, 3)))
    table.commit(first)
    table.abort(second)
    with pytest.raises(FilesGone):
        table.commit(second)
    assert len(content(table)) == 3
    assert_only_reachable_files(table)


def test_writes_that_came_one_after_the_other_are_left_as_they_are(catalog: Catalog) -> None:
    table = keyed(catalog)
    for number in range(3):
        table.write(rows(table, events(0, 3, v=str(number))))
    assert not [e for e in table.at().files() if "renumbered" in e.file.file_name]


def days(table: Table, version: str, *names: str, last: int = 4) -> Any:
    return rows(table, [row for day in names for row in events(0, last, day=day, v=version)])


def overtaken_once(table: Table, last: int = 4) -> StagedWrite:
    """A write of two days, one of which somebody else has written to since."""
    table.write(days(table, "base", "a", "b"))
    staged = table.stage(days(table, "late", "a", "b", last=last))
    table.write(days(table, "other", "b"))
    return staged


def beside_another(table: Table) -> Table:
    """The table as one sees it whom somebody else overtakes at the snapshot after two others."""

    def is_third(call: Call) -> bool:
        return call.name == "put_if_absent" and call.path.endswith("/snapshot-3")

    return interrupted(
        table, when=is_third, meanwhile=lambda: table.write(days(table, "faster", "b"))
    )[0]


def renumbered(table: Table) -> list[str]:
    listed = table.table_files.fs.list_tree(table.table_files.paths.root)
    return [each.name for each in listed if "renumbered" in each.name]


def test_a_write_that_is_overtaken_twice_leaves_its_last_version(catalog: Catalog) -> None:
    table = keyed(catalog)
    staged = overtaken_once(table)
    snapshot = beside_another(table).commit(staged).snapshot
    assert snapshot is not None
    assert snapshot.id == 4
    assert {*values_of(table, "v")} == {f"late{n}" for n in range(4)}
    live = [each for each in table.at().files() if "renumbered" in each.file.file_name]
    assert {*renumbered(table)} == {each.file.file_name for each in live}
    # No other writer wrote to the other day.
    assert len({(each.partition, each.bucket) for each in live}) == len(live) == 2
    assert_only_reachable_files(table)


def test_a_write_of_new_keys_that_is_overtaken_twice_keeps_its_index(catalog: Catalog) -> None:
    table = keyed(catalog, bucket="-1")
    staged = overtaken_once(table, last=6)
    beside_another(table).commit(staged)
    table.write(rows(table, events(4, 8, day="b", v="next")))
    found = {row["id"]: row["v"] for row in table.read("day = 'b'").to_pylist()}
    assert found == {n: f"{'late' if n < 4 else 'next'}{n}" for n in range(8)}
    assert_sound(table)
    assert_only_reachable_files(table)


def test_numbers_go_on_right_after_those_that_are_there(catalog: Catalog) -> None:
    table = keyed(catalog, bucket="1")
    table.commit(overtaken_once(table))
    found = sorted(
        (each.file.min_sequence_number, each.file.max_sequence_number)
        for each in table.at().files()
    )
    assert found == [(0, 3), (0, 3), (4, 7), (4, 7), (8, 11)]


@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_a_write_that_lost_after_it_was_renumbered_is_as_it_was_staged(
    catalog: Catalog, bucket: str
) -> None:
    table = keyed(catalog, **{"commit.max-retries": "0", "bucket": bucket})
    staged = overtaken_once(table, last=6)
    with pytest.raises(RetriesExhausted):
        beside_another(table).commit(staged)
    assert not renumbered(table)
    table.commit(staged)
    assert {*values_of(table, "v")} == {f"late{n}" for n in range(6)}
    assert_only_reachable_files(table)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_renumbering_that_fails_leaves_nothing(catalog: Catalog, number: int) -> None:
    table = keyed(catalog)
    staged = overtaken_once(table)
    broken, fs = watched(
        table,
        fail_at=number,
        fault=Fault.FAILS_AFTER,
        counts=lambda call: call.changes and "renumbered" in call.path,
    )
    with pytest.raises(StorageError):
        broken.commit(staged)
    assert fs.counted >= number
    assert not renumbered(table)
    table.commit(staged)
    assert_only_reachable_files(table)
