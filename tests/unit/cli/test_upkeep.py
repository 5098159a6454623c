"""Verbs of upkeep: what is said, what is done, and that a dry run does nothing."""

from __future__ import annotations

import copy
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from tests.support.tables.builders import EVENTS, content, events, new_table, rows
from tests.unit.cli.conftest import Lakewright


def table_of_small_files(catalog: Catalog, *, commits: int = 6, **options: Any) -> Table:
    table = new_table(catalog, EVENTS, partitions=["day"], **options)
    for start in range(commits):
        found = [*events(start, start + 1, day="a"), *events(start, start + 1, day="b")]
        table.write(rows(table, found))
    return table


# --- compaction --------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["counts", "checksums", "full"])
def test_a_compaction_is_proved_as_asked(
    catalog: Catalog, lakewright: Lakewright, level: str
) -> None:
    table = table_of_small_files(catalog)
    before = content(table)
    lakewright(catalog, "compact", "db.t", "--full", "--verify", level)
    assert content(table) == before


def test_a_plan_says_what_and_why(catalog: Catalog, lakewright: Lakewright) -> None:
    table_of_small_files(catalog)
    lines = lakewright(catalog, "compact", "db.t", "--dry-run").lines
    assert lines[0].startswith("compaction of db.t, at snapshot 6: 12 files, ")
    assert lines[0].endswith(", 12 rows to rewrite in 2 tasks")
    assert lines[2].split() == ["day", "bucket", "files", "size", "rows", "why"]
    assert [line.split()[0] for line in lines[4:6]] == ["a", "b"]
    assert lines[4].endswith("6 small files of 6 become 1")


def test_a_limit_of_bytes_may_have_a_unit(catalog: Catalog, lakewright: Lakewright) -> None:
    table = table_of_small_files(catalog)
    of_a = sum(each.file.file_size for each in table.at().files()) // 2
    for limit in (str(of_a), f"{of_a} b"):
        told = lakewright(catalog, "compact", "db.t", "--dry-run", "--max-bytes", limit).out
        assert "6 rows to rewrite in 1 task" in told
    whole = lakewright(catalog, "compact", "db.t", "--dry-run", "--max-bytes", "1 MB").out
    assert "12 rows to rewrite in 2 tasks" in whole
    for wrong in ("many", "-1", "0"):
        refused = lakewright(catalog, "compact", "db.t", "--max-bytes", wrong, code=2)
        assert wrong in refused.err


def test_a_run_says_before_and_after(catalog: Catalog, lakewright: Lakewright) -> None:
    table = table_of_small_files(catalog)
    before = content(table)
    ended = lakewright(catalog, "compact", "db.t")
    assert ended.lines[0].split() == ["before", "after"]
    assert ended.lines[2].split() == ["files", "12", "2"]
    assert ended.lines[4].split() == ["rows", "12", "12"]
    assert ended.lines[6].startswith("snapshot 7 of db.t: 2 tasks in ")
    assert content(table) == before

    again = lakewright(catalog, "compact", "db.t")
    assert again.lines[0] == "nothing to compact in db.t, at snapshot 7"
    assert len(table.history.snapshots()) == 7


def test_a_run_as_json_has_exact_numbers(catalog: Catalog, lakewright: Lakewright) -> None:
    table_of_small_files(catalog)
    found = lakewright(catalog, "compact", "db.t", "--format", "json").json
    assert found["operation"] == "compact"
    assert found["snapshot"]["id"] == 7
    assert (found["files_before"], found["files_after"]) == (12, 2)
    assert sum(found["file_sizes_before"]) == found["bytes_before"]
    idle = lakewright(catalog, "compact", "db.t", "--format", "json")
    assert idle.json["planned_tasks"] == 0
    assert idle.json["snapshot"] is None


def planned_partitions(lakewright: Lakewright, catalog: Catalog, *options: str) -> list[Any]:
    found = lakewright(catalog, "compact", "db.t", "--dry-run", "--format", "json", *options).json
    return [task["partition"] for task in found["tasks"]]


def test_partitions_are_named_by_values(catalog: Catalog, lakewright: Lakewright) -> None:
    table = new_table(catalog, {"n": "INT", "p": "STRING", "q": "INT"}, partitions=["p", "q"])
    places = [("x,y=z", 1), (None, 1), ("", 2), ("b,c", None)]
    for _ in range(2):
        table.write(rows(table, [{"n": 1, "p": p, "q": q} for p, q in places]))

    def named(*specs: str) -> list[Any]:
        options = [each for spec in specs for each in ("--partition", spec)]
        return planned_partitions(lakewright, catalog, "--min-files", "2", *options)

    assert len(named()) == 4
    assert named("p=b,c") == [{"p": "b,c", "q": None}]
    assert named("p=b,c,q=__DEFAULT_PARTITION__") == [{"p": "b,c", "q": None}]
    assert named('{"p": "x,y=z", "q": 1}') == [{"p": "x,y=z", "q": 1}]
    several = named("p=__DEFAULT_PARTITION__", "q=2")
    assert sorted(several, key=str) == [{"p": "", "q": 2}, {"p": None, "q": 1}]
    assert named("p=") == [{"p": "", "q": 2}]

    absent = lakewright(catalog, "compact", "db.t", "--dry-run", "--partition", "p=none", code=3)
    there = 'there are {"p": "", "q": "2"}; {"p": "b,c", "q": null}; {"p": "x,y=z", "q": "1"}; '
    assert f"db.t has no partition p=none; {there}" in absent.err
    for words in ('{"p": "", "q": "2"}', '{"p": "b,c", "q": null}', '{"p": null, "q": "1"}'):
        assert len(named(words)) == 1
    mistyped = lakewright(catalog, "compact", "db.t", "--partition", "p=b,c,q=1", code=3)
    assert "db.t has no partition p=b,c,q=1; there are " in mistyped.err


def test_partitions_of_floating_numbers_are_told_apart_as_the_table_does(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, {"n": "INT", "p": "DOUBLE", "q": "INT"}, partitions=["p", "q"])
    for _ in range(2):
        table.write(rows(table, [{"n": 1, "p": p, "q": 1} for p in (float("nan"), 0.0)]))
    for named in ("p=nan", "p=NaN,q=1"):
        found = planned_partitions(lakewright, catalog, "--min-files", "2", "--partition", named)
        assert [str(each["p"]).lower() for each in found] == ["nan"]
    assert planned_partitions(lakewright, catalog, "--min-files", "2", "--partition", "p=0") == [
        {"p": 0.0, "q": 1}
    ]
    absent = lakewright(catalog, "compact", "db.t", "--dry-run", "--partition", "p=-0.0", code=3)
    assert "db.t has no partition p=-0.0; near it are p=0.0,q=1" in absent.err


def test_options_of_a_compaction_reach_the_plan(catalog: Catalog, lakewright: Lakewright) -> None:
    table_of_small_files(catalog, commits=2)
    assert planned_partitions(lakewright, catalog) == []
    assert len(planned_partitions(lakewright, catalog, "--min-files", "2")) == 2
    assert len(planned_partitions(lakewright, catalog, "--full")) == 2
    absent = lakewright(catalog, "compact", "db.t", "--dry-run", "--full", "--bucket", "7", code=3)
    assert "db.t has no bucket 7; there are 0" in absent.err


def test_a_saved_plan_is_carried_out_once(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of_small_files(catalog)
    saved = tmp_path / "plan.json"
    ended = lakewright(catalog, "compact", "db.t", "--dry-run", "--format", "json")
    assert ended.json["summary"] == {
        "tasks": 2,
        "files": 12,
        "size_bytes": table.upkeep.plan_compact().bytes_before,
        "rows": 12,
    }
    saved.write_text(ended.out, "utf-8")
    # A commit of other files leaves the plan good.
    table.write(rows(table, events(50, 51, day="c")))

    dry = lakewright(catalog, "compact", "db.t", "--plan", str(saved), "--dry-run")
    assert "12 files" in dry.lines[0]
    done = lakewright(catalog, "compact", "db.t", "--plan", str(saved))
    assert done.lines[2].split() == ["files", "12", "2"]

    monkeypatch.setattr("sys.stdin", io.StringIO(ended.out))
    stale = lakewright(catalog, "compact", "db.t", "--plan", "-", code=5)
    assert "plan again" in stale.err
    assert stale.out == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "is no JSON object, but a list"),
        ("{}", "is no plan of compact: table is missing"),
        (
            '{"operation": "expire-snapshots"}',
            "is one of expire-snapshots: lakewright expire-snapshots db.t --plan",
        ),
        (
            (
                '{"table": "db.t", "snapshot_id": 1, "tasks": [], '
                '"skipped": [{"partition": {}, "bucket": 0, "files": 1, "reason": "x"}]}'
            ),
            "it names the only partition, and the partition keys are day",
        ),
        (
            '{"table": "db.other", "snapshot_id": 1, "tasks": [], "skipped": []}',
            "the plan is for db.other, and this is db.t",
        ),
    ],
)
def test_what_is_no_plan_is_refused(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, text: str, said: str
) -> None:
    table_of_small_files(catalog)
    saved = tmp_path / "plan.json"
    saved.write_text(text, "utf-8")
    ended = lakewright(catalog, "compact", "db.t", "--plan", str(saved), code=2)
    assert said in ended.err


def test_a_plan_allows_no_other_options_and_must_exist(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    table_of_small_files(catalog)
    ended = lakewright(catalog, "compact", "db.t", "--plan", "p.json", "--full", code=2)
    assert "leave --full out" in ended.err
    ended = lakewright(catalog, "compact", "db.t", "--plan", str(tmp_path / "none.json"), code=2)
    assert "No such file" in ended.err


@pytest.mark.spark
def test_a_compaction_on_spark_ends_like_a_local_one(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = table_of_small_files(catalog)
    before = content(table)
    ended = lakewright(catalog, "compact", "db.t", "--engine", "spark")
    assert ended.lines[2].split() == ["files", "12", "2"]
    assert content(table) == before


@pytest.mark.deep
@pytest.mark.spark
def test_a_process_that_compacted_on_spark_ends(catalog: Catalog) -> None:
    """Spark lives as long as the process that started it, and no longer."""
    table = table_of_small_files(catalog)
    before = content(table)
    code = "import sys; from lakewright.cli import main; sys.exit(main())"
    arguments = ["--warehouse", catalog.uri, "compact", "db.t", "--engine", "spark"]
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[2].split() == ["files", "12", "2"]
    assert content(table) == before


# --- expiry ------------------------------------------------------------------------------------


def test_an_expiry_is_planned_and_run(catalog: Catalog, lakewright: Lakewright) -> None:
    table = table_of_small_files(catalog)
    table.upkeep.run(table.upkeep.plan_compact())
    before = content(table)
    planned = lakewright(
        catalog,
        *("expire-snapshots", "db.t", "--dry-run", "--retain-min", "1", "--older-than", "1h"),
    )
    assert planned.lines[0].startswith("expiry of db.t: 6 snapshots (1 to 6) to go, and with them ")
    assert planned.lines[0].endswith("snapshot 7 becomes the earliest")
    assert planned.lines[1] == "  of 7 snapshots at least 1 are retained"

    ended = lakewright(
        catalog, *("expire-snapshots", "db.t", "--retain-min", "1", "--older-than", "1h")
    )
    assert ended.lines[2].split() == ["snapshots", "7", "1"]
    assert ended.lines[4].startswith("6 snapshots (1 to 6) of db.t expired: ")
    assert [each.id for each in table.history.snapshots()] == [7]
    assert content(table) == before

    again = lakewright(catalog, "expire-snapshots", "db.t", "--retain-min", "1")
    assert again.lines[0] == "no snapshot of db.t to expire"


def test_options_of_an_expiry_reach_the_plan(catalog: Catalog, lakewright: Lakewright) -> None:
    table_of_small_files(catalog)

    def expired(*options: str) -> list[int]:
        found = lakewright(
            catalog, "expire-snapshots", "db.t", "--dry-run", "--format", "json", *options
        ).json
        ids: list[int] = found["snapshot_ids"]
        assert found["summary"]["snapshots"] == len(ids)
        return ids

    assert expired() == []
    assert expired("--retain-min", "4") == [1, 2]
    assert expired("--retain-min", "1", "--max-deletes", "3") == [1, 2, 3]
    assert expired("--retain-min", "1", "--older-than", "99999d") == []
    assert expired("--retain-min", "1", "--retain-max", "2", "--older-than", "99999d") == [
        1,
        2,
        3,
        4,
    ]


def test_a_backlog_is_planned_as_one_step_and_expired_in_as_many_as_it_takes(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = table_of_small_files(catalog)
    options = {**table.schema.options, "snapshot.expire.limit": "2"}
    table.table_files.schemas.put_schema(replace(table.schema, id=1, options=options))
    planned = lakewright(catalog, "expire-snapshots", "db.t", "--dry-run", "--retain-min", "1")
    assert planned.lines[0].startswith("expiry of db.t: 2 snapshots (1 to 2) to go")
    assert planned.lines[1].startswith("  this is one step; about 3 more snapshots may go after it")
    part = lakewright(
        catalog, *("expire-snapshots", "db.t", "--retain-min", "1", "--max-deletes", "3")
    )
    assert part.lines[2].split() == ["snapshots", "6", "3"]
    lakewright(catalog, *("expire-snapshots", "db.t", "--retain-min", "1", "--max-time", "1h"))
    assert [each.id for each in table.history.snapshots()] == [6]


def test_a_saved_expiry_is_carried_out(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path
) -> None:
    table = table_of_small_files(catalog)
    saved = tmp_path / "plan.json"
    saved.write_text(
        lakewright(
            catalog,
            "expire-snapshots",
            "db.t",
            "--dry-run",
            "--retain-min",
            "4",
            "--format",
            "json",
        ).out,
        "utf-8",
    )
    found = lakewright(
        catalog, "expire-snapshots", "db.t", "--plan", str(saved), "--format", "json"
    ).json
    assert found["expired"] == [1, 2]
    assert (found["snapshots_before"], found["snapshots_after"]) == (6, 4)
    assert (found["bytes_deleted"], found["bytes_condemned"] > 0) == (0, True)
    assert [each.id for each in table.history.snapshots()] == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--older-than", "5"], "has no unit; write 5d, 5h or 5min"),
        (["--older-than", "soon"], "is not a duration"),
        (["--retain-min", "0"], "not a whole number from 1 on"),
        (["--retain-min", "5", "--retain-max", "2"], "is below"),
    ],
)
def test_an_impossible_retention_is_refused(
    catalog: Catalog, lakewright: Lakewright, options: list[str], said: str
) -> None:
    table_of_small_files(catalog)
    ended = lakewright(catalog, "expire-snapshots", "db.t", "--dry-run", *options, code=2)
    assert said in ended.err


def _changed(plan: Any) -> Iterator[Any]:
    """The plan with each of its parts in turn left out, and replaced by something else."""
    if not isinstance(plan, (dict, list)):
        return
    for at in list(plan) if isinstance(plan, dict) else range(len(plan)):
        for other in (None, -1, "x", [[[]]], {"x": {}}):
            changed = copy.copy(plan)
            changed[at] = other
            yield changed
        without = copy.copy(plan)
        del without[at]
        yield without
        for inner in _changed(plan[at]):
            changed = copy.copy(plan)
            changed[at] = inner
            yield changed


@pytest.mark.deep
@pytest.mark.parametrize(
    "verb",
    [
        ("compact", "--full"),
        ("sort-compact", "--by", "n"),
        ("expire-snapshots", "--retain-min", "1"),
    ],
)
def test_a_plan_that_was_tampered_with_is_refused_or_carried_out_and_nothing_else(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    table = new_table(catalog, {"n": "INT", "p": "STRING"}, partitions=["p"])
    for number in range(2):
        table.write(rows(table, [{"n": number, "p": "a"}]))
    before = sorted(table.read().to_pylist(), key=str)
    planned = lakewright(catalog, verb[0], "db.t", *verb[1:], "--save-plan", "-").json
    saved = tmp_path / "plan.json"
    for changed in _changed(planned):
        saved.write_text(json.dumps(changed), "utf-8")
        dry = lakewright(catalog, verb[0], "db.t", "--plan", str(saved), "--dry-run", code=None)
        assert dry.code in (0, 2), (changed, dry.err)
        assert "Error" not in dry.err
        if dry.code == 2:
            continue
        done = lakewright(catalog, verb[0], "db.t", "--plan", str(saved), code=None)
        assert done.code in (0, 2, 3, 5), (changed, done.err)
        assert sorted(table.read().to_pylist(), key=str) == before
