"""A change of partition keys beside verbs that the other races lack.

A fast-forward takes the schemas of a branch, an exchange works on two tables, a sort and a revert
commit files that were planned under former keys, and a repair adds files that lie elsewhere. After
each order of calls, rows and keys are those of a serial order, or of one whose other verb failed
and said so. Then the table is whole, takes a write, and holds no file that nothing refers to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from itertools import permutations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import StalePlan, StorageError, UnsupportedError
from lakewright.storage.operations.running.engine import LocalEngine
from tests.races.outcomes import told
from tests.races.serial import one_by_one
from tests.races.verbs import NOW_MS, Arena, append_arena, keyed_arena
from tests.support.processes.interleaving import Actor, Explorer, State
from tests.support.stores.stepped_files import Call, Content, DictFiles, SteppedFiles, Verb
from tests.support.tables.builders import comparable, new_table, remove_orphans, rows
from tests.support.tables.environment import FixedClock, FixedEnv, SeededIds
from tests.support.tables.invariants import (
    assert_nothing_missing,
    assert_only_reachable_files,
    assert_readable_history,
)
from tests.support.tally import tally

T, STAGED, SIDE = "db.t", "db.staged", "db.t$branch_side"
_LANDED = "/landed"
Act = Callable[[Table], object]


@dataclass(frozen=True)
class Ring:
    """A warehouse in memory; its tables were opened before the race."""

    arena: Arena
    tables: tuple[str, ...]

    def catalog(self, files: SteppedFiles, seed: int, now_ms: int = NOW_MS) -> Catalog:
        return Catalog(files, "/w", FixedEnv(FixedClock(now_ms), SeededIds(seed)))

    def actor(self, name: str, table: str, seed: int, act: Act) -> Actor:
        opened = self.catalog(DictFiles(self.arena.content, NOW_MS), seed).table(table)

        def body(files: SteppedFiles) -> object:
            env = FixedEnv(FixedClock(NOW_MS), SeededIds(seed))
            return act(Table(replace(opened.table_files, fs=files, env=env))) or ""

        return Actor(name, body)


def ring_of(table: Table, *tables: str) -> Ring:
    fs = table.table_files.fs
    assert isinstance(fs, DictFiles)
    return Ring(Arena(table, fs.content), tables)


# --- the warehouses -----------------------------------------------------------------------------


@cache
def plain(kind: str) -> Ring:
    table = (append_arena if kind == "append" else keyed_arena)().table
    return ring_of(table, T)


@cache
def branched(kind: str) -> Ring:
    """A branch left at the second snapshot, and has one of its own."""
    table = (append_arena if kind == "append" else keyed_arena)().table
    side = table.history.create_branch("side", snapshot=2)
    side.write(rows(side, [{"id": 9, "day": "b", "v": "side"}]))
    return ring_of(table, T, SIDE)


@cache
def paired(kind: str) -> Ring:
    """Another table has a partition more, in two files."""
    table = (append_arena if kind == "append" else keyed_arena)().table
    files = table.table_files
    catalog = Catalog(files.fs, "/w", FixedEnv(ids=SeededIds(40)))
    options = dict(table.schema.options)
    keys = table.schema.primary_keys
    other = new_table(catalog, name=STAGED, partitions=["day"], keys=keys, options=options)
    for v in "pq":
        given = [{"id": number, "day": "s", "v": f"{v}{number}"} for number in (1, 2)]
        other.write(rows(other, [*given, {"id": 1, "day": "stays", "v": v}]))
    return ring_of(table, T, STAGED)


@cache
def unaware(_: str) -> Ring:
    """Without buckets, as a sort asks for; rows of several files of a day are in no order."""
    catalog = Catalog(DictFiles(), "/w", FixedEnv(ids=SeededIds(0)))
    table = new_table(catalog, partitions=["day"])
    for v in "zyx":
        table.write(
            rows(table, [{"id": 1, "day": day, "v": f"{v}{n}"} for day in "ab" for n in "21"])
        )
    return ring_of(table, T)


@cache
def landed(_: str) -> Ring:
    """A folder was taken over, and has got another file since."""
    catalog = Catalog(DictFiles(), "/w", FixedEnv(ids=SeededIds(0)))
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, [{"id": 1, "day": "own", "v": "own"}]))
    _land(table, "day=a/one.parquet", 1)
    _land(table, "day=b/two.parquet", 2)
    table.upkeep.add_partitions(f"memory:/{_LANDED}", age_ms=0)
    table = catalog.table(T)
    _land(table, "day=a/three.parquet", 3)
    return ring_of(table, T)


def _land(table: Table, path: str, number: int) -> None:
    sink = BytesIO()
    pq.write_table(pa.table({"id": pa.array([number], pa.int64()), "v": [f"l{number}"]}), sink)
    table.table_files.fs.write_bytes(f"{_LANDED}/{path}", sink.getvalue())


# --- the verbs ----------------------------------------------------------------------------------


def forward(table: Table) -> None:
    table.history.fast_forward("side", grace_ms=0)


def exchange(table: Table) -> None:
    table.upkeep.exchange_partition(STAGED, [{"day": "s"}])


def sort(table: Table) -> None:
    engine = LocalEngine(env=table.table_files.env)
    table.upkeep.run(table.upkeep.plan_sort_compact(["v"]), engine)


def revert(table: Table) -> None:
    """The third snapshot of both arenas is a compaction."""
    table.history.revert(3)


def repair(table: Table) -> None:
    table.upkeep.repair_partitions(mode="sync", age_ms=0)


def respec(*keys: str) -> Act:
    def act(table: Table) -> None:
        table.upkeep.respec(keys)

    return act


# Keys that go, and keys that come; of a primary-key table these come after others have gone.
KEYS = {"append": [(), ("day", "v")], "keyed": [(), ("id",)]}
# What the message of an exchange says that ended between its two commits.
_IN_BOTH = "may have copies by now"
LATER_MS = NOW_MS + 3_600_000


@dataclass(frozen=True)
class Pair:
    """A verb beside a change of the keys of a table, which ends well, and how the verb may end."""

    ring: Callable[[str], Ring]
    verb: Act
    may_end: frozenset[str]
    kinds: tuple[str, ...] = ("append", "keyed")
    # Whose keys change, and how; files that were taken over may lack keys, which cannot go.
    of: str = T
    numbers: tuple[int, ...] = (0, 1)
    # Snapshots of before that are the latest of main for a while.
    passed: tuple[int, ...] = ()
    # The change may have to be planned again, and errors of the verb name a way that ends it well.
    has_way_out: bool = False


_STALE = frozenset({"SchemaMoved", "StalePlan"})
_FORWARDS = frozenset({"UnsupportedError", "StalePlan"})
_EXCHANGES = _STALE | {"InvalidRequestError", "PartitionNotFound"}
PAIRS = {
    # Of main's own keys.
    "fast-forward": Pair(branched, forward, _FORWARDS, passed=(2, 3), has_way_out=True),
    "fast-forward to it": Pair(branched, forward, _FORWARDS, of=SIDE, passed=(2, 3)),
    "exchange from it": Pair(paired, exchange, _EXCHANGES, of=STAGED),
    "exchange to it": Pair(paired, exchange, _STALE),
    "sort": Pair(unaware, sort, _STALE, kinds=("append",)),
    "revert": Pair(plain, revert, _STALE | {"NotRevertible"}),
    "repair": Pair(landed, repair, _STALE, kinds=("append",), numbers=(1,)),
}
CASES = [
    (name, kind, number)
    for name, pair in PAIRS.items()
    for kind in pair.kinds
    for number in pair.numbers
]
Shown = dict[str, list[str]]


class Judge:
    """Looks at each state of a race, and at each end."""

    def __init__(self, ring: Ring, pair: Pair, actors: Sequence[Actor]) -> None:
        self.ring = ring
        self.pair = pair
        self.actors = actors
        self.ends: Counter[tuple[str, ...]] = Counter()
        self.wrong: dict[str, State] = {}
        self._read: dict[object, Shown] = {}
        self._serial: dict[frozenset[str], list[Shown]] = {}
        for order in ([], *([each] for each in actors), *permutations(actors)):
            done, content = one_by_one(ring.arena, order)
            self._serial.setdefault(done, []).append(self.rows(content))
        self._visible = {
            name: [shown[name] for each in self._serial.values() for shown in each]
            for name in ring.tables
        }
        table = ring.arena.table_in(ring.arena.content)
        self._visible[T] += [comparable(table.at(snapshot=each).read()) for each in pair.passed]

    def rows(self, content: Content) -> Shown:
        """The rows of each table, opened anew."""
        key = frozenset(content.items())
        if key not in self._read:
            catalog = self.ring.catalog(DictFiles(content, NOW_MS), 60)
            self._read[key] = {
                name: comparable(catalog.table(name).read()) for name in self.ring.tables
            }
        return self._read[key]

    def look(self, state: State, call: Call | None) -> None:
        try:
            if call is None:
                self._check_end(state)
            elif call.verb is not Verb.OPEN and "/bucket-" not in call.path:
                self._check_amid(state)
        except (StorageError, AssertionError) as error:
            self._found(f"{type(error).__name__}: {error}", state)

    def _found(self, what: str, state: State) -> None:
        ended = [told(node.outcome) if node.outcome else "under way" for node in state.nodes]
        self.wrong.setdefault(f"{ended} {what}", state)

    def _check_amid(self, state: State) -> None:
        """What a reader sees right now that opens the tables."""
        for name, seen in self.rows(state.content).items():
            if seen not in self._visible[name]:
                self._found(f"rows of {name} that no serial order has are seen: {seen}", state)

    def _check_end(self, state: State) -> None:
        outcomes = tuple(told(each) for each in state.outcomes)
        self.ends[outcomes] += 1
        may_end = {"done", *(_STALE if self.pair.has_way_out else ())}
        if outcomes[0] not in may_end or outcomes[1] not in {"done", *self.pair.may_end}:
            self._found("is no way to end", state)
        ended = zip(self.actors, outcomes, strict=True)
        done = frozenset(each.name for each, how in ended if how == "done")
        error = str(state.outcomes[1].error or "")
        due = self._serial.get(done, [])
        only = self._serial[frozenset({self.actors[1].name})][0]
        if _IN_BOTH in error:
            due = [{**each, T: only[T]} for each in due]
        content = state.content
        found = self.rows(content)
        if error and found not in due and self.pair.has_way_out:
            content = self._on_the_way_out(content, error)
            due, found = [only], self.rows(content)
        if found not in due:
            self._found(f"rows of no serial order: {found}", state)
        self._go_on(content)

    def _on_the_way_out(self, content: Content, error: str) -> Content:
        """Do what the errors of a fast-forward say, until it is done."""
        files = DictFiles(content, LATER_MS)
        catalog = self.ring.catalog(files, 62, LATER_MS)
        for _ in range(4):
            told_id = re.search(r"roll back to (\d+)|rollback db\.t --snapshot (\d+)", error)
            if told_id:
                catalog.table(T).history.rollback(
                    snapshot=int(told_id[1] or told_id[2]), grace_ms=0
                )
            try:
                forward(catalog.table(T))
            except (StalePlan, UnsupportedError) as again:
                error = str(again)
            else:
                return files.content
        raise AssertionError(f"the way out does not end: {error}")

    def _go_on(self, content: Content) -> None:
        """Let a writer come later, and orphans be removed: all is there, and nothing else."""
        files = DictFiles(content, LATER_MS)
        catalog = self.ring.catalog(files, 61, LATER_MS)
        for name in self.ring.tables:
            table = catalog.table(name)
            before = comparable(table.read())
            table.write(rows(table, [{"id": 77, "day": "z", "v": "later"}]))
            table = catalog.table(name)
            assert len(comparable(table.read())) == len(before) + 1, "a later write is not there"
            assert {*before} < {*comparable(table.read())}
        for name in self.ring.tables:
            table = catalog.table(name)
            assert_nothing_missing(table)
            if name != SIDE:
                assert_readable_history(table)
                remove_orphans(table)
                assert_only_reachable_files(table)
            table.upkeep.respec(table.schema.partition_keys)


def judged(name: str, kind: str, number: int) -> Judge:
    pair = PAIRS[name]
    ring = pair.ring(kind)
    actors = [
        ring.actor("respec", pair.of, 90 + number, respec(*KEYS[kind][number])),
        ring.actor(name, T, 70, pair.verb),
    ]
    judge = Judge(ring, pair, actors)
    explored = Explorer(
        actors, ring.arena.content, now_ms=NOW_MS, look=judge.look, preemptions=1
    ).run()
    tally("interleavings explored", explored.ends)
    tally("distinct states of interleavings", explored.states)
    return judge


@pytest.mark.mission("PT1")
@pytest.mark.parametrize(("name", "kind", "number"), CASES)
@pytest.mark.sampled(1)
@pytest.mark.deep
def test_a_respec_and_a_verb_end_as_if_one_came_after_the_other(
    name: str, kind: str, number: int
) -> None:
    judge = judged(name, kind, number)
    # The states hold what led there, whose own words would bury these.
    if judge.wrong:
        pytest.fail("\n".join(judge.wrong), pytrace=False)
    assert len(judge.ends) > 1
