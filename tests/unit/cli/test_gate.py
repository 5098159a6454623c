"""`lakewright alter --dry-run` and the gate: verdict, findings, exit codes, waivers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from tests.support.tables.builders import events, new_table, rows
from tests.unit.cli.conftest import Lakewright


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = new_table(catalog, keys=("id",), options={"bucket": "1"})
    made.write(rows(made, events(0, 2)))
    return made


TWICE_REFUSED = ("alter", "db.t", "--drop", "id", "--type", "v:INT", "--add", "w INT")


def test_a_dry_run_shows_all_findings_beside_the_differences(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    said = lakewright(catalog, *TWICE_REFUSED, "--dry-run", code=2)
    assert "1 difference; denied: 2 breaking" in said.out
    assert "+ column w: INT" in said.out
    assert "it is a primary key" in said.out
    assert "only an explicit cast leads to INT" in said.out

    told = lakewright(catalog, *TWICE_REFUSED, "--dry-run", "--format", "json", code=2)
    assert told.json["summary"]["verdict"] == "deny"
    assert told.json["summary"]["breaking"] == 2
    assert [each["column"] for each in told.json["findings"]] == ["id", "v"]
    assert {"rule", "severity", "message", "way_out"} <= told.json["findings"][0].keys()

    listed = lakewright(catalog, *TWICE_REFUSED, "--dry-run", "--format", "csv", code=2)
    found = list(csv.DictReader(io.StringIO(listed.out)))
    assert [(each["severity"], each["column"]) for each in found] == [
        ("change", ""),
        ("breaking", "id"),
        ("breaking", "v"),
    ]
    assert table.table_files.schemas.ids() == [0]


def test_a_denied_change_is_refused_with_all_its_findings(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    said = lakewright(catalog, *TWICE_REFUSED, code=2)
    assert "denied for 2 reasons" in said.err
    assert "it is a primary key" in said.err
    assert "only an explicit cast leads to INT" in said.err
    assert said.out == ""
    assert table.table_files.schemas.ids() == [0]


def test_an_allowed_change_has_exit_code_0_in_a_dry_run(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    said = lakewright(catalog, "alter", "db.t", "--add", "w INT", "--dry-run", "--scan")
    assert "allowed: no findings" in said.out


def test_a_saved_plan_keeps_how_it_was_judged(
    catalog: Catalog, lakewright: Lakewright, table: Table, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    words = ("--compatibility", "full", "--contract", "v", "--waive", "values-lost:v")
    waived = ("--waive", "column-used", "--owner", "ann", "--until", "2999-01-31")
    lakewright(
        catalog, "alter", "db.t", "--add", "w INT", *words, *waived, "--save-plan", str(plan)
    )
    rules = json.loads(plan.read_text())["rules"]
    assert rules["compatibility"] == "FULL"
    assert rules["columns"] == ["v"]
    assert [(each["rule"], each["column"], each["owner"]) for each in rules["waivers"]] == [
        ("values-lost", "v", "ann"),
        ("column-used", "*", "ann"),
    ]
    again = lakewright(catalog, "alter", "db.t", "--plan", str(plan), "--scan", code=2)
    assert "leave --scan out" in again.err
    lakewright(catalog, "alter", "db.t", "--plan", str(plan))


def test_a_waiver_may_name_a_column_that_the_change_adds_renames_or_drops(
    catalog: Catalog, lakewright: Lakewright, table: Table
) -> None:
    changes = ("--add", "w INT", "--rename", "v:vv", "--drop", "day", "--dry-run")
    for column in ("w", "v", "vv", "day"):
        waived = ("--waive", f"column-used:{column}", "--owner", "ann", "--until", "2999-01-31")
        said = lakewright(catalog, "alter", "db.t", *changes, *waived, code=1)
        assert not said.err, column


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--waive", "valus-lost", "--owner", "a", "--until", "2999-01-31"), "mean 'values-lost'?"),
        (("--waive", "refused", "--owner", "a", "--until", "2999-01-31"), "cannot be waived"),
        (("--waive", "values-lost", "--owner", "a", "--until", "soon"), "'soon', which is no day"),
        (("--waive", "values-lost", "--owner", "a"), "until is missing"),
        (("--waive", "values-lost", "--until", "2999-01-31"), "owner is missing"),
        (
            ("--waive", "values-lost:vv", "--owner", "a", "--until", "2999-01-31"),
            "waive names 'vv', which is no column of db.t; did you mean 'v'?",
        ),
        (("--owner", "a"), "belong to a waiver"),
        (("--contract", "vv"), "no column of db.t"),
        (("--compatibility", "sideways"), "backward_transitive"),
    ],
)
def test_how_a_change_is_judged_is_refused_by_its_name(
    catalog: Catalog, lakewright: Lakewright, table: Table, words: tuple[str, ...], message: str
) -> None:
    said = lakewright(catalog, "alter", "db.t", "--add", "w INT", *words, "--dry-run", code=2)
    assert message in said.err
    assert said.out == ""


def test_the_gate_asks_the_policies_for_the_columns_that_they_name(
    catalog: Catalog,
    lakewright: Lakewright,
    table: Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("tables: {db.t: {sort: {enabled: true, columns: [v]}}}")
    drop = ("alter", "db.t", "--drop", "v", "--dry-run")
    lakewright(catalog, *drop, code=1)
    monkeypatch.setenv("LAKEWRIGHT_POLICY", str(file))
    said = lakewright(catalog, *drop, code=2)
    assert f"policy sort.columns ({file}:1) uses column v" in said.out
    file.write_text("tables: {db.t: {sort: {columns: 5}}}")
    said = lakewright(catalog, *drop, code=2)
    assert "the policies are wrong" in said.err
