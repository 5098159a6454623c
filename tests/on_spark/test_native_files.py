"""Spark's own reader gets the files that it can read as they are, from columns of manifests."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakewright.storage import (
    AddColumn,
    Catalog,
    ChangeType,
    DropColumn,
    RenameColumn,
    SetOption,
    Table,
)
from lakewright.storage.codec import manifest_columns
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.spark import read
from lakewright.storage.spark.pickling import dumps, loads
from lakewright.storage.spec.schema_change import Position, Side
from lakewright.storage.table_at import TableAt
from tests.on_spark.test_read import frame_content, many_files
from tests.support.tables.builders import compact, content, events, new_table, rows, with_options
from tests.support.tables.landed import LANDED, land_days

# A table, and how many of its live files Spark reads itself, and our tasks.
Made = tuple[Table | TableAt, int, int]
Maker = Callable[[Catalog, Path], Made]


def with_deleted_rows(catalog: Catalog, _: Path) -> Made:
    options = {
        "bucket": "2",
        "deletion-vectors.enabled": "true",
        "num-sorted-run.stop-trigger": "9",
    }
    table = new_table(catalog, keys=["id"], options=options)
    table.write(rows(table, events(0, 40)))
    compact(table, full=True)
    table.write(rows(table, [{"id": 7}, {"id": 8}], kinds=["-D", "-D"]))
    compact(table)
    gone = {where.data_file for split in table.scan().splits for _, where in split.deletions}
    live = [file for split in table.scan().splits for file in split.files]
    assert gone
    return table, len(live) - len(gone), len(gone)


def of_several_schemas(catalog: Catalog, _: Path) -> Made:
    table = new_table(catalog, {"id": "INT", "v": "STRING", "w": "STRING"})
    table.write(rows(table, [{"id": 1, "v": "1", "w": "x"}]))
    table = table.alter(ChangeType("id", "BIGINT"), RenameColumn("v", "t"), DropColumn("w"))
    table.write(rows(table, [{"id": 2, "t": "2"}]))
    table = table.alter(AddColumn("w", "STRING", position=Position(Side.FIRST)))
    table.write(rows(table, [{"w": "new", "id": 3, "t": "3"}]))
    return table, 3, 0


def of_a_schema_that_spark_casts_otherwise(catalog: Catalog, _: Path) -> Made:
    table = new_table(catalog, options={"lakewright.cast-mode": "explicit"})
    table.write(rows(table, events(0, 3, v="")))
    table = table.alter(ChangeType("v", "INT"))
    table.write(rows(table, [{"id": 9, "day": "a", "v": 9}]))
    return table, 1, 1


def of_every_format(catalog: Catalog, _: Path) -> Made:
    table = new_table(catalog)
    for first, name in enumerate(["parquet", "orc", "avro", "parquet"]):
        with_options(table, file__format=name).write(rows(table, events(first, first + 1)))
    return table, 2, 2


def adopted(catalog: Catalog, folder: Path, partitions: list[str]) -> Table:
    table = new_table(catalog, LANDED, partitions=partitions)
    table.write(rows(table, [{"id": 90, "v": "own", "day": "z"}]))
    table.upkeep.add_partitions(str(land_days(folder / "landed")), age_ms=0)
    return catalog.table("db.t")


def with_folders_of_others(catalog: Catalog, folder: Path) -> Made:
    """The files of others have no partition columns."""
    return adopted(catalog, folder, ["day"]), 1, 4


def with_dates_of_others(catalog: Catalog, folder: Path) -> Made:
    """The files of others hold all columns, and their days may be counted otherwise."""
    table = new_table(catalog, {"id": "BIGINT", "day": "DATE"})
    table.write(rows(table, [{"id": 90, "day": dt.date(2024, 1, 1)}]))
    (folder / "landed").mkdir()
    landed = pa.table({"id": [1], "day": [dt.date(1500, 3, 1)]})
    pq.write_table(landed, folder / "landed" / "a.parquet")
    table.upkeep.add_partitions(str(folder / "landed"), into_existing=True, age_ms=0)
    return catalog.table("db.t"), 1, 1


def with_external_paths(catalog: Catalog, folder: Path) -> Made:
    """Files elsewhere that hold all columns, in folders of their own."""
    table = new_table(catalog)
    allowing = table.alter(SetOption("data-file.external-paths", f"file://{folder}"))
    for number in range(3):
        staged = table.stage(rows(table, events(number, number + 1)))
        (message,) = staged.messages
        (file,) = message.new_files
        written = Path(table.table_files.bucket_dir(message.place)) / file.file_name
        path = folder / f"else where {number % 2}" / file.file_name
        path.parent.mkdir(exist_ok=True)
        shutil.copy(written, path)
        elsewhere = replace(file, external_path=f"file:{path}")
        allowing.commit(replace(staged, messages=(replace(message, new_files=(elsewhere,)),)))
        # The commit looks for it there.
        written.unlink()
    table.write(rows(table, events(10, 12)))
    return allowing, 4, 0


def moved_to_other_keys(catalog: Catalog, _: Path) -> Made:
    """Files stay where they lie, outside of the folders of their partitions."""
    table = new_table(catalog, partitions=["day"])
    for day in "ab":
        table.write(rows(table, events(0, 3, day=day)))
    table.upkeep.respec([])
    table = catalog.table("db.t")
    table.write(rows(table, events(5, 7)))
    return table, 3, 0


def with_a_compacted_bucket(catalog: Catalog, _: Path) -> Made:
    table = new_table(catalog, partitions=["day"], keys=["day", "id"], options={"bucket": "1"})
    for day in "ab":
        for v in "xy":
            table.write(rows(table, events(0, 9, day=day, v=v)))
    compact(table, [{"day": "a"}], full=True)
    return table, 1, 2


def of_a_tag(catalog: Catalog, _: Path) -> Made:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    table.history.create_tag("t")
    table.write(rows(table, events(3, 5)))
    return table.at(tag="t"), 1, 0


def of_a_branch(catalog: Catalog, _: Path) -> Made:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    table.history.create_tag("t")
    branch = table.history.create_branch("b", tag="t")
    branch.write(rows(table, events(10, 12)))
    return branch, 2, 0


TABLES: list[Maker] = [
    with_deleted_rows,
    of_several_schemas,
    of_a_schema_that_spark_casts_otherwise,
    of_every_format,
    with_folders_of_others,
    with_dates_of_others,
    with_external_paths,
    moved_to_other_keys,
    with_a_compacted_bucket,
    of_a_tag,
    of_a_branch,
]


@pytest.fixture(params=["packed", "decoded"])
def manifests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a plan holds entries: as a large manifest has them, or as the objects of a small one."""
    if request.param == "packed":
        monkeypatch.setattr(manifest_columns, "LEAST_BLOCKS", 0)
    return str(request.param)


@pytest.mark.parametrize("make", TABLES, ids=[each.__name__ for each in TABLES])
@pytest.mark.sampled(8)
def test_columns_divide_a_plan_as_objects_do(
    catalog: Catalog, spark: SparkSession, tmp_path: Path, manifests: str, make: Maker
) -> None:
    made, native_files, our_files = make(catalog, tmp_path)
    scan = made.scan()
    assert all(
        entry.is_packed == (manifests == "packed") for entry in scan.splits[0].files.live.parts
    )
    decoded = [replace(split, files=tuple(split.files)) for split in scan.splits]
    native, ours = read._divided(spark, scan.reader, scan.splits, "file:")
    assert (native, ours) == read._divided(spark, scan.reader, decoded, "file:")
    paths = [path for found in native.values() for each in found for path in each.paths]
    assert (len(paths), sum(len(each.files) for each in ours)) == (native_files, our_files)
    files = scan.table_files
    everywhere = {files.readable_path(each.place, file) for each in decoded for file in each.files}
    elsewhere = {files.readable_path(each.place, file) for each in ours for file in each.files}
    assert {*paths} == everywhere - elsewhere
    whole = made if isinstance(made, Table) else Table(files)
    assert frame_content(scan.to_spark(spark), whole) == content(made)


def test_a_table_with_a_fallback_branch_is_refused_and_the_branch_itself_is_read(
    catalog: Catalog, spark: SparkSession, manifests: str
) -> None:
    branch, *_ = of_a_branch(catalog, Path())
    table = with_options(catalog.table("db.t"), scan__fallback_branch="b")
    assert content(table) == content(catalog.table("db.t"))
    with pytest.raises(UnsupportedError, match=r"scan\.fallback-branch"):
        table.to_spark(spark)
    assert isinstance(branch, Table)
    assert frame_content(branch.to_spark(spark), branch) == content(branch)


def decoded_entries(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by an element with each entry that becomes an object."""
    found: list[int] = []
    decode = manifest_columns._decoded

    def counted(encoded: bytes, schema: object, name: str) -> object:
        found.append(len(encoded))
        return decode(encoded, schema, name)

    monkeypatch.setattr(manifest_columns, "_decoded", counted)
    return found


@pytest.mark.parametrize("small_file_bytes", [0, read.SMALL_FILE_BYTES], ids=["large", "small"])
@pytest.mark.mission("PT23")
def test_a_plan_of_many_files_makes_at_most_one_object_for_a_schema(
    catalog: Catalog, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, small_file_bytes: int
) -> None:
    monkeypatch.setattr(manifest_columns, "LEAST_BLOCKS", 0)
    monkeypatch.setattr(read, "SMALL_FILE_BYTES", small_file_bytes)
    table = many_files(catalog)
    decoded = decoded_entries(monkeypatch)
    frame = table.to_spark(spark)
    assert len(decoded) <= 1
    assert frame_content(frame, table) == content(table)


def test_files_reach_a_task_as_they_are_stored_and_in_their_order(
    catalog: Catalog, spark: SparkSession, manifests: str
) -> None:
    table = new_table(catalog)
    for number in range(4):
        table.write(rows(table, events(number, number + 1)))
    (split,) = table.scan().splits
    arrived = loads(dumps(replace(split, files=split.files[1:4])))
    assert arrived.files == tuple(split.files)[1:4]
    assert isinstance(arrived.files, tuple)
