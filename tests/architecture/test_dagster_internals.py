"""Names that Dagster does not publish: each that is used, and why nothing public serves."""

from __future__ import annotations

import re

import dagster

from tests.architecture.sources import references

_LAUNCHER = "a launcher of runs has no other base, and Dagster names it in dagster.yaml"
_FORGETTING = "the public call that wipes partitions is not implemented by open-source stores"
_EVENT_LOG = "a store of events has no other base, and Dagster names it in dagster.yaml"
_CHECKS = "no public call tells evaluations from those that a run has only planned"
_BACKFILLS = "no public call lists backfills by their state"
_CRON = "the moments of a schedule as the daemon computes them"
_LOADING = "whether a code server or the process of a run loads the definitions"
_JOB = "the type of what the public `define_asset_job` returns"
_RELOAD = "no public call lets the server of a code location load it again"

_VERSION = "no public call gives an event a data version, or says which one was read"

_RECORD = "dagster._core.storage.asset_check_execution_record"

WHY = {
    "dagster._check.CheckError": "what the public FreshnessPolicy raises",
    "dagster._cli.api._execute_run_command_body": _LAUNCHER,
    "dagster._config.UserConfigSchema": _LAUNCHER,
    "dagster._core.definitions.data_version.DATA_VERSION_TAG": _VERSION,
    "dagster._core.definitions.data_version.get_input_data_version_tag": _VERSION,
    "dagster._core.definitions.definitions_load_context.DefinitionsLoadContext": _LOADING,
    "dagster._core.definitions.definitions_load_context.DefinitionsLoadType": _LOADING,
    "dagster._core.definitions.unresolved_asset_job_definition.UnresolvedAssetJobDefinition": _JOB,
    "dagster._core.errors.DagsterLaunchFailedError": _LAUNCHER,
    "dagster._core.errors.DagsterUserCodeUnreachableError": _RELOAD,
    "dagster._core.events.ASSET_EVENTS": _EVENT_LOG,
    "dagster._core.events.AssetMaterializationPlannedData": "a run plans partitions as it goes",
    "dagster._core.events.DagsterEventBatchMetadata": "events of many partitions in one write",
    "dagster._core.events.generate_event_batch_id": "events of many partitions in one write",
    "dagster._core.execution.backfill.BulkActionStatus": _BACKFILLS,
    "dagster._core.execution.backfill.BulkActionsFilter": _BACKFILLS,
    "dagster._core.instance.InstanceRef": _LAUNCHER,
    "dagster._core.launcher.base.CheckRunHealthResult": _LAUNCHER,
    "dagster._core.launcher.base.LaunchRunContext": _LAUNCHER,
    "dagster._core.launcher.base.WorkerStatus": _LAUNCHER,
    "dagster._core.remote_origin.CodeLocationOrigin": _RELOAD,
    "dagster._core.remote_origin.GrpcServerCodeLocationOrigin": _RELOAD,
    f"{_RECORD}.COMPLETED_ASSET_CHECK_EXECUTION_RECORD_STATUSES": _CHECKS,
    f"{_RECORD}.AssetCheckExecutionRecord": _CHECKS,
    f"{_RECORD}.AssetCheckExecutionRecordStatus": _CHECKS,
    "dagster._core.storage.defs_state.base.set_defs_state_storage": (
        "a component's state must be found by the process of a run, too"
    ),
    "dagster._core.storage.event_log.SqliteEventLogStorage": _EVENT_LOG,
    "dagster._core.storage.event_log.SqlEventLogStorage": _FORGETTING,
    "dagster._core.storage.event_log.SqlEventLogStorageTable": _FORGETTING,
    "dagster._serdes.ConfigurableClassData": _LAUNCHER,
    "dagster._utils.interrupts.capture_interrupts": _LAUNCHER,
    "dagster._utils.schedules.cron_string_iterator": _CRON,
    "dagster._utils.schedules.get_smallest_cron_interval": _CRON,
}


def test_each_private_name_of_dagster_that_is_used_is_listed_with_its_reason() -> None:
    used = [each for each in references() if re.match(r"dagster\.(\w+\.)*_", each.name)]
    listed = {each: [name for name in WHY if each.is_within(name)] for each in used}
    assert not [each for each, names in listed.items() if not names]
    assert {name for names in listed.values() for name in names} == WHY.keys()


def test_nothing_is_listed_that_dagster_publishes() -> None:
    assert not [name for name in WHY if hasattr(dagster, name.rpartition(".")[2])]
