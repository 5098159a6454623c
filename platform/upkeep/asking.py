"""Decides whether the sensor requests a compaction of a table, and why.

It reads only metadata. It decides by partition, and requests a compaction only if a plan finds
work. A request that no run fulfilled is repeated later.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from lakewright.platform.declare.upkeep_policies import CompactionPolicy
from lakewright.platform.upkeep.compact import CompactOptions
from lakewright.platform.upkeep.decide import (
    Asked,
    Decision,
    Declined,
    Intent,
    asked_now,
    decide,
    intents,
    summarize,
)
from lakewright.platform.upkeep.health import read_health
from lakewright.platform.upkeep.verb import Outcome, Report
from lakewright.platform.upkeep.verbs import compaction_of
from lakewright.storage import Table
from lakewright.storage.errors import NotFoundError


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The earlier answers, kept as text in the sensor's cursor.

    `answer` holds for the state `seen` of table and policy until `look_again_ms`. `acted` has the
    last request of each partition.
    """

    table_uuid: str = ""
    seen: str = ""
    answer: str = ""
    look_again_ms: int | None = None
    acted: Mapping[str, Asked] = field(default_factory=dict)

    def to_cursor(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_cursor(cls, cursor: str | None) -> Memory:
        """The memory in a cursor; an unreadable cursor counts as empty."""
        try:
            found = json.loads(cursor or "")
            again = found["look_again_ms"]
            return cls(
                table_uuid=str(found["table_uuid"]),
                seen=str(found["seen"]),
                answer=str(found["answer"]),
                look_again_ms=None if again is None else int(again),
                acted={str(key): Asked(**asked) for key, asked in found["acted"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to compact these partitions, or a table without partitions.

    `key` identifies the state of the table, the partitions and the number of the attempt.
    """

    key: str
    snapshot_id: int | None
    partitions: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The request, or the reason for none, with the decisions that were made."""

    memory: Memory
    reason: str
    decisions: tuple[Decision, ...] = ()
    request: Request | None = None


def ask(
    table: Table,
    policy: CompactionPolicy,
    memory: Memory,
    *,
    in_flight: Callable[[], Sequence[str]],
    now_ms: int,
) -> Answer:
    """Decide on a request for a table; `in_flight` is called only if running work matters."""
    if memory.table_uuid != table.uuid:
        # A table that was dropped and created again has another history.
        memory = Memory(table_uuid=table.uuid)
    snapshot = table.history.latest_snapshot()
    seen = f"{None if snapshot is None else snapshot.id} {policy.model_dump_json()}"
    is_early = memory.look_again_ms is None or now_ms < memory.look_again_ms
    if memory.seen == seen and is_early:
        return Answer(memory=memory, reason=f"nothing was committed since: {memory.answer}")
    health = read_health(table)
    decisions = decide(health, policy, in_flight=in_flight(), acted=memory.acted, now_ms=now_ms)
    reason = summarize(decisions)
    wanted = intents(decisions)
    fingerprints = {each.key: each.fingerprint for each in health.partitions}
    # Forget requests of partitions that changed or were dropped.
    acted = {
        key: asked
        for key, asked in memory.acted.items()
        if fingerprints.get(key) == asked.fingerprint
    }
    kept = Memory(table_uuid=table.uuid, answer=reason, acted=acted)
    if not wanted:
        declined = [each for each in decisions if isinstance(each, Declined)]
        again = [each.again_ms for each in declined if each.again_ms is not None]
        if not any(each.waits for each in declined):
            # While a partition waits, the sensor looks at the same snapshot again.
            kept = replace(kept, seen=seen, look_again_ms=min(again, default=None))
        return Answer(memory=kept, reason=reason, decisions=decisions)
    acted |= {
        each.partition.key: asked_now(each.partition, acted.get(each.partition.key), now_ms)
        for each in wanted
    }
    try:
        plans = _planned(table, policy, wanted)
    except NotFoundError as error:
        # A partition was dropped just now; the next evaluation sees that.
        return Answer(memory=memory, reason=str(error), decisions=decisions)
    if all(plan.is_empty for plan in plans):
        found = [str(row["reason"]) for plan in plans for row in plan.tables.get("left alone", ())]
        why = "; ".join(dict.fromkeys(found))
        reason = f"{reason}; but a plan finds nothing to rewrite: {why}"
        for each in wanted:
            acted[each.partition.key] = replace(acted[each.partition.key], again_ms=None)
        again = [asked.again_ms for asked in acted.values() if asked.again_ms is not None]
        kept = replace(
            kept, seen=seen, answer=reason, look_again_ms=min(again, default=None), acted=acted
        )
        return Answer(memory=kept, reason=reason, decisions=decisions)
    return Answer(
        memory=replace(kept, acted=acted),
        reason=reason,
        decisions=decisions,
        request=_request(table, health.snapshot_id, wanted, acted),
    )


def _planned(table: Table, policy: CompactionPolicy, wanted: Sequence[Intent]) -> list[Report]:
    partitions = tuple(each.partition.spec for each in wanted if each.partition.spec)
    options = CompactOptions.declared(policy, partitions or None)
    return [
        verb.report(table, Outcome(options=options, plan=verb.plan(table, options)))
        for verb in compaction_of(table)
    ]


def _request(
    table: Table,
    snapshot_id: int | None,
    wanted: Sequence[Intent],
    acted: Mapping[str, Asked],
) -> Request:
    keys = tuple(each.partition.key for each in wanted)
    # One snapshot may get requests for other partitions, and repeated requests.
    asked = json.dumps([(key, acted[key].times) for key in keys])
    digest = hashlib.sha256(asked.encode()).hexdigest()[:12]
    return Request(
        # A recreated table begins at snapshot 1 again; its uuid distinguishes it.
        key=f"{table.uuid}@{snapshot_id} {digest}",
        snapshot_id=snapshot_id,
        partitions=keys if table.schema.partition_keys else None,
    )
