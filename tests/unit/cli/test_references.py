"""`tag`, `branch`, `rollback`, `consumer`, `changelog`: what they do, say, and leave alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    rows,
    values_of,
)
from tests.unit.cli.conftest import Lakewright, on_disk


def history(catalog: Catalog, versions: str = "abc") -> Table:
    """Every other snapshot is a compaction."""
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    for version in versions:
        table.write(rows(table, events(0, 3, v=version)))
        compact(table, full=True)
    return table


# --- tags --------------------------------------------------------------------------------------


@pytest.mark.mission("FS19")
def test_a_tag_is_made_listed_read_and_deleted(catalog: Catalog, lakewright: Lakewright) -> None:
    table = history(catalog)
    made = lakewright(catalog, "tag", "create", "db.t", "kept", "--snapshot", "2")
    assert made.lines == ["tag kept of db.t stands for snapshot 2"]
    lakewright(catalog, "tag", "create", "db.t", "timed", "--retain", "90d")
    expire(table)
    listed = lakewright(catalog, "tag", "list", "db.t")
    assert listed.lines[0].split()[:2] == ["tag", "snapshot"]
    assert listed.lines[2].split()[:2] == ["kept", "2"]
    assert listed.lines[2].split()[-3:] == ["3", "until", "deleted"]
    as_json = lakewright(catalog, "tag", "list", "db.t", "--format", "json").json
    assert [(each["tag"], each["snapshot_id"]) for each in as_json] == [("kept", 2), ("timed", 6)]
    assert as_json[1]["time_retained_ms"] == 90 * 24 * 3_600_000
    assert as_json[1]["expires_at"] > as_json[1]["create_time"]

    read = lakewright(catalog, "read", "db.t", "--tag", "kept", "--format", "json")
    assert sorted(row["v"] for row in read.json_lines) == ["a0", "a1", "a2"]

    before = on_disk(catalog)
    dry = lakewright(catalog, "tag", "delete", "db.t", "kept", "--dry-run")
    assert dry.lines[0].startswith("tag kept of db.t to go, and with that ")
    assert dry.lines[-1] == "dry run: nothing was written"
    planned = lakewright(
        catalog, "tag", "delete", "db.t", "kept", "--dry-run", "--format", "json"
    ).json
    assert (planned["operation"], planned["tags"]) == ("tag delete", ["kept"])
    assert planned["summary"]["files"] == len(planned["files"]) > 0
    assert on_disk(catalog) == before

    gone = lakewright(catalog, "tag", "delete", "db.t", "kept", "timed", "--format", "json").json
    assert gone["files_condemned"] == len(planned["files"])
    assert lakewright(catalog, "tag", "list", "db.t").lines == ["db.t has no tag"]
    assert values_of(table, "v") == ["c0", "c1", "c2"]


def test_tags_are_replaced_renamed_and_expired(catalog: Catalog, lakewright: Lakewright) -> None:
    table = history(catalog)
    for arguments in (
        ("create", "db.t", "x", "--snapshot", "2"),
        ("create", "db.t", "x", "--replace", "--retain", "1s"),
        ("rename", "db.t", "x", "y"),
    ):
        lakewright(catalog, "tag", *arguments)
    assert [(tag.name, tag.snapshot.id) for tag in table.history.tags()] == [("y", 6)]
    table.history.create_tag("z")
    kept = lakewright(catalog, "tag", "expire", "db.t", "--older-than", "1d")
    assert kept.lines == ["no tag of db.t to expire"]
    planned = lakewright(catalog, "tag", "expire", "db.t", "--older-than", "0s", "--dry-run")
    assert planned.lines[0] == "tags y, z of db.t to go, and no file with that"
    assert planned.lines[1].startswith("  tag y was made 20")
    done = lakewright(catalog, "tag", "expire", "db.t", "--older-than", "0s")
    assert done.lines[0].startswith("tags y, z of db.t deleted; 0 files")
    assert table.history.tags() == ()


def test_a_wrong_tag_is_said_in_one_line(catalog: Catalog, lakewright: Lakewright) -> None:
    history(catalog)
    lakewright(catalog, "tag", "create", "db.t", "one")
    for code, said, arguments in [
        (3, "no tag two in db.t; there are one", ("tag", "delete", "db.t", "two")),
        (3, "there are one", ("read", "db.t", "--tag", "two")),
        (2, "tag one of db.t exists already", ("tag", "create", "db.t", "one")),
        (2, "tag name 'a/b'", ("tag", "create", "db.t", "a/b")),
        (2, "give the tag a name and --snapshot 5", ("tag", "create", "db.t", "5")),
        (
            3,
            "snapshot 99 does not exist in db.t; there are 1 to 6",
            ("tag", "create", "db.t", "x", "--snapshot", "99"),
        ),
        (2, "'90' has no unit; write 90d", ("tag", "create", "db.t", "x", "--retain", "90")),
        (2, "not allowed with", ("read", "db.t", "--tag", "one", "--snapshot", "1")),
    ]:
        ended = lakewright(catalog, *arguments, code=code)
        assert ended.code == code, arguments
        assert said in ended.err, arguments
        assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("rollback", "--snapshot", "2"),
        ("tag", "delete", "early"),
        ("tag", "expire", "--older-than", "0s"),
        ("branch", "delete", "b"),
        ("branch", "fast-forward", "b"),
    ],
    ids=" ".join,
)
def test_a_saved_plan_is_carried_out_unless_it_was_changed(
    catalog: Catalog, lakewright: Lakewright, tmp_path: Path, words: tuple[str, ...]
) -> None:
    table = history(catalog)
    table.history.create_tag("early", snapshot=1)
    table.history.create_branch("b", snapshot=4)
    expire(table, keep=5)
    at = next((n for n, word in enumerate(words) if word in ("early", "b") or "--" in word))
    verb, options = words[:at], words[at:]
    plan = tmp_path / "plan.json"
    before = on_disk(catalog)
    saved = lakewright(catalog, *verb, "db.t", *options, "--save-plan", str(plan))
    assert saved.lines[-1].startswith("plan saved, nothing else was written; carry it out with: ")
    assert on_disk(catalog) == before

    planned = json.loads(plan.read_text("utf-8"))
    forged = [*planned["files"], {"path": "schema/schema-0", "size_bytes": 1}]
    plan.write_text(json.dumps({**planned, "files": forged}), "utf-8")
    refused = lakewright(catalog, *verb, "db.t", "--plan", str(plan), code=5)
    assert "plan again" in refused.err
    assert {path for path in on_disk(catalog) if "lease" not in path} >= set(before)

    plan.write_text(json.dumps(planned), "utf-8")
    lakewright(catalog, *verb, "db.t", "--plan", str(plan))
    assert content(table)
    again = lakewright(catalog, *verb, "db.t", "--plan", str(plan), code=None)
    assert again.code in (2, 3, 5)


# --- branches ----------------------------------------------------------------------------------


@pytest.mark.mission("FS19")
def test_a_branch_is_made_listed_read_and_deleted(catalog: Catalog, lakewright: Lakewright) -> None:
    table = history(catalog)
    made = lakewright(catalog, "branch", "create", "db.t", "b", "--snapshot", "2")
    assert made.lines == ["branch b of db.t begins at snapshot 2: 'db.t$branch_b'"]
    assert lakewright(catalog, "branch", "create", "db.t", "new").lines == [
        "branch new of db.t begins empty: 'db.t$branch_new'",
        "  without the rows of db.t, whose history a fast-forward would drop",
        (
            "  to begin where the table is instead: lakewright branch delete db.t new; "
            f"lakewright branch create db.t new --snapshot {table.history.snapshots()[-1].id}"
        ),
    ]
    said = " ".join(lakewright(catalog, "branch", "create", "--help").out.split())
    assert "without --tag and --snapshot it begins empty" in said
    lines = lakewright(catalog, "branch", "list", "db.t").lines
    assert [line.split()[0] for line in lines[2:]] == ["b", "new"]
    assert lines[2].split()[-3:] == ["2", "2", "'db.t$branch_b'"]
    assert len(lakewright(catalog, "branch", "list", "db.t", "--format", "json").json) == 2
    read = lakewright(catalog, "read", "db.t$branch_b", "--format", "json")
    assert sorted(row["v"] for row in read.json_lines) == ["a0", "a1", "a2"]
    assert lakewright(catalog, "snapshots", "db.t$branch_b").lines[2].split()[0] == "2"

    before = on_disk(catalog)
    dry = lakewright(catalog, "branch", "delete", "db.t", "b", "--dry-run")
    assert dry.lines[0] == "branch b of db.t to go: 1 snapshot, 0 tags, and no file with that"
    assert on_disk(catalog) == before
    gone = lakewright(catalog, "branch", "delete", "db.t", "b")
    assert gone.lines[0].startswith("branch b of db.t deleted; 0 files, 0 B deleted in ")
    assert [branch.name for branch in table.history.branches()] == ["new"]


def test_main_becomes_a_branch(catalog: Catalog, lakewright: Lakewright) -> None:
    table = history(catalog)
    branch = table.history.create_branch("b", snapshot=4)
    branch.write(rows(branch, events(7, 8)))
    before = on_disk(catalog)
    dry = lakewright(catalog, "branch", "fast-forward", "db.t", "b", "--dry-run")
    assert dry.lines[0] == "main of db.t to become branch b, snapshot 5"
    assert dry.lines[1].startswith("  2 snapshots (5 to 6) of main to go, and with that ")
    assert on_disk(catalog) == before
    done = lakewright(catalog, "branch", "fast-forward", "db.t", "b", "--format", "json").json
    assert (done["snapshot_id"], done["snapshots_deleted"]) == (5, [5, 6])
    assert content(table) == content(branch)


def test_a_wrong_branch_is_said_in_one_line(catalog: Catalog, lakewright: Lakewright) -> None:
    history(catalog)
    for code, said, arguments in [
        (3, "there are main", ("branch", "delete", "db.t", "b")),
        (2, "branch main is db.t itself", ("branch", "delete", "db.t", "main")),
        (2, "is a number", ("branch", "create", "db.t", "12")),
        (3, "no tag x", ("branch", "create", "db.t", "b", "--tag", "x")),
        (3, "no branch b", ("read", "db.t$branch_b")),
        (3, "no branch b", ("branch", "fast-forward", "db.t", "b")),
    ]:
        ended = lakewright(catalog, *arguments, code=code)
        assert ended.code == code, arguments
        assert said in ended.err, arguments
        assert ended.err.count("\n") == 1


# --- rollback ----------------------------------------------------------------------------------


def test_a_rollback_across_a_change_of_keys_says_that_no_undo_brings_them_back(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table = new_table(catalog, partitions=("day",))
    table.write(rows(table, events(0, 3)))
    table.upkeep.respec(["day", "id"])
    note = "  the partition keys are those of then: day"
    dry = lakewright(catalog, "rollback", table.name, "--snapshot", "1", "--dry-run")
    assert f"{note}; undo does not bring this back" in dry.lines
    assert not any("lakewright undo RUN" in line for line in dry.lines)
    done = lakewright(catalog, "rollback", table.name, "--snapshot", "1")
    assert note in done.lines


@pytest.mark.mission("FS19")
def test_a_table_goes_back(catalog: Catalog, lakewright: Lakewright) -> None:
    table = history(catalog)
    then = content(table.at(snapshot=2))
    table.history.create_tag("late")
    table.history.set_consumer("me", 6)
    before = on_disk(catalog)
    dry = lakewright(catalog, "rollback", "db.t", "--snapshot", "2", "--dry-run")
    assert dry.lines[0].startswith("db.t to go back from snapshot 6 to 2, and with that ")
    assert dry.lines[1:] == [
        "  4 snapshots (3 to 6) to go",
        "  tag late to go",
        "  consumer me to read on from 3",
        (
            "  undo works until the next commit to db.t: stop its writers first; after a commit, "
            "roll back to snapshot 2 again, which loses the commit, and undo"
        ),
        "  lakewright undo RUN takes it back for 1 h; then its files go",
        "dry run: nothing was written",
    ]
    assert on_disk(catalog) == before
    done = lakewright(catalog, "rollback", "db.t", "--snapshot", "2")
    assert done.lines[0].startswith("db.t is what it was at snapshot 2: 4 snapshots, 1 tag; ")
    assert done.lines[1:3] == ["  tag late deleted", "  consumer me set to read on from 3"]
    assert content(table) == then
    again = lakewright(catalog, "rollback", "db.t", "--snapshot", "2", code=2)
    assert "nothing of db.t is later than snapshot 2" in again.err


def test_a_table_goes_back_to_a_tag_or_a_time(catalog: Catalog, lakewright: Lakewright) -> None:
    table = history(catalog)
    table.history.create_tag("t", snapshot=2)
    expire(table, keep=2)
    dry = lakewright(catalog, "rollback", "db.t", "--tag", "t", "--dry-run")
    assert "  snapshot 2 expired; tag t holds it" in dry.lines
    done = lakewright(catalog, "rollback", "db.t", "--tag", "t", "--format", "json").json
    assert (done["snapshot_id"], done["snapshots_deleted"]) == (2, [5, 6])
    early = lakewright(catalog, "rollback", "db.t", "--as-of", "2001-01-01T00:00:00", code=3)
    assert "no snapshot at or before" in early.err
    lakewright(catalog, "rollback", "db.t", code=2)


# --- consumers ---------------------------------------------------------------------------------


@pytest.mark.mission("LG11")
def test_consumers_are_set_listed_and_deleted(catalog: Catalog, lakewright: Lakewright) -> None:
    table = history(catalog)
    done = lakewright(catalog, "consumer", "set", "db.t", "me", "3")
    assert done.lines == ["consumer me of db.t reads on from snapshot 3"]
    assert lakewright(catalog, "consumer", "list", "db.t").lines[2].split()[:2] == ["me", "3"]
    (as_json,) = lakewright(catalog, "consumer", "list", "db.t", "--format", "json").json
    assert (as_json["name"], as_json["next_snapshot_id"]) == ("me", 3)
    wrong = lakewright(catalog, "consumer", "set", "db.t", "me", "99", code=2)
    assert "name a snapshot from 1 to 7" in wrong.err
    lakewright(catalog, "consumer", "delete", "db.t", "me")
    assert lakewright(catalog, "consumer", "list", "db.t").lines == ["db.t has no consumer"]
    unknown = lakewright(catalog, "consumer", "delete", "db.t", "me", code=3)
    assert "there are none" in unknown.err
    assert not list(Path(table.table_files.paths.consumer_dir).iterdir())


# --- changelogs --------------------------------------------------------------------------------


def test_changelogs_that_outlived_their_snapshots_are_listed_and_expired(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    options = {
        "bucket": "1",
        "changelog-producer": "input",
        "changelog.num-retained.min": "20",
        "changelog.num-retained.max": "30",
    }
    table = new_table(catalog, keys=["id"], options=options)
    for number in range(3):
        table.write(rows(table, events(number, number + 2)))
    none = lakewright(catalog, "changelog", "list", "db.t")
    assert none.lines == ["no changelog of db.t has outlived its snapshot"]
    expire(table)
    lines = lakewright(catalog, "changelog", "list", "db.t").lines
    assert [line.split()[0] for line in lines[2:]] == ["1", "2"]
    assert [line.split()[-1] for line in lines[2:]] == ["2", "2"]
    assert len(lakewright(catalog, "changelog", "list", "db.t", "--format", "json").json) == 2
    kept = lakewright(catalog, "changelog", "expire", "db.t")
    assert kept.lines[0] == "no changelog of db.t to expire"
    before = on_disk(catalog)
    dry = lakewright(catalog, "changelog", "expire", "db.t", "--all", "--dry-run")
    assert dry.lines[0].startswith("changelogs of 2 snapshots (1 to 2) of db.t to go, and with ")
    assert on_disk(catalog) == before
    done = lakewright(catalog, "changelog", "expire", "db.t", "--all")
    assert done.lines[0].startswith("changelogs of 2 snapshots (1 to 2) of db.t expired; ")
    assert table.history.changelogs() == ()
