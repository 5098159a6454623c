"""Random histories of one table that several clients write and alter by turns.

After every step each client reads what the model holds, and so are earlier snapshots and tags.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from lakewright.storage import Catalog, ChangeType, RenameColumn
from lakewright.storage.codec.binary_row import row_arity
from tests.interop.test_they_read_ours import as_read_by
from tests.oracles.client import JavaOracle, OracleError, WritingOracle
from tests.support.histories.carrying_out import HistoryDiffers
from tests.support.histories.schema_clients import Client, Ours, Run, Theirs
from tests.support.histories.schema_histories import (
    HELD_ROW,
    JAVA,
    JAVA_LATEST,
    OURS,
    PYPAIMON,
    VALUES,
    Kind,
    SchemaHistory,
    draw,
    shrink,
)
from tests.support.tables.builders import content, new_table, rows
from tests.support.tables.invariants import assert_nothing_missing, assert_readable_history

FLAT = (("k", "INT"), ("a", "INT"), ("b", "STRING"), ("c", "DECIMAL(22, 2)"))
NESTED = (
    ("k", "INT"),
    ("a", "INT"),
    ("r", HELD_ROW),
    ("l", f"ARRAY<{HELD_ROW}>"),
    ("m", f"MAP<INT, {HELD_ROW}>"),
)
# Java 0.9 does not read these in Parquet files of pypaimon; a test below shows it.
NARROW_DECIMALS = ("DECIMAL(6, 2)", "DECIMAL(10, 2)")
FLAT_TYPES = tuple(each for each in VALUES if each not in NARROW_DECIMALS)
ALL = (OURS, JAVA, JAVA_LATEST, PYPAIMON)
# From a date to a timestamp leads an explicit cast only.
CASTS = (("lakewright.cast-mode", "explicit"),)
BUCKET = (("bucket", "1"),)
KINDS = (
    Kind(name="append", columns=FLAT, keyed=False, hands=ALL, types=FLAT_TYPES, options=CASTS),
    Kind(
        name="keyed",
        columns=FLAT,
        keyed=True,
        hands=ALL,
        types=FLAT_TYPES,
        options=(*BUCKET, *CASTS),
    ),
    Kind(
        name="partial",
        columns=FLAT,
        keyed=True,
        hands=ALL,
        types=FLAT_TYPES,
        options=(*BUCKET, *CASTS, ("merge-engine", "partial-update")),
        deletes=False,
        keeps_older=True,
    ),
    Kind(
        name="nested-append", columns=NESTED, keyed=False, hands=(OURS, JAVA_LATEST), is_nested=True
    ),
    Kind(
        name="nested-keyed",
        columns=NESTED,
        keyed=True,
        hands=(OURS, JAVA_LATEST),
        options=BUCKET,
        is_nested=True,
    ),
)
FIXTURES = {JAVA: "java", JAVA_LATEST: "java_latest", PYPAIMON: "pypaimon"}
_NUMBERS = itertools.count()


@pytest.fixture
def shared(tmp_path: Path) -> Catalog:
    """A warehouse with the clock that the others go by."""
    return Catalog.open(str(tmp_path / "warehouse"))


def check(history: SchemaHistory, shared: Catalog, request: pytest.FixtureRequest) -> None:
    """Carry the history out; if that fails, say so with a history as short as can be found."""
    ours = Ours(shared)
    clients: dict[str, Client] = {OURS: ours}
    for name in history.kind.hands:
        if name != OURS:
            clients[name] = Theirs(request.getfixturevalue(FIXTURES[name]), shared.root)

    def differs(candidate: SchemaHistory) -> str | None:
        try:
            Run(candidate, f"db.t{next(_NUMBERS)}", ours, clients).carry_out()
        except HistoryDiffers as error:
            return str(error)
        return None

    told = differs(history)
    if told is not None:
        smallest = shrink(history, lambda candidate: differs(candidate) is not None)
        shorter = differs(smallest) or f"only sometimes:\n{smallest}"
        # A step that is left out may make another one impossible, which is no fault.
        pytest.fail(f"{shorter}\n\nfound in\n\n{told}", pytrace=False)
    for name in shared.list_tables("db"):
        table = shared.table(f"db.{name}")
        assert_nothing_missing(table)
        assert_readable_history(table)


def cases() -> list[object]:
    """Every kind with a short history, and in `make test-deep` with ten long ones."""
    return [
        pytest.param(kind, seed, id=f"{kind.name}-{seed}", marks=[pytest.mark.deep] if seed else [])
        for kind in KINDS
        for seed in range(11)
    ]


@pytest.mark.sampled(1)
@pytest.mark.mission("SE1", "SE8", "SE14", "SE22", "SE25")
@pytest.mark.parametrize(("kind", "seed"), cases())
def test_every_client_reads_the_rows_of_the_model_after_every_step(
    shared: Catalog, request: pytest.FixtureRequest, kind: Kind, seed: int
) -> None:
    check(draw(kind, seed, length=16 if seed else 8), shared, request)


def test_java_0_9_does_not_read_narrow_decimals_of_pypaimon(
    shared: Catalog, java: JavaOracle, java_latest: JavaOracle, pypaimon: WritingOracle
) -> None:
    """So tables that both change have wide decimals only."""
    table = new_table(shared, {"k": "INT", "c": NARROW_DECIMALS[0]})
    pypaimon.write(shared.root, table.name, [{"k": 1, "c": "1.50"}])
    due = content(table)
    assert as_read_by(java_latest, shared, table) == due
    with pytest.raises(OracleError, match="PlainValuesDictionary"):
        java.read(shared.root, table.name)
    table = table.alter(ChangeType("c", "DECIMAL(22, 2)"))
    pypaimon.write(shared.root, table.name, [{"k": 2, "c": "2.50"}], overwrite="table")
    assert as_read_by(java, shared, table) == content(table)


def test_java_takes_one_new_name_inside_of_a_column_at_a_time(
    shared: Catalog, java_latest: JavaOracle
) -> None:
    """So we make the changes that hold several, and Java reads the rows afterwards."""
    table = new_table(shared, {"k": "INT", "r": "ROW<x INT, y INT>"})
    table.write(rows(table, [{"k": 1, "r": {"x": 1, "y": 2}}]))
    renamed = [{"rename_column": ["r", name], "to": f"{name}{name}"} for name in "xy"]
    with pytest.raises(OracleError, match="Duplicate key r"):
        java_latest.alter(shared.root, table.name, *renamed)
    table = shared.table(table.name)
    assert table.schema.id == 0
    table = table.alter(RenameColumn("r.x", "xx"), RenameColumn("r.y", "yy"))
    assert table.read().to_pylist() == [{"k": 1, "r": {"xx": 1, "yy": 2}}]
    assert as_read_by(java_latest, shared, table) == content(table)


def test_filters_find_rows_of_pypaimon_after_java_0_9_has_moved_their_file_up_a_level(
    shared: Catalog, java: JavaOracle, pypaimon: WritingOracle
) -> None:
    """Java 0.9 drops the names of the columns that statistics cover, and pypaimon covers none."""
    table = new_table(shared, {"k": "INT", "a": "INT"}, keys=["k"], options={"bucket": "1"})
    pypaimon.write(shared.root, table.name, [{"k": number, "a": 7} for number in range(3)])
    java.compact(shared.root, table.name)
    (entry,) = table.at().files()
    assert entry.file.value_stats_cols is None
    assert row_arity(entry.file.value_stats.min_values) == 0
    assert table.read("a = 7").num_rows == 3
    assert table.read("k > 0 AND a IS NULL").num_rows == 0
    assert table.read("a > 7").num_rows == 0
