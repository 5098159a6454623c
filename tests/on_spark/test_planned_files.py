"""Spark reads the files of a plan, whatever else lies in their folders, and lists none of them."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # no stubs
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import FileMissing, SnapshotNotFound
from lakewright.storage.files.local_files import LocalFiles
from lakewright.storage.spark import planned_files, read
from lakewright.storage.spec.manifest import DataFileMeta
from tests.on_spark.test_read import filled, frame_content, jobs_of, many_files
from tests.support.tables.builders import compact, content, events, expire, new_table, rows
from tests.support.tables.fixtures import check_all_tables

# Names that a URI, a glob, a list of paths or a shell would take for something else.
AWKWARD = ["it's", "a,b", "100%", "%2F", "back\\slash", "tick`s", "{a b}", "#1?", "*", "ü"]


@pytest.fixture(params=["handed", "listed"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How Spark knows the files: as it is handed them, or as it lists them behind Connect."""
    if request.param == "listed":
        monkeypatch.setattr(read, "takes_planned_files", lambda *_: False)
    return str(request.param)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Catalog]:
    """A warehouse whose path Spark takes for no pattern, since such paths are never listed."""
    opened = Catalog.open(str(tmp_path / "it's, 100% a`b"))
    yield opened
    check_all_tables(opened)


@pytest.fixture
def recompiled() -> Iterator[None]:
    """The reader is compiled in the test, and again after it."""
    planned_files._compiled.cache_clear()
    yield
    planned_files._compiled.cache_clear()


def path_of(table: Table, file: DataFileMeta) -> Path:
    """Where a file of one of the table's splits lies."""
    (split,) = (each for each in table.scan().splits if file in each.files)
    return Path(table.table_files.readable_path(split.place, file))


def any_file(table: Table) -> Path:
    return path_of(table, table.scan().splits[0].files[0])


def test_large_files_are_read_without_a_job_that_lists_them(
    catalog: Catalog, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "SMALL_FILE_BYTES", 0)
    table = many_files(catalog)
    before = jobs_of(spark)
    found = table.scan().to_spark(spark)
    assert jobs_of(spark) == before
    assert len(found.inputFiles()) == 80
    assert frame_content(found, table) == content(table)


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_dead_files_are_not_read_and_live_ones_once(
    plain: Catalog, spark: SparkSession, kind: str, either_way: str
) -> None:
    table = filled(plain, kind)
    compact(table, full=True)
    live = any_file(table)
    dead = Path(shutil.copy(live, live.with_name(f"data-dead-{live.name}")))
    expected = content(table)
    frame = table.to_spark(spark)
    assert frame_content(frame, table) == expected
    if either_way == "handed":
        frame.createOrReplaceTempView("planned")
        spark.catalog.refreshTable("planned")
        spark.catalog.refreshByPath(table.table_files.paths.root)
        assert frame_content(spark.table("planned"), table) == expected
        assert frame_content(frame, table) == expected
    dead.unlink()


def test_paths_are_taken_as_they_are(plain: Catalog, spark: SparkSession, either_way: str) -> None:
    table = new_table(plain, partitions=["day"])
    for day in AWKWARD:
        table.write(rows(table, events(0, 3, day=day)))
    assert frame_content(table.to_spark(spark), table) == content(table)
    where = "day = 'it''s' OR day = '100%'"
    assert frame_content(table.to_spark(spark, where), table) == content(table, where=where)


def test_files_of_one_name_in_two_folders_are_both_read(
    plain: Catalog, spark: SparkSession, either_way: str
) -> None:
    table = new_table(plain, partitions=["day"])
    both = [{"id": number, "day": "ab"[number % 2], "v": "x"} for number in range(10)]
    staged = table.stage(rows(table, both))
    messages = []
    for message in staged.messages:
        (file,) = message.new_files
        folder = Path(table.table_files.bucket_dir(message.place))
        (folder / file.file_name).rename(folder / "data-same-0.parquet")
        messages.append(
            replace(message, new_files=(replace(file, file_name="data-same-0.parquet"),))
        )
    table.commit(replace(staged, messages=tuple(messages)))
    assert len(content(table)) == 10
    assert frame_content(table.to_spark(spark), table) == content(table)


def test_rows_beyond_a_size_that_metadata_has_too_small_are_read(
    plain: Catalog, spark: SparkSession, either_way: str
) -> None:
    table = new_table(plain)
    staged = table.stage(rows(table, events(0, 50)))
    (message,) = staged.messages
    small = tuple(replace(each, file_size=8) for each in message.new_files)
    table.commit(replace(staged, messages=(replace(message, new_files=small),)))
    assert len(content(table)) == 50
    assert frame_content(table.to_spark(spark), table) == content(table)


def test_a_file_that_is_gone_since_the_plan_is_named(
    plain: Catalog, spark: SparkSession, either_way: str
) -> None:
    table = filled(plain, "append")
    scan = table.scan()
    gone = any_file(table)
    gone.rename(gone.with_name("elsewhere"))
    try:
        with pytest.raises((FileMissing, AnalysisException), match=gone.name):
            scan.to_spark(spark)
    finally:
        gone.with_name("elsewhere").rename(gone)


def test_a_missing_file_is_named_where_spark_would_take_its_path_for_a_pattern(
    catalog: Catalog, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "takes_planned_files", lambda *_: False)
    table = filled(catalog, "append")
    gone = any_file(table)
    gone.rename(gone.with_name("elsewhere"))
    try:
        with pytest.raises((PySparkException, Py4JJavaError), match=gone.name):
            table.to_spark(spark).collect()
    finally:
        gone.with_name("elsewhere").rename(gone)


def test_a_snapshot_that_expired_since_the_plan_is_named(
    catalog: Catalog, spark: SparkSession
) -> None:
    table = filled(catalog, "append")
    scan = table.scan()
    table.write(rows(table, events(0, 3, day="a")), mode="overwrite")
    compact(table, full=True)
    expire(table)
    with pytest.raises(SnapshotNotFound, match="expired while it was read"):
        scan.to_spark(spark)


def test_results_are_shared_by_equal_plans_alone(catalog: Catalog, spark: SparkSession) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    first = table.to_spark(spark).cache()
    try:
        assert first.count() == 3
        assert table.to_spark(spark).sameSemantics(first)
        table.write(rows(table, events(3, 5)))
        later = table.to_spark(spark)
        assert not later.sameSemantics(first)
        assert frame_content(later, table) == content(table)
        assert later.exceptAll(table.at(snapshot=1).to_spark(spark)).count() == 2
    finally:
        first.unpersist()


def test_a_linked_file_is_read(catalog: Catalog, spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    live = any_file(table)
    shutil.move(live, tmp_path / "moved.parquet")
    live.symlink_to(tmp_path / "moved.parquet")
    assert frame_content(table.to_spark(spark), table) == content(table)
    live.unlink()
    shutil.move(tmp_path / "moved.parquet", live)


def test_a_jvm_with_other_classes_lists_the_files_itself_and_says_so(
    catalog: Catalog,
    spark: SparkSession,
    recompiled: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(planned_files, "_READER", "NoSuchClass")
    table = filled(catalog, "keyed")
    with caplog.at_level(logging.WARNING, logger=planned_files.__name__):
        for _ in range(2):
            assert frame_content(table.to_spark(spark), table) == content(table)
    assert [each.name for each in caplog.records] == [planned_files.__name__]
    assert "NoSuchClass" in caplog.text


def test_a_second_compilation_in_a_jvm_does_not_disturb_the_first(
    catalog: Catalog, spark: SparkSession, recompiled: None
) -> None:
    table = filled(catalog, "append")
    for _ in range(2):
        planned_files._compiled.cache_clear()
        assert frame_content(table.to_spark(spark), table) == content(table)


@dataclass(frozen=True)
class OtherStore(LocalFiles):
    """A disk under a scheme that Spark has no client for."""

    scheme = "other"


def test_other_stores_are_read_by_our_tasks_alone(catalog: Catalog, spark: SparkSession) -> None:
    table = filled(catalog, "append")
    files = table.table_files
    elsewhere = Table(replace(files, fs=OtherStore(files.env)))
    assert frame_content(elsewhere.to_spark(spark), table) == content(table)
