"""What the ledger knows of earlier work, added to what an orchestrator knows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from lakewright.platform.upkeep.postpone_compact import POSTPONE_COMPACT
from lakewright.platform.warehouse.action import Action, Verdict
from lakewright.platform.warehouse.calibrate import Calibration, Learning
from lakewright.platform.warehouse.decide import COMPACT, Past, Try
from lakewright.platform.warehouse.intents import Cost
from lakewright.platform.warehouse.ledger import LastActions, Ledger

_GOOD = (Verdict.DONE, Verdict.NOTHING_TO_DO)
_DAY = dt.timedelta(days=1)
# Predictions learn from what began in these days.
LEARNS_FROM_MS = 30 * 86_400_000
# An action is recorded when it has ended: one that ended within this time is not overlooked.
_LONGEST_MS = 3_600_000
# Postponed rows get their buckets in the first part of a compaction.
_DECIDED = {POSTPONE_COMPACT.name: COMPACT}


@dataclass(slots=True)
class LedgerPast:
    """Reads of the ledger only what was recorded since the last reading."""

    ledger: Ledger
    _last: LastActions | None = None
    _spent: tuple[int | None, int, Cost] = (None, 0, Cost())
    _learning: Learning = field(default_factory=Learning)
    _learned: tuple[int | None, Calibration] = (None, Calibration())
    # The beginnings of the actions that were learned from, by their ids.
    _known: dict[str, int] = field(default_factory=dict)

    def add_to(self, past: Past, *, day_begins_ms: int) -> Past:
        """The past with what the ledger knows: last good runs, what the day spent, predictions."""
        self._last = self.ledger.last(self._last)
        done: dict[tuple[str, str], int] = dict(past.done_ms)
        for (table, _, verb), found in self._last.started_ms.items():
            times = [found[each] for each in _GOOD if each in found]
            if times:
                key = (table, decided_verb(verb))
                done[key] = max(*times, done.get(key, 0))
        return replace(
            past,
            done_ms=done,
            spent=_sum([past.spent, self._spent_since(day_begins_ms)]),
            learned=self._learn(),
        )

    def _learn(self) -> Calibration:
        """What all actions say that the ledger has by now; only the later ones are read."""
        assert self._last is not None
        snapshot_id, learned = self._learned
        if snapshot_id != self._last.snapshot_id:
            since_ms = max(self.ledger.catalog.env.now_ms() - LEARNS_FROM_MS, 0)
            if self._known:
                since_ms = max(since_ms, max(self._known.values()) - _LONGEST_MS)
            found = self.ledger.actions(since_ms=since_ms)
            new = [each for each in found if each.id not in self._known]
            self._known = {each.id: each.started_ms for each in found}
            learned = self._learning.add(_as_decided(new))
            self._learned = (self._last.snapshot_id, learned)
        return learned

    def _spent_since(self, day_begins_ms: int) -> Cost:
        assert self._last is not None
        snapshot_id, since_ms, spent = self._spent
        if snapshot_id != self._last.snapshot_id or since_ms != day_begins_ms:
            today = self.ledger.actions(since_ms=day_begins_ms)
            spent = _sum([each.cost for each in today])
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


def past_of_ledger(actions: Sequence[Action], *, day_begins_ms: int = 0) -> Past:
    """What the ledger alone knows, where no orchestrator runs: tries and good runs."""
    tries: dict[tuple[str, str], Try] = {}
    done: dict[tuple[str, str], int] = {}
    for each in sorted(actions, key=lambda each: each.started_ms):
        key = (each.table, decided_verb(each.verb))
        if each.verdict is Verdict.SHADOW:
            continue
        if each.verdict in _GOOD:
            done[key] = each.started_ms
        if each.state:
            last = tries.get(key)
            times = last.times + 1 if last is not None and last.state == each.state else 1
            tries[key] = Try(state=each.state, ended_ms=each.ended_ms, times=times)
    since = [each.cost for each in actions if each.started_ms >= day_begins_ms]
    learned = Calibration.of(_as_decided(actions))
    return Past(tries=tries, done_ms=done, spent=_sum(since), learned=learned)


def _as_decided(actions: Sequence[Action]) -> list[Action]:
    return [replace(each, verb=decided_verb(each.verb)) for each in actions]


def decided_verb(verb: str) -> str:
    """The name under which decisions ask for a verb."""
    return _DECIDED.get(verb, verb)


def _sum(costs: Sequence[Cost]) -> Cost:
    return Cost(
        bytes=sum(each.bytes for each in costs),
        files=sum(each.files for each in costs),
        milliseconds=sum(each.milliseconds for each in costs),
        bytes_written=sum(each.bytes_written for each in costs),
    )
