"""`remove-orphans` and `condemned`: what nothing refers to goes, unless it is put back."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lakewright.platform.upkeep import clean
from lakewright.storage import Catalog, Table
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files
from tests.unit.cli.conftest import Lakewright, on_disk

ORPHAN = "bucket-0/data-left-behind.parquet"


def with_orphan(catalog: Catalog) -> tuple[Table, Path]:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    orphan = Path(table.table_files.paths.root) / ORPHAN
    orphan.write_bytes(b"rows")
    for path in (orphan, Path(table.table_files.paths.manifest_dir)):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return table, orphan


def test_orphans_are_named_and_condemned_and_undone(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table, orphan = with_orphan(catalog)
    before = on_disk(catalog)
    dry = lakewright(catalog, "remove-orphans", "db.t", "--older-than", "2d", "--dry-run")
    assert dry.lines == [
        "1 file of db.t that nothing refers to, 4 B",
        f"  {ORPHAN}",
        "  lakewright undo RUN takes it back for 7 d; then its files go",
        "dry run: nothing was written",
    ]
    assert on_disk(catalog) == before
    planned = lakewright(catalog, "remove-orphans", "db.t", "--dry-run", "--format", "json").json
    assert planned["summary"] == {"files": 1, "size_bytes": 4}

    done = lakewright(catalog, "remove-orphans", "db.t")
    assert done.lines[0].startswith("orphans of db.t removed; 1 file, 4 B marked for deletion in ")
    assert orphan.exists()
    (run,) = table.upkeep.condemned()
    shown = lakewright(catalog, "show", "db.t")
    assert "1 file, 4 B more, which can be restored until" in shown.out
    assert lakewright(catalog, "show", "db.t", "--format", "json").json["condemned_bytes"] == 4
    assert lakewright(catalog, "remove-orphans", "db.t").lines == ["no file of db.t is an orphan"]

    back = lakewright(catalog, "undo", run.run)
    assert "what remove orphans took from db.t: 0 references, 1 file, 4 B, is back" in back.out
    assert table.upkeep.condemned() == ()
    result = lakewright(catalog, "remove-orphans", "db.t", "--format", "json").json
    assert (result["files_condemned"], result["bytes_condemned"]) == (1, 4)


def test_orphans_are_deleted_at_once_when_that_is_said(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table, orphan = with_orphan(catalog)
    done = lakewright(catalog, "remove-orphans", "db.t", "--grace", "0")
    assert re.fullmatch(r"orphans of db\.t removed; 1 file, 4 B deleted in .*", done.lines[0])
    assert not orphan.exists()
    assert table.upkeep.condemned() == ()


def test_a_removal_of_many_orphans_goes_in_steps_until_none_is_left(
    catalog: Catalog, lakewright: Lakewright, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table, orphan = with_orphan(catalog)
    for number in range(6):
        other = orphan.with_name(f"data-left-{number}.parquet")
        other.write_bytes(b"rows")
        os.utime(other, (1_700_000_000, 1_700_000_000))
    monkeypatch.setattr(clean, "_STEP_FILES", 3)
    planned = lakewright(catalog, "remove-orphans", "db.t", "--dry-run").lines
    assert planned[0] == "3 files of db.t that nothing refers to, 12 B"
    assert planned[1].strip() == "this is one step; 4 more files in further steps of the same call"
    # A saved plan is one step.
    plan = str(tmp_path / "plan.json")
    lakewright(catalog, "remove-orphans", "db.t", "--save-plan", plan)
    one = lakewright(catalog, "remove-orphans", "db.t", "--plan", plan, "--format", "json")
    assert one.json["files_condemned"] == 3
    done = lakewright(catalog, "remove-orphans", "db.t", "--format", "json").json
    assert (done["files_condemned"], done["bytes_condemned"]) == (4, 16)
    assert lakewright(catalog, "remove-orphans", "db.t").lines == ["no file of db.t is an orphan"]
    assert_only_reachable_files(table)
    # Three records, of 3, 3 and 1 files: a step holds the first, then the next.
    collect = ("condemned", "collect", "db.t", "--now")
    dry = lakewright(catalog, *collect, "--dry-run").lines
    assert dry[0] == "3 files, 12 B of db.t to delete, marked by 1 run"
    assert "this is one step; 2 more runs in further steps" in "\n".join(dry)
    collected = lakewright(catalog, *collect, "--format", "json").json
    assert (collected["files_deleted"], collected["bytes_deleted"]) == (7, 28)
    assert table.upkeep.condemned() == ()


def test_young_files_are_orphans_only_when_that_is_said(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    _, orphan = with_orphan(catalog)
    os.utime(orphan)
    lakewright(catalog, "remove-orphans", "db.t", "--older-than", "1", code=2)
    refused = lakewright(catalog, "remove-orphans", "db.t", "--older-than", "59min", code=2)
    assert orphan.exists()
    assert "may belong to a write in progress" in refused.err
    any_age = ("--older-than", "0s", "--even-recent", "--grace", "0")
    lakewright(catalog, "remove-orphans", "db.t", *any_age)
    assert not orphan.exists()


def test_what_is_condemned_is_listed_put_back_and_collected(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table, orphan = with_orphan(catalog)
    assert lakewright(catalog, "condemned", "list", "db.t").lines == [
        "nothing of db.t is marked for deletion"
    ]
    lakewright(catalog, "remove-orphans", "db.t")
    (run,) = table.upkeep.condemned()
    shown = lakewright(catalog, "show", "db.t")
    assert "1 file, 4 B more, which can be restored until" in shown.out
    assert lakewright(catalog, "show", "db.t", "--format", "json").json["condemned_bytes"] == 4
    listed = lakewright(catalog, "condemned", "list", "db.t")
    assert listed.lines[0].split() == [
        "id", "by", "the", "run", "since", "(UTC)", "until", "(UTC)", "files", "size",
    ]  # fmt: skip
    assert listed.lines[2].startswith(f"{run.id}  lakewright remove-orphans (")
    assert listed.lines[2].endswith("1   4 B")
    (shown,) = lakewright(catalog, "condemned", "list", "db.t", "--format", "json").json
    assert (shown["verb"], shown["file_count"], shown["size_bytes"]) == ("remove_orphans", 1, 4)

    before = on_disk(catalog)
    dry = lakewright(catalog, "condemned", "put-back", "db.t", run.id, "--dry-run")
    assert dry.lines[0].endswith("0 references, 1 file, 4 B, to come back")
    young = lakewright(catalog, "condemned", "collect", "db.t")
    assert young.lines == ["no file of db.t that is marked for deletion is due"]
    assert on_disk(catalog) == before

    orphan.unlink()
    gone = lakewright(catalog, "condemned", "put-back", "db.t", run.id, code=2)
    assert (gone.code, "another client removed them as orphans" in gone.err) == (2, True)
    lakewright(catalog, "condemned", "put-back", "db.t", "nothing", code=3)
    collected = lakewright(
        catalog, "condemned", "collect", "db.t", "--now", "--format", "json"
    ).json
    assert (collected["records"], collected["files_deleted"]) == ([run.id], 0)
    assert not Path(table.table_files.paths.upkeep_dir).exists()
