"""Expiry: snapshots go by job, and the schedule launches it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tests.pipelines.lake import EVENTS, Lake, events

# The changes of three commits stay for a reader, and the rows of one.
WITH_CHANGELOGS = EVENTS.replace(
    "    partition_keys: [dt]\n",
    """    partition_keys: [dt]
    primary_key: [dt, id]
    options:
      changelog-producer: input
      snapshot.num-retained.min: 1
      snapshot.num-retained.max: 1
      changelog.num-retained.min: 1
      changelog.num-retained.max: 3
""",
)


@pytest.fixture
def with_history(lake: Lake) -> Lake:
    lake.declare(
        EVENTS + "      snapshots: {retain_min: 2, time_retained: 0s, schedule: '5 4 * * *'}\n"
    )
    rows = events("2024-01-01", 0, 3)
    lake.give(rows)
    lake.materialize(partitions="2024-01-01")
    # What a run would write, in a hundredth of the time.
    table = lake.table()
    for _ in range(3):
        table.write(pa.Table.from_pylist(rows, table.arrow_schema), mode="overwrite")
    return lake


def test_the_job_lets_old_snapshots_go_and_tells_what_it_deleted(with_history: Lake) -> None:
    before = with_history.rows()

    outcome = with_history.run("expire_snapshots")

    assert outcome.success, outcome.failure
    assert [each.id for each in with_history.table().history.snapshots()] == [3, 4]
    assert with_history.rows() == before
    told = outcome.observations[None]
    assert told["lakewright/snapshots_expired"] == 2
    assert told["lakewright/snapshots_left"] == 2
    assert told["lakewright/files_deleted"] > 0
    assert told["lakewright/bytes_deleted"] > 0


def test_a_dry_run_deletes_nothing(with_history: Lake) -> None:
    outcome = with_history.run("expire_snapshots", dry_run=True)

    assert outcome.success, outcome.failure
    assert outcome.outputs["lakewright/snapshot_range"] == "1 to 2"
    assert outcome.outputs["lakewright/files"] > 0
    assert not outcome.observations
    assert len(with_history.table().history.snapshots()) == 4


def test_a_run_may_ask_for_other_numbers_than_the_policy(with_history: Lake) -> None:
    outcome = with_history.run("expire_snapshots", retain_min=1, max_deletes=1)
    assert outcome.success, outcome.failure
    assert [each.id for each in with_history.table().history.snapshots()] == [2, 3, 4]


@pytest.mark.deep
def test_a_backlog_goes_in_one_run_step_by_step(lake: Lake) -> None:
    lake.declare(
        EVENTS.replace(
            "    partition_keys: [dt]\n",
            "    partition_keys: [dt]\n    options: {snapshot.expire.limit: 2}\n",
        )
        + "      snapshots: {retain_min: 1, time_retained: 0s}\n"
    )
    lake.give(events("2024-01-01", 0, 3))
    for _ in range(6):
        lake.materialize(partitions="2024-01-01")

    dry = lake.run("expire_snapshots", dry_run=True)
    outcome = lake.run("expire_snapshots")

    assert dry.outputs["lakewright/snapshot_range"] == "1 to 2"
    assert outcome.success, outcome.failure
    assert [each.id for each in lake.table().history.snapshots()] == [6]
    assert outcome.observations[None]["lakewright/snapshots_expired"] == 5
    assert outcome.outputs["lakewright/snapshot_range"] == "1 to 5"
    assert outcome.outputs["lakewright/files"] > 0


def test_tags_past_their_time_go_with_the_snapshots_and_others_stay(with_history: Lake) -> None:
    table = with_history.table()
    table.history.create_tag("brief", snapshot=1, time_retained_ms=1)
    table.history.create_tag("lasting", snapshot=2)

    outcome = with_history.run("expire_snapshots")

    assert outcome.success, outcome.failure
    assert [each.name for each in with_history.table().history.tags()] == ["lasting"]
    assert table.at(tag="lasting").read().num_rows == 3
    told = outcome.observations[None]
    assert (told["lakewright/snapshots_expired"], told["lakewright/tags_expired"]) == (2, 1)
    assert told["lakewright/tags_left"] == 1
    assert outcome.outputs["lakewright/tags"] == 1
    assert "tag brief was to be retained until" in outcome.outputs["reasons"]


def test_a_tag_goes_also_when_every_snapshot_stays(with_history: Lake) -> None:
    with_history.table().history.create_tag("brief", snapshot=1, time_retained_ms=1)

    outcome = with_history.run("expire_snapshots", retain_min=4)

    assert outcome.success, outcome.failure
    assert with_history.table().history.tags() == ()
    assert len(with_history.table().history.snapshots()) == 4
    told = outcome.observations[None]
    assert (told["lakewright/snapshots_expired"], told["lakewright/tags_expired"]) == (0, 1)


def test_a_dry_run_names_tags_and_keeps_them(with_history: Lake) -> None:
    with_history.table().history.create_tag("brief", snapshot=1, time_retained_ms=1)

    outcome = with_history.run("expire_snapshots", dry_run=True)

    assert outcome.success, outcome.failure
    assert outcome.outputs["lakewright/tags"] == 1
    assert "tag brief was to be retained until" in outcome.outputs["reasons"]
    assert not outcome.observations
    assert [each.name for each in with_history.table().history.tags()] == ["brief"]


def test_a_run_with_nothing_past_its_time_observes_nothing(with_history: Lake) -> None:
    with_history.table().history.create_tag("lasting", snapshot=1)
    outcome = with_history.run("expire_snapshots", retain_min=4)
    assert outcome.success, outcome.failure
    assert not outcome.observations


def test_changelogs_that_outlived_their_snapshots_go_in_the_same_run(lake: Lake) -> None:
    lake.declare(WITH_CHANGELOGS)
    for _ in range(5):
        lake.give(events("2024-01-01", 0, 3))
        lake.materialize(partitions="2024-01-01", config={"mode": "upsert"})
    before = lake.rows()

    dry = lake.run("expire_snapshots", dry_run=True)
    outcome = lake.run("expire_snapshots")

    assert dry.outputs["lakewright/changelogs"] == 0
    assert outcome.success, outcome.failure
    assert [each.id for each in lake.table().history.snapshots()] == [5]
    assert [each.id for each in lake.table().history.changelogs()] == [3, 4]
    told = outcome.observations[None]
    assert (told["lakewright/snapshots_expired"], told["lakewright/changelogs_expired"]) == (4, 2)
    assert outcome.outputs["lakewright/changelogs"] == 2
    assert lake.rows() == before


def test_a_table_that_does_not_exist_yet_is_no_failure(lake: Lake) -> None:
    lake.declare(EVENTS)
    assert lake.run("expire_snapshots").success


def test_a_number_that_cannot_be_is_refused(with_history: Lake) -> None:
    outcome = with_history.run("expire_snapshots", retain_min=0)
    assert not outcome.success
    assert "at least 1 snapshot" in outcome.failure


def test_the_sensor_asks_once_after_each_moment_of_a_schedule(with_history: Lake) -> None:
    # A table is not behind with what was due before it was there.
    assert not with_history.tick().run_requests

    schema = with_history.folder / "warehouse" / "shop.db" / "events" / "schema" / "schema-0"
    told = json.loads(schema.read_text())
    schema.write_text(json.dumps(told | {"timeMillis": told["timeMillis"] - 14 * 86_400_000}))
    with_history.forget_what_was_read()
    request, beside = with_history.tick().run_requests
    assert (request.job_name, beside.job_name) == ("expire_snapshots", "remove_orphans")
    asked = request.run_config["ops"]["expire_snapshots"]["config"]["asked"]["shop.events"]
    assert "4 snapshots, at least 2 stay; due since" in asked["reason"]
    assert with_history.request(request).success
    assert len(with_history.table().history.snapshots()) == 2
    assert with_history.request(beside).success
    assert not with_history.tick().run_requests


@pytest.mark.parametrize("setting", ["time_retained", "max_duration"])
def test_a_number_without_a_unit_is_no_duration_and_lets_nothing_go(
    with_history: Lake, setting: str
) -> None:
    outcome = with_history.run("expire_snapshots", **{setting: "7"})

    assert not outcome.success
    assert f"{setting}: '7' has no unit; write 7d, 7h or 7min" in outcome.failure
    assert len(with_history.table().history.snapshots()) == 4
