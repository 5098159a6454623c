"""Orphans from an inventory of the store: the table is not listed, and each file is looked at."""

from __future__ import annotations

import csv
import datetime as dt
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError
from tests.support.stores.watched_files import watched
from tests.support.tables.builders import content, events, new_table, rows
from tests.support.tables.invariants import assert_only_reachable_files

DAY_S = 86_400
PLACE = "day=2024-01-01/bucket-0"


@pytest.fixture
def table(unchecked_catalog: Catalog) -> Table:
    """A table in which every file is two days old, and a folder with two orphans."""
    made = new_table(
        unchecked_catalog, partitions=("day",), options={"bucket": "1", "bucket-key": "id"}
    )
    for day in ("2024-01-01", "a b%"):
        made.write(rows(made, events(0, 3, day=day)))
    root = Path(made.table_files.paths.root)
    for name in ("lost-1.parquet", "lost-2.parquet"):
        (root / PLACE / name).write_bytes(b"rows")
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - 2 * DAY_S,) * 2)
    return made


def inventory(table: Table, prefix: str = "") -> list[dict[str, Any]]:
    """What a store lists of the table, with times of whole seconds."""
    listed = table.table_files.fs.list_tree(table.table_files.paths.root)
    return [
        {
            "key": prefix + each.path.lstrip("/"),
            "size": each.size,
            "last_modified": dt.datetime.fromtimestamp(each.modified_ms // 1000, dt.UTC),
        }
        for each in listed
    ]


def write(path: Path, listed: list[dict[str, Any]]) -> str:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(listed), path)
        return str(path)
    with path.open("w", newline="") as target:
        writer = csv.DictWriter(target, ["Bucket", "key", "SIZE", "LastModifiedDate"])
        writer.writeheader()
        for each in listed:
            moment = each["last_modified"].strftime("%Y-%m-%dT%H:%M:%S.000Z")
            writer.writerow({"key": each["key"], "SIZE": each["size"], "LastModifiedDate": moment})
    return str(path)


@pytest.mark.parametrize("name", ["all.csv", "all.parquet"])
def test_the_orphans_of_an_inventory_go_without_a_listing_of_the_table(
    table: Table, name: str, tmp_path: Path
) -> None:
    before = content(table)
    told = write(tmp_path / name, inventory(table, "file://"))
    seen, fs = watched(table)
    plan = seen.upkeep.plan_remove_orphans(inventory=told)
    root = table.table_files.paths.root
    trees = [call.path.removeprefix(root) for call in fs.calls if call.name == "list_tree"]
    assert not [each for each in trees if not each.startswith("/.lakewright")]
    listed = [call.path.removeprefix(root) for call in fs.calls if call.name == "list_dir"]
    # Only folders of orphans: a key of CSV may be URL-encoded, or the name itself.
    looked = {each for each in listed if "bucket-" in each}
    assert looked - {"/day=a b%/bucket-0"} == {f"/{PLACE}"}
    assert [each.path for each in plan.files] == [
        f"{PLACE}/lost-1.parquet",
        f"{PLACE}/lost-2.parquet",
    ]
    assert plan == table.upkeep.plan_remove_orphans(before_ms=plan.older_than_ms)
    assert table.upkeep.run(plan).files_condemned == 2
    assert content(table) == before
    assert_only_reachable_files(table)


def test_a_file_that_was_written_since_the_inventory_stays(table: Table, tmp_path: Path) -> None:
    told = write(tmp_path / "all.csv", inventory(table))
    folder = Path(table.table_files.paths.root) / PLACE
    # One was written again, and another one is younger than the inventory.
    (folder / "lost-1.parquet").write_bytes(b"ROWS")
    (folder / "lost-3.parquet").write_bytes(b"rows")
    (folder / "lost-2.parquet").write_bytes(b"longer rows")
    os.utime(folder / "lost-2.parquet", (time.time() - 2 * DAY_S,) * 2)
    plan = table.upkeep.plan_remove_orphans(older_than_ms=0, even_recent=True, inventory=told)
    assert plan.files == ()


def test_of_an_inventory_of_all_versions_the_one_that_is_there_counts(
    table: Table, tmp_path: Path
) -> None:
    now = inventory(table)
    before = [{**each, "size": int(each["size"]) + 1} for each in now]
    for number, listed in enumerate(([*before, *now], [*now, *before, *now])):
        told = write(tmp_path / f"{number}.parquet", listed)
        plan = table.upkeep.plan_remove_orphans(inventory=told)
        assert [each.path.rpartition("/")[2] for each in plan.files] == [
            "lost-1.parquet",
            "lost-2.parquet",
        ]


def test_a_commit_after_the_inventory_keeps_its_files(table: Table, tmp_path: Path) -> None:
    staged = table.stage(rows(table, events(5, 6, day="2024-01-01")))
    for path in Path(table.table_files.paths.root).rglob("data-*"):
        os.utime(path, (time.time() - 2 * DAY_S,) * 2)
    told = write(tmp_path / "all.parquet", inventory(table))
    table.commit(staged)
    plan = table.upkeep.plan_remove_orphans(inventory=told)
    assert [each.path.rpartition("/")[2] for each in plan.files] == [
        "lost-1.parquet",
        "lost-2.parquet",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "has no column key and last_modified and size"),
        ("key,size,last_modified\nelsewhere/x,1,2024-01-01T00:00:00Z\n", "names no file of db.t"),
        ("key,size,last_modified\nx,1,yesterday\n", "cannot be read"),
    ],
)
def test_an_inventory_that_is_none_is_refused(
    table: Table, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "all.csv"
    path.write_text(text)
    with pytest.raises(InvalidRequestError, match=said):
        table.upkeep.plan_remove_orphans(inventory=str(path))
