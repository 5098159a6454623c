"""The commit door: once and only once, checked against what is there, leaving nothing behind."""

from __future__ import annotations

import json
import multiprocessing as mp
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    BucketCountChanged,
    CommitOutcomeUnknownError,
    CorruptionError,
    FilesGone,
    KeyRangesOverlap,
    RetriesExhausted,
    SchemaMoved,
    UnavailableError,
)
from lakewright.storage.operations.commit.commit import commit_compaction
from lakewright.storage.spec.commit import CommitMessage, StagedWrite
from lakewright.storage.spec.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from tests.support.processes.racing import append_many, share
from tests.support.stores import watched_files
from tests.support.stores.watched_files import (
    Call,
    Fault,
    WatchedFiles,
    over,
    overtaken,
    puts_snapshot,
    watched,
)
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    rows,
    values_of,
    with_options,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import (
    assert_only_reachable_files,
    assert_sound,
    unreachable_files,
)


def interrupted(table: Table, meanwhile: Callable[[], object], times: int = 1) -> Table:
    """Another actor goes first just before each of the first snapshots is put."""
    return watched_files.interrupted(table, when=puts_snapshot, meanwhile=meanwhile, times=times)[0]


# --- once -------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [[], ["id"]], ids=["append", "keyed"])
@pytest.mark.mission("FS9", "PT13")
def test_a_commit_repeated_by_user_and_identifier_happens_once(
    catalog: Catalog, keys: list[str]
) -> None:
    table = new_table(catalog, keys=keys)
    new = rows(table, events(0, 3))
    first = table.write(new, commit_user="job", commit_identifier=1)
    again = table.write(new, commit_user="job", commit_identifier=1)
    assert not first.already_committed
    assert again.already_committed
    assert again.snapshot == first.snapshot
    assert len(table.history.snapshots()) == 1
    assert values_of(table, "id") == [0, 1, 2]
    table.write(new, commit_user="job", commit_identifier=2)
    table.write(new, commit_user="another", commit_identifier=1)
    assert len(table.history.snapshots()) == 3


def test_a_commit_is_found_by_user_and_identifier(catalog: Catalog) -> None:
    table = new_table(catalog)
    for user, identifier in (("a", 1), ("b", 1), ("a", 5)):
        table.write(rows(table, events(0, 1)), commit_user=user, commit_identifier=identifier)
    found = [table.find_committed(user, number) for user, number in (("a", 1), ("b", 1), ("a", 5))]
    assert [None if each is None else each.id for each in found] == [1, 2, 3]
    assert table.find_committed("a", 3) is None
    assert table.find_committed("c", 1) is None


def test_the_same_staged_write_is_published_once_and_its_files_stay(catalog: Catalog) -> None:
    table = new_table(catalog)
    staged = table.stage(rows(table, events(0, 3)))
    assert table.read().num_rows == 0
    first = table.commit(staged)
    second = table.commit(staged)
    assert second.already_committed
    assert second.snapshot == first.snapshot
    # A published commit is not aborted by any caller.
    assert table.abort(staged) == 0
    assert values_of(table, "id") == [0, 1, 2]


def written_and_staged(catalog: Catalog) -> tuple[Table, StagedWrite]:
    """Five commits, and a write that begins at the last one."""
    table = new_table(catalog)
    for number in range(5):
        table.write(rows(table, events(number, number + 1)))
    return table, table.stage(rows(table, events(100, 101)))


@pytest.mark.parametrize("others", [0, 1, 3])
def test_a_commit_repeated_after_a_rollback_beyond_its_base_happens_once(
    catalog: Catalog, others: int
) -> None:
    table, staged = written_and_staged(catalog)
    table.history.run(table.history.plan_rollback(snapshot=3, grace_ms=0))
    first = table.commit(staged)
    assert first.snapshot is not None
    assert first.snapshot.id == 4
    # Ids come again: that of the base, too.
    for number in range(others):
        table.write(rows(table, events(10 + number, 11 + number)))
    again = table.commit(staged)
    assert again.already_committed
    assert again.snapshot == first.snapshot
    assert values_of(table, "id") == [0, 1, 2, *range(10, 10 + others), 100]
    assert_sound(table)


def test_a_commit_is_found_below_the_hole_that_half_a_rollback_left(
    unchecked_catalog: Catalog,
) -> None:
    table, staged = written_and_staged(unchecked_catalog)
    first = table.commit(staged)
    for number in range(3):
        table.write(rows(table, events(10 + number, 11 + number)))
    before = content(table)
    for missing in (7, 8):
        Path(table.table_files.paths.snapshot(missing)).unlink()
    again = table.commit(staged)
    assert again.already_committed
    assert again.snapshot == first.snapshot
    assert content(table) == before


def test_two_writes_of_one_batch_user_are_two_writes(catalog: Catalog) -> None:
    table = new_table(catalog)
    for first in (0, 5):
        table.write(rows(table, events(first, first + 1)), commit_user="job")
    assert values_of(table, "id") == [0, 5]
    assert {each.commit_identifier for each in table.history.snapshots()} == {
        BATCH_COMMIT_IDENTIFIER
    }


def test_two_writes_staged_at_once_by_one_batch_user_are_two_writes(catalog: Catalog) -> None:
    table = new_table(catalog)
    staged = [table.stage(rows(table, events(n, n + 1)), commit_user="job") for n in (0, 5)]
    results = [table.commit(each) for each in staged]
    assert [each.already_committed for each in results] == [False, False]
    assert values_of(table, "id") == [0, 5]


def test_of_two_upserts_staged_at_once_the_one_committed_later_counts(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    first = table.stage(rows(table, events(0, 3, v="first")))
    second = table.stage(rows(table, events(2, 3, v="second")))
    table.commit(first)
    table.commit(second)
    assert values_of(table, "v") == ["first0", "first1", "second2"]


def test_what_was_published_is_not_aborted_even_when_that_snapshot_has_expired(
    catalog: Catalog,
) -> None:
    table = new_table(catalog)
    staged = table.stage(rows(table, events(0, 3)))
    table.commit(staged)
    for start in (3, 6):
        table.write(rows(table, events(start, start + 3)))
    expire(table)
    assert [each.id for each in table.history.snapshots()] == [3]

    assert table.abort(staged) == 0
    assert table.read().num_rows == 9


def test_a_staged_write_that_is_aborted_leaves_nothing(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, events(0, 1)))
    staged = table.stage(rows(table, [*events(0, 3), *events(0, 3, day="b")]))
    assert (staged.row_count, staged.file_count) == (6, 2)
    assert table.abort(staged) == 2
    assert table.abort(staged) == 0
    assert_only_reachable_files(table)


def test_writing_nothing_commits_nothing(catalog: Catalog) -> None:
    table = new_table(catalog)
    result = table.write(rows(table, []))
    assert (result.snapshot, result.attempts) == (None, 0)
    assert table.history.latest_snapshot() is None


# --- races ------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [[], ["id"]], ids=["append", "keyed"])
@pytest.mark.mission("FS10")
def test_a_lost_race_is_tried_again_on_top_of_the_winner(
    catalog: Catalog, env: FixedEnv, keys: list[str]
) -> None:
    table = new_table(catalog, keys=keys)
    table.write(rows(table, events(0, 2)))

    def another_commits() -> None:
        table.write(rows(table, events(10, 12)))

    result = interrupted(table, another_commits, times=2).write(rows(table, events(20, 22)))
    assert result.attempts == 3
    assert result.snapshot is not None
    assert result.snapshot.id == 4
    assert values_of(table, "id") == sorted([0, 1, *([10, 11] * (1 if keys else 2)), 20, 21])
    # It waited longer the second time, and nothing of the lost tries is left.
    assert env.slept_ms == sorted(env.slept_ms)
    assert len(env.slept_ms) == 2
    assert_sound(table)


def test_who_always_loses_gives_up_and_leaves_nothing(catalog: Catalog) -> None:
    table = with_options(new_table(catalog), commit__max_retries="2")

    def another_commits() -> None:
        table.write(rows(table, events(0, 1)))

    with pytest.raises(RetriesExhausted, match="3 times"):
        interrupted(table, another_commits, times=99).write(rows(table, events(9, 10)))
    assert table.read().num_rows == 3
    assert_only_reachable_files(table)


@pytest.mark.deep
def test_a_table_that_does_not_say_how_often_to_try_is_patient(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = new_table(catalog)

    def another_commits() -> None:
        table.write(rows(table, events(0, 1)))

    result = interrupted(table, another_commits, times=30).write(rows(table, events(9, 10)))
    assert result.attempts == 31
    # Later tries wait no longer than the first few did, so that no committer starves.
    assert max(env.slept_ms) <= 10 * min(env.slept_ms)


def test_a_compaction_beside_busy_writers_tries_again_at_once_and_wins_in_the_end(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = new_table(catalog)
    for first in range(0, 12, 2):
        table.write(rows(table, events(first, first + 2)))

    def another_commits() -> None:
        table.write(rows(table, events(0, 1)))

    busy = interrupted(table, another_commits, times=14)
    done = busy.upkeep.run(busy.upkeep.plan_compact(full=True))
    assert done.snapshot is not None
    assert done.files_before == 6
    # Its work would be lost, and writers do not pause for it.
    assert max(env.slept_ms) <= 10
    assert_sound(table)


def test_the_first_commit_of_a_table_may_be_lost_too(catalog: Catalog) -> None:
    table = new_table(catalog)

    def another_commits() -> None:
        table.write(rows(table, events(0, 1)))

    interrupted(table, another_commits).write(rows(table, events(5, 6)))
    assert values_of(table, "id") == [0, 5]


def test_a_race_lost_to_oneself_is_no_second_commit(catalog: Catalog) -> None:
    """Two processes publish the same staged write at the same time."""
    table = new_table(catalog)
    staged = table.stage(rows(table, events(0, 3)))
    result = interrupted(table, lambda: table.commit(staged)).commit(staged)
    assert result.already_committed
    assert len(table.history.snapshots()) == 1
    assert values_of(table, "id") == [0, 1, 2]


@pytest.mark.mission("FS10", "FS21")
@pytest.mark.raced
def test_racing_processes_lose_no_row_and_double_none(catalog: Catalog) -> None:
    table = new_table(catalog, options={"commit.max-retries": "100"})
    writers, commits = 2, 6
    context = mp.get_context("spawn")
    barrier = context.Barrier(writers)
    with ProcessPoolExecutor(
        writers, mp_context=context, initializer=share, initargs=(barrier,)
    ) as pool:
        runs = [
            pool.submit(append_many, catalog.root, table.name, writer, commits)
            for writer in range(writers)
        ]
        for run in runs:
            run.result()
    expected = [1000 * writer + number for writer in range(writers) for number in range(commits)]
    assert values_of(table, "id") == sorted(expected)
    assert len(table.history.snapshots()) == writers * commits


@pytest.mark.parametrize("later", [0, 1, 2], ids="{} later commits".format)
@pytest.mark.parametrize("merged", ["30", "2"], ids=["manifests kept", "manifests merged"])
@pytest.mark.mission("FS10")
def test_a_commit_whose_base_expires_before_it_is_looked_at_stands_once(
    unchecked_catalog: Catalog, later: int, merged: str
) -> None:
    table = new_table(unchecked_catalog, options={"manifest.merge-min-count": merged})
    for number in range(2):
        table.write(rows(table, events(number, number + 1)))

    def others_go_on() -> None:
        for number in range(later):
            table.write(rows(table, events(10 + number, 11 + number)))
        expire(table, keep=1 + later)

    result = overtaken(table, puts_snapshot, others_go_on).write(rows(table, events(5, 6)))
    assert result.snapshot is not None
    assert (result.snapshot.id, result.attempts) == (3, 1)
    assert [each.id for each in table.history.snapshots()] == list(range(3, 4 + later))
    assert values_of(table, "id") == [0, 1, 5, *range(10, 10 + later)]
    # A hint may be behind; no file is.
    assert_only_reachable_files(table)


# --- a store that answers wrongly, or not -----------------------------------------------------


def test_a_lost_answer_is_looked_up(catalog: Catalog) -> None:
    table = new_table(catalog)
    broken, _ = watched(table, fail_at=1, fault=Fault.FAILS_AFTER, counts=puts_snapshot)
    result = broken.write(rows(table, events(0, 3)))
    assert result.snapshot is not None
    assert not result.already_committed
    assert values_of(table, "id") == [0, 1, 2]


def test_a_store_that_finds_its_own_file_has_not_lost_the_race(catalog: Catalog) -> None:
    table = new_table(catalog)
    # A request that was sent twice creates a file, and is told that it was there already.
    denies = lambda call, told: told if call.name != "put_if_absent" else False  # noqa: E731
    denying = over(table, WatchedFiles(table.table_files.fs, tells=denies))
    result = denying.write(rows(table, events(0, 3)))
    assert result.snapshot is not None
    assert result.attempts == 1
    assert values_of(table, "id") == [0, 1, 2]
    assert_sound(table)


def test_a_snapshot_that_another_writer_replaced_is_committed_again(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 1)))
    theirs = table.write(rows(table, events(5, 6))).snapshot
    assert theirs is not None
    path = Path(table.table_files.paths.snapshot(2))
    data = path.read_bytes()
    path.unlink()
    # A writer that renames over files replaces the snapshot, as others do on POSIX.
    replaced = overtaken(
        table, puts_snapshot, lambda: table.table_files.fs.replace(str(path), data)
    )
    replaced.write(rows(table, events(9, 10)))
    assert values_of(table, "id") == [0, 5, 9]
    assert len(table.history.snapshots()) == 3


def test_a_commit_that_a_rollback_overtook_is_made_again_on_what_is_left(catalog: Catalog) -> None:
    table = new_table(catalog)
    for number in range(5):
        table.write(rows(table, events(number, number + 1)))
    staged = table.stage(rows(table, events(100, 101)))

    def roll_back() -> None:
        table.history.run(table.history.plan_rollback(snapshot=2, grace_ms=0))

    result = interrupted(table, roll_back).commit(staged)
    assert result.snapshot is not None
    assert (result.snapshot.id, result.attempts) == (3, 2)
    assert values_of(table, "id") == [0, 1, 100]
    assert [snapshot.id for snapshot in table.history.snapshots()] == [1, 2, 3]
    assert_sound(table)


def test_a_commit_that_an_expiry_overtook_is_made_again(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 1)))
    table.write(rows(table, events(1, 2)))
    staged = table.stage(rows(table, events(2, 3)))

    def write_and_expire() -> None:
        table.write(rows(table, events(3, 4)))
        table.upkeep.run(
            table.upkeep.plan_expire_snapshots(
                retain_min=1, retain_max=1, time_retained_ms=0, grace_ms=0
            )
        )

    interrupted(table, write_and_expire).commit(staged)
    assert values_of(table, "id") == [0, 1, 2, 3]
    assert_sound(table)


@pytest.mark.mission("FS10")
def test_a_slow_commit_does_not_take_an_id_that_has_come_and_expired(catalog: Catalog) -> None:
    """No reader could tell any more whether such a snapshot is one of the history."""
    table = new_table(catalog, keys=["id"])
    table.write(rows(table, events(0, 1)))
    staged = table.stage(rows(table, events(1, 2)))

    def overtake() -> None:
        for number in range(2, 6):
            table.write(rows(table, events(number, number + 1)))
        compact(table, full=True)
        expire(table)

    slow, fs = watched_files.interrupted(
        table, when=lambda call: "manifest-list" in call.path and call.changes, meanwhile=overtake
    )
    result = slow.commit(staged)
    assert fs.has_happened
    assert result.snapshot is not None
    assert result.snapshot.id == 7
    assert values_of(table, "id") == list(range(6))
    assert_sound(table)


@pytest.mark.parametrize("collected", [True, False])
def test_a_write_that_was_rolled_back_is_not_published_without_its_files(
    catalog: Catalog, collected: bool
) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 1)))
    staged = table.stage(rows(table, events(1, 2)))
    table.commit(staged)
    table.history.run(table.history.plan_rollback(snapshot=1, grace_ms=0))
    if collected:
        table.upkeep.collect(early=True)
        with pytest.raises(FilesGone, match="stage them again"):
            table.commit(staged)
    else:
        table.commit(staged)
        table.upkeep.collect(early=True)
    assert values_of(table, "id") == ([0] if collected else [0, 1])
    assert_sound(table)


PLACES = {
    "few files": {"bucket": "2", "bucket-key": "id"},
    "many files": {"bucket": "1", "bucket-key": "id", "target-file-size": "1 b"},
}


@pytest.mark.mission("FS19")
@pytest.mark.parametrize("files", list(PLACES))
def test_a_write_of_whose_files_some_were_taken_as_orphans_is_not_published(
    catalog: Catalog, files: str
) -> None:
    """A removal goes by the age of each file, and a long write has old and young ones."""
    table = new_table(catalog, options=PLACES[files])
    batches = rows(table, events(0, 20)).to_batches(max_chunksize=1)
    staged = table.stage(iter(batches))
    assert staged.file_count == (2 if files == "few files" else 20)
    plan = table.upkeep.plan_remove_orphans(older_than_ms=0, even_recent=True)
    names = [file.file_name for message in staged.messages for file in message.new_files]
    last = [file for file in plan.files if file.path.endswith(names[-1])]
    assert table.upkeep.run(replace(plan, files=tuple(last), grace_ms=0)).files_deleted == 1
    with pytest.raises(FilesGone, match=f"{names[-1]} .* is there no more"):
        table.commit(staged)
    assert table.read().num_rows == 0
    table.abort(staged)
    assert_only_reachable_files(table)


def test_an_unknown_outcome_says_what_to_look_for_and_deletes_nothing(
    unchecked_catalog: Catalog,
) -> None:
    table = new_table(unchecked_catalog)
    broken, _ = watched(table, fail_at=1, fault=Fault.FAILS_BEFORE, counts=puts_snapshot)
    with pytest.raises(CommitOutcomeUnknownError, match="commit user job, identifier 4"):
        broken.write(rows(table, events(0, 3)), commit_user="job", commit_identifier=4)
    assert any("bucket-0" in path for path in unreachable_files(table))
    assert table.find_committed("job", 4) is None
    table.write(rows(table, events(0, 3)), commit_user="job", commit_identifier=4)
    assert values_of(table, "id") == [0, 1, 2]


def test_a_store_that_fails_before_the_decisive_moment_leaves_no_metadata(
    unchecked_catalog: Catalog,
) -> None:
    table = new_table(unchecked_catalog)
    staged = table.stage(rows(table, events(0, 3)))
    broken, _ = watched(
        table, fail_at=3, fault=Fault.FAILS_BEFORE, counts=lambda call: "/manifest-" in call.path
    )
    with pytest.raises(UnavailableError):
        broken.commit(staged)
    assert [path for path in unreachable_files(table) if path.startswith("manifest")] == []
    table.commit(staged)
    assert_sound(table)


@pytest.mark.parametrize("silent", ["all of it", "its own snapshot", "its base"])
@pytest.mark.mission("FS9")
def test_a_commit_that_cannot_be_looked_at_again_is_neither_taken_for_made_nor_undone(
    unchecked_catalog: Catalog, silent: str
) -> None:
    table = new_table(unchecked_catalog)
    table.write(rows(table, events(0, 1)))
    path = table.table_files.paths.snapshot({"its own snapshot": 2, "its base": 1}.get(silent, 0))
    fs = WatchedFiles(table.table_files.fs)

    def be_silent(call: Call) -> None:
        """Once the snapshot is put."""
        if any(map(puts_snapshot, fs.calls)) and (silent == "all of it" or call.path == path):
            raise UnavailableError(f"{call.path} cannot be reached")

    fs.before = be_silent
    with pytest.raises(CommitOutcomeUnknownError, match="snapshot 2 of "):
        over(table, fs).write(rows(table, events(5, 6)), commit_user="job", commit_identifier=1)
    found = table.find_committed("job", 1)
    assert found is not None
    assert found.id == 2
    assert values_of(table, "id") == [0, 5]
    assert_only_reachable_files(table)


def test_a_table_that_cannot_be_read_is_told_at_once(
    unchecked_catalog: Catalog, env: FixedEnv
) -> None:
    table = new_table(unchecked_catalog)
    snapshot = table.write(rows(table, events(0, 1))).snapshot
    assert snapshot is not None
    Path(table.table_files.paths.manifest(snapshot.base_manifest_list)).unlink()
    staged = table.stage(rows(table, events(5, 6)))
    with pytest.raises(CorruptionError, match="manifest-list"):
        table.commit(staged)
    assert env.slept_ms == []
    assert [each.id for each in table.history.snapshots()] == [1]


# --- conflicts --------------------------------------------------------------------------------


def test_files_that_somebody_else_replaced_cannot_be_replaced_again(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], partitions=[], options={"bucket": "1"})
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, events(1, 4, v="new")))
    before = tuple(entry.file for entry in table.at().files())
    compact(table, full=True)
    message = CommitMessage(partition=bytes(12), bucket=0, total_buckets=1, compact_before=before)
    result, lost = commit_compaction(table.table_files, [message], user="late", base_snapshot_id=2)
    assert result.snapshot is None
    assert lost == (message,)


def test_an_overwrite_that_lost_the_race_replaces_what_came_meanwhile(catalog: Catalog) -> None:
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, [*events(0, 2, day="a"), *events(0, 2, day="b")]))

    def another_commits() -> None:
        table.write(rows(table, [*events(10, 12, day="a"), *events(10, 12, day="b")]))

    overwriting = interrupted(table, another_commits)
    overwriting.write(
        rows(table, events(7, 8)).drop_columns(["day"]), mode="overwrite", partition={"day": "a"}
    )
    assert values_of(table, "id") == [0, 1, 7, 10, 11]


def test_an_overwrite_and_a_compaction_of_the_same_files_do_not_both_win(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 3)))
    table.write(rows(table, events(1, 4, v="new")))
    plan = table.upkeep.plan_compact(full=True)

    def another_overwrites() -> None:
        table.write(rows(table, events(50, 51)), mode="overwrite")

    result = interrupted(table, another_overwrites).upkeep.run(plan)
    assert (result.snapshot, result.dropped_tasks) == (None, 1)
    assert values_of(table, "id") == [50]
    assert_only_reachable_files(table)


def test_a_partition_keeps_its_bucket_count(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "2"})
    table.write(rows(table, events(0, 9)))
    four = with_options(table, bucket="4")
    with pytest.raises(BucketCountChanged, match="has 2 buckets and the table's option asks for 4"):
        four.write(rows(table, events(0, 1)))
    assert_only_reachable_files(table)
    four.write(rows(table, events(0, 9, v="again")), mode="overwrite")
    assert content(table) == content(four)
    assert {entry.total_buckets for entry in table.at().files()} == {4}
    assert values_of(table, "id") == list(range(9))


def test_a_bucket_count_that_changed_while_rows_were_staged_is_a_conflict(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "2"})
    staged = table.stage(rows(table, events(0, 9)))
    with_options(table, bucket="4").write(rows(table, events(0, 9)))
    with pytest.raises(BucketCountChanged, match="2 and 4 buckets"):
        table.commit(staged)
    assert table.abort(staged) == staged.file_count
    assert_only_reachable_files(table)


def test_files_of_one_level_never_share_keys(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    for first in (0, 2):
        table.write(rows(table, events(first, first + 4)))
        (entry,) = [each for each in table.at().files() if each.file.level == 0]
        if first == 0:
            compact(table, full=True)
    moved = CommitMessage(
        partition=entry.partition,
        bucket=0,
        total_buckets=1,
        compact_before=(entry.file,),
        compact_after=(replace(entry.file, level=5),),
    )
    with pytest.raises(KeyRangesOverlap, match="common keys in level 5 of bucket 0"):
        commit_compaction(table.table_files, [moved], user="u", base_snapshot_id=3)
    assert_only_reachable_files(table)


def test_a_compaction_of_files_that_are_not_there_publishes_nothing(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 3)))
    (entry,) = table.at().files()
    gone = replace(entry.file, file_name="data-gone.parquet")
    message = CommitMessage(
        partition=entry.partition, bucket=0, total_buckets=1, compact_before=(gone,)
    )
    result, lost = commit_compaction(table.table_files, [message], user="u", base_snapshot_id=1)
    assert (result.snapshot, lost) == (None, (message,))
    assert len(table.history.snapshots()) == 1


def test_rows_staged_under_other_keys_are_refused(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    staged = table.stage(rows(table, events(0, 1)))
    moved = replace(table.schema, id=1, primary_keys=("id", "v"))
    table.table_files.schemas.put_schema(moved)
    with pytest.raises(SchemaMoved, match="stage the rows again"):
        catalog.table("db.t").commit(staged)
    table.abort(staged)
    Path(table.table_files.paths.schema(1)).unlink()


# --- what a snapshot says ---------------------------------------------------------------------


@pytest.mark.mission("SE26", "SE31", "FS8")
def test_snapshots_carry_counts_kinds_users_and_schema(catalog: Catalog, env: FixedEnv) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    table.write(rows(table, events(0, 4)), commit_user="me", commit_identifier=3)
    table.write(rows(table, events(0, 2), ["-D"] * 2))
    compact(table, full=True)
    table.write(rows(table, events(9, 10)), mode="overwrite")
    found = table.history.snapshots()
    assert [each.commit_kind for each in found] == [
        CommitKind.APPEND,
        CommitKind.APPEND,
        CommitKind.COMPACT,
        CommitKind.OVERWRITE,
    ]
    assert [each.total_record_count for each in found] == [4, 6, 2, 1]
    assert [each.delta_record_count for each in found] == [4, 2, -4, -1]
    assert (found[0].commit_user, found[0].commit_identifier) == ("me", 3)
    times = [each.time_millis for each in found]
    assert times == sorted(times)
    assert all(each.schema_id == 0 and each.index_manifest is None for each in found)


def test_what_a_commit_does_not_touch_is_carried_on(unchecked_catalog: Catalog) -> None:
    table = new_table(unchecked_catalog)
    table.write(rows(table, events(0, 1)))
    path = Path(table.table_files.paths.snapshot(1))
    index = table.table_files.manifests.write_index_manifest((), compression="null", written=[])
    told = {"watermark": 17, "statistics": "stat-1", "indexManifest": index}
    path.write_text(json.dumps(json.loads(path.read_text()) | told))
    snapshot = table.write(rows(table, events(1, 2))).snapshot
    assert snapshot is not None
    assert (snapshot.watermark, snapshot.statistics) == (17, "stat-1")
    assert snapshot.index_manifest == index
    # Statistics are of one schema.
    table.table_files.schemas.put_schema(replace(table.schema, id=1))
    later = unchecked_catalog.table("db.t").write(rows(table, events(2, 3))).snapshot
    assert later is not None
    assert (later.schema_id, later.statistics, later.watermark) == (1, None, 17)
