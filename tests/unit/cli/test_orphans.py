"""`remove-orphans` and `quarantine`: what nothing refers to goes, and comes back when asked for."""

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


def test_orphans_are_named_and_set_aside_and_how_to_bring_them_back_is_said(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table, orphan = with_orphan(catalog)
    before = on_disk(catalog)
    dry = lakewright(catalog, "remove-orphans", "db.t", "--older-than", "2d", "--dry-run")
    assert dry.lines == [
        "1 file of db.t that nothing refers to, 4 B",
        f"  {ORPHAN}",
        "dry run: nothing was written",
    ]
    assert on_disk(catalog) == before
    planned = lakewright(catalog, "remove-orphans", "db.t", "--dry-run", "--format", "json").json
    assert planned["summary"] == {"files": 1, "size_bytes": 4}

    done = lakewright(catalog, "remove-orphans", "db.t")
    assert done.lines[0].startswith("orphans of db.t set aside; 1 file, 4 B in ")
    assert not orphan.exists()
    (quarantine,) = table.upkeep.quarantines()
    restore = f"lakewright quarantine restore db.t {quarantine.id}"
    assert done.lines[1] == f"  bring them back:  {restore}"
    assert "lakewright quarantine purge db.t" in done.lines[2]
    assert lakewright(catalog, "remove-orphans", "db.t").lines == ["no file of db.t is an orphan"]

    # What it says can be typed.
    back = lakewright(catalog, *restore.split()[1:])
    assert back.lines[0].startswith("1 file of db.t restored, 4 B in ")
    assert orphan.read_bytes() == b"rows"
    result = lakewright(catalog, "remove-orphans", "db.t", "--format", "json").json
    assert (result["files_condemned"], result["bytes_condemned"], len(result["quarantines"])) == (
        1,
        4,
        1,
    )


def test_orphans_are_deleted_at_once_when_that_is_said(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table, orphan = with_orphan(catalog)
    done = lakewright(catalog, "remove-orphans", "db.t", "--delete")
    assert re.fullmatch(r"orphans of db\.t deleted; 1 file, 4 B in .*", done.lines[0])
    assert not orphan.exists()
    assert table.upkeep.quarantines() == ()


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
    saved = lakewright(catalog, "remove-orphans", "db.t", "--save-plan", plan)
    assert saved.code == 0
    one = lakewright(catalog, "remove-orphans", "db.t", "--plan", plan, "--format", "json")
    assert one.json["files_condemned"] == 3
    done = lakewright(catalog, "remove-orphans", "db.t", "--format", "json").json
    assert (done["files_condemned"], done["bytes_condemned"]) == (4, 16)
    assert len(done["quarantines"]) == 2
    assert lakewright(catalog, "remove-orphans", "db.t").lines == ["no file of db.t is an orphan"]
    assert_only_reachable_files(table)
    # Three quarantines, of 3, 3 and 1 files: a step holds the first, then the next.
    purge = ("quarantine", "purge", "db.t", "--older-than", "0s")
    dry = lakewright(catalog, *purge, "--dry-run").lines
    assert dry[0] == "3 quarantines of db.t to go, 7 files, 28 B"
    assert "a saved plan holds 1 quarantine of them, one step" in "\n".join(dry)
    purged = lakewright(catalog, *purge, "--format", "json").json
    assert (purged["files_deleted"], purged["bytes_deleted"]) == (7, 28)
    assert table.upkeep.quarantines() == ()


def test_young_files_are_orphans_only_when_that_is_said(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    _, orphan = with_orphan(catalog)
    os.utime(orphan)
    assert lakewright(catalog, "remove-orphans", "db.t", "--older-than", "1").code == 2
    refused = lakewright(catalog, "remove-orphans", "db.t", "--older-than", "59min")
    assert (refused.code, orphan.exists()) == (2, True)
    assert "may belong to a write under way" in refused.err
    lakewright(catalog, "remove-orphans", "db.t", "--older-than", "0s", "--even-recent")
    assert not orphan.exists()


def test_quarantines_are_listed_restored_and_purged(
    catalog: Catalog, lakewright: Lakewright
) -> None:
    table, orphan = with_orphan(catalog)
    assert lakewright(catalog, "quarantine", "list", "db.t").lines == [
        "nothing of db.t is in quarantine"
    ]
    lakewright(catalog, "remove-orphans", "db.t")
    (quarantine,) = table.upkeep.quarantines()
    listed = lakewright(catalog, "quarantine", "list", "db.t")
    assert listed.lines[0].split() == ["quarantine", "since", "(UTC)", "by", "files", "size"]
    assert listed.lines[2].startswith(quarantine.id)
    assert listed.lines[2].endswith("remove-orphans      1   4 B")
    (shown,) = lakewright(catalog, "quarantine", "list", "db.t", "--format", "json").json
    assert (shown["file_count"], shown["size_bytes"]) == (1, 4)
    assert "files" not in shown
    named = lakewright(catalog, "quarantine", "list", "db.t", "--files")
    assert named.lines[-1].split() == [quarantine.id, ORPHAN, "4", "B"]
    (shown,) = lakewright(catalog, "quarantine", "list", "db.t", "--files", "--format", "json").json
    assert shown["files"] == [
        {
            "path": ORPHAN,
            "size_bytes": 4,
            "modified": "2023-11-14T22:13:20.000Z",
            "crc32": "0a8bf4a1",
        }
    ]

    before = on_disk(catalog)
    dry = lakewright(catalog, "quarantine", "restore", "db.t", quarantine.id, ORPHAN, "--dry-run")
    assert dry.lines == [
        "1 file of db.t to come back, 4 B",
        f"  {ORPHAN}",
        "dry run: nothing was written",
    ]
    dry = lakewright(catalog, "quarantine", "purge", "db.t", "--older-than", "0s", "--dry-run")
    assert dry.lines[:2] == ["1 quarantine of db.t to go, 1 file, 4 B", f"  {quarantine.id}"]
    young = lakewright(catalog, "quarantine", "purge", "db.t")
    assert young.lines == ["nothing of db.t has been in quarantine for long enough"]
    assert on_disk(catalog) == before

    orphan.write_bytes(b"others")
    taken = lakewright(catalog, "quarantine", "restore", "db.t", quarantine.id)
    assert (taken.code, orphan.read_bytes()) == (2, b"others")
    assert "is now another file" in taken.err
    orphan.unlink()
    both = lakewright(catalog, "quarantine", "purge", "db.t", quarantine.id, "--older-than", "1d")
    assert (both.code, "not both" in both.err) == (2, True)
    assert lakewright(catalog, "quarantine", "restore", "db.t", "nothing").code == 3
    purged = lakewright(
        catalog, "quarantine", "purge", "db.t", quarantine.id, "--format", "json"
    ).json
    assert (purged["quarantines"], purged["files_deleted"]) == ([quarantine.id], 1)
    assert lakewright(catalog, "quarantine", "restore", "db.t", quarantine.id).code == 3
    assert not Path(table.table_files.paths.upkeep_dir).exists()
