"""Tags: what they keep, how they are named and made by themselves, and what goes with them."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import (
    AlreadyExistsError,
    InvalidOption,
    InvalidRequestError,
    SnapshotNotFound,
    StalePlan,
    TagNotFound,
)
from lakewright.storage.operations.references.tags import DeleteTagsPlan
from lakewright.storage.operations.retention.expire_tags import run_expire_tags
from tests.support.stores.watched_files import Crashed, Fault, watched
from tests.support.tables.builders import (
    compact,
    content,
    events,
    expire,
    new_table,
    replacing,
    rows,
    values_of,
    with_options,
)
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_only_reachable_files

HOUR = 3_600_000
DAY = 24 * HOUR


def tag_json(table: Table, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(table.table_files.references.read_tag_file(name))
    return found


def names(table: Table) -> list[str]:
    return [tag.name for tag in table.history.tags()]


def delete(table: Table, *tags: str) -> int:
    return table.history.run(table.history.plan_delete_tags(*tags, grace_ms=0)).files_deleted


# --- by hand -----------------------------------------------------------------------------------


@pytest.mark.mission("FS19")
def test_a_tag_is_read_after_its_snapshot_expired(any_catalog: Catalog) -> None:
    table = replacing(any_catalog)
    tagged = content(table.at(snapshot=2))
    table.history.create_tag("kept", snapshot=2)
    expire(table)
    assert [each.id for each in table.history.snapshots()] == [6]
    assert content(table.at(tag="kept")) == tagged != content(table)
    assert content(table.at(version="kept")) == tagged
    # The id names it, too, as long as the tag holds it.
    assert content(table.at(snapshot=2)) == content(table.at(version="2")) == tagged
    assert_only_reachable_files(table)


def test_a_tag_is_the_text_of_its_snapshot(catalog: Catalog) -> None:
    table = replacing(catalog)
    path = Path(table.table_files.paths.snapshot(2))
    # What other writers know of a snapshot and we do not is carried over.
    path.write_text(json.dumps({**json.loads(path.read_text()), "uuid": "u", "logOffsets": {}}))
    table.history.create_tag("plain", snapshot=2)
    assert table.table_files.references.read_tag_file("plain") == path.read_bytes()
    assert table.table_files.references.tag("plain").expires_at is None

    table.history.create_tag("timed", snapshot=2, time_retained_ms=3 * DAY + 500)
    found = tag_json(table, "timed")
    assert found["uuid"] == "u"
    assert found["tagTimeRetained"] == 259200.5
    created = dt.datetime(*found["tagCreateTime"][:6])
    now = dt.datetime.fromtimestamp(table.table_files.env.now_ms() / 1000)  # noqa: DTZ006 - as stored
    assert dt.timedelta(0) <= now - created < dt.timedelta(minutes=1)
    # Nanoseconds, as Java writes them.
    assert found["tagCreateTime"][6] % 1_000_000 == 0


@pytest.mark.parametrize(
    ("parts", "time"),
    [
        ([2026, 11, 20, 10, 15], dt.datetime(2026, 11, 20, 10, 15)),
        ([2026, 11, 20, 10, 15, 12], dt.datetime(2026, 11, 20, 10, 15, 12)),
        ([2026, 11, 20, 10, 15, 12, 250474318], dt.datetime(2026, 11, 20, 10, 15, 12, 250474)),
    ],
)
def test_times_of_tags_that_others_made_are_read(
    catalog: Catalog, parts: list[int], time: dt.datetime
) -> None:
    table = replacing(catalog, "a")
    found = json.loads(Path(table.table_files.paths.snapshot(1)).read_text())
    found |= {"tagCreateTime": parts, "tagTimeRetained": 1.5}
    table.table_files.references.put_tag("theirs", json.dumps(found).encode())
    (tag,) = table.history.tags()
    assert (tag.create_time, tag.time_retained_ms) == (time, 1500)
    assert tag.expires_at == time + dt.timedelta(seconds=1.5)


@pytest.mark.parametrize("name", ["", "  ", "a/b", "a\\b", ".hidden", "a\nb"])
def test_a_name_that_is_no_file_is_refused(catalog: Catalog, name: str) -> None:
    table = replacing(catalog, "a")
    with pytest.raises(InvalidRequestError, match="tag name"):
        table.history.create_tag(name)
    assert table.history.tags() == ()


def test_a_name_is_taken_once(catalog: Catalog) -> None:
    table = replacing(catalog)
    table.history.create_tag("2024", snapshot=1)
    with pytest.raises(AlreadyExistsError, match="exists already, for snapshot 1"):
        table.history.create_tag("2024")
    # A number is a name like others, and found before the snapshot of that id.
    assert content(table.at(version="2024")) == content(table.at(snapshot=1))


def test_what_is_not_there_is_said_with_what_is(catalog: Catalog) -> None:
    table = replacing(catalog)
    table.history.create_tag("one", snapshot=1)
    table.history.create_tag("two", snapshot=2)
    with pytest.raises(TagNotFound, match=r"no tag three .*there are one, two"):
        table.at(tag="three").read()
    with pytest.raises(TagNotFound, match="there are one, two"):
        table.history.plan_delete_tags("one", "three", grace_ms=0)
    with pytest.raises(SnapshotNotFound, match=r"snapshot 99 does not exist .*there are 1 to 6"):
        table.history.create_tag("x", snapshot=99)
    with pytest.raises(InvalidRequestError, match="snapshot and tag are given"):
        table.at(tag="one", snapshot=1).read()
    empty = new_table(catalog, name="db.empty")
    with pytest.raises(SnapshotNotFound, match="nothing was committed yet"):
        empty.history.create_tag("x")


def test_a_tag_of_a_tag_holds_what_expired(catalog: Catalog) -> None:
    table = replacing(catalog)
    table.history.create_tag("first", snapshot=2, time_retained_ms=HOUR)
    expire(table)
    table.history.create_tag("second", snapshot=2)
    assert "tagTimeRetained" not in tag_json(table, "second")
    delete(table, "first")
    assert values_of(table.at(tag="second"), "v") == ["a0", "a1", "a2"]


# --- deletion ----------------------------------------------------------------------------------


@pytest.mark.mission("FS19")
def test_deleting_a_tag_takes_what_only_it_kept(any_catalog: Catalog) -> None:
    table = replacing(any_catalog)
    table.history.create_tag("a", snapshot=2)
    table.history.create_tag("b", snapshot=4)
    expire(table)
    plan = table.history.plan_delete_tags("a", grace_ms=0)
    assert (plan.tags, plan.snapshot_ids) == (("a",), (2,))
    assert any(file.path.startswith("bucket-0/data-") for file in plan.files)
    assert plan.bytes == sum(file.size_bytes for file in plan.files) > 0
    assert DeleteTagsPlan.from_json(plan.to_json()) == plan
    result = table.history.run(DeleteTagsPlan.from_json(plan.to_json()))
    assert (result.files_deleted, result.bytes_deleted) == (len(plan.files), plan.bytes)
    assert_only_reachable_files(table)
    assert values_of(table.at(tag="b"), "v") == ["b0", "b1", "b2"]
    delete(table, "b")
    assert_only_reachable_files(table)
    assert values_of(table, "v") == ["c0", "c1", "c2"]


def test_a_tag_whose_snapshot_is_there_keeps_nothing_alone(catalog: Catalog) -> None:
    table = replacing(catalog)
    table.history.create_tag("a", snapshot=2)
    plan = table.history.plan_delete_tags("a", grace_ms=0)
    assert plan.files == ()
    result = table.history.run(plan)
    assert (result.files_deleted, result.bytes_deleted) == (0, 0)
    assert values_of(table.at(snapshot=2), "v") == ["a0", "a1", "a2"]


def test_two_tags_of_a_snapshot_keep_its_files_together(catalog: Catalog) -> None:
    table = replacing(catalog)
    for name in "xy":
        table.history.create_tag(name, snapshot=2)
    expire(table)
    assert table.history.plan_delete_tags("x", grace_ms=0).files == ()
    both = table.history.plan_delete_tags("x", "y", grace_ms=0)
    assert both.files
    table.history.run(both)
    assert_only_reachable_files(table)


@pytest.mark.parametrize("meanwhile", ["gone", "moved"])
def test_a_plan_for_another_tag_of_that_name_is_stale(catalog: Catalog, meanwhile: str) -> None:
    table = replacing(catalog)
    table.history.create_tag("a", snapshot=2)
    expire(table)
    plan = table.history.plan_delete_tags("a", grace_ms=0)
    if meanwhile == "gone":
        delete(table, "a")
    else:
        table.history.replace_tag("a", snapshot=6)
    with pytest.raises(StalePlan, match="plan again"):
        table.history.run(plan)


def test_a_tag_made_after_the_plan_keeps_its_files(catalog: Catalog) -> None:
    table = replacing(catalog)
    table.history.create_tag("a", snapshot=2)
    expire(table)
    plan = table.history.plan_delete_tags("a", grace_ms=0)
    table.history.create_tag("late", snapshot=2)
    assert plan.files
    assert table.history.run(plan).files_deleted == 0
    assert values_of(table.at(tag="late"), "v") == ["a0", "a1", "a2"]


def test_folders_that_a_tag_leaves_empty_go_if_the_table_says_so(catalog: Catalog) -> None:
    options = {"snapshot.clean-empty-directories": "true"}
    table = new_table(catalog, partitions=["day"], options=options)
    table.write(rows(table, events(0, 3, day="a")))
    table.history.create_tag("a")
    table.write(rows(table, []), mode="overwrite", partition={"day": "a"})
    expire(table)
    folder = Path(table.table_files.paths.root) / "day=a"
    assert folder.exists()
    delete(table, "a")
    assert not folder.exists()


def test_a_tag_is_replaced_and_renamed(catalog: Catalog) -> None:
    table = replacing(catalog)
    table.history.create_tag("now", snapshot=2)
    expire(table)
    table.history.replace_tag("now", time_retained_ms=HOUR)
    assert values_of(table.at(tag="now"), "v") == ["c0", "c1", "c2"]
    assert tag_json(table, "now")["tagTimeRetained"] == 3600.0
    # What only the old one needed is gone.
    assert_only_reachable_files(table)
    before = table.table_files.references.read_tag_file("now")
    table.history.rename_tag("now", "then")
    assert names(table) == ["then"]
    assert table.table_files.references.read_tag_file("then") == before
    table.history.create_tag("now")
    with pytest.raises(AlreadyExistsError, match="tag now"):
        table.history.rename_tag("then", "now")
    for unknown in (
        lambda: table.history.rename_tag("no", "x"),
        lambda: table.history.replace_tag("no"),
    ):
        with pytest.raises(TagNotFound, match="there are now, then"):
            unknown()
    assert names(table) == ["now", "then"]


# --- expiry ------------------------------------------------------------------------------------


@pytest.mark.mission("FS19")
def test_tags_go_when_their_time_is_over(catalog: Catalog, env: FixedEnv) -> None:
    table = replacing(catalog)
    table.history.create_tag("hour", snapshot=2, time_retained_ms=HOUR)
    table.history.create_tag("day", snapshot=4, time_retained_ms=DAY)
    table.history.create_tag("always", snapshot=6)
    expire(table)
    assert table.upkeep.plan_expire_tags(grace_ms=0).tags == ()
    env.clock.advance(2 * HOUR)
    plan = table.upkeep.plan_expire_tags(grace_ms=0)
    assert plan.tags == ("hour",)
    assert plan.reasons[0].startswith("tag hour was to be retained until ")
    assert plan.files
    table.upkeep.run(plan)
    assert_only_reachable_files(table)
    env.clock.advance(365 * DAY)
    table.upkeep.run(table.upkeep.plan_expire_tags(grace_ms=0))
    assert names(table) == ["always"]


def test_tags_older_than_an_age_go_whatever_they_say(catalog: Catalog, env: FixedEnv) -> None:
    table = replacing(catalog)
    table.history.create_tag("old", snapshot=2, time_retained_ms=365 * DAY)
    env.clock.advance(2 * HOUR)
    table.history.create_tag("young", snapshot=4, time_retained_ms=365 * DAY)
    assert table.upkeep.plan_expire_tags(older_than_ms=HOUR, grace_ms=0).tags == ("old",)
    assert table.upkeep.plan_expire_tags(older_than_ms=3 * HOUR, grace_ms=0).tags == ()


def test_a_tag_that_is_spared_by_name_stays_however_old_until_its_own_time_ends(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = replacing(catalog)
    table.history.create_tag("release-1", snapshot=2, time_retained_ms=365 * DAY)
    table.history.create_tag("release-2", snapshot=4, time_retained_ms=DAY)
    table.history.create_tag("nightly", snapshot=6, time_retained_ms=365 * DAY)
    env.clock.advance(2 * HOUR)
    plan = table.upkeep.plan_expire_tags(older_than_ms=HOUR, spare=["release-*"], grace_ms=0)
    assert (plan.tags, plan.spare) == (("nightly",), ("release-*",))
    table.upkeep.run(plan)
    env.clock.advance(DAY)
    ended = table.upkeep.plan_expire_tags(older_than_ms=HOUR, spare=["release-*"], grace_ms=0)
    assert ended.tags == ("release-2",)
    assert table.upkeep.plan_expire_tags(
        older_than_ms=HOUR, spare=["Release-?"], grace_ms=0
    ).tags == (
        "release-1",
        "release-2",
    )
    table.upkeep.run(ended)
    assert names(table) == ["release-1"]
    assert_only_reachable_files(table)


def test_a_saved_plan_keeps_the_names_that_it_spared(catalog: Catalog, env: FixedEnv) -> None:
    table = replacing(catalog)
    table.history.create_tag("release-1", snapshot=2, time_retained_ms=365 * DAY)
    env.clock.advance(2 * HOUR)
    plan = table.upkeep.plan_expire_tags(older_than_ms=HOUR, spare=["release-*"], grace_ms=0)
    saved = type(plan).from_json(plan.to_json())
    assert saved == plan
    edited = replace(saved, tags=("release-1",), snapshot_ids=(2,))
    with pytest.raises(StalePlan, match="release-1"):
        run_expire_tags(table.table_files, edited)


def test_a_tag_stays_to_the_end_of_its_time(catalog: Catalog, env: FixedEnv) -> None:
    table = replacing(catalog)
    env.clock.step_ms = 0
    table.history.create_tag("hour", snapshot=2, time_retained_ms=HOUR)
    table.history.create_tag("old", snapshot=4, time_retained_ms=365 * DAY)
    for asked in ({}, {"older_than_ms": HOUR}):
        env.clock.advance(HOUR)
        assert table.upkeep.plan_expire_tags(**asked).tags == ()
        env.clock.advance(1)
        plan = table.upkeep.plan_expire_tags(**asked)
        assert plan.tags == (("old",) if asked else ("hour",))
        table.upkeep.run(plan)
        env.clock.advance(-HOUR - 1)


def test_the_default_time_is_the_options(catalog: Catalog) -> None:
    table = with_options(replacing(catalog, "a"), tag__default_time_retained="2 h")
    assert table.history.create_tag("x").time_retained_ms == 2 * HOUR
    assert table.history.create_tag("y", time_retained_ms=5000).time_retained_ms == 5000
    with pytest.raises(InvalidRequestError, match="retained for 0 ms"):
        table.history.create_tag("z", time_retained_ms=0)


# --- by themselves -----------------------------------------------------------------------------


def automatic(catalog: Catalog, **options: str) -> Table:
    """A table that tags itself by the clock of UTC."""
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    chosen = {"tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC", **named}
    return new_table(catalog, options=chosen)


def commit(table: Table, number: int = 0) -> None:
    table.write(rows(table, events(number, number + 1)))


def test_each_period_gets_its_tag_from_the_first_snapshot_after_it(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = automatic(catalog)
    # The clock starts on 2024-01-01 at midnight.
    commit(table, 1)
    assert names(table) == ["2023-12-31"]
    env.clock.advance(12 * HOUR)
    commit(table, 2)
    env.clock.advance(13 * HOUR)
    commit(table, 3)
    assert names(table) == ["2023-12-31", "2024-01-01"]
    assert table.history.tags()[1].snapshot.id == 3
    # Days without a commit have no tag.
    env.clock.advance(3 * DAY)
    commit(table, 4)
    commit(table, 5)
    assert names(table)[2:] == ["2024-01-04"]
    assert table.history.create_due_tags() == ()


def test_a_commit_looks_at_one_snapshot_while_no_tag_is_due(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = automatic(catalog)
    for number in range(12):
        commit(table, number)
    seen, fs = watched(table)
    assert seen.history.create_due_tags() == ()
    read = [
        call.path for call in fs.calls if call.name == "read_bytes" and "snapshot-" in call.path
    ]
    assert read == [table.table_files.paths.snapshot(12)]


def test_completion_gives_the_missing_periods_a_tag(catalog: Catalog, env: FixedEnv) -> None:
    table = automatic(catalog, tag__automatic_completion="true")
    commit(table)
    env.clock.advance(3 * DAY)
    for number in range(3):
        commit(table, number)
    assert names(table) == ["2023-12-31", "2024-01-01", "2024-01-02", "2024-01-03"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tag.creation-period": "hourly"}, ["2023-12-31 23", "2024-01-01 04"]),
        (
            {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"},
            ["20231231 23", "20240101 04"],
        ),
        (
            {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces"},
            ["2023123123", "2024010104"],
        ),
        ({"tag.creation-period": "two-hours"}, ["2023-12-31 22", "2024-01-01 02"]),
        ({"tag.creation-period-duration": "30 min"}, ["202312312330", "202401010430"]),
        ({"tag.period-formatter": "without_dashes"}, ["20231231"]),
        ({"tag.creation-period": "hourly", "tag.creation-delay": "10 min"}, ["2023-12-31 23"]),
    ],
    ids=str,
)
def test_names_follow_period_and_format(
    catalog: Catalog, env: FixedEnv, options: dict[str, str], expected: list[str]
) -> None:
    table = automatic(catalog, **options)
    commit(table)
    env.clock.advance(5 * HOUR)
    if "tag.creation-delay" in options:
        env.clock.advance(-4 * HOUR + 5 * 60_000)
    commit(table)
    assert names(table) == expected


def test_the_zone_of_the_options_decides_the_day(catalog: Catalog) -> None:
    for number, (zone, day) in enumerate(
        [("UTC", "2023-12-31"), ("America/Los_Angeles", "2023-12-30"), ("GMT-08:00", "2023-12-30")]
    ):
        named = {"tag.automatic-creation": "process-time", "sink.process-time-zone": zone}
        table = new_table(catalog, name=f"db.t{number}", options=named)
        commit(table)
        assert names(table) == [day]
    unzoned = automatic(catalog, sink__process_time_zone="Mars/Olympus")
    commit(unzoned)
    with pytest.raises(InvalidOption, match="Mars/Olympus"):
        unzoned.history.create_due_tags()


def test_watermarks_make_tags_of_event_time(catalog: Catalog) -> None:
    table = automatic(catalog, tag__automatic_creation="watermark", tag__creation_period="hourly")
    start = 1_704_067_200_000
    for minutes in (None, 30, 59, 61, 200):
        staged = table.stage(rows(table, events(0, 1)))
        watermark = None if minutes is None else start + minutes * 60_000
        table.commit(replace(staged, watermark=watermark))
    assert [(tag.name, tag.snapshot.id) for tag in table.history.tags()] == [
        ("2023-12-31 23", 2),
        ("2024-01-01 00", 4),
        ("2024-01-01 02", 5),
    ]
    assert (
        table.at(watermark=start + 60 * 60_000).scan().plan.snapshot == table.history.snapshots()[3]
    )
    assert (
        table.at(version=f"watermark-{start}").scan().plan.snapshot == table.history.snapshots()[1]
    )
    with pytest.raises(SnapshotNotFound, match=r"no snapshot of db\.t has reached watermark"):
        table.at(watermark=start + DAY).read()


def test_a_watermark_beyond_the_calendar_makes_no_tag_and_stops_no_commit(catalog: Catalog) -> None:
    table = automatic(catalog, tag__automatic_creation="watermark", tag__creation_period="hourly")
    for watermark in (1_704_067_200_000, 2**63 - 1):
        staged = table.stage(rows(table, events(0, 1)))
        table.commit(replace(staged, watermark=watermark))
    assert [tag.name for tag in table.history.tags()] == ["2023-12-31 23"]


def test_batch_tables_tag_their_latest_snapshot_by_the_day(catalog: Catalog, env: FixedEnv) -> None:
    table = automatic(catalog, tag__automatic_creation="batch")
    for number in range(3):
        commit(table, number)
    env.clock.advance(DAY)
    commit(table, 3)
    assert [(tag.name, tag.snapshot.id) for tag in table.history.tags()] == [
        ("batch-write-2024-01-01", 3),
        ("batch-write-2024-01-02", 4),
    ]
    named = with_options(table, tag__batch__customized_name="newest")
    commit(named, 5)
    commit(named, 6)
    assert {tag.name: tag.snapshot.id for tag in table.history.tags()}["newest"] == 6


@pytest.mark.mission("FS19")
def test_automatic_tags_beyond_their_number_go_and_those_of_people_stay(
    catalog: Catalog, env: FixedEnv
) -> None:
    table = automatic(catalog, tag__num_retained_max="2", tag__default_time_retained="100 d")
    commit(table)
    table.history.create_tag("mine")
    for number in range(5):
        env.clock.advance(DAY)
        table.write(rows(table, events(number, number + 1)), mode="overwrite")
        expire(table)
    assert names(table) == ["mine", "2024-01-04", "2024-01-05"]
    assert_only_reachable_files(table)
    told = with_options(table, tag__num_retained_max="1")
    plan = told.upkeep.plan_expire_tags(grace_ms=0)
    assert plan.tags == ("2024-01-04",)
    assert "beyond the 1 automatic tags" in plan.reasons[0]
    told.upkeep.run(plan)


def test_a_snapshot_has_one_automatic_tag(catalog: Catalog) -> None:
    table = automatic(catalog)
    commit(table)
    with pytest.raises(InvalidRequestError, match="has the automatic tag 2023-12-31 already"):
        table.history.create_tag("2024-05-05")
    table.history.create_tag("release")
    assert names(table) == ["2023-12-31", "release"]


def test_a_delay_as_long_as_the_period_is_refused(catalog: Catalog) -> None:
    with pytest.raises(InvalidOption, match="not shorter than the period"):
        automatic(catalog, tag__creation_period="hourly", tag__creation_delay="1 h")


def test_a_commit_stands_when_its_tag_cannot_be_made(unchecked_catalog: Catalog) -> None:
    table = automatic(unchecked_catalog)
    # A file in the place of the folder of tags.
    Path(table.table_files.paths.tag_dir).write_text("")
    commit(table)
    assert table.read().num_rows == 1
    Path(table.table_files.paths.tag_dir).unlink()
    commit(table)
    assert names(table) == ["2023-12-31"]
    assert table.history.tags()[0].snapshot.id == 1


# --- between two calls --------------------------------------------------------------------------


def test_a_deletion_planned_before_the_snapshot_expired_leaves_nothing(catalog: Catalog) -> None:
    table = new_table(catalog, keys=["id"], options={"bucket": "1"})
    for version in "ab":
        table.write(rows(table, events(0, 3, v=version)))
        compact(table, full=True)
    table.history.create_tag("t", snapshot=2)
    plan = table.history.plan_delete_tags("t", grace_ms=0)
    expire(table)
    with pytest.raises(StalePlan, match=r"of t would delete \d+ more files than planned; plan"):
        table.history.run(plan)
    table.history.run(table.history.plan_delete_tags("t", grace_ms=0))
    assert_only_reachable_files(table)


def test_a_renaming_that_died_is_finished_by_the_next(catalog: Catalog) -> None:
    table = new_table(catalog)
    table.write(rows(table, events(0, 3)))
    table.history.create_tag("x", time_retained_ms=1000)
    broken, _ = watched(
        table, fail_at=1, fault=Fault.DIES_AFTER, counts=lambda call: call.name == "put_if_absent"
    )
    with suppress(Crashed):
        broken.history.rename_tag("x", "y")
    assert [tag.name for tag in table.history.tags()] == ["x", "y"]
    table.history.rename_tag("x", "y")
    assert [tag.name for tag in table.history.tags()] == ["y"]
    with pytest.raises(AlreadyExistsError, match="exists already"):
        table.history.rename_tag("y", "y")
    assert [tag.name for tag in table.history.tags()] == ["y"]
