"""Wall clocks: what tags are stamped with, and named after."""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakewright.storage.errors import InvalidOption
from lakewright.storage.files.table_files import TableFiles

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def local_now(files: TableFiles) -> dt.datetime:
    """The wall clock, without a zone: what tags are stamped with."""
    return local_time(files.env.now_ms(), None)


def local_time(time_ms: int, zone: str | None) -> dt.datetime:
    """A moment as a zone's wall clock shows it, the machine's by default.

    Raises:
        InvalidOption: there is no such zone.
    """
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=time_ms)
    there = moment.astimezone() if zone is None else moment.astimezone(_zone(zone))
    return there.replace(tzinfo=None)


def _zone(name: str) -> dt.tzinfo:
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        shift = dt.timedelta(hours=int(hours), minutes=int(minutes or 0))
        return dt.timezone(-shift if sign == "-" else shift)
    try:
        return dt.UTC if name == "Z" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InvalidOption(
            f"{name!r} is no time zone such as Europe/Berlin or GMT+01:00"
        ) from error
