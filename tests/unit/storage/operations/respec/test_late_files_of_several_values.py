"""Late files of append tables: a client commits, under former keys, several values of the new ones.

It does so in each state that a change of the keys leaves when its process dies there. Readers see
its rows at once, and `respec` with the keys that the table has then ends the change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import UnsupportedError
from tests.support.stores.stepped_files import Call, Content, DictFiles
from tests.support.tables.builders import content, new_table, remove_orphans, rows
from tests.support.tables.environment import START_MS, FixedClock, FixedEnv, SeededIds
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.late_commits import commit_late

pytestmark = pytest.mark.mission("PT1")

COLUMNS = {"dt": "STRING", "hh": "INT", "o": "STRING", "v": "INT"}
LATER_MS = START_MS + 3_600_000
LATE = [{"dt": "late", "hh": hour, "o": f"o{hour % 2}", "v": hour} for hour in (1, 2, 3)]
CHANGES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("dt",), ("dt", "hh")),
    ((), ("hh",)),
    (("dt",), ("o",)),
    (("dt",), ("hh", "o")),
    (("dt", "hh"), ("dt", "o")),
    (("dt", "hh"), ("o",)),
    (("dt", "hh"), ("dt",)),
    (("dt",), ()),
]


class _States(DictFiles):
    """Keeps a copy of the store for each snapshot and schema that appears."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[Content] = []

    def _carry_out(self, call: Call) -> Any:
        result = super()._carry_out(call)
        if result is True and ("/snapshot-" in call.path or "/schema-" in call.path):
            self.states.append(dict(self.content))
        return result


def _catalog(fs: DictFiles, seed: int) -> Catalog:
    return Catalog(fs, "/w", FixedEnv(FixedClock(fs.now_ms), SeededIds(seed)))


@pytest.mark.sampled(each="tried, old")
@pytest.mark.parametrize(("old", "new"), CHANGES, ids=str)
@pytest.mark.parametrize("tried", ["write", "respec", "rollback"])
def test_late_files_of_several_values_are_split_by_a_respec_with_the_present_keys(
    old: tuple[str, ...], new: tuple[str, ...], tried: str
) -> None:
    fs = _States()
    opened = new_table(_catalog(fs, 1), COLUMNS, partitions=old)
    for day in "ab":
        opened.write(rows(opened, [{"dt": day, "hh": 1, "o": "o1", "v": each} for each in (1, 2)]))
    first = opened.history.latest_snapshot()
    assert first is not None
    staged = opened.stage(rows(opened, LATE))
    del fs.states[:]
    _catalog(fs, 2).table("db.t").upkeep.respec(new)
    assert len(fs.states) > 2
    for number, state in enumerate(fs.states):
        later = _catalog(DictFiles(state, LATER_MS), 10 + number)
        commit_late(_opened_in(opened, later), staged)
        table = later.table("db.t")
        keys, due = table.schema.partition_keys, len(content(table))
        assert due == 4 + len(LATE)
        if tried == "write":
            due += _written(table)
        elif tried == "rollback":
            table.history.rollback(snapshot=first.id, grace_ms=0)
            keys, due = old, 4
        later.table("db.t").upkeep.respec(keys)
        table = later.table("db.t")
        assert (len(content(table)), table.schema.partition_keys) == (due, keys)
        assert table.upkeep.plan_respec(keys).changes_nothing
        assert _written(table) == 1
        table = later.table("db.t")
        assert len(content(table)) == due + 1
        remove_orphans(table)
        assert_only_reachable_files(table)


def _opened_in(table: Table, catalog: Catalog) -> Table:
    """The table as a client knows it that opened it before."""
    return Table(replace(table.table_files, fs=catalog.fs, env=catalog.env))


def _written(table: Table) -> int:
    """How many rows were written; where files must be split first, the error names the command."""
    try:
        table.write(rows(table, [{"dt": "w", "hh": 7, "o": "ow", "v": 9}]))
    except UnsupportedError as error:
        if "run respec with the keys" not in str(error):
            raise
        return 0
    return 1
