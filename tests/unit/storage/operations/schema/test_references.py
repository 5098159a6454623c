"""Tags, branches, consumers and open writes that a change concerns."""

from __future__ import annotations

from typing import Any

import pytest

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeNullability,
    ChangeType,
    DropColumn,
    Finding,
    GateVerdict,
    RenameColumn,
    Rule,
    Severity,
    Table,
)
from lakewright.storage.errors import SchemaMoved
from lakewright.storage.operations.leases.leases import LeaseRequest, acquire_lease
from lakewright.storage.spec.lease import LeaseKind, LeaseScope
from lakewright.storage.spec.schema_change import SchemaChange
from tests.support.tables.builders import new_table, rows

COLUMNS = {"k": "INT", "a": "INT", "s": "STRING"}
OPTIONS = {"lakewright.cast-mode": "explicit", "alter-column-null-to-not-null.disabled": "false"}


def table_of(catalog: Catalog) -> Table:
    table = new_table(catalog, COLUMNS, options=OPTIONS)
    table.write(rows(table, [{"k": 1, "a": 1, "s": "1"}]))
    return table


def findings(table: Table, rule: Rule, *changes: SchemaChange) -> list[Finding]:
    return [each for each in table.plan_alter(*changes).findings if each.rule is rule]


CHANGES: dict[str, tuple[SchemaChange, str]] = {
    "drop": (DropColumn("a"), "goes"),
    "rename": (RenameColumn("a", "b"), "is called b then"),
    "retype": (ChangeType("a", "BIGINT"), "changes from INT to BIGINT"),
}


@pytest.mark.parametrize("case", list(CHANGES))
def test_tags_keep_a_column_as_it_was(catalog: Catalog, case: str) -> None:
    change, told = CHANGES[case]
    table = table_of(catalog)
    table.history.create_tag("t1")
    table.history.create_tag("t2")
    (finding,) = findings(table, Rule.REFERENCED, change)
    assert (finding.severity, finding.column) == (Severity.INFO, "a")
    assert f"tags t1, t2 of db.t keep column a as it was, which {told}" in finding.message
    altered = table.alter(change)
    assert altered.at(tag="t1").read().to_pylist() == [{"k": 1, "a": 1, "s": "1"}]
    # The tags know no column that was added later.
    later = altered.alter(AddColumn("n", "INT"))
    assert findings(later, Rule.REFERENCED, DropColumn("n")) == []


def test_a_fast_forward_to_a_branch_would_bring_the_column_back(catalog: Catalog) -> None:
    table = table_of(catalog)
    table.history.create_tag("t")
    branch = table.history.create_branch("side", tag="t")
    drop = DropColumn("a")
    (warning,) = (
        each for each in findings(table, Rule.REFERENCED, drop) if "branches" in each.details
    )
    assert warning.severity is Severity.WARNING
    assert "branch side of db.t keeps column a as it was, which goes" in warning.message
    assert "fast-forward" in warning.message
    (told,) = (
        each for each in findings(branch, Rule.REFERENCED, drop) if "branches" in each.details
    )
    assert (told.severity, told.details["branches"]) == (Severity.INFO, ["main"])
    altered = table.alter(drop)
    altered.history.fast_forward("side", grace_ms=0)
    assert catalog.table("db.t").schema.field_names == ("k", "a", "s")


def test_a_branch_that_made_the_same_change_is_no_finding(catalog: Catalog) -> None:
    table = table_of(catalog)
    branch = table.history.create_branch("side", snapshot=1)
    branch.alter(DropColumn("a"))
    assert findings(table, Rule.REFERENCED, DropColumn("a")) == []
    assert len(findings(table, Rule.REFERENCED, DropColumn("s"))) == 1


@pytest.mark.parametrize("case", list(CHANGES))
def test_consumers_read_what_follows_in_the_new_schema(catalog: Catalog, case: str) -> None:
    change, told = CHANGES[case]
    table = table_of(catalog)
    table.history.set_consumer("job", 1)
    (finding,) = findings(table, Rule.REFERENCED, change)
    assert (finding.severity, finding.details["consumers"]) == (Severity.WARNING, {"job": 1})
    assert "consumer job (at snapshot 1) of db.t reads what follows in the new" in finding.message
    assert finding.message.endswith(f"column a {told}")
    assert findings(table, Rule.REFERENCED, AddColumn("n", "INT")) == []


def keep(table: Table, identifier: int, **row: Any) -> None:
    given = rows(table, [{"k": 5, **row}])
    staged = table.stage(given, commit_user="job", commit_identifier=identifier)
    table.keep_pending(staged)


def test_kept_batches_are_checked_as_their_commit_will(catalog: Catalog) -> None:
    table = table_of(catalog)
    keep(table, 1, a=5, s="x")
    keep(table, 2, a=5)
    required = ChangeNullability("s", nullable=False)
    (finding,) = findings(table, Rule.OPEN_WRITE, required)
    assert finding.severity is Severity.WARNING
    assert finding.details == {"user": "job", "identifier": 2}
    assert "batch 2 of job will be refused: rows for db.t" in finding.message
    assert "column s is NOT NULL now, and they hold null 1 times" in finding.message
    assert len(findings(table, Rule.OPEN_WRITE, ChangeType("a", "SMALLINT"))) == 2
    for change in (DropColumn("s"), ChangeType("a", "BIGINT"), AddColumn("n", "INT")):
        assert findings(table, Rule.OPEN_WRITE, change) == []
    altered = table.alter(required)
    assert len(altered.commit_pending("job", up_to=1)) == 1
    with pytest.raises(SchemaMoved, match="column s is NOT NULL now"):
        altered.commit_pending("job")
    (pending,) = altered.pending_batches("job")
    altered.abort(pending)


def test_writers_at_work_are_named_if_the_change_may_refuse_their_rows(catalog: Catalog) -> None:
    table = table_of(catalog)
    for kind in (LeaseKind.APPEND, LeaseKind.COMPACT):
        request = LeaseRequest(kind=kind, scope=LeaseScope(), holder=f"{kind.value} on host")
        acquire_lease(table.table_files, request)
    required = ChangeNullability("a", nullable=False)
    (finding,) = findings(table, Rule.OPEN_WRITE, required)
    assert "append on host works under a lease (append on all of the table" in finding.message
    assert findings(table, Rule.OPEN_WRITE, DropColumn("a")) == []
    plan = table.plan_alter(required)
    assert plan.verdict is GateVerdict.ALLOW
