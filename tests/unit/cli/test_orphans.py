"""`remove-orphans`: says what nothing refers to, and deletes just that."""

from __future__ import annotations

import os
from pathlib import Path

from lakewright.storage import Catalog
from tests.support.builders import events, new_table, rows
from tests.unit.cli.conftest import Lakewright
from tests.unit.cli.test_upkeep import on_disk


def test_orphans_are_named_and_removed(catalog: Catalog, lakewright: Lakewright) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    assert lakewright(catalog, "remove-orphans", "db.t").lines == ["no file of db.t is an orphan"]
    orphan = Path(table.files.paths.root) / "bucket-0" / "data-left-behind.parquet"
    orphan.write_bytes(b"rows")
    # By the machine's clock, which the command line reads.
    for path in (orphan, Path(table.files.paths.manifest_dir)):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    before = on_disk(catalog)
    dry = lakewright(catalog, "remove-orphans", "db.t", "--older-than", "2d", "--dry-run")
    assert dry.lines == [
        "1 file of db.t that nothing refers to, 4 B",
        "  bucket-0/data-left-behind.parquet",
        "dry run: nothing was written",
    ]
    assert on_disk(catalog) == before
    planned = lakewright(catalog, "remove-orphans", "db.t", "--dry-run", "--json").json
    assert planned["summary"] == {"files": 1, "size_bytes": 4}
    done = lakewright(catalog, "remove-orphans", "db.t")
    assert done.lines[0].startswith("orphans of db.t removed; 1 file, 4 B deleted in ")
    assert not orphan.exists()
    assert lakewright(catalog, "remove-orphans", "db.t", "--older-than", "1").code == 2
