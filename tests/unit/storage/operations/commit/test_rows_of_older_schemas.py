"""Writes that began under an older schema: published where every row still has a meaning."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeNullability,
    ChangeType,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    Rule,
    SetOption,
    Side,
    Table,
)
from lakewright.storage.errors import InvalidSchema, SchemaMoved
from lakewright.storage.spec.schema_change import SchemaChange
from tests.support.tables.builders import ANY_LOSS, compact, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files

COLUMNS = {"k": "INT", "a": "INT", "r": "ROW<x INT>", "s": "STRING"}
MODES = {
    "lakewright.cast-mode": "explicit",
    "alter-column-null-to-not-null.disabled": "false",
    "bucket": "1",
}
FITS: dict[str, tuple[tuple[SchemaChange, ...], dict[str, Any]]] = {
    "added": ((AddColumn("n", "INT", default="5"),), {"a": 1, "r": {"x": 2}, "s": "t", "n": None}),
    "dropped": ((DropColumn("a"),), {"r": {"x": 2}, "s": "t"}),
    "dropped and added": (
        (DropColumn("a"), AddColumn("a", "STRING")),
        {"r": {"x": 2}, "s": "t", "a": None},
    ),
    "renamed": ((RenameColumn("a", "b"),), {"b": 1, "r": {"x": 2}, "s": "t"}),
    "moved": ((MoveColumn("s", Position(Side.FIRST)),), {"s": "t", "a": 1, "r": {"x": 2}}),
    "widened": ((ChangeType("a", "BIGINT"),), {"a": 1, "r": {"x": 2}, "s": "t"}),
    "member": ((RenameColumn("r.x", "y"),), {"a": 1, "r": {"y": 2}, "s": "t"}),
    "required": ((ChangeNullability("a", nullable=False),), {"a": 1, "r": {"x": 2}, "s": "t"}),
    "format": ((SetOption("file.format", "orc"),), {"a": 1, "r": {"x": 2}, "s": "t"}),
}
kinds = pytest.mark.parametrize("keys", [[], ["k"]], ids=["append", "keyed"])


def table_of(catalog: Catalog, keys: list[str]) -> Table:
    options = MODES if keys else {**MODES, "bucket": "-1"}
    table = new_table(catalog, COLUMNS, keys=keys, options=options)
    table.write(rows(table, [{"k": 0, "a": 0}]))
    return table


@kinds
@pytest.mark.parametrize("case", list(FITS))
@pytest.mark.parametrize("pending", [False, True], ids=["staged", "pending"])
@pytest.mark.mission("SE31")
@pytest.mark.sampled(each="case")
def test_a_write_of_the_old_schema_is_published_by_id(
    catalog: Catalog, keys: list[str], case: str, pending: bool
) -> None:
    changes, expected = FITS[case]
    table = table_of(catalog, keys)
    row = {"k": 1, "a": 1, "r": {"x": 2}, "s": "t"}
    staged = table.stage(rows(table, [row]), commit_user="job", commit_identifier=1)
    if pending:
        table.keep_pending(staged)
    altered = table.alter(*changes)
    if pending:
        altered.commit_pending("job")
    else:
        table.commit(staged)
    (found,) = altered.read(where="k = 1").to_pylist()
    assert found == {"k": 1, **expected}
    compact(altered, full=True, min_files=2)
    assert altered.read(where="k = 1").to_pylist() == [found]
    assert_only_reachable_files(altered)


REFUSED: dict[str, tuple[SchemaChange, str]] = {
    "null": (ChangeNullability("s", nullable=False), "column s is NOT NULL now, and they hold"),
    "null inside": (ChangeNullability("r.x", nullable=False), "a part of column r is NOT NULL"),
    "cast": (ChangeType("a", "TINYINT"), "column a was cast explicitly from INT to TINYINT"),
    "member": (ChangeType("r.x", "STRING"), r"column r\.x was cast explicitly"),
}


@kinds
@pytest.mark.parametrize("case", list(REFUSED))
def test_rows_that_may_not_fit_are_refused_and_can_be_staged_again(
    catalog: Catalog, keys: list[str], case: str
) -> None:
    change, message = REFUSED[case]
    table = table_of(catalog, keys)
    row = {"k": 1, "a": 1, "r": {"x": 2}, "s": None}
    staged = table.stage(rows(table, [row]))
    # The row that is there has null too; its owner gives it up.
    altered = table.alter(change, rules=ANY_LOSS)
    with pytest.raises(SchemaMoved, match=f"{message}.*stage the rows again"):
        table.commit(staged)
    table.abort(staged)
    assert altered.read(columns=["k"]).to_pylist() == [{"k": 0}]
    assert_only_reachable_files(altered)
    again = rows(altered, [{"k": 1, "s": "t"}])
    altered.write(again)
    assert altered.read(columns=["k"]).num_rows == 2


@pytest.mark.parametrize("mode", ["explicit-fail", "explicit-null"])
@pytest.mark.mission("SE39")
def test_where_the_mode_judges_values_an_implicit_cast_that_loses_some_refuses_rows_too(
    catalog: Catalog, mode: str
) -> None:
    table = table_of(catalog, []).alter(SetOption("lakewright.cast-mode", mode))
    staged = table.stage(rows(table, [{"k": 1, "a": 1000, "s": "long"}]))
    wide = table.alter(ChangeType("a", "BIGINT"))
    narrow = wide.alter(ChangeType("s", "VARCHAR(2)"))
    fate = "fail the read" if mode == "explicit-fail" else "become null"
    with pytest.raises(SchemaMoved, match=rf"\(texts longer than 2 characters {fate}\)"):
        table.commit(staged)
    table.abort(staged)
    assert narrow.read().num_rows == 1


LOSSY = {"d": "DECIMAL(9, 2)", "m": "TIMESTAMP(6)", "s": "VARCHAR(10)", "n": "INT"}
NARROWED: dict[str, tuple[ChangeType, object, str | None]] = {
    "text": (ChangeType("s", "VARCHAR(3)"), "abcdefgh", "longer than 3 characters are cut"),
    "short text": (ChangeType("s", "VARCHAR(3)"), "ab", "longer than 3 characters are cut"),
    "decimal": (ChangeType("d", "DECIMAL(5, 2)"), Decimal("12345.67"), "digits before the point"),
    "small decimal": (ChangeType("d", "DECIMAL(5, 2)"), Decimal("123.45"), None),
    "time": (ChangeType("m", "DATE"), datetime(2026, 1, 2, 3), "times of the day are cut"),
    "rounded": (ChangeType("n", "FLOAT"), 2**24 + 1, "rounded to the nearest FLOAT"),
    "exact": (ChangeType("n", "FLOAT"), 2**24 - 1, None),
    "null": (ChangeType("s", "VARCHAR(3)"), None, None),
}


@pytest.mark.parametrize("case", list(NARROWED))
@pytest.mark.mission("SE31")
def test_late_rows_pass_an_implicit_cast_with_a_loss_only_if_their_bounds_prove_it(
    catalog: Catalog, case: str
) -> None:
    change, value, loss = NARROWED[case]
    table = new_table(catalog, {"k": "INT", **LOSSY})
    staged = table.stage(rows(table, [{"k": 1, change.column: value}]))
    late = rows(table, [{"k": 2, change.column: value}])
    table.keep_pending(table.stage(late, commit_user="job", commit_identifier=1))
    plan = table.plan_alter(change)
    told = [each.message for each in plan.findings if each.rule is Rule.OPEN_WRITE]
    altered = table.run_alter(plan)
    if loss is None:
        assert told == []
        table.commit(staged)
        (kept,) = catalog.table("db.t").read(columns=[change.column]).column(0).to_pylist()
        assert kept == value
        return
    assert len(told) == 1
    assert loss in told[0]
    with pytest.raises(SchemaMoved, match=f"{loss}.*stage the rows again"):
        table.commit(staged)
    table.abort(staged)
    assert altered.schema.id == 1


def test_a_compaction_planned_before_an_alter_is_planned_again(catalog: Catalog) -> None:
    table = table_of(catalog, ["k"])
    table.write(rows(table, [{"k": 1, "a": 1}]))
    plan = table.upkeep.plan_compact(full=True)
    altered = table.alter(ChangeType("a", "TINYINT"), RenameColumn("a", "b"))
    with pytest.raises(SchemaMoved, match="open the table and plan again"):
        table.upkeep.run(plan)
    altered.upkeep.run(altered.upkeep.plan_compact(full=True))
    assert sorted(altered.read(columns=["b"]).column("b").to_pylist()) == [0, 1]


def test_rows_from_before_a_required_column_are_refused(catalog: Catalog) -> None:
    table = new_table(catalog, {"k": "INT"})
    staged = table.stage(rows(table, [{"k": 1}]))
    table.alter(AddColumn("c", "INT"), ChangeNullability("c", nullable=False))
    with pytest.raises(SchemaMoved, match="column c is new and NOT NULL"):
        table.commit(staged)
    table.abort(staged)


def test_a_cast_that_stored_values_do_not_survive_waits_for_a_compaction(catalog: Catalog) -> None:
    table = table_of(catalog, ["k"]).alter(ChangeType("a", "STRING"))
    with pytest.raises(InvalidSchema, match="column a as INT, and no client casts it to DATE"):
        table.alter(ChangeType("a", "DATE"))
    plan = table.plan_alter(ChangeType("a", "VARCHAR(3)"))
    assert plan.losses == (
        "~ type of column a: STRING -> VARCHAR(3) (texts longer than 3 characters are cut)",
    )
    table.write(rows(table, [{"k": 0, "a": "2024-01-02"}]))
    compact(table, full=True)
    altered = table.alter(ChangeType("a", "DATE"))
    assert [str(each) for each in altered.read(columns=["a"]).column("a").to_pylist()] == [
        "2024-01-02"
    ]
