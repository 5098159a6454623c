"""Expiry of consumers as a verb: a reader that is gone for good holds no snapshot any more."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lakewright.platform.upkeep.effects import Effect
from lakewright.platform.upkeep.options import DURATION, option
from lakewright.platform.upkeep.verb import Command, Outcome, Report, Verb
from lakewright.platform.upkeep.words import named, time_text
from lakewright.storage import Table
from lakewright.storage.operations.references.consumers import (
    ExpireConsumersPlan,
    ExpireConsumersResult,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireConsumersOptions:
    """Which consumers go; the table's options say the rest."""

    older_than_ms: int | None = option(
        DURATION,
        None,
        "Delete consumers that have not moved for that long: 12h, 90d (default: the table's "
        "consumer.expiration-time).",
    )


def _report(
    _: Table, done: Outcome[ExpireConsumersOptions, ExpireConsumersPlan, ExpireConsumersResult]
) -> Report:
    plan, result = done.plan, done.result
    names = [each.name for each in plan.consumers] if result is None else result.consumers
    what = f"{named('consumer', names)} of {plan.table}"
    summary = f"{what} {'to go' if result is None else 'deleted'}"
    return Report(
        summary=summary if names else f"no consumer of {plan.table} to expire",
        facts={"consumers": list(names)},
        record={"consumers": [asdict(each) for each in plan.consumers]} if result is None else None,
        tables={
            "plan": [
                {
                    "consumer": each.name,
                    "next snapshot": each.next_snapshot_id,
                    "moved": time_text(each.modified_ms),
                }
                for each in plan.consumers
            ]
        }
        if result is None
        else {},
        is_empty=not names,
    )


EXPIRE_CONSUMERS = Verb(
    name="expire_consumers",
    summary="forget readers of changes that have not moved for long",
    effect=Effect.EXPIRES,
    not_undone="a consumer is set again with `lakewright consumer set`",
    command=Command(
        purpose="References",
        examples="lakewright expire-consumers nyc.flights --older-than 30d --dry-run",
    ),
    options=ExpireConsumersOptions,
    plan_type=ExpireConsumersPlan,
    plan=lambda table, options: table.history.plan_expire_consumers(age_ms=options.older_than_ms),
    run=lambda table, plan, options, work: table.history.run(plan),
    report=_report,
)
