"""Units of numbers that stand for moments: a column's `from` names one, and none is guessed."""

from __future__ import annotations

from enum import Enum


class EpochUnit(Enum):
    """What a number counts since 1970-01-01T00:00:00Z."""

    SECONDS = "epoch_s"
    MILLIS = "epoch_ms"
    MICROS = "epoch_us"
    NANOS = "epoch_ns"
    DAYS = "epoch_days"

    @property
    def of_arrow(self) -> str | None:
        """The unit of Arrow's timestamps; None for days."""
        return None if self is EpochUnit.DAYS else self.value.removeprefix("epoch_")

    @property
    def nanos(self) -> int:
        """The nanoseconds of one."""
        each = {"epoch_s": 10**9, "epoch_ms": 10**6, "epoch_us": 10**3, "epoch_ns": 1}
        return each.get(self.value, 86_400 * 10**9)
