"""`lakewright upkeep`: the whole warehouse by its policies, in one command."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakewright as lakewright_package
from lakewright.platform.decide.surveys import Surveys
from lakewright.platform.ledger.action import Verdict
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.upkeep.words import size_text
from lakewright.storage import Catalog, Table
from tests.support.tables.builders import content, new_table, rows
from tests.support.tables.invariants import assert_sound
from tests.unit.cli.conftest import Ended, Lakewright


def neglected(catalog: Catalog, name: str, files: int) -> Table:
    table = new_table(catalog, {"k": "INT", "v": "BIGINT"}, name=name)
    for number in range(files):
        table.write(rows(table, [{"k": number, "v": number}]))
    return table


# The tables of these tests were made long ago by the clock of the command.
COMPACTION_ONLY = """
  snapshots: {enabled: false}
  orphans: {enabled: false}
  compaction: {min_bytes: 0 b, small_files: 5}
"""


def policy(folder: Path, text: str = "") -> str:
    file = folder / "policy.yaml"
    file.write_text(f"warehouse:{COMPACTION_ONLY}{text}")
    return str(file)


def test_a_python_user_calls_the_same_upkeep(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    table = neglected(catalog, "db.a", 6)
    due = content(table)
    written = policy(tmp_path)

    planned = lakewright_package.upkeep(catalog, written, dry_run=True)
    assert [each.verb for each in planned.left.choice.chosen] == ["compact"]
    assert len(table.history.snapshots()) == 6

    done = lakewright_package.upkeep(lakewright_package.Catalog.open(catalog.uri), written)
    assert [(each.verb, each.verdict) for each in done.actions] == [("compact", Verdict.DONE)]
    assert not done.failed
    assert content(catalog.table("db.a")) == due
    assert_sound(catalog.table("db.a"))
    lakewright(catalog, "undo", done.run)
    assert sum(each.file_count for each in catalog.table("db.a").at().partitions()) == 6


def test_partitions_that_wait_for_the_same_are_one_line_for_people_and_each_one_for_programs(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    table = new_table(catalog, {"day": "INT", "v": "INT"}, name="db.a", partitions=["day"])
    for number in range(5):
        table.write(rows(table, [{"day": day, "v": number} for day in range(200)]))
    written = tmp_path / "policy.yaml"
    written.write_text(f"warehouse:{COMPACTION_ONLY.replace('0 b', '1 GB, at_latest: 100000d')}")
    call = ("upkeep", "--policy", str(written), "--dry-run")

    told = [line for line in lakewright(catalog, *call).lines if line.startswith("deferred")]
    assert len(told) == 1
    assert told[0].endswith("after the last write; and 199 more partitions")
    assert len(lakewright(catalog, *call, "--format", "json").json) == 200


def test_what_upkeep_did_is_undone_by_the_command_that_it_tells(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.a", 6)
    told = lakewright(catalog, "upkeep", "--policy", policy(tmp_path)).lines[-1]
    words = told.partition(" reverts ")[0].split()
    assert words[:4] == ["lakewright", "--warehouse", catalog.uri, "undo"]
    lakewright(None, *words[1:])
    assert sum(each.file_count for each in catalog.table("db.a").at().partitions()) == 6


def test_what_is_due_is_told_then_done_and_then_nothing_is_due(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    first, second = neglected(catalog, "db.a", 6), neglected(catalog, "db.b", 2)
    due = content(first)
    written = policy(tmp_path)

    told = lakewright(catalog, "upkeep", "--policy", written, "--dry-run")
    assert "the table: 6 small files ≥ 5: compact" in told.out
    assert "looked at 2 tables: 1 verb to carry out" in told.out
    assert len(first.history.snapshots()) == 6

    done = lakewright(catalog, "upkeep", "--policy", written, "--format", "json")
    assert [(each["table"], each["verb"], each["verdict"]) for each in done.json] == [
        ("db.a", "compact", "done")
    ]
    assert content(catalog.table("db.a")) == due
    assert len(second.history.snapshots()) == 2
    (action,) = Ledger(catalog).actions()
    assert (action.verdict, action.reason) == (
        Verdict.DONE,
        "the table: 6 small files ≥ 5: compact",
    )
    assert action.predicted_cost is not None
    assert action.predicted_cost.files == action.cost.files == 6

    again = lakewright(catalog, "upkeep", "--policy", written)
    assert again.lines == ["nothing was due"]
    assert_sound(catalog.table("db.a"))


def test_a_name_that_no_table_has_is_refused(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.orders", 1)
    written = policy(tmp_path)
    for only, hint in (("db.ordres", "did you mean 'db.orders'?"), ("db", "did you mean 'db.*'")):
        ended = lakewright(catalog, "upkeep", "--policy", written, "--only", only, code=3)
        assert f"'{only}' matches none of 1 table; {hint}" in ended.err
    lakewright(catalog, "upkeep", "--policy", written, "--only", "db.*")


@pytest.mark.parametrize("command", [["upkeep", "--dry-run"], ["explain", "db.a"]])
def test_a_schedule_that_is_none_is_refused_by_every_command(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, command: list[str]
) -> None:
    written = policy(tmp_path, "  manifests: {}\n  statistics: {schedule: 61 * * * *}\n")
    ended = lakewright(catalog, *command, "--policy", written, code=2)
    assert "'61 * * * *' is not a cron schedule" in ended.err


def test_in_shadow_everything_is_decided_and_recorded_and_nothing_is_done(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    table = neglected(catalog, "db.a", 6)
    written = policy(tmp_path, "  mode: shadow\n")
    for _ in range(2):
        (told,) = lakewright(catalog, "upkeep", "--policy", written).lines
        assert told.startswith("1 verb in shadow: recorded, and nothing done")
    assert len(table.history.snapshots()) == 6
    (action,) = [each for each in Ledger(catalog).actions() if each.table == "db.a"]
    assert (action.verdict, action.verb) == (Verdict.SHADOW, "compact")
    assert action.predicted_benefit is not None
    assert action.predicted_benefit.files_fewer == 5


def test_what_an_expiry_left_is_recorded_although_it_made_no_snapshot(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.a", 6)
    keep = "warehouse: {snapshots: {retain_min: 2, retain_max: 2}, orphans: {enabled: false}}\n"
    (tmp_path / "policy.yaml").write_text(keep)
    done = lakewright(catalog, "upkeep", "--policy", str(tmp_path / "policy.yaml"))
    assert "expire snapshots" in done.out
    latest = Surveys(catalog).states(table="db.a")[-1].survey.history
    assert (latest.latest_snapshot, latest.snapshots) == (7, 2)


def test_a_budget_keeps_work_for_the_next_day(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.a", 6)
    neglected(catalog, "db.b", 7)
    each = catalog.table("db.b").at().partitions()[0].size_bytes
    written = policy(tmp_path, f"  budget: {{bytes: {each + 10} b}}\n")
    done = lakewright(catalog, "upkeep", "--policy", written, "--format", "json").json
    assert [action["table"] for action in done] == ["db.b"]
    told = lakewright(catalog, "upkeep", "--policy", written, "--dry-run").out
    assert "left of the day's budget" in told


def test_a_compaction_larger_than_a_day_takes_what_its_budget_has_and_no_more(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    table = new_table(catalog, {"k": "INT", "p": "INT"}, partitions=["p"], name="db.a")
    for number in range(6):
        table.write(rows(table, [{"k": number, "p": part} for part in range(4)]))
    size = sum(each.file.file_size for each in table.at().files())
    written = policy(tmp_path)
    with Path(written).open("a", encoding="utf-8") as file:
        file.write(f"databases:\n  db:\n    budget: {{bytes: {size // 2} b}}\n")

    lakewright(catalog, "upkeep", "--policy", written)

    (action,) = Ledger(catalog).actions()
    assert 0 < action.cost.bytes <= size // 2
    counts = sorted(each.file_count for each in catalog.table("db.a").at().partitions())
    assert counts == [1, 1, 6, 6]


def test_a_budget_of_a_database_holds_beside_that_of_the_warehouse(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    for name, files in (("db.a", 7), ("db.b", 6), ("web.a", 5)):
        neglected(catalog, name, files)
    each = catalog.table("db.a").at().partitions()[0].size_bytes
    written = policy(tmp_path, "  budget: {time: 4h}\n")
    with Path(written).open("a") as file:
        file.write(f"databases:\n  db:\n    budget: {{bytes: {each + 10} b}}\n")
    line = len(Path(written).read_text().splitlines())
    done = lakewright(catalog, "upkeep", "--policy", written, "--format", "json").json
    assert {action["table"] for action in done} == {"db.a", "web.a"}
    told = lakewright(catalog, "upkeep", "--policy", written, "--dry-run", "--format", "json").json
    (waits,) = [row["reason"] for row in told if row["table"] == "db.b"]
    limit = f"({size_text(each + 10)}, {written}:{line})"
    assert waits.endswith(f"of 10 B left of the day's budget of database db {limit}")

    explained = lakewright(catalog, "explain", "db.b", "--policy", written, "--format", "json").json
    spent = {budget["section"]: budget["spent_bytes"] for budget in explained["budgets"]}
    by_table = {action.table: action.cost.bytes for action in Ledger(catalog).actions()}
    assert spent == {"the warehouse": by_table["db.a"] + by_table["web.a"], "database db": each}
    shown = lakewright(catalog, "explain", "db.b", "--policy", written).out
    assert f"database db    {each + 10:,} bytes" in shown


def test_a_frozen_table_and_one_outside_of_the_pattern_are_left_alone(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    for name in ("db.a", "db.b", "db.c"):
        neglected(catalog, name, 6)
    written = policy(tmp_path, "tables: {db.a: {freeze: true}}\n")
    call = ("upkeep", "--policy", written, "--only", "db.[ab]")
    done = lakewright(catalog, *call, "--format", "json").json
    assert [action["table"] for action in done] == ["db.b"]
    assert "db.a, upkeep: is frozen by its policy" in lakewright(catalog, *call, "--dry-run").out


def test_a_policy_whose_table_the_warehouse_has_not_is_told(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.orders", 6)
    written = policy(tmp_path, "tables: {db.ordres: {freeze: true}}\n")
    told = lakewright(catalog, "upkeep", "--policy", written, "--dry-run")
    assert "policy.yaml:5: " in told.err
    assert "matches no table of the warehouse; did you mean 'db.orders'?" in told.err


def test_a_table_that_cannot_be_read_keeps_no_other_from_its_upkeep(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.a", 1)
    neglected(catalog, "db.b", 6)
    (schema,) = tmp_path.rglob("db.db/a/schema/schema-0")
    kept = schema.read_text()
    schema.write_text("no JSON")
    call = ("upkeep", "--policy", policy(tmp_path))
    done = lakewright(catalog, *call, "--format", "json").json
    assert [action["table"] for action in done] == ["db.b"]
    assert "cannot be read" in lakewright(catalog, *call, "--dry-run").out
    schema.write_text(kept)


def test_a_policy_with_a_mistake_is_refused_by_file_and_line(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.a", 6)
    written = policy(tmp_path, "  compactoin: {min_bytes: 0 b, small_files: 5}\n")
    refused = lakewright(catalog, "upkeep", "--policy", written, code=2)
    assert "policy.yaml:5" in refused.err
    assert "compaction" in refused.err
    assert len(catalog.table("db.a").history.snapshots()) == 6


RESPEC = """  compaction: {enabled: false}
  snapshots: {enabled: false}
  orphans: {enabled: false}
"""


def test_partition_keys_become_those_of_the_policy_and_then_nothing_is_due(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    table = new_table(catalog, partitions=["day"])
    table.write(rows(table, [{"id": at, "day": "mon", "v": "ab"[at % 2]} for at in range(6)]))
    new_table(catalog, {"k": "INT"}, name="db.other")
    due, file = content(table), tmp_path / "policy.yaml"

    declared = "table: db.t\ncolumns: [{name: id, type: BIGINT}, {name: day, type: STRING}]\n"
    (tmp_path / "t.yaml").write_text(f"{declared}partition_keys: [day]\n")

    def call(limit: int, *more: str, mode: str = "live") -> Ended:
        keys = f"  mode: {mode}\n  respec: {{keys: [day, v], max_partitions: {limit}}}\n"
        file.write_text(f"warehouse:\n{RESPEC}{keys}")
        return lakewright(catalog, "upkeep", "--policy", str(file), *more, code=None)

    told = call(1, "--dry-run").out
    assert "partition keys (day), by its policy (day, v)" in told
    assert "'day' is not a column of db.other" in told
    tables = ("--tables", str(tmp_path / "t.yaml"))
    left = "not done: 1 contradiction, 1 declared (see --dry-run)"
    assert call(9, *tables).lines == ["nothing was due", left]
    assert "its declaration says partition_keys (day)" in call(9, "--dry-run", *tables).out
    assert "1 verb in shadow" in call(1, mode="shadow").out
    assert catalog.table("db.t").schema.partition_keys == ("day",)
    for _ in range(2):
        refused = call(1, "--format", "json")
    assert refused.json == []
    waits = call(1, "--dry-run").out
    assert "is again from" in waits
    assert "would have 2 partitions" in waits

    done = [(each["verb"], each["verdict"]) for each in call(9, "--format", "json").json]
    assert done == [("respec", "done"), ("settle", "done")]
    assert catalog.table("db.t").schema.partition_keys == ("day", "v")
    assert content(catalog.table("db.t")) == due
    assert call(9).lines == ["nothing was due", "not done: 1 contradiction (see --dry-run)"]
    assert "(day, v), by its policy (day, v): leave" in call(9, "--dry-run", "--all").out
    verdicts = [each.verdict for each in Ledger(catalog).actions(verb="respec")]
    assert verdicts == [Verdict.SHADOW, Verdict.FAILED, Verdict.DONE]

    # What a person changed back stays, until the policy says something else.
    lakewright(catalog, "respec", "db.t", "--keys", "day")
    assert [each["verb"] for each in call(9, "--format", "json").json] == ["settle"]
    assert "took it back; skipped until its policy is changed" in call(9, "--dry-run").out
    assert catalog.table("db.t").schema.partition_keys == ("day",)
    done, _ = call(8, "--format", "json").json
    assert (done["verb"], done["verdict"]) == ("respec", "done")
    lakewright(catalog, "rollback", "db.t", "--snapshot", "1")
    assert call(8, "--format", "json").json == []
    assert catalog.table("db.t").schema.partition_keys == ("day",)


def test_a_dropped_table_goes_after_its_grace_and_never_in_shadow_or_a_dry_run(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    neglected(catalog, "db.kept", 1)
    for name, grace_ms in (("db.past", 1), ("db.recent", 3_600_000)):
        neglected(catalog, name, 1)
        catalog.drop_table(name, grace_ms=grace_ms)
    lakewright(catalog, "upkeep", "--policy", policy(tmp_path, "  mode: shadow\n"))
    lakewright(catalog, "upkeep", "--policy", policy(tmp_path), "--dry-run")
    assert len(catalog.dropped_tables()) == 2
    lakewright(catalog, "upkeep", "--policy", policy(tmp_path))
    assert [each.table for each in catalog.dropped_tables()] == ["db.recent"]
