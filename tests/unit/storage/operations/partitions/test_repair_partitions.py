"""Tables are compared with the folders that they took over, and follow them if asked to."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, RepairMode, Table
from lakewright.storage.errors import InvalidRequestError, StalePlan
from lakewright.storage.operations.leases.leases import LeaseRequest, acquire_lease, scope_of
from lakewright.storage.operations.partitions.repair_partitions import RepairPlan
from lakewright.storage.spec.lease import LeaseKind
from tests.support.tables.builders import compact, content, new_table, rows
from tests.support.tables.landed import LANDED, land, land_days, rows_of

NOW: dict[str, Any] = {"age_ms": 0}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return land_days(tmp_path / "landed")


@pytest.fixture
def table(unchecked_catalog: Catalog, root: Path) -> Table:
    """A table that took over the days a and b; its invariants do not hold while files are gone."""
    new_table(unchecked_catalog, LANDED, partitions=["day"])
    unchecked_catalog.table("db.t").upkeep.add_partitions(str(root), **NOW)
    return unchecked_catalog.table("db.t")


def drift(table: Table) -> RepairPlan:
    return table.upkeep.plan_repair_partitions(mode="sync", **NOW)


@pytest.mark.mission("PT44", "PT65", "PT66", "RS14", "CT2")
def test_new_folders_are_unseen_until_a_repair_adds_them(table: Table, root: Path) -> None:
    land(root / "day=c" / "f.parquet", rows_of(90, 92))
    land(root / "day=a" / "late.parquet", rows_of(80, 81))
    assert table.read().num_rows == 12
    plan = table.upkeep.plan_repair_partitions(**NOW)
    assert plan.mode is RepairMode.ADD
    assert [(each.partition, each.rows) for each in plan.found] == [
        ({"day": "a"}, 1),
        ({"day": "c"}, 2),
    ]
    assert table.read().num_rows == 12
    result = table.upkeep.run(RepairPlan.from_json(plan.to_json()))
    assert (result.files_added, result.rows_added, result.files_dropped) == (2, 3, 0)
    assert table.read().num_rows == 15
    assert table.upkeep.repair_partitions(**NOW).snapshot is None
    assert drift(table).known_files == 6


@pytest.mark.mission("PT66", "RS14")
def test_files_that_are_gone_are_dropped_only_if_asked(table: Table, root: Path) -> None:
    shutil.rmtree(root / "day=b")
    (root / "day=a" / "part-00000.c000.zstd.parquet").unlink()
    plan = table.upkeep.plan_repair_partitions(**NOW)
    assert [(each.partition, len(each.files), each.rows) for each in plan.gone] == [
        ({"day": "a"}, 1, 3),
        ({"day": "b"}, 2, 6),
    ]
    assert table.upkeep.run(plan).snapshot is None
    result = table.upkeep.repair_partitions(mode="drop", **NOW)
    assert (result.files_dropped, result.rows_dropped) == (3, 9)
    assert table.read().column("id").to_pylist() == [3, 4, 5]
    assert not drift(table).gone


@pytest.mark.mission("PT65", "PT66")
def test_a_sync_adds_and_drops_in_one_commit(table: Table, root: Path) -> None:
    shutil.rmtree(root / "day=b")
    land(root / "day=c" / "f.orc", rows_of(90, 92))
    before = table.at().snapshot
    assert before is not None
    result = table.upkeep.repair_partitions(mode=RepairMode.SYNC, **NOW)
    assert result.snapshot is not None
    assert result.snapshot.id == before.id + 1
    assert (result.rows_added, result.rows_dropped) == (2, 6)
    assert content(table, where="day = 'b'") == []
    assert content(table.at(snapshot=before.id), where="day = 'a'")


@pytest.mark.mission("RS14")
def test_a_folder_that_is_being_written_is_left_alone(table: Table, root: Path) -> None:
    land(root / "day=c" / "f.parquet", rows_of(90, 92))
    (root / "day=c" / "g.parquet.inprogress").touch()
    land(root / "day=d" / "f.parquet", rows_of(95, 96))
    plan = drift(table)
    assert [each.partition for each in plan.found] == [{"day": "d"}]
    (left,) = plan.left
    assert left.partition == {"day": "c"}
    assert "g.parquet.inprogress has the name of an unfinished file" in left.reason
    young = table.upkeep.plan_repair_partitions(age_ms=3_600_000)
    assert not young.found
    assert "was written 0 s ago" in young.left[0].reason


def grown_old(root: Path) -> None:
    """Let all files below a folder be a day old."""
    for path in root.rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - 86_400
            os.utime(path, (then, then))


@pytest.mark.mission("RS14")
def test_a_young_file_elsewhere_does_not_keep_a_partition_that_is_gone(
    table: Table, root: Path
) -> None:
    grown_old(root)
    shutil.rmtree(root / "day=b")
    land(root / "day=c" / "f1.parquet", rows_of(90, 92))
    land(root / "f2.parquet", rows_of(92, 94))
    plan = table.upkeep.plan_repair_partitions(mode="sync")
    assert [(each.partition, each.rows) for each in plan.gone] == [({"day": "b"}, 6)]
    assert [each.partition for each in plan.left] == [{"day": "c"}, {}]
    assert "within the 60 s of --age (age_ms)" in plan.left[0].reason
    assert table.upkeep.run(plan).rows_dropped == 6
    assert table.read().num_rows == 6


@pytest.mark.mission("RS14")
def test_a_young_file_beside_a_file_that_is_gone_keeps_its_partition(
    table: Table, root: Path
) -> None:
    grown_old(root)
    (root / "day=a" / "part-00000.c000.zstd.parquet").unlink()
    (root / "day=b" / "part-00000.c000.zstd.parquet").unlink()
    land(root / "day=a" / "f1.parquet", rows_of(90, 92))
    # Another name of the folder of day b.
    land(root / "day=%62" / "f1.parquet", rows_of(92, 94))
    plan = table.upkeep.plan_repair_partitions(mode="drop")
    assert not plan.gone
    reasons = [each.reason for each in plan.left if "gone" in each.reason]
    told = "1 file is gone, and file f1.parquet was written 0 s ago, within the 60 s of --age"
    assert [reason.startswith(told) for reason in reasons] == [True, True]


@pytest.mark.mission("RS14")
@pytest.mark.parametrize("name", ["_temporary/0/f.parquet", "f.parquet.inprogress"])
def test_a_job_that_stages_above_a_partition_that_is_gone_keeps_it(
    table: Table, root: Path, name: str
) -> None:
    shutil.rmtree(root / "day=b")
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).touch()
    plan = table.upkeep.plan_repair_partitions(mode="drop", **NOW)
    assert not plan.gone
    assert [each.partition for each in plan.left if "are gone" in each.reason] == [{"day": "b"}]


@pytest.mark.mission("RS14")
@pytest.mark.parametrize("place", ["day=b/base_2", "_swap/day=b", ".staging"])
def test_a_partition_that_is_gone_stays_while_a_young_file_lies_below_it_or_hidden_above_it(
    table: Table, root: Path, place: str
) -> None:
    grown_old(root)
    for each in (root / "day=b").iterdir():
        each.unlink()
    land(root / place / "f.parquet", rows_of(90, 92))
    plan = table.upkeep.plan_repair_partitions(mode="drop")
    assert not plan.gone
    assert [each.partition for each in plan.left if "are gone" in each.reason] == [{"day": "b"}]


@pytest.mark.mission("RS14")
@pytest.mark.parametrize(
    ("stray", "why"),
    [
        ("dt=abc/r=x", "'abc' is not a valid DATE"),
        ("dt=2024-01-01/r=x/z=1", "it has 3 levels of folders"),
        ("dt=2024-01-01", "it has 1 levels of folders"),
        ("dt=2024-01-01/q=x", "'q' is not a partition key"),
        ("other/x", "other is not of the form key=value"),
    ],
)
def test_a_folder_that_is_no_partition_is_told_and_the_others_are_repaired(
    unchecked_catalog: Catalog, tmp_path: Path, stray: str, why: str
) -> None:
    columns = {"id": "BIGINT", "v": "STRING", "dt": "DATE", "r": "STRING"}
    new_table(unchecked_catalog, columns, partitions=["dt", "r"])
    root = tmp_path / "landed"
    for day in (1, 2):
        land(root / f"dt=2024-01-0{day}" / "r=x" / "f.parquet", rows_of(day, day + 1))
    unchecked_catalog.table("db.t").upkeep.add_partitions(str(root), **NOW)
    land(root / stray / "s.parquet", rows_of(70, 72))
    land(root / "dt=2024-01-03" / "r=x" / "f.parquet", rows_of(3, 4))
    shutil.rmtree(root / "dt=2024-01-02")
    table = unchecked_catalog.table("db.t")
    plan = drift(table)
    (left,) = plan.left
    assert (left.partition, left.folder) == ({}, str(root / stray))
    assert why in left.reason
    result = table.upkeep.run(RepairPlan.from_json(plan.to_json()))
    assert (result.rows_added, result.rows_dropped) == (1, 1)
    assert sorted(table.read().column("id").to_pylist()) == [1, 3]
    with pytest.raises(InvalidRequestError, match="is no partition of"):
        table.upkeep.add_partitions(str(root / stray), **NOW)


@pytest.mark.mission("RS14")
def test_a_file_that_is_damaged_does_not_keep_others_from_their_repair(
    table: Table, root: Path
) -> None:
    for day in ("c", "d"):
        land(root / f"day={day}" / "f.parquet", rows_of(90, 92))
    (root / "day=c" / "f.parquet").write_bytes(b"no parquet file")
    plan = drift(table)
    assert [each.partition for each in plan.found] == [{"day": "d"}]
    assert [each.partition for each in plan.left] == [{"day": "c"}]
    assert "cannot be read" in plan.left[0].reason


def test_strays_alone_do_not_show_that_a_disk_is_mounted(table: Table, root: Path) -> None:
    shutil.rmtree(root)
    land(root / "f.parquet", rows_of(90, 92))
    with pytest.raises(InvalidRequestError, match=r"is no partition .* look whether its disk"):
        drift(table)


@pytest.mark.mission("RS14")
def test_a_folder_taken_over_as_one_partition_below_others_is_known(
    table: Table, root: Path
) -> None:
    late = land(root / "late" / "f.parquet", rows_of(90, 92))
    land(root / "late" / "g.parquet", rows_of(92, 93))
    table.upkeep.add_partitions(str(root / "late"), partition={"day": "l"}, **NOW)
    plan = drift(table)
    assert (plan.found, plan.gone, plan.left, plan.known_files) == ((), (), (), 6)
    land(root / "late" / "g.parquet", rows_of(0, 50))
    assert "g.parquet was written over" in drift(table).left[0].reason
    late.unlink()
    (gone,) = drift(table).gone
    assert (gone.partition, gone.rows) == ({"day": "l"}, 2)


@pytest.mark.mission("RS14")
def test_a_partition_under_a_lease_is_left_alone(table: Table, root: Path) -> None:
    request = LeaseRequest(
        kind=LeaseKind.OVERWRITE,
        scope=scope_of(table.table_files, [{"day": "c"}]),
        holder="nightly load",
    )
    acquire_lease(table.table_files, request)
    land(root / "day=c" / "f.parquet", rows_of(90, 92))
    plan = drift(table)
    assert not plan.found
    assert plan.left[0].reason == "nightly load has a lease on the partition"


def test_rows_that_a_compaction_merged_are_not_added_again(table: Table, root: Path) -> None:
    compact(table, full=True)
    plan = drift(table)
    assert not plan.found
    assert not plan.gone
    assert "files of the table's own" in plan.left[0].reason
    assert table.read().num_rows == 12


def test_a_file_that_was_written_over_is_told(table: Table, root: Path) -> None:
    land(root / "day=a" / "part-00000.c000.zstd.parquet", rows_of(0, 50))
    (left,) = drift(table).left
    assert "was written over" in left.reason
    assert left.partition == {"day": "a"}


def test_a_repair_through_a_symbolic_link_adds_nothing_again(
    table: Table, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(root)
    plan = table.upkeep.plan_repair_partitions(str(tmp_path / "link"), **NOW)
    assert (plan.found, plan.gone, plan.left, plan.known_files) == ((), (), (), 4)


def test_an_empty_folder_is_taken_for_a_disk_that_is_not_mounted(table: Table, root: Path) -> None:
    shutil.rmtree(root)
    with pytest.raises(InvalidRequestError, match="look whether its disk is mounted"):
        drift(table)


def test_a_file_that_came_back_makes_the_plan_stale(table: Table, root: Path) -> None:
    kept = (root / "day=b").rename(root.parent / "aside")
    plan = drift(table)
    kept.rename(root / "day=b")
    with pytest.raises(StalePlan, match="is there now"):
        table.upkeep.run(plan)
    assert table.read().num_rows == 12


def test_a_partition_that_is_written_after_the_plan_makes_it_stale(
    table: Table, root: Path
) -> None:
    land(root / "day=c" / "f.parquet", rows_of(90, 92))
    plan = drift(table)
    table.write(rows(table, [{"id": 1, "day": "c"}]))
    with pytest.raises(StalePlan, match="partition day=c of"):
        table.upkeep.run(plan)


@pytest.mark.mission("RS6", "RS14")
def test_folders_of_values_alone_are_read_as_the_files_that_are_there(
    catalog: Catalog, tmp_path: Path
) -> None:
    columns = {"id": "BIGINT", "v": "STRING", "country": "STRING", "day": "DATE"}
    new_table(catalog, columns, partitions=["country", "day"])
    root = tmp_path / "landed"
    land(root / "2019-08-30" / "china" / "f.parquet", rows_of(0, 2))
    table = catalog.table("db.t")
    table.upkeep.add_partitions(str(root), keys=["day", "country"], **NOW)
    land(root / "2019-08-31" / "peru" / "f.parquet", rows_of(2, 4))
    catalog.table("db.t").upkeep.repair_partitions(**NOW)
    found = catalog.table("db.t").read(where="country = 'peru'").to_pylist()
    assert [row["day"] for row in found] == [dt.date(2019, 8, 31)] * 2


@pytest.mark.mission("RS14")
@pytest.mark.parametrize("way", ["drop", "rename", "compact"])
def test_a_folder_whose_partition_left_it_does_not_keep_others_from_their_repair(
    catalog: Catalog, tmp_path: Path, way: str
) -> None:
    new_table(catalog, LANDED, partitions=["day"])
    for day in ("a", "b"):
        folder = tmp_path / "landed" / f"day=other-{day}"
        land(folder / "f.parquet", rows_of(0, 2))
        land(folder / "g.parquet", rows_of(2, 4))
        catalog.table("db.t").upkeep.add_partitions(str(folder), partition={"day": day}, **NOW)
    table = catalog.table("db.t")
    if way == "drop":
        table.upkeep.drop_partitions(partitions=[{"day": "a"}])
    elif way == "rename":
        table.upkeep.rename_partition({"day": "a"}, {"day": "z"})
    else:
        compact(table, full=True, partitions=[{"day": "a"}])
    land(tmp_path / "landed" / "day=other-b" / "late.parquet", rows_of(90, 91))
    before = table.read().num_rows
    plan = drift(table)
    (left,) = plan.left
    assert (left.partition, left.folder) == ({}, str(tmp_path / "landed" / "day=other-a"))
    assert "refers to no file there, and folder . below" in left.reason
    assert [(each.partition, each.rows) for each in plan.found] == [({"day": "b"}, 1)]
    table.upkeep.run(plan)
    assert table.read().num_rows == before + 1
    with pytest.raises(InvalidRequestError, match="is no partition of"):
        table.upkeep.plan_repair_partitions(left.folder, **NOW)


def test_a_table_that_took_nothing_over_needs_a_folder(catalog: Catalog, root: Path) -> None:
    table = new_table(catalog, LANDED, name="db.other", partitions=["day"])
    with pytest.raises(InvalidRequestError, match="took no folder over"):
        drift(table)
    with pytest.raises(InvalidRequestError, match="mode is 'all'; it is one of add, drop, sync"):
        table.upkeep.repair_partitions(str(root), mode="all")
    table.upkeep.repair_partitions(str(root), **NOW)
    assert catalog.table("db.other").read().num_rows == 12
