"""A revert gives the rows of a table on which the reverted verb was never done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    NotRevertible,
    PartitionNotFound,
    StorageError,
    UnsupportedError,
)
from tests.support.histories.reverts import KINDS, RETRACTING, VERBS, fill, is_tried, made_by
from tests.support.tables.builders import compact, content, expire, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import empty_memory, memory_uri
from tests.support.tables.invariants import assert_keys_are_indexed, assert_only_reachable_files

# An example makes two tables, so a quarter of what other laws try has to do.
FEWER = settings().max_examples // 4


@pytest.fixture(autouse=True)
def _empty_memory() -> Any:
    yield
    empty_memory()


@st.composite
def written(draw: st.DrawFn, *, retracts: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of one write, with their kinds; a number makes each value unlike all others."""
    ids = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True))
    day, number = draw(st.sampled_from("ab")), draw(st.integers(0, 10**6))
    kinds = st.sampled_from(["+I", "-D"] if retracts else ["+I"])
    found = [{"id": each, "day": day, "v": f"{number}-{each}"} for each in ids]
    return found, [draw(kinds) for _ in found]


# A write, or a compaction of so many files.
Step = tuple[list[dict[str, Any]], list[str]] | int


def _do(table: Table, step: Step) -> None:
    if isinstance(step, int):
        compact(table, full=step == 0, min_files=None if step == 0 else step)
        return
    values, kinds = step
    if table.schema.has_primary_key:
        table.write(rows(table, values, kinds=kinds))
    else:
        table.write(rows(table, values))


def steps(*, retracts: bool, most: int) -> st.SearchStrategy[list[Step]]:
    """What is done to a table."""
    write = written(retracts=retracts)
    return st.lists(st.one_of(write, write, st.sampled_from([0, 2, 3])), max_size=most)


@settings(max_examples=FEWER, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_reverted_verb_leaves_no_trace_in_the_rows(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    # A rescale changes the option of one of the tables.
    tried = [each for each in VERBS if each != "rescale" and is_tried(kind, each)]
    verb = data.draw(st.sampled_from(tried))
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    table, twin = (KINDS[kind].table(catalog, f"db.{name}") for name in ("t", "twin"))
    retracts = kind in RETRACTING
    both = (table, twin)
    before = data.draw(steps(retracts=retracts, most=4))
    # The verb finds its partition.
    first: Step = ([{"id": 0, "day": "a", "v": "first"}], ["+I"])
    for step in (first, *before):
        for each in both:
            _do(each, step)
    made = made_by(table, VERBS[verb])
    later = data.draw(steps(retracts=retracts, most=4))
    for step in later:
        for each in both:
            _do(each, step)
    done = content(table)
    try:
        result = table.history.revert(*made) if made else None
    except NotRevertible as error:
        event(f"{verb}: {str(error).split(': ', 1)[1][:20]}")
        assert later
        assert content(table) == done
        return
    event(f"{verb}: taken back")
    assert made == () or result is not None
    hides = kind in {"vectors", "first row"}
    # Rows that come back to level 0 wait there for a compaction, and in the twin one came.
    waits = hides and any(isinstance(each, int) for each in later)
    if not waits:
        assert content(table) == content(twin)
    after = data.draw(steps(retracts=retracts, most=3))
    for step in (*after, 0):
        for each in both:
            _do(each, step)
        if not (waits or (hides and isinstance(step, int))):
            assert content(table) == content(twin)
    assert content(table) == content(twin)
    expire(table)
    assert content(table) == content(twin)
    assert_only_reachable_files(table)


@settings(max_examples=FEWER, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_verbs_are_taken_back_newest_first_one_by_one(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    tried = st.sampled_from([each for each in VERBS if is_tried(kind, each)])
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    table = KINDS[kind].table(catalog, "db.t")
    fill(table)
    done = []
    for verb in data.draw(st.lists(tried, min_size=2, max_size=4)):
        before = content(table)
        # A partition that is gone is neither dropped nor renamed again.
        with suppress(StorageError):
            if made := made_by(table, VERBS[verb]):
                done.append((made, before))
        table = catalog.table(table.name)
    for made, before in reversed(done):
        after = content(table)
        first = table.history.revert(*made)
        assert content(catalog.table(table.name)) == before
        table = catalog.table(table.name)
        if data.draw(st.booleans()):
            assert first.snapshot is not None
            table.history.revert(first.snapshot.id)
            table = catalog.table(table.name)
            assert content(table) == after
            table.history.revert(*made)
            table = catalog.table(table.name)
            assert content(table) == before
        assert table.history.plan_revert(*made).taken_back_by is not None
    expire(table)
    assert content(table) == done[0][1] if done else True
    assert_only_reachable_files(table)


# Rows by day, id, and a number that sets equal keys of append tables apart.
State = dict[tuple[str, int, int], str]


@dataclass(frozen=True)
class Commit:
    """A commit of the model: what it does to the rows, or the numbers of those it took back."""

    made: tuple[int, ...]
    change: Callable[[State], State] | None = None
    of: frozenset[int] = frozenset()


def _told(history: list[Commit]) -> list[tuple[str, int, str]]:
    """The rows after the commits that no standing revert took back, in their first order."""
    gone = set[int]()
    for number in reversed(range(len(history))):
        if number not in gone:
            gone |= history[number].of
    state: State = {}
    for number, each in enumerate(history):
        if each.change is not None and number not in gone:
            state = each.change(state)
    return sorted((day, at, v) for (day, at, _), v in state.items())


def _read(table: Table) -> list[tuple[str, int, str]]:
    return sorted((row["day"], row["id"], row["v"]) for row in table.read().to_pylist())


def _commit(table: Table, number: int, verb: str, day: str, ids: list[int]) -> Commit:
    """Carry a verb out; what it does to the rows follows from its arguments, and what it matched.

    Where rows wait in level 0, a compaction is a part of each verb.
    """
    keyed = table.schema.has_primary_key
    new: State = {(day, each, 0 if keyed else number): f"{number}-{each}" for each in ids}
    given = rows(table, [{"day": day, "id": at, "v": v} for (_, at, _), v in new.items()])

    def done(carry_out: Callable[[Table], object], change: Callable[[State], State]) -> Commit:
        def visibly(each: Table) -> None:
            carry_out(each)
            if each.table_files.options.deletion_vectors_enabled:
                compact(each, full=True)

        return Commit(made_by(table, visibly), change)

    match verb:
        case "write":
            return done(lambda each: each.write(given), lambda old: old | new)
        case "delete":
            kinds = ["-D"] * len(ids)
            gone = rows(table, [{"day": day, "id": at, "v": "-"} for at in ids], kinds=kinds)
            return done(
                lambda each: each.write(gone),
                lambda old: {at: v for at, v in old.items() if at not in new},
            )
        case "update":
            where = f"day = '{day}' and id in ({', '.join(map(str, ids))})"
            matched = {(row["day"], row["id"], 0) for row in table.read(where=where).to_pylist()}
            return done(
                lambda each: each.update({"v": f"'{number}'"}, where),
                lambda old: old | dict.fromkeys(matched, str(number)),
            )
        case "overwrite":
            return done(
                lambda each: each.write(given, mode="overwrite"),
                lambda old: {at: v for at, v in old.items() if at[0] != day} | new,
            )
        case "overwrite all":
            return done(
                lambda each: each.write(given, mode="overwrite", dynamic=False),
                lambda _: new,
            )
        case "drop":
            named = [{"day": day}]
            return done(
                lambda each: each.upkeep.drop_partitions(partitions=named),
                lambda old: {at: v for at, v in old.items() if at[0] != day},
            )
        case _:
            return done(lambda each: compact(each, full=True), lambda old: old)


def _check(table: Table, history: list[Commit]) -> None:
    assert _read(table) == _told(history)
    assert_keys_are_indexed(table)


MODELLED = ["append", "append in buckets", "dynamic", "keyed", "vectors"]


@settings(suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("kind", MODELLED)
@given(data=st.data())
@pytest.mark.sampled(2)
def test_rows_are_those_of_the_commits_that_were_not_taken_back(
    kind: str, data: st.DataObject
) -> None:
    table = KINDS[kind].table(Catalog.open(memory_uri(), env=FixedEnv()), "db.t")
    verbs = ["write", "write", "overwrite", "overwrite all", "drop", "compact"]
    verbs += ["delete", "update"] * (kind in RETRACTING)
    days = data.draw(st.sampled_from(["a", "abc"]))
    history: list[Commit] = []
    for number in range(data.draw(st.integers(3, 12))):
        verb = data.draw(st.sampled_from([*verbs, *["revert"] * 5])) if history else "write"
        if verb != "revert":
            day = data.draw(st.sampled_from(days))
            ids = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True))
            # A verb that found nothing to do has left nothing to stand.
            with suppress(PartitionNotFound):
                found = _commit(table, number, verb, day, sorted(ids))
                history += [found] * bool(found.made)
            _check(table, history)
            continue
        at = st.integers(max(0, len(history) - 5), len(history) - 1)
        chosen = data.draw(st.sets(at, min_size=1, max_size=2))
        try:
            result = table.history.revert(*(each for at in chosen for each in history[at].made))
        except (NotRevertible, UnsupportedError) as error:
            event(str(error).split(": ", 1)[1][:20])
        else:
            event(f"taken back: {result.snapshot is not None}")
            if result.snapshot is not None:
                # Those that were taken back before are left out.
                of = {at for at in chosen if set(history[at].made) & set(result.snapshot_ids)}
                history.append(Commit((result.snapshot.id,), of=frozenset(of)))
        _check(table, history)
    compact(table, full=True)
    _check(table, history)
    assert_only_reachable_files(table)
