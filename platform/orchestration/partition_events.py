"""Events of many partitions of an asset in one run of a job that is not the asset's own.

Dagster says of a partition that it is being written, or that its write failed, by an event that it
makes itself only for runs of assets over one range of partitions. Events that come in one batch are
written in few transactions, where `DAGSTER_EVENT_BATCH_SIZE` is set.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import dagster as dg
from dagster._core.events import (
    AssetMaterializationPlannedData,
    DagsterEventBatchMetadata,
    generate_event_batch_id,
)
from dagster._core.storage.event_log import SqlEventLogStorage, SqlEventLogStorageTable

# The events by which Dagster knows the state of a partition.
_OF_PARTITIONS = (
    dg.DagsterEventType.ASSET_MATERIALIZATION,
    dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
    dg.DagsterEventType.ASSET_FAILED_TO_MATERIALIZE,
)
# Fewer than SQLite takes values in one statement.
_AT_ONCE = 500


def tell_begun(context: dg.OpExecutionContext, asset_key: dg.AssetKey, keys: Sequence[str]) -> None:
    """Partitions that the run is going to write: on their page in progress, failed if it fails."""
    batch = generate_event_batch_id()  # type: ignore[no-untyped-call]  # Dagster's
    step = context.get_step_execution_context().step
    for at, key in enumerate(keys, 1):
        context.instance.report_dagster_event(
            dg.DagsterEvent.build_asset_materialization_planned_event(
                context.job_name, step.key, AssetMaterializationPlannedData(asset_key, key)
            ),
            context.run_id,
            logging.DEBUG,
            batch_metadata=DagsterEventBatchMetadata(batch, at == len(keys)),
        )


def tell_written(
    context: dg.OpExecutionContext, written: Sequence[dg.AssetMaterialization]
) -> None:
    """Partitions that are published; the events stand even if the step fails afterwards."""
    batch = generate_event_batch_id()  # type: ignore[no-untyped-call]  # Dagster's
    step = context.get_step_execution_context()
    for at, each in enumerate(written, 1):
        last = DagsterEventBatchMetadata(batch, at == len(written))
        dg.DagsterEvent.asset_materialization(step, each, last)


def forget_partitions(
    instance: dg.DagsterInstance, asset_key: dg.AssetKey, keys: Sequence[str]
) -> bool:
    """Make partitions count as never materialized; whether this log of events can.

    Their events stay on the pages of the asset and of the runs. Dagster's own call that wipes
    partitions is not implemented by its open-source stores.
    """
    log = instance.event_log_storage
    if not isinstance(log, SqlEventLogStorage):
        return False
    events, told = SqlEventLogStorageTable, [each.value for each in _OF_PARTITIONS]
    with log.index_connection() as connection:
        for at in range(0, len(keys), _AT_ONCE):
            connection.execute(
                events.update()
                .where(events.c.asset_key == asset_key.to_string())
                .where(events.c.dagster_event_type.in_(told))
                .where(events.c.partition.in_(keys[at : at + _AT_ONCE]))
                .values(partition=None)
            )
    instance.wipe_asset_cached_status([asset_key])
    return True
