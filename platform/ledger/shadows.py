"""Shadows: intents that are recorded with their predictions, and never carried out."""

from __future__ import annotations

from collections.abc import Sequence

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.intents import Intent
from lakewright.platform.ledger.ledger import Ledger

_WEEK_MS = 7 * 86_400_000


def record_shadows(
    ledger: Ledger, intents: Sequence[Intent], *, run: str, now_ms: int
) -> tuple[Action, ...]:
    """Record each intent once for each state of its table, in one commit.

    Raises:
        StorageError: the ledger cannot be read or written.
    """
    if not intents:
        return ()
    known = {
        (action.table, action.verb, action.state)
        for action in ledger.actions(since_ms=max(now_ms - _WEEK_MS, 0))
        if action.verdict is Verdict.SHADOW
    }
    made = tuple(
        Action(
            id=ledger.catalog.env.new_id(),
            run=run,
            table=intent.table,
            table_uuid=intent.table_uuid,
            verb=intent.verb,
            started_ms=now_ms,
            ended_ms=now_ms,
            verdict=Verdict.SHADOW,
            reason=intent.reason,
            options={} if intent.partitions is None else {"partitions": list(intent.partitions)},
            predicted_cost=intent.cost,
            predicted_benefit=intent.benefit,
            state=intent.state,
        )
        for intent in intents
        if (intent.table, intent.verb, intent.state) not in known
    )
    ledger.record(made)
    return made
