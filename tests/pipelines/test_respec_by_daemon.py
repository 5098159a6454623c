"""A code location whose partition keys changed, as Dagster's pages and its daemon see it."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._daemon.backfill import execute_backfill_iteration
from dagster_graphql.test.utils import execute_dagster_graphql

from tests.pipelines.lake import Lake, loaded
from tests.pipelines.test_respec import KEY, declared, flights

# Dagster itself uses what it has deprecated.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Property `ScheduleDefinition.environment_vars` is deprecated",
    "ignore:Function `AssetSelection.sources` is deprecated",
    # It launches runs in an event loop, and the launcher of this test executes them there.
    "ignore:coroutine 'BaseEventLoop.shutdown_asyncgens' was never awaited:RuntimeWarning",
)

# A moment after all declared partitions; Dagster knows those that had begun by then.
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()
# Runs are executed where they are launched, and none waits in a queue.
AT_ONCE = {
    "run_launcher": {
        "module": "dagster._core.launcher.sync_in_memory_run_launcher",
        "class": "SyncInMemoryRunLauncher",
    },
    "run_coordinator": {
        "module": "dagster._core.run_coordinator",
        "class": "DefaultRunCoordinator",
    },
}
PAGE = """
query Page($key: AssetKeyInput!) {
  assetNodeOrError(assetKey: $key) {
    ... on AssetNode {
      partitionStats { numMaterialized numPartitions numFailed }
      assetMaterializations { partition }
      assetPartitionStatuses {
        ... on TimePartitionStatuses { ranges { status startKey endKey } }
        ... on DefaultPartitionStatuses { materializedPartitions }
      }
    }
  }
}
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    home, folder = tmp_path / "dagster", tmp_path / "lake"
    home.mkdir()
    folder.mkdir()
    with dg.DagsterInstance.local_temp(str(home), overrides=AT_ONCE) as instance:
        lake = Lake(folder, instance)
        lake.declare(declared("day"))
        lake.give([*flights("2024-01-01", 1, 2), *flights("2024-01-02", 1, 2)])
        lake.materialize(partitions=("2024-01-01", "2024-01-02"))
        yield lake
        lake.check_soundness()


def page(context: WorkspaceProcessContext) -> Any:
    """What the page of the asset asks for."""
    answer = execute_dagster_graphql(
        context.create_request_context(), PAGE, variables={"key": {"path": KEY.path}}
    )
    assert answer.errors is None, answer.errors
    return answer.data["assetNodeOrError"]


def carried_out(context: WorkspaceProcessContext, backfill: PartitionBackfill) -> None:
    """Let the daemon work on a backfill until it ends."""
    context.instance.add_backfill(backfill)
    for _ in range(10):
        errors = [each for each in execute_backfill_iteration(context, logging.getLogger()) if each]
        assert not errors
        current = context.instance.get_backfill(backfill.backfill_id)
        assert current is not None
        if current.status is BulkActionStatus.COMPLETED_SUCCESS:
            return
    raise AssertionError(current.status)


def of_asset(context: WorkspaceProcessContext, keys: Sequence[str]) -> PartitionBackfill:
    return PartitionBackfill.from_asset_partitions(
        backfill_id="ofasset",
        asset_graph=context.create_request_context().asset_graph,
        partition_names=list(keys),
        asset_selection=[KEY],
        backfill_timestamp=NOW,
        tags={},
        dynamic_partitions_store=context.instance,
        all_partitions=False,
        title=None,
        description=None,
        run_config=None,
    )


@pytest.mark.mission("PT1")
def test_the_page_of_the_asset_and_backfills_go_by_the_new_keys(lake: Lake) -> None:
    with loaded(lake) as context:
        assert page(context)["partitionStats"]["numMaterialized"] == 2
    lake.declare(declared("hour"))
    with loaded(lake) as context:
        # Reloaded before the change: former keys are none of the asset's.
        assert page(context)["partitionStats"]["numMaterialized"] == 0
        lake.run("respec", split_only=True, partitions=["2024-01-01"])
        assert lake.table().schema.partition_keys == ("dt",)
        ledger = lake.run("respec", dry_run=True)
        assert ledger.outputs["lakewright/files_to_split"] == 1
        lake.run("respec")
        shown = page(context)
        assert shown["partitionStats"] == {
            "numMaterialized": 4,
            "numPartitions": 96,
            "numFailed": 0,
        }
        ranges = shown["assetPartitionStatuses"]["ranges"]
        assert [(each["startKey"], each["endKey"]) for each in ranges] == [
            ("2024-01-01-01:00", "2024-01-01-02:00"),
            ("2024-01-02-01:00", "2024-01-02-02:00"),
        ]
        # The history has both.
        told = [each["partition"] for each in shown["assetMaterializations"]]
        assert {"2024-01-01", "2024-01-02", "2024-01-01-01:00"} <= set(told)
        lake.give(flights("2024-01-01", 1, 2, 3, first=70))
        hours = [f"2024-01-01-0{hour}:00" for hour in (1, 2, 3)]
        carried_out(context, of_asset(context, hours))
        assert page(context)["partitionStats"]["numMaterialized"] == 5
        assert sum(row["id"] >= 70 for row in lake.rows()) == 6
        assert len(lake.rows()) == 10


@pytest.mark.sampled(1)
@pytest.mark.parametrize("by", ["day and origin", "listed origin", "day, hour and origin"])
def test_the_page_of_the_asset_answers_between_the_reload_and_the_change(
    lake: Lake, by: str
) -> None:
    lake.declare(declared(by))
    with loaded(lake) as context:
        assert page(context)["partitionStats"]["numMaterialized"] == 0
        done = lake.run("respec")
        shown = page(context)["partitionStats"]
        assert (shown["numMaterialized"], shown["numFailed"]) == (len(done.materializations), 0)
