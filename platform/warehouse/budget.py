"""Chooses among the intents of all tables what is carried out now, within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.platform.declare.upkeep_policies import Budget
from lakewright.platform.upkeep.words import duration_text, size_text
from lakewright.platform.warehouse.intents import Cost, Declined, Intent, WhyNot


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is carried out, the most useful first, and what must wait."""

    chosen: tuple[Intent, ...]
    declined: tuple[Declined, ...] = ()


def choose(
    intents: Sequence[Intent], budget: Budget, spent: Cost, *, day_ends_ms: int | None = None
) -> Choice:
    """Take intents by their score while the budget of the day lasts, one for each table.

    Rows that no reader sees before a compaction are worth any budget. Deletions rewrite nothing, so
    only the budget of time applies to them.
    """
    chosen: list[Intent] = []
    declined: list[Declined] = []
    busy: dict[str, str] = {}
    left_bytes = None if budget.bytes is None else budget.bytes - spent.bytes
    left_ms = None if budget.time is None else budget.time - spent.milliseconds
    for intent in sorted(intents, key=lambda each: (-each.score, each.table, each.verb)):
        first = busy.get(intent.table)
        cost, is_urgent = intent.cost, intent.score == float("inf")
        if first is not None:
            told = f"waits for {first.replace('_', ' ')} of the same table"
            declined.append(_declined(intent, WhyNot.CAPPED, told))
            continue
        if left_bytes is not None and cost.bytes > max(left_bytes, 0) and not is_urgent:
            told = f"{size_text(cost.bytes)} of {size_text(max(left_bytes, 0))} left of the day's"
            declined.append(
                _declined(intent, WhyNot.OUT_OF_BYTES, f"waits, {told} budget", day_ends_ms)
            )
            continue
        if left_ms is not None and cost.milliseconds > max(left_ms, 0) and not is_urgent:
            left = duration_text(max(left_ms, 0))
            told = f"{duration_text(cost.milliseconds)} of {left} left of the day's"
            declined.append(
                _declined(intent, WhyNot.OUT_OF_TIME, f"waits, {told} budget", day_ends_ms)
            )
            continue
        busy[intent.table] = intent.verb
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


def _declined(intent: Intent, why_not: WhyNot, told: str, again_ms: int | None = None) -> Declined:
    return Declined(
        table=intent.table,
        verb=intent.verb,
        why_not=why_not,
        reason=f"{intent.reason}: {told}",
        again_ms=again_ms,
    )
