"""One committer: tasks write files of buckets, and the driver publishes all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from lakewright.storage import Catalog, Table
from tests.support.stores.watched_files import Call, WatchedFiles, watched
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.invariants import assert_sound

Task = TypeVar("Task")
Result = TypeVar("Result")

pytestmark = [
    pytest.mark.parametrize("any_catalog", ["memory"], indirect=True),
    pytest.mark.mission("PT55"),
]


@dataclass
class Apart:
    """An engine that notes what its tasks do to the store."""

    fs: WatchedFiles
    name: str = "apart"
    may_repeat: bool = False
    tasks: int = 0
    calls: list[Call] = field(default_factory=list)

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        before = len(self.fs.calls)
        results = [function(task) for task in tasks]
        self.calls += self.fs.calls[before:]
        self.tasks += len(tasks)
        return results


VERBS: dict[str, tuple[dict[str, Any], Callable[[Table, Apart], object]]] = {
    "compact": (
        {"keys": ("id", "day"), "options": {"bucket": "2"}},
        lambda table, engine: table.upkeep.run(table.upkeep.plan_compact(full=True), engine),
    ),
    "compact rows of deletion vectors": (
        {"keys": ("id", "day"), "options": {"bucket": "2", "deletion-vectors.enabled": "true"}},
        lambda table, engine: table.upkeep.run(table.upkeep.plan_compact(), engine),
    ),
    "sort": (
        {},
        lambda table, engine: table.upkeep.run(table.upkeep.plan_sort_compact(["v"]), engine),
    ),
    "rescale": (
        {"keys": ("id", "day"), "options": {"bucket": "2"}},
        lambda table, engine: table.upkeep.run(
            table.upkeep.plan_rescale(3, [{"day": day} for day in "ab"]), engine
        ),
    ),
    "give buckets": (
        {"keys": ("id", "day"), "options": {"bucket": "-2"}},
        lambda table, engine: table.upkeep.run(table.upkeep.plan_postpone_compact(), engine),
    ),
}


def filled(catalog: Catalog, **settings: Any) -> Table:
    table = new_table(catalog, partitions=("day",), **settings)
    for version in ("one", "two"):
        both = [*events(0, 20, day="a", v=version), *events(0, 20, day="b", v=version)]
        table.write(rows(table, both))
    return table


def is_of_a_bucket(call: Call) -> bool:
    return "/bucket-" in call.path or "/index/" in call.path


def published(calls: Sequence[Call]) -> list[str]:
    return [
        call.path
        for call in calls
        if call.name == "put_if_absent" and "/snapshot/snapshot-" in call.path
    ]


@pytest.mark.parametrize("verb", list(VERBS))
def test_tasks_of_an_engine_write_files_of_buckets_and_nothing_else(
    any_catalog: Catalog, verb: str
) -> None:
    settings, run = VERBS[verb]
    table = filled(any_catalog, **settings)
    seen, fs = watched(table)
    engine = Apart(fs)
    snapshots = len(table.history.snapshots())

    run(seen, engine)

    assert engine.tasks > 1
    assert [call for call in engine.calls if call.changes]
    assert all(is_of_a_bucket(call) for call in engine.calls)
    # A partition that moves is a commit of its own.
    commits = 2 if verb in ("rescale", "give buckets") else 1
    assert len(published(fs.calls)) == len(table.history.snapshots()) - snapshots == commits
    assert_sound(any_catalog.table(table.name))


@pytest.mark.parametrize("bucket", ["2", "-1", "-2"])
def test_staging_writes_files_of_buckets_and_the_commit_publishes_them_at_once(
    any_catalog: Catalog, bucket: str
) -> None:
    table = filled(any_catalog, keys=("id", "day"), options={"bucket": bucket})
    seen, fs = watched(table)
    staged = seen.stage(
        rows(table, [*events(5, 50, day="a", v="new"), *events(5, 50, day="b", v="new")])
    )
    assert fs.changes
    assert all(is_of_a_bucket(call) for call in fs.changes)
    count = len(fs.changes)
    seen.commit(staged)
    assert len(published(fs.changes[count:])) == 1
    assert_sound(table)
