"""Days before 1582 in files whose writers count them as Java's old classes do.

The old classes have the Julian calendar up to 1582-10-04, and the Gregorian from the next day on,
1582-10-15. The format has the Gregorian calendar for all days (the proleptic one). A writer of the
hybrid calendar stores another number for the same written day, and some of them say so in the
file's metadata.

Source: Apache Spark, `DataSourceUtils` and `RebaseDateTime`; Apache Hive, `AvroSerDe` and
`DataWritableWriteSupport`; Apache ORC specification v1, Footer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_timestamps import moment_text
from lakewright.storage.errors import UnsupportedError

UNITS_PER_DAY = {
    "s": 86_400,
    "ms": 86_400_000,
    "us": 86_400_000_000,
    "ns": 86_400_000_000_000,
}
# Values of the field `calendar` of an ORC footer.
ORC_JULIAN_GREGORIAN, ORC_PROLEPTIC_GREGORIAN = 1, 2

# 1582-10-15, the first day that both calendars count alike.
_SWITCH = -141_427
# 1900-01-01: before it, Java's old classes and its new ones have other offsets of time zones.
_OFFSETS_ALIKE = -25_567
_JULIAN_DAY_OF_1970 = 2_440_588
# The Julian calendar repeats every four years, counted from a first of March.
_DAYS_BEFORE, _YEARS_BEFORE, _FOUR_YEARS = 32_082, 4800, 1461

_SPARK, _SPARK_ZONE = "org.apache.spark.version", "org.apache.spark.timeZone"
_SPARK_DATETIME, _SPARK_INT96 = "org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96"
_HIVE_PARQUET, _HIVE_AVRO = "writer.date.proleptic", "writer.proleptic"
_HIVE_ZONE = "writer.time.zone"
_UTC = ("UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "+00:00", "UTC+0")


@dataclass(frozen=True, slots=True)
class Recount:
    """What becomes of values before a day: counted anew, or refused if there is a reason."""

    before_day: int = _SWITCH
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class HybridCalendar:
    """How a file counts; values of a kind without a `Recount` are right as they are.

    `zoned` and `zoneless` are timestamps by their Arrow type, without those of INT96.
    """

    mark: str
    way_out: str
    days: Recount | None = None
    zoned: Recount | None = None
    zoneless: Recount | None = None
    int96: Recount | None = None

    def refusing(self, why: str) -> HybridCalendar:
        """The same file where values must not be counted anew."""

        def refused(recount: Recount | None) -> Recount | None:
            return recount and replace(recount, refused=recount.refused or why)

        return replace(
            self,
            days=refused(self.days),
            zoned=refused(self.zoned),
            zoneless=refused(self.zoneless),
            int96=refused(self.int96),
        )

    def recount_of(self, kind: pa.DataType) -> Recount | None:
        """What becomes of values of a type that is not nested, and not INT96."""
        if pa.types.is_date32(kind):
            return self.days
        if pa.types.is_timestamp(kind):
            return self.zoneless if kind.tz is None else self.zoned
        return None

    def recounted(self, array: pa.Array, *, column: str, path: str) -> pa.Array:
        """An array that is not nested, in the calendar of the format.

        Raises:
            UnsupportedError: which day a value is depends on what the file does not tell.
        """
        recount = self.recount_of(array.type)
        if recount is None or not is_before(array, recount.before_day):
            return array
        numbers, per_day = _numbers(array)
        values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
        days = values // per_day
        self.check(recount, days, array, column=column, path=path)
        moved = values + (proleptic_days(days) - days) * per_day
        mask = array.is_null().to_numpy(zero_copy_only=False)
        return pa.array(moved.astype(values.dtype), numbers.type, mask=mask).view(array.type)

    def check(
        self, recount: Recount, days: np.ndarray, values: pa.Array, *, column: str, path: str
    ) -> None:
        """Refuse values before the day of `recount` if it gives a reason.

        Raises:
            UnsupportedError: names the first such value.
        """
        before = np.flatnonzero(days < recount.before_day)
        if recount.refused is None or not len(before):
            return
        shown = moment_text(values[int(before[0])])
        many = f"{len(before)} values" if len(before) > 1 else "a value"
        raise UnsupportedError(
            f"column {column} of data file {path} holds {many} before "
            f"{np.datetime64(recount.before_day, 'D')}, such as what is stored as {shown}; "
            f"{self.mark}, {recount.refused}; {self.way_out}, or leave the column out",
            path=path,
            column=column,
            value=shown,
        )


def is_before(array: pa.Array, day: int) -> bool:
    """Whether an array of dates or timestamps has a value before a day."""
    if not len(array):
        return False
    numbers, per_day = _numbers(array)
    least = pc.min(numbers).as_py()
    return least is not None and least < day * per_day


def may_be_before_switch(array: pa.Array) -> bool:
    """Whether the calendar of the file of an array matters."""
    is_moment = pa.types.is_date32(array.type) or pa.types.is_timestamp(array.type)
    return is_moment and is_before(array, _OFFSETS_ALIKE)


def _numbers(array: pa.Array) -> tuple[pa.Array, int]:
    if pa.types.is_date32(array.type):
        return array.view(pa.int32()), 1
    return array.view(pa.int64()), UNITS_PER_DAY[array.type.unit]


def proleptic_days(days: np.ndarray) -> np.ndarray:
    """Days since 1970 of the same written dates in the calendar of the format.

    The 29th of February of a year that is a leap year in the Julian calendar alone becomes the 1st
    of March.
    """
    whole = days.astype(np.int64)
    # Of a year that begins in March, as the day that a leap year adds is its last.
    from_march = whole + _JULIAN_DAY_OF_1970 + _DAYS_BEFORE
    years = (4 * from_march + 3) // _FOUR_YEARS - _YEARS_BEFORE
    moved = whole - (years // 100 - years // 400 - 2)
    found: np.ndarray = np.where(whole < _SWITCH, moved, whole)
    return found


# --- marks ----------------------------------------------------------------------------------------


def parquet_calendar(metadata: Mapping[bytes, bytes]) -> HybridCalendar | None:
    """How a Parquet file counts, by the keys of its footer; None if all is as the format has it."""
    keys = _texts(metadata)
    if _SPARK in keys:
        return _spark_calendar(keys, zoned=True)
    if _HIVE_PARQUET in keys or _HIVE_ZONE in keys:
        return _hive_calendar(keys.get(_HIVE_PARQUET), "hive.parquet.date.proleptic.gregorian=true")
    return None


def avro_calendar(metadata: Mapping[str, bytes], *, as_paimon: bool) -> HybridCalendar | None:
    """How an Avro file counts, by the keys of its header; None if all is as the format has it.

    Values of `timestamp-millis` and `timestamp-micros` are moments, and without a zone where they
    are read as in Paimon's files.
    """
    keys = _texts(metadata)
    if _SPARK in keys:
        return _spark_calendar(keys, zoned=not as_paimon)
    if _HIVE_AVRO in keys:
        return _hive_calendar(keys[_HIVE_AVRO], "hive.avro.proleptic.gregorian=true")
    return None


def orc_calendar(
    metadata: Mapping[bytes, bytes], calendar: int, zones: frozenset[str], *, of_paimon: bool
) -> HybridCalendar | None:
    """How an ORC file counts, by its footer and the time zones of its stripes.

    Paimon's writers mark the hybrid calendar and store days of the other one, and its readers take
    timestamps as they are stored.
    """
    if calendar == ORC_PROLEPTIC_GREGORIAN:
        return None
    if _SPARK in _texts(metadata):
        zoned = [zone for zone in sorted(zones) if zone not in _UTC]
        moments = _of_zone(zoned[0]) if zoned else Recount()
        return HybridCalendar(
            "Spark wrote it in Java's hybrid calendar",
            "write the file again as Parquet",
            days=Recount(),
            zoned=moments,
            zoneless=moments,
        )
    if calendar != ORC_JULIAN_GREGORIAN or of_paimon:
        return None
    unclear = Recount(
        refused="and so it is with files of Hive, whose days are of this calendar, and of Flink, "
        "whose days are not"
    )
    return HybridCalendar(
        "its footer names the Julian and Gregorian calendar",
        "write the file again as Parquet, or with orc.proleptic.gregorian=true",
        days=unclear,
        zoned=unclear,
        zoneless=unclear,
    )


def _spark_calendar(keys: Mapping[str, str], *, zoned: bool) -> HybridCalendar | None:
    """The judgement of Spark's own reader, which compares versions as texts too."""
    version, zone = keys[_SPARK], keys.get(_SPARK_ZONE)
    is_old = version < "3.0.0" or _SPARK_DATETIME in keys
    is_old_int96 = version < "3.1.0" or _SPARK_INT96 in keys
    if not is_old and not is_old_int96:
        return None
    moments = Recount() if zone in _UTC else _of_zone(zone)
    return HybridCalendar(
        f"Spark {version} wrote it in Java's hybrid calendar",
        "write the file again with spark.sql.parquet.datetimeRebaseModeInWrite, "
        "spark.sql.parquet.int96RebaseModeInWrite and spark.sql.avro.datetimeRebaseModeInWrite "
        "set to CORRECTED",
        days=Recount() if is_old else None,
        zoned=moments if is_old and zoned else None,
        zoneless=moments if is_old and not zoned else None,
        int96=moments if is_old_int96 else None,
    )


def _of_zone(zone: str | None) -> Recount:
    named = "a time zone that it does not name" if zone is None else f"the time zone {zone}"
    return Recount(_OFFSETS_ALIKE, f"in {named}, and only moments in UTC are counted anew")


def _hive_calendar(proleptic: str | None, way_out: str) -> HybridCalendar:
    unclear = Recount(refused="and its timestamps do not tell their calendar")
    days: Recount | None = Recount(refused="and its dates do not tell their calendar")
    if proleptic is not None:
        days = None if proleptic.lower() == "true" else Recount()
    return HybridCalendar(
        "Hive wrote it",
        f"write the file again by another engine, or dates with {way_out}",
        days=days,
        zoned=unclear,
        zoneless=unclear,
        int96=unclear,
    )


def _texts(metadata: Mapping[bytes, bytes] | Mapping[str, bytes]) -> dict[str, str]:
    return {
        key if isinstance(key, str) else key.decode("utf-8", "replace"): value.decode(
            "utf-8", "replace"
        )
        for key, value in metadata.items()
    }
