"""Any history of a table through every verb there is: it reads as a list of rows that was kept.

The model knows nothing of files. It holds the rows of each snapshot and tag of each branch, worked
out from what was asked for and never from what was read. After every step the files on disk are
the files that something reaches, or that a write not yet committed has staged, and every branch
reads as the model says; now and then, and at the end, so does every state that has a name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakewright.storage import Catalog, StagedWrite, Table
from lakewright.storage.errors import (
    CommitConflictError,
    InvalidRequestError,
    SchemaMoved,
    UnsupportedError,
)
from tests.support.models.table import Row, TableModel
from tests.support.tables.builders import compact, content, events, expire, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import empty_memory, memory_uri
from tests.support.tables.invariants import assert_true_hints, missing_files, unreachable_files
from tests.support.tally import tally

SMALL = {"manifest.merge-min-count": "3"}
LASTING = {"changelog.num-retained.min": "12", "changelog.num-retained.max": "20"}
APPEND: dict[str, Any] = {"partitions": ["day"]}
KEYED: dict[str, Any] = {"partitions": ["day"], "keys": ["day", "id"]}
KINDS: dict[str, dict[str, Any]] = {
    "append": {**APPEND, "options": SMALL},
    "append in buckets": {**APPEND, "options": {"bucket": "2", "bucket-key": "id", **SMALL}},
    "keyed": {**KEYED, "options": {"bucket": "2", **SMALL}},
    "with changelog": {**KEYED, "options": {"bucket": "1", "changelog-producer": "input"}},
    "with lasting changelogs": {
        **KEYED,
        "options": {"bucket": "1", "changelog-producer": "input", **LASTING},
    },
    "with lasting changes": {**KEYED, "options": {"bucket": "1", **LASTING}},
    "with lookups": {**KEYED, "options": {"bucket": "1", "changelog-producer": "lookup"}},
    "with deletion vectors": {
        **KEYED,
        "options": {"bucket": "1", "deletion-vectors.enabled": "true"},
    },
    "in dynamic buckets": {**KEYED, "options": {"bucket": "-1", **SMALL}},
    "postponed": {**KEYED, "options": {"bucket": "-2", "postpone.default-bucket-num": "2"}},
}
# What the partition keys become. Other kinds wait for a compaction first.
KEYED_BY: list[tuple[str, ...]] = [("day",), (), ("id",)]
KEYS: dict[str, list[tuple[str, ...]]] = {
    "append": [("day",), (), ("day", "v"), ("v",)],
    "append in buckets": [("day",), (), ("day", "v")],
    "keyed": KEYED_BY,
    "with changelog": KEYED_BY,
    "with lasting changelogs": KEYED_BY,
    "with lasting changes": KEYED_BY,
    "in dynamic buckets": KEYED_BY,
}
MAIN = "main"
BRANCHES = st.sampled_from([MAIN, MAIN, "b", "c"])
SIDE_BRANCHES = st.sampled_from(["b", "c"])
TAGS = st.sampled_from(["x", "y", "z"])
DAYS = st.sampled_from(["p", "q"])
# At the end of a history everything in it is old.
DAY_MS = 86_400_000


@dataclass(frozen=True)
class State:
    """The rows of a snapshot, and those that wait for a compaction, in the order they came."""

    rows: tuple[Row, ...] = ()
    waiting: tuple[tuple[Row, str], ...] = ()

    def comparable(self) -> list[str]:
        return TableModel(rows=list(self.rows)).comparable()


@dataclass
class BranchModel:
    """What a branch must read as."""

    states: dict[int, State] = field(default_factory=dict)
    tags: dict[str, tuple[int, State]] = field(default_factory=dict)
    consumers: dict[str, int] = field(default_factory=dict)
    # Writes that wait to be committed, and what they do to the rows.
    staged: list[tuple[StagedWrite, Callable[[State], State]]] = field(default_factory=list)

    @property
    def latest(self) -> State:
        return self.states[max(self.states)] if self.states else State()


class TableMachine(RuleBasedStateMachine):
    """A table, its branches, and their models."""

    @initialize(kind=st.sampled_from(list(KINDS)))
    def make(self, kind: str) -> None:
        self.kind = kind
        self.env = FixedEnv()
        self.catalog = Catalog.open(self.new_warehouse(), env=self.env)
        new_table(self.catalog, **KINDS[kind])
        self.models: dict[str, BranchModel] = {MAIN: BranchModel()}

    def new_warehouse(self) -> str:
        return memory_uri()

    @property
    def keyed(self) -> bool:
        return "keys" in KINDS[self.kind]

    @property
    def waits(self) -> bool:
        """Whether readers see rows once they are compacted, and not before."""
        return self.kind in ("postponed", "with deletion vectors")

    def seen(self, branch: str) -> Table:
        return self.catalog.table("db.t").history.at_branch(branch)

    # --- the model ------------------------------------------------------------------------------

    def model_of(self, state: State, partitions: tuple[str, ...] = ("day",)) -> TableModel:
        keys = ("day", "id") if self.keyed else ()
        return TableModel(partitions, keys, list(state.rows))

    def keys_of(self, branch: str) -> tuple[str, ...]:
        """The partition keys, which a respec or a rollback changes."""
        return self.seen(branch).schema.partition_keys

    def written(self, new: Sequence[Row], kinds: Sequence[str]) -> Callable[[State], State]:
        def change(state: State) -> State:
            if self.waits:
                added = tuple(zip(new, kinds, strict=True))
                return replace(state, waiting=(*state.waiting, *added))
            model = self.model_of(state)
            model.write(new, kinds)
            return replace(state, rows=tuple(model.rows))

        return change

    def overwritten(
        self,
        new: Sequence[Row],
        spec: dict[str, str] | None,
        *,
        dynamic: bool,
        partitions: tuple[str, ...] = ("day",),
    ) -> Callable[[State], State]:
        def change(state: State) -> State:
            touched = {row["day"] for row in new}
            gone = touched if dynamic else ({spec["day"]} if spec else {"p", "q"})
            waiting = tuple(each for each in state.waiting if each[0]["day"] not in gone)
            model = self.model_of(state, partitions)
            if self.waits:
                model.overwrite([], spec=spec, dynamic=dynamic)
                kept = [row for row in model.rows if row["day"] not in gone]
                added = tuple((row, "+I") for row in new)
                return State(rows=tuple(kept), waiting=(*waiting, *added))
            model.overwrite(new, spec=spec, dynamic=dynamic)
            return State(rows=tuple(model.rows), waiting=waiting)

        return change

    def committed(self, branch: str, change: Callable[[State], State]) -> None:
        """Learn which snapshots a verb made: the last of them holds what the model says."""
        model = self.models[branch]
        before, after = model.latest, change(model.latest)
        last = max(model.states, default=0)
        new = sorted(each.id for each in self.seen(branch).history.snapshots() if each.id > last)
        for snapshot_id in new[:-1]:
            # Verbs that commit a part at a time, such as a partition, change no row of others.
            found = content(self.seen(branch).at(snapshot=snapshot_id))
            assert set(found) <= {*before.comparable(), *after.comparable()}
            rows_then = [row for row in (*after.rows, *before.rows) if _text(row) in found]
            model.states[snapshot_id] = State(rows=tuple(_once(rows_then, found)))
        if new:
            model.states[new[-1]] = after
        else:
            assert after.comparable() == before.comparable()

    # --- writing --------------------------------------------------------------------------------

    @rule(
        branch=BRANCHES,
        day=DAYS,
        first=st.integers(0, 6),
        version=st.sampled_from("rst"),
        deletes=st.booleans(),
        compacts=st.booleans(),
    )
    def write(
        self, branch: str, day: str, first: int, version: str, deletes: bool, compacts: bool
    ) -> None:
        if branch not in self.models:
            return
        new = events(first, first + 3, day=day, v=version)
        kinds = ["-D" if deletes and self.keyed and number == 1 else "+I" for number in range(3)]
        table = self.seen(branch)
        # The count of buckets that a branch asks for may not be the one of its partitions.
        compacts = compacts and self.kind != "with deletion vectors"
        table.write(rows(table, new, kinds if self.keyed else None), compact=compacts)
        change = self.written(new, kinds)
        if compacts and self.waits:
            self.committed(branch, lambda state: self.no_longer_waiting(change(state), {day}))
        else:
            self.committed(branch, change)

    @rule(branch=BRANCHES, how=st.sampled_from(["all", "day", "dynamic"]), day=DAYS)
    def overwrite(self, branch: str, how: str, day: str) -> None:
        if branch not in self.models:
            return
        new = events(0, 2, day=day, v="over")
        table, keys = self.seen(branch), self.keys_of(branch)
        spec = {"day": day} if how == "day" and "day" in keys else None
        dynamic = how == "dynamic"
        table.write(rows(table, new), mode="overwrite", partition=spec, dynamic=dynamic)
        self.committed(branch, self.overwritten(new, spec, dynamic=dynamic, partitions=keys))

    @rule(branch=BRANCHES, day=DAYS, first=st.integers(0, 6))
    def stage(self, branch: str, day: str, first: int) -> None:
        if branch in self.models and len(self.models[branch].staged) < 3:
            new = events(first, first + 2, day=day, v="staged")
            staged = self.seen(branch).stage(rows(self.seen(branch), new))
            change = self.written(new, ["+I"] * len(new))
            self.models[branch].staged.append((staged, change))

    @rule(branch=BRANCHES, data=st.data(), aborts=st.booleans())
    def settle(self, branch: str, data: st.DataObject, aborts: bool) -> None:
        if not (branch in self.models and self.models[branch].staged):
            return
        model, table = self.models[branch], self.seen(branch)
        number = data.draw(st.integers(0, len(model.staged) - 1))
        staged, change = model.staged.pop(number)
        if aborts:
            table.abort(staged)
            return
        try:
            table.commit(staged)
        except (CommitConflictError, SchemaMoved):
            # Others replaced its files, or its rows have partitions of other keys.
            table.abort(staged)
            self.committed(branch, lambda state: state)
        else:
            self.committed(branch, change)

    # --- rewriting ------------------------------------------------------------------------------

    @rule(branch=BRANCHES, full=st.booleans())
    def compact(self, branch: str, full: bool) -> None:
        if branch not in self.models:
            return
        if self.kind == "with deletion vectors":
            # Which buckets are due is not the model's to know.
            compact(self.seen(branch), full=True)
            self.committed(branch, lambda state: self.no_longer_waiting(state, {"p", "q"}))
        else:
            compact(self.seen(branch), full=full)
            self.committed(branch, lambda state: state)

    @precondition(lambda self: self.kind in KEYS)
    @rule(data=st.data())
    def respec(self, data: st.DataObject) -> None:
        """Whatever was drawn, the keys of a branch that is there become others."""
        branch = data.draw(st.sampled_from(sorted(self.models)))
        table, consumers = self.seen(branch), self.models[branch].consumers
        former = table.schema.partition_keys
        keys = data.draw(st.sampled_from([each for each in KEYS[self.kind] if each != former]))
        latest = max(self.models[branch].states, default=0)
        if any(position <= latest for position in consumers.values()):
            with pytest.raises(UnsupportedError, match="let it read to the end"):
                table.upkeep.respec(keys)
            for name in consumers:
                consumers[name] = latest + 1
                table.history.set_consumer(name, latest + 1)
        table.upkeep.respec(keys)
        assert self.keys_of(branch) == keys
        tally("changes of partition keys by the state machine")
        self.committed(branch, lambda state: state)

    @precondition(lambda self: self.kind in KEYS)
    @rule(branch=BRANCHES)
    def bring_home(self, branch: str) -> None:
        if branch in self.models:
            home = self.seen(branch).upkeep.settle()
            tally("files that the state machine brought home", home.files)
            assert not any(each.file.external_path for each in self.seen(branch).at().files())
            self.committed(branch, lambda state: state)

    @precondition(lambda self: self.kind == "append")
    @rule(branch=BRANCHES, by=st.sampled_from(["id", "v"]))
    def sort_compact(self, branch: str, by: str) -> None:
        if branch in self.models and by not in self.keys_of(branch):
            table = self.seen(branch)
            table.upkeep.run(table.upkeep.plan_sort_compact([by]))
            self.committed(branch, lambda state: state)

    @precondition(lambda self: self.kind in ("keyed", "with changelog", "append in buckets"))
    @rule(count=st.integers(1, 3), day=st.sampled_from([None, "p", "q"]))
    def rescale(self, count: int, day: str | None) -> None:
        table = self.seen(MAIN)
        chosen = None if day is None or "day" not in self.keys_of(MAIN) else [{"day": day}]
        table.upkeep.run(table.upkeep.plan_rescale(count, chosen))
        self.committed(MAIN, lambda state: state)

    @precondition(lambda self: self.kind == "postponed")
    @rule(branch=BRANCHES)
    def postpone_compact(self, branch: str) -> None:
        if branch in self.models:
            table = self.seen(branch)
            table.upkeep.run(table.upkeep.plan_postpone_compact())
            self.committed(branch, lambda state: self.no_longer_waiting(state, {"p", "q"}))

    def no_longer_waiting(self, state: State, days: set[str]) -> State:
        model = self.model_of(state)
        for row, kind in state.waiting:
            if row["day"] in days:
                model.write([row], [kind])
        left = tuple(each for each in state.waiting if each[0]["day"] not in days)
        return State(rows=tuple(model.rows), waiting=left)

    @rule(branch=BRANCHES)
    def analyze(self, branch: str) -> None:
        if branch in self.models and self.models[branch].states:
            table = self.seen(branch)
            table.upkeep.run(table.upkeep.plan_analyze())
            self.committed(branch, lambda state: state)

    @rule(branch=BRANCHES, day=DAYS)
    def drop_partition(self, branch: str, day: str) -> None:
        if branch in self.models and "day" in self.keys_of(branch):
            self.seen(branch).upkeep.drop_partitions(partitions=[{"day": day}], if_exists=True)
            self.committed(branch, self.overwritten([], {"day": day}, dynamic=False))

    @precondition(lambda self: not self.waits)
    @rule(branch=BRANCHES, days=st.permutations(["p", "q"]))
    def rename_partition(self, branch: str, days: list[str]) -> None:
        if branch not in self.models or self.keys_of(branch) != ("day",):
            return
        one, other = days
        table = self.seen(branch)
        if {each.spec["day"] for each in table.at().partitions()} == {one}:
            table.upkeep.rename_partition({"day": one}, {"day": other})
            self.committed(branch, lambda state: self.renamed(state, one, other))

    def renamed(self, state: State, one: str, other: str) -> State:
        days = {one: other}
        rows = tuple({**row, "day": days.get(row["day"], row["day"])} for row in state.rows)
        return replace(state, rows=rows)

    # --- what goes ------------------------------------------------------------------------------

    @rule(branch=BRANCHES, keep=st.integers(1, 3), limit=st.sampled_from([None, 1, 2]))
    def expire_snapshots(self, branch: str, keep: int, limit: int | None) -> None:
        if branch not in self.models:
            return
        model = self.models[branch]
        expire(self.seen(branch), keep=keep, max_deletes=limit)
        there = {each.id for each in self.seen(branch).history.snapshots()}
        held = min(model.consumers.values(), default=None)
        for snapshot_id in model.states:
            kept = snapshot_id > max(model.states) - keep
            assert snapshot_id in there or not (kept or (held or snapshot_id + 1) <= snapshot_id)
        model.states = {each: state for each, state in model.states.items() if each in there}

    @rule(branch=BRANCHES, every=st.booleans())
    def expire_changelogs(self, branch: str, every: bool) -> None:
        if branch in self.models:
            table = self.seen(branch)
            table.upkeep.run(table.upkeep.plan_expire_changelogs(every=every, grace_ms=0))

    @rule()
    def remove_orphans(self) -> None:
        """Nothing is old enough, so what is staged stays."""
        table = self.seen(MAIN)
        plan = table.upkeep.plan_remove_orphans(before_ms=self.env.now_ms() - DAY_MS)
        assert plan.files == ()
        table.upkeep.run(plan)

    # --- references -----------------------------------------------------------------------------

    @rule(branch=BRANCHES, name=TAGS, data=st.data())
    def tag(self, branch: str, name: str, data: st.DataObject) -> None:
        if branch in self.models and self.models[branch].states:
            model, table = self.models[branch], self.seen(branch)
            snapshot_id = data.draw(st.sampled_from(sorted(model.states)))
            make = table.history.replace_tag if name in model.tags else table.history.create_tag
            make(name, snapshot=snapshot_id, time_retained_ms=data.draw(st.sampled_from([None, 5])))
            model.tags[name] = snapshot_id, model.states[snapshot_id]

    @rule(branch=BRANCHES, name=TAGS, new_name=TAGS)
    def rename_tag(self, branch: str, name: str, new_name: str) -> None:
        tags = self.models[branch].tags if branch in self.models else {}
        if name in tags and new_name not in tags:
            self.seen(branch).history.rename_tag(name, new_name)
            tags[new_name] = tags.pop(name)

    @rule(branch=BRANCHES, name=TAGS)
    def delete_tag(self, branch: str, name: str) -> None:
        if branch in self.models and name in self.models[branch].tags:
            table = self.seen(branch)
            table.history.run(table.history.plan_delete_tags(name, grace_ms=0))
            del self.models[branch].tags[name]

    @rule(branch=BRANCHES)
    def expire_tags(self, branch: str) -> None:
        if branch in self.models:
            table = self.seen(branch)
            table.upkeep.run(table.upkeep.plan_expire_tags(grace_ms=0))
            there = {each.name for each in table.history.tags()}
            model = self.models[branch]
            model.tags = {name: tag for name, tag in model.tags.items() if name in there}

    @rule(branch=BRANCHES, name=st.sampled_from(["u", "v"]), data=st.data())
    def move_consumer(self, branch: str, name: str, data: st.DataObject) -> None:
        if branch in self.models and self.models[branch].states:
            model, table = self.models[branch], self.seen(branch)
            if name in model.consumers and data.draw(st.booleans()):
                table.history.delete_consumer(name)
                del model.consumers[name]
            else:
                model.consumers[name] = data.draw(st.sampled_from(sorted(model.states)))
                table.history.set_consumer(name, model.consumers[name])

    @rule(branch=SIDE_BRANCHES, data=st.data())
    def make_branch(self, branch: str, data: st.DataObject) -> None:
        if branch in self.models:
            return
        main = self.models[MAIN]
        start = data.draw(st.sampled_from([None, *sorted(main.states), *sorted(main.tags)]))
        made = self.models[branch] = BranchModel()
        if isinstance(start, str):
            self.seen(MAIN).history.create_branch(branch, tag=start)
            made.tags[start] = main.tags[start]
            made.states[main.tags[start][0]] = main.tags[start][1]
        else:
            self.seen(MAIN).history.create_branch(branch, snapshot=start)
            if start is not None:
                made.states[start] = main.states[start]

    @rule(branch=SIDE_BRANCHES)
    def delete_branch(self, branch: str) -> None:
        if branch in self.models:
            for staged, _ in self.models[branch].staged:
                self.seen(branch).abort(staged)
            table = self.seen(MAIN)
            if self.models[branch].consumers:
                with pytest.raises(InvalidRequestError, match="in use by consumer"):
                    table.history.plan_delete_branch(branch, grace_ms=0)
                for name in self.models[branch].consumers:
                    self.seen(branch).history.delete_consumer(name)
            table.history.run(table.history.plan_delete_branch(branch, grace_ms=0))
            del self.models[branch]

    @rule(branch=SIDE_BRANCHES)
    def fast_forward(self, branch: str) -> None:
        if not (branch in self.models and self.models[branch].states):
            return
        main, side, table = self.models[MAIN], self.models[branch], self.seen(MAIN)
        try:
            plan = table.history.plan_fast_forward(branch, grace_ms=0)
        except UnsupportedError:
            # Readers would decode rows of one list of keys by another.
            schemas = [each.table_files.schemas for each in (table, self.seen(branch))]
            assert len({each.read(n).partition_keys for each in schemas for n in each.ids()}) > 1
            tally("fast-forwards refused for their keys by the state machine")
            return
        table.history.run(plan)
        main.states = {each: main.states[each] for each in plan.kept_ids} | side.states
        main.tags = {
            name: tag for name, tag in main.tags.items() if name not in plan.lost_tags
        } | side.tags
        self.learn_consumers(MAIN)

    @rule(branch=BRANCHES, data=st.data())
    def roll_back(self, branch: str, data: st.DataObject) -> None:
        if not (branch in self.models and self.models[branch].states):
            return
        model, table = self.models[branch], self.seen(branch)
        target = data.draw(st.sampled_from([*sorted(model.states), *sorted(model.tags)]))
        try:
            if isinstance(target, str):
                snapshot_id, state = model.tags[target]
                table.history.run(table.history.plan_rollback(tag=target, grace_ms=0))
            else:
                snapshot_id, state = target, model.states[target]
                table.history.run(table.history.plan_rollback(snapshot=target, grace_ms=0))
        except InvalidRequestError:
            # It is the latest.
            return
        except UnsupportedError as error:
            # The keys were others then, and a change of keys waits for consumers.
            if "let it read to the end" not in error.message:
                raise
            return
        model.states = {each: model.states[each] for each in model.states if each < snapshot_id}
        model.states[snapshot_id] = state
        model.tags = {name: tag for name, tag in model.tags.items() if tag[0] <= snapshot_id}
        self.learn_consumers(branch)

    def learn_consumers(self, branch: str) -> None:
        """Those that wanted to read what is no more are gone, or moved back."""
        model = self.models[branch]
        there = {each.name: each.next_snapshot_id for each in self.seen(branch).history.consumers()}
        assert all(position <= max(model.states) + 1 for position in there.values())
        model.consumers = there

    # --- what holds -----------------------------------------------------------------------------

    @invariant()
    @precondition(lambda self: hasattr(self, "models"))
    def files_are_those_reached_or_staged(self) -> None:
        table = self.seen(MAIN)
        staged = {
            file.file_name
            for model in self.models.values()
            for write, _ in model.staged
            for message in write.messages
            for file in (*message.written_files, *message.new_indexes)
        }
        left = [path for path in unreachable_files(table) if path.rsplit("/", 1)[-1] not in staged]
        assert (left, missing_files(table)) == ([], [])
        assert_true_hints(table)

    @invariant()
    @precondition(lambda self: hasattr(self, "models"))
    def every_branch_reads_as_its_model(self) -> None:
        tally("steps of the state machine")
        for branch, model in self.models.items():
            table = self.seen(branch)
            assert [each.id for each in table.history.snapshots()] == sorted(model.states), branch
            assert content(table) == model.latest.comparable(), branch
            assert {each.name: each.snapshot.id for each in table.history.tags()} == {
                name: snapshot_id for name, (snapshot_id, _) in model.tags.items()
            }

    @rule()
    def read_every_state(self) -> None:
        for branch, model in self.models.items():
            table = self.seen(branch)
            for snapshot_id, state in model.states.items():
                found = content(table.at(snapshot=snapshot_id))
                assert found == state.comparable(), (branch, snapshot_id)
            for name, (_, state) in model.tags.items():
                assert content(table.at(tag=name)) == state.comparable(), (branch, name)

    def teardown(self) -> None:
        try:
            if hasattr(self, "models"):
                self.read_every_state()
        finally:
            empty_memory()


class ChangingKeysMachine(TableMachine):
    """Histories in which the partition keys change again and again, among all that others have."""

    @initialize(kind=st.sampled_from(list(KEYS)))
    def make(self, kind: str) -> None:
        super().make(kind)

    @rule(data=st.data(), day=DAYS, first=st.integers(0, 6), dynamic=st.booleans())
    def write_under_other_keys(
        self, data: st.DataObject, day: str, first: int, *, dynamic: bool
    ) -> None:
        self.respec(data)
        self.write(MAIN, day, first, "r", deletes=dynamic, compacts=False)
        if dynamic:
            self.overwrite(MAIN, "dynamic", day)


def _text(row: Row) -> str:
    return TableModel(rows=[row]).comparable()[0]


def _once(candidates: Sequence[Row], found: Sequence[str]) -> list[Row]:
    """For each text that was read one row that says it."""
    by_text = {_text(row): row for row in candidates}
    return [by_text[text] for text in found]


@pytest.mark.mission("FS9", "FS10", "PT50", "PT54", "RS8")
class TestTableMachine(TableMachine.TestCase):
    # A step here reads several tables, so a fifth of what other laws try has to do.
    settings = settings(max_examples=max(20, settings().max_examples // 5), stateful_step_count=40)


@pytest.mark.mission("PT50", "RS8")
class TestChangingKeys(ChangingKeysMachine.TestCase):
    settings = settings(max_examples=max(15, settings().max_examples // 10), stateful_step_count=25)
