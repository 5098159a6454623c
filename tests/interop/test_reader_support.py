"""The gate's list of what clients cannot read: each gap is one, and the other clients have none."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeType,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    Rule,
    SetOption,
    Side,
)
from lakewright.storage.spec.reader_support import (
    GAPS,
    JAVA_0_9,
    JAVA_1_4,
    PYPAIMON,
    PYPAIMON_RUST,
    READERS,
)
from lakewright.storage.spec.schema_change import SchemaChange
from tests.interop.test_they_read_ours import NANOSECONDS, as_read_by
from tests.oracles.client import Oracle, OracleError
from tests.support.tables.builders import content, new_table, rows

FIXTURES = {
    JAVA_0_9: "java",
    JAVA_1_4: "java_latest",
    PYPAIMON: "released_pypaimon",
    PYPAIMON_RUST: "rust",
}
COLUMNS = {
    "k": "INT",
    "n": "INT",
    "t": "TIMESTAMP(3)",
    "r": "ROW<a INT, b STRING>",
    "l": "ARRAY<INT>",
    "m": "MAP<STRING, INT>",
}
FIRST = {"k": 1, "n": 5, "r": {"a": 1, "b": "x"}, "l": [1, 2], "m": [("a", 1)]}
# Of each case: the change, a row that is written after it, and the clients that it locks out.
CASES: dict[str, tuple[SchemaChange, dict[str, Any], set[str]]] = {
    "add": (AddColumn("z", "INT", default="7"), {"z": 1}, set()),
    "text": (ChangeType("n", "STRING"), {"n": "x"}, set()),
    "widen": (ChangeType("n", "BIGINT"), {"n": 2**40}, set()),
    "format": (SetOption("file.format", "orc"), {"n": 1}, set()),
    "add a member": (AddColumn("r.c", "INT"), {}, {JAVA_0_9}),
    "rename a member": (RenameColumn("r.b", "c"), {}, {JAVA_0_9}),
    "drop a member": (DropColumn("r.b"), {}, {JAVA_0_9}),
    "move a member": (MoveColumn("r.b", Position(Side.FIRST)), {}, {JAVA_0_9}),
    "widen an element": (ChangeType("l.element", "BIGINT"), {}, {JAVA_0_9}),
    "widen a value": (ChangeType("m.value", "BIGINT"), {}, {JAVA_0_9}),
    "nanoseconds": (
        AddColumn("z", "TIMESTAMP(9)"),
        {"z": NANOSECONDS, "t": dt.datetime(2024, 1, 2)},
        {JAVA_0_9},
    ),
    "multiset": (AddColumn("z", "MULTISET<STRING>"), {"z": [("a", 2)]}, {PYPAIMON}),
}


@pytest.fixture
def clients(request: pytest.FixtureRequest) -> dict[str, Oracle]:
    return {name: request.getfixturevalue(fixture) for name, fixture in FIXTURES.items()}


@pytest.mark.parametrize("case", list(CASES))
def test_a_change_locks_out_the_clients_that_the_gate_names_and_no_others(
    catalog: Catalog, clients: dict[str, Oracle], case: str
) -> None:
    change, row, locked_out = CASES[case]
    table = new_table(catalog, COLUMNS, options={"lakewright.cast-mode": "explicit"})
    table.write(rows(table, [FIRST, {"k": 2}]))
    plan = table.plan_alter(change)
    told = [each for each in plan.findings if each.rule is Rule.READER_LOCKED_OUT]
    assert {each.details["reader"] for each in told} == locked_out
    table = table.alter(change)
    table.write(rows(table, [{"k": 3, **row}]))
    due = content(table)
    failed = {name for name, client in clients.items() if not reads(client, catalog, due)}
    assert failed == locked_out


def test_nanoseconds_of_keyed_tables_lock_one_client_out(
    catalog: Catalog, clients: dict[str, Oracle]
) -> None:
    table = new_table(catalog, {"k": "INT", "v": "INT"}, keys=["k"], options={"bucket": "1"})
    change = AddColumn("z", "TIMESTAMP(9)")
    (finding,) = table.plan_alter(change).findings
    assert finding.details == {"reader": PYPAIMON}
    table = table.alter(change)
    for _ in range(2):
        table.write(rows(table, [{"k": 1, "z": NANOSECONDS}]))
    due = content(table)
    failed = {name for name, client in clients.items() if not reads(client, catalog, due)}
    assert failed == {PYPAIMON}


def reads(client: Oracle, catalog: Catalog, due: list[str]) -> bool:
    try:
        return as_read_by(client, catalog, catalog.table("db.t")) == due
    except OracleError:
        return False


def test_each_gap_is_of_a_client_that_is_tried() -> None:
    assert set(READERS) == set(FIXTURES)
    assert {gap.reader for gap in GAPS} <= set(READERS)
