"""Rolls a table back, also to a snapshot that has other partition keys.

The table first gets the keys of the target, so that its schema and its latest snapshot agree for
every reader at every moment. Then the later snapshots go.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from lakewright.storage.errors import InvalidRequestError, NotFoundError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.bridged_base import put_fence_schema
from lakewright.storage.operations.references.rollback import (
    RollbackOptions,
    RollbackPlan,
    RollbackResult,
    check_rollback,
    plan_rollback,
    run_rollback,
)
from lakewright.storage.operations.respec.respec import RespecOptions, plan_respec, run_respec
from lakewright.storage.operations.running.engine import LocalEngine
from lakewright.storage.operations.state.table_state import ANY_KEYS, latest_state
from lakewright.storage.operations.state.time_travel import choose_snapshot


def roll_back(files: TableFiles, plan: RollbackPlan) -> RollbackResult:
    """Carry a plan out.

    Raises:
        StalePlan: a new plan is another one; see `references.rollback`.
        UnsupportedError: the target has other partition keys, and pending batches or consumers
            know the table by the present ones.
    """
    tag = plan.restored_tag
    snapshot = None if tag else plan.target_id
    try:
        target = choose_snapshot(files, snapshot_id=snapshot, tag=tag)
    except (InvalidRequestError, NotFoundError):
        # The run tells what is wrong with the plan.
        return run_rollback(files, plan)
    now = files.at_schema(files.schemas.latest_id(table=files.name))
    if latest_state(now, lambda state: state.is_bridged, takes=ANY_KEYS).is_bridged:
        # The process that changes the keys would create its schema over the target's files.
        now = put_fence_schema(now)
    keys, primary_key = now.schema.partition_keys, now.schema.primary_keys
    if target is not None:
        schema = files.at_schema(target.schema_id).schema
        keys, primary_key = schema.partition_keys, schema.primary_keys
    if keys == now.schema.partition_keys:
        return run_rollback(files, plan)
    check_rollback(files, plan)
    engine = LocalEngine(env=files.env)
    respec = plan_respec(
        now,
        RespecOptions(
            keys,
            max_partitions=sys.maxsize,
            max_files=sys.maxsize,
            primary_key=primary_key or None,
        ),
        engine=engine,
    )
    now = now.at_schema(run_respec(now, respec, engine).schema.id)
    again = plan_rollback(now, RollbackOptions(snapshot, tag, grace_ms=plan.grace_ms))
    return _without_own(run_rollback(now, again), again, plan)


def _without_own(
    result: RollbackResult, again: RollbackPlan, planned: RollbackPlan
) -> RollbackResult:
    """The result without the snapshots that changed the keys on the way, and their files."""
    known = {file.path for file in planned.files}
    own = [file for file in again.files if file.path not in known]
    size = sum(each.size_bytes for each in own)
    return replace(
        result,
        files_condemned=max(result.files_condemned - len(own), 0),
        bytes_condemned=max(result.bytes_condemned - size, 0),
        snapshots_deleted=result.snapshots_deleted
        - sum(snapshot_id > planned.latest_id for snapshot_id in again.snapshot_ids),
        files_deleted=max(result.files_deleted - len(own), 0),
        bytes_deleted=max(result.bytes_deleted - size, 0),
    )
