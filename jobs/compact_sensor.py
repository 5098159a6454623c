"""The compaction sensor: asks for a compaction of what is due, and tells why.

It reads metadata only. It decides partition by partition, and a plan, made from metadata too,
must find work before a run is asked for. What was asked for and not done is asked for again
later. There is one sensor a table, so that each has its own history of reasons, can be stopped by
itself, and hides no other when its table cannot be read.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import dagster as dg

from lakewright.jobs.compact import VERB
from lakewright.jobs.upkeep import SENSOR_TAG
from lakewright.platform.declare.declarations import CompactionPolicy, TableDeclaration
from lakewright.platform.orchestration.names import TableNames
from lakewright.platform.orchestration.reports import decision_table
from lakewright.platform.orchestration.resource_keys import ResourceKeys
from lakewright.platform.orchestration.resources import WarehouseResource
from lakewright.platform.orchestration.runs import work_in_flight
from lakewright.platform.upkeep.decide import (
    Asked,
    Declined,
    Intent,
    asked_now,
    decide,
    intents,
    summarize,
)
from lakewright.platform.upkeep.health import TableHealth, read_health
from lakewright.storage import CompactionPlan, Table
from lakewright.storage.env import SystemEnv
from lakewright.storage.spec.options import BucketMode


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorMemory:
    """What a sensor knows of its earlier answers; kept as its cursor.

    `seen` is the state of table and policy to which `answer` was given, which holds until
    `look_again_ms`; `acted` says of each partition what was asked for.
    """

    table_uuid: str = ""
    seen: str = ""
    answer: str = ""
    look_again_ms: int | None = None
    acted: Mapping[str, Asked] = field(default_factory=dict)

    def to_cursor(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_cursor(cls, cursor: str | None) -> "SensorMemory":
        """The memory in a cursor; a cursor somebody wrote by hand counts as none."""
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


def build_compact_sensor(
    declaration: TableDeclaration,
    job: dg.JobDefinition,
    *,
    resources: ResourceKeys | None = None,
) -> dg.SensorDefinition:
    """The sensor that asks for compactions of the table."""
    keys = resources or ResourceKeys()
    names = TableNames(declaration.table)
    policy = declaration.maintenance.compaction
    status = dg.DefaultSensorStatus.RUNNING if policy.enabled else dg.DefaultSensorStatus.STOPPED

    @dg.sensor(
        name=names.sensor(VERB),
        job=job,
        minimum_interval_seconds=max(policy.interval // 1000, 1),
        default_status=status,
        required_resource_keys={keys.warehouse},
        description=(
            f"Asks for a compaction where a bucket of {declaration.table} has at least "
            f"{policy.small_files} small files or sorted runs, or rows that no reader sees before."
        ),
    )
    def compact_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        warehouse: WarehouseResource = getattr(context.resources, keys.warehouse)
        catalog = warehouse.catalog()
        if not catalog.table_exists(declaration.table):
            reason = f"table {declaration.table} does not exist yet"
            return dg.SensorResult(skip_reason=reason)
        table = catalog.table(declaration.table)
        return _evaluate(table, policy, names, context)

    return compact_sensor


def _evaluate(
    table: Table, policy: CompactionPolicy, names: TableNames, context: dg.SensorEvaluationContext
) -> dg.SensorResult:
    memory = SensorMemory.from_cursor(context.cursor)
    if memory.table_uuid != table.uuid:
        # A table that was dropped and created again has another history.
        memory = SensorMemory(table_uuid=table.uuid)
    snapshot = table.latest_snapshot()
    seen = f"{None if snapshot is None else snapshot.id} {policy.model_dump_json()}"
    now_ms = SystemEnv().now_ms()
    is_early = memory.look_again_ms is None or now_ms < memory.look_again_ms
    if memory.seen == seen and is_early:
        return dg.SensorResult(
            skip_reason=f"nothing was committed since: {memory.answer}", cursor=context.cursor
        )
    health = read_health(table)
    in_flight = work_in_flight(context.instance, names)
    decisions = decide(health, policy, in_flight=in_flight, acted=memory.acted, now_ms=now_ms)
    answer = summarize(decisions)
    context.log.info("%s", decision_table(decisions))
    wanted = intents(decisions)
    fingerprints = {each.key: each.fingerprint for each in health.partitions}
    # What has changed since, or is gone, need not be remembered.
    acted = {
        key: asked
        for key, asked in memory.acted.items()
        if fingerprints.get(key) == asked.fingerprint
    }
    kept = SensorMemory(table_uuid=table.uuid, answer=answer, acted=acted)
    if not wanted:
        declined = [each for each in decisions if isinstance(each, Declined)]
        again = [each.again_ms for each in declined if each.again_ms is not None]
        if not any(each.waits for each in declined):
            # While something waits, the same snapshot is looked at again.
            kept = replace(kept, seen=seen, look_again_ms=min(again, default=None))
        return dg.SensorResult(skip_reason=answer, cursor=kept.to_cursor())
    acted |= {
        each.partition.key: asked_now(each.partition, acted.get(each.partition.key), now_ms)
        for each in wanted
    }
    planned = _planned(table, policy, wanted)
    if not planned.tasks and not _waiting_rows(table, wanted):
        reason = "; ".join(dict.fromkeys(each.reason for each in planned.skipped))
        answer = f"{answer}; but a plan finds nothing to rewrite: {reason}"
        for each in wanted:
            acted[each.partition.key] = replace(acted[each.partition.key], again_ms=None)
        again = [asked.again_ms for asked in acted.values() if asked.again_ms is not None]
        kept = replace(
            kept, seen=seen, answer=answer, look_again_ms=min(again, default=None), acted=acted
        )
        return dg.SensorResult(skip_reason=answer, cursor=kept.to_cursor())
    kept = replace(kept, acted=acted)
    return dg.SensorResult(
        run_requests=[_request(table, health, wanted, acted, names)], cursor=kept.to_cursor()
    )


def _planned(table: Table, policy: CompactionPolicy, wanted: Sequence[Intent]) -> CompactionPlan:
    partitions = [each.partition.spec for each in wanted if each.partition.spec]
    return table.plan_compact(partitions or None, full=policy.full, min_file_num=policy.small_files)


def _waiting_rows(table: Table, wanted: Sequence[Intent]) -> int:
    """Rows of the partitions that readers do not see before they get a bucket."""
    if table.options.bucket_mode is not BucketMode.POSTPONE:
        return 0
    partitions = [each.partition.spec for each in wanted if each.partition.spec]
    return table.plan_postpone_compact(partitions or None).rows


def _request(
    table: Table,
    health: TableHealth,
    wanted: Sequence[Intent],
    acted: Mapping[str, Asked],
    names: TableNames,
) -> dg.RunRequest:
    config: dict[str, Any] = {}
    keys = [each.partition.key for each in wanted]
    if table.schema.partition_keys:
        config["partitions"] = keys
    # Of one snapshot other partitions may be asked for, and the same once more.
    asked = json.dumps([(key, acted[key].times) for key in keys])
    digest = hashlib.sha256(asked.encode()).hexdigest()[:12]
    return dg.RunRequest(
        # A table that was created again begins at snapshot 1 again; its uuid tells it apart.
        run_key=f"{table.uuid}@{health.snapshot_id} {digest}",
        run_config={"ops": {names.job(VERB): {"config": config}}},
        tags={**names.tags(VERB), SENSOR_TAG: str(health.snapshot_id)},
    )
