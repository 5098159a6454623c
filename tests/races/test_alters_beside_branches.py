"""An alter beside a fast-forward, which replaces the schemas of main by those of a branch.

After both, the table shows columns and rows of some serial order: the columns of main before the
fast-forward mean nothing in the files of the branch, though their ids may be the same.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations

import pytest

from lakewright.storage import AddColumn, SetOption, Table
from lakewright.storage.operations.references.branches import at_branch
from lakewright.storage.spec.schema_change import SchemaChange
from tests.races.outcomes import told
from tests.races.serial import one_by_one
from tests.races.verbs import NOW_MS, Arena, Verb, actor_of, append_arena
from tests.support.processes.interleaving import Explorer, State
from tests.support.stores.stepped_files import Call, Content, DictFiles
from tests.support.tables.builders import comparable, rows
from tests.support.tally import tally

# The changes of main and of the branch before the race; both give the next id to their column.
BEFORE: dict[str, tuple[SchemaChange | None, SchemaChange | None]] = {
    "neither changed": (None, None),
    "main changed": (AddColumn("y", "STRING"), None),
    "the branch changed": (None, AddColumn("x", "INT")),
    "both changed": (AddColumn("y", "STRING"), AddColumn("x", "INT")),
    "both changed options": (
        SetOption("snapshot.num-retained.min", "7"),
        SetOption("snapshot.num-retained.max", "70"),
    ),
}


@cache
def branched(case: str) -> Arena:
    """A table with a branch that left at its second snapshot, and has one of its own."""
    on_main, on_branch = BEFORE[case]
    table = append_arena().table
    side = table.history.create_branch("side", snapshot=2)
    side = side if on_branch is None else side.alter(on_branch)
    extra = {"x": 7} if isinstance(on_branch, AddColumn) else {}
    side.write(rows(side, [{"id": 9, "day": "b", "v": "side", **extra}]))
    table = table if on_main is None else table.alter(on_main)
    fs = table.table_files.fs
    assert isinstance(fs, DictFiles)
    return Arena(table, fs.content)


def alter(table: Table, number: int) -> str:
    table.alter(AddColumn(f"z{number}", "BIGINT"))
    return ""


def open_and_alter(table: Table, number: int) -> str:
    latest = table.table_files.schemas.latest(table=table.name)
    return alter(Table(replace(table.table_files, schema=latest)), number)


def forward(table: Table, _: int) -> str:
    table.history.fast_forward("side", grace_ms=0)
    return ""


def alter_branch(table: Table, number: int) -> str:
    Table(at_branch(table.table_files, "side")).alter(AddColumn(f"w{number}", "BIGINT"))
    return ""


VERBS: dict[str, Verb] = {
    "alter": alter,
    "open_and_alter": open_and_alter,
    "forward": forward,
    "alter_branch": alter_branch,
}
PAIRS = [("alter", "forward"), ("open_and_alter", "forward"), ("alter_branch", "forward")]
# The last one is of a version that was listed, and is gone when it is read.
ALLOWED = {"SchemaMoved", "StalePlan", "SchemaNotFound"}


def shown(arena: Arena, content: Content) -> str:
    """What the table shows when it is opened: its columns and rows, and those of the branch."""
    found = []
    files = arena.table_in(content).table_files
    for seen in (files, at_branch(files, "side")):
        table = Table(replace(seen, schema=seen.schemas.latest(table=seen.name)))
        ids = seen.schemas.ids()
        assert ids == list(range(len(ids))), f"a schema is missing: {ids}"
        columns = ", ".join(f"{each.id} {each.name} {each.type}" for each in table.schema.fields)
        options = ", ".join(f"{name}={text}" for name, text in sorted(table.schema.options.items()))
        found += [columns, options, *comparable(table.read())]
    return "\n".join(found)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("case", list(BEFORE))
@pytest.mark.sampled(1)
@pytest.mark.mission("SE22")
def test_an_alter_and_a_fast_forward_leave_what_a_serial_order_leaves(
    case: str, pair: tuple[str, str]
) -> None:
    arena = branched(case)
    actors = [
        actor_of(arena, name, 1, seed=50 + at, verb=VERBS[name]) for at, name in enumerate(pair)
    ]
    serial = set()
    for order in (*([each] for each in actors), *permutations(actors)):
        done, content = one_by_one(arena, order)
        serial.add((done, shown(arena, content)))
    wrong: dict[str, State] = {}
    ends = 0

    def look(state: State, call: Call | None) -> None:
        nonlocal ends
        if call is not None:
            return
        ends += 1
        outcomes = [told(each) for each in state.outcomes]
        done = frozenset(
            actor.name for actor, each in zip(actors, outcomes, strict=True) if each == "done"
        )
        assert set(outcomes) <= {"done", *ALLOWED}, outcomes
        found = (done, shown(arena, state.content))
        if found not in serial:
            wrong[f"{outcomes}\n{found[1]}"] = state

    Explorer(actors, arena.content, now_ms=NOW_MS, look=look, preemptions=2).run()
    tally("interleavings explored", ends)
    assert ends > 1
    assert not wrong, "\n\n".join(wrong)
