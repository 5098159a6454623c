"""Deleting what will never be published, and nothing that anybody keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import CommitOutcomeUnknownError, RetriesExhausted, UnavailableError
from lakewright.storage.operations.references.sweep import sweep_repeated
from lakewright.storage.operations.running.engine import Result, Task
from lakewright.storage.operations.write.write import stage_rows
from tests.support.stores.watched_files import Call, Fault, overtaken, puts_snapshot, watched
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    rows,
    values_of,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    unreachable_files,
)


@dataclass
class Engine:
    """An engine on which something happens once the tasks are done."""

    then: Callable[[], object]
    name: str = "then"
    may_repeat: bool = True

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = [function(task) for task in tasks]
        self.then()
        return results


@dataclass
class Repeating:
    """An engine that loses the results of every task once, and runs it again."""

    name: str = "repeating"
    may_repeat: bool = True

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        for task in tasks:
            function(task)
        return [function(task) for task in tasks]


def lost_worker() -> None:
    raise RuntimeError("worker lost")


# --- what others keep ---------------------------------------------------------------------------


@pytest.mark.parametrize("kept_by", ["branch", "branch's branch point"])
def test_aborting_a_write_leaves_what_a_branch_reaches(catalog: Catalog, kept_by: str) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 1)))
    staged = table.stage(rows(table, events(1, 5)))
    table.commit(staged)
    branch = table.history.create_branch("b", snapshot=2)
    if kept_by == "branch":
        # The commit that the branch begins with may go from it too.
        branch.write(rows(branch, events(5, 6)))
        expire(branch)
    before = content(branch)
    table.history.run(table.history.plan_rollback(snapshot=1, grace_ms=0))
    assert table.abort(staged) == 0
    assert content(branch) == before
    assert_only_reachable_files(table)


def test_aborting_a_write_leaves_what_a_long_lived_changelog_keeps(catalog: Catalog) -> None:
    options = {"changelog.num-retained.min": "50", "changelog.num-retained.max": "50"}
    table = new_table(catalog, options=options)
    table.write(rows(table, events(0, 1)))
    staged = table.stage(rows(table, events(1, 3)))
    table.commit(staged)
    compact(table, full=True)
    table.write(rows(table, events(3, 4)))
    expire(table)
    assert table.table_files.references.changelogs()
    assert table.abort(staged) == 0
    assert_only_reachable_files(table)


def test_aborting_a_write_leaves_what_a_tag_keeps_after_a_rollback(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 1)))
    staged = table.stage(rows(table, events(1, 3)))
    table.commit(staged)
    table.write(rows(table, events(3, 4)))
    table.history.create_tag("kept")
    table.history.run(table.history.plan_rollback(snapshot=1, grace_ms=0))
    for number in range(3):
        table.write(rows(table, events(10 + number, 11 + number)))
    expire(table, keep=2)
    table.abort(staged)
    assert_nothing_missing(table)


@pytest.mark.parametrize("waits_ms", [0, 3_600_000])
def test_aborting_a_write_leaves_what_is_kept_after_what_need_not_be_asked(
    catalog: Catalog, env: FixedEnv, waits_ms: int
) -> None:
    """Older snapshots, and tags of snapshots that are there."""
    table = new_table(catalog)
    for number in range(2):
        table.write(rows(table, events(number, number + 1)))
    table.history.create_tag("t", snapshot=2)
    env.clock.advance(waits_ms)
    staged = table.stage(rows(table, events(2, 5)))
    table.commit(staged)
    branch = table.history.create_branch("b", snapshot=3)
    before = content(branch)
    assert table.abort(staged) == 0
    table.history.run(table.history.plan_rollback(snapshot=2, grace_ms=0))
    assert table.abort(staged) == 0
    assert content(branch) == before
    assert_only_reachable_files(table)


def test_aborting_a_write_leaves_the_index_that_it_published(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "-1"})
    staged = table.stage(rows(table, events(0, 3)))
    assert any(message.new_indexes for message in staged.messages)
    table.commit(staged)
    assert table.abort(staged) == 0
    assert_only_reachable_files(table)
    table.write(rows(table, events(2, 5)))
    assert table.abort(staged) == 0
    assert_nothing_missing(table)


def test_a_write_is_aborted_though_a_snapshot_that_came_back_has_lost_its_changelog(
    catalog: Catalog,
) -> None:
    options = {"bucket": "1", "changelog-producer": "input"}
    table = new_table(catalog, keys=["id"], options=options)
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
        table.history.create_tag(f"t{number}")
    expire(table)
    staged = table.stage(rows(table, events(7, 8)))
    table.history.run(table.history.plan_rollback(tag="t1", grace_ms=0))
    assert table.abort(staged) > 0
    assert table.abort(table.stage(rows(table, []))) == 0
    assert_only_reachable_files(table)


# --- an expiry at the same time -----------------------------------------------------------------


@pytest.mark.parametrize("listing", [1, 2, 3, 4])
@pytest.mark.parametrize("one_is_lost", [False, True])
@pytest.mark.mission("FS7", "FS12")
@pytest.mark.sampled(each="listing")
def test_a_committed_compaction_succeeds_though_an_expiry_runs(
    catalog: Catalog, one_is_lost: bool, listing: int
) -> None:
    table = new_table(catalog, partitions=["day"], keys=["day", "id"], options={"bucket": "1"})
    for number in range(3):
        for day in "ab":
            table.write(rows(table, events(number, number + 2, day=day)))
    calls: list[str] = []

    def somebody() -> None:
        if one_is_lost:
            compact(table, [{"day": "b"}], full=True)

    def once_listed(call: Call) -> bool:
        """What snapshots there are after the commit is known, and now they are read."""
        if call.name == "put_if_absent" and "/snapshot-" in call.path:
            calls.append("commit")
        elif calls and call.name.startswith("list_"):
            calls.append("list")
        return len(calls) == listing + 1

    def expiry() -> None:
        table.write(rows(table, events(9, 10)))
        expire(table)

    slow = overtaken(table, once_listed, expiry)
    result = slow.upkeep.run(slow.upkeep.plan_compact(full=True), Engine(somebody))
    assert (result.snapshot is not None, result.dropped_tasks) == (True, int(one_is_lost))
    assert values_of(table, "id")[:8] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert_only_reachable_files(table)


# --- commits that fail --------------------------------------------------------------------------


def several_partitions(catalog: Catalog, verb: str, **options: str) -> Table:
    buckets = "-2" if verb == "postpone" else "1"
    table = new_table(
        catalog, partitions=["day"], keys=["day", "id"], options={"bucket": buckets, **options}
    )
    for day in "abc":
        table.write(rows(table, events(0, 4, day=day)))
    return table


def run(table: Table, verb: str) -> None:
    if verb == "postpone":
        table.upkeep.run(table.upkeep.plan_postpone_compact())
    else:
        days: list[dict[str, object]] = [{"day": day} for day in "abc"]
        table.upkeep.run(table.upkeep.plan_rescale(2, days))


@pytest.mark.parametrize("creates", [True, False])
@pytest.mark.parametrize("verb", ["postpone", "rescale"])
def test_a_commit_of_unknown_outcome_leaves_nothing_of_the_partitions_that_follow(
    unchecked_catalog: Catalog, verb: str, creates: bool
) -> None:
    table = several_partitions(unchecked_catalog, verb)
    fault = Fault.FAILS_AFTER if creates else Fault.FAILS_BEFORE
    mute, fs = watched(table, fail_at=1, fault=fault, counts=puts_snapshot)

    def be_silent(call: Call) -> None:
        """The store does not say whether it created the first snapshot."""
        if call.name == "exists" and "/snapshot-" in call.path and fs.counted == 1:
            raise UnavailableError("no answer")

    fs.before = be_silent
    with pytest.raises(CommitOutcomeUnknownError):
        run(mute, verb)
    days = {path.split("/")[-3] for path in unreachable_files(table) if "/bucket-" in path}
    # What the commit names may be the table's yet, so it must stay.
    assert days == (set() if creates else {"day=a"})
    assert_nothing_missing(table)
    run(table, verb)
    assert values_of(table, "id") == sorted([0, 1, 2, 3] * 3)


@pytest.mark.parametrize("verb", ["postpone", "rescale"])
def test_a_race_that_is_lost_too_often_is_told_as_such(catalog: Catalog, verb: str) -> None:
    table = several_partitions(catalog, verb, **{"commit.max-retries": "0"})
    slow = overtaken(
        table,
        lambda call: call.name == "write_bytes" and "/manifest-list-" in call.path,
        lambda: table.write(rows(table, events(4, 5, day="z"))),
    )
    with pytest.raises(RetriesExhausted, match=r"commit\.max-retries"):
        run(slow, verb)
    assert_only_reachable_files(table)
    run(table, verb)


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["part", "part-", "x.y_"])
@pytest.mark.mission("FS7")
def test_whatever_files_are_called_a_failed_compaction_leaves_none(
    catalog: Catalog, prefix: str
) -> None:
    options = {"bucket": "1", "data-file.prefix": prefix}
    table: Table = new_table(catalog, keys=["id"], options=options)
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
    with pytest.raises(RuntimeError, match="worker lost"):
        table.upkeep.run(table.upkeep.plan_compact(full=True), Engine(lost_worker))
    assert_only_reachable_files(table)


# --- tasks that ran more than once --------------------------------------------------------------


KINDS: dict[str, dict[str, Any]] = {
    "append": {"partitions": ["day"]},
    "keyed": {"partitions": ["day"], "keys": ["day", "id"], "options": {"bucket": "2"}},
    "keyed with changelogs": {
        "keys": ["id"],
        "options": {"bucket": "2", "changelog-producer": "full-compaction"},
    },
}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.mission("PT55")
def test_a_compaction_leaves_nothing_of_tasks_that_an_engine_ran_twice(
    catalog: Catalog, kind: str
) -> None:
    table = new_table(catalog, **KINDS[kind])
    for number in range(4):
        table.write(rows(table, events(number, number + 3, day="a")))
    before = content(table)
    done = table.upkeep.run(table.upkeep.plan_compact(full=True), Repeating())
    assert done.files_after < done.files_before
    assert content(table) == before
    assert_only_reachable_files(table)


@pytest.mark.mission("PT55")
def test_a_rescale_leaves_nothing_of_tasks_that_an_engine_ran_twice(catalog: Catalog) -> None:
    table = new_table(catalog, **KINDS["keyed"])
    table.write(rows(table, [*events(0, 9, day="a"), *events(0, 5, day="b")]))
    before = content(table)
    done = table.upkeep.run(table.upkeep.plan_rescale(3), Repeating())
    assert done.files_after > 1
    assert content(table) == before
    assert_only_reachable_files(table)


@pytest.mark.mission("PT55")
def test_giving_buckets_leaves_nothing_of_tasks_that_an_engine_ran_twice(catalog: Catalog) -> None:
    table = new_table(catalog, **{**KINDS["keyed"], "options": {"bucket": "-2"}})
    table.write(rows(table, [*events(0, 9, day="a"), *events(0, 5, day="b")]))
    done = table.upkeep.run(table.upkeep.plan_postpone_compact(), Repeating())
    assert done.files_after > 1
    assert len(content(table)) == 14
    assert_only_reachable_files(table)


@pytest.mark.mission("PT55")
def test_of_a_write_whose_tasks_ran_twice_only_what_counts_stays(catalog: Catalog) -> None:
    table = new_table(catalog, **{**KINDS["keyed"], "options": {"bucket": "-1"}})
    job = table.prepare_write(mode="append")
    new = rows(table, [*events(0, 5, day="a"), *events(0, 5, day="b")])
    lost, counts = stage_rows(job, [new]), stage_rows(job, [new])
    assert lost.write_id == counts.write_id
    other = table.stage(rows(table, events(7, 9)))

    found = sweep_repeated(table.table_files, job.write_id, counts.messages, since_snapshot_id=None)

    # Of each partition a data file and an index.
    assert found == 4
    table.commit(counts)
    table.abort(other)
    assert values_of(table, "id") == sorted([*range(5), *range(5)])
    assert_only_reachable_files(table)
