"""Spark reads the files of a plan, whatever else lies in their folders, and lists none of them."""

from __future__ import annotations

import logging
import shutil
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import get_ident

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # no stubs
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from lakewright.storage import Catalog, Table
from lakewright.storage.env import SystemEnv
from lakewright.storage.errors import CorruptionError, FileMissing, SnapshotNotFound
from lakewright.storage.files.local_files import LocalFiles, sizes_and_times
from lakewright.storage.operations.read.split_columns import FilesOfFolder
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
        monkeypatch.setattr(read, "handed_base", lambda *_: None)
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
    monkeypatch.setattr(read, "handed_base", lambda *_: None)
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


@dataclass(frozen=True)
class SlowClock(SystemEnv):
    """A clock by which each call of a store takes a tenth of a second."""

    told: list[int] = field(default_factory=list)

    def cores(self) -> int:
        return 2

    def now_ms(self) -> int:
        self.told.append(0)
        return 100 * len(self.told)


@dataclass(frozen=True)
class QuickClock(SystemEnv):
    """A clock by which a store takes no time."""

    def cores(self) -> int:
        return 2

    def now_ms(self) -> int:
        return 0


@pytest.mark.parametrize("env", [SlowClock(), QuickClock()], ids=["slow", "quick"])
def test_threads_ask_a_slow_store_alone_and_files_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: SystemEnv
) -> None:
    found = []
    for folder, count in [("a", 700), ("b", 1), ("c", 3), ("d", 600)]:
        (tmp_path / folder).mkdir()
        names = [f"data-{number}" for number in range(count)]
        for number, name in enumerate(names):
            (tmp_path / folder / name).write_bytes(bytes(number % 50))
        found.append(FilesOfFolder(str(tmp_path / folder), names))
    asking: set[int] = set()

    def seen(folder: str, names: Sequence[str]) -> array[int]:
        asking.add(get_ident())
        return sizes_and_times(folder, names)

    monkeypatch.setattr(planned_files, "sizes_and_times", seen)
    numbers = planned_files._asked(env, found)
    stats = [Path(path).stat() for each in found for path in each.paths]
    assert list(numbers) == [value for each in stats for value in (each.st_size, each.st_mtime_ns)]
    assert (asking == {get_ident()}) == isinstance(env, QuickClock)


@dataclass(frozen=True)
class HaltingClock(SystemEnv):
    """A clock by which the first call of a store takes a tenth of a second, and no other one."""

    told: list[int] = field(default_factory=list)

    def cores(self) -> int:
        return 2

    def now_ms(self) -> int:
        self.told.append(0)
        return 100 if len(self.told) > 1 else 0


def test_a_moment_in_which_a_disk_seems_slow_lets_threads_ask_for_few_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that wait for each other take more of a processor than the calls themselves."""
    found = [FilesOfFolder(str(tmp_path), ["data"] * 250) for _ in range(100)]
    (tmp_path / "data").write_bytes(b"x")
    by_threads: list[int] = []

    def seen(folder: str, names: Sequence[str]) -> array[int]:
        if get_ident() != main:
            by_threads.append(len(names))
        return sizes_and_times(folder, names)

    main = get_ident()
    monkeypatch.setattr(planned_files, "sizes_and_times", seen)
    assert len(planned_files._asked(HaltingClock(), found)) == 2 * 250 * 100
    assert 0 < sum(by_threads) <= 16 * 250


@pytest.mark.parametrize("others", [1, 20])
def test_sizes_of_a_folder_name_the_file_that_is_missing(tmp_path: Path, others: int) -> None:
    names = [f"data-{number}" for number in range(others)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / names[0]).rename(tmp_path / "moved")
    (tmp_path / names[0]).symlink_to(tmp_path / "moved")
    assert list(sizes_and_times(str(tmp_path), names)[::2]) == [1] * others
    for folder, name in [(tmp_path, "data-none"), (tmp_path / "none", names[0])]:
        asked = list(dict.fromkeys([*names[:-1], name, names[-1]]))
        with pytest.raises(FileMissing) as missing:
            sizes_and_times(str(folder), asked)
        assert missing.value.details["path"] == f"{folder}/{name}"


@pytest.mark.parametrize("size", [0, 11])
def test_a_file_without_content_is_named_before_spark_leaves_it_out(
    plain: Catalog, spark: SparkSession, either_way: str, size: int
) -> None:
    table = three_writes(plain)
    path = any_file(table)
    data = path.read_bytes()
    path.write_bytes(data[:size])
    with pytest.raises(CorruptionError, match=f"{path.name} has {size} bytes"):
        table.scan().to_spark(spark)
    path.write_bytes(data)
    assert table.scan().to_spark(spark).count() == 3


@pytest.mark.parametrize("setting", ["ignoreMissingFiles", "ignoreCorruptFiles"])
def test_no_setting_of_a_session_lets_rows_go_without_a_word(
    plain: Catalog, spark: SparkSession, either_way: str, setting: str
) -> None:
    table = three_writes(plain)
    path = any_file(table)
    data = path.read_bytes()
    spark.conf.set(f"spark.sql.files.{setting}", "true")
    try:
        frame = table.scan().to_spark(spark)
        if setting == "ignoreMissingFiles":
            path.unlink()
        else:
            path.write_bytes(data[: len(data) // 2])
        with pytest.raises((PySparkException, Py4JJavaError)):
            frame.collect()
    finally:
        spark.conf.unset(f"spark.sql.files.{setting}")
        path.write_bytes(data)


def three_writes(catalog: Catalog) -> Table:
    table = new_table(catalog)
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
    return table
