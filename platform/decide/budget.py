"""Chooses among the intents of all tables what is carried out now, within the budgets of a day."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from lakewright.platform.ledger.intents import URGENT, Cost, Declined, Intent, Why, WhyNot
from lakewright.platform.ledger.kept_verbs import COMPACT, waits_for
from lakewright.platform.ledger.savings import sum_of_costs
from lakewright.platform.policies.policies import DayBudget
from lakewright.platform.upkeep.words import duration_text, size_text

# The budgets that cover a table.
BudgetsOf: TypeAlias = Callable[[str], Sequence[DayBudget]]

_FIRST = (Why.SCHEDULED, *URGENT)
_WAITING = {Why.ROWS_WAIT: "rows wait", Why.WRITERS_WAIT: "writers wait"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is carried out, the most useful first, and what must wait."""

    chosen: tuple[Intent, ...]
    declined: tuple[Declined, ...] = ()


def choose(
    intents: Sequence[Intent],
    budgets_of: BudgetsOf,
    spent: Mapping[str, Cost],
    *,
    day_ends_ms: int | None = None,
) -> Choice:
    """Take intents by their score while the budgets of the day last.

    An intent must fit into each budget that covers its table; `spent` is what the day took, by
    table. On one table, an intent waits for those that are taken before it and would be in its way.

    Rows that no reader sees before a compaction, and writers that wait for one, are worth any
    budget. Deletions rewrite nothing, so
    only the budget of time applies to them.
    """
    chosen: list[Intent] = []
    declined: list[Declined] = []
    taken: dict[str, list[str]] = {}
    left_of: dict[DayBudget, _Left] = {
        budget: _Left(budget, cost) for budget, cost in spent_of(budgets_of, spent).items()
    }
    for given in sorted(intents, key=_order):
        verbs = taken.setdefault(given.table, [])
        first = next((verb for verb in verbs if waits_for(given.verb, verb)), None)
        if first is not None:
            told = f"waits for {first.replace('_', ' ')} of the same table"
            declined.append(given.waiting(WhyNot.CAPPED, told))
            continue
        lefts = [left_of.setdefault(each, _Left(each, Cost())) for each in budgets_of(given.table)]
        intent = _cut(given, lefts)
        short = None if intent.why in URGENT else _shortage(intent, lefts)
        if short is not None:
            why_not, told = short
            declined.append(given.waiting(why_not, told, day_ends_ms))
            continue
        intent = _beyond_told(intent, lefts)
        verbs.append(intent.verb)
        chosen.append(intent)
        for each in lefts:
            each.take(intent.cost)
    return Choice(chosen=tuple(chosen), declined=tuple(declined))


def spent_of(budgets_of: BudgetsOf, spent: Mapping[str, Cost]) -> dict[DayBudget, Cost]:
    """What was spent of each budget, from what was spent on each table."""
    costs: dict[DayBudget, list[Cost]] = {}
    for table, cost in spent.items():
        for budget in budgets_of(table):
            costs.setdefault(budget, []).append(cost)
    return {budget: sum_of_costs(found) for budget, found in costs.items()}


def batches(
    chosen: Sequence[Intent], *, most_tables: int = 25, most_bytes: int = 32 << 30
) -> list[tuple[Intent, ...]]:
    """Groups of intents with the same verb, each for one run."""
    found: list[tuple[Intent, ...]] = []
    by_verb: dict[str, list[Intent]] = {}
    for intent in chosen:
        by_verb.setdefault(intent.verb, []).append(intent)
    for group in by_verb.values():
        batch: list[Intent] = []
        for intent in group:
            size = sum(each.cost.bytes for each in batch) + intent.cost.bytes
            if batch and (len(batch) >= most_tables or size > most_bytes):
                found.append(tuple(batch))
                batch = []
            batch.append(intent)
        found.append(tuple(batch))
    return found


@dataclass(slots=True)
class _Left:
    """What is left of a budget.

    What is larger than the whole of it begins while at least half of it is left: it would never be
    done otherwise, as other work comes before the hours of its policy.
    """

    budget: DayBudget
    spent: Cost

    @property
    def bytes(self) -> int | None:
        limit = self.budget.bytes
        return None if limit is None else max(limit - self.spent.bytes, 0)

    @property
    def milliseconds(self) -> int | None:
        limit = self.budget.time
        return None if limit is None else max(limit - self.spent.milliseconds, 0)

    @property
    def bytes_text(self) -> str:
        """`the day's budget of database sales (20 GB, policy.yaml:7)`."""
        limit = size_text(self.budget.bytes or 0)
        return f"the day's budget of {self.budget.section} ({limit}, {self.budget.bytes_place})"

    @property
    def time_text(self) -> str:
        limit = duration_text(self.budget.time or 0)
        return f"the day's budget of {self.budget.section} ({limit}, {self.budget.time_place})"

    def take(self, cost: Cost) -> None:
        self.spent = sum_of_costs([self.spent, cost])


def _cut(intent: Intent, lefts: Sequence[_Left]) -> Intent:
    """A compaction that no whole day of a budget covers, cut to what is left of the day.

    It gets whole buckets, those that wait longest first. Of less than a quarter of a day it waits
    for the next one: a run reads one bucket at least.
    """
    if intent.verb != COMPACT:
        return intent
    for each in sorted(lefts, key=lambda left: left.budget.bytes or 0):
        most, left = each.budget.bytes or 0, each.bytes or 0
        if intent.cost.bytes > most and 0 < most <= 4 * left:
            intent = replace(
                intent,
                told=f"{intent.told}: cut to {size_text(left)}, the rest of {each.bytes_text}",
                options={**intent.options, "max_bytes": left},
                cost=replace(intent.cost, bytes=left),
            )
    return intent


def _beyond_told(intent: Intent, lefts: Sequence[_Left]) -> Intent:
    """An intent that begins although it takes more than is left of a budget says so."""
    for each in lefts:
        if each.bytes is not None and intent.cost.bytes > each.bytes:
            needed = size_text(intent.cost.bytes)
            told = f"it takes {needed}, more than is left of {each.bytes_text}"
        elif each.milliseconds is not None and intent.cost.milliseconds > each.milliseconds:
            needed = duration_text(intent.cost.milliseconds)
            told = f"it takes {needed}, more than is left of {each.time_text}"
        else:
            continue
        why = _WAITING.get(intent.why, "no day's budget covers it")
        return replace(intent, told=f"{intent.told}; {told}: {why}")
    return intent


def _shortage(intent: Intent, lefts: Sequence[_Left]) -> tuple[WhyNot, str] | None:
    """Why something must wait for the next day: the budget that has the least left for it."""
    cost = intent.cost
    short = [
        (left, each)
        for each in lefts
        if (left := each.bytes) is not None and not _fits(cost.bytes, left, each.budget.bytes or 0)
    ]
    if short:
        left, each = min(short, key=lambda pair: pair[0])
        told = f"waits, {size_text(cost.bytes)} of {size_text(left)} left of {each.bytes_text}"
        return WhyNot.OUT_OF_BYTES, told + _larger(intent, cost.bytes, each.budget.bytes)
    late = [
        (left, each)
        for each in lefts
        if (left := each.milliseconds) is not None
        and (left == 0 or not _fits(cost.milliseconds, left, each.budget.time or 0))
    ]
    if late:
        left, each = min(late, key=lambda pair: pair[0])
        needed = duration_text(cost.milliseconds)
        told = f"waits, {needed} of {duration_text(left)} left of {each.time_text}"
        return WhyNot.OUT_OF_TIME, told + _larger(intent, cost.milliseconds, each.budget.time)
    return None


def _fits(needed: int, left: int, limit: int) -> bool:
    return needed <= left or (needed > limit > 0 and 2 * left >= limit)


def _larger(intent: Intent, needed: int, limit: int | None) -> str:
    if not limit or needed <= limit:
        return ""
    if intent.verb == COMPACT:
        return "; it exceeds the daily budget; it runs in part once 25 % is free"
    return "; it exceeds the daily budget; it starts once 50 % is free: raise the budget"


def _order(intent: Intent) -> tuple[float, int, str, str]:
    """By score; of two with the highest, a verb on a schedule, which rewrites have held up.

    Then come rows that no reader sees, and then what no figure says a worth of.
    """
    first = _FIRST.index(intent.why) if intent.why in _FIRST else len(_FIRST)
    return (-intent.score, first, intent.table, intent.verb)
