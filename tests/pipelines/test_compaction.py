"""Compaction: the sensor asks once for each state, and the run does what was asked."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.test_utils import create_run_for_test

from lakewright.jobs.upkeep import build_upkeep_job
from lakewright.jobs.verbs import KEEPING_VERBS
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.orchestration.names import TableNames, UpkeepNames
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.platform.upkeep.measures import Measures
from lakewright.platform.upkeep.procedure import AnyProcedure
from tests.pipelines.lake import EVENTS, Lake, Outcome, events


@pytest.fixture
def fragmented(lake: Lake) -> Lake:
    """Three small files on the second, one on the first; a bucket is due from three."""
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 3) + events("2024-01-02", 3, 5))
    lake.materialize(partitions=("2024-01-01", "2024-01-02"))
    lake.write_small_files("2024-01-02", 2)
    return lake


def test_a_table_that_does_not_exist_yet_is_no_failure(lake: Lake) -> None:
    lake.declare(EVENTS)
    answer = lake.tick()
    assert not answer.run_requests
    assert answer.skip_message == "looked at 0 tables: nothing is due"
    lake.run("expire_snapshots")


def test_the_sensor_asks_for_the_partitions_that_are_due_and_says_why(fragmented: Lake) -> None:
    answer = fragmented.tick()

    (request,) = answer.run_requests
    assert request.job_name == "upkeep"
    config = request.run_config["ops"]["upkeep"]["config"]["verb"]["compact"]
    asked = config["tables"]["shop.events"]
    # With what the policy says of it now.
    assert (asked["partitions"], asked["min_files"]) == (["2024-01-02"], 3)
    assert request.tags["lakewright/table"] == "shop.events"
    said = config["asked"]["shop.events"]
    assert said["reason"] == "partition dt=2024-01-02: 3 small files ≥ 3: compact"
    assert said["predicted"]["files"] == 3
    assert {"files_fewer", "bytes_fewer"} < said["predicted"].keys()
    assert said["predicted"]["files_fewer"] == 2


def test_the_ledger_has_what_the_sensor_predicted(fragmented: Lake) -> None:
    (request,) = fragmented.tick().run_requests
    said = request.run_config["ops"]["upkeep"]["config"]["verb"]["compact"]["asked"]["shop.events"]
    fragmented.request(request)
    (action,) = Ledger(fragmented.catalog).actions(verb="compact")
    predicted = Measures.predicted(said["predicted"])
    assert (action.predicted_cost, action.predicted_benefit) == (predicted.cost, predicted.benefit)
    assert action.benefit.files_fewer == 2


def test_the_sensor_asks_under_one_key_until_a_run_of_it_has_ended(fragmented: Lake) -> None:
    """Dagster launches a key once, so a tick that is lost or evaluated twice does no harm."""
    (first,) = fragmented.tick().run_requests
    (again,) = fragmented.tick().run_requests
    assert again.run_key == first.run_key
    fragmented.cursors.clear()
    (anew,) = fragmented.tick().run_requests
    assert anew.run_key == first.run_key


def test_runs_that_came_to_nothing_are_asked_for_again_later(fragmented: Lake) -> None:
    # The first one did not fail at its work: no step of it did.
    for _ in range(2):
        (request,) = fragmented.tick().run_requests
        create_run_for_test(
            fragmented.instance,
            job_name="upkeep",
            status=dg.DagsterRunStatus.FAILURE,
            run_config=dict(request.run_config),
            tags=request.tags,
        )
    answer = fragmented.tick()
    assert not answer.run_requests
    assert "was asked for already in this state, and is again from" in answer.skip_message
    fragmented.write_small_files("2024-01-02", 1)
    (other,) = fragmented.tick().run_requests
    assert other.run_key != request.run_key


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "status",
    [
        dg.DagsterRunStatus.QUEUED,
        dg.DagsterRunStatus.STARTING,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.CANCELING,
    ],
)
def test_nothing_is_asked_for_while_a_run_of_the_table_is_in_flight(
    fragmented: Lake, status: dg.DagsterRunStatus
) -> None:
    run = create_run_for_test(
        fragmented.instance,
        job_name="__anonymous_asset_job_ingest_schedule__shop__events",
        status=status,
        tags=TableNames("shop.events").tags("ingest"),
        # A run can only be queued when it is known where it would run.
        remote_job_origin=RemoteJobOrigin(
            RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("here"), "__repository__"),
            "__anonymous_asset_job_ingest_schedule__shop__events",
        ),
    )
    answer = fragmented.tick()
    assert not answer.run_requests
    assert f"waits for run {run.run_id[:8]} of the asset" in answer.skip_message

    fragmented.instance.delete_run(run.run_id)
    assert len(fragmented.tick().run_requests) == 1


def test_an_asset_materialized_from_the_ui_is_in_flight_too(fragmented: Lake) -> None:
    create_run_for_test(
        fragmented.instance,
        job_name="__ASSET_JOB",
        status=dg.DagsterRunStatus.STARTED,
        asset_selection=frozenset({dg.AssetKey(["shop", "events"])}),
    )
    answer = fragmented.tick()
    assert not answer.run_requests
    assert "of the asset (started)" in answer.skip_message


def test_a_backfill_that_has_no_runs_yet_is_in_flight_too(fragmented: Lake) -> None:
    fragmented.instance.add_backfill(
        PartitionBackfill(
            backfill_id="fillings",
            status=BulkActionStatus.REQUESTED,
            from_failure=False,
            tags={},
            backfill_timestamp=time.time(),
            asset_selection=[dg.AssetKey(["shop", "events"])],
        )
    )
    answer = fragmented.tick()
    assert not answer.run_requests
    assert "waits for backfill fillings" in answer.skip_message


def test_a_run_of_another_table_is_no_obstacle(fragmented: Lake) -> None:
    create_run_for_test(
        fragmented.instance,
        job_name="__ASSET_JOB",
        status=dg.DagsterRunStatus.STARTED,
        tags={"lakewright/table": "shop.products"},
        asset_selection=frozenset({dg.AssetKey(["shop", "products"])}),
    )
    assert len(fragmented.tick().run_requests) == 1


def test_the_run_leaves_fewer_files_and_the_same_rows(fragmented: Lake) -> None:
    before = fragmented.rows()
    (request,) = fragmented.tick().run_requests

    outcome = fragmented.request(request)

    assert fragmented.rows() == before
    assert [stats.file_count for stats in fragmented.table().at().partitions()] == [1, 1]
    told = outcome.observations[None]
    assert (told["lakewright/files_before"], told["lakewright/files_after"]) == (3, 1)
    assert told["lakewright/bytes_before"] > told["lakewright/bytes_after"]
    assert told["lakewright/rows_before"] == told["lakewright/rows_after"] == 4
    assert outcome.observations["2024-01-02"]["lakewright/files_after"] == 1
    assert "2024-01-01" not in outcome.observations


def test_the_events_of_a_run_tell_of_its_own_snapshot_although_others_commit_after_it(
    fragmented: Lake,
) -> None:
    kind, other = (e for e in KEEPING_VERBS if e.name in ("compact", "sort_compact"))

    def overtaken(verb: AnyProcedure) -> AnyProcedure:
        def run(*given: Any) -> Any:
            result = verb.carried_out(*given)
            fragmented.write_small_files("2024-01-02", 1)
            return result

        return replace(verb, run=run)

    racing = replace(kind, verbs=lambda *given: [overtaken(each) for each in kind.verbs(*given)])
    tables = KeptTables(files=PolicyFiles([]), adopted=("shop.*",))
    made = dg.Definitions(
        jobs=[build_upkeep_job([racing, other], tables)], resources=fragmented.definitions.resources
    )
    config = {"tables": {"shop.events": {"min_files": 3}}}
    outcome = Outcome(
        made.resolve_job_def("upkeep").execute_in_process(
            instance=fragmented.instance, run_config=UpkeepNames().run_config("compact", config)
        )
    )

    assert outcome.success, outcome.failure
    assert len(fragmented.table().at().files()) == 3
    whole, day = outcome.observations[None], outcome.observations["2024-01-02"]
    assert (whole["lakewright/files_after"], day["lakewright/files_after"]) == (1, 1)
    assert (whole["dagster/row_count"], len(fragmented.rows())) == (7, 8)


def test_after_the_run_the_sensor_is_content(fragmented: Lake) -> None:
    (request,) = fragmented.tick().run_requests
    fragmented.request(request)

    answer = fragmented.tick()

    assert not answer.run_requests
    assert answer.skip_message == "looked at 1 table: nothing is due"


def test_a_run_that_comes_too_late_finds_nothing_to_do(fragmented: Lake) -> None:
    (request,) = fragmented.tick().run_requests
    fragmented.request(request)
    snapshots = len(fragmented.table().history.snapshots())

    outcome = fragmented.request(request)

    assert not outcome.observations
    assert len(fragmented.table().history.snapshots()) == snapshots


def test_a_dry_run_tells_the_plan_and_changes_nothing(fragmented: Lake) -> None:
    snapshots = len(fragmented.table().history.snapshots())

    outcome = fragmented.run("compact", dry_run=True)

    assert outcome.outputs["lakewright/files_before"] == 3
    (task,) = [record.data for record in outcome.outputs["plan"].records]
    assert task["partition"] == "dt=2024-01-02"
    assert task["reason"] == "3 small files of 3 become 1"
    assert not outcome.observations
    assert len(fragmented.table().history.snapshots()) == snapshots


def test_a_full_compaction_takes_partitions_that_are_not_due(fragmented: Lake) -> None:
    fragmented.write_small_files("2024-01-01", 1)

    outcome = fragmented.run("compact", partitions=["2024-01-01"], full=True)

    assert outcome.observations[None]["lakewright/files_before"] == 2
    assert [stats.file_count for stats in fragmented.table().at().partitions()] == [1, 3]


def test_a_run_says_how_much_is_proved_instead_of_the_policy(fragmented: Lake) -> None:
    fragmented.run("compact", verify="full")


@pytest.mark.parametrize("setting", [{"engine": "sprak"}, {"verify": "x"}])
def test_a_setting_that_is_no_choice_is_refused_at_launch(
    fragmented: Lake, setting: dict[str, str]
) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match="not in enum type"):
        fragmented.run("compact", **setting)


def test_a_partition_that_the_table_has_not_is_refused_with_those_near_it(fragmented: Lake) -> None:
    outcome = fragmented.run(
        "compact", partitions=["2024-01-02", "2024-01-20"], full=True, fails=True
    )

    assert "shop.events has no partition dt=2024-01-20; near it are" in outcome.failure
    assert "dt=2024-01-02" in outcome.failure
    nothing = fragmented.run("compact", partitions=[], fails=True)
    assert "partitions is an empty list; leave it out for all partitions" in nothing.failure


def test_a_partition_that_goes_while_its_compaction_waits_is_left_out(fragmented: Lake) -> None:
    (request,) = fragmented.tick().run_requests
    table = fragmented.table()
    empty = table.arrow_schema.empty_table()
    table.write(empty, mode="overwrite", partition={"dt": "2024-01-02"}, dynamic=False)

    outcome = fragmented.request(request)

    assert not outcome.observations


def test_a_keyed_table_is_compacted_when_it_has_many_sorted_runs(lake: Lake) -> None:
    lake.declare(
        """
        table: shop.products
        columns: [{name: id, type: INT}, {name: name, type: STRING}]
        primary_key: [id]
        source: {python: "tests.pipelines.sources:rows"}
        maintenance: {compaction: {min_bytes: 0 b, small_files: 3}}
        """
    )
    for name in ("tea", "jam", "honey"):
        lake.give([{"id": 1, "name": name}], "shop.products")
        lake.materialize("shop.products")

    (request,) = lake.tick().run_requests
    assert request.run_config["ops"]["upkeep"]["config"]["verb"]["compact"]["tables"].keys() == {
        "shop.products"
    }
    lake.request(request)

    assert lake.rows("shop.products") == [{"id": 1, "name": "honey"}]
    assert lake.table("shop.products").at().partitions()[0].file_count == 1
    assert not lake.tick().run_requests


def test_a_table_that_others_write_is_kept_too(lake: Lake) -> None:
    lake.declare(EVENTS)
    lake.give(events("2024-01-01", 0, 1))
    lake.materialize(partitions="2024-01-01")
    lake.write_small_files("2024-01-01", 4)
    lake.declare("table: shop.events\nmaintenance: {compaction: {min_bytes: 0 b}}\n")

    (request,) = lake.tick().run_requests
    lake.request(request)

    assert lake.table().at().partitions()[0].file_count == 1
