"""Tags: named snapshots, which outlive expiry; and the names of automatic tags.

Source: Paimon specification, chapters Tag and Manage Tags.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import Enum

from lakewright.storage.spec.snapshot import Snapshot

_EPOCH = dt.datetime(1970, 1, 1)


class TagCreation(Enum):
    """What triggers automatic tags: nothing, the clock, the watermark, or each batch commit."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A snapshot under a name.

    `create_time` has no zone, as in the file: it is the wall clock time of the tag's creator.
    Without `create_time` and `time_retained_ms`, a tag stays until a user deletes it.
    """

    name: str
    snapshot: Snapshot
    create_time: dt.datetime | None = None
    time_retained_ms: int | None = None

    @property
    def expires_at(self) -> dt.datetime | None:
        if self.create_time is None or self.time_retained_ms is None:
            return None
        try:
            return self.create_time + dt.timedelta(milliseconds=self.time_retained_ms)
        except OverflowError:
            # A date beyond the calendar means never.
            return None


@dataclass(frozen=True, slots=True)
class TagPeriod:
    """The period of automatic tags, and the pattern that names a tag after the period it closes."""

    duration: dt.timedelta
    pattern: str

    def name_of(self, time: dt.datetime) -> str:
        # strftime leaves out leading zeros of years before 1000.
        return time.strftime(self.pattern.replace("%Y", f"{time.year:04d}"))

    def time_of(self, name: str) -> dt.datetime | None:
        """The period of an automatic tag's name, None for a name that a user chose."""
        if self.duration == dt.timedelta(days=1):
            # After a change from hours to days, an hourly tag counts as a tag of its day.
            day, _, hour = name.partition(" ")
            name = day if hour.isdecimal() else name
        try:
            time = dt.datetime.strptime(name, self.pattern)  # noqa: DTZ007 - names have no zone
        except ValueError:
            return None
        return time if self.name_of(time) == name else None

    def closed_before(self, time: dt.datetime) -> dt.datetime:
        """The start of the last period that ended by a time."""
        return time - (time - _EPOCH) % self.duration - self.duration
