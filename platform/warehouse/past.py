"""What the ledger knows of earlier work, added to what an orchestrator knows."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from lakewright.platform.warehouse.action import Verdict
from lakewright.platform.warehouse.decide import Past
from lakewright.platform.warehouse.intents import Cost
from lakewright.platform.warehouse.ledger import LastActions, Ledger

_GOOD = (Verdict.DONE, Verdict.NOTHING_TO_DO)
_DAY = dt.timedelta(days=1)


@dataclass(slots=True)
class LedgerPast:
    """Reads of the ledger only what was recorded since the last reading."""

    ledger: Ledger
    _last: LastActions | None = None
    _spent: tuple[int | None, int, Cost] = (None, 0, Cost())

    def add_to(self, past: Past, *, day_begins_ms: int) -> Past:
        """The past with the last good runs of the ledger, and what the day has spent."""
        self._last = self.ledger.last(self._last)
        done: dict[tuple[str, str], int] = dict(past.done_ms)
        for (table, _, verb), found in self._last.started_ms.items():
            times = [found[each] for each in _GOOD if each in found]
            if times:
                done[table, verb] = max(*times, done.get((table, verb), 0))
        return replace(past, done_ms=done, spent=self._spent_since(day_begins_ms))

    def _spent_since(self, day_begins_ms: int) -> Cost:
        assert self._last is not None
        snapshot_id, since_ms, spent = self._spent
        if snapshot_id != self._last.snapshot_id or since_ms != day_begins_ms:
            costs = [each.cost for each in self.ledger.actions(since_ms=day_begins_ms)]
            spent = Cost(
                bytes=sum(each.bytes for each in costs),
                files=sum(each.files for each in costs),
                milliseconds=sum(each.milliseconds for each in costs),
                bytes_written=sum(each.bytes_written for each in costs),
            )
            self._spent = (self._last.snapshot_id, day_begins_ms, spent)
        return spent


def day_of(now_ms: int, timezone: str) -> tuple[int, int]:
    """Begin and end of the day of a moment, in milliseconds of the epoch."""
    zone = ZoneInfo(timezone)
    day = dt.datetime.fromtimestamp(now_ms / 1000, zone).date()
    begin, end = (
        dt.datetime.combine(each, dt.time(), zone).timestamp() for each in (day, day + _DAY)
    )
    return int(begin * 1000), int(end * 1000)
