"""Folders of plain files as tables: read, written, and their partitions kept."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewright.storage import Catalog, FormatTable
from lakewright.storage.errors import (
    AlreadyExistsError,
    CorruptionError,
    InvalidRequestError,
    InvalidRows,
    InvalidSchema,
    PartitionExists,
    PartitionNotFound,
    StorageError,
    UnsupportedError,
)
from lakewright.storage.operations.format_tables.registry import change_registry
from tests.support.stores.watched_files import Crashed, Fault, WatchedFiles
from tests.support.tables.builders import comparable, new_table
from tests.support.tables.fixtures import empty_memory, memory_catalog
from tests.support.tables.landed import LANDED, land, land_days, rows_of

FORMATS = ["csv", "json", "text", "parquet", "orc", "avro"]
REGISTERED = {"metastore.partitioned-table": "true"}
ONLY_VALUES = {"format-table.partition-path-only-value": "true"}


def made(catalog: Catalog, **how: Any) -> FormatTable:
    columns = how.pop("columns", LANDED)
    return catalog.create_format_table("db.f", columns, partition_keys=["day"], **how)


def some(first: int, last: int, day: str | None = "a", v: str = "v") -> pa.Table:
    rows = [{**row, "day": day} for row in rows_of(first, last, v)]
    return pa.Table.from_pylist(rows, schema=pa.schema(list(_TYPES.items())))


_TYPES = {"id": pa.int64(), "v": pa.string(), "day": pa.string()}


def ids(table: FormatTable, where: str | None = None) -> list[int]:
    return sorted(table.read(where, ["id"]).column("id").to_pylist())


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.mission("PT14", "RS11")
def test_rows_are_read_as_they_were_written(catalog: Catalog, file_format: str) -> None:
    columns = {"line": "STRING", "day": "DATE", "hour": "INT"}
    if file_format != "text":
        columns |= {
            "n": "INT", "big": "BIGINT", "d": "DECIMAL(10, 2)", "x": "DOUBLE", "b": "BOOLEAN",
            "t": "TIMESTAMP(6)", "on_": "DATE",
        }  # fmt: skip
    table = catalog.create_format_table(
        "db.f", columns, file_format=file_format, partition_keys=["day", "hour"]
    )
    values = {
        "n": -5, "big": 2**60, "d": Decimal("1.50"), "x": 0.1, "b": True,
        "t": dt.datetime(2024, 1, 31, 12, 30, 1, 500), "on_": dt.date(1969, 12, 31),
    }  # fmt: skip
    day = dt.date(2024, 1, 31)
    texts = ["a", 'say "hi", twice', "ümläut", ""]
    rows = [{"line": text, "day": day, "hour": n % 2, **values} for n, text in enumerate(texts)]
    if file_format != "text":
        rows.append({"line": None, "day": None, "hour": 1} | dict.fromkeys(values))
    given = pa.Table.from_pylist(
        [{name: row[name] for name in columns} for row in rows], schema=table.arrow_schema
    )
    table.write(given)
    assert comparable(catalog.format_table("db.f").read()) == comparable(given)
    assert {str(each["day"]) for each in table.partitions()} <= {"2024-01-31", "None"}
    folder = Path(catalog.root, "db.db", "f", "day=2024-01-31", "hour=0")
    assert [path.suffix for path in folder.iterdir()] == [f".{file_format}"]


@pytest.mark.parametrize("suffix", ["parquet", "orc", "avro"])
@pytest.mark.mission("PT14", "PT15", "PT21")
def test_folders_of_other_systems_are_a_table(
    catalog: Catalog, tmp_path: Path, suffix: str
) -> None:
    root = land_days(tmp_path / "landed", ["a", "b%2Fc", "__HIVE_DEFAULT_PARTITION__"], suffix)
    table = made(catalog, file_format=suffix, location=str(root))
    assert table.read().num_rows == 18
    assert ids(table, "day = 'b/c' AND id > 13") == [14, 15]
    assert ids(table, "day IS NULL") == [20, 21, 22, 23, 24, 25]
    assert [each["day"] for each in table.partitions()] == [None, "a", "b/c"]
    (path, _) = sorted(root.rglob(f"day=a/*.{suffix}"))
    path.rename(path.with_name("000000_0"))
    assert ids(table, "day = 'a'") == [0, 1, 2, 3, 4, 5]


@pytest.mark.mission("RS6", "PT14")
def test_folders_of_values_alone_are_a_table(catalog: Catalog, tmp_path: Path) -> None:
    root = tmp_path / "landed"
    land(root / "2019-08-30" / "f.parquet", rows_of(0, 2))
    table = made(catalog, columns=LANDED | {"day": "DATE"}, location=str(root), options=ONLY_VALUES)
    assert table.read().column("day").to_pylist() == [dt.date(2019, 8, 30)] * 2
    new = pa.Table.from_pylist([{"id": 7, "v": "x"}])
    table.write(new, partition={"day": "2019-08-31"})
    assert len(list((root / "2019-08-31").iterdir())) == 1
    assert ids(table, "day = '2019-08-31'") == [7]


@pytest.mark.mission("PT14", "PT41", "PT42")
def test_only_folders_that_match_are_listed(catalog: Catalog, tmp_path: Path) -> None:
    columns = LANDED | {"hour": "INT"}
    root = tmp_path / "landed"
    for day in "abc":
        for hour in range(3):
            land(root / f"day={day}" / f"hour={hour}" / "f.parquet", rows_of(hour, hour + 1))
    plain = catalog.create_format_table(
        "db.f", columns, partition_keys=["day", "hour"], location=str(root)
    )
    watched = WatchedFiles(plain.table_files.fs)
    seen = Catalog(watched, catalog.root, catalog.env).format_table("db.f")
    watched.calls.clear()
    scan = seen.scan("day = 'b' AND hour >= 1 AND id < 100")
    assert len(scan.files) == 2
    listed = [call.path for call in watched.calls if str(call.name).startswith("list")]
    below = [path.removeprefix(str(root)).strip("/") for path in listed]
    assert sorted({*below}) == ["", "day=b", "day=b/hour=1", "day=b/hour=2"]


@pytest.mark.parametrize("options", [{}, REGISTERED], ids=["folders", "registry"])
@pytest.mark.mission("PT14", "PT45", "RS10", "RS12")
def test_writes_are_static_dynamic_or_overwrite(catalog: Catalog, options: dict[str, str]) -> None:
    table = made(catalog, options=options)
    table.write(pa.concat_tables([some(0, 2, "a"), some(2, 4, "b"), some(4, 5, None)]))
    table.write(some(5, 6).drop_columns(["day"]), partition={"day": "c"})
    assert ids(table) == [0, 1, 2, 3, 4, 5]
    table.write(some(10, 11, "a"), mode="overwrite")
    assert ids(table) == [2, 3, 4, 5, 10]
    table.write(some(0, 0).drop_columns(["day"]), mode="overwrite", partition={"day": "b"})
    assert ids(table) == [4, 5, 10]
    assert {"day": "b"} in table.partitions()
    table.write(some(20, 21, "z"), mode="overwrite", dynamic=False)
    assert ids(table) == [20]


@pytest.mark.mission("PT44", "PT65", "PT66", "CT6")
def test_unregistered_folders_are_unseen_until_a_repair(catalog: Catalog, tmp_path: Path) -> None:
    root = land_days(tmp_path / "landed")
    table = made(catalog, location=str(root), options=REGISTERED)
    assert table.read().num_rows == 0
    assert [each.spec for each in table.drift().found] == [{"day": "a"}, {"day": "b"}]
    assert not table.partitions()
    table.repair_partitions()
    assert table.read().num_rows == 12
    land(root / "day=c" / "f.parquet", rows_of(90, 91))
    for path in (root / "day=a").iterdir():
        path.unlink()
    (root / "day=a").rmdir()
    assert ids(table) == [10, 11, 12, 13, 14, 15]
    drift = table.drift()
    assert ([e.text for e in drift.found], [e.text for e in drift.gone]) == (["c"], ["a"])
    table.repair_partitions("drop")
    assert [each["day"] for each in table.partitions()] == ["b"]
    table.repair_partitions("sync")
    assert [each["day"] for each in table.partitions()] == ["b", "c"]


@pytest.mark.mission("CT6", "PT37")
def test_partitions_are_added_and_dropped(catalog: Catalog, tmp_path: Path) -> None:
    root = land_days(tmp_path / "landed")
    table = made(catalog, location=str(root), options=REGISTERED)
    table.add_partitions({"day": "a"}, {"day": "new"})
    assert [each["day"] for each in table.partitions()] == ["a", "new"]
    with pytest.raises(PartitionExists, match="partition day=a of"):
        table.add_partitions({"day": "a"})
    table.add_partitions({"day": "a"}, if_not_exists=True)
    table.drop_partitions({"day": "a"})
    assert not table.read().num_rows
    assert len(list((root / "day=a").glob("*.parquet"))) == 2
    with pytest.raises(PartitionNotFound, match="no partition day=a"):
        table.drop_partitions({"day": "a"})
    with pytest.raises(InvalidRequestError, match="'hour' is not a partition key"):
        table.add_partitions({"hour": 1})
    with pytest.raises(InvalidRequestError, match="has no value for key 'day'"):
        table.add_partitions({})


def test_without_a_registry_the_folders_are_the_partitions(catalog: Catalog) -> None:
    table = made(catalog)
    table.write(pa.concat_tables([some(0, 2, "a"), some(2, 4, "b")]))
    with pytest.raises(InvalidRequestError, match="its partitions are its folders"):
        table.repair_partitions()
    with pytest.raises(InvalidRequestError, match="say that its files are to be deleted"):
        table.drop_partitions({"day": "a"})
    table.drop_partitions({"day": "a"}, delete_files=True)
    assert [each["day"] for each in table.partitions()] == ["b"]


@pytest.mark.parametrize(
    "damaged",
    ["", "[]", "{}", "[" * 100_000, '{"version": 1, "partitions": [1]}', '{"version": 1'],
    ids=range(6),
)
def test_a_damaged_registry_names_its_file_and_the_one_before_counts_without_it(
    catalog: Catalog, damaged: str
) -> None:
    table = made(catalog, options=REGISTERED)
    for day in ("a", "b"):
        table.add_partitions({"day": day})
    (registry,) = Path(catalog.root).rglob("partitions")
    latest = registry / "registry-2"
    latest.write_text(damaged)
    with pytest.raises(CorruptionError, match=r"registry-2 is no registry .*; delete it"):
        table.partitions()
    latest.unlink()
    assert len(table.partitions()) == 1


def test_two_processes_change_the_registry_and_none_is_lost(catalog: Catalog) -> None:
    table = made(catalog, options=REGISTERED)
    other = catalog.format_table("db.f")
    for number in range(12):
        (table if number % 2 else other).add_partitions({"day": f"d{number:02}"})
    assert len(table.partitions()) == len(other.partitions()) == 12
    (registry,) = Path(catalog.root).rglob("partitions")
    assert len(list(registry.iterdir())) <= 9


def test_a_failed_write_leaves_nothing_that_readers_see(catalog: Catalog, tmp_path: Path) -> None:
    made(catalog, location=str(tmp_path / "here"))
    for call in ("make_durable", "move_if_absent"):
        watched = WatchedFiles(catalog.fs)
        table = Catalog(watched, catalog.root, catalog.env).format_table("db.f")

        def fail(done: Any, wanted: str = call) -> None:
            if done.name == wanted:
                raise OSError("no space left")

        watched.before = fail
        with pytest.raises(OSError, match="no space left"):
            table.write(some(0, 3))
        assert not catalog.format_table("db.f").partitions()
    assert not list((tmp_path / "here").rglob("*.parquet"))


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.value)
@pytest.mark.parametrize("options", [{}, REGISTERED], ids=["folders", "registry"])
def test_an_overwrite_that_fails_at_any_call_loses_no_row_and_is_repeated_whole(
    fault: Fault, options: dict[str, str]
) -> None:
    """A reader sees at least the old rows or the new ones; the second try leaves the new alone."""
    points = 0
    for at in range(1, 100):
        catalog = memory_catalog()
        table = made(catalog, options=options)
        table.write(pa.concat_tables([some(0, 2, "a"), some(2, 4, "b")]))
        watched = WatchedFiles(catalog.fs, fail_at=at, fault=fault, counts=lambda c: c.changes)
        tried = Catalog(watched, catalog.root, catalog.env).format_table("db.f")
        watched.counted = 0
        with suppress(StorageError, OSError, Crashed):
            tried.write(pa.concat_tables([some(10, 12, "a"), some(12, 14, "b")]), mode="overwrite")
        if watched.failed is None:
            break
        points += 1
        seen = set(ids(table))
        assert seen >= {0, 1} or seen >= {10, 11}, watched.failed
        assert seen >= {2, 3} or seen >= {12, 13}, watched.failed
        assert seen <= {0, 1, 2, 3, 10, 11, 12, 13}
        table.write(pa.concat_tables([some(10, 12, "a"), some(12, 14, "b")]), mode="overwrite")
        assert ids(table) == [10, 11, 12, 13], watched.failed
    assert points > 5
    empty_memory()


@pytest.mark.parametrize(
    "options", [ONLY_VALUES, ONLY_VALUES | REGISTERED], ids=["own", "registry"]
)
@pytest.mark.parametrize("day", ["..", ".", "../../x", ".hidden", "_tmp"])
def test_a_value_whose_folder_lies_elsewhere_or_is_passed_over_is_refused(
    catalog: Catalog, tmp_path: Path, options: dict[str, str], day: str
) -> None:
    others = land(tmp_path / "exports" / "payroll.parquet", rows_of(0, 2))
    table = made(catalog, location=str(tmp_path / "exports" / "clicks"), options=options)
    table.write(some(0, 2))
    attempts: list[Callable[[], object]] = [
        lambda: table.write(pa.concat_tables([some(5, 6, "b"), some(6, 7, day)])),
        lambda: table.write(some(5, 6, day), mode="overwrite"),
        lambda: table.write(some(5, 6).drop_columns(["day"]), partition={"day": day}),
        lambda: table.add_partitions({"day": "b"}, {"day": day}),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidRequestError, match=f"partition day = '{re.escape(day)}'.*pass"):
            attempt()
    with pytest.raises(PartitionNotFound):
        table.drop_partitions({"day": day}, delete_files=True)
    assert others.exists()
    assert table.partitions() == ({"day": "a"},)
    left = {str(each.relative_to(others.parent)) for each in others.parent.rglob("*")}
    assert {each for each in left if not each.startswith("clicks/a/")} == {
        "clicks", "clicks/a", "payroll.parquet"
    }  # fmt: skip


@pytest.mark.parametrize(
    "options", [{}, ONLY_VALUES, REGISTERED], ids=["keys", "values", "registry"]
)
@pytest.mark.parametrize("day", ["", " ", "__DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"])
def test_a_value_that_would_share_the_folder_of_null_is_refused(
    catalog: Catalog, options: dict[str, str], day: str
) -> None:
    table = made(catalog, options=options)
    table.write(some(0, 2, None))
    for mode in ("append", "overwrite"):
        with pytest.raises(InvalidRequestError, match=r"which is the folder of null; write null"):
            table.write(some(5, 6, day), mode=mode)
    with pytest.raises(InvalidRequestError, match="folder of null"):
        table.add_partitions({"day": day})
    assert ids(table, "day IS NULL") == ids(table) == [0, 1]


def test_a_key_whose_folders_are_passed_over_is_refused(catalog: Catalog) -> None:
    columns = {"id": "BIGINT", "_day": "STRING"}
    table = catalog.create_format_table("db.f", columns, partition_keys=["_day"])
    with pytest.raises(InvalidRequestError, match="make a table whose key is not named _day"):
        table.write([{"id": 1, "_day": "a"}])


@pytest.mark.parametrize(
    "options", [{}, ONLY_VALUES, REGISTERED], ids=["keys", "values", "registry"]
)
def test_rows_with_odd_values_are_read_and_replaced_alone(
    catalog: Catalog, options: dict[str, str]
) -> None:
    table = made(catalog, options=options)
    days = ["a/b", "%2E%2E", " a ", "a=b", "ü", "a.", "null", "a%2Fb", None]
    table.write(pa.concat_tables([some(n, n + 1, day) for n, day in enumerate(days)]))
    for number, day in enumerate(days):
        table.write(some(10 + number, 11 + number, day), mode="overwrite")
        read = table.read().sort_by("id").to_pylist()
        assert {row["id"]: row["day"] for row in read} == {
            n if n > number else 10 + n: each for n, each in enumerate(days)
        }


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_partition_with_several_folders_is_replaced_and_dropped_whole(
    catalog: Catalog, tmp_path: Path, *, dynamic: bool
) -> None:
    columns = {"id": "BIGINT", "v": "STRING", "hour": "INT"}
    root = tmp_path / "landed"
    for number, hour in enumerate(["1", "01", "2", "__HIVE_DEFAULT_PARTITION__"]):
        land(root / f"hour={hour}" / "f.parquet", rows_of(number, number + 1))
    table = catalog.create_format_table(
        "db.f", columns, partition_keys=["hour"], location=str(root)
    )
    assert table.partitions() == ({"hour": 1}, {"hour": 2}, {"hour": None})
    new = [{"id": 10, "v": "v", "hour": 1}, {"id": 11, "v": "v", "hour": None}]
    table.write(new, mode="overwrite", dynamic=dynamic)
    assert ids(table) == ([2, 10, 11] if dynamic else [10, 11])
    land(root / "hour=01" / "f.parquet", rows_of(20, 21))
    table.drop_partitions({"hour": 1}, delete_files=True)
    assert ids(table, "hour = 1") == []


def test_a_repair_tells_folders_that_are_not_those_of_their_partitions(
    catalog: Catalog, tmp_path: Path
) -> None:
    root = tmp_path / "landed"
    for day in ("a", "%2E%2E", "%61"):
        land(root / day / "f.parquet", rows_of(0, 2))
    table = made(catalog, location=str(root), options=ONLY_VALUES | REGISTERED)
    drift = table.repair_partitions("sync")
    assert [each.text for each in drift.found] == ["a"]
    (passed_over, elsewhere) = sorted(drift.left)
    assert passed_over[0] == f"{root}/%2E%2E"
    assert "readers pass over" in passed_over[1]
    assert elsewhere == (f"{root}/%61", f"the folder of day=a is {root}/a; move the files there")
    assert ids(table) == [0, 1]


def test_a_registry_with_a_partition_that_has_no_folder_is_told_and_repaired(
    catalog: Catalog,
) -> None:
    table = made(catalog, options=REGISTERED)
    table.write(some(0, 2, None))
    change_registry(
        table.table_files, lambda known: {*known, table.table_files.partitions.of_values(("",))}
    )
    with pytest.raises(CorruptionError, match="a repair of the partitions in mode sync"):
        table.read()
    table.repair_partitions("sync")
    assert ids(table) == [0, 1]


MISFITS: list[tuple[dict[str, Any], type[StorageError], str]] = [
    ({"file_format": "lance"}, StorageError, "format tables are of"),
    ({"columns": LANDED | {"l": "ARRAY<INT>"}, "file_format": "csv"}, InvalidRequestError,
     "column l of db.f is ARRAY<INT>, which csv files do not hold"),
    ({"file_format": "text"}, InvalidRequestError, "text files hold one column of type STRING"),
    ({"columns": {"id": "INT"}}, InvalidSchema, "day"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "error", "told"), MISFITS, ids=[each[2] for each in MISFITS])
@pytest.mark.mission("RS1")
def test_tables_that_their_format_does_not_hold_are_refused(
    catalog: Catalog, how: dict[str, Any], error: type[StorageError], told: str
) -> None:
    with pytest.raises(error, match=told):
        made(catalog, **how)
    assert not catalog.table_exists("db.f")


def test_rows_that_do_not_fit_are_refused(catalog: Catalog) -> None:
    table = made(catalog)
    with pytest.raises(InvalidRows, match="lack column v"):
        table.write(some(0, 1).drop_columns(["v"]))
    with pytest.raises(InvalidRows, match="rows have the column too"):
        table.write(some(0, 1), partition={"day": "a"})
    with pytest.raises(InvalidRequestError, match="'hour' is not a partition key"):
        table.write(some(0, 1), partition={"hour": 1})
    assert not table.partitions()


def test_files_that_are_something_else_are_told(catalog: Catalog, tmp_path: Path) -> None:
    root = tmp_path / "landed"
    table = made(catalog, location=str(root), file_format="csv")
    (root / "day=a").mkdir(parents=True)
    (root / "day=a" / "f.csv").write_text("1,x\nnot a number,y\n")
    with pytest.raises(CorruptionError, match=r"and row 2 holds .not a number.; write digits"):
        table.read()
    (root / "day=a" / "f.csv").write_text("1,x\n")
    assert ids(table) == [1]
    assert table.read().column("v").to_pylist() == ["x"]


def test_kinds_of_tables_are_told_apart(catalog: Catalog) -> None:
    made(catalog)
    new_table(catalog, name="db.t")
    with pytest.raises(UnsupportedError, match="is not a format table"):
        catalog.format_table("db.t")
    with pytest.raises(UnsupportedError, match="the table has no snapshots"):
        catalog.table("db.f").read()
    with pytest.raises(AlreadyExistsError):
        made(catalog)
    catalog.drop_table("db.f")
    assert not catalog.table_exists("db.f")
