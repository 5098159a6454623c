"""Wall clocks for the creation times and names of tags."""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakewright.storage.errors import InvalidOption
from lakewright.storage.files.table_files import TableFiles

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


def local_now(files: TableFiles) -> dt.datetime:
    """The wall clock without a zone, for the creation time of a tag."""
    return local_time(files.env.now_ms(), None)


def local_time(time_ms: int, zone: str | None) -> dt.datetime:
    """A time on the wall clock of a zone, by default the machine's.

    Raises:
        InvalidOption: the zone does not exist.
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
            f"{name!r} is not a time zone such as Europe/Berlin or GMT+01:00"
        ) from error
