"""What verbs condemn comes back whole until its grace is over, and is deleted then."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.storage import Catalog, CondemnedRun, Table
from lakewright.storage.errors import CorruptionError, NotFoundError, NotRevertible, StalePlan
from lakewright.storage.files import condemned_store
from lakewright.storage.operations.running.processes import this_process
from tests.support.stores.watched_files import (
    Crashed,
    Fault,
    overtaken,
    puts_snapshot,
    watched,
)
from tests.support.tables.builders import content, events, expire, replacing, rows, values_of
from tests.support.tables.invariants import RawTable, assert_sound, unreachable_files

HOUR = 3_600_000
LEFT = {"retain_min": 2, "retain_max": 2, "time_retained_ms": 0}


def ids(table: Table) -> list[int]:
    return [each.id for each in table.history.snapshots()]


def age(table: Table, hours: float) -> None:
    """Let the records be older, by the store's clock."""
    for each in Path(table.table_files.paths.condemned_dir).iterdir():
        moment = each.stat().st_mtime - hours * 3600
        os.utime(each, (moment, moment))


def expire_for_an_hour(table: Table) -> None:
    table.upkeep.expire_snapshots(**LEFT, grace_ms=HOUR)


def delete_tag(table: Table) -> None:
    table.history.delete_tags("first", grace_ms=HOUR)


def delete_branch(table: Table) -> None:
    table.history.delete_branch("b", grace_ms=HOUR)


def roll_back(table: Table) -> None:
    table.history.rollback(snapshot=3, grace_ms=HOUR)


def remove_orphans(table: Table) -> None:
    table.upkeep.remove_orphans(older_than_ms=0, even_recent=True, grace_ms=HOUR)


def expire_changelogs(table: Table) -> None:
    table.upkeep.expire_changelogs(every=True, grace_ms=HOUR)


VERBS: dict[str, Callable[[Table], None]] = {
    "expire": expire_for_an_hour,
    "delete a tag": delete_tag,
    "delete a branch": delete_branch,
    "roll back": roll_back,
    "remove orphans": remove_orphans,
    "expire changelogs": expire_changelogs,
}


def with_history(catalog: Catalog, verb: str) -> Table:
    """Six snapshots, a tag of one that expired, a branch of its own columns, and an orphan."""
    changelogs = verb == "expire changelogs"
    options = {"changelog_producer": "input", "changelog__num_retained__min": "9"}
    options |= {"changelog__num_retained__max": "19", "snapshot__num_retained__max": "6"}
    options |= {"snapshot__num_retained__min": "1"}
    table = replacing(catalog, **(options if changelogs else {}))
    table.history.create_tag("first", snapshot=1)
    expire(table, keep=4 if changelogs else 5)
    branch = table.history.create_branch("b", snapshot=5)
    branch.write(rows(branch, events(7, 9, v="branch")))
    if verb == "remove orphans":
        table.stage(rows(table, events(50, 52)))
    return table


@pytest.mark.mission("FS19")
@pytest.mark.parametrize("verb", VERBS)
def test_what_a_verb_deletes_comes_back_as_it_was(catalog: Catalog, verb: str) -> None:
    table = with_history(catalog, verb)
    before = set(RawTable(table).paths)
    history = {each: content(table.at(snapshot=each)) for each in ids(table)}
    VERBS[verb](table)
    (run,) = table.upkeep.condemned()
    assert (run.files > 0, run.done, run.due_ms - run.condemned_ms) == (True, True, HOUR)
    assert not table.upkeep.plan_collect().records
    table.upkeep.put_back(run.id)
    assert table.upkeep.condemned() == ()
    hints = {"snapshot/LATEST", "snapshot/EARLIEST", "changelog/LATEST", "changelog/EARLIEST"}
    gone = {each for each in before if each.endswith("columns/column-x")}
    assert set(RawTable(table).paths) - hints == before - hints - gone
    assert {each: content(table.at(snapshot=each)) for each in ids(table)} == history
    assert len(table.history.branches()) == 1
    # The verb can be carried out again, and then for good.
    VERBS[verb](table)
    age(table, 2)
    assert table.upkeep.collect().files_deleted == run.files
    with pytest.raises(NotFoundError, match="there are none"):
        table.upkeep.put_back(run.id)
    assert not [each for each in RawTable(table).paths if "/condemned/" in each]
    assert_sound(table)


def test_nothing_comes_back_in_part(catalog: Catalog) -> None:
    table = with_history(catalog, "expire")
    expire_for_an_hour(table)
    (run,) = table.upkeep.condemned()
    files = table.table_files
    gone = next(each.path for each in files.condemned.all_names())
    data = files.fs.read_bytes(files.paths.below(gone))
    files.fs.delete(files.paths.below(gone))
    left = ids(table)
    with pytest.raises(NotRevertible, match=f"1 of the {run.files} files .* {gone} first"):
        table.upkeep.put_back(run.id)
    assert ids(table) == left
    files.fs.write_bytes(files.paths.below(gone), data)


@pytest.mark.parametrize("way", ["commit", "later expiry"])
def test_what_the_table_has_gone_on_from_does_not_come_back(catalog: Catalog, way: str) -> None:
    table = with_history(catalog, "expire")
    if way == "commit":
        roll_back(table)
        table.write(rows(table, events(20, 22)))
        why = "snapshot 3 must be the latest, and snapshot 4 is"
    else:
        table.upkeep.expire_snapshots(retain_min=3, retain_max=3, grace_ms=HOUR)
        expire_for_an_hour(table)
        why = "must be the earliest"
    first = table.upkeep.condemned()[0]
    with pytest.raises(NotRevertible, match=why):
        table.upkeep.put_back(first.id)
    if way != "commit":
        for each in reversed(table.upkeep.condemned()):
            table.upkeep.put_back(each.id)
        assert len(ids(table)) == 5


def test_what_another_record_may_put_back_is_collected_after_it(catalog: Catalog) -> None:
    """An expiry at once beside a rollback that can be undone."""
    table = with_history(catalog, "expire")
    before = {each: content(table.at(snapshot=each)) for each in ids(table)}
    roll_back(table)
    table.history.delete_tags("first", grace_ms=0)
    table.history.delete_branch("b", grace_ms=0)
    (run,) = (each for each in table.upkeep.condemned() if each.verb == "rollback")
    table.upkeep.put_back(run.id)
    assert {each: content(table.at(snapshot=each)) for each in ids(table)} == before
    roll_back(table)
    expire(table, keep=1)
    age(table, 2)
    while table.upkeep.condemned():
        table.upkeep.collect()
    assert unreachable_files(table) == []
    assert_sound(table)


def test_a_record_that_is_collected_does_not_come_back(catalog: Catalog) -> None:
    table = with_history(catalog, "expire")
    expire_for_an_hour(table)
    (run,) = table.upkeep.condemned()
    assert table.table_files.condemned.claim(run.id, b"collect")
    with pytest.raises(StalePlan, match="is being deleted"):
        table.upkeep.put_back(run.id)
    age(table, 2)
    assert table.upkeep.collect().files_deleted == run.files


def test_a_put_back_that_died_keeps_the_collector_away_for_an_hour(catalog: Catalog) -> None:
    table = with_history(catalog, "expire")
    expire_for_an_hour(table)
    (run,) = table.upkeep.condemned()
    age(table, 2)
    assert table.table_files.condemned.claim(run.id, f"undo {this_process()}0".encode())
    assert table.upkeep.collect().files_deleted == 0
    assert [each.id for each in table.upkeep.condemned()] == [run.id]
    table.upkeep.put_back(run.id)
    assert len(ids(table)) == 5


def test_a_verb_whose_process_lives_is_at_work_however_long_it_runs(catalog: Catalog) -> None:
    table = with_history(catalog, "expire")
    expire_for_an_hour(table)
    (run,) = table.upkeep.condemned()
    record = table.table_files.condemned.read(run.id)
    assert record is not None
    code = (
        f"from {this_process.__module__} import this_process as p; print(p(), flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        process = other.stdout.readline().strip()
        table.table_files.condemned.replace(run.id, replace(record, done=False, process=process))
        age(table, 2)
        with pytest.raises(NotRevertible, match="it is in progress"):
            table.upkeep.put_back(run.id)
        other.communicate("\n")
    table.upkeep.put_back(run.id)
    assert len(ids(table)) == 5


def test_a_deletion_reads_each_record_of_others_once(catalog: Catalog) -> None:
    table = with_history(catalog, "delete a tag")
    delete_tag(table)
    delete_branch(table)
    watching, fs = watched(table)
    expire_for_an_hour(watching)
    read = Counter(each.path for each in fs.calls if each.name == "read_bytes")
    heads = {path: n for path, n in read.items() if "/condemned/" in path and path.endswith("json")}
    earlier = [each for each in table.upkeep.condemned() if each.verb != "expire_snapshots"]
    assert [heads[table.table_files.paths.condemned(f"{each.id}.json")] for each in earlier] == [
        1,
        1,
    ]


def test_a_damaged_record_stops_the_collector_and_says_how_to_go_on(
    unchecked_catalog: Catalog,
) -> None:
    table = with_history(unchecked_catalog, "expire")
    expire_for_an_hour(table)
    (run,) = table.upkeep.condemned()
    path = Path(table.table_files.paths.condemned(f"{run.id}.json"))
    path.write_bytes(path.read_bytes()[:-5])
    before = set(RawTable(table).paths)
    with pytest.raises(CorruptionError, match="delete that file, and remove orphans"):
        table.upkeep.collect(early=True)
    assert set(RawTable(table).paths) == before
    path.unlink()
    remove_orphans(table)
    assert table.upkeep.collect(early=True).files_deleted >= run.files
    assert values_of(table, "id") == [0, 1, 2]


def expired_and_rolled_back_to_a_tag(catalog: Catalog) -> tuple[Table, CondemnedRun]:
    """A tag outlived the expiry, and the table was rolled back to it."""
    table = with_history(catalog, "expire")
    table.history.create_tag("t", snapshot=3)
    table.upkeep.expire_snapshots(
        retain_min=1, retain_max=1, time_retained_ms=0, grace_ms=100 * HOUR
    )
    (run,) = table.upkeep.condemned()
    table.history.rollback(tag="t", grace_ms=0)
    return table, run


def test_an_expiry_does_not_come_back_below_another_history(catalog: Catalog) -> None:
    table, run = expired_and_rolled_back_to_a_tag(catalog)
    for at in range(4):
        table.write(rows(table, events(20 + at, 22 + at)))
    before = {each: content(table.at(snapshot=each)) for each in ids(table)}
    with pytest.raises(NotRevertible, match="snapshot 4 is of another history"):
        table.upkeep.put_back(run.id)
    assert {each: content(table.at(snapshot=each)) for each in ids(table)} == before
    expire(table, keep=1)
    with pytest.raises(NotRevertible, match="must be the earliest"):
        table.upkeep.put_back(run.id)


def test_an_expiry_does_not_come_back_before_a_snapshot_of_another_history(
    catalog: Catalog,
) -> None:
    table, run = expired_and_rolled_back_to_a_tag(catalog)
    for at in range(3):
        table.write(rows(table, events(20 + at, 22 + at)))
    expire(table, keep=1)
    assert ids(table) == [6]
    with pytest.raises(NotRevertible, match="snapshot 6 is of another history"):
        table.upkeep.put_back(run.id)


def two_tags(catalog: Catalog) -> Table:
    """Two tags of neighbours, which share files that nothing else keeps."""
    table = replacing(catalog)
    table.history.create_tag("first", snapshot=2)
    table.history.create_tag("second", snapshot=3)
    for at in range(3):
        table.write(rows(table, events(20 + at, 22 + at)))
    table.upkeep.compact(full=True)
    expire(table, keep=1)
    return table


def test_a_tag_whose_files_another_client_deleted_does_not_come_back(
    unchecked_catalog: Catalog,
) -> None:
    """The other client deleted what its last tag kept; it knows of no records."""
    table = two_tags(unchecked_catalog)
    delete_tag(table)
    files = table.table_files
    condemned = {each.path for each in files.condemned.all_names()}
    (run,) = table.upkeep.condemned()
    table.history.delete_tags("second", grace_ms=HOUR)
    record = table.upkeep.condemned()[-1]
    names = {each.path for each in files.condemned.all_names()} - condemned
    assert names
    for each in names:
        files.fs.delete(files.paths.below(each))
    for listed in files.condemned.listed()[record.id].paths:
        files.fs.delete(listed)
    with pytest.raises(NotRevertible, match="cannot come back"):
        table.upkeep.put_back(run.id)
    assert table.history.tags() == ()


def test_what_was_collected_in_part_does_not_come_back(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists of which all files are gone are gone, too."""
    monkeypatch.setattr(condemned_store, "_NAMES_A_LIST", 1)
    table = two_tags(catalog)
    delete_tag(table)
    table.history.delete_tags("second", grace_ms=0)
    first, second = table.upkeep.condemned()
    with pytest.raises(NotRevertible):
        table.upkeep.put_back(second.id)
    table.upkeep.put_back(first.id)
    assert [each.name for each in table.history.tags()] == ["first"]


def test_steps_of_one_second_come_back_one_after_the_other(tmp_path: Path) -> None:
    table = with_history(Catalog.open(str(tmp_path)), "expire")
    before = ids(table)
    for keep in (4, 3, 2, 1):
        table.upkeep.expire_snapshots(
            retain_min=keep, retain_max=keep, time_retained_ms=0, grace_ms=HOUR
        )
    for each in reversed(table.upkeep.condemned()):
        table.upkeep.put_back(each.id)
    assert ids(table) == before


def test_what_a_dead_process_left_of_a_record_goes_with_the_orphans(catalog: Catalog) -> None:
    table = with_history(catalog, "expire")
    expire_for_an_hour(table)
    (run,) = table.upkeep.condemned()
    files = table.table_files
    table.upkeep.put_back(run.id)
    # It died just before the last deletion.
    assert files.condemned.claim(run.id, b"undo")
    table.upkeep.remove_orphans(older_than_ms=0, even_recent=True, grace_ms=0)
    assert files.condemned.listed() == {}


def test_a_rollback_to_a_tag_that_comes_back_leaves_no_gap_of_ids(catalog: Catalog) -> None:
    """Only the tag held the target, so its snapshot goes again."""
    table = replacing(catalog)
    table.history.create_tag("t", snapshot=2)
    expire(table, keep=2)
    before = {each: content(table.at(snapshot=each)) for each in ids(table)}
    table.history.rollback(tag="t", grace_ms=HOUR)
    assert ids(table) == [2]
    (run,) = table.upkeep.condemned()
    table.upkeep.put_back(run.id)
    assert {each: content(table.at(snapshot=each)) for each in ids(table)} == before
    assert_sound(table)


@pytest.mark.parametrize("died_after", range(1, 4))
def test_a_rollback_comes_back_whole_after_a_put_back_that_died_and_a_commit(
    catalog: Catalog, died_after: int
) -> None:
    table = replacing(catalog)
    table.history.rollback(snapshot=2, grace_ms=HOUR)
    (run,) = table.upkeep.condemned()
    dies, _ = watched(table, fail_at=died_after, fault=Fault.DIES_AFTER, counts=puts_snapshot)
    with pytest.raises(Crashed):
        dies.upkeep.put_back(run.id)
    table.write(rows(table, events(20, 22)))
    after = content(table)
    table.upkeep.put_back(run.id)
    assert content(table) == after
    assert ids(table) == [1, 2, 3, 4, 5, 6, 7]
    assert_sound(table)


def test_an_expiry_that_comes_back_takes_its_long_lived_changelogs_away(catalog: Catalog) -> None:
    """Other clients expire a changelog without asking for a snapshot of its id."""
    table = with_history(catalog, "expire changelogs")
    before = [each.id for each in table.history.changelogs()]
    assert before
    expire_for_an_hour(table)
    (run,) = table.upkeep.condemned()
    table.upkeep.put_back(run.id)
    assert [each.id for each in table.history.changelogs()] == before
    assert_sound(table)


def rolled_back(catalog: Catalog) -> tuple[Table, str]:
    """Snapshots 3 to 6 were rolled back; the record that holds them."""
    table = replacing(catalog)
    table.history.rollback(snapshot=2, grace_ms=HOUR)
    (run,) = table.upkeep.condemned()
    return table, run.id


def test_no_commit_takes_the_id_after_the_target_once_snapshots_come_back(
    catalog: Catalog,
) -> None:
    """A commit that began before would end the put-back, and those that followed the latest."""
    table, record = rolled_back(catalog)
    put = []
    beside = overtaken(
        table,
        lambda call: puts_snapshot(call) and bool(put.append(call.path) or len(put) == 2),
        lambda: table.write(rows(table, events(20, 22))),
    )
    beside.upkeep.put_back(record)
    assert put[:2] == [table.table_files.paths.snapshot(each) for each in (6, 3)]
    assert ids(table) == [1, 2, 3, 4, 5, 6, 7]
    assert 21 in values_of(table, "id")
    assert_sound(table)


def test_a_tag_does_not_come_back_beside_another_history(catalog: Catalog) -> None:
    """Other clients would take its files for those of the tags before it, and delete theirs."""
    table = replacing(catalog)
    table.history.create_tag("late", snapshot=5)
    table.history.delete_tags("late", grace_ms=HOUR)
    (run,) = table.upkeep.condemned()
    table.history.rollback(snapshot=2, grace_ms=0)
    for _ in range(2):
        with pytest.raises(NotRevertible, match="was rolled back before tag late"):
            table.upkeep.put_back(run.id)
        for at in range(4):
            table.write(rows(table, events(20 + at, 22 + at)))
    assert table.history.tags() == ()


def test_a_tag_does_not_come_back_without_its_branch(catalog: Catalog) -> None:
    table = with_history(catalog, "expire")
    branch = table.history.at_branch("b")
    branch.history.create_tag("t")
    branch.history.delete_tags("t", grace_ms=HOUR)
    (run,) = table.upkeep.condemned()
    table.history.delete_branch("b", grace_ms=0)
    with pytest.raises(NotRevertible, match="branch b was deleted since"):
        table.upkeep.put_back(run.id)
    assert not [each for each in RawTable(table).paths if each.startswith("branch/")]


@pytest.mark.parametrize("way", ["its snapshots are back", "another history"])
def test_changelogs_do_not_come_back_where_their_ids_are_taken(catalog: Catalog, way: str) -> None:
    table = with_history(catalog, "expire changelogs")
    table.upkeep.expire_snapshots(**LEFT, grace_ms=HOUR)
    (expiry,) = table.upkeep.condemned()
    expire_changelogs(table)
    (run,) = (each for each in table.upkeep.condemned() if each.verb == "expire_changelogs")
    if way == "another history":
        table.history.rollback(tag="first", grace_ms=0)
        for at in range(6):
            table.write(rows(table, events(20 + at, 22 + at)))
        expire(table, keep=1)
    else:
        table.upkeep.put_back(expiry.id)
    before = set(RawTable(table).paths)
    with pytest.raises(NotRevertible, match="snapshots or changelogs have their ids since"):
        table.upkeep.put_back(run.id)
    assert set(RawTable(table).paths) == before


def test_what_a_rollback_deleted_of_a_dead_committer_does_not_come_back(catalog: Catalog) -> None:
    """Its snapshot lay on top of those that the rollback had deleted."""
    table = replacing(catalog)
    files = table.table_files
    latest = files.snapshots.read_file(6)
    beside = overtaken(
        table,
        lambda call: call.name == "replace" and call.path.endswith("/snapshot/LATEST"),
        lambda: files.snapshots.put_back(6, latest),
    )
    beside.history.rollback(snapshot=2, grace_ms=HOUR)
    assert ids(table) == [1, 2]
    whole, stray = sorted(table.upkeep.condemned(), key=lambda each: -each.files)
    with pytest.raises(NotRevertible, match="it deleted no snapshot of"):
        table.upkeep.put_back(stray.id)
    table.upkeep.put_back(whole.id)
    assert ids(table) == [1, 2, 3, 4, 5, 6]
    assert_sound(table)
