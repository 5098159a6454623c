"""Days of the hybrid calendar, and which marks of files say that they count in it."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from lakewright.storage.codec.hybrid_calendar import (
    HybridCalendar,
    avro_calendar,
    orc_calendar,
    parquet_calendar,
    proleptic_days,
)
from lakewright.storage.errors import UnsupportedError

EPOCH = dt.date(1970, 1, 1).toordinal()
SWITCH = dt.date(1582, 10, 15).toordinal() - EPOCH


def every_julian_date() -> list[tuple[int, int, int]]:
    """The written dates from 0001-01-01 to 1582-10-04, one after the other."""
    lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    found: list[tuple[int, int, int]] = []
    for year in range(1, 1583):
        for month, length in enumerate(lengths, start=1):
            last = length + (month == 2 and year % 4 == 0)
            found += [(year, month, day) for day in range(1, last + 1)]
    return found[: found.index((1582, 10, 4)) + 1]


def test_every_written_date_before_the_switch_is_the_same_in_the_other_calendar() -> None:
    written = every_julian_date()
    # The last of them is the day before the first Gregorian one.
    stored = np.arange(SWITCH - len(written), SWITCH)
    assert stored[0] == -719_164
    due = [
        # Days that only the Julian calendar has become the next one.
        dt.date(year, month, 1).toordinal() + day - 1 - EPOCH
        for year, month, day in written
    ]
    assert proleptic_days(stored).tolist() == due


def test_later_days_and_those_before_the_year_1_are_what_spark_takes_them_for() -> None:
    later = np.array([SWITCH, SWITCH + 1, 0, 2**31 - 1])
    assert proleptic_days(later).tolist() == later.tolist()
    early = np.array([-719_165, -792_215, -800_000])
    assert (proleptic_days(early) - early).tolist() == [2, 3, 4]


# --- marks ----------------------------------------------------------------------------------------


def keys(**values: str) -> dict[bytes, bytes]:
    names = {"version": "version", "old": "legacyDateTime", "old96": "legacyINT96"}
    return {
        f"org.apache.spark.{names.get(key, key)}".encode(): value.encode()
        for key, value in values.items()
    }


def treated(found: HybridCalendar | None) -> dict[str, str]:
    """What becomes of values of each kind."""
    if found is None:
        return {}
    kinds = {
        "days": found.days,
        "zoned": found.zoned,
        "zoneless": found.zoneless,
        "int96": found.int96,
    }
    return {
        name: "refused" if each.refused else "recounted"
        for name, each in kinds.items()
        if each is not None
    }


UTC_ALL = {"days": "recounted", "zoned": "recounted", "int96": "recounted"}


@pytest.mark.parametrize(
    ("marks", "due"),
    [
        ({}, {}),
        (keys(version="4.3.0"), {}),
        (keys(version="3.0.0", timeZone="UTC"), {"int96": "recounted"}),
        (keys(version="3.1.0"), {}),
        (keys(version="4.3.0", old="", old96="", timeZone="UTC"), UTC_ALL),
        (keys(version="4.3.0", old96="", timeZone="Z"), {"int96": "recounted"}),
        (
            keys(version="4.3.0", old="", timeZone="Europe/Berlin"),
            {"days": "recounted", "zoned": "refused"},
        ),
        (keys(version="2.4.8"), {"days": "recounted", "zoned": "refused", "int96": "refused"}),
        (
            {b"writer.date.proleptic": b"false", b"writer.time.zone": b"UTC"},
            {"days": "recounted", "zoned": "refused", "zoneless": "refused", "int96": "refused"},
        ),
        (
            {b"writer.date.proleptic": b"true"},
            {"zoned": "refused", "zoneless": "refused", "int96": "refused"},
        ),
        (
            {b"writer.time.zone": b"UTC"},
            {"days": "refused", "zoned": "refused", "zoneless": "refused", "int96": "refused"},
        ),
        # What other writers say of themselves, and what they call alike.
        ({b"writer.model.name": b"avro", b"ARROW:schema": b"x"}, {}),
        ({b"pandas": b"{}", b"\xff\xfe": b"\xff"}, {}),
    ],
)
def test_marks_of_parquet_files_are_judged_as_their_writers_readers_do(
    marks: dict[bytes, bytes], due: dict[str, str]
) -> None:
    assert treated(parquet_calendar(marks)) == due


def test_marks_of_avro_files_are_of_moments_however_these_are_read() -> None:
    marks = keys(version="3.5.0", old="", timeZone="UTC")
    old = {key.decode(): value for key, value in marks.items()}
    for as_paimon, moments in ((True, "zoneless"), (False, "zoned")):
        found = treated(avro_calendar(old, as_paimon=as_paimon))
        assert found == {"days": "recounted", moments: "recounted"}
    assert avro_calendar({"org.apache.spark.version": b"3.5.0"}, as_paimon=True) is None
    hive = avro_calendar({"writer.proleptic": b"false"}, as_paimon=True)
    assert treated(hive)["days"] == "recounted"
    assert avro_calendar({"writer.time.zone": b"UTC"}, as_paimon=True) is None


UNKNOWN, JULIAN, PROLEPTIC = 0, 1, 2


@pytest.mark.parametrize(
    ("marks", "calendar", "zones", "of_paimon", "due"),
    [
        ({}, UNKNOWN, {"UTC"}, False, {}),
        ({}, PROLEPTIC, {"UTC"}, False, {}),
        ({}, JULIAN, {"UTC"}, False, dict.fromkeys(("days", "zoned", "zoneless"), "refused")),
        ({}, JULIAN, {"UTC"}, True, {}),
        (
            keys(version="4.3.0"),
            JULIAN,
            {"UTC"},
            True,
            dict.fromkeys(("days", "zoned", "zoneless"), "recounted"),
        ),
        (
            keys(version="2.4.8"),
            UNKNOWN,
            {"UTC", "Asia/Tokyo"},
            False,
            {"days": "recounted", "zoned": "refused", "zoneless": "refused"},
        ),
        (keys(version="9.0.0"), PROLEPTIC, {"UTC"}, False, {}),
    ],
)
def test_a_mark_of_orc_files_counts_unless_paimon_set_it(
    marks: dict[bytes, bytes], calendar: int, zones: set[str], of_paimon: bool, due: dict[str, str]
) -> None:
    found = orc_calendar(marks, calendar, frozenset(zones), of_paimon=of_paimon)
    assert treated(found) == due


# --- values ---------------------------------------------------------------------------------------

SPARK = parquet_calendar(keys(version="4.3.0", old="", old96="", timeZone="UTC"))
BERLIN = parquet_calendar(keys(version="4.3.0", old="", timeZone="Europe/Berlin"))


def recounted(calendar: HybridCalendar | None, array: pa.Array) -> list[str]:
    assert calendar is not None
    found = calendar.recounted(array, column="c", path="f.parquet")
    assert found.type == array.type
    return [str(each) for each in found]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_moments_keep_their_time_of_day(unit: str) -> None:
    kind = pa.timestamp(unit, "UTC")
    # 1582-10-04T23:59:59 and 0001-01-01T12:00:00 of the hybrid calendar.
    seconds = [(SWITCH - 1) * 86_400 + 86_399, -719_164 * 86_400 + 43_200, None, SWITCH * 86_400]
    array = pa.array(seconds, pa.timestamp("s", "UTC")).cast(kind)
    assert [each[:19] for each in recounted(SPARK, array)] == [
        "1582-10-04 23:59:59",
        "0001-01-01 12:00:00",
        "None",
        "1582-10-15 00:00:00",
    ]
    assert recounted(SPARK, array.slice(3)) == recounted(SPARK, array)[3:]


def test_a_refusal_names_file_column_value_mark_and_way_out() -> None:
    array = pa.array([dt.datetime(1850, 1, 1), dt.datetime(1900, 1, 1)], pa.timestamp("us", "UTC"))
    with pytest.raises(UnsupportedError) as caught:
        recounted(BERLIN, array)
    text = str(caught.value)
    for part in (
        "column c of data file f.parquet holds a value before 1900-01-01",
        "1850-01-01 00:00:00",
        "Spark 4.3.0 wrote it in Java's hybrid calendar, in the time zone Europe/Berlin",
        "set to CORRECTED",
    ):
        assert part in text
    assert caught.value.details["column"] == "c"
    # Zones count their offsets alike from 1900 on.
    assert recounted(BERLIN, array.slice(1)) == ["1900-01-01 00:00:00+00:00"]


def test_where_nothing_may_be_recounted_it_is_refused() -> None:
    assert SPARK is not None
    strict = SPARK.refusing("and others do not")
    days = pa.array([SWITCH - 1, SWITCH], pa.int32()).view(pa.date32())
    with pytest.raises(UnsupportedError, match="and others do not"):
        recounted(strict, days)
    assert recounted(strict, days.slice(1)) == ["1582-10-15"]
