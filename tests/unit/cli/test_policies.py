"""`lakewright explain` and `lakewright check`: policies, and the lines that decided."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from lakewright.storage import Catalog
from tests.support.tables.builders import EVENTS, new_table
from tests.unit.cli.conftest import Lakewright

POLICY = """\
warehouse:
  mode: shadow
  budget: {bytes: 500 GB, time: 4h}
  snapshots: {time_retained: 7d}
databases:
  sales: {compaction: {small_files: 8}}
patterns:
  - match: "sales.tmp_*"
    freeze: true
tables:
  sales.orders: {snapshots: {time_retained: 30d}}
"""
DECLARATION = """\
table: sales.orders
maintenance:
  orphans: {older_than: 90min}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("LAKEWRIGHT_TABLES", "LAKEWRIGHT_POLICY", "LAKEWRIGHT_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)
    Path("policy.yaml").write_text(POLICY)
    Path("orders.yaml").write_text(DECLARATION)


def row(lines: list[str], setting: str) -> list[str]:
    """The cells of a setting, parted by two blanks or more."""
    (line,) = [each for each in lines if each.split()[:1] == [setting]]
    return [each.strip() for each in line.split("  ") if each.strip()][1:]


def test_explain_shows_each_setting_with_the_line_that_decided_and_those_that_lost(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    new_table(catalog, EVENTS, name="sales.orders")
    ended = lakewright(
        catalog, "explain", "sales.orders", "--policy", "policy.yaml", "--tables", "orders.yaml"
    )
    assert row(ended.lines, "mode") == ["shadow", "policy.yaml:2 (warehouse)"]
    assert row(ended.lines, "snapshots.time_retained") == [
        "30 days",
        "policy.yaml:11 (table sales.orders)",
        "7 days policy.yaml:4 (warehouse)",
    ]
    assert row(ended.lines, "orphans.older_than") == [
        "90 minutes",
        "orders.yaml:3 (declaration sales.orders)",
    ]
    assert row(ended.lines, "collect.orphans") == ["7 days", "default"]
    assert row(ended.lines, "snapshots.retain_min") == [
        "the table's snapshot.num-retained.min",
        "default",
    ]
    assert row(ended.lines, "tags.older_than") == ["no age", "default"]
    assert row(ended.lines, "changelogs.retain_max") == [
        "the table's changelog.num-retained.max",
        "default",
    ]
    assert row(ended.lines, "budget.bytes") == ["500 GB", "policy.yaml:3 (warehouse)"]
    assert "note: policy.yaml:8: pattern sales.tmp_* matches no table of the warehouse" in ended.out
    assert "does not exist" not in ended.out


def test_explain_tells_programs_values_and_places(catalog: Catalog, lakewright: Lakewright) -> None:
    new_table(catalog, EVENTS, name="sales.orders")
    arguments = ("explain", "sales.orders", "--policy", "policy.yaml", "--format")
    found = lakewright(catalog, *arguments, "json").json
    assert (found["table"], found["exists"], found["problems"]) == ("sales.orders", True, [])
    settings = {each["setting"]: each for each in found["settings"]}
    assert settings["snapshots.time_retained"] == {
        "setting": "snapshots.time_retained",
        "value": 30 * 86_400_000,
        "text": "30 days",
        "decided": {
            "value": 30 * 86_400_000,
            "level": "table",
            "name": "sales.orders",
            "file": "policy.yaml",
            "line": 11,
        },
        "lost": [
            {
                "value": 7 * 86_400_000,
                "level": "warehouse",
                "name": "",
                "file": "policy.yaml",
                "line": 4,
            }
        ],
    }
    assert settings["compaction.hours"]["decided"] is None
    records = list(csv.DictReader(io.StringIO(lakewright(catalog, *arguments, "csv").out)))
    assert [each["setting"] for each in records] == list(settings)


def test_explain_goes_by_the_name_where_there_is_no_table_or_no_warehouse(
    catalog: Catalog, lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWRIGHT_POLICY", "policy.yaml")
    catalog.create_database("sales")
    ended = lakewright(catalog, "explain", "sales.tmp_9")
    assert row(ended.lines, "freeze") == ["true", "policy.yaml:9 (pattern sales.tmp_*)"]
    assert f"note: sales.tmp_9 does not exist in {catalog.uri}" in ended.out
    nowhere = lakewright(None, "explain", "sales.tmp_9", "--warehouse", "nowhere")
    assert "no warehouse at" in nowhere.out
    told = lakewright(None, "explain", "sales.tmp_9", "--warehouse", "nowhere", "--format", "json")
    assert told.json["exists"] is None


def test_explain_without_files_shows_defaults_and_says_how_to_name_files(
    lakewright: Lakewright,
) -> None:
    ended = lakewright(None, "explain", "sales.orders")
    assert "name them with --policy or $LAKEWRIGHT_POLICY" in ended.out
    assert row(ended.lines, "mode") == ["live", "default"]


def test_explain_refuses_wrong_files_and_wrong_names(lakewright: Lakewright) -> None:
    lakewright(None, "explain", "orders", code=2)
    Path("policy.yaml").write_text("warehouse: {freez: true}")
    ended = lakewright(None, "explain", "sales.orders", "--policy", "policy.yaml", code=2)
    assert not ended.out
    assert "policy.yaml:1: warehouse.freez: unknown key 'freez'; did you mean" in ended.err


def test_explain_says_which_levels_contradict_each_other(lakewright: Lakewright) -> None:
    Path("policy.yaml").write_text(
        "patterns:\n- {match: 's.*', snapshots: {retain_max: 10}}\n"
        "- {match: '*.t', snapshots: {retain_min: 20}}"
    )
    ended = lakewright(None, "explain", "s.t", "--policy", "policy.yaml", code=2)
    assert "wrong: policy.yaml:2: snapshots.retain_max: retain_max is 10" in ended.out
    lakewright(None, "explain", "s.x", "--policy", "policy.yaml")


def test_check_tells_declarations_and_policies_apart_and_finds_nothing_wrong(
    lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = lakewright(None, "check", ".")
    assert ended.lines == ["1 declaration and 1 policy file: nothing is wrong"]
    monkeypatch.setenv("LAKEWRIGHT_POLICY", "policy.yaml")
    monkeypatch.setenv("LAKEWRIGHT_TABLES", "orders.yaml")
    assert lakewright(None, "check").lines == ended.lines


def test_check_lists_everything_wrong_in_both_with_file_and_line(lakewright: Lakewright) -> None:
    Path("policy.yaml").write_text(POLICY.replace("mode", "mod").replace("30d", "30"))
    Path("orders.yaml").write_text(DECLARATION + "  sort: {schedule: never}\ncolums: []\n")
    ended = lakewright(None, "check", "policy.yaml", "orders.yaml", "nowhere.yaml", code=2)
    assert [line.split(": ")[0] for line in ended.lines] == [
        "nowhere.yaml",
        "orders.yaml:4",
        "orders.yaml:5",
        "policy.yaml:2",
        "policy.yaml:11",
        "5 problems",
    ]
    found = lakewright(None, "check", "policy.yaml", "--format", "json", code=2)
    assert found.json["problems"][0] == {
        "file": "policy.yaml",
        "line": 2,
        "place": "warehouse.mod",
        "message": "unknown key 'mod'; did you mean 'mode'?",
    }


def test_check_sees_schedules_that_dagster_refuses_in_both(lakewright: Lakewright) -> None:
    Path("policy.yaml").write_text("warehouse: {orphans: {schedule: never}}")
    Path("orders.yaml").write_text(DECLARATION + "  sort: {schedule: never}\n")
    ended = lakewright(None, "check", ".", code=2)
    assert [line.split(": ")[1] for line in ended.lines[:2]] == [
        "maintenance.sort.schedule",
        "warehouse.orphans.schedule",
    ]


def test_check_notes_policies_for_names_that_the_warehouse_has_not(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    new_table(catalog, EVENTS, name="sales.order")
    ended = lakewright(catalog, "check", "policy.yaml")
    assert ended.lines == [
        "note: policy.yaml:8: pattern sales.tmp_* matches no table of the warehouse",
        (
            "note: policy.yaml:11: table sales.orders matches no table of the warehouse; did you "
            "mean 'sales.order'?"
        ),
        "0 declarations and 1 policy file: nothing is wrong",
    ]
    # A declared table will be there.
    assert "table sales.orders" not in lakewright(catalog, "check", ".").out


def test_check_notes_columns_of_policies_that_a_table_has_not(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    new_table(catalog, EVENTS, name="db.t")
    new_table(catalog, EVENTS, name="db.u")
    Path("columns.yaml").write_text(
        "warehouse: {sort: {enabled: true, columns: [id]}}\n"
        "tables:\n  db.t:\n    respec: {keys: [dya]}\n    sort: {columns: [id, other]}\n"
    )
    ended = lakewright(catalog, "check", "columns.yaml")
    assert ended.lines[:-1] == [
        "note: columns.yaml:5: sort.columns: 'other' is not a column of db.t",
        "note: columns.yaml:4: respec.keys: 'dya' is not a column of db.t; did you mean 'day'?",
    ]


def test_check_of_nothing_says_what_to_name(lakewright: Lakewright) -> None:
    ended = lakewright(None, "check", code=2)
    assert "name files or folders, or set $LAKEWRIGHT_TABLES or $LAKEWRIGHT_POLICY" in ended.err


def test_explain_shows_partition_keys_and_says_where_a_declaration_decides_over_them(
    lakewright: Lakewright,
) -> None:
    Path("policy.yaml").write_text("warehouse: {respec: {keys: [dt, origin]}}\n")
    ended = lakewright(None, "explain", "sales.orders", "--policy", "policy.yaml")
    assert row(ended.lines, "respec.keys") == ["dt, origin", "policy.yaml:1 (warehouse)"]
    assert row(ended.lines, "respec.primary_key") == ["it stays", "default"]
    assert "declaration" not in ended.out
    Path("orders.yaml").write_text(
        "table: sales.orders\ncolumns: [{name: dt, type: STRING}, {name: a, type: INT}]\n"
        "partition_keys: [dt]\n"
    )
    declared = ("--tables", "orders.yaml")
    ended = lakewright(None, "explain", "sales.orders", "--policy", "policy.yaml", *declared)
    assert (
        "note: the declaration of sales.orders says partition_keys (dt), and decides over "
        "respec.keys"
    ) in ended.lines


def test_explain_says_which_settings_do_not_hold_for_the_ledger(lakewright: Lakewright) -> None:
    Path("policy.yaml").write_text(
        "warehouse: {mode: shadow, compaction: {small_files: 2, min_bytes: 1 GB}}\n"
    )
    ended = lakewright(None, "explain", "lakewright.ledger", "--policy", "policy.yaml")
    own = "note: lakewright.ledger is written by Lakewright itself, so"
    told = [line for line in ended.lines if line.startswith(own)]
    assert f"{own} mode is live and not shadow" in told
    assert any("compaction.small_files is" in line and "not 2" in line for line in told)
    assert not any("compaction.min_bytes" in line for line in told)
    assert own not in lakewright(None, "explain", "db.t", "--policy", "policy.yaml").out


def test_check_refuses_partition_keys_of_a_declaration_at_two_places(
    lakewright: Lakewright,
) -> None:
    Path("orders.yaml").write_text(
        "table: sales.orders\ncolumns: [{name: dt, type: STRING}, {name: a, type: INT}]\n"
        "maintenance:\n  respec: {keys: [dt]}\n"
    )
    ended = lakewright(None, "check", "orders.yaml", code=2)
    assert (
        "orders.yaml:4: maintenance.respec.keys: the declaration of sales.orders says its "
        "partition_keys itself"
    ) in ended.out + ended.err
