"""Dates and timestamps that Spark wrote, in each of its calendars and types, are read as by Spark.

Spark is asked for texts, since those of Python and of Arrow count in one calendar alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakewright.storage import Catalog
from lakewright.storage.errors import InvalidRequestError, UnsupportedError
from lakewright.storage.files.data_files import read_rows
from lakewright.storage.files.file_systems import open_file_system
from tests.on_spark.test_read import frame_content
from tests.support.tables.builders import content, new_table, rows

# Days of both calendars: around each leap day that only one of them has, and around the switch.
DAYS = [
    "0001-01-01",
    *(f"{year:04}-{day}" for year in range(100, 1600, 100) for day in ("02-28", "03-01")),
    "1582-10-04",
    "1582-10-15",
    "1899-12-31",
    "1900-01-01",
    "2024-02-29",
    "9999-12-31",
]
TIME = "12:34:56.123456"
OUTPUT_TYPES = ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"]
MODES = ["LEGACY", "CORRECTED"]


@contextmanager
def configured(spark: SparkSession, **conf: str) -> Iterator[None]:
    names = {key: f"spark.sql.{key.replace('__', '.')}" for key in conf}
    before = {name: spark.conf.get(name) for name in names.values()}
    for key, name in names.items():
        spark.conf.set(name, conf[key])
    try:
        yield
    finally:
        for name, value in before.items():
            assert value is not None
            spark.conf.set(name, value)


def frame(spark: SparkSession, days: list[str] = DAYS) -> DataFrame:
    """A row for each day, which is in all columns."""
    text = " UNION ALL ".join(
        f"SELECT DATE'{day}' d, TIMESTAMP'{day} {TIME}' t, TIMESTAMP_NTZ'{day} {TIME}' n, "
        f"named_struct('d', DATE'{day}', 'a', array(DATE'{day}')) s, "
        f"map(DATE'{day}', TIMESTAMP_NTZ'{day} {TIME}') m"
        for day in days
    )
    return spark.sql(text).coalesce(1)


TEXTS = {
    "d": "d",
    "t": "t",
    "n": "n",
    "s.d": "s.d",
    "s.a": "s.a[0]",
    "m key": "map_keys(m)[0]",
    "m value": "map_values(m)[0]",
}


def as_spark_reads(spark: SparkSession, path: Path, form: str) -> dict[str, list[str]]:
    asked = [f"date_format({each}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')" for each in TEXTS.values()]
    with configured(spark, session__timeZone="UTC"):
        found = spark.read.format(form).load(str(path)).selectExpr(*asked).collect()
    return {name: [str(row[at]) for row in found] for at, name in enumerate(TEXTS)}


def as_we_read(file: Path, names: Collection[str] = tuple(TEXTS)) -> dict[str, list[str]]:
    fs, _ = open_file_system(str(file.parent))

    def column(name: str) -> pa.Array:
        parts = [chunk for rows in read_rows(fs, str(file), [name]) for chunk in rows[name].chunks]
        return pa.concat_arrays(parts)

    struct, entries = column("s"), column("m")
    inner = {
        "s.d": struct.field("d"),
        "s.a": struct.field("a").flatten(),
        "m key": entries.keys,
        "m value": entries.items,
    }
    found = {name: inner[name] if name in inner else column(name) for name in names}
    return {name: [text_of(each) for each in values] for name, values in found.items()}


def text_of(value: pa.Scalar) -> str:
    zone = value.type.tz if pa.types.is_timestamp(value.type) else None
    micros = value.cast(pa.timestamp("us", zone)).value
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)
    return moment.isoformat(sep=" ", timespec="microseconds")


def written(spark: SparkSession, path: Path, form: str, days: list[str] = DAYS) -> Path:
    frame(spark, days).write.format(form).save(str(path))
    (file,) = path.glob(f"*.{form}")
    return file


@pytest.mark.parametrize("kind", OUTPUT_TYPES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.sampled(2)
def test_parquet_of_spark_is_read_as_spark_reads_it(
    spark: SparkSession, tmp_path: Path, kind: str, mode: str
) -> None:
    with configured(
        spark,
        session__timeZone="UTC",
        parquet__outputTimestampType=kind,
        parquet__int96RebaseModeInWrite=mode,
        parquet__datetimeRebaseModeInWrite=mode,
    ):
        file = written(spark, tmp_path / "f", "parquet")
    due = as_spark_reads(spark, tmp_path / "f", "parquet")
    assert [each[:10] for each in due["d"]] == DAYS
    assert as_we_read(file) == due


def test_orc_of_spark_is_read_as_spark_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    file = written(spark, tmp_path / "f", "orc")
    due = as_spark_reads(spark, tmp_path / "f", "orc")
    assert [each[:10] for each in due["d"]] == DAYS
    if dt.datetime(2024, 7, 1).astimezone().utcoffset():
        # Moments of another zone than UTC (`test_zones.py`).
        with pytest.raises(UnsupportedError, match="timestamps of the zone"):
            as_we_read(file)
        due.pop("t")
    assert as_we_read(file, due) == due


def test_moments_that_spark_counted_in_another_zone_are_refused_and_days_are_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    with configured(
        spark,
        session__timeZone="America/Los_Angeles",
        parquet__int96RebaseModeInWrite="LEGACY",
        parquet__datetimeRebaseModeInWrite="LEGACY",
    ):
        file = written(spark, tmp_path / "f", "parquet")
        late = written(spark, tmp_path / "late", "parquet", ["1900-01-02", "2024-01-01"])
    fs, _ = open_file_system(str(tmp_path))
    (found,) = read_rows(fs, str(file), ["d"])
    assert [str(each) for each in found["d"].to_pylist()] == DAYS
    with pytest.raises(UnsupportedError, match="the time zone America/Los_Angeles"):
        list(read_rows(fs, str(file), ["t"]))
    assert as_we_read(late) == as_spark_reads(spark, tmp_path / "late", "parquet")


@pytest.mark.parametrize("form", ["parquet", "orc"])
@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.sampled(each="form")
def test_a_takeover_refuses_days_that_others_would_read_as_others_and_takes_the_rest(
    catalog: Catalog, spark: SparkSession, tmp_path: Path, form: str, copy: bool
) -> None:
    with configured(spark, parquet__datetimeRebaseModeInWrite="LEGACY"):
        for name, days in {"old": DAYS[:3], "late": ["1582-10-15", "2024-02-29"]}.items():
            days_alone = frame(spark, days).select("d")
            days_alone.write.format(form).save(str(tmp_path / name / "part=1"))
    table = new_table(catalog, {"d": "DATE", "part": "STRING"}, partitions=["part"])
    with pytest.raises(InvalidRequestError, match=r"column d.*hybrid calendar.*as they are stored"):
        table.upkeep.add_partitions(str(tmp_path / "old"), copy_files=copy, age_ms=0)
    assert catalog.table("db.t").history.latest_snapshot() is None
    assert catalog.table("db.t").schema == table.schema
    table.upkeep.add_partitions(str(tmp_path / "late"), copy_files=copy, age_ms=0)
    table = catalog.table("db.t")
    days = table.read().column("d").to_pylist()
    assert [str(each) for each in days] == ["1582-10-15", "2024-02-29"]
    assert frame_content(table.to_spark(spark), table) == content(table)


def test_a_takeover_takes_int96_that_the_column_holds_and_refuses_the_rest(
    catalog: Catalog, spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(catalog, {"t": "TIMESTAMP(9)", "part": "STRING"}, partitions=["part"])
    for name, days in {"far": ["9999-12-31"], "near": ["1900-01-01", "2024-02-29"]}.items():
        frame(spark, days).select("t").write.parquet(str(tmp_path / name / "part=1"))
    with pytest.raises(InvalidRequestError, match=r"holds 9999-12-31 12:34:56.123456; write"):
        table.upkeep.add_partitions(str(tmp_path / "far"), age_ms=0)
    assert catalog.table("db.t").history.latest_snapshot() is None
    table.upkeep.add_partitions(str(tmp_path / "near"), age_ms=0)
    table = catalog.table("db.t")
    due = [dt.datetime.fromisoformat(f"{day} {TIME}") for day in ("1900-01-01", "2024-02-29")]
    found = table.read().column("t").cast(pa.timestamp("us")).to_pylist()
    assert sorted(found) == due


@pytest.mark.parametrize("mode", MODES)
def test_int96_of_ours_is_read_alike_whatever_the_session_says(
    catalog: Catalog, spark: SparkSession, mode: str
) -> None:
    """Where the machine's zone is not UTC, other offsets would show (`test_zones.py`)."""
    columns = {"t": "TIMESTAMP(6)", "l": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "f": "TIMESTAMP(9)"}
    table = new_table(catalog, columns)
    old = dt.datetime(1850, 1, 2, 3, 4, 5, 678_901)
    table.write(rows(table, [{"t": old, "l": old.replace(tzinfo=dt.UTC), "f": old}]))
    with configured(
        spark, session__timeZone="America/New_York", parquet__int96RebaseModeInRead=mode
    ):
        # The finer column is read by our tasks, the others by Spark.
        for names in (["t", "l"], ["t", "l", "f"]):
            read = table.to_spark(spark, columns=names)
            assert frame_content(read, table, names) == content(table, columns=names)
