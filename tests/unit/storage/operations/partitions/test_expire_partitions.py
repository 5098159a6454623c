"""Expiry of partitions: those past their time go, whatever a caller may doubt stays and is told."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.session import Session
from lakewright.storage import AddColumn, Catalog, SetOption, Table
from lakewright.storage.errors import InvalidOption, InvalidRequestError, StalePlan
from lakewright.storage.operations.partitions.expire_partitions import ExpirePartitionsPlan
from lakewright.storage.spec.snapshot import CommitKind
from tests.support.stores.watched_files import interrupted, puts_snapshot
from tests.support.tables.builders import compact, content, events, expire, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_only_reachable_files

# The clock of the tests says 2024-01-01.
_DAY_MS = 86_400_000
SEVEN_DAYS = {"partition.expiration-time": "7 d"}


def daily(catalog: Catalog, *days: str | None, **options: str) -> Table:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    table = new_table(catalog, partitions=("day",), options={**SEVEN_DAYS, **named})
    for day in days or ("2023-12-01", "2023-12-20", "2023-12-30"):
        table.write(rows(table, events(0, 2, day=day)))
    return table


def of_others(catalog: Catalog, **options: str) -> Table:
    """The same with options that another client has set."""
    table = daily(catalog)
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    path = Path(table.table_files.paths.schema(0))
    schema = json.loads(path.read_text("utf-8"))
    schema["options"] |= named
    path.write_text(json.dumps(schema), "utf-8")
    return catalog.table(table.name)


def days(table: Table) -> list[Any]:
    return [each.spec["day"] for each in table.at().partitions()]


def test_partitions_whose_values_lie_too_far_back_expire_and_no_other(catalog: Catalog) -> None:
    table = daily(catalog)
    result = table.upkeep.expire_partitions()
    assert days(table) == ["2023-12-30"]
    assert [each.partition["day"] for each in result.partitions] == ["2023-12-01", "2023-12-20"]
    (snapshot,) = result.snapshots
    assert (snapshot.commit_kind, snapshot.delta_record_count) == (CommitKind.OVERWRITE, -4)
    expire(table, keep=1)
    assert_only_reachable_files(table)


def test_a_plan_right_after_a_run_is_empty(catalog: Catalog) -> None:
    table = daily(catalog)
    table.upkeep.expire_partitions()
    assert table.upkeep.expire_partitions(dry_run=True).partitions == ()
    again = table.upkeep.expire_partitions()
    assert (again.snapshots, again.partitions, again.left_out) == ((), (), ())


def test_a_dry_run_says_what_is_due_and_since_when(catalog: Catalog) -> None:
    table = daily(catalog)
    plan = table.upkeep.expire_partitions(dry_run=True)
    assert [(each.since, each.rows) for each in plan.partitions] == [
        ("2023-12-01 00:00:00", 2),
        ("2023-12-20 00:00:00", 2),
    ]
    assert ExpirePartitionsPlan.from_json(plan.to_json()) == plan
    assert len(table.history.snapshots()) == 3


def test_a_partition_exactly_as_old_as_allowed_stays(catalog: Catalog, env: FixedEnv) -> None:
    table = daily(catalog, "2023-12-25")
    env.clock.step_ms = 0
    # The first moment of 2024 where the machine is.
    env.clock.now_ms = int(dt.datetime(2024, 1, 1).astimezone().timestamp()) * 1000
    assert not table.upkeep.plan_expire_partitions().partitions
    env.clock.now_ms += 1
    assert table.upkeep.plan_expire_partitions().partitions


def test_what_gives_no_time_stays_and_is_told(catalog: Catalog) -> None:
    table = daily(catalog, "2023-12-01", "soon", None)
    plan = table.upkeep.plan_expire_partitions()
    assert [(each.partition["day"], each.reason.split(";")[0]) for each in plan.staying] == [
        (None, "a key that gives the time is null"),
        ("soon", "'soon' is no time"),
    ]
    table.upkeep.run(plan)
    assert days(table) == [None, "soon"]


def test_by_update_time_the_newest_file_counts(catalog: Catalog, env: FixedEnv) -> None:
    table = daily(catalog, "a", "b", "c", partition__expiration_strategy="update-time")
    env.clock.advance(6 * _DAY_MS)
    table.write(rows(table, events(2, 3, day="b")))
    compact(table, [{"day": "c"}], full=True)
    env.clock.advance(2 * _DAY_MS)
    table.upkeep.expire_partitions()
    # A file written once cannot be compacted, so only the written partition is young.
    assert days(table) == ["b"]


def test_the_call_prevails_over_the_options_of_the_table(catalog: Catalog) -> None:
    columns = {"id": "INT", "d": "STRING", "h": "INT"}
    table = new_table(catalog, columns, partitions=("d", "h"))
    for hour in (1, 20):
        table.write(rows(table, [{"id": 1, "d": "20231231", "h": hour}]))
    with pytest.raises(InvalidOption, match=r"has no partition\.expiration-time"):
        table.upkeep.plan_expire_partitions()
    how: dict[str, Any] = {"pattern": "$d $h", "formatter": "yyyyMMdd H"}
    plan = table.upkeep.plan_expire_partitions(older_than_ms=12 * 3_600_000, **how)
    assert [each.partition["h"] for each in plan.partitions] == [1]
    plan = table.upkeep.plan_expire_partitions(older_than_ms=0, strategy="update-time", **how)
    assert len(plan.partitions) == 2


def test_the_oldest_go_first_so_many_at_once_in_so_many_commits(catalog: Catalog) -> None:
    table = daily(
        catalog,
        *(f"2023-11-{day:02d}" for day in (5, 3, 1, 4, 2)),
        partition__expiration_max_num="3",
        partition__expiration_batch_size="2",
    )
    plan = table.upkeep.plan_expire_partitions()
    assert plan.waiting == 2
    result = table.upkeep.run(plan)
    assert [each.delta_record_count for each in result.snapshots] == [-4, -2]
    assert days(table) == ["2023-11-04", "2023-11-05"]
    assert len(table.upkeep.expire_partitions(max_partitions=1).partitions) == 1
    assert len(table.upkeep.expire_partitions().partitions) == 1
    assert table.upkeep.plan_expire_partitions().waiting == 0


def test_tags_that_need_files_are_told_and_keep_their_rows(catalog: Catalog) -> None:
    table = daily(catalog)
    before = content(table)
    table.history.create_tag("release", snapshot=1)
    table.write(rows(table, events(2, 4, day="2023-12-01")))
    plan = table.upkeep.plan_expire_partitions()
    first, second = plan.partitions
    assert (first.tags, second.tags, second.tagged_bytes) == (("release",), (), 0)
    assert 0 < first.tagged_bytes < first.bytes
    table.upkeep.run(plan)
    expire(table, keep=1)
    assert len(content(table.at(tag="release"))) == 2
    assert set(content(table.at(tag="release"))) < set(before)


def test_partitions_that_a_tag_needs_stay_on_request(catalog: Catalog) -> None:
    table = daily(catalog)
    table.history.create_tag("release", snapshot=1)
    plan = table.upkeep.plan_expire_partitions(spare_tagged=True)
    assert [each.partition["day"] for each in plan.partitions] == ["2023-12-20"]
    assert [each.reason for each in plan.staying] == ["needed by release"]
    # A tag that is made after the plan protects too.
    table.history.create_tag("late", snapshot=2)
    with pytest.raises(StalePlan, match="none of the 1 partitions"):
        table.upkeep.run(plan)
    table.history.delete_tags("late", grace_ms=0)
    table.upkeep.run(plan)
    assert days(table) == ["2023-12-01", "2023-12-30"]


@pytest.mark.parametrize("when", ["before the run", "before the commit"])
def test_a_partition_that_others_change_is_left_to_the_next_run(
    catalog: Catalog, when: str
) -> None:
    table = daily(catalog)
    plan = table.upkeep.plan_expire_partitions()
    late = rows(table, events(5, 6, day="2023-12-01"))
    seen = table
    if when == "before the run":
        table.write(late)
    else:
        seen, _ = interrupted(table, when=puts_snapshot, meanwhile=lambda: table.write(late))
    result = seen.upkeep.run(plan)
    assert result.left_out == ({"day": "2023-12-01"},)
    assert days(table) == ["2023-12-01", "2023-12-30"]
    table.upkeep.expire_partitions()
    assert days(table) == ["2023-12-30"]


def test_an_edited_plan_drops_nothing_that_is_not_due(catalog: Catalog) -> None:
    table = daily(catalog)
    plan = table.upkeep.plan_expire_partitions()
    young = table.upkeep.plan_drop_partitions("day = '2023-12-30'").partitions[0]
    wrong = replace(plan.partitions[0], partition=young.partition, files=young.files)
    with pytest.raises(StalePlan):
        table.upkeep.run(replace(plan, partitions=(wrong,)))
    assert len(days(table)) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"partition__expiration_strategy": "by-mood"},
        {"partition__timestamp_formatter": "yyyy"},
        {"partition__expiration_max_num": "0"},
    ],
)
def test_an_invalid_option_stops_the_expiry_and_nothing_else(
    catalog: Catalog, options: dict[str, str]
) -> None:
    table = of_others(catalog, **options)
    with pytest.raises(InvalidOption):
        table.upkeep.expire_partitions()
    assert len(content(table)) == 6


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("$zz", r"\$zz names no partition key of db\.t; write its keys as \$day"),
        ("$day $hour:00:00", r"\$hour names no partition key"),
        ("2020-01-01", "it names no partition key"),
    ],
)
def test_a_pattern_of_other_keys_stops_the_expiry_by_values_and_nothing_else(
    catalog: Catalog, pattern: str, why: str
) -> None:
    table = of_others(catalog, partition__timestamp_pattern=pattern)
    with pytest.raises(InvalidOption, match=rf"partition\.timestamp-pattern='.*': {why}"):
        table.upkeep.expire_partitions()
    assert len(content(table)) == 6
    assert table.upkeep.plan_expire_partitions(pattern="$day").partitions
    assert not table.upkeep.expire_partitions(strategy="update-time").partitions
    # Only who sets it is refused.
    table = table.alter(AddColumn("w", "INT"))
    table.write(rows(table, events(0, 1, day="2023-12-31")))
    assert len(content(table)) == 7


KEYS = {"id": "INT", "day": "STRING", "hour": "INT", "date": "DATE"}


@pytest.mark.parametrize(
    ("keys", "options", "says"),
    [
        (["day"], {"partition.timestamp-pattern": "$day_hours"}, r"\$day_hours' gives no text"),
        (["day"], {"partition.timestamp-pattern": "$zz"}, r"\$zz names no partition key"),
        (["day"], {"partition.timestamp-pattern": "2020-01-01"}, "it names no partition key"),
        (["day", "hour"], {"partition.timestamp-pattern": "$hour"}, "day STRING, hour INT"),
        (
            ["date"],
            {"partition.timestamp-formatter": "yyyyMMdd", **SEVEN_DAYS},
            "the first key date gives no text that is read by partition.timestamp-formatter",
        ),
        (["hour"], SEVEN_DAYS, "keys are hour INT, would ever have a time"),
        (
            ["day"],
            {"partition.timestamp-pattern": "$day", "partition.timestamp-formatter": "yyyyMM"},
            "it gives no day",
        ),
        (["day"], {"partition.expiration-strategy": "by-mood", **SEVEN_DAYS}, "by-mood"),
    ],
)
def test_options_that_give_no_partition_a_time_are_refused_when_they_are_set(
    catalog: Catalog, keys: list[str], options: dict[str, str], says: str
) -> None:
    with pytest.raises(InvalidOption, match=says):
        new_table(catalog, KEYS, partitions=keys, options=options)
    assert not catalog.table_exists("db.t")
    table = new_table(catalog, KEYS, partitions=keys)
    with pytest.raises(InvalidOption, match=says):
        table.alter(*(SetOption(*each) for each in options.items()))
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    with pytest.raises(InvalidOption, match=says):
        Session(catalog).sql(f"ALTER TABLE db.t SET ({listed})")
    assert catalog.table("db.t").schema == table.schema


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        (["day", "hour"], {"partition.timestamp-pattern": "$day $hour:00:00"}),
        (["day"], {"partition.timestamp-pattern": "$day-01"}),
        (
            ["day", "hour"],
            {
                "partition.timestamp-pattern": "$day_$hour",
                "partition.timestamp-formatter": "yyyy-MM-dd_HH",
            },
        ),
        (["hour"], {"partition.timestamp-formatter": "yyyyMMdd", **SEVEN_DAYS}),
        (["hour"], {"partition.expiration-strategy": "update-time", **SEVEN_DAYS}),
        (["date"], SEVEN_DAYS),
        # A stream writes its partitions by it.
        (["day"], {"partition.timestamp-formatter": "yyyyMM"}),
        # Other clients read what this release does not.
        (
            ["day"],
            {"partition.timestamp-pattern": "$day", "partition.timestamp-formatter": "d MMM yyyy"},
        ),
    ],
)
def test_options_that_may_give_a_time_are_taken(
    catalog: Catalog, keys: list[str], options: dict[str, str]
) -> None:
    table = new_table(catalog, KEYS, partitions=keys, options=options)
    assert table.schema.options.items() >= options.items()
    other = new_table(catalog, KEYS, name="db.u", partitions=keys)
    assert other.alter(*(SetOption(*each) for each in options.items())).schema.id == 1


def test_a_table_without_partition_keys_expires_none(catalog: Catalog) -> None:
    table = new_table(catalog)
    with pytest.raises(InvalidRequestError, match="has no partition keys"):
        table.upkeep.expire_partitions(older_than_ms=1)
