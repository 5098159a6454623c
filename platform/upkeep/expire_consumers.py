"""Expiry of consumers as a verb: a reader that is gone for good holds no snapshot any more."""

from __future__ import annotations

from dataclasses import asdict

from lakewright.platform.upkeep.procedure import Command, Outcome, Procedure, Report
from lakewright.platform.upkeep.words import named, time_text
from lakewright.storage import Table
from lakewright.storage.history import History
from lakewright.storage.operations.references.consumers import (
    ExpireConsumersOptions,
    ExpireConsumersPlan,
    ExpireConsumersResult,
)


def _report(
    _: Table, done: Outcome[ExpireConsumersOptions, ExpireConsumersPlan, ExpireConsumersResult]
) -> Report:
    plan, result = done.plan, done.result
    names = [consumer.name for consumer in plan.consumers] if result is None else result.consumers
    what = f"{named('consumer', names)} of {plan.table}"
    summary = f"{what} {'to go' if result is None else 'deleted'}"
    return Report(
        summary=summary if names else f"no consumer of {plan.table} to expire",
        facts={"consumers": list(names)},
        record={"consumers": [asdict(consumer) for consumer in plan.consumers]}
        if result is None
        else None,
        tables={
            "plan": [
                {
                    "consumer": consumer.name,
                    "next snapshot": consumer.next_snapshot_id,
                    "moved": time_text(consumer.modified_ms),
                }
                for consumer in plan.consumers
            ]
        }
        if result is None
        else {},
        is_empty=not names,
    )


EXPIRE_CONSUMERS = Procedure(
    verb=History.expire_consumers,
    options=ExpireConsumersOptions,
    report=_report,
    command=Command(
        purpose="References",
        examples="lakewright expire-consumers nyc.flights --older-than 30d --dry-run",
    ),
)
