"""Any history of tags, branches, rollbacks and expiries: what has a name is read, no file is left.

After every step each snapshot and tag of each branch reads as it did when it was made, and the
files on disk are the files that something reaches.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError
from tests.support.builders import compact, content, events, expire, new_table, rows
from tests.support.environment import FixedEnv
from tests.support.fixtures import memory_uri
from tests.support.invariants import assert_only_reachable_files, assert_true_hints

KINDS: dict[str, dict[str, Any]] = {
    "append": {"options": {"manifest.merge-min-count": "2"}},
    "keyed": {"keys": ["id"], "options": {"bucket": "1", "manifest.merge-min-count": "3"}},
    "with changelog": {
        "keys": ["id"],
        "options": {"bucket": "1", "changelog-producer": "input"},
    },
    "with long-lived changelogs": {
        "keys": ["id"],
        "options": {
            "bucket": "1",
            "changelog-producer": "input",
            "changelog.num-retained.min": "12",
            "changelog.num-retained.max": "20",
        },
    },
    "with deletion vectors": {
        "keys": ["id"],
        "options": {"bucket": "1", "deletion-vectors.enabled": "true"},
    },
    "in dynamic buckets": {"keys": ["id"], "options": {"bucket": "-1"}},
    "with long-lived changes": {
        "keys": ["id"],
        "options": {
            "bucket": "1",
            "changelog.num-retained.min": "12",
            "changelog.num-retained.max": "20",
        },
    },
}
MAIN = "main"
BRANCHES = st.sampled_from([MAIN, MAIN, "b", "c"])
TAGS = st.sampled_from(["x", "y", "z"])

# What reading a snapshot returns, by its id.
States = dict[int, list[str]]


class References(RuleBasedStateMachine):
    """A table, and what each state of each branch must read as."""

    @initialize(kind=st.sampled_from(list(KINDS)))
    def make(self, kind: str) -> None:
        catalog = Catalog.open(memory_uri(), env=FixedEnv())
        self.table = new_table(catalog, **KINDS[kind])
        self.states: dict[str, States] = {MAIN: {}}
        self.tags: dict[str, dict[str, int]] = {MAIN: {}}
        # Tags keep their state when the snapshot is gone.
        self.tagged: dict[tuple[str, str], list[str]] = {}

    def seen(self, branch: str) -> Table:
        return self.table.at_branch(branch)

    def record(self, branch: str) -> None:
        """Remember what the snapshots there are read as, once."""
        table = self.seen(branch)
        there = [snapshot.id for snapshot in table.snapshots()]
        known = self.states[branch]
        self.states[branch] = {
            each: known[each] if each in known else content(table, snapshot_id=each)
            for each in there
        }

    def forget_tags(self, branch: str, later_than: int) -> None:
        for name, snapshot_id in list(self.tags[branch].items()):
            if snapshot_id > later_than:
                del self.tags[branch][name]
                del self.tagged[branch, name]

    # --- writing --------------------------------------------------------------------------------

    @rule(branch=BRANCHES, first=st.integers(0, 6), version=st.sampled_from("pqr"))
    def write(self, branch: str, first: int, version: str) -> None:
        if branch in self.states:
            table = self.seen(branch)
            table.write(rows(table, events(first, first + 3, v=version)))
            self.record(branch)

    @rule(branch=BRANCHES)
    def overwrite(self, branch: str) -> None:
        if branch in self.states:
            table = self.seen(branch)
            table.write(rows(table, events(0, 2, v="over")), mode="overwrite")
            self.record(branch)

    @rule(branch=BRANCHES)
    def compact_fully(self, branch: str) -> None:
        if branch in self.states:
            compact(self.seen(branch), full=True)
            self.record(branch)

    @rule(branch=BRANCHES)
    def compact_what_is_due(self, branch: str) -> None:
        if branch in self.states:
            compact(self.seen(branch))
            self.record(branch)

    @rule(branch=BRANCHES)
    def analyze(self, branch: str) -> None:
        if self.states.get(branch):
            table = self.seen(branch)
            table.run_analyze(table.plan_analyze())
            self.record(branch)

    # --- references -----------------------------------------------------------------------------

    @rule(branch=BRANCHES, name=TAGS, data=st.data())
    def tag(self, branch: str, name: str, data: st.DataObject) -> None:
        states = self.states.get(branch)
        if states:
            snapshot_id = data.draw(st.sampled_from(sorted(states)))
            table = self.seen(branch)
            make = table.replace_tag if name in self.tags[branch] else table.create_tag
            make(
                name,
                snapshot_id=snapshot_id,
                time_retained_ms=data.draw(st.sampled_from([None, 5])),
            )
            self.tags[branch][name] = snapshot_id
            self.tagged[branch, name] = states[snapshot_id]

    @rule(branch=BRANCHES, name=TAGS)
    def delete_tag(self, branch: str, name: str) -> None:
        if name in self.tags.get(branch, {}):
            table = self.seen(branch)
            table.run_delete_tags(table.plan_delete_tags(name))
            del self.tags[branch][name]
            del self.tagged[branch, name]

    @rule(branch=st.sampled_from(["b", "c"]), data=st.data())
    def make_branch(self, branch: str, data: st.DataObject) -> None:
        if branch in self.states:
            return
        starts: list[Any] = [None, *sorted(self.states[MAIN]), *sorted(self.tags[MAIN])]
        start = data.draw(st.sampled_from(starts))
        self.states[branch], self.tags[branch] = {}, {}
        if isinstance(start, str):
            self.table.create_branch(branch, tag=start)
            self.tags[branch][start] = self.tags[MAIN][start]
            self.tagged[branch, start] = self.tagged[MAIN, start]
            self.states[branch][self.tags[MAIN][start]] = self.tagged[MAIN, start]
        else:
            self.table.create_branch(branch, snapshot_id=start)
            if start is not None:
                self.states[branch][start] = self.states[MAIN][start]

    @rule(branch=st.sampled_from(["b", "c"]))
    def delete_branch(self, branch: str) -> None:
        if branch in self.states:
            self.table.run_delete_branch(self.table.plan_delete_branch(branch))
            self.states.pop(branch)
            for name in self.tags.pop(branch):
                del self.tagged[branch, name]

    @rule(branch=st.sampled_from(["b", "c"]))
    def fast_forward(self, branch: str) -> None:
        if not self.states.get(branch):
            return
        plan = self.table.plan_fast_forward(branch)
        self.table.run_fast_forward(plan)
        kept = {each: self.states[MAIN][each] for each in plan.kept_ids}
        self.states[MAIN] = {**kept, **self.states[branch]}
        for name in plan.lost_tags:
            del self.tags[MAIN][name]
            del self.tagged[MAIN, name]
        for name, snapshot_id in self.tags[branch].items():
            self.tags[MAIN][name] = snapshot_id
            self.tagged[MAIN, name] = self.tagged[branch, name]

    @rule(branch=BRANCHES, data=st.data())
    def roll_back(self, branch: str, data: st.DataObject) -> None:
        if not self.states.get(branch):
            return
        table = self.seen(branch)
        targets = [*sorted(self.states[branch]), *sorted(self.tags[branch])]
        target = data.draw(st.sampled_from(targets))
        try:
            if isinstance(target, str):
                snapshot_id, expected = self.tags[branch][target], self.tagged[branch, target]
                table.run_rollback(table.plan_rollback(tag=target))
            else:
                snapshot_id, expected = target, self.states[branch][target]
                table.run_rollback(table.plan_rollback(snapshot_id=target))
        except InvalidRequestError:
            # It is the latest.
            return
        states = self.states[branch]
        self.states[branch] = {key: value for key, value in states.items() if key < snapshot_id}
        self.states[branch][snapshot_id] = expected
        self.forget_tags(branch, snapshot_id)

    @rule(branch=BRANCHES, keep=st.integers(1, 3))
    def expire_snapshots(self, branch: str, keep: int) -> None:
        if branch in self.states:
            expire(self.seen(branch), keep=keep)
            self.record(branch)

    @rule(branch=BRANCHES, every=st.booleans())
    def expire_changelogs(self, branch: str, every: bool) -> None:
        if branch in self.states:
            table = self.seen(branch)
            table.run_expire_changelogs(table.plan_expire_changelogs(every=every))

    # --- what holds -----------------------------------------------------------------------------

    @invariant()
    @precondition(lambda self: hasattr(self, "table"))
    def files_are_those_reached(self) -> None:
        assert_only_reachable_files(self.table)
        assert_true_hints(self.table)

    @invariant()
    @precondition(lambda self: hasattr(self, "table"))
    def every_state_is_read(self) -> None:
        for branch, states in self.states.items():
            table = self.seen(branch)
            assert [each.id for each in table.snapshots()] == sorted(states), branch
            for snapshot_id, expected in states.items():
                assert content(table, snapshot_id=snapshot_id) == expected, (branch, snapshot_id)
            assert {tag.name: tag.snapshot.id for tag in table.tags()} == self.tags[branch]
            for name in self.tags[branch]:
                assert content(table, tag=name) == self.tagged[branch, name], (branch, name)

    def teardown(self) -> None:
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]


TestReferences = References.TestCase
# A step here reads every state there is, so a fifth of what other laws try has to do.
TestReferences.settings = settings(
    max_examples=settings().max_examples // 5, stateful_step_count=30
)
