"""Deciding on a table: what is due and why, what is not and why not, with the numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.decide import decide, intents
from lakewright.platform.decide.survey import (
    FileFigures,
    HistoryFigures,
    LayoutFigures,
    ManifestFigures,
    OrphanFigures,
    TableSurvey,
)
from lakewright.platform.decide.upkeep_state import PolicyKeys, RetentionSettings, UpkeepState
from lakewright.platform.documents.day_hours import DayHours
from lakewright.platform.ledger.calibrate import Calibration, Ratios, modelled_ms
from lakewright.platform.ledger.intents import (
    Benefit,
    Cost,
    Decision,
    Declined,
    Intent,
    Why,
    WhyNot,
)
from lakewright.platform.ledger.known_work import Past, Running, Try
from lakewright.platform.ledger.ledger import LEDGER
from lakewright.platform.ledger.reads import DailyReads
from lakewright.platform.ledger.taken_back import TakenBack, policy_digest
from lakewright.platform.tables.upkeep_policies import (
    CompactionPolicy,
    PartitionPolicy,
    RescalePolicy,
    RespecPolicy,
    SettlePolicy,
    UpkeepPolicy,
)
from lakewright.platform.upkeep.health import PartitionHealth, TableHealth
from lakewright.storage.operations.inspection.late_writers import LateWriter

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
TICK_MS = NOW_MS - HOUR_MS
CLOCK = Clock(now_ms=NOW_MS, last_tick_ms=lambda schedule, timezone: TICK_MS)
SMALL = UpkeepPolicy(compaction=CompactionPolicy(small_files=5, min_bytes=0))


def partition(day: str, small: int = 0, **more: Any) -> PartitionHealth:
    figures: dict[str, Any] = {
        "row_count": small * 10,
        "file_count": small,
        "size_bytes": small * 100,
        "small_bytes": small * 100,
        "joined_files": small,
        "sorted_runs": 0,
        "worst_bucket": 0,
        "last_file_creation_ms": NOW_MS,
    }
    return PartitionHealth(key=day, spec={"dt": day}, small_files=small, **figures | more)


def state(*partitions: PartitionHealth, keyed: bool = False, **more: Any) -> UpkeepState:
    survey = TableSurvey(
        table="nyc.flights",
        uuid="u",
        taken_ms=NOW_MS,
        keyed=keyed,
        partition_keys=("dt",),
        layout=LayoutFigures(partitions=len(partitions)),
        history=HistoryFigures(snapshots=3, earliest_snapshot=1, latest_snapshot=3),
    )
    health = TableHealth(
        table="nyc.flights", keyed=keyed, snapshot_id=3, partitions=tuple(partitions)
    )
    known: dict[str, Any] = {"created_ms": NOW_MS, "retention": RetentionSettings(retain_min=10)}
    return UpkeepState(survey=survey, health=health, **known | more)


def compaction(found: UpkeepState, policy: UpkeepPolicy = SMALL, **past: Any) -> list[Any]:
    decided = decide(found, policy, Past(**past), CLOCK)
    return [each for each in decided if each.verb == "compact"]


def test_the_numbers_are_in_the_reasons() -> None:
    declined, intent = compaction(state(partition("a", 24), partition("b", 2)))
    assert intent.reason == "partition dt=a: 24 small files ≥ 5: compact"
    assert (intent.partitions, intent.why) == (("a",), Why.SMALL_FILES)
    assert (intent.cost.bytes, intent.cost.files, intent.benefit.files_fewer) == (2400, 24, 23)
    assert declined.reason == "partition dt=b: 2 small files < 5: leave"
    assert (declined.partition, declined.why_not) == ("b", WhyNot.HEALTHY)


@pytest.mark.parametrize(("files", "due"), [(4, False), (5, True)])
def test_the_threshold_itself_is_enough(files: int, due: bool) -> None:
    (found,) = compaction(state(partition("a", files)))
    assert isinstance(found, Intent) is due


def test_keyed_tables_count_sorted_runs_of_the_worst_bucket() -> None:
    (left,) = compaction(state(partition("a", 9, sorted_runs=1), keyed=True))
    assert left.reason == "partition dt=a: 1 sorted run < 5: leave"
    (due,) = compaction(state(partition("a", 1, sorted_runs=5, worst_bucket=3), keyed=True))
    assert due.reason == "partition dt=a: 5 sorted runs in bucket 3 ≥ 5: compact"
    assert due.why is Why.SORTED_RUNS


def test_what_is_read_most_is_compacted_first_where_reads_are_counted() -> None:
    one = UpkeepPolicy(compaction=CompactionPolicy(small_files=5, max_partitions=1, min_bytes=0))
    found = state(partition("a", 30), partition("b", 10), partition("c", 9))
    unknown = intents(compaction(found, one))[0]
    assert unknown.partitions == ("a",)
    reads = {"nyc.flights": DailyReads(partitions={"a": 1.0, "b": 40.0})}
    (due,) = intents(compaction(found, one, reads=reads))
    assert due.partitions == ("b",)
    assert due.reason == "partition dt=b: 10 small files ≥ 5; read 40 times a day: compact"
    # Each is worth as much as the reads that it helps.
    elsewhere = {"nyc.others": DailyReads(whole=9.0)}
    (plain,) = intents(compaction(state(partition("b", 10)), one, reads=elsewhere))
    (read,) = intents(compaction(state(partition("b", 10)), one, reads=reads))
    assert read.score == pytest.approx(41 * plain.score)


def test_rows_that_no_reader_sees_come_before_all_else() -> None:
    waiting = partition("a", 1, waiting_files=1, waiting_rows=1)
    (due,) = compaction(state(waiting, keyed=True))
    assert due.reason == "partition dt=a: 1 file with 1 row waits for a compaction: compact"
    assert (due.why, due.score) == (Why.ROWS_WAIT, float("inf"))
    assert due.benefit.rows_shown == 1


def test_a_bucket_at_which_a_stream_waits_is_compacted_whatever_the_policy_waits_for() -> None:
    patient = CompactionPolicy.model_validate(
        {"small_files": 50, "quiet_for": "1h", "hours": "23:00-06:00"}
    )
    runs = state(partition("a", 8, sorted_runs=8), keyed=True)
    policy = UpkeepPolicy(compaction=patient)
    (left,) = compaction(runs, policy)
    assert left.why_not is WhyNot.HEALTHY
    decided = decide(runs, policy, Past(), CLOCK, is_streamed=True)
    (due,) = [each for each in intents(decided) if each.verb == "compact"]
    assert (due.why, due.score) == (Why.WRITERS_WAIT, float("inf"))
    assert "8 sorted runs ≥ 8, at which its stream waits" in due.reason


def test_a_compaction_does_not_wait_for_the_moments_between_runs_of_a_stream() -> None:
    def due(verb: str, *, is_streamed: bool) -> bool:
        past = Past(in_flight={"nyc.flights": (Running(verb, "run 7"),)})
        decided = decide(state(partition("a", 9)), SMALL, past, CLOCK, is_streamed=is_streamed)
        return any(each.verb == "compact" for each in intents(decided))

    assert due("ingest", is_streamed=True)
    assert not due("ingest", is_streamed=False)
    assert not due("compact", is_streamed=True)
    assert not due("backfill", is_streamed=True)


def test_little_work_waits_until_it_is_worth_a_run_or_has_waited_long() -> None:
    policy = UpkeepPolicy(
        compaction=CompactionPolicy.model_validate({"min_bytes": "1 MB", "at_latest": "1h"})
    )
    (waits,) = compaction(state(partition("a", 9)), policy)
    assert waits.why_not is WhyNot.TOO_LITTLE
    assert waits.again_ms == NOW_MS + HOUR_MS
    old = partition("a", 9, last_file_creation_ms=NOW_MS - HOUR_MS)
    assert intents(compaction(state(old), policy))
    large = partition("a", 9, small_bytes=1 << 20)
    assert intents(compaction(state(large), policy))
    many = 20 * policy.compaction.small_files
    (waits,) = compaction(state(partition("a", many - 1)), policy)
    assert waits.why_not is WhyNot.TOO_LITTLE
    assert intents(compaction(state(partition("a", many)), policy))


def test_without_a_policy_kilobytes_wait_unless_readers_do() -> None:
    usual = UpkeepPolicy()
    (waits,) = compaction(state(partition("a", 40)), usual)
    assert waits.why_not is WhyNot.TOO_LITTLE
    assert "waits, 3.9 KiB of 32.0 MiB" in waits.reason
    assert waits.again_ms == NOW_MS + HOUR_MS
    for readers_wait in (
        partition("a", 100),
        partition("a", 5, small_bytes=32 << 20),
        partition("a", 5, last_file_creation_ms=NOW_MS - HOUR_MS),
    ):
        assert intents(compaction(state(readers_wait), usual))


def test_few_bytes_are_rewritten_where_readers_merge_many_sorted_runs() -> None:
    usual = UpkeepPolicy()
    (waits,) = compaction(state(partition("a", sorted_runs=9), keyed=True), usual)
    assert waits.why_not is WhyNot.TOO_LITTLE
    (due,) = compaction(state(partition("a", sorted_runs=10), keyed=True), usual)
    assert due.why is Why.SORTED_RUNS
    hidden = partition("a", 1, waiting_files=1, waiting_rows=1)
    assert intents(compaction(state(hidden, keyed=True), usual))


def test_a_partition_that_is_written_is_left_until_it_is_quiet() -> None:
    policy = UpkeepPolicy(
        compaction=CompactionPolicy.model_validate({"quiet_for": "60s", "min_bytes": "0 b"})
    )
    (waits,) = compaction(state(partition("a", 9, last_file_creation_ms=NOW_MS - 59_000)), policy)
    assert waits.reason.endswith("waits, written 59 s ago, until it is quiet for 60 s")
    assert waits.again_ms == NOW_MS + 1000
    quiet = partition("a", 9, last_file_creation_ms=NOW_MS - 60_000)
    assert intents(compaction(state(quiet), policy))


def test_rewrites_wait_for_their_hours_unless_rows_wait() -> None:
    # 22:13 in UTC.
    hours = DayHours.parse("23:00-06:00")
    policy = UpkeepPolicy(compaction=CompactionPolicy(hours=hours, min_bytes=0))
    (waits,) = compaction(state(partition("a", 9)), policy)
    assert waits.why_not is WhyNot.OUT_OF_HOURS
    assert "23:00-06:00" in waits.reason
    assert waits.again_ms > NOW_MS
    urgent = partition("a", 9, waiting_files=1, waiting_rows=5)
    assert intents(compaction(state(urgent), policy))


def test_work_of_one_run_is_bounded_and_the_rest_waits() -> None:
    policy = UpkeepPolicy(compaction=CompactionPolicy(max_partitions=1, min_bytes=0))
    waits, due = compaction(state(partition("a", 9), partition("b", 9)), policy)
    assert due.partitions == ("a",)
    assert (waits.partition, waits.why_not) == ("b", WhyNot.CAPPED)


@pytest.mark.parametrize("verb", ["ingest", "compact", "rewrite_manifests", "respec", "my_job"])
def test_a_compaction_waits_for_what_writes_or_rewrites_its_table(verb: str) -> None:
    running = (Running(verb, "run 7"),)
    (waits,) = compaction(state(partition("a", 9)), in_flight={"nyc.flights": running})
    assert waits.why_not is WhyNot.IN_FLIGHT
    assert waits.reason.endswith(": waits for run 7")
    assert intents(compaction(state(partition("a", 9)), in_flight={"nyc.other": running}))


@pytest.mark.parametrize("verb", ["expire_snapshots", "remove_orphans", "collect"])
def test_a_compaction_does_not_wait_for_what_only_deletes(verb: str) -> None:
    running = (Running(verb, "run 7"),)
    assert intents(compaction(state(partition("a", 9)), in_flight={"nyc.flights": running}))


def test_what_came_to_nothing_is_asked_for_later_and_later_and_then_once_a_day() -> None:
    found = state(partition("a", 9))
    (due,) = intents(compaction(found))
    waited = []
    for times in (*range(1, 11), 400):
        tries = {("nyc.flights", "compact"): Try(state=due.state, ended_ms=NOW_MS, times=times)}
        (waits,) = compaction(found, tries=tries)
        assert waits.why_not is WhyNot.ASKED_BEFORE
        assert waits.again_ms is not None
        waited.append((waits.again_ms - NOW_MS) // 60_000)
        later = replace(CLOCK, now_ms=waits.again_ms)
        assert intents(decide(found, SMALL, Past(tries=tries), later))
    assert waited == [10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440, 1440]
    assert intents(compaction(state(partition("a", 10)), tries=tries))


def test_another_policy_is_tried_at_once_in_a_state_in_which_one_came_to_nothing() -> None:
    found = state(partition("a", 9))
    (due,) = intents(compaction(found))
    for times in (1, 8):
        tried = Try(state=due.state, ended_ms=NOW_MS, policy=due.policy, times=times)
        tries = {("nyc.flights", "compact"): tried}
        (waits,) = compaction(found, tries=tries)
        assert waits.why_not is WhyNot.ASKED_BEFORE
        full = UpkeepPolicy(compaction=SMALL.compaction.model_copy(update={"full": True}))
        assert intents(compaction(found, full, tries=tries))


def own(found: UpkeepState) -> UpkeepState:
    return replace(found, survey=replace(found.survey, table=LEDGER))


def test_a_verb_that_failed_on_the_ledger_waits_although_its_row_made_another_state() -> None:
    found = own(state(partition("a", 9)))
    failed = Try(state="before the row", ended_ms=NOW_MS, error="OSError: disk is full")
    (waits,) = compaction(found, tries={(LEDGER, "compact"): failed})
    assert (waits.why_not, waits.again_ms) == (WhyNot.ASKED_BEFORE, NOW_MS + 600_000)
    assert intents(compaction(found, tries={(LEDGER, "compact"): replace(failed, error="")}))
    key = ("nyc.flights", "compact")
    assert intents(compaction(state(partition("a", 9)), tries={key: failed}))


@pytest.mark.parametrize(("count", "due"), [(19, False), (20, True)])
def test_an_expiry_of_the_ledger_is_due_once_it_gains_more_than_its_own_row(
    count: int, due: bool
) -> None:
    found = snapshots(own(old_table(count)))
    assert isinstance(found, Intent) is due
    if not due:
        assert "9 snapshots of 19 may go, fewer than 10: leave" in found.reason


def snapshots(found: UpkeepState, policy: UpkeepPolicy = SMALL, **past: Any) -> Any:
    decided = decide(found, policy, Past(**past), CLOCK)
    (only,) = [each for each in decided if each.verb == "expire_snapshots"]
    return only


def old_table(count: int, **more: Any) -> UpkeepState:
    found = state(partition("a", 1), created_ms=0, **more)
    history = replace(found.survey.history, snapshots=count, earliest_ms=NOW_MS - 9 * HOUR_MS)
    return replace(found, survey=replace(found.survey, history=history))


def test_expiry_is_due_once_after_each_moment_of_its_schedule() -> None:
    found = old_table(12)
    due = snapshots(found)
    assert isinstance(due, Intent)
    assert (due.why, due.benefit.snapshots_fewer) == (Why.SCHEDULED, 2)
    key = ("nyc.flights", "expire_snapshots")
    assert isinstance(snapshots(found, done_ms={key: TICK_MS - 1}), Intent)
    done = snapshots(found, done_ms={key: TICK_MS})
    assert done.why_not is WhyNot.NOT_YET
    # A table is not behind with what was due before it was there.
    assert snapshots(replace(found, created_ms=TICK_MS)).why_not is WhyNot.NOT_YET


@pytest.mark.parametrize("verb", ["ingest", "compact", "rewrite_manifests", "remove_orphans"])
def test_expiry_goes_beside_writers_and_rewrites(verb: str) -> None:
    running = {"nyc.flights": (Running(verb, "run 7"),)}
    assert isinstance(snapshots(old_table(12), in_flight=running), Intent)


@pytest.mark.parametrize("verb", ["expire_snapshots", "rollback", "respec", "my_job"])
def test_expiry_waits_for_its_like_and_for_what_no_policy_asks_for(verb: str) -> None:
    running = {"nyc.flights": (Running(verb, "run 7"),)}
    waits = snapshots(old_table(12), in_flight=running)
    assert waits.why_not is WhyNot.IN_FLIGHT


def test_a_table_that_was_dropped_and_made_again_is_another_one() -> None:
    again = replace(old_table(12), created_ms=TICK_MS - 10)
    key = ("nyc.flights", "expire_snapshots")
    due = snapshots(again, done_ms={key: TICK_MS - 20})
    assert isinstance(due, Intent)
    tried = Try(state=due.state, ended_ms=TICK_MS - 2000, times=8)
    assert isinstance(snapshots(again, tries={key: tried}), Intent)
    assert snapshots(old_table(12), tries={key: tried}).why_not is WhyNot.ASKED_BEFORE


def test_a_verb_on_a_schedule_comes_next_after_a_compaction() -> None:
    found = old_table(12)
    assert snapshots(found).score < float("inf")
    assert snapshots(found, done_ms={("nyc.flights", "compact"): TICK_MS}).score == float("inf")


def test_expiry_follows_the_policy_where_it_says_more_than_the_table() -> None:
    found = old_table(5)
    assert snapshots(found).why_not is WhyNot.HEALTHY
    policy = UpkeepPolicy.model_validate({"snapshots": {"retain_min": 2}})
    assert snapshots(found, policy).benefit.snapshots_fewer == 3
    kept = UpkeepPolicy.model_validate({"snapshots": {"retain_min": 2, "time_retained": "1d"}})
    assert snapshots(found, kept).why_not is WhyNot.HEALTHY


def of_verb(verb: str, found: UpkeepState, policy: UpkeepPolicy = SMALL, **past: Any) -> Any:
    decided = [each for each in decide(found, policy, Past(**past), CLOCK) if each.verb == verb]
    assert len(decided) <= 1
    return decided[0] if decided else None


def tagged_table(**ages_h: int) -> UpkeepState:
    found = old_table(5, tags_made_ms={k: NOW_MS - v * HOUR_MS for k, v in ages_h.items()})
    history = replace(found.survey.history, tags=len(ages_h))
    return replace(found, survey=replace(found.survey, history=history))


def test_tags_are_asked_for_by_their_age_and_with_their_number() -> None:
    found = tagged_table(nightly_1=50, nightly_2=30, nightly_3=1, release_1=900)
    policy = UpkeepPolicy.model_validate({"tags": {"older_than": "1d", "spare": ["release_*"]}})
    due = of_verb("expire_tags", found, policy)
    assert (due.why, due.benefit.tags_fewer, due.cost.files) == (Why.SCHEDULED, 2, 2)
    assert "4 tags, 2 of them older than 1 day;" in due.reason
    assert due.policy == policy_digest(policy.tags)
    key = ("nyc.flights", "expire_tags")
    assert of_verb("expire_tags", found, policy, done_ms={key: NOW_MS}).why_not is WhyNot.NOT_YET
    # Without an age, those whose own time ends are found when they are planned.
    assert of_verb("expire_tags", found).benefit.tags_fewer == 0
    assert of_verb("expire_tags", old_table(5), policy) is None


def test_changelogs_are_asked_for_with_the_number_beyond_the_policy() -> None:
    found = old_table(3)
    history = replace(found.survey.history, changelogs=20)
    found = replace(found, survey=replace(found.survey, history=history))
    policy = UpkeepPolicy.model_validate({"changelogs": {"retain_min": 2, "retain_max": 8}})
    due = of_verb("expire_changelogs", found, policy)
    assert (due.why, due.benefit.changelogs_fewer) == (Why.SCHEDULED, 15)
    own = replace(found, changelog_retention=RetentionSettings(retain_min=9, retain_max=22))
    assert of_verb("expire_changelogs", own).benefit.changelogs_fewer == 1
    wrong = UpkeepPolicy.model_validate({"changelogs": {"retain_max": 8}})
    declined = of_verb("expire_changelogs", own, wrong)
    assert declined.why_not is WhyNot.CONTRADICTION
    assert "retain_max (8) is below retain_min (9)" in declined.reason
    assert of_verb("expire_changelogs", old_table(3), policy) is None


@pytest.mark.parametrize(("verb", "section"), [("tags", "tags"), ("changelogs", "changelogs")])
def test_tags_and_changelogs_stay_where_the_policy_or_an_option_forbids_it(
    verb: str, section: str
) -> None:
    found = tagged_table(nightly=50)
    history = replace(found.survey.history, changelogs=20)
    found = replace(found, survey=replace(found.survey, history=history))
    verb = f"expire_{verb}"
    off = UpkeepPolicy.model_validate({section: {"enabled": False}})
    assert of_verb(verb, found, off).why_not is WhyNot.DISABLED
    refused = replace(found, survey=replace(found.survey, refused={"expire": "its option says so"}))
    assert of_verb(verb, refused).why_not is WhyNot.READ_ONLY
    frozen = UpkeepPolicy.model_validate({"freeze": True})
    assert of_verb(verb, found, frozen) is None
    running = {"nyc.flights": (Running("expire_snapshots", "run 7"),)}
    assert of_verb(verb, found, in_flight=running).why_not is WhyNot.IN_FLIGHT
    beside = {"nyc.flights": (Running("compact", "run 7"),)}
    assert isinstance(of_verb(verb, found, in_flight=beside), Intent)


def test_manifests_are_due_by_their_number() -> None:
    found = state(partition("a", 1))
    figures = ManifestFigures(manifests=120, bytes=5, small=100)
    survey = replace(found.survey, manifests=figures)
    decided = decide(replace(found, survey=survey), SMALL, Past(), CLOCK)
    assert [each.verb for each in intents(decided)] == ["rewrite_manifests"]
    survey = replace(found.survey, manifests=replace(figures, small=99))
    assert not intents(decide(replace(found, survey=survey), SMALL, Past(), CLOCK))


@pytest.mark.parametrize(
    ("changes", "policy", "why_not"),
    [
        ({"problem": "no such file"}, SMALL, WhyNot.UNREADABLE),
        ({"read_only": "a later format"}, SMALL, WhyNot.READ_ONLY),
        ({}, UpkeepPolicy(freeze=True), WhyNot.FROZEN),
    ],
)
def test_nothing_is_done_to_a_table_that_cannot_or_must_not_be_kept(
    changes: dict[str, Any], policy: UpkeepPolicy, why_not: WhyNot
) -> None:
    found = state(partition("a", 99))
    found = replace(found, survey=replace(found.survey, **changes))
    (only,) = decide(found, policy, Past(), CLOCK)
    assert isinstance(only, Declined)
    assert only.why_not is why_not


def test_a_use_that_the_table_refuses_is_declined_by_its_reason() -> None:
    found = state(partition("a", 99))
    found = replace(found, survey=replace(found.survey, refused={"compact": "an unknown index"}))
    (only,) = compaction(found)
    assert (only.why_not, only.reason) == (
        WhyNot.READ_ONLY,
        "nyc.flights, compact: an unknown index",
    )


@given(
    files=st.lists(st.integers(0, 40), max_size=6),
    threshold=st.integers(2, 20),
    frozen=st.booleans(),
)
def test_equal_input_gives_equal_decisions_and_every_partition_one(
    files: list[int], threshold: int, frozen: bool
) -> None:
    found = state(*[partition(str(at), count) for at, count in enumerate(files)])
    policy = UpkeepPolicy(
        compaction=CompactionPolicy(small_files=threshold, min_bytes=0), freeze=frozen
    )
    first, second = (decide(found, policy, Past(), CLOCK) for _ in range(2))
    assert first == second
    if frozen:
        return
    told = [each for each in first if each.verb == "compact"]
    named = [each.partition for each in told if isinstance(each, Declined)]
    named += [key for each in intents(told) for key in each.partitions or ()]
    assert sorted(filter(None, named)) == sorted(str(at) for at in range(len(files)))


def test_what_is_predicted_is_what_earlier_runs_teach() -> None:
    learned = Calibration(
        {("compact", None): Ratios(time=3.0, compression=0.25, share=0.5, runs=5)}
    )
    found = state(partition("a", 24))
    (first,), (taught,) = compaction(found), compaction(found, learned=learned)
    assert (first.cost.bytes, first.cost.files, first.cost.bytes_written) == (2400, 24, 2400)
    assert first.cost.milliseconds == round(modelled_ms(first.cost))
    assert (taught.cost.bytes, taught.cost.files) == (2400, 24)
    assert taught.cost.bytes_written == 300
    assert taught.cost.milliseconds == round(3 * modelled_ms(Cost(bytes=1200, files=12)))
    assert taught.benefit == Benefit(files_fewer=12, runs_fewer=0, bytes_fewer=900)
    # The order of intents and what is asked for do not depend on it.
    assert (taught.score, taught.state, taught.reason) == (first.score, first.state, first.reason)


def test_small_files_are_predicted_to_lose_what_each_has_beside_its_rows() -> None:
    found = state(partition("a", 24))
    known = replace(found, survey=replace(found.survey, empty_bytes=60))
    others = {("compact", None): Ratios(compression=0.9, runs=5)}
    (first,), (taught,) = (compaction(known), compaction(known, learned=Calibration(others)))
    # Of 24 files of 100 bytes one is left.
    assert first.cost.bytes_written == taught.cost.bytes_written == 2400 - 23 * 60
    assert first.benefit.bytes_fewer == 23 * 60
    (own,) = compaction(
        known, learned=Calibration({("compact", "nyc.flights"): Ratios(compression=0.25, runs=5)})
    )
    assert own.cost.bytes_written == 600


GIB = 1 << 30


@pytest.mark.parametrize(
    ("count", "buckets", "size", "told"),
    [
        (4, 8, 80 * GIB, "far too large; with 40 buckets instead of 4 a bucket has 1.0 GiB"),
        (16, 160, 5 * GIB, "far too small; with 2 buckets instead of 16 a bucket has 256.0 MiB"),
        # Not far, few, or no number was chosen.
        (4, 8, 24 * GIB, None),
        (16, 16, GIB, None),
        (-1, 8, 80 * GIB, None),
        (1, 200, GIB, None),
    ],
)
def test_buckets_of_a_wrong_size_are_told_and_never_rescaled(
    count: int, buckets: int, size: int, told: str | None
) -> None:
    found = state()
    survey = replace(
        found.survey,
        bucket=count,
        files=FileFigures(bytes=size),
        layout=LayoutFigures(partitions=buckets // abs(count), buckets=buckets),
    )
    decided = decide(replace(found, survey=survey), UpkeepPolicy(), Past(), CLOCK)
    hints = [each for each in decided if each.verb == "rescale"]
    assert len(hints) == (told is not None)
    if told is not None:
        (hint,) = hints
        assert isinstance(hint, Declined)
        assert hint.why_not is WhyNot.HINT
        assert told in hint.reason
        assert "lakewright rescale nyc.flights --buckets " in hint.reason
        silent = UpkeepPolicy(rescale=RescalePolicy(hint=False))
        assert not [
            each
            for each in decide(replace(found, survey=survey), silent, Past(), CLOCK)
            if each.verb == "rescale"
        ]


def test_work_of_an_unknown_size_is_predicted_to_take_as_long_as_before() -> None:
    learned = Calibration({("expire_partitions", None): Ratios(milliseconds=700.0, runs=5)})
    policy = UpkeepPolicy(partitions=PartitionPolicy(older_than="1h"))
    found = state(partition("a"), created_ms=0)
    decided = decide(found, policy, Past(learned=learned), CLOCK)
    (due,) = [each for each in intents(decided) if each.verb == "expire_partitions"]
    assert due.cost == Cost(milliseconds=700)


def test_a_removal_of_orphans_comes_in_the_order_of_what_its_collection_will_free() -> None:
    """What is set aside frees nothing yet, so nothing is predicted to be freed."""
    found = state(partition("a"), created_ms=0)
    orphans = OrphanFigures(estimated_files=8, estimated_bytes=64 << 20)
    found = replace(found, survey=replace(found.survey, orphans=orphans))
    decided = intents(decide(found, UpkeepPolicy(), Past(), CLOCK))
    (due,) = [each for each in decided if each.verb == "remove_orphans"]
    assert (due.cost.files, due.benefit) == (8, Benefit())
    assert due.score == 64


def test_what_was_undone_waits_for_new_rows_or_another_policy() -> None:
    held = TakenBack(run="1f0c", by="lakewright undo (9a)", at_ms=NOW_MS - HOUR_MS)
    old = partition("a", 9, last_file_creation_ms=NOW_MS - 2 * HOUR_MS)
    new = partition("b", 9, last_file_creation_ms=NOW_MS - HOUR_MS + 1)
    by_policy = replace(held, policy=policy_digest(SMALL.compaction))

    for each in (held, by_policy):
        taken = {("nyc.flights", "compact"): replace(each, table_uuid="u")}
        declined, due = compaction(state(old, new), taken_back=taken)
        assert (declined.partition, declined.why_not) == ("a", WhyNot.UNDONE)
        assert "run 1f0c did it and lakewright undo (9a) took it back" in declined.reason
        assert due.partitions == ("b",)
        assert due.policy == policy_digest(SMALL.compaction)

    other = UpkeepPolicy(compaction=CompactionPolicy(small_files=6, min_bytes=0))
    taken = {("nyc.flights", "compact"): by_policy}
    (again,) = compaction(state(old), other, taken_back=taken)
    assert isinstance(again, Intent)
    taken = {("nyc.flights", "compact"): replace(held, table_uuid="one that was dropped")}
    assert intents(compaction(state(old), taken_back=taken))


def test_partitions_that_an_undo_brought_back_are_not_dropped_at_the_next_tick() -> None:
    policy = UpkeepPolicy.model_validate({"partitions": {"older_than": "30d"}})
    taken = {("nyc.flights", "expire_partitions"): TakenBack(run="1f0c", by="9a", at_ms=NOW_MS)}
    found = state(partition("a", 1, last_file_creation_ms=NOW_MS + 1), created_ms=None)

    def expiry(given: UpkeepPolicy, **past: Any) -> Any:
        decided = decide(found, given, Past(**past), CLOCK)
        (only,) = [each for each in decided if each.verb == "expire_partitions"]
        return only

    assert isinstance(expiry(policy), Intent)
    declined = expiry(policy, taken_back=taken)
    assert (declined.why_not, declined.again_ms) == (WhyNot.UNDONE, None)


# --- partition keys -----------------------------------------------------------------------------


def keys_asked(*keys: str, **more: Any) -> UpkeepPolicy:
    return UpkeepPolicy(respec=RespecPolicy.model_validate({"keys": keys, **more}))


def of_keys(*present: str, keyed: bool = False, **more: Any) -> UpkeepState:
    found = state(keyed=keyed, **more)
    survey = replace(
        found.survey,
        partition_keys=present,
        primary_keys=("dt", "id") if keyed else (),
        files=FileFigures(files=10, bytes=1 << 30),
    )
    return replace(found, survey=survey)


def respec(found: UpkeepState, policy: UpkeepPolicy, **past: Any) -> Any:
    declared = past.pop("declared_keys", None)
    decided = decide(found, policy, Past(**past), CLOCK, declared_keys=declared)
    (one,) = [each for each in decided if each.verb == "respec"] or [None]
    return one


def test_keys_that_differ_from_the_policy_are_due_and_equal_ones_are_left() -> None:
    due = respec(of_keys("dt"), keys_asked("dt", "origin"))
    assert isinstance(due, Intent)
    assert due.reason == (
        "nyc.flights: partition keys (dt), by its policy (dt, origin): change, and a filter on "
        "origin opens the files of its values alone"
    )
    assert (due.why, due.partitions) == (Why.PARTITION_KEYS, None)
    assert due.cost.milliseconds == round(modelled_ms(due.cost, "respec")) > 40_000
    left = respec(of_keys("dt", "origin"), keys_asked("dt", "origin"))
    assert isinstance(left, Declined)
    assert left.why_not is WhyNot.HEALTHY
    assert respec(of_keys("dt"), UpkeepPolicy()) is None
    none = respec(of_keys("dt"), keys_asked())
    assert isinstance(none, Intent)
    assert "partition keys (dt), by its policy ()" in none.reason


def test_a_primary_key_of_the_policy_counts_whatever_the_order_of_its_columns() -> None:
    found = of_keys("dt", keyed=True)
    assert isinstance(respec(found, keys_asked("dt", primary_key=["dt", "x"])), Intent)
    same = respec(found, keys_asked("dt", primary_key=["id", "dt"]))
    assert same.why_not is WhyNot.HEALTHY
    # That a table without a primary key gets none is no reason to decline for ever.
    append = respec(of_keys("dt"), keys_asked("dt", primary_key=["dt", "id"]))
    assert append.why_not is WhyNot.HEALTHY


@pytest.mark.parametrize(
    ("present", "wanted", "keyed", "times"),
    [
        (("dt",), ("dt", "origin"), False, 1),
        # Where keys only go, files stay as they are.
        (("dt", "origin"), ("dt",), False, 0),
        (("dt", "origin"), ("dt", "hh"), False, 1),
        (("dt",), ("dt", "id"), True, 1),
        (("dt", "id"), ("dt",), True, 1),
        # The rows are written in both steps.
        (("dt",), ("id",), True, 2),
    ],
)
def test_a_change_is_predicted_to_rewrite_at_most_what_its_steps_write(
    present: tuple[str, ...], wanted: tuple[str, ...], keyed: bool, times: int
) -> None:
    due = respec(of_keys(*present, keyed=keyed), keys_asked(*wanted))
    assert (due.cost.bytes, due.cost.bytes_written) == (times << 30, times << 30)
    assert (due.cost.files, due.cost.files_named) == (10 if times else 0, 0 if keyed else 10)


def test_a_declaration_decides_over_the_keys_of_a_policy() -> None:
    kept = respec(of_keys("dt"), keys_asked("dt", "origin"), declared_keys=("dt",))
    assert kept.why_not is WhyNot.DECLARED
    assert "its declaration says partition_keys (dt), and decides" in kept.reason


@pytest.mark.parametrize(
    "why_not", [WhyNot.CONTRADICTION, WhyNot.UNSUPPORTED, WhyNot.BLOCKED], ids=str
)
def test_keys_that_a_table_cannot_have_are_declined_by_its_own_words(why_not: WhyNot) -> None:
    change = PolicyKeys(keys=("dt", "x"), why_not=why_not, problem="'x' is no column")
    declined = respec(of_keys("dt", keys_change=change), keys_asked("dt", "x"))
    assert declined.why_not is why_not
    assert "'x' is no column" in declined.reason
    # It was read for these keys, and says nothing of others.
    assert isinstance(respec(of_keys("dt", keys_change=change), keys_asked("id")), Intent)


@pytest.mark.parametrize(
    ("policy", "why_not"),
    [
        (keys_asked("id", enabled=False), WhyNot.DISABLED),
        (keys_asked("id", hours="23:00-06:00"), WhyNot.OUT_OF_HOURS),
    ],
    ids=["disabled", "out of hours"],
)
def test_a_policy_keeps_a_change_of_keys_back(policy: UpkeepPolicy, why_not: WhyNot) -> None:
    declined = respec(of_keys("dt"), policy)
    assert declined.why_not is why_not
    if why_not is WhyNot.OUT_OF_HOURS:
        assert declined.again_ms > NOW_MS


def test_a_refused_change_says_its_error_and_new_rows_let_it_not_be_asked_again() -> None:
    policy = keys_asked("dt", "origin")
    asked = respec(of_keys("dt"), policy).state
    tries = {("nyc.flights", "respec"): Try(state=asked, ended_ms=NOW_MS - 1, error="too many")}
    written = of_keys("dt")
    history = replace(written.survey.history, latest_snapshot=9)
    written = replace(written, survey=replace(written.survey, history=history))
    waits = respec(written, policy, tries=tries)
    assert waits.why_not is WhyNot.ASKED_BEFORE
    assert waits.reason.endswith("; it ended with too many")
    assert waits.again_ms is not None
    for other in (
        keys_asked("dt", "origin", max_partitions=20_000),
        keys_asked("dt", "origin", max_files=200_000),
        keys_asked("dt", "hh"),
    ):
        assert isinstance(respec(written, other, tries=tries), Intent)
    assert isinstance(respec(of_keys("origin"), policy, tries=tries), Intent)


def away(count: int, **figures: object) -> UpkeepState:
    found = state(partition("a", 2))
    files = replace(found.survey.files, away_files=count, away_bytes=count << 30)
    return replace(found, survey=replace(found.survey, files=files, **figures))  # type: ignore[arg-type]


def settled(found: UpkeepState, **policy: object) -> list[Decision]:
    asked = UpkeepPolicy(settle=SettlePolicy(**policy))  # type: ignore[arg-type]
    return [each for each in decide(found, asked, Past(), CLOCK) if each.verb == "settle"]


def test_files_that_are_away_come_home_some_at_a_time() -> None:
    (due,) = settled(away(40), max_bytes="10 GB")
    assert isinstance(due, Intent)
    assert due.why is Why.FILES_AWAY
    assert due.cost.bytes < 40 << 30
    assert 0 < due.cost.files < 40
    assert "40 files" in due.reason
    assert settled(away(0)) == []


def test_files_stay_away_where_the_policy_or_the_table_says_so() -> None:
    (off,) = settled(away(1), enabled=False)
    (refused,) = settled(away(1, refused={"compact": "why"}))
    assert isinstance(off, Declined)
    assert isinstance(refused, Declined)
    assert (off.why_not, refused.why_not) == (WhyNot.DISABLED, WhyNot.READ_ONLY)


# --- changes of partition keys that were stopped --------------------------------------------------


def stopped(
    *partitions: PartitionHealth,
    at: int = 7,
    latest_ms: int = NOW_MS - HOUR_MS,
    kind: str = "COMPACT",
) -> UpkeepState:
    found = state(*partitions)
    history = replace(
        found.survey.history, latest_snapshot=at, latest_ms=latest_ms, latest_kind=kind
    )
    return replace(found, survey=replace(found.survey, history=history, has_other_keys=True))


@pytest.mark.parametrize(
    ("policy", "declared"),
    [(SMALL, None), (keys_asked("dt", "origin"), None), (keys_asked("dt"), ("dt", "origin"))],
    ids=["no keys in the policy", "other keys", "declared"],
)
def test_a_change_that_was_stopped_is_ended_first_with_the_keys_that_the_table_has(
    policy: UpkeepPolicy, declared: tuple[str, ...] | None
) -> None:
    """Verbs that rewrite or drop files would be refused until then."""
    found = stopped(partition("a", 24))
    (due,) = decide(found, policy, Past(), CLOCK, declared_keys=declared)
    assert isinstance(due, Intent)
    assert (due.verb, due.why) == ("respec", Why.STOPPED_CHANGE)
    assert due.options == {"keys": ["dt"], "keep_staged": True}
    assert due.reason.endswith("bring all files to the present keys (dt)")


def test_the_client_that_still_writes_under_former_keys_is_named_with_its_first_commit() -> None:
    writer = LateWriter(commit_user="flink-7", commits=12, first_ms=0, last_ms=NOW_MS)
    found = stopped()
    (due,) = decide(
        replace(found, survey=replace(found.survey, late_writers=(writer,))), SMALL, Past(), CLOCK
    )
    assert "commit user flink-7 (12 commits since 1970-01-01 00:00" in due.reason


def test_a_change_that_may_still_be_carried_out_is_given_its_moment() -> None:
    declined = respec(stopped(latest_ms=NOW_MS - 1_000), SMALL)
    assert declined.why_not is WhyNot.IN_FLIGHT
    assert NOW_MS < declined.again_ms < NOW_MS + 60_000
    for latest_ms in (NOW_MS - 60_000, NOW_MS - 30 * 24 * HOUR_MS):
        assert isinstance(respec(stopped(latest_ms=latest_ms), SMALL), Intent)
    # A client that commits late all the time would put it off for ever.
    assert isinstance(respec(stopped(latest_ms=NOW_MS - 1, kind="APPEND"), SMALL), Intent)


def test_an_end_that_fails_is_tried_seldom_and_other_upkeep_goes_on() -> None:
    asked = respec(stopped(at=7), SMALL).state
    failed = {("nyc.flights", "respec"): Try(state=asked, ended_ms=NOW_MS - 1, error="late rows")}
    decided = decide(stopped(partition("a", 24), at=9), SMALL, Past(tries=failed), CLOCK)
    (waits,) = [each for each in decided if each.verb == "respec"]
    assert isinstance(waits, Declined)
    assert waits.why_not is WhyNot.ASKED_BEFORE
    assert waits.reason.endswith("; it ended with late rows")
    assert [each.verb for each in intents(decided)] == ["compact"]


def test_an_end_that_worked_is_asked_for_again_after_the_next_late_commit() -> None:
    asked = respec(stopped(at=7), SMALL).state
    done = {("nyc.flights", "respec"): Try(state=asked, ended_ms=NOW_MS - 1)}
    assert respec(stopped(at=7), SMALL, tries=done).why_not is WhyNot.ASKED_BEFORE
    assert isinstance(respec(stopped(at=9), SMALL, tries=done), Intent)


def test_an_end_waits_for_a_change_that_runs_and_for_no_undo() -> None:
    running = {"nyc.flights": [Running(verb="respec", told="run 1 of respec")]}
    assert respec(stopped(), SMALL, in_flight=running).why_not is WhyNot.IN_FLIGHT
    held = {("nyc.flights", "respec"): TakenBack(run="r", by="u", at_ms=NOW_MS)}
    assert isinstance(respec(stopped(), SMALL, taken_back=held), Intent)
