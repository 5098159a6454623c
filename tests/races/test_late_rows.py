"""An alter that refuses rows, beside a write of such rows: never do both end well.

Without a look at the schema after the snapshot, and at the snapshot after the schema, rows are
published without a check: they passed the old schema, and the new one passed the older rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import permutations

import pytest

from lakewright.storage import Catalog, ChangeNullability, ChangeType, Table
from lakewright.storage.spec.schema_change import SchemaChange
from tests.races.outcomes import told
from tests.races.serial import one_by_one
from tests.races.verbs import NOW_MS, Arena, actor_of
from tests.support.processes.interleaving import Explorer, State
from tests.support.stores.stepped_files import Call, Content, DictFiles
from tests.support.tables.builders import comparable, new_table, rows
from tests.support.tables.environment import FixedEnv, SeededIds
from tests.support.tally import tally

_OPTIONS = {
    "bucket": "1",
    "lakewright.cast-mode": "explicit",
    "alter-column-null-to-not-null.disabled": "false",
}
# A change, and a value that it refuses.
CHANGES: dict[str, tuple[SchemaChange, int | None]] = {
    "required": (ChangeNullability("v", nullable=False), None),
    "narrowed": (ChangeType("v", "TINYINT"), 1000),
}
# How rows are written, and the keys of the table.
WRITES: dict[str, tuple[list[str], str]] = {
    "append": ([], "append"),
    "upsert": (["k"], "append"),
    "overwrite": ([], "overwrite"),
}


@cache
def arena(write: str) -> Arena:
    keys, _ = WRITES[write]
    catalog = Catalog(DictFiles(), "/w", FixedEnv(ids=SeededIds(0)))
    options = _OPTIONS if keys else {**_OPTIONS, "bucket-key": "k"}
    table = new_table(catalog, {"k": "INT", "v": "INT"}, keys=keys, options=options)
    table.write(rows(table, [{"k": 1, "v": 1}]))
    fs = table.table_files.fs
    assert isinstance(fs, DictFiles)
    return Arena(table, fs.content)


def shown(ring: Arena, content: Content) -> str:
    """Columns and rows of the table as it is opened anew."""
    files = ring.table_in(content).table_files
    table = Table(replace(files, schema=files.schemas.latest(table=files.name)))
    columns = (f"{each.id} {each.name} {each.type}" for each in table.schema.fields)
    return "\n".join([*columns, *comparable(table.read())])


def verbs(change: SchemaChange, value: int | None, mode: str) -> list[Callable[[Table, int], str]]:
    def alter(table: Table, _: int) -> str:
        table.alter(change)
        return ""

    def write(table: Table, _: int) -> str:
        new = rows(table, [{"k": 2, "v": value}])
        table.write(new, mode="append" if mode == "append" else "overwrite")
        return ""

    return [alter, write]


@pytest.mark.parametrize("write", list(WRITES))
@pytest.mark.parametrize("case", list(CHANGES))
@pytest.mark.sampled(each="case")
@pytest.mark.mission("SE31")
def test_a_change_and_rows_that_it_refuses_never_both_end_well(case: str, write: str) -> None:
    ring = arena(write)
    bodies = verbs(*CHANGES[case], WRITES[write][1])
    actors = [
        actor_of(ring, name, 1, seed=70 + at, verb=bodies[at])
        for at, name in enumerate(("alter", write))
    ]
    serial = {(frozenset[str](), shown(ring, ring.content))}
    for order in permutations(actors):
        done, content = one_by_one(ring, order)
        serial.add((done, shown(ring, content)))
    wrong: dict[str, State] = {}
    ends: list[tuple[str, ...]] = []

    def look(state: State, call: Call | None) -> None:
        if call is not None:
            return
        outcomes = tuple(told(each) for each in state.outcomes)
        ends.append(outcomes)
        done = {a.name for a, each in zip(actors, outcomes, strict=True) if each == "done"}
        found = (frozenset(done), shown(ring, state.content))
        if found not in serial or not set(outcomes) <= {"done", "SchemaDenied", "SchemaMoved"}:
            wrong[f"{outcomes}\n{found[1]}"] = state

    Explorer(actors, ring.content, now_ms=NOW_MS, look=look, preemptions=2).run()
    tally("interleavings explored", len(ends))
    assert not wrong, "\n\n".join(wrong)
    assert {("done", "SchemaMoved"), ("SchemaDenied", "done")} <= {*ends}
