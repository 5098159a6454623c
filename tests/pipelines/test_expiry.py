"""Expiry: snapshots go by job, and the schedule launches it."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pytest

from lakewright.storage import Table
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

    assert [each.id for each in with_history.table().history.snapshots()] == [3, 4]
    assert with_history.rows() == before
    told = outcome.observations[None]
    assert told["lakewright/snapshots_expired"] == 2
    assert (told["lakewright/snapshots_before"], told["lakewright/snapshots_after"]) == (4, 2)
    # One fact has one name.
    assert "lakewright/snapshots_left" not in told
    # For an hour the run can be undone.
    assert told["lakewright/files_deleted"] == 0
    assert told["lakewright/files_condemned"] > 0
    assert told["lakewright/bytes_condemned"] > 0


def test_a_run_may_ask_for_other_numbers_than_the_policy(with_history: Lake) -> None:
    with_history.run("expire_snapshots", retain_min=1, max_deletes=1)
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
    assert [each.id for each in lake.table().history.snapshots()] == [6]
    assert outcome.observations[None]["lakewright/snapshots_expired"] == 5
    # The plan is that of the first step, and the result that of all.
    assert outcome.outputs["lakewright/snapshot_range"] == "1 to 2"
    assert "3 more snapshots" in outcome.outputs["reasons"]
    assert outcome.outputs["result"].startswith("5 snapshots (1 to 5)")


def test_tags_past_their_time_go_by_a_job_and_others_stay(with_history: Lake) -> None:
    table = with_history.table()
    table.history.create_tag("brief", snapshot=1, time_retained_ms=1)
    table.history.create_tag("lasting", snapshot=2)

    outcome = with_history.run("expire_tags")

    assert [each.name for each in with_history.table().history.tags()] == ["lasting"]
    assert len(with_history.table().history.snapshots()) == 4
    assert table.at(tag="lasting").read().num_rows == 3
    told = outcome.observations[None]
    assert (told["lakewright/tags_expired"], told["lakewright/tags_left"]) == (1, 1)
    assert outcome.outputs["lakewright/tags_to_go"] == 1
    assert "tag brief was to be retained until" in outcome.outputs["reasons"]


def made_long_ago(table: Table, tag: str) -> None:
    """A tag without a time to live is as old as its file."""
    os.utime(table.table_files.paths.tag(tag), (0, 0))


def test_a_policy_lets_tags_without_a_time_to_live_go_by_their_age_and_spares_names(
    lake: Lake,
) -> None:
    lake.declare(
        EVENTS + "      tags: {older_than: 1h, spare: ['release-*'], schedule: '* * * * *'}\n"
    )
    lake.give(events("2024-01-01", 0, 3))
    lake.materialize(partitions="2024-01-01")
    for name in ("of-another", "release-1"):
        lake.table().history.create_tag(name)
        made_long_ago(lake.table(), name)
    lake.table().history.create_tag("young")

    outcome = lake.run("expire_tags")

    assert {each.name for each in lake.table().history.tags()} == {"release-1", "young"}
    assert "tag of-another was made" in outcome.outputs["reasons"]
    assert lake.run("expire_tags").outputs["lakewright/tags_to_go"] == 0


def test_a_run_with_nothing_past_its_time_observes_nothing(with_history: Lake) -> None:
    with_history.table().history.create_tag("lasting", snapshot=1)
    for job, given in (("expire_snapshots", {"retain_min": 4}), ("expire_tags", {})):
        outcome = with_history.run(job, **given)
        assert not outcome.observations


def test_changelogs_that_outlived_their_snapshots_go_by_a_job(lake: Lake) -> None:
    lake.declare(WITH_CHANGELOGS)
    for _ in range(5):
        lake.give(events("2024-01-01", 0, 3))
        lake.materialize(partitions="2024-01-01", config={"mode": "upsert"})
    before = lake.rows()

    lake.run("expire_snapshots")
    assert [each.id for each in lake.table().history.snapshots()] == [5]
    assert [each.id for each in lake.table().history.changelogs()] == [1, 2, 3, 4]
    dry = lake.run("expire_changelogs", dry_run=True)
    outcome = lake.run("expire_changelogs")

    assert dry.outputs["lakewright/changelogs_to_go"] == 2
    assert [each.id for each in lake.table().history.changelogs()] == [3, 4]
    assert outcome.observations[None]["lakewright/changelogs_expired"] == 2
    lake.run("expire_changelogs", retain_max=2)
    assert [each.id for each in lake.table().history.changelogs()] == [4]
    assert lake.rows() == before


def test_a_number_that_cannot_be_is_refused(with_history: Lake) -> None:
    outcome = with_history.run("expire_snapshots", retain_min=0, fails=True)
    assert "at least 1 snapshot" in outcome.failure


def test_the_sensor_asks_once_after_each_moment_of_a_schedule(with_history: Lake) -> None:
    # A table is not behind with what was due before it was there.
    assert not with_history.tick().run_requests

    schema = with_history.folder / "warehouse" / "shop.db" / "events" / "schema" / "schema-0"
    told = json.loads(schema.read_text())
    schema.write_text(json.dumps(told | {"timeMillis": told["timeMillis"] - 14 * 86_400_000}))
    with_history.forget_what_was_read()
    request, beside = with_history.tick().run_requests
    assert tuple(each.tags["lakewright/verb"] for each in (request, beside)) == (
        "expire_snapshots",
        "remove_orphans",
    )
    asked = request.run_config["ops"]["upkeep"]["config"]["verb"]["expire_snapshots"]["asked"][
        "shop.events"
    ]
    assert "4 snapshots, at least 2 stay; due since" in asked["reason"]
    with_history.request(request)
    assert len(with_history.table().history.snapshots()) == 2
    with_history.request(beside)
    assert not with_history.tick().run_requests
