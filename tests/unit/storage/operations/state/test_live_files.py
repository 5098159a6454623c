"""Asking what is live again and again: every answer is right, and costs what is new."""

from __future__ import annotations

from functools import partial
from typing import Any

from lakewright.storage import Catalog, Table
from lakewright.storage.operations.state.live_files import KnownEntries, live_entries
from lakewright.storage.operations.state.table_state import TableState
from tests.support.stores.stepped_files import Call, DictFiles, Verb
from tests.support.tables.builders import compact, events, new_table, rows
from tests.support.tables.environment import FixedEnv


class CountedFiles(DictFiles):
    """Remembers which manifests were read, without the lists that name them."""

    def __init__(self) -> None:
        super().__init__()
        self.manifests: list[str] = []
        self.perform = self._counted

    def _counted(self, call: Call) -> Any:
        name = call.path.rsplit("/", 1)[-1]
        is_manifest = name.startswith("manifest-") and not name.startswith("manifest-list-")
        if call.verb is Verb.READ and is_manifest:
            self.manifests.append(name)
        return self._carry_out(call)


def table_of(files: CountedFiles, **options: str) -> Table:
    table = new_table(Catalog(files, "/w", FixedEnv()), partitions=["day"], options=options)
    for number in range(5):
        append(table, number)
    return table


def append(table: Table, number: int) -> None:
    table.write(rows(table, events(number, number + 1, day="ab"[number % 2])))


def test_live_files_are_those_of_each_snapshot() -> None:
    table = table_of(CountedFiles(), **{"manifest.merge-min-count": "8"})
    known: KnownEntries = {}
    some = [live_entries(table.table_files, table.history.latest_snapshot())[0].partition]
    changes = [
        lambda: append(table, 7),
        lambda: compact(table, full=True),
        lambda: table.write(
            rows(table, events(1, 3, day="b")), mode="overwrite", partition={"day": "b"}
        ),
        *(partial(append, table, each) for each in range(10)),
    ]
    for change in changes:
        change()
        latest = table.history.latest_snapshot()
        state = TableState(table.table_files, latest, known)
        assert state.entries == live_entries(table.table_files, latest)
        chosen = live_entries(table.table_files, latest, partitions=some)
        assert state.entries_of(some) == chosen
        assert state.entries_of(some) == chosen
    assert TableState(table.table_files, None, known).entries == []


def test_a_manifest_is_read_once() -> None:
    files = CountedFiles()
    table = table_of(files)
    known: KnownEntries = {}
    assert TableState(table.table_files, table.history.latest_snapshot(), known).entries
    assert len(files.manifests) == 5
    append(table, 8)
    files.manifests.clear()
    for _ in range(2):
        assert TableState(table.table_files, table.history.latest_snapshot(), known).entries
    assert len(files.manifests) == 1


def test_a_compaction_that_lost_tries_again_as_fast_as_those_it_lost_to() -> None:
    """Who reads the whole state anew at every try loses to those who write without pause."""
    files = CountedFiles()
    table = table_of(files)
    plan = table.upkeep.plan_compact(full=True)
    lost: list[int] = []

    def somebody_commits_first(call: Call) -> Any:
        is_try = call.verb is Verb.PUT and "/snapshot/snapshot-" in call.path
        if is_try and len(lost) < 3:
            lost.append(len(files.manifests))
            files.perform = files._counted
            append(table, 10 + len(lost))
            files.manifests.clear()
            files.perform = somebody_commits_first
        return files._counted(call)

    files.perform = somebody_commits_first
    result = table.upkeep.run(plan)
    assert result.files_before == 5
    # The manifest of who came first, and nothing else.
    assert [*lost[1:], len(files.manifests)] == [1, 1, 1]
