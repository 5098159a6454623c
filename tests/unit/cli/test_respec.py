"""`lakewright respec`: what is planned, split, changed, and refused."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.platform.ledger.action import Verdict
from lakewright.platform.ledger.ledger import Ledger
from lakewright.storage import AddColumn, Catalog, Table
from lakewright.storage.operations.respec.respec_plan import RespecPlan
from tests.support.tables.builders import content, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files
from tests.support.tables.late_commits import commit_late
from tests.unit.cli.conftest import Lakewright
from tests.unit.storage.operations.respec.test_staged_table import many_partitions
from tests.unit.storage.operations.respec.test_staging import die_after

COLUMNS = {"dt": "STRING", "hh": "INT", "origin": "STRING", "v": "BIGINT"}
BY_HOUR = ("respec", "db.t", "--keys", "dt,hh")
BY_DAY = ("respec", "db.t", "--keys", "dt")


def write(table: Table, day: str, *hours: int) -> None:
    given = [{"dt": day, "hh": hour, "origin": "JFK", "v": hour} for hour in hours]
    table.write(rows(table, given))


@pytest.fixture
def days(catalog: Catalog) -> Table:
    """A file of one hour, and two of several."""
    table = new_table(catalog, COLUMNS, partitions=["dt"])
    write(table, "a", 1)
    write(table, "a", 2, 3)
    write(table, "b", 1, 2)
    return table


@pytest.mark.mission("PT1")
def test_a_change_is_shown_before_it_is_made_and_the_command_ends_with_the_new_keys(
    catalog: Catalog, lakewright: Lakewright, days: Table
) -> None:
    due = content(days)
    planned = lakewright(catalog, *BY_HOUR, "--dry-run").lines
    assert [each.split() for each in planned[2:4]] == [
        ["files", "3", "5"],
        ["partitions", "2", "5"],
    ]
    assert planned[5] == "partition keys of db.t to change, at snapshot 3: (dt) → (dt, hh)"
    words = ["dt=a,hh=1;", "dt=a,hh=2;", "dt=a,hh=3"]
    texts = [each.replace(",", "/") for each in words]
    assert planned[9].split() == ["dt=a", *words, "3", "a", *texts]
    assert planned[12].startswith("  it takes about 75 ms, to read ")
    assert planned[13].startswith("  restated where they lie: 1 file, ")
    assert planned[14].startswith("  split first: 2 files, ")
    assert planned[14].endswith(", 4 rows")
    assert "let their streams read to snapshot 3; only lakewright expires" in planned[15]
    assert planned[-1] == "dry run: nothing was written"
    assert catalog.table("db.t").schema.partition_keys == ("dt",)

    done = lakewright(catalog, *BY_HOUR)
    assert not done.err
    told = "3 snapshots (4 to 6) of db.t: 2 files split, 5 files restated where they lie, in "
    assert done.lines[5].startswith(told)
    assert done.lines[5].endswith("; it has the partition keys dt, hh")
    table = catalog.table("db.t")
    assert table.schema.partition_keys == ("dt", "hh")
    assert content(table) == due

    assert [each.split() for each in done.lines[2:3]] == [["files", "3", "5"]]
    again = lakewright(catalog, *BY_HOUR)
    assert again.lines == ["db.t has the partition keys dt, hh"]


def test_programs_get_every_figure_and_what_becomes_of_every_partition(
    catalog: Catalog, lakewright: Lakewright, days: Table
) -> None:
    planned = lakewright(catalog, *BY_HOUR, "--dry-run", "--format", "json").json
    summary = planned["summary"]
    assert (summary["keys_before"], summary["keys_after"]) == (["dt"], ["dt", "hh"])
    assert summary["steps"] == [["dt", "hh"]]
    assert (summary["to_restate"]["files"], summary["to_split"]["files"]) == (1, 2)
    assert (summary["partitions_before"], summary["partitions_after"]) == (2, 5)
    assert (summary["max_partitions"], summary["max_files"]) == (10_000, 100_000)
    assert planned["becomes"][1] == {
        "partition": "dt=b",
        "becomes": ["dt=b/hh=1", "dt=b/hh=2"],
        "key": "b",
        "keys": ["dt=b/hh=1", "dt=b/hh=2"],
    }
    assert summary["dagster_partitions"][1] == {
        "partition": "b",
        "becomes": ["dt=b/hh=1", "dt=b/hh=2"],
        "words": "dt=b",
        "becomes_words": ["dt=b,hh=1", "dt=b,hh=2"],
    }
    estimate = summary["estimate"]
    assert estimate["bytes_read"] == summary["to_split"]["bytes"]
    assert (estimate["runs"], estimate["milliseconds"] > 0) == (0, True)
    assert estimate["by"].startswith("the measured default, as there are fewer than 3 past runs")
    done = lakewright(catalog, *BY_HOUR, "--format", "json").json
    assert done["operation"] == "respec"
    assert (done["keys"], done["snapshots"]) == (["dt", "hh"], [4, 5, 6])
    assert (done["files_split"], done["files_restated"]) == (2, 5)
    assert done["becomes"] == planned["becomes"]
    assert done["schema_id"] == catalog.table("db.t").schema.id


def test_the_files_after_a_change_are_counted_and_not_those_that_its_plan_foresaw(
    catalog: Catalog, lakewright: Lakewright, days: Table, tmp_path: Path
) -> None:
    Ledger(catalog).create()
    plan = tmp_path / "plan.json"
    lakewright(catalog, *BY_HOUR, "--dry-run", "--save-plan", str(plan))
    # Another client commits between the plan and the run.
    write(days, "c", 1, 2, 3)
    done = lakewright(catalog, "respec", "db.t", "--plan", str(plan), "--format", "json").json
    files = len(catalog.table("db.t").at().files())
    assert (done["files_before"], done["files_after"], files) == (3, 8, 8)
    (action,) = Ledger(catalog).actions(table="db.t")
    assert action.benefit.files_fewer == -5
    again = lakewright(catalog, *BY_HOUR, "--format", "json").json
    assert "files_after" not in again


@pytest.mark.mission("PT1")
def test_a_plan_names_the_partitions_of_the_declared_asset_of_before_and_after(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    table = new_table(catalog, COLUMNS, partitions=["dt"])
    write(table, "2024-01-01", 1, 2)
    write(table, "noise", 3)
    by_day = "partition_keys: [dt]\npartitions:\n  daily: {column: dt, start: 2024-01-01}"
    by_hour = """partition_keys: [dt, hh]
partitions:
  hourly: {columns: {dt: "%Y-%m-%d", hh: "%H"}, start: 2024-01-01}"""
    columns = "\n".join(f"  - {{name: {name}, type: {kind}}}" for name, kind in COLUMNS.items())
    declared = tmp_path / "t.yaml"
    found = []
    for partitions in (by_day, by_hour):
        declared.write_text(f"table: db.t\ncolumns:\n{columns}\n{partitions}\n")
        given = (*BY_HOUR, "--dry-run", "--tables", str(declared))
        planned = lakewright(catalog, *given, "--format", "json").json
        shown = planned["summary"]["dagster_partitions"]
        found.append([{key: row[key] for key in ("partition", "becomes")} for row in shown])
        lines = lakewright(catalog, *given).lines
    assert found == [
        [
            {"partition": "2024-01-01", "becomes": ["dt=2024-01-01/hh=1", "dt=2024-01-01/hh=2"]},
            {"partition": None, "becomes": ["dt=noise/hh=3"]},
        ],
        [
            {"partition": "2024-01-01", "becomes": ["2024-01-01-01:00", "2024-01-01-02:00"]},
            {"partition": "noise", "becomes": [None]},
        ],
    ]
    assert any(
        line.split()[-4:] == ["2", "2024-01-01", "2024-01-01-01:00;", "2024-01-01-02:00"]
        for line in lines
    )


def test_a_plan_shows_values_as_people_write_them_and_json_the_folders_too(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, {"dt": "DATE", "c": "STRING", "v": "INT"}, partitions=["dt"])
    day = dt.date(2026, 1, 1)
    table.write(rows(table, [{"dt": day, "c": c, "v": 1} for c in ("50%", None, "x")]))
    asked = ("respec", "db.t", "--keys", "dt,c", "--dry-run")
    planned = lakewright(catalog, *asked)
    due = 'dt=2026-01-01,c=50%; dt=2026-01-01,c=x; {"dt": "2026-01-01", "c": null}'
    line = planned.lines[9]
    assert line.startswith("dt=2026-01-01  ")
    assert sorted(line.split("  ")[1].split("; ")) == sorted(due.split("; "))
    assert "20454" not in planned.out
    told = lakewright(catalog, *asked, "--format", "json").json
    (row,) = told["summary"]["dagster_partitions"]
    assert (row["words"], sorted(row["becomes_words"])) == (
        "dt=2026-01-01",
        sorted(due.split("; ")),
    )
    (becomes,) = told["becomes"]
    assert becomes["partition"] == "dt=20454"
    assert "dt=20454/c=50%25" in becomes["becomes"]
    assert lakewright(catalog, *asked[:-1]).out.count("dt=2026-01-01,c=x") == 1
    gone = lakewright(catalog, "respec", "db.t", "--keys", "", "--dry-run")
    assert any(each.split()[:3] == ["dt=2026-01-01,c=x", "the", "table"] for each in gone.lines)


def test_a_plan_of_many_partitions_shows_the_first_and_their_number(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, {"k": "INT", "v": "INT"}, partitions=["k"])
    table.write(rows(table, [{"k": k, "v": k % 2} for k in range(60)]))
    keys = ("respec", "db.t", "--keys", "v", "--dry-run")
    planned = lakewright(catalog, *keys).lines
    assert len(planned) < 60
    assert any(line == "… and 20 more; --format json has them all" for line in planned)
    summary = lakewright(catalog, *keys, "--format", "json").json["summary"]
    assert len(summary["dagster_partitions"]) == 60
    assert summary["dagster_partitions"][0] == {
        "partition": "0",
        "becomes": ["0"],
        "words": "k=0",
        "becomes_words": ["v=0"],
    }


def test_partitions_are_split_before_and_never_again(
    catalog: Catalog, lakewright: Lakewright, days: Table
) -> None:
    split = (*BY_HOUR, "--split-only")
    planned = lakewright(catalog, *split, "--partition", "dt=a", "--dry-run").lines
    assert "db.t to split by hh" not in planned[3]
    assert any(
        each.startswith("db.t to split by dt, hh, at snapshot 3: 1 file, ") for each in planned
    )
    done = lakewright(catalog, *split, "--partition", "dt=a")
    assert any("1 file split, in " in each for each in done.lines)
    assert catalog.table("db.t").schema.partition_keys == ("dt",)
    again = lakewright(catalog, *split, "--partition", "dt=a")
    assert again.lines[0] == "nothing to split by dt, hh in db.t, at snapshot 4"
    # The rest, in all partitions.
    rest = lakewright(catalog, *split, "--format", "json").json
    assert (rest["files_split"], rest["keys"], rest["snapshots"]) == (1, ["dt"], [5])
    last = lakewright(catalog, *BY_HOUR, "--format", "json").json
    assert (last["files_split"], last["files_restated"]) == (0, 5)


@pytest.mark.parametrize("primary_key", [(), ("id", "dt", "hh")])
def test_a_saved_plan_is_carried_out_once_and_found_done_afterwards(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, primary_key: tuple[str, ...]
) -> None:
    table = new_table(catalog, {"id": "INT", **COLUMNS}, keys=primary_key, partitions=["dt"])
    Ledger(catalog).create()
    given = [{"id": hour, "dt": "a", "hh": hour, "origin": "JFK", "v": 1} for hour in (1, 2)]
    table.write(rows(table, given))
    plan = tmp_path / "plan.json"
    saved = lakewright(catalog, *BY_HOUR, "--save-plan", str(plan))
    assert saved.lines[-1].endswith(f"carry it out with: lakewright respec db.t --plan {plan}")
    assert RespecPlan.from_json(plan.read_text()).keys == ("dt", "hh")
    both = lakewright(catalog, *BY_HOUR, "--plan", str(plan), code=2)
    assert "leave --keys out" in both.err
    lakewright(catalog, "respec", "db.t", "--plan", str(plan))
    table = catalog.table("db.t")
    assert table.schema.partition_keys == ("dt", "hh")

    state = len(table.history.snapshots()), table.schema.id
    again = lakewright(catalog, "respec", "db.t", "--plan", str(plan))
    assert (again.code, again.err, len(again.lines)) == (0, "", 1)
    assert again.lines[0].startswith(
        "nothing to do: db.t has the partition keys dt, hh of this plan "
    )
    found = lakewright(catalog, "respec", "db.t", "--plan", str(plan), "--format", "json").json
    assert (found["keys"], found["snapshots"]) == (["dt", "hh"], [])
    table = catalog.table("db.t")
    assert (len(table.history.snapshots()), table.schema.id) == state
    verdicts = [each.verdict for each in Ledger(catalog).actions(table="db.t")]
    assert verdicts.count(Verdict.NOTHING_TO_DO) == 2


def test_a_plan_of_another_schema_is_stale_and_says_what_changed(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    table = new_table(catalog, COLUMNS, partitions=["dt"])
    write(table, "a", 1, 2)
    plan = tmp_path / "plan.json"
    lakewright(catalog, *BY_HOUR, "--save-plan", str(plan))
    table.alter(AddColumn("w", "INT"))
    late = lakewright(catalog, "respec", "db.t", "--plan", str(plan), code=5)
    assert (
        "was made for schema 0, and the table has schema 1 (+ column w: INT); plan again"
        in late.err
    )
    lakewright(catalog, "respec", "db.t", "--keys", "origin")
    late = lakewright(catalog, "respec", "db.t", "--plan", str(plan), code=5)
    assert "(+ column w: INT; ~ partition keys: dt -> origin); plan again" in late.err


def test_a_plan_is_not_called_done_while_late_files_have_former_keys(
    catalog: Catalog, lakewright: Lakewright, days: Table, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    lakewright(catalog, *BY_HOUR, "--save-plan", str(plan))
    lakewright(catalog, "respec", "db.t", "--plan", str(plan))
    given = [{"dt": "b", "hh": hour, "origin": "JFK", "v": hour} for hour in (8, 9)]
    commit_late(days, days.stage(rows(days, given)))
    late = lakewright(catalog, "respec", "db.t", "--plan", str(plan), code=5)
    assert "which has these keys; files of others are left" in late.err
    lakewright(catalog, *BY_HOUR)
    lakewright(catalog, "respec", "db.t", "--plan", str(plan))


def test_a_table_loses_its_keys_and_gets_others(
    catalog: Catalog, lakewright: Lakewright, days: Table
) -> None:
    gone = lakewright(catalog, "respec", "db.t", "--keys", "")
    assert not gone.err
    assert any(each.endswith("; it has no partition keys") for each in gone.lines)
    assert any(each.split()[:3] == ["dt=a", "the", "table"] for each in gone.lines)
    assert catalog.table("db.t").schema.partition_keys == ()
    lakewright(catalog, "respec", "db.t", "--keys", "origin")
    assert catalog.table("db.t").schema.partition_keys == ("origin",)


def test_keys_are_added_and_dropped_without_naming_the_others(
    catalog: Catalog, lakewright: Lakewright, days: Table
) -> None:
    rows_before = content(days)
    lakewright(catalog, "respec", "db.t", "--add", "hh,origin")
    assert catalog.table("db.t").schema.partition_keys == ("dt", "hh", "origin")
    lakewright(catalog, "respec", "db.t", "--drop", "dt,origin")
    table = catalog.table("db.t")
    assert table.schema.partition_keys == ("hh",)
    table.upkeep.respec(add=["dt"], drop=["hh"])
    table = catalog.table("db.t")
    assert (table.schema.partition_keys, content(table)) == (("dt",), rows_before)


def test_a_consumer_that_compactions_of_a_change_leave_behind_is_told_before_and_moved_past_them(
    catalog: Catalog, lakewright: Lakewright, days: Table
) -> None:
    days.history.set_consumer("reader", 4)
    split = lakewright(catalog, *BY_HOUR, "--split-only", "--dry-run")
    planned = lakewright(catalog, *BY_HOUR, "--dry-run")
    told = "a consumer that has read to snapshot 3 is behind after it, which bars the next change"
    assert told in split.out
    assert told in planned.out

    lakewright(catalog, *BY_HOUR, "--split-only")
    refused = lakewright(catalog, *BY_HOUR, code=4)
    way = re.search(r"\(lakewright (consumer set db\.t reader \d+)\)", refused.err)
    assert way is not None, refused.err
    lakewright(catalog, *way[1].split())
    lakewright(catalog, *BY_HOUR)

    # The next change meets it again, and rows that it has not read are told as before.
    assert "compactions without rows for it" in lakewright(catalog, *BY_DAY, code=4).err
    write(catalog.table("db.t"), "c", 1)
    refused = lakewright(catalog, *BY_DAY, code=4)
    assert "consumer reader of db.t reads from snapshot" in refused.err
    assert "without rows" not in refused.err


@pytest.mark.parametrize(
    ("given", "said", "code"),
    [
        ((), "nor add or drop (--keys, --add, --drop on the command line)", 2),
        (("--keys", "dt", "--add", "hh"), "and not both", 2),
        (("--add", "dt"), "'dt' is a partition key already: db.t has dt", 2),
        (("--drop", "hh"), "'hh' is no partition key to drop: db.t has dt", 2),
        (("--keys", "dt,nope"), "'nope' is not a column of db.t", 2),
        (("--keys", "dt,dt"), "names dt more than once", 2),
        (("--keys", "dt,hh", "--max-partitions", "4"), "would have 5 partitions", 2),
        (("--keys", "dt,hh", "--max-files", "4"), "would have 5 files", 2),
        (("--keys", "dt,hh", "--partition", "dt=a"), "(split_only, --split-only on", 2),
        (("--keys", "dt,hh", "--split-only", "--partition", "dt=z"), "no partition dt=z", 3),
        (("--keys", "dt,hh", "--split-only", "--partition", "hh=1"), "not a partition key", 2),
    ],
)
def test_wrong_requests_are_refused_and_change_nothing(
    catalog: Catalog,
    lakewright: Lakewright,
    days: Table,
    given: tuple[str, ...],
    said: str,
    code: int,
) -> None:
    ended = lakewright(catalog, "respec", "db.t", *given, code=code)
    assert (ended.code, said in ended.err) == (code, True), ended.err
    assert len(days.history.snapshots()) == 3
    assert catalog.table("db.t").schema.id == 0


@pytest.mark.mission("PT1")
def test_a_moved_table_is_told_how_to_find_its_files_again(
    catalog: Catalog, lakewright: Lakewright, days: Table, tmp_path: Path
) -> None:
    lakewright(catalog, *BY_HOUR)
    due = content(catalog.table("db.t"))
    former = Path(catalog.root)
    moved = replace(catalog, root=str(tmp_path / "elsewhere"))
    former.rename(moved.root)
    told = lakewright(moved, "read", "db.t", code=4)
    assert told.code
    assert "lakewright respec db.t --moved-from PLACE" in told.err
    place = ("respec", "db.t", "--moved-from", str(former / "db.db/t"))
    planned = lakewright(moved, *place, "--dry-run").lines
    line = f"files of db.t to be named where they lie now, moved from {place[-1]}"
    assert any(line in each for each in planned)
    done = lakewright(moved, *place)
    assert not done.err
    assert content(moved.table("db.t")) == due
    former.mkdir()


@pytest.mark.mission("PT1", "PT50")
def test_a_damaged_record_of_a_stopped_change_is_told_with_the_way_out_and_goes(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = many_partitions(catalog, days=4)
    die_after(catalog, "db.t", ("dt", "hh"), 3)
    record = Path(
        next(e.path for e in table.table_files.staged_changes.listed() if "staged-" in e.path)
    )
    record.write_bytes(record.read_bytes()[:-9])
    way_out = "lakewright respec db.t --keys 'dt'"
    ended = lakewright(catalog, "remove-orphans", "db.t", code=6)
    assert str(record) in ended.err
    assert way_out in ended.err
    for keys in (BY_HOUR, ("respec", "db.t", "--keys", "dt")):
        planned = lakewright(catalog, *keys, "--dry-run")
        assert any(f"  a damaged record goes: {record} is no " in each for each in planned.lines)
        summary = lakewright(catalog, *keys, "--dry-run", "--format", "json").json["summary"]
        assert len(summary["damaged"]) == 1
    lakewright(catalog, "respec", "db.t", "--keys", "dt")
    again = lakewright(catalog, "respec", "db.t", "--keys", "dt")
    assert again.lines == ["db.t has the partition key dt"]
    lakewright(catalog, "remove-orphans", "db.t", "--older-than", "0s", "--even-recent")
    assert_only_reachable_files(table)


@pytest.mark.mission("PT1", "PT50")
def test_a_change_that_was_stopped_is_told_continued_and_given_up(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    many_partitions(catalog, days=4)
    die_after(catalog, "db.t", ("dt", "hh"), 3)
    planned = lakewright(catalog, *BY_HOUR, "--dry-run")
    assert any("  staged already, and taken up: 6 files, " in each for each in planned.lines)
    summary = lakewright(catalog, *BY_HOUR, "--dry-run", "--format", "json").json["summary"]
    assert (summary["staged"]["files"], summary["to_split"]["files"]) == (6, 8)
    # A file of each day lies in the bytes that are left to read.
    left = summary["to_split"]["bytes"] - summary["staged"]["bytes"]
    assert summary["estimate"]["bytes_read"] == left > 0

    kept = lakewright(catalog, "respec", "db.t", "--keys", "dt", "--dry-run")
    told = "db.t keeps the partition key dt, at snapshot 2: a change that was stopped is given up"
    assert any(told in each for each in kept.lines), kept.lines
    lakewright(catalog, "respec", "db.t", "--keys", "dt")
    table = catalog.table("db.t")
    assert_only_reachable_files(table)
    assert not table.table_files.staged_changes.listed()
    again = lakewright(catalog, "respec", "db.t", "--keys", "dt")
    assert again.lines == ["db.t has the partition key dt"]

    die_after(catalog, "db.t", ("dt", "hh"), 3)
    done = lakewright(catalog, *BY_HOUR)
    assert not done.err
    told = "db.t: 2 files rewritten, 6 new files taken up from a run that stopped, in "
    assert any(told in each for each in done.lines), done.lines
    assert catalog.table("db.t").schema.partition_keys == ("dt", "hh")
