"""What the gate says of stored values: lost, perhaps lost, or nothing; in which files and tags."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeNullability,
    ChangeType,
    Compatibility,
    Finding,
    GateRules,
    GateVerdict,
    RenameColumn,
    ResetOption,
    Rule,
    SetOption,
    Severity,
    Table,
    Waiver,
)
from lakewright.storage.errors import CommitConflictError, SchemaDenied
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.operations.schema.alter import AlterPlan
from lakewright.storage.operations.schema.validate_rows import profile_files
from lakewright.storage.spec.schema_change import SchemaChange
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import ANY_LOSS, compact, new_table, rows

EXPLICIT = {"lakewright.cast-mode": "explicit", "alter-column-null-to-not-null.disabled": "false"}
COLUMNS = {"k": "INT", "day": "STRING", "a": "INT", "s": "STRING", "r": "ROW<x INT, y INT>"}
SCAN = GateRules(is_scanned=True)


def table_of(catalog: Catalog, values: list[dict[str, Any]] | None = None, **kind: Any) -> Table:
    options = {**EXPLICIT, **kind.pop("options", {})}
    table = new_table(catalog, COLUMNS, options=options, **kind)
    if values is not None:
        table.write(rows(table, values))
    return table


def found(
    table: Table, *changes: SchemaChange, rules: GateRules | None = None
) -> list[tuple[str, str, str | None]]:
    """Rule, severity and column of each finding."""
    return [
        (each.rule.value, each.severity.value, each.column)
        for each in findings(table, *changes, rules=rules)
    ]


def findings(
    table: Table, *changes: SchemaChange, rules: GateRules | None = None
) -> tuple[Finding, ...]:
    values = (Rule.VALUES_LOST, Rule.VALUES_MAY_BE_LOST)
    plan = table.plan_alter(*changes, rules=rules)
    assert AlterPlan.from_json(plan.to_json()).to_json() == plan.to_json()
    return tuple(each for each in plan.findings if each.rule in values)


NARROW = ChangeType("a", "TINYINT")


def test_values_beyond_the_bounds_of_the_new_type_deny_the_change(catalog: Catalog) -> None:
    table = table_of(catalog, [{"k": n, "day": "d", "a": n} for n in (-5, 0, 300)])
    table.write(rows(table, [{"k": 9, "day": "e", "a": 100}]))
    (finding,) = findings(table, NARROW)
    assert (finding.rule, finding.severity) == (Rule.VALUES_LOST, Severity.BREAKING)
    assert "column a of db.t from INT to TINYINT loses at least 1 values" in finding.message
    assert "values beyond -128 to 127 wrap around" in finding.message
    assert "-5 to 300" in finding.message
    assert (finding.details["values"], finding.details["file_count"]) == (1, 1)
    with pytest.raises(SchemaDenied, match=r"is denied: breaking \[values-lost\] column a"):
        table.alter(NARROW)
    assert table.table_files.schemas.ids() == [0]
    # A type that holds the values of today is allowed, whatever the older type could hold.
    assert found(table, ChangeType("a", "SMALLINT")) == []
    assert table.alter(ChangeType("a", "SMALLINT")).schema.id == 1


def test_statistics_that_do_not_tell_are_a_warning_and_a_scan_decides(catalog: Catalog) -> None:
    table = table_of(catalog, [{"k": n, "s": text} for n, text in enumerate(["1", "22", "x"])])
    table.write(rows(table, [{"k": 5, "s": "5"}]))
    numbers = ChangeType("s", "INT")
    (finding,) = findings(table, numbers)
    assert finding.rule is Rule.VALUES_MAY_BE_LOST
    assert finding.severity is Severity.WARNING
    assert "statistics of 2 data files do not show it" in finding.message
    assert "--scan" in finding.way_out
    assert table.plan_alter(numbers).verdict is GateVerdict.ALLOW
    (counted,) = findings(table, numbers, rules=SCAN)
    assert (counted.rule, counted.severity) == (Rule.VALUES_LOST, Severity.BREAKING)
    assert (counted.details["values"], counted.details["is_exact"]) == (1, True)
    assert "'x'" in counted.message
    plan = table.plan_alter(numbers, rules=SCAN)
    with pytest.raises(SchemaDenied, match="loses 1 values"):
        table.run_alter(AlterPlan.from_json(plan.to_json()))
    table.run_alter(table.plan_alter(numbers, rules=GateRules(is_scanned=True, waivers=(WAIVER,))))


WAIVER = Waiver(rule=Rule.VALUES_LOST, column="s", owner="ann", until="2999-12-31")


def test_a_scan_that_finds_no_loss_leaves_no_finding(catalog: Catalog) -> None:
    table = table_of(catalog, [{"k": n, "s": str(n)} for n in range(5)])
    assert found(table, ChangeType("s", "INT")) == [("values-may-be-lost", "warning", "s")]
    assert found(table, ChangeType("s", "INT"), rules=SCAN) == []


def test_a_scan_counts_each_file_and_names_the_largest(catalog: Catalog) -> None:
    table = table_of(catalog, partitions=["day"])
    for day, count in (("a", 3), ("b", 1), ("c", 0)):
        given = [{"k": n, "day": day, "a": 1000} for n in range(count)]
        table.write(rows(table, [*given, {"k": 9, "day": day, "a": 5}]))
    (finding,) = findings(table, NARROW, rules=SCAN)
    assert finding.details["values"] == 4
    assert finding.details["partitions"] == ["day=a", "day=b"]
    largest: Any = finding.details["largest"]
    assert [(each["partition"], each["values"]) for each in largest] == [("day=a", 3), ("day=b", 1)]
    assert "loses 4 values" in finding.message
    assert "day=a/data-" in finding.message


def test_a_scan_reads_the_files_in_question_and_a_sample(catalog: Catalog) -> None:
    table = table_of(catalog, [{"k": 1, "a": 5}])
    for number in range(4):
        table.write(rows(table, [{"k": number, "a": 6}]))
    table.write(rows(table, [{"k": 2, "a": 300}, {"k": 3, "a": 7}]))
    watching, fs = watched(table)
    watching.plan_alter(NARROW, rules=SCAN)
    opened = {call.path for call in fs.calls if "/bucket-" in call.path}
    # The bounds of the other files prove that their values fit.
    plan = table.upkeep.plan_validate_rows()
    assert len(plan.files) == 2
    sample = {each.file for each in plan.files}
    assert {path.rpartition("/")[2] for path in opened} == {newest_file(table), *sample}


def newest_file(table: Table) -> str:
    newest = max(table.at().files(), key=lambda entry: entry.file.max_sequence_number)
    return newest.file.file_name


def test_a_column_that_refuses_null_is_denied_where_null_stands(catalog: Catalog) -> None:
    table = table_of(catalog, [{"k": 1, "a": None}, {"k": 2, "a": None}, {"k": 3, "a": 1}])
    required = ChangeNullability("a", nullable=False)
    (finding,) = findings(table, required)
    assert (finding.rule, finding.severity) == (Rule.VALUES_LOST, Severity.BREAKING)
    assert (finding.details["values"], finding.details["is_exact"]) == (2, True)
    assert "becomes NOT NULL, and null stands there 2 times" in finding.message
    assert found(table, ChangeNullability("k", nullable=False)) == []
    # Rows that were written before a column was added hold null there.
    added = (AddColumn("n", "INT"), ChangeNullability("n", nullable=False))
    (finding,) = findings(table, *added)
    assert (finding.column, finding.details["values"]) == ("n", 3)


def test_members_of_rows_have_no_statistics_and_are_counted_by_a_scan(catalog: Catalog) -> None:
    values = [{"x": 300, "y": None}, {"x": 1, "y": 2}, None, {"x": None, "y": 3}]
    table = table_of(catalog, [{"k": n, "r": each} for n, each in enumerate(values)])
    narrow, required = ChangeType("r.x", "TINYINT"), ChangeNullability("r.y", nullable=False)
    assert found(table, narrow, required) == [
        ("values-may-be-lost", "warning", "r.x"),
        ("values-may-be-lost", "warning", "r.y"),
    ]
    counted = findings(table, narrow, required, rules=SCAN)
    # A row that is null as a whole lacks no member.
    assert [(each.column, each.details["values"]) for each in counted] == [("r.x", 1), ("r.y", 1)]
    empty = table_of(catalog, [{"k": 1}], name="db.empty")
    assert found(empty, narrow, required) == []


@pytest.mark.parametrize(
    ("kind", "given", "path"),
    [
        ("ARRAY<INT>", [[300, 1], None, [], [None, 400]], "c.element"),
        ("MAP<STRING, INT>", [[("k", 300)], None, [("l", 400), ("m", 1)]], "c.value"),
        ("ARRAY<ROW<x INT>>", [[{"x": 300}, None], [{"x": 400}], None], "c.element.x"),
        ("ROW<m MAP<INT, ARRAY<INT>>>", [{"m": [(1, [300, 400])]}, None], "c.m.value.element"),
    ],
)
def test_values_inside_of_arrays_and_maps_are_counted(
    catalog: Catalog, kind: str, given: list[Any], path: str
) -> None:
    table = new_table(catalog, {"k": "INT", "c": kind}, options=EXPLICIT)
    table.write(rows(table, [{"k": n, "c": each} for n, each in enumerate(given)]))
    (finding,) = findings(table, ChangeType(path, "TINYINT"), rules=SCAN)
    assert (finding.column, finding.details["values"]) == (path, 2)


def test_files_of_each_older_schema_are_judged_by_their_own_types(catalog: Catalog) -> None:
    table = table_of(catalog, [{"k": 1, "a": 5}])
    table = table.alter(ChangeType("a", "BIGINT"), RenameColumn("a", "b"))
    table.write(rows(table, [{"k": 2, "b": 2**40}]))
    assert found(table, ChangeType("b", "DOUBLE")) == []
    (finding,) = findings(table, ChangeType("b", "INT"))
    assert (finding.column, finding.details["file_count"]) == ("b", 1)
    assert "from BIGINT to INT" in finding.message


def test_a_cast_without_a_loss_is_asked_of_files_that_have_another_type(catalog: Catalog) -> None:
    """Readers cast from the type of each file, not from the type that the column has today."""
    table = table_of(catalog, [{"k": 1, "s": "true"}]).alter(ChangeType("s", "BOOLEAN"))
    (finding,) = findings(table, ChangeType("s", "INT"))
    assert finding.rule is Rule.VALUES_MAY_BE_LOST
    assert "column s of db.t from STRING to INT" in finding.message
    (counted,) = findings(table, ChangeType("s", "INT"), rules=SCAN)
    assert (counted.severity, counted.details["values"]) == (Severity.BREAKING, 1)
    # What is lost already is no reason against a wider type.
    narrow = table.alter(ChangeType("s", "INT"), rules=ANY_LOSS)
    assert found(narrow, ChangeType("s", "BIGINT"), rules=SCAN) == []


MODE = "lakewright.cast-mode"


def found_in(mode: str) -> Any:
    return SetOption(MODE, mode) if mode else ResetOption(MODE)


@pytest.mark.parametrize(
    ("before", "after", "fate"),
    [
        ("explicit-null", "", "wrap around"),
        ("explicit-null", "explicit-fail", "fail the read"),
        ("explicit", "explicit-fail", "fail the read"),
        ("explicit", "explicit-null", "become null"),
        ("explicit", "implicit", None),
    ],
)
@pytest.mark.mission("SE8")
def test_another_cast_mode_is_judged_by_the_values_that_are_read_in_another_way(
    catalog: Catalog, before: str, after: str, fate: str | None
) -> None:
    table = table_of(catalog, [{"k": 1, "a": 300}], options={MODE: before})
    mode = found_in(after)
    assert found(table, mode) == []
    table = table.alter(NARROW, rules=ANY_LOSS)
    told = findings(table, mode)
    assert len(told) == (fate is not None)
    if fate is not None:
        assert (told[0].rule, told[0].severity) == (Rule.VALUES_LOST, Severity.BREAKING)
        assert fate in told[0].message
        assert f"read in cast mode {after or 'implicit'}, loses 1 values" in told[0].message


@pytest.mark.parametrize(
    ("mode", "fate"),
    [("explicit", "wrap around"), ("explicit-null", "become null"), ("explicit-fail", "fail the")],
)
def test_a_finding_says_what_becomes_of_values_in_the_cast_mode_of_the_table(
    catalog: Catalog, mode: str, fate: str
) -> None:
    table = table_of(catalog, [{"k": 1, "a": 300, "s": "x"}], options={MODE: mode})
    (finding,) = findings(table, NARROW)
    assert fate in finding.message
    assert fate in table.plan_alter(NARROW).losses[0]


def test_values_that_only_a_tag_holds_are_a_warning_unless_the_mode_is_transitive(
    catalog: Catalog,
) -> None:
    table = table_of(catalog, [{"k": 1, "a": 300}])
    table.history.create_tag("before")
    table.write(rows(table, [{"k": 1, "a": 3}]), mode="overwrite")
    (finding,) = findings(table, NARROW)
    assert (finding.rule, finding.severity) == (Rule.VALUES_LOST, Severity.WARNING)
    assert finding.details["tags"] == ["before"]
    assert "only tag before holds them" in finding.message
    strict = GateRules(compatibility=Compatibility.BACKWARD_TRANSITIVE)
    assert found(table, NARROW, rules=strict) == [("values-lost", "breaking", "a")]
    altered = table.alter(NARROW)
    assert altered.at(tag="before").read(columns=["a"]).to_pylist() == [{"a": 300}]


def test_values_that_only_a_branch_holds_are_named_with_the_branch(catalog: Catalog) -> None:
    table = table_of(catalog, [{"k": 1, "a": 3}])
    table.history.create_tag("t")
    branch = table.history.create_branch("side", tag="t")
    branch.write(rows(branch, [{"k": 2, "a": 300}]))
    (finding,) = findings(table, NARROW)
    assert finding.severity is Severity.WARNING
    assert finding.details["branches"] == ["side"]
    # On the branch itself its own files count.
    assert found(branch, NARROW) == [("values-lost", "breaking", "a")]


def test_rows_that_a_deletion_vector_names_do_not_count(catalog: Catalog) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    given = [{"k": n, "a": 300 if n == 1 else 3} for n in range(100)]
    table = table_of(catalog, given, keys=["k"], options=options)
    compact(table, full=True)
    assert found(table, NARROW) == [("values-lost", "breaking", "a")]
    table.write(rows(table, [{"k": 1, "a": 4}]))
    compact(table)
    assert table.read(where="a = 300").num_rows == 0
    assert found(table, NARROW) == [("values-may-be-lost", "warning", "a")]
    assert found(table, NARROW, rules=SCAN) == []


@pytest.mark.parametrize("mode", list(Compatibility))
def test_columns_that_two_branches_add_under_one_id_are_two(
    catalog: Catalog, mode: Compatibility
) -> None:
    table = table_of(catalog, [{"k": 1}])
    table.history.create_tag("t")
    branch = table.history.create_branch("side", tag="t").alter(AddColumn("note", "STRING"))
    branch.write(rows(branch, [{"k": 2, "note": "a long one", "a": 300}]))
    table = table.alter(AddColumn("amount", "INT"), AddColumn("r.z", "INT"))
    assert table.schema.field("amount").id == branch.schema.field("note").id
    plan = table.plan_alter(ChangeType("amount", "BIGINT"), rules=GateRules(compatibility=mode))
    assert [each for each in plan.findings if each.details.get("branches")] == []
    assert not any("note" in each.message for each in plan.findings)
    assert not any("branch side" in each.message for each in plan.findings)
    # Columns of before are still those of both.
    (finding,) = findings(table, NARROW)
    assert finding.details["branches"] == ["side"]


def test_values_that_are_lost_beside_deleted_rows_are_proved(catalog: Catalog) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    given = [{"k": n, "a": 300} for n in range(50)]
    table = table_of(catalog, given, keys=["k"], options=options)
    compact(table, full=True)
    table.write(rows(table, [{"k": 1, "a": 4}, {"k": 2, "a": 4}]))
    compact(table)
    (finding,) = findings(table, NARROW)
    assert (finding.rule, finding.severity) == (Rule.VALUES_LOST, Severity.BREAKING)
    assert (finding.details["values"], finding.details["is_exact"]) == (48, False)


def test_rows_of_keyed_tables_count_before_merging_and_a_compaction_settles_it(
    catalog: Catalog,
) -> None:
    table = table_of(catalog, [{"k": 1, "a": 300}], keys=["k"], options={"bucket": "1"})
    table.write(rows(table, [{"k": 1, "a": 3}]))
    (finding,) = findings(table, NARROW)
    assert "in 1 data file before merging" in finding.message
    assert "compact the table fully first" in finding.way_out
    compact(table, full=True)
    assert found(table, NARROW) == []


def test_the_owner_of_a_table_may_accept_a_loss(catalog: Catalog) -> None:
    table = table_of(catalog, [{"k": 1, "a": 300}])
    assert found(table, NARROW, rules=ANY_LOSS) == [("values-lost", "warning", "a")]
    elsewhere = GateRules(columns=("k",))
    assert found(table, NARROW, rules=elsewhere) == [("values-lost", "warning", "a")]
    here = GateRules(columns=("a",))
    assert found(table, NARROW, rules=here) == [("values-lost", "breaking", "a")]
    waiver = Waiver(rule=Rule.VALUES_LOST, column="a", owner="ann", until="2999-12-31")
    waived = table.plan_alter(NARROW, rules=GateRules(waivers=(waiver,)))
    assert waived.verdict is GateVerdict.ALLOW
    assert table.run_alter(waived).schema.id == 1


def test_rows_that_arrive_after_the_plan_are_judged_too(catalog: Catalog) -> None:
    table = table_of(catalog, [{"k": 1, "a": 3}])
    plan = table.plan_alter(NARROW)
    assert plan.findings == ()
    table.write(rows(table, [{"k": 2, "a": 300}]))
    with pytest.raises(SchemaDenied, match="loses 1 values"):
        table.run_alter(plan)


def test_rows_that_arrive_after_a_scan_are_scanned_too(catalog: Catalog) -> None:
    table = table_of(catalog, [{"k": 1, "s": "1"}])
    numbers = ChangeType("s", "INT")
    plan = table.plan_alter(numbers, rules=SCAN)
    assert plan.verdict is GateVerdict.ALLOW
    table.write(rows(table, [{"k": 2, "s": "x"}]))
    with pytest.raises(SchemaDenied, match="loses 1 values"):
        table.run_alter(plan)
    assert table.table_files.schemas.ids() == [0]


@dataclass(frozen=True)
class WritingEngine(LocalEngine):
    """Another client writes a row during each of the first scans."""

    table: Table = field(kw_only=True)
    texts: list[str] = field(kw_only=True)
    scans: list[int] = field(default_factory=list)

    def map(self, function: Any, tasks: Any) -> Any:
        found = LocalEngine.map(self, function, tasks)
        if getattr(function, "func", None) is profile_files:
            # The sample.
            return found
        self.scans.append(len(tasks))
        if self.texts:
            self.table.write(rows(self.table, [{"k": 9, "s": self.texts.pop(0)}]))
        return found


@pytest.mark.mission("SE8")
def test_rows_that_arrive_while_the_change_is_judged_are_judged_too(catalog: Catalog) -> None:
    table = table_of(catalog, [{"k": 1, "s": "1"}])
    numbers = ChangeType("s", "INT")
    plan = table.plan_alter(numbers, rules=SCAN)
    good = WritingEngine(table=table, texts=["2", "3"])
    bad = WritingEngine(table=table, texts=["4", "x"])
    with pytest.raises(SchemaDenied, match="loses 1 values"):
        table.run_alter(plan, bad)
    # The file of the plan, and then the new one of each commit.
    assert bad.scans == [1, 1, 1]
    table.write(rows(table, [{"k": 1, "s": "1"}]), mode="overwrite")
    assert table.run_alter(plan, good).schema.id == 1
    assert len(good.scans) == 3


def test_an_alter_gives_up_where_rows_change_faster_than_they_are_judged(catalog: Catalog) -> None:
    table = table_of(catalog, [{"k": 1, "s": "1"}])
    plan = table.plan_alter(ChangeType("s", "INT"), rules=SCAN)
    with pytest.raises(CommitConflictError, match="10 times while the change"):
        table.run_alter(plan, WritingEngine(table=table, texts=["1"] * 11))
    assert table.table_files.schemas.ids() == [0]


def test_statistics_that_a_table_does_not_keep_are_no_proof(catalog: Catalog) -> None:
    table = table_of(catalog).alter(SetOption("metadata.stats-mode", "none"))
    table.write(rows(table, [{"k": 1, "a": 3}]))
    required = ChangeNullability("a", nullable=False)
    assert found(table, NARROW, required) == [
        ("values-may-be-lost", "warning", "a"),
        ("values-may-be-lost", "warning", "a"),
    ]
    assert found(table, NARROW, required, rules=SCAN) == []


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_scan_reads_every_format(catalog: Catalog, file_format: str) -> None:
    columns = {"k": "INT", "c": "CHAR(4)", "d": "DECIMAL(6, 2)"}
    options = {**EXPLICIT, "file.format": file_format, "metadata.stats-mode": "none"}
    table = new_table(catalog, columns, options=options)
    given = [("ab", "1.25"), ("abcd", "1.50"), (None, "9999.00")]
    table.write(rows(table, [{"k": 1, "c": text, "d": Decimal(number)} for text, number in given]))
    changes = (ChangeType("c", "VARCHAR(3)"), ChangeType("d", "DECIMAL(4, 1)"))
    counted = findings(table, *changes, rules=SCAN)
    assert [(each.column, each.details["values"]) for each in counted] == [("c", 1), ("d", 2)]


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": "true"}])
@pytest.mark.parametrize("others", [0, 2])
def test_rows_that_delete_others_are_no_values_that_become_not_null(
    catalog: Catalog, options: dict[str, str], others: int
) -> None:
    table = table_of(catalog, [{"k": n, "s": "x"} for n in range(5)], keys=["k"], options=options)
    deleted = [{"k": 0, "s": None, "_rowkind": "-D"}, {"k": 1, "s": None, "_rowkind": "-U"}]
    # In a file of their own, and beside rows that stay.
    table.write(deleted + [{"k": 10 + n, "s": "y", "_rowkind": "+I"} for n in range(others)])
    required = ChangeNullability("s", nullable=False)
    assert found(table, required, rules=SCAN) == []
    plain = [] if not others else [("values-may-be-lost", "warning", "s")]
    assert found(table, required) == plain
    table.write([{"k": 20, "s": None, "_rowkind": "+I"}, {"k": 2, "s": None, "_rowkind": "-D"}])
    (counted,) = findings(table, required, rules=SCAN)
    assert (counted.details["values"], counted.severity) == (1, Severity.BREAKING)
    assert "replaced or deleted hold them" in counted.way_out
