"""Readers that a change breaks: which modes deny, which warn, and for whom."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeComment,
    ChangeNullability,
    ChangeType,
    Compatibility,
    DropColumn,
    Finding,
    GateRules,
    GateVerdict,
    MoveColumn,
    Position,
    RenameColumn,
    Rule,
    SetOption,
    Severity,
    Side,
    Table,
)
from lakewright.storage.spec.schema_change import SchemaChange
from tests.support.tables.builders import compact, expire, new_table, rows

COLUMNS = {"k": "INT", "a": "INT", "s": "STRING", "r": "ROW<x INT>", "t": "TIMESTAMP(3)"}
OPTIONS = {"lakewright.cast-mode": "explicit"}
BOTH = (Rule.FORWARD, Rule.BACKWARD)


def table_of(catalog: Catalog, **kind: Any) -> Table:
    table = new_table(catalog, COLUMNS, options=OPTIONS, **kind)
    table.write(rows(table, [{"k": 1, "a": 1, "s": "2024", "r": {"x": 1}}]))
    return table


def findings(
    table: Table, *changes: SchemaChange, mode: str = "BACKWARD", columns: tuple[str, ...] = ()
) -> list[Finding]:
    rules = GateRules(compatibility=Compatibility(mode), columns=columns)
    plan = table.plan_alter(*changes, rules=rules)
    return [each for each in plan.findings if each.rule in BOTH]


def found(table: Table, *changes: SchemaChange, **rules: Any) -> list[tuple[str, str, str | None]]:
    return [
        (each.rule.value, each.severity.value, each.column)
        for each in findings(table, *changes, **rules)
    ]


QUIET: dict[str, SchemaChange] = {
    "add": AddColumn("n", "INT"),
    "comment": ChangeComment("a", "a number"),
    "option": SetOption("snapshot.num-retained.min", "5"),
    "widen": ChangeType("a", "BIGINT"),
    "widen a member": ChangeType("r.x", "BIGINT"),
    "add a member": AddColumn("r.y", "INT"),
}


@pytest.mark.parametrize("case", list(QUIET))
def test_by_default_a_change_that_adds_or_widens_has_no_finding(
    catalog: Catalog, case: str
) -> None:
    plan = table_of(catalog).plan_alter(QUIET[case])
    # A member that changes locks one old client out, which has a rule of its own.
    assert [each for each in plan.findings if each.rule is not Rule.READER_LOCKED_OUT] == []
    assert plan.verdict is GateVerdict.ALLOW


WARNED: dict[str, tuple[SchemaChange, str, str]] = {
    "drop": (DropColumn("a"), "a", "which goes"),
    "rename": (RenameColumn("a", "b"), "a", "which is called b then"),
    "retype": (ChangeType("a", "STRING"), "a", "which is STRING then, and was INT"),
    "drop a row": (DropColumn("r"), "r", "which goes"),
    "rename a member": (RenameColumn("r.x", "y"), "r.x", "which is called y then"),
}


@pytest.mark.parametrize("case", list(WARNED))
def test_a_reader_of_the_older_schema_is_a_warning_and_denies_in_forward_modes(
    catalog: Catalog, case: str
) -> None:
    change, column, told = WARNED[case]
    table = table_of(catalog)
    (finding,) = findings(table, change)
    assert (finding.rule, finding.severity) == (Rule.FORWARD, Severity.WARNING)
    assert finding.column == column
    assert told in finding.message
    assert table.plan_alter(change).verdict is GateVerdict.ALLOW
    for mode in ("FORWARD", "FULL", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE"):
        assert found(table, change, mode=mode) == [("forward", "breaking", column)]
    for mode in ("NONE", "BACKWARD_TRANSITIVE"):
        assert found(table, change, mode=mode) == [("forward", "warning", column)]


def test_forward_modes_deny_values_and_nulls_that_older_types_do_not_hold(catalog: Catalog) -> None:
    table = new_table(catalog, {"k": "INT NOT NULL", "a": "INT", "s": "VARCHAR(9)"})
    relaxed = ChangeNullability("k", nullable=True)
    assert found(table, ChangeType("a", "BIGINT"), relaxed, mode="FORWARD") == [
        ("forward", "breaking", "k"),
        ("forward", "breaking", "a"),
    ]
    assert found(table, ChangeType("a", "BIGINT"), relaxed) == []


def test_a_name_that_another_column_takes_is_told(catalog: Catalog) -> None:
    table = table_of(catalog)
    (finding,) = findings(table, DropColumn("a"), AddColumn("a", "STRING"))
    assert "which goes, and another column has its name, a STRING" in finding.message
    swap = (RenameColumn("a", "tmp"), RenameColumn("s", "a"), RenameColumn("tmp", "s"))
    told = [each.message for each in findings(table, *swap)]
    assert len(told) == 2
    assert all("another column has its name" in each for each in told)


def test_only_columns_under_contract_are_protected(catalog: Catalog) -> None:
    table = table_of(catalog)
    changes = (DropColumn("a"), RenameColumn("r.x", "y"), ChangeType("s", "DATE"))
    assert found(table, *changes, mode="FULL", columns=("r",)) == [
        ("forward", "breaking", "r.x"),
        ("forward", "warning", "a"),
        ("forward", "warning", "s"),
    ]


def test_columns_that_move_are_told_to_readers_by_position(catalog: Catalog) -> None:
    table = table_of(catalog)
    first = Position(Side.FIRST)
    for change in (MoveColumn("s", first), AddColumn("n", "INT", position=first)):
        plan = table.plan_alter(change)
        assert [(each.rule, each.severity) for each in plan.findings] == [
            (Rule.FORWARD, Severity.INFO)
        ]
        assert plan.verdict is GateVerdict.ALLOW


def test_moments_and_wall_clock_times_are_not_the_same(catalog: Catalog) -> None:
    table = table_of(catalog)
    moments = ChangeType("t", "TIMESTAMP(3) WITH LOCAL TIME ZONE")
    assert ("backward", "breaking", "t") in found(table, moments)
    assert ("backward", "warning", "t") in found(table, moments, mode="FORWARD")
    assert ("backward", "warning", "t") in found(table, moments, columns=("a",))
    assert found(new_table(catalog, COLUMNS, name="db.empty", options=OPTIONS), moments) == [
        ("forward", "warning", "t")
    ]


def test_a_default_is_no_value_of_rows_that_are_there(catalog: Catalog) -> None:
    added = AddColumn("n", "INT", default="7")
    (finding,) = findings(table_of(catalog), added)
    assert (finding.rule, finding.severity) == (Rule.BACKWARD, Severity.INFO)
    assert "null in column n" in finding.message
    assert found(new_table(catalog, COLUMNS, name="db.empty"), added) == []


def test_a_transitive_mode_asks_for_each_schema_that_is_still_used(catalog: Catalog) -> None:
    table = table_of(catalog).alter(RenameColumn("a", "b"))
    table.write(rows(table, [{"k": 2, "b": 2}]))
    drop = DropColumn("b")
    (finding,) = findings(table, drop, mode="FORWARD")
    assert (finding.column, finding.details["schemas"]) == ("b", [1])
    transitive = findings(table, drop, mode="FORWARD_TRANSITIVE")
    assert [(each.column, each.details["schemas"]) for each in transitive] == [
        ("b", [1]),
        ("a", [0]),
    ]
    assert "(used by live files)" in transitive[1].message
    # A change of other columns does not repeat what an earlier change did.
    assert [
        each.column for each in findings(table, DropColumn("s"), mode="FORWARD_TRANSITIVE")
    ] == ["s"]
    compact(table, full=True, min_files=2)
    expire(table)
    assert len(findings(table, drop, mode="FORWARD_TRANSITIVE")) == 1


def test_tags_branches_and_kept_batches_use_schemas_too(catalog: Catalog) -> None:
    table = table_of(catalog)
    table.history.create_tag("t")
    table.history.create_branch("side", tag="t")
    staged = table.stage(rows(table, [{"k": 2}]), commit_user="job", commit_identifier=1)
    table.keep_pending(staged)
    table = table.alter(RenameColumn("a", "b"))
    table.write(rows(table, [{"k": 2, "b": 2}]), mode="overwrite")
    (_, older) = findings(table, DropColumn("b"), mode="FORWARD_TRANSITIVE")
    assert older.details["used_by"] == ["a batch of job", "branch side", "tag t"]
    taken = findings(table, AddColumn("a", "DATE"), mode="FULL_TRANSITIVE")
    assert [each.severity for each in taken] == [Severity.BREAKING]
    assert "another column has its name, a DATE" in taken[0].message
