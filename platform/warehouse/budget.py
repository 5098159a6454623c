"""Chooses among the intents of all tables what is carried out now, within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakewright.platform.declare.upkeep_policies import Budget
from lakewright.platform.upkeep.words import duration_text, size_text
from lakewright.platform.warehouse.intents import Cost, Declined, Intent, Why, WhyNot
from lakewright.platform.warehouse.kept_verbs import COMPACT, waits_for

_FIRST = (Why.SCHEDULED, Why.ROWS_WAIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is carried out, the most useful first, and what must wait."""

    chosen: tuple[Intent, ...]
    declined: tuple[Declined, ...] = ()


def choose(
    intents: Sequence[Intent], budget: Budget, spent: Cost, *, day_ends_ms: int | None = None
) -> Choice:
    """Take intents by their score while the budget of the day lasts.

    On one table, an intent waits for those that are taken before it and would be in its way.

    Rows that no reader sees before a compaction are worth any budget. Deletions rewrite nothing, so
    only the budget of time applies to them.
    """
    chosen: list[Intent] = []
    declined: list[Declined] = []
    taken: dict[str, list[str]] = {}
    left_bytes = None if budget.bytes is None else budget.bytes - spent.bytes
    left_ms = None if budget.time is None else budget.time - spent.milliseconds
    untouched = not spent.bytes and not spent.milliseconds
    for given in sorted(intents, key=_order):
        intent, verbs = given, taken.setdefault(given.table, [])
        first = next((each for each in verbs if waits_for(intent.verb, each)), None)
        is_urgent = intent.why is Why.ROWS_WAIT
        if left_bytes is not None and _is_cut(intent, budget, left_bytes):
            # Whole buckets, those that wait longest first.
            intent = replace(
                intent,
                options={**intent.options, "max_bytes": left_bytes},
                cost=replace(intent.cost, bytes=left_bytes),
            )
        cost = intent.cost
        # Else what is larger than the budget of a day would never be done.
        is_first = untouched and not chosen and left_bytes != 0
        may_exceed = is_urgent or is_first
        if first is not None:
            told = f"waits for {first.replace('_', ' ')} of the same table"
            declined.append(intent.waiting(WhyNot.CAPPED, told))
            continue
        if left_bytes is not None and cost.bytes > max(left_bytes, 0) and not may_exceed:
            told = f"{size_text(cost.bytes)} of {size_text(max(left_bytes, 0))} left of the day's"
            declined.append(
                intent.waiting(WhyNot.OUT_OF_BYTES, f"waits, {told} budget", day_ends_ms)
            )
            continue
        is_late = left_ms is not None and (left_ms <= 0 or cost.milliseconds > left_ms)
        if is_late and not may_exceed:
            left = duration_text(max(left_ms or 0, 0))
            told = f"{duration_text(cost.milliseconds)} of {left} left of the day's"
            declined.append(
                intent.waiting(WhyNot.OUT_OF_TIME, f"waits, {told} budget", day_ends_ms)
            )
            continue
        verbs.append(intent.verb)
        chosen.append(intent)
        if left_bytes is not None:
            left_bytes -= cost.bytes
        if left_ms is not None:
            left_ms -= cost.milliseconds
    return Choice(chosen=tuple(chosen), declined=tuple(declined))


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


def _is_cut(intent: Intent, budget: Budget, left_bytes: int) -> bool:
    """Whether a compaction that no whole day covers gets what is left of this one.

    Of less than a quarter it waits for the next day: a run reads one bucket at least.
    """
    most = budget.bytes or 0
    return intent.verb == COMPACT and intent.cost.bytes > most and 0 < most <= 4 * left_bytes


def _order(intent: Intent) -> tuple[float, int, str, str]:
    """By score; of two with the highest, a verb on a schedule, which rewrites have held up.

    Then come rows that no reader sees, and then what no figure says a worth of.
    """
    first = _FIRST.index(intent.why) if intent.why in _FIRST else len(_FIRST)
    return (-intent.score, first, intent.table, intent.verb)
