"""The evaluation of a table's health: what makes a table ill, and what does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.decide import decide
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.decide.upkeep_state import read_state
from lakewright.platform.ledger.intents import Declined, WhyNot
from lakewright.platform.ledger.known_work import Past, Try
from lakewright.platform.orchestration.health_reports import (
    HealthEvaluation,
    evaluate_health,
    health_told,
)
from lakewright.platform.orchestration.names import UpkeepNames
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.storage import Catalog
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.environment import START_MS, FixedEnv
from tests.support.tables.fixtures import memory_uri

MINUTE_MS = 60_000
VERB = "expire_partitions"
POLICY = """
warehouse:
  partitions: {older_than: 300d, schedule: 0 0 * * *}
  snapshots: {enabled: false}
  orphans: {enabled: false}
"""

EXPIRING = """
warehouse:
  snapshots: {time_retained: 1h, retain_min: 1, schedule: 0 0 * * *}
  compaction: {enabled: false}
  orphans: {enabled: false}
"""


@pytest.mark.parametrize(
    ("minutes", "failed", "ill"), [(1, False, False), (61, False, True), (2, True, True)]
)
def test_daily_work_makes_a_table_ill_once_it_is_late_or_failed(
    tmp_path: Path, minutes: int, failed: bool, ill: bool
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    table = new_table(catalog, name="db.events", partitions=["day"])
    table.write(rows(table, events(0, 1)))
    kept = KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",))
    tick_ms = START_MS + 60 * MINUTE_MS

    def found() -> HealthEvaluation:
        now_ms = tick_ms + minutes * MINUTE_MS
        tried = Try(state=f"tick {tick_ms}", ended_ms=now_ms - MINUTE_MS)
        past = Past(tries={("db.events", VERB): tried} if failed else {})
        one = kept.table("db.events")
        state = read_state(catalog, "db.events", now_ms=now_ms)
        clock = Clock(now_ms=now_ms, last_tick_ms=lambda cron, zone: tick_ms)
        return evaluate_health(state, decide(state, one.policy, past, clock), one, UpkeepNames())

    assert f"**{VERB.replace('_', ' ')}**" in found().description
    assert found().passed is not ill


def test_another_reason_to_wait_or_to_decline_is_news_and_the_course_of_a_schedule_is_none() -> (
    None
):
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    new_table(catalog, name="db.events")
    state = read_state(catalog, "db.events", now_ms=START_MS)

    def told(why_not: WhyNot, reason: str = "") -> object:
        declined = Declined(table="db.events", verb="compact", why_not=why_not, told=reason)
        return health_told(state, [declined])

    quiet = {WhyNot.HEALTHY, WhyNot.NOT_YET}
    running = {WhyNot.IN_FLIGHT, WhyNot.CAPPED}
    others = [{each} for each in WhyNot if each not in quiet | running]
    said = [{told(each) for each in alike} for alike in (quiet, running, *others)]
    assert all(len(each) == 1 for each in said)
    assert len(set.union(*said)) == len(said)
    assert told(WhyNot.OUT_OF_BYTES, "3 GiB left") == told(WhyNot.OUT_OF_BYTES, "2 GiB left")


def test_an_expiry_that_is_due_says_what_it_gains_though_it_reads_no_rows(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(EXPIRING)
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    table = new_table(catalog, name="db.events")
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
    kept = KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",))
    now_ms = START_MS + 24 * 60 * MINUTE_MS
    one, state = kept.table("db.events"), read_state(catalog, "db.events", now_ms=now_ms)
    clock = Clock(now_ms=now_ms, last_tick_ms=lambda cron, zone: now_ms - MINUTE_MS)
    decisions = decide(state, one.policy, Past(), clock)
    metadata = evaluate_health(state, decisions, one, UpkeepNames()).metadata
    (due,) = [each.data for each in metadata["due"].records]
    assert (due["verb"], due["reads"], due["gains"]) == (
        "expire snapshots",
        "no rows",
        "2 snapshots removed",
    )
    assert due["takes"].endswith("ms")


def test_a_table_links_the_sensor_that_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(EXPIRING)
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    new_table(catalog, name="db.events")
    kept = KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",))
    one, state = kept.table("db.events"), read_state(catalog, "db.events", now_ms=START_MS)
    names = UpkeepNames("lake")
    metadata = evaluate_health(state, (), one, names, location="our lake/defs").metadata
    sensor = dg.MetadataValue.url("/locations/our%20lake%2Fdefs/sensors/lake__upkeep_sensor")
    assert metadata["lakewright/upkeep_sensor"] == sensor


def test_partitions_with_one_reason_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("warehouse: {compaction: {small_files: 5}}\n")
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    table = new_table(catalog, name="db.events", partitions=["day"])
    days = [f"d{number}" for number in range(7)]
    for _ in range(2):
        table.write(rows(table, [row for day in days for row in events(0, 1, day=day)]))
    for _ in range(3):
        table.write(rows(table, events(0, 1, day="d9")))
    kept = KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",))
    one, state = kept.table("db.events"), read_state(catalog, "db.events", now_ms=START_MS)
    clock = Clock(now_ms=START_MS, last_tick_ms=lambda cron, zone: START_MS)
    decisions = decide(state, one.policy, Past(), clock)
    metadata = evaluate_health(state, decisions, one, UpkeepNames()).metadata
    found = [each.data for each in metadata["not due"].records if each.data["partition"]]
    found.sort(key=lambda each: str(each["reason"]))
    assert [(each["verb"], each["reason"]) for each in found] == [
        ("compact", "2 small files < 5: leave"),
        ("compact", "3 small files < 5: leave"),
    ]
    count, _, named = found[0]["partition"].partition(": ")
    assert count == "7 partitions"
    assert named.endswith(", and 2 more")
    assert found[1]["partition"] == "d9"

    waiting = [
        replace(each, why_not=WhyNot.TOO_LITTLE)
        for each in decisions
        if isinstance(each, Declined) and each.partition
    ]
    told = evaluate_health(state, waiting, one, UpkeepNames()).description
    assert "- **compact**: 7 partitions: " in told
    assert "- **compact**: partition day=d9: 3 small files < 5: leave" in told


def test_what_was_not_read_for_a_report_is_named_as_what_the_executed_check_shows(
    tmp_path: Path,
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    catalog = Catalog.open(memory_uri(), env=FixedEnv())
    table = new_table(catalog, name="db.events")
    table.write(rows(table, events(0, 1)))
    kept = KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",))
    state = read_state(catalog, "db.events", now_ms=START_MS)
    found = evaluate_health(state, (), kept.table("db.events"), UpkeepNames()).metadata
    assert "`lakewright retention db.events`" in found["other retention times"]
    assert "so does this check" in found["other retention times"]

    history = replace(state.survey.history, snapshots=3_000)
    long = replace(state, survey=replace(state.survey, history=history))
    found = evaluate_health(long, (), kept.table("db.events"), UpkeepNames()).metadata
    assert "so does this check" not in found["other retention times"]
