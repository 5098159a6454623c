"""An action: one verb carried out on one table, as the ledger keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from lakewright.platform.warehouse.intents import Benefit, Cost


class Verdict(Enum):
    """How an action ended; a shadow was decided and predicted, and never carried out."""

    DONE = "done"
    NOTHING_TO_DO = "nothing_to_do"
    BEATEN = "beaten"
    FAILED = "failed"
    SHADOW = "shadow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One verb on one table: what was predicted, and what came of it.

    `run` is the process's name for its work: a Dagster run, or a command. `quarantine` and the
    snapshots before and after say what an undo can go by. Times are milliseconds of the epoch.
    """

    id: str
    run: str
    table: str
    table_uuid: str
    verb: str
    started_ms: int
    ended_ms: int
    verdict: Verdict
    reason: str = ""
    summary: str = ""
    error: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    snapshot_before: int | None = None
    snapshot_after: int | None = None
    predicted_cost: Cost | None = None
    predicted_benefit: Benefit | None = None
    cost: Cost = Cost()
    benefit: Benefit = Benefit()
    quarantines: tuple[str, ...] = ()
