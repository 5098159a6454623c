"""One look at all kept tables: what is due, what is chosen, what is declined, and what is new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lakewright.platform.decide.budget import Choice, choose
from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.decide import decide, intents
from lakewright.platform.decide.kept_tables import KeptTable, KeptTables
from lakewright.platform.decide.surveys import SurveyLog, Surveys
from lakewright.platform.decide.upkeep_state import UpkeepState, read_beside, read_state
from lakewright.platform.ledger.intents import Decision, Declined, Intent, Why, WhyNot
from lakewright.platform.ledger.known_work import Past
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.past import LedgerPast
from lakewright.platform.tables.upkeep_policies import (
    IcebergPolicy,
    RespecPolicy,
    SortPolicy,
    UpkeepMode,
)
from lakewright.platform.upkeep.words import counted, size_text
from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError
from lakewright.storage.files.table_stamp import TableStamp
from lakewright.storage.operations.running.concurrency import map_ahead

# After so long it is looked up whether tags, branches or consumers of a table changed,
# which takes no commit; and after so long all of its state is read again: files that no snapshot
# names come without a trace.
_STATE_HOLDS_MS, _MOST_HELD_MS = 600_000, 3_600_000
# Most of a look waits for a store that is not a local disk. On a local disk, threads would only
# share one processor, and a look whose time is over would have begun with many tables.
_READ_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look found.

    `decisions` has every decision by table. `choice` is what is carried out now, and what waits for
    budget or for another verb of the same table. `shadows` are intents of tables that are only
    watched. `news` are reasons of a kind that the look before did not give. `left` is the number of
    tables that the time did not suffice for.
    """

    decisions: Mapping[str, tuple[Decision, ...]]
    choice: Choice
    shadows: tuple[Intent, ...] = ()
    news: tuple[str, ...] = ()
    left: int = 0

    def of(self, table: str) -> tuple[Decision, ...]:
        """The decisions on a table, as the choice has them.

        What must wait for budget or another verb is declined, and what a budget cuts is cut.
        """
        made: tuple[Decision, ...] = (*self.choice.declined, *self.choice.chosen)
        chosen = {each.verb: each for each in made if each.table == table}
        return tuple(
            chosen.get(each.verb, each) if isinstance(each, Intent) else each
            for each in self.decisions.get(table, ())
        )

    @property
    def summary(self) -> str:
        """What was looked at and what waits, in one sentence."""
        looked = counted(len(self.decisions), "table")
        waiting = [
            each
            for each in (*self.choice.declined, *_declined(self.decisions))
            if each.why_not.waits
        ]
        told = []
        if waiting:
            more, wait = len(waiting) - 1, "waits" if len(waiting) == 2 else "wait"
            rest = f"; and {more} more {wait}" if more else ""
            told.append(f"{waiting[0].table}: {waiting[0].told}{rest}")
        elif not self.shadows:
            told.append("nothing is due")
        if self.shadows:
            size = size_text(sum(shadow.cost.bytes for shadow in self.shadows))
            be = "is" if len(self.shadows) == 1 else "are"
            told.append(
                f"{counted(len(self.shadows), 'verb')} {be} due in tables in shadow mode, "
                f"{size} to rewrite"
            )
        if self.left:
            told.append(f"{counted(self.left, 'table')} left for the next look")
        return f"looked at {looked}: {'; '.join(told)}"


@dataclass(slots=True)
class _Known:
    """What was read of a table, when, and what it was like by then.

    `read_ms` is when all of it was read, `checked_ms` when what is `beside` its snapshots was last
    found to be as it was. `sort` is the order that the state was read for, and `ended_ms` when
    upkeep had last ended. Only a stamp that was `settled` tells a new table from this one.
    """

    stamp: TableStamp | None
    settled: bool
    beside: object
    read_ms: int
    checked_ms: int
    sort: SortPolicy
    state: UpkeepState
    ended_ms: int
    told: frozenset[tuple[str, Why | WhyNot]] = frozenset()


@dataclass(slots=True)
class TableWatch:
    """Looks at tables again and again; it remembers only what it can read again."""

    tables: KeptTables
    log: SurveyLog | None = None
    _known: dict[str, _Known] = field(default_factory=dict)
    _recorded: LedgerPast | None = None

    def recorded(self, catalog: Catalog) -> LedgerPast:
        """What the ledger of the warehouse knows; it is read on from the last reading."""
        if self._recorded is None:
            self._recorded = LedgerPast(Ledger(catalog))
        return self._recorded

    def names(self, catalog: Catalog) -> list[str]:
        """The kept tables that exist."""
        return list(self.tables.present(catalog))

    def state(self, name: str) -> UpkeepState | None:
        """What the last look read of a table."""
        known = self._known.get(name)
        return None if known is None else known.state

    def ended_ms(self, name: str) -> int:
        """When a run of upkeep on a table had last ended, as far as the last look knew."""
        known = self._known.get(name)
        return 0 if known is None else known.ended_ms

    def read_again(self, name: str) -> None:
        """Read a table at the next look, whatever its snapshot: expiries and removals make none."""
        if name in self._known:
            known = self._known[name]
            known.read_ms = known.checked_ms = -_MOST_HELD_MS

    def look(
        self,
        catalog: Catalog,
        past: Past,
        clock: Clock,
        *,
        names: Sequence[str] | None = None,
        day_ends_ms: int | None = None,
        within_ms: int | None = None,
    ) -> Look:
        """Decide on every kept table that exists, and choose among what is due.

        `names` are the kept tables that exist, if they were listed already. After `within_ms`, no
        table is begun with. The next look begins with those that were read longest ago.
        """
        names = self.names(catalog) if names is None else names
        policies = self.tables.files.current().policies
        ends_ms = None if within_ms is None else catalog.env.now_ms() + within_ms
        for gone in self._known.keys() - set(names):
            del self._known[gone]
        decisions: dict[str, tuple[Decision, ...]] = {}
        live: list[Intent] = []
        shadows: list[Intent] = []
        news: list[str] = []

        ended = _last_ends(past)

        def read(name: str) -> tuple[KeptTable, _Known] | None:
            if ends_ms is not None and catalog.env.now_ms() >= ends_ms:
                return None
            kept = self.tables.table(name, policies)
            return kept, self._state(catalog, kept, clock.now_ms, ended.get(name, 0))

        in_turn = sorted(names, key=self._read_ms)
        at_once = 1 if catalog.fs.scheme == "file" else _READ_AT_ONCE
        for answer in map_ahead(catalog.env, read, in_turn, at_once=at_once):
            if answer is None:
                continue
            kept, known = answer
            found = decide(
                known.state,
                kept.policy,
                past,
                clock,
                declared_keys=kept.declared_keys,
                is_streamed=kept.declaration is not None and kept.declaration.is_stream,
            )
            decisions[kept.name] = found
            due = intents(found)
            (shadows if kept.policy.mode is UpkeepMode.SHADOW else live).extend(due)
            told = {_kind(each): each.reason for each in _worth_telling(found)}
            news += sorted(f"{kept.name}: {told[each]}" for each in told.keys() - known.told)
            known.told = frozenset(told)
        budgets_of = self.tables.budgets_of
        choice = choose(live, budgets_of, past.spent, day_ends_ms=day_ends_ms)
        return Look(
            decisions=dict(sorted(decisions.items())),
            choice=choice,
            shadows=tuple(shadows),
            news=tuple(news),
            left=len(names) - len(decisions),
        )

    def record(self, catalog: Catalog, look: Look, *, now_ms: int) -> None:
        """Record the states that a look found, as far as they are news.

        Raises:
            StorageError: the recorded surveys cannot be read or written.
        """
        if self.log is None:
            self.log = SurveyLog(Surveys(catalog))
        found = {name: self._known[name].state for name in look.decisions if name in self._known}
        acting = {each.table for each in look.choice.chosen}
        self.log.record(found, acting=acting, now_ms=now_ms)

    def _read_ms(self, name: str) -> int:
        known = self._known.get(name)
        return 0 if known is None else known.read_ms

    def _state(self, catalog: Catalog, kept: KeptTable, now_ms: int, ended_ms: int) -> _Known:
        name, policy = kept.name, kept.policy
        known, stamp = self._known.get(name), None
        # The survey says what is wrong with the table.
        with suppress(StorageError):
            stamp = catalog.stamp(name)
        if (
            known is not None
            and stamp is not None
            and known.stamp == stamp
            # An expiry and a removal of orphans make no snapshot.
            and known.ended_ms == ended_ms
            and known.sort == policy.sort
            and _knows_keys(known.state, policy.respec)
            and _knows_readers(known.state, policy.iceberg)
            and (known.settled or known.state.survey.uuid == _uuid(catalog, name))
        ):
            known.settled = known.settled or stamp.is_settled(catalog.env.now_ms())
            # A clock that was set back makes the difference negative.
            if 0 <= now_ms - known.checked_ms < _STATE_HOLDS_MS:
                return known
            if 0 <= now_ms - known.read_ms < _MOST_HELD_MS and known.beside == _beside(
                catalog, name
            ):
                known.checked_ms = now_ms
                return known
        # Read before the state: what changes meanwhile is found at the next look.
        beside = _beside(catalog, name)
        state = read_state(
            catalog,
            name,
            now_ms=now_ms,
            sort=policy.sort,
            respec=policy.respec,
            iceberg=policy.iceberg,
        )
        told: frozenset[tuple[str, Why | WhyNot]] = frozenset() if known is None else known.told
        self._known[name] = _Known(
            stamp=stamp,
            settled=bool(state.survey.uuid)
            and stamp is not None
            and stamp.is_settled(catalog.env.now_ms()),
            beside=None if _is_passing(state) else beside,
            read_ms=now_ms,
            checked_ms=now_ms,
            sort=policy.sort,
            state=state,
            ended_ms=ended_ms,
            told=told,
        )
        return self._known[name]


def _knows_keys(state: UpkeepState, policy: RespecPolicy) -> bool:
    """Whether a state says if the table can have the partition keys of a policy."""
    change = state.keys_change
    if not policy.enabled or policy.keys is None or state.survey.problem is not None:
        return True
    return change is not None and change.is_of(policy)


def _knows_readers(state: UpkeepState, policy: IcebergPolicy) -> bool:
    """Whether a state says what Iceberg readers see, if the policy publishes for them."""
    return not policy.enabled or bool(state.iceberg or state.survey.problem)


def _is_passing(state: UpkeepState) -> bool:
    """Whether others may mend what is wrong without a commit to the table."""
    change = state.keys_change
    is_blocked = change is not None and change.why_not is WhyNot.BLOCKED
    return is_blocked or state.survey.problem is not None


def _uuid(catalog: Catalog, name: str) -> str | None:
    try:
        return catalog.table(name).uuid
    except StorageError:
        return None


def _beside(catalog: Catalog, name: str) -> object:
    """What changes without a commit; of a table that cannot be read it equals nothing."""
    try:
        return read_beside(catalog.table(name))
    except StorageError:
        return object()


def _last_ends(past: Past) -> dict[str, int]:
    """By table, the last end of a run of upkeep that is known, or the start of one that ended."""
    found: dict[str, int] = {}
    ends = {key: each.ended_ms for key, each in past.tries.items()}
    for (table, _), at_ms in (*ends.items(), *past.done_ms.items()):
        found[table] = max(found.get(table, 0), at_ms)
    return found


def _worth_telling(decisions: Iterable[Decision]) -> Iterator[Decision]:
    """What is due or waits; of what is in order nothing is told."""
    for decision in decisions:
        if isinstance(decision, Intent) or decision.why_not.waits:
            yield decision


def _kind(decision: Decision) -> tuple[str, Why | WhyNot]:
    """The verb and why it is due or not; numbers in the reason change with each commit."""
    return decision.verb, decision.why if isinstance(decision, Intent) else decision.why_not


def _declined(decisions: Mapping[str, Sequence[Decision]]) -> list[Declined]:
    return [each for found in decisions.values() for each in found if isinstance(each, Declined)]
