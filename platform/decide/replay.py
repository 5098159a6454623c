"""Replays a policy over the recorded history: what it would have decided, cost and gained.

1. Carry each table from one recorded state to the next (`simulate.py`).
2. Decide whenever something may change a decision: at each recorded state, at each moment of a
   schedule, when a simulated run ends, and when a declined verb is to be asked for again.
3. Let what is chosen within the budget take effect, with the cost and benefit that past runs let
   expect. Until the time that it takes is over, decisions are told that it runs.
4. Sum up by table and verb, beside what the ledger says was done, and pair the runs of both.

A pure function: it reads no clock and no table. `mode` does not count: a policy in shadow is
replayed as if it were live.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from lakewright.platform.decide.budget import BudgetsOf, choose
from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.decide import decide
from lakewright.platform.decide.keepers import KEPT_VERBS
from lakewright.platform.decide.recorded_history import RecordedHistory
from lakewright.platform.decide.simulate import SimulatedTable
from lakewright.platform.documents.cron import ticks_back
from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.calibrate import Calibration
from lakewright.platform.ledger.intents import Decision, Declined, Intent
from lakewright.platform.ledger.kept_verbs import EVERY_VERB, waits_for
from lakewright.platform.ledger.known_work import Past, Running
from lakewright.platform.ledger.past import day_of, decided_verb
from lakewright.platform.ledger.savings import sum_of_benefits, sum_of_costs
from lakewright.platform.tables.upkeep_policies import UpkeepPolicy
from lakewright.platform.upkeep.measures import Benefit, Cost
from lakewright.platform.upkeep.words import time_text

# From a moment backwards, the moments of a schedule in a time zone.
PolicyOf = Callable[[str], UpkeepPolicy]
# Two runs of a verb on a table that begin within this time are the same decision.
_SAME_MS = 1_800_000
_GOOD = (Verdict.DONE, Verdict.NOTHING_TO_DO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One run of a verb on a table, done or simulated."""

    table: str
    verb: str
    at_ms: int
    reason: str
    cost: Cost = Cost()
    benefit: Benefit = Benefit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The sums over some runs: as they were done then, and as the replayed policy does them."""

    table: str
    verb: str
    runs_then: int
    runs_now: int
    cost_then: Cost
    cost_now: Cost
    benefit_then: Benefit
    benefit_now: Benefit


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDifference:
    """A decision that differs: what was done or said of a verb then, and now."""

    table: str
    verb: str
    at_ms: int
    then: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFiles:
    """The files of a table that a reader of all of it opened, on average over the time."""

    table: str
    then: float
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What came of a replay; `now` are its runs, and `then` those of the ledger.

    `without_history` are tables of which only the present state is known.
    """

    begins_ms: int
    ends_ms: int
    then: tuple[Step, ...]
    now: tuple[Step, ...]
    differences: tuple[ReplayDifference, ...]
    open_files: tuple[OpenFiles, ...]
    without_history: tuple[str, ...] = ()
    shadows: int = 0

    def rows(self) -> tuple[Compared, ...]:
        """The sums of each table and verb, in order."""
        keys = sorted({_key(each) for each in (*self.then, *self.now)})
        then, now = _by_key(self.then), _by_key(self.now)
        return tuple(_compared(*key, then.get(key, ()), now.get(key, ())) for key in keys)

    def total(self) -> Compared:
        """The sums over everything."""
        return _compared("all", "", self.then, self.now)


def replay(
    history: RecordedHistory,
    policy_of: PolicyOf,
    budgets_of: BudgetsOf,
    *,
    timezone: str,
    declared_keys: Mapping[str, tuple[str, ...]] | None = None,
) -> Replay:
    """Replay the policies of tables, and their budgets, over a history.

    The day of the budgets begins in `timezone`. `declared_keys` are the partition keys of tables
    whose declarations say them.
    """
    run = _Run(history, policy_of, budgets_of, timezone, declared_keys or {})
    run.go()
    then = tuple(_steps_of(history))
    return Replay(
        begins_ms=history.begins_ms,
        ends_ms=history.ends_ms,
        then=then,
        now=tuple(run.done),
        differences=tuple(_differences(then, run.done, run.told)),
        open_files=tuple(_open_files(run.tables.values())),
        without_history=tuple(
            sorted(name for name, states in history.states.items() if len(states) < 2)
        ),
        shadows=sum(each.verdict is Verdict.SHADOW for each in history.done_in_span()),
    )


# --- the run ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Ticks:
    """The moments of schedules within a span, each found once."""

    begins_ms: int
    ends_ms: int
    _found: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def of(self, schedule: str, timezone: str) -> list[int]:
        """The last moment before the span, then those in it."""
        key = (schedule, timezone)
        if key not in self._found:
            found: list[int] = []
            for at_ms in ticks_back(self.ends_ms, schedule, timezone):
                found.append(at_ms)
                if at_ms <= self.begins_ms:
                    break
            self._found[key] = found[::-1]
        return self._found[key]

    def last(self, now_ms: int, schedule: str, timezone: str) -> int:
        found = self.of(schedule, timezone)
        return found[max(bisect_right(found, now_ms) - 1, 0)]


@dataclass(slots=True)
class _Run:
    """One replay in its course: `told` has by table and verb what was said of it, and when.

    `_running` has by table and verb the begin and the end of what runs.
    """

    history: RecordedHistory
    policy_of: PolicyOf
    budgets_of: BudgetsOf
    timezone: str
    declared_keys: Mapping[str, tuple[str, ...]]
    done: list[Step] = field(default_factory=list)
    told: dict[tuple[str, str], list[tuple[int, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    tables: dict[str, SimulatedTable] = field(default_factory=dict)
    _policies: dict[str, UpkeepPolicy] = field(default_factory=dict)
    _events: list[tuple[int, str]] = field(default_factory=list)
    _due: dict[str, tuple[Intent, ...]] = field(default_factory=dict)
    _done_ms: dict[tuple[str, str], int] = field(default_factory=dict)
    _running: dict[str, dict[str, tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _learned: Calibration = field(default_factory=Calibration)
    _spent: tuple[int, dict[str, Cost]] = field(default_factory=lambda: (-1, {}))

    def go(self) -> None:
        begins_ms, ends_ms = self.history.begins_ms, self.history.ends_ms
        first_ms = [states[0].survey.taken_ms for states in self.history.states.values()]
        self._learned = Calibration.of(_with_decided_verbs(self.history.actions))
        for each in self.history.actions:
            if each.verdict in _GOOD and each.started_ms < begins_ms:
                running = self._running[each.table]
                running[decided_verb(each.verb)] = (each.started_ms, each.ended_ms)
        ticks = _Ticks(min(first_ms, default=ends_ms), ends_ms)
        acted = _by_table(self.history.done_in_span())
        for name, states in self.history.states.items():
            self._policies[name] = self.policy_of(name)
            self.tables[name] = SimulatedTable(states, acted.get(name, ()), self._learned)
            self._events += [(each.survey.taken_ms, name) for each in states]
            from_ms = states[0].survey.taken_ms
            moments = [at_ms for _, at_ms in self._running[name].values()]
            for schedule in _schedules(self._policies[name]):
                moments += ticks.of(*schedule)
            self._events += [(at_ms, name) for at_ms in moments if from_ms < at_ms <= ends_ms]
        heapify(self._events)
        while self._events and self._events[0][0] <= ends_ms:
            now_ms, name = heappop(self._events)
            names = {name}
            while self._events and self._events[0][0] == now_ms:
                names.add(heappop(self._events)[1])
            self._look(now_ms, names, ticks)
        for table in self.tables.values():
            table.advance(ends_ms)

    def _look(self, now_ms: int, names: Iterable[str], ticks: _Ticks) -> None:
        clock = Clock(
            now_ms=now_ms, last_tick_ms=lambda schedule, zone: ticks.last(now_ms, schedule, zone)
        )
        day_begins_ms, day_ends_ms = day_of(now_ms, self.timezone)
        is_new_day = self._spent[0] != day_begins_ms
        if is_new_day:
            self._spent = (day_begins_ms, {})
        asked: set[str] = set()
        asks = set(names)
        while True:
            for name in sorted(asks):
                self._decide(name, clock)
            asked |= asks
            due = [intent for intents in self._due.values() for intent in intents]
            if not is_new_day and not any(each.table in asked for each in due):
                return
            choice = choose(due, self.budgets_of, self._spent[1], day_ends_ms=day_ends_ms)
            # What was due at an earlier look is asked again before it is done.
            asks = {each.table for each in choice.chosen} - asked
            if not asks:
                break
        waiting = [each for each in choice.declined if each.table in asked]
        self._remember(now_ms, waiting)
        for each in waiting:
            if each.again_ms is not None:
                heappush(self._events, (each.again_ms, each.table))
        for intent in choice.chosen:
            self._carry_out(intent, now_ms)

    def _decide(self, name: str, clock: Clock) -> None:
        table = self.tables[name]
        table.advance(clock.now_ms)
        past = self._past(name, clock.now_ms)
        decisions = decide(
            table.state(),
            self._policies[name],
            past,
            clock,
            declared_keys=self.declared_keys.get(name),
        )
        self._due[name] = tuple(each for each in decisions if isinstance(each, Intent))
        self._remember(clock.now_ms, decisions)
        for each in decisions:
            if isinstance(each, Declined) and each.again_ms is not None:
                heappush(self._events, (max(each.again_ms, clock.now_ms + 1), name))

    def _past(self, name: str, now_ms: int) -> Past:
        """What a decision on a table is told; as in the ledger, a run counts as done at its end."""
        running = self._running[name]
        for verb, (began_ms, ends_ms) in tuple(running.items()):
            if ends_ms <= now_ms:
                self._done_ms[name, verb] = began_ms
                del running[verb]
        in_flight = tuple(
            Running(verb, f"{verb.replace('_', ' ')}, which runs until {time_text(ends_ms)}")
            for verb, (_, ends_ms) in running.items()
        )
        return Past(done_ms=self._done_ms, in_flight={name: in_flight}, learned=self._learned)

    def _carry_out(self, intent: Intent, now_ms: int) -> None:
        table = self.tables[intent.table]
        table.advance(now_ms)
        measures = table.carry_out(intent, self._policies[intent.table], now_ms)
        # What waits for this one is decided anew when it ends.
        self._due[intent.table] = tuple(
            each for each in self._due[intent.table] if not waits_for(each.verb, intent.verb)
        )
        ends_ms = now_ms + max(measures.cost.milliseconds, 1)
        self._running[intent.table][intent.verb] = (now_ms, ends_ms)
        heappush(self._events, (ends_ms, intent.table))
        spent = self._spent[1]
        spent[intent.table] = sum_of_costs([spent.get(intent.table, Cost()), measures.cost])
        self.done.append(
            Step(
                table=intent.table,
                verb=intent.verb,
                at_ms=now_ms,
                reason=intent.reason,
                cost=measures.cost,
                benefit=measures.benefit,
            )
        )

    def _remember(self, now_ms: int, decisions: Iterable[Decision]) -> None:
        """Of each verb what was said first; a due partition says more than one that is in order."""
        said: dict[tuple[str, str], Decision] = {}
        for each in decisions:
            key = (each.table, each.verb)
            if key not in said or _weighs(each) > _weighs(said[key]):
                said[key] = each
        for key, each in said.items():
            why = "due" if isinstance(each, Intent) else each.why_not.value.replace("_", " ")
            self.told[key].append((now_ms, f"{why}: {each.reason}"))


def _weighs(decision: Decision) -> int:
    return 2 if isinstance(decision, Intent) else int(decision.why_not.waits)


def _schedules(policy: UpkeepPolicy) -> set[tuple[str, str]]:
    """The schedules of a policy's sections that are switched on, with their time zones."""
    return {
        (section.schedule, section.timezone)
        for _, section in policy
        if getattr(section, "schedule", None) is not None and section.enabled
    }


def _by_table(actions: Iterable[Action]) -> Mapping[str, list[Action]]:
    found: dict[str, list[Action]] = defaultdict(list)
    for each in actions:
        if each.verdict is not Verdict.SHADOW:
            found[each.table].append(each)
    return {name: sorted(each, key=lambda act: act.ended_ms) for name, each in found.items()}


def _with_decided_verbs(actions: Iterable[Action]) -> Iterator[Action]:
    """Actions that a decision asked for by their verb; the first part of a compaction is none."""
    return (each for each in actions if decided_verb(each.verb) == each.verb)


# --- what is compared ---------------------------------------------------------------------------


def _key(step: Step) -> tuple[str, str]:
    return step.table, step.verb


def _by_key(steps: Iterable[Step]) -> Mapping[tuple[str, str], list[Step]]:
    found: dict[tuple[str, str], list[Step]] = defaultdict(list)
    for each in steps:
        found[_key(each)].append(each)
    return found


def _compared(table: str, verb: str, then: Sequence[Step], now: Sequence[Step]) -> Compared:
    return Compared(
        table=table,
        verb=verb,
        runs_then=len(then),
        runs_now=len(now),
        cost_then=sum_of_costs(each.cost for each in then),
        cost_now=sum_of_costs(each.cost for each in now),
        benefit_then=sum_of_benefits(each.benefit for each in then),
        benefit_now=sum_of_benefits(each.benefit for each in now),
    )


def _steps_of(history: RecordedHistory) -> Iterator[Step]:
    """What the ledger says was done on the tables of the history, of verbs that policies decide."""
    for each in history.done_in_span():
        verb = decided_verb(each.verb)
        is_done = each.verdict is not Verdict.SHADOW and each.table in history.states
        if is_done and verb in KEPT_VERBS:
            yield Step(
                table=each.table,
                verb=verb,
                at_ms=each.started_ms,
                reason=each.reason or each.summary,
                cost=each.cost,
                benefit=each.benefit,
            )


def _differences(
    then: Sequence[Step],
    now: Sequence[Step],
    told: Mapping[tuple[str, str], Sequence[tuple[int, str]]],
) -> list[ReplayDifference]:
    """Runs of one side alone, in the order of time, with what the other side said at that time."""
    left = {key: [*steps] for key, steps in _by_key(now).items()}
    found: list[ReplayDifference] = []
    for each in sorted(then, key=lambda step: step.at_ms):
        others = left.get(_key(each), [])
        near = [other for other in others if abs(other.at_ms - each.at_ms) <= _SAME_MS]
        if near:
            others.remove(min(near, key=lambda other: abs(other.at_ms - each.at_ms)))
            continue
        said = _said(told.get(_key(each), ()), each.at_ms)
        said = said or _said(told.get((each.table, EVERY_VERB), ()), each.at_ms)
        found.append(_difference(each, then=each.reason, now=said or "not asked for"))
    done = _by_key(then)
    for each in (step for steps in left.values() for step in steps):
        later = [was.at_ms for was in done.get(_key(each), ()) if was.at_ms > each.at_ms]
        told_then = f"not done before {time_text(min(later))}" if later else "not done"
        found.append(_difference(each, then=told_then, now=each.reason))
    return sorted(found, key=lambda each: (each.at_ms, each.table, each.verb))


def _difference(step: Step, *, then: str, now: str) -> ReplayDifference:
    return ReplayDifference(table=step.table, verb=step.verb, at_ms=step.at_ms, then=then, now=now)


def _said(told: Sequence[tuple[int, str]], at_ms: int) -> str:
    """What was last said at a moment, or shortly after."""
    at = bisect_right(told, at_ms, key=lambda each: each[0])
    if at:
        return told[at - 1][1]
    return told[0][1] if told and told[0][0] - at_ms <= _SAME_MS else ""


def _open_files(tables: Iterable[SimulatedTable]) -> Iterator[OpenFiles]:
    for each in tables:
        passed = each.summed_ms - each.begins_ms
        if passed > 0:
            yield OpenFiles(
                table=each.name,
                then=each.observed_file_ms / passed,
                now=each.file_ms / passed,
            )
