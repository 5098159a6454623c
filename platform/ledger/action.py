"""An action: one verb carried out on one table, as the ledger keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from lakewright.platform.upkeep.measures import Benefit, Cost


class Verdict(Enum):
    """How an action ended.

    It is beaten if the work of other processes was in its way. A shadow was decided and predicted,
    and never carried out.
    """

    DONE = "done"
    NOTHING_TO_DO = "nothing_to_do"
    BEATEN = "beaten"
    FAILED = "failed"
    SHADOW = "shadow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One verb on one table: what was predicted, and what came of it.

    `run` is the process's name for its work: a Dagster run, or a command. The snapshots before and
    after are the latest ones then, of whichever writer; `snapshots` are those that the verb
    committed. With `condemned`, the records of what it deleted, they say what an undo can go by.
    `state` is that of the table from which the action was decided, and `policy` the digest of the
    section of the policy that asked for it; both are empty if a person did. Times are milliseconds
    of the epoch.
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
    cost: Cost = field(default_factory=Cost)
    benefit: Benefit = field(default_factory=Benefit)
    condemned: tuple[str, ...] = ()
    snapshots: tuple[int, ...] = ()
    state: str = ""
    policy: str = ""
