"""Savings: what upkeep cost and gained, predicted and actual, summed by table, verb or day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import Enum

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.calibrate import PredictionError, prediction_error
from lakewright.platform.upkeep.measures import Benefit, Cost


class By(Enum):
    """What savings are summed by."""

    TABLE = "table"
    VERB = "verb"
    DAY = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The sums over some actions; what a shadow predicted is not in them.

    `runs` counts all of them: those `done`, those that `failed`, were `beaten`, or had nothing to
    do. The predicted sums are over actions with a prediction that were done.
    """

    key: str
    runs: int
    done: int
    failed: int
    beaten: int
    cost: Cost
    benefit: Benefit
    predicted_cost: Cost
    predicted_benefit: Benefit
    error: PredictionError


def savings(actions: Iterable[Action], by: By = By.TABLE) -> tuple[Saving, ...]:
    """The sums for each table, verb or day (UTC), in their order."""
    groups: dict[str, list[Action]] = defaultdict(list)
    for action in actions:
        if action.verdict is not Verdict.SHADOW:
            groups[_KEYS[by](action)].append(action)
    return tuple(total(found, key) for key, found in sorted(groups.items()))


def total(actions: Iterable[Action], key: str = "all") -> Saving:
    """The sums over all actions."""
    acted = [action for action in actions if action.verdict is not Verdict.SHADOW]
    done = [each for each in acted if each.verdict is Verdict.DONE]
    return Saving(
        key=key,
        runs=len(acted),
        done=len(done),
        failed=sum(each.verdict is Verdict.FAILED for each in acted),
        beaten=sum(each.verdict is Verdict.BEATEN for each in acted),
        cost=sum_of_costs(each.cost for each in acted),
        benefit=sum_of_benefits(each.benefit for each in acted),
        predicted_cost=sum_of_costs(each.predicted_cost for each in done if each.predicted_cost),
        predicted_benefit=sum_of_benefits(
            each.predicted_benefit for each in done if each.predicted_benefit
        ),
        error=prediction_error(done),
    )


def sum_of_costs(costs: Iterable[Cost]) -> Cost:
    """The sum, field by field."""
    return Cost(**_sums(Cost, costs))


def sum_of_benefits(benefits: Iterable[Benefit]) -> Benefit:
    """The sum, field by field."""
    return Benefit(**_sums(Benefit, benefits))


def _sums(kind: type[Cost | Benefit], values: Iterable[Cost | Benefit]) -> dict[str, int]:
    found = list(values)
    return {field.name: sum(getattr(one, field.name) for one in found) for field in fields(kind)}


def day_of(moment_ms: int) -> str:
    """The day of a moment in UTC."""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%d")


_KEYS: dict[By, Callable[[Action], str]] = {
    By.TABLE: lambda action: action.table,
    By.VERB: lambda action: action.verb,
    By.DAY: lambda action: day_of(action.started_ms),
}
