"""All findings about a change at once: refusals, verdicts, waivers, and what a plan costs."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeComment,
    ChangeNullability,
    ChangeTableComment,
    ChangeType,
    Compatibility,
    Dependent,
    DropColumn,
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
    Waiver,
)
from lakewright.storage.errors import (
    ColumnInUse,
    InvalidOption,
    InvalidRequestError,
    InvalidSchema,
    SchemaDenied,
)
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.operations.schema.alter import AlterPlan
from lakewright.storage.spec.reader_support import JAVA_0_9, PYPAIMON
from lakewright.storage.spec.schema_change import SchemaChange
from tests.support.stores.watched_files import WatchedFiles, watched
from tests.support.tables.builders import compact, events, new_table, rows

COLUMNS = {"k": "INT", "a": "INT", "s": "STRING"}
EXPLICIT = {"bucket": "1", "lakewright.cast-mode": "explicit"}


def table_of(catalog: Catalog) -> Table:
    table = new_table(catalog, COLUMNS, keys=["k"], options=EXPLICIT)
    table.write(rows(table, [{"k": n, "a": n * 100, "s": str(n)} for n in range(5)]))
    return table


def test_all_refusals_and_findings_are_told_at_once_and_none_hides_another(
    catalog: Catalog,
) -> None:
    table = table_of(catalog)
    changes = (
        DropColumn("k"),
        ChangeType("a", "TINYINT"),
        DropColumn("nowhere"),
        SetOption("merge-engine", "first-row"),
    )
    plan = table.plan_alter(*changes)
    breaking = [each for each in plan.findings if each.severity is Severity.BREAKING]
    assert [each.rule.value for each in breaking] == ["refused"] * 3 + ["values-lost"]
    assert plan.verdict is GateVerdict.DENY
    assert AlterPlan.from_json(plan.to_json()).verdict is GateVerdict.DENY
    with pytest.raises(
        SchemaDenied, match=r"denied for 4 reasons: 1\. .*primary key.*4\. "
    ) as error:
        table.alter(*changes)
    assert len(error.value.details["findings"]) == 4
    assert table.table_files.schemas.ids() == [0]


def test_a_refusal_ends_with_its_own_way_out(catalog: Catalog) -> None:
    (finding,) = table_of(catalog).plan_alter(DropColumn("k")).findings
    assert finding.message.endswith("create a new table with another key")
    assert finding.way_out == ""
    assert str(finding) == f"breaking [refused] {finding.message}"


WAITING: dict[str, tuple[tuple[SchemaChange, ...], type[Exception], str]] = {
    "rename of an added one": (
        (AddColumn("n", "INT NOT NULL"), RenameColumn("n", "m")),
        InvalidSchema,
        "new column n .* leave NOT NULL out",
    ),
    "member of an added one": (
        (AddColumn("n", "ROW<x INT> NOT NULL"), AddColumn("n.y", "INT")),
        InvalidSchema,
        "new column n",
    ),
    "place beside an added one": (
        (AddColumn("n", "INT NOT NULL"), MoveColumn("a", Position(Side.AFTER, "n"))),
        InvalidSchema,
        "new column n",
    ),
    "type of a renamed one": (
        (RenameColumn("k", "id"), ChangeType("id", "BIGINT")),
        ColumnInUse,
        "primary key",
    ),
    "option that names an added one": (
        (AddColumn("n", "INT NOT NULL"), SetOption("sequence.field", "n")),
        InvalidSchema,
        "new column n",
    ),
}


@pytest.mark.parametrize("case", list(WAITING))
def test_a_change_that_waits_for_a_refused_one_is_no_reason_of_its_own(
    catalog: Catalog, case: str
) -> None:
    changes, kind, message = WAITING[case]
    table = table_of(catalog)
    first, waiting = table.plan_alter(*changes).findings
    assert (first.rule, first.severity) == (Rule.REFUSED, Severity.BREAKING)
    assert (waiting.rule, waiting.severity) == (Rule.REFUSED, Severity.INFO)
    assert "cannot be judged without an earlier change" in waiting.message
    with pytest.raises(kind, match=message):
        table.alter(*changes)


def test_two_refusals_that_have_nothing_to_do_with_each_other_are_two(catalog: Catalog) -> None:
    table = table_of(catalog)
    plan = table.plan_alter(DropColumn("k"), DropColumn("nowhere"), SetOption("bucket-fu", "1"))
    assert [each.severity for each in plan.findings] == [Severity.BREAKING] * 3


def test_the_only_reason_that_is_a_refusal_keeps_its_error(catalog: Catalog) -> None:
    table = table_of(catalog)
    with pytest.raises(InvalidOption, match="cannot change"):
        table.alter(SetOption("merge-engine", "first-row"), DropColumn("s"))


def test_a_waiver_covers_its_rule_and_column_until_its_day(catalog: Catalog) -> None:
    table = table_of(catalog)
    dependent = Dependent(column="s", kind="asset check", name="s__not_null", via=("db.copy",))
    used = GateRules(dependents=(dependent,))
    plan = table.plan_alter(DropColumn("s"), rules=used)
    assert plan.verdict is GateVerdict.DENY
    assert "asset check s__not_null (through db.copy)" in plan.findings[0].message

    def verdict(**waiver: Any) -> GateVerdict:
        given = {"rule": Rule.COLUMN_USED, "owner": "ann", "until": "2999-12-31", **waiver}
        rules = GateRules(dependents=(dependent,), waivers=(Waiver(**given),))
        return table.plan_alter(DropColumn("s"), rules=rules).verdict

    assert verdict() is GateVerdict.ALLOW
    assert verdict(column="s") is GateVerdict.ALLOW
    assert verdict(column="a") is GateVerdict.DENY
    assert verdict(rule=Rule.FORWARD) is GateVerdict.DENY
    assert verdict(until="2000-01-01") is GateVerdict.DENY
    everything = tuple(Waiver(rule=rule, owner="ann", until="2999-12-31") for rule in Rule)
    impossible = table.plan_alter(DropColumn("k"), rules=GateRules(waivers=everything))
    assert impossible.verdict is GateVerdict.DENY


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"owner": ""}, "has a blank owner"),
        ({"owner": " "}, "has a blank owner"),
        ({"owner": 5}, "is not text"),
        ({"until": "2025-13-01"}, "until '2025-13-01', which is no day"),
        ({"until": "99991231"}, "until '99991231', which is no day"),
        ({"until": None}, "is not text"),
    ],
)
def test_a_waiver_has_an_owner_and_a_day(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        Waiver(**{"rule": Rule.FORWARD, "owner": "ann", "until": "2999-12-31", **given})


def test_a_plan_that_was_edited_is_judged_as_a_call_is(catalog: Catalog) -> None:
    table = table_of(catalog)
    table.write(rows(table, [{"k": 9, "s": "x"}]))
    waiver = Waiver(rule=Rule.FORWARD, owner="ann", until="2999-12-31")
    rules = GateRules(is_scanned=True, waivers=(waiver,))
    plan = json.loads(table.plan_alter(ChangeType("s", "INT"), rules=rules).to_json())
    lost = next(each for each in plan["findings"] if each["rule"] == "values-lost")
    for findings in (
        [],
        [{**lost, "severity": "info"}],
        [{**lost, "waived_by": "ann"}],
        [{**lost, "details": {"nulls": [1]}}],
    ):
        edited = AlterPlan.from_json(json.dumps({**plan, "findings": findings}))
        with pytest.raises(SchemaDenied, match="loses 1 values"):
            table.run_alter(edited)
    for given in ({"owner": ""}, {"until": "99991231"}):
        waivers = [{**plan["rules"]["waivers"][0], **given}]
        text = json.dumps({**plan, "rules": {**plan["rules"], "waivers": waivers}})
        with pytest.raises(InvalidRequestError, match="the waiver of forward"):
            AlterPlan.from_json(text)


def test_a_rewrite_that_must_come_first_cannot_be_waived(catalog: Catalog) -> None:
    mode = {"lakewright.cast-mode": "explicit"}
    table = new_table(catalog, {"k": "INT", "a": "INT"}, options=mode)
    table.write(rows(table, [{"k": 1, "a": 5}]))
    table = table.alter(ChangeType("a", "STRING"))
    everything = tuple(Waiver(rule=rule, owner="ann", until="2999-12-31") for rule in Rule)
    plan = table.plan_alter(ChangeType("a", "DATE"), rules=GateRules(waivers=everything))
    assert plan.verdict is GateVerdict.REWRITE
    with pytest.raises(SchemaDenied, match="rewrite-first"):
        table.run_alter(plan)
    assert table.read(columns=["a"]).to_pylist() == [{"a": "5"}]


def test_waivers_of_two_columns_cover_a_dependent_of_every_column(catalog: Catalog) -> None:
    dependent = Dependent(column="*", kind="asset", name="copy")
    waivers = tuple(
        Waiver(rule=Rule.COLUMN_USED, column=name, owner="ann", until="2999-12-31")
        for name in ("a", "s")
    )
    changes = (DropColumn("a"), DropColumn("s"))
    table = table_of(catalog)

    def verdict(*waivers: Waiver) -> GateVerdict:
        rules = GateRules(dependents=(dependent,), waivers=waivers)
        return table.plan_alter(*changes, rules=rules).verdict

    assert verdict(*waivers) is GateVerdict.ALLOW
    assert verdict(waivers[0]) is GateVerdict.DENY


def test_a_waiver_that_ended_is_told(catalog: Catalog) -> None:
    waiver = Waiver(rule=Rule.FORWARD, owner="ann", until="2000-01-01")
    plan = table_of(catalog).plan_alter(DropColumn("s"), rules=GateRules(waivers=(waiver,)))
    (told,) = (each for each in plan.findings if each.rule is Rule.WAIVER_EXPIRED)
    assert "the waiver of forward by ann ended on 2000-01-01" in told.message


KINDS: dict[str, dict[str, Any]] = {
    "append": {"options": {**EXPLICIT, "bucket": "-1"}},
    "append in buckets": {"options": {**EXPLICIT, "bucket-key": "k"}},
    "keyed": {"keys": ["k"], "options": EXPLICIT},
}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("count", [1, 3])
def test_a_rewrite_comes_first_where_no_client_casts_the_stored_type(
    catalog: Catalog, kind: str, count: int
) -> None:
    """Plan, compaction, plan again, alter: the way that the verdict names."""
    table = new_table(catalog, {"k": "INT", "a": "BIGINT"}, **KINDS[kind])
    for number in range(count):
        table.write(rows(table, [{"k": number, "a": 20240101 + number}]))
    if kind == "keyed":
        # A single run only moves to another level, unless all files are to be rewritten.
        compact(table, full=True)
    table = table.alter(ChangeType("a", "STRING"))
    change = ChangeType("a", "VARBINARY(20)")
    plan = table.plan_alter(change)
    assert plan.verdict is GateVerdict.REWRITE
    rewrite = [each for each in plan.findings if each.rule is Rule.REWRITE_FIRST]
    old = [entry.file for entry in table.at().files() if entry.file.schema_id == 0]
    assert [each.column for each in rewrite] == ["a"]
    assert plan.rewrite_bytes == sum(file.file_size for file in old) > 0
    assert set(json.loads(plan.to_json())["findings"][0]["details"]["files"]) == {
        file.file_name for file in old
    }
    assert AlterPlan.from_json(plan.to_json()).rewrite_bytes == plan.rewrite_bytes
    with pytest.raises(SchemaDenied, match=r"rewrite-first.*force-rewrite-all-files"):
        table.run_alter(plan)
    table = table.alter(SetOption("compaction.force-rewrite-all-files", "true"))
    compact(table, full=True)
    again = table.plan_alter(change)
    assert (again.verdict, again.rewrite_bytes) == (GateVerdict.ALLOW, 0)
    altered = table.run_alter(again).schema
    assert str(altered.field("a").type) == "VARBINARY(20)"
    read = catalog.table("db.t").read(columns=["a"]).column("a").to_pylist()
    assert sorted(read) == [f"{20240101 + number}".encode() for number in range(count)]


CHEAP: dict[str, tuple[SchemaChange, ...]] = {
    "add": (AddColumn("n", "INT"),),
    "add with default": (AddColumn("n", "INT", default="1"),),
    "rename": (RenameColumn("a", "b"),),
    "drop": (DropColumn("a"),),
    "move": (MoveColumn("s", Position(Side.FIRST)),),
    "comment": (ChangeComment("a", "x"), ChangeTableComment("y")),
    "options": (SetOption("snapshot.num-retained.min", "5"),),
    "null": (ChangeNullability("a", nullable=True),),
}
REFERENCES = ("/tag/", "/branch", "/consumer/", "/pending/", "/lease/")


@pytest.mark.parametrize("any_catalog", ["memory"], indirect=True)
@pytest.mark.parametrize("case", list(CHEAP))
def test_no_manifest_is_read_unless_types_or_nulls_change(any_catalog: Catalog, case: str) -> None:
    table = table_of(any_catalog)
    watching, fs = watched(table)
    watching.plan_alter(*CHEAP[case])
    assert fs.changes == []
    assert [call for call in fs.calls if "manifest" in call.path or "bucket-" in call.path] == []


@pytest.mark.parametrize("any_catalog", ["memory"], indirect=True)
def test_a_plain_add_takes_few_calls(any_catalog: Catalog) -> None:
    """The schema, twice, whether there is a snapshot, and the base again after the run."""
    table = new_table(any_catalog)
    table.write(rows(table, events(0, 3)))
    watching, fs = watched(table)
    plan = watching.plan_alter(AddColumn("n", "INT"))
    planned = len(fs.calls)
    watching.run_alter(plan)
    assert (planned, len(fs.calls) - planned) == (6, 9), [str(call) for call in fs.calls]


@pytest.mark.parametrize("any_catalog", ["memory"], indirect=True)
def test_each_manifest_is_read_once_for_all_tags_and_branches(any_catalog: Catalog) -> None:
    table = table_of(any_catalog)
    for number in range(3):
        table.history.create_tag(f"t{number}")
        table.write(rows(table, [{"k": number, "a": 7}]))
    table.history.create_branch("side", tag="t1")
    watching, fs = watched(table)
    watching.plan_alter(ChangeType("a", "TINYINT"))
    read = [call.path for call in fs.calls if call.name == "read_bytes" and "manifest" in call.path]
    assert len(read) == len(set(read)) > 4


class OneByOne(LocalEngine):
    """Runs task after task, so the number of reads does not depend on threads."""

    def map(self, function: Any, tasks: Any) -> Any:
        return [function(task) for task in tasks]


def schemas_read(fs: WatchedFiles) -> list[str]:
    return [call.path for call in fs.calls if call.name == "read_bytes" and "/schema/" in call.path]


@pytest.mark.parametrize("any_catalog", ["memory"], indirect=True)
def test_a_scan_and_a_validation_read_each_schema_once_for_all_files(any_catalog: Catalog) -> None:
    counts = []
    for name, files in (("db.one", 1), ("db.six", 6)):
        table = new_table(
            any_catalog, {"a": "INT"}, options={"lakewright.cast-mode": "explicit"}, name=name
        )
        for number in range(files):
            table.write(rows(table, [{"a": number}, {"a": 300}]))
        table = table.alter(AddColumn("n", "INT"))
        watching, fs = watched(table)
        scan = GateRules(is_scanned=True)
        watching.plan_alter(ChangeType("a", "TINYINT"), rules=scan, engine=OneByOne())
        scanned = len(schemas_read(fs))
        plan = watching.upkeep.plan_validate_rows(files_per_version=9)
        assert len(plan.files) == files
        before = len(schemas_read(fs))
        watching.upkeep.run(plan, engine=OneByOne())
        counts.append((scanned, len(schemas_read(fs)) - before))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("any_catalog", ["memory"], indirect=True)
def test_a_run_reads_tags_only_if_the_verdict_may_depend_on_them(any_catalog: Catalog) -> None:
    table = table_of(any_catalog)
    table.history.create_tag("t")
    table.write(rows(table, [{"k": 1, "a": 7}]))
    compact(table, full=True)
    change = ChangeType("a", "SMALLINT")

    def read(mode: Compatibility) -> int:
        watching, fs = watched(table)
        plan = watching.plan_alter(change, rules=GateRules(compatibility=mode))
        before = len(fs.calls)
        with suppress(ColumnInUse):
            watching.run_alter(replace(plan, changes=(*plan.changes, IMPOSSIBLE)))
        read = {call.path for call in fs.calls[before:] if call.name == "read_bytes"}
        return sum("/manifest/" in path for path in read)

    assert read(Compatibility.BACKWARD) < read(Compatibility.BACKWARD_TRANSITIVE)


IMPOSSIBLE: dict[str, object] = {"change": "DropColumn", "column": "k"}


def test_readers_that_the_rules_name_must_be_able_to_read(catalog: Catalog) -> None:
    table = new_table(catalog, {"k": "INT", "r": "ROW<a INT>", "t": "TIMESTAMP(3)"})
    inside = RenameColumn("r.a", "b")

    def locked_out(change: SchemaChange, *readers: str) -> list[tuple[str, str | None]]:
        plan = table.plan_alter(change, rules=GateRules(readers=readers))
        return [
            (each.severity.value, each.column)
            for each in plan.findings
            if each.rule is Rule.READER_LOCKED_OUT
        ]

    # Without rows of before there is nothing to map.
    assert locked_out(inside, JAVA_0_9) == []
    table.write(rows(table, [{"k": 1, "r": {"a": 1}}]))
    assert locked_out(inside) == [("warning", "r")]
    assert locked_out(inside, JAVA_0_9) == [("breaking", "r")]
    assert locked_out(inside, PYPAIMON) == [("warning", "r")]
    assert locked_out(AddColumn("n", "TIMESTAMP(9)"), JAVA_0_9) == [("breaking", "n")]
    assert locked_out(AddColumn("n", "MULTISET<INT>"), PYPAIMON) == [("breaking", "n")]
    assert locked_out(AddColumn("n", "ROW<u INT>"), JAVA_0_9) == []
    assert locked_out(RenameColumn("r", "q"), JAVA_0_9) == []
    with pytest.raises(InvalidRequestError, match=r"'java-8' can read is not known; name one of"):
        locked_out(inside, "java-8")


def test_a_scan_reads_a_sample_of_every_schema_version_under_the_new_schema(
    catalog: Catalog,
) -> None:
    table = new_table(catalog, {"k": "INT", "a": "STRING"})
    table.write(rows(table, [{"k": 1, "a": "x"}]))
    table = table.alter(AddColumn("b", "INT"))
    table.write(rows(table, [{"k": 2, "a": "y", "b": 3}]))
    scan = GateRules(is_scanned=True)
    assert table.plan_alter(AddColumn("c", "INT"), rules=scan).findings == ()
    first = table.upkeep.plan_validate_rows().files[0]
    path = f"{table.table_files.paths.root}/bucket-0/{first.file}"
    held = pq.read_table(path)
    pq.write_table(held.set_column(0, "k", pa.array(["one"])), path)
    (found,) = table.plan_alter(AddColumn("c", "INT"), rules=scan).findings
    assert (found.rule, found.severity) == (Rule.ROWS_MISREAD, Severity.WARNING)
    assert found.message.startswith(f"data file {first.file} of db.t (schema 0) cannot be read:")
    # Without a scan, no data file is opened.
    assert table.plan_alter(AddColumn("c", "INT")).findings == ()
    pq.write_table(held, path)
