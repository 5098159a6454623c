"""An overview of the upkeep of a warehouse at one moment, for people who watch it.

Tables are surveyed again only when they have a new snapshot, as the upkeep sensor does, and the
ledger and the recorded surveys are read again only when they have grown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.debt import Debt, debt_of, findings
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.decide.look import TableWatch
from lakewright.platform.decide.survey_rows import HealthFigures
from lakewright.platform.decide.surveys import OWN_TABLES, Surveys
from lakewright.platform.decide.trend import Trend, trends
from lakewright.platform.decide.upkeep_state import UpkeepState
from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.intents import Decision, Declined, Intent, WhyNot
from lakewright.platform.ledger.kept_verbs import COMPACT
from lakewright.platform.ledger.known_work import Past
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.past import day_of
from lakewright.platform.ledger.savings import sum_of_costs
from lakewright.platform.upkeep.measures import Cost
from lakewright.storage import Catalog, Lease
from lakewright.storage.errors import StorageError

_MONTH_MS = 31 * 86_400_000
_DAY_MS = 86_400_000
# Of so many tables with the most debt, the processes that work on them are asked for.
_MOST_ASKED = 30
_MOST_POINTS = 64
# Reasons that stay until a person changes something.
_LEFT = frozenset({WhyNot.READ_ONLY, WhyNot.FROZEN, WhyNot.UNDONE})
_OFF = WhyNot.DISABLED


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLine:
    """One table: its debt, what is due or declined and why, and who works on it.

    `due` are intents that are chosen now, `waits` those that something keeps back, and `left` what
    a person or the table itself keeps upkeep from. `findings` are what the debt is made of.
    """

    table: str
    mode: str
    debt: Debt
    problem: str | None = None
    due: tuple[Intent, ...] = ()
    waits: tuple[Declined, ...] = ()
    left: tuple[Declined, ...] = ()
    findings: tuple[str, ...] = ()
    working: tuple[str, ...] = ()
    trend: Trend | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All kept tables, those with the most debt first, and the last actions, newest first.

    `spent` is what the day's rewrites took, and `took_ms` the time of the look itself.
    """

    at_ms: int
    tables: tuple[TableLine, ...]
    actions: tuple[Action, ...]
    spent: Cost = Cost()
    summary: str = ""
    took_ms: int = 0


@dataclass(slots=True)
class Overviews:
    """Looks again and again; writes nothing."""

    catalog: Catalog
    kept: KeptTables
    _watch: TableWatch | None = None
    _seen: dict[str, tuple[str, int] | None] = field(default_factory=dict)
    _actions: tuple[Action, ...] = ()
    _trends: Mapping[str, Trend] = field(default_factory=dict)

    def look(self) -> Overview:
        """What is to be seen now."""
        now_ms = self.catalog.env.now_ms()
        ledger, surveys = Ledger(self.catalog), Surveys(self.catalog)
        if (latest := self._latest(ledger.name)) != self._seen.get(ledger.name):
            self._actions = ledger.actions(since_ms=max(now_ms - _MONTH_MS, 0))
            self._seen[ledger.name] = latest
        if (latest := self._latest(surveys.name)) != self._seen.get(surveys.name):
            self._trends = trends(_recent(surveys, now_ms))
            self._seen[surveys.name] = latest
        begins_ms, ends_ms = day_of(now_ms, self.kept.warehouse.budget.timezone)
        self._watch = self._watch or TableWatch(self.kept)
        past = self._watch.recorded(self.catalog).past(day_begins_ms=begins_ms)
        return self._overview(self._watch, past, now_ms, ends_ms)

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions of a month that the last look knew, oldest first."""
        return self._actions

    def state(self, table: str) -> UpkeepState | None:
        """What the last look read of a table."""
        return None if self._watch is None else self._watch.state(table)

    def _overview(self, watch: TableWatch, past: Past, now_ms: int, day_ends_ms: int) -> Overview:
        clock = Clock.at(now_ms)
        look = watch.look(self.catalog, past, clock, day_ends_ms=day_ends_ms)
        lines = [self._line(name, look.of(name)) for name in look.decisions]
        worst = sorted(lines, key=lambda each: (each.problem is None, *_weight(each)))
        shown = [
            self._with_workers(each, now_ms) if at < _MOST_ASKED else each
            for at, each in enumerate(worst)
        ]
        acted = [action for action in self._actions if action.verdict is not Verdict.SHADOW]
        return Overview(
            at_ms=now_ms,
            tables=tuple(shown),
            actions=tuple(reversed([each for each in acted if now_ms - each.ended_ms < _DAY_MS])),
            spent=sum_of_costs(past.spent.values()),
            summary=look.summary,
            took_ms=self.catalog.env.now_ms() - now_ms,
        )

    def _line(self, name: str, decisions: Sequence[Decision]) -> TableLine:
        state = self.state(name)
        survey = None if state is None else state.survey
        return TableLine(
            table=name,
            mode=self.kept.table(name).policy.mode.value,
            debt=Debt() if survey is None else debt_of(survey),
            problem=None if survey is None else survey.problem,
            due=tuple(decision for decision in decisions if isinstance(decision, Intent)),
            waits=tuple(
                decision
                for decision in decisions
                if isinstance(decision, Declined) and decision.why_not.waits
            ),
            left=tuple(
                decision
                for decision in decisions
                if isinstance(decision, Declined)
                and (
                    decision.why_not in _LEFT
                    or (decision.why_not is _OFF and decision.verb == COMPACT)
                )
            ),
            findings=() if survey is None else findings(survey),
            trend=self._trends.get(name),
        )

    def _with_workers(self, line: TableLine, now_ms: int) -> TableLine:
        """The line with the processes that hold a lease of the table."""
        if line.problem is not None:
            return line
        try:
            leases: tuple[Lease, ...] = self.catalog.table(line.table).upkeep.leases()
        except StorageError:
            return line
        held = tuple(
            f"{lease.kind.value} by {lease.holder}" for lease in leases if lease.expires_ms > now_ms
        )
        return replace(line, working=held)

    def _latest(self, name: str) -> tuple[str, int] | None:
        """The uuid and the latest snapshot of a table of records; None without one."""
        if not self.catalog.table_exists(name):
            return None
        table = self.catalog.table(name)
        snapshot = table.history.latest_snapshot()
        return None if snapshot is None else (table.uuid, snapshot.id)


def _recent(surveys: Surveys, now_ms: int) -> tuple[HealthFigures, ...]:
    return surveys.figures(since_ms=max(now_ms - 7 * _DAY_MS, 0), most=_MOST_POINTS)


def _weight(line: TableLine) -> tuple[int, int, bool, str]:
    return -line.debt.files, -line.debt.bytes, line.table in OWN_TABLES, line.table
