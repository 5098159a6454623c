"""What is known of earlier work: what the ledger says, with what an orchestrator knows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from zoneinfo import ZoneInfo

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.calibrate import Calibration, Learning
from lakewright.platform.ledger.intents import Cost
from lakewright.platform.ledger.kept_verbs import COMPACT
from lakewright.platform.ledger.known_work import Past, Try
from lakewright.platform.ledger.ledger import LastActions, Ledger
from lakewright.platform.ledger.reads import Reads
from lakewright.platform.ledger.savings import sum_of_costs
from lakewright.platform.ledger.taken_back import (
    TAKING_BACK,
    UNDOING_KEYS,
    TakenBack,
    taken_back,
)
from lakewright.platform.upkeep.postpone_compact import POSTPONE_COMPACT
from lakewright.storage import Catalog

_GOOD = (Verdict.DONE, Verdict.NOTHING_TO_DO)
_DAY = dt.timedelta(days=1)
# Predictions learn from what began in these days.
LEARNS_FROM_MS = 30 * 86_400_000
# An action is recorded when it has ended: one that ended within this time is not overlooked.
_LONGEST_MS = 3_600_000
_NOTHING: Mapping[str, Cost] = MappingProxyType({})
# Postponed rows get their buckets in the first part of a compaction.
_DECIDED = {POSTPONE_COMPACT.name: COMPACT}


@dataclass(slots=True)
class LedgerPast:
    """The one reader of actions for decisions; it reads only what was recorded since it last did.

    Where an orchestrator runs, what it knows itself is added: runs that left no action, runs that
    are under way, and what these may take.
    """

    ledger: Ledger
    reads: Reads = field(init=False)
    _last: LastActions | None = None
    _spent: tuple[int | None, int, Mapping[str, Cost]] = (None, 0, _NOTHING)
    _learning: Learning = field(default_factory=Learning)
    _read: tuple[int | None, Calibration] = (None, Calibration())
    _tries: dict[tuple[str, str], Try] = field(default_factory=dict)
    # The runs that these tries count: one may leave several actions, such as those of its retries.
    _runs: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    # The beginnings of the actions that were read, by their ids.
    _known: dict[str, int] = field(default_factory=dict)
    # Of tables of which something was taken back, what that was, for the same last actions.
    _taken_back: dict[str, tuple[object, Mapping[tuple[str, str], TakenBack]]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self.reads = Reads(self.ledger.catalog)

    def past(self, *, day_begins_ms: int) -> Past:
        """What the ledger alone knows."""
        return self.add_to(Past(), day_begins_ms=day_begins_ms)

    def add_to(self, past: Past, *, day_begins_ms: int) -> Past:
        """The past of an orchestrator with what the ledger knows."""
        self._last = self.ledger.last(self._last)
        done: dict[tuple[str, str], int] = dict(past.done_ms)
        for (table, _, verb), found in self._last.started_ms.items():
            times = [found[each] for each in _GOOD if each in found]
            if times:
                key = (table, decided_verb(verb))
                done[key] = max(*times, done.get(key, 0))
        learned = self._read_on()
        return replace(
            past,
            tries=_joined(self._tries, past.tries),
            done_ms=done,
            spent=_joined_costs(past.spent, self._spent_since(day_begins_ms)),
            learned=learned,
            taken_back=self._all_taken_back(),
            reads=self.reads.daily(now_ms=self.ledger.catalog.env.now_ms()),
        )

    def _read_on(self) -> Calibration:
        """What all actions say that the ledger has by now; only the later ones are read."""
        assert self._last is not None
        snapshot_id, learned = self._read
        if snapshot_id != self._last.snapshot_id:
            since_ms = max(self.ledger.catalog.env.now_ms() - LEARNS_FROM_MS, 0)
            if self._known:
                since_ms = max(since_ms, max(self._known.values()) - _LONGEST_MS)
            found = self.ledger.actions(since_ms=since_ms)
            new = [_as_decided(each) for each in found if each.id not in self._known]
            self._known = {each.id: each.started_ms for each in found}
            learned = self._learning.add(new)
            for each in new:
                self._tried(each)
            self._read = (self._last.snapshot_id, learned)
        return learned

    def _tried(self, action: Action) -> None:
        if not action.state or action.verdict is Verdict.SHADOW:
            return
        key = (action.table, action.verb)
        tried = Try(
            state=action.state,
            ended_ms=action.ended_ms,
            policy=action.policy,
            error=action.error or "",
            beaten=action.verdict is Verdict.BEATEN,
        )
        last, runs = self._tries.get(key), self._runs.setdefault(key, set())
        if last is None or not last.is_like(tried):
            runs.clear()
        runs.add(action.run)
        self._tries[key] = replace(tried, times=len(runs))

    def _all_taken_back(self) -> Mapping[tuple[str, str], TakenBack]:
        assert self._last is not None
        by_table: dict[str, dict[tuple[str, str], object]] = {}
        for (table, uuid, verb), found in self._last.started_ms.items():
            by_table.setdefault(table, {})[uuid, verb] = found
        held: dict[tuple[str, str], TakenBack] = {}
        for table, last in by_table.items():
            if not any(verb in (*TAKING_BACK, *UNDOING_KEYS) for _, verb in last):
                continue
            if self._taken_back.get(table, (None,))[0] != last:
                actions = map(_as_decided, self.ledger.actions(table=table))
                self._taken_back[table] = (last, taken_back(actions))
            held |= self._taken_back[table][1]
        return held

    def _spent_since(self, day_begins_ms: int) -> Mapping[str, Cost]:
        assert self._last is not None
        snapshot_id, since_ms, spent = self._spent
        if snapshot_id != self._last.snapshot_id or since_ms != day_begins_ms:
            spent = spent_since(self.ledger, day_begins_ms)
            self._spent = (self._last.snapshot_id, day_begins_ms, spent)
        return spent


def spent_since(ledger: Ledger, day_begins_ms: int) -> dict[str, Cost]:
    """What the recorded actions of a day took, by table."""
    costs: dict[str, list[Cost]] = {}
    for action in ledger.actions(since_ms=day_begins_ms):
        costs.setdefault(action.table, []).append(action.cost)
    return {table: sum_of_costs(found) for table, found in costs.items()}


def day_of(now_ms: int, timezone: str) -> tuple[int, int]:
    """Begin and end of the day of a moment, in milliseconds of the epoch."""
    zone = ZoneInfo(timezone)
    day = dt.datetime.fromtimestamp(now_ms / 1000, zone).date()
    begin, end = (
        dt.datetime.combine(each, dt.time(), zone).timestamp() for each in (day, day + _DAY)
    )
    return int(begin * 1000), int(end * 1000)


def _joined(
    recorded: Mapping[tuple[str, str], Try], runs: Mapping[tuple[str, str], Try]
) -> dict[tuple[str, str], Try]:
    """The last tries of both; a run and its action are one try."""
    joined = {**recorded, **runs}
    for key in recorded.keys() & runs.keys():
        action, run = recorded[key], runs[key]
        if action.is_like(run):
            ended_ms, times = max(action.ended_ms, run.ended_ms), max(action.times, run.times)
            joined[key] = replace(
                run, ended_ms=ended_ms, times=times, error=action.error, beaten=action.beaten
            )
        elif action.ended_ms > run.ended_ms:
            joined[key] = action
    return joined


def _as_decided(action: Action) -> Action:
    return replace(action, verb=decided_verb(action.verb))


def recent_actions(catalog: Catalog, table: str) -> tuple[Action, ...]:
    """The actions on a table from which predictions learn, oldest first."""
    since_ms = max(catalog.env.now_ms() - LEARNS_FROM_MS, 0)
    return Ledger(catalog).actions(table=table, since_ms=since_ms)


def decided_verb(verb: str) -> str:
    """The name under which decisions ask for a verb."""
    return _DECIDED.get(verb, verb)


def _joined_costs(one: Mapping[str, Cost], other: Mapping[str, Cost]) -> dict[str, Cost]:
    return {
        table: sum_of_costs([one.get(table, Cost()), other.get(table, Cost())])
        for table in one.keys() | other.keys()
    }
