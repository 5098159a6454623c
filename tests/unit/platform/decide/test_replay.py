"""Replays: the policy that ran comes near what the ledger has; another one says why it differs."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from lakewright.cli import main
from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.keepers import in_turn, options_by
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.decide.look import TableWatch
from lakewright.platform.decide.recorded_history import read_history
from lakewright.platform.decide.replay import Replay, replay
from lakewright.platform.decide.simulate import compacted
from lakewright.platform.ledger.action import Action
from lakewright.platform.ledger.intents import Intent
from lakewright.platform.ledger.known_work import Running
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.past import day_of
from lakewright.platform.ledger.recording import Recorder
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.platform.tables.partition_keys import decode_partition
from lakewright.platform.upkeep.health import PartitionHealth, partition_columns
from lakewright.platform.upkeep.measures import Measures
from lakewright.platform.upkeep.verb import Work
from lakewright.storage import Catalog
from tests.support.tables.builders import new_table, rows
from tests.support.tables.environment import START_MS, FixedEnv
from tests.support.tables.fixtures import memory_uri

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
HOURS = 18
THEN = """
warehouse:
  compaction: {min_bytes: 0 b, small_files: 6}
  snapshots: {time_retained: 5h, retain_min: 2, schedule: 0 */8 * * *}
  manifests: {min_count: 12}
  orphans: {enabled: false}
"""
QUIET = (
    "warehouse: {compaction: {enabled: false}, snapshots: {enabled: false}, "
    "orphans: {enabled: false}"
)


def kept(folder: Path, text: str) -> KeptTables:
    (folder / "policy.yaml").write_text(text)
    return KeptTables(files=PolicyFiles([folder / "policy.yaml"]), adopted=("db.*",))


def carry_out(
    catalog: Catalog, tables: KeptTables, intent: Intent, *, began_ms: int | None = None
) -> None:
    """What `lakewright upkeep` does with an intent; an earlier begin makes it a long run."""
    table = catalog.table(intent.table)
    options: Any = options_by(tables.table(intent.table).policy, intent.verb)
    if intent.partitions is not None:
        columns = partition_columns(table)
        specs = tuple(decode_partition(key, columns) for key in intent.partitions)
        options = replace(options, partitions=specs)
    recorder = replace(
        Recorder.of(catalog, warn=pytest.fail, make=True),
        reason=intent.reason,
        state=intent.state,
        predicted=Measures(cost=intent.cost, benefit=intent.benefit),
    )
    if began_ms is not None:

        def record(action: Action) -> None:
            cost = replace(action.cost, milliseconds=action.ended_ms - began_ms)
            Ledger(catalog).record_one(replace(action, started_ms=began_ms, cost=cost))

        recorder = replace(recorder, sinks=(record,))
    for verb in in_turn(intent.verb, table):
        recorder.carry_out(verb, table, options, Work(run="a run", session=lambda: None))


def live(
    catalog: Catalog, env: FixedEnv, tables: KeptTables, *, hours: int = HOURS, looks: int = 3
) -> None:
    """Writers and upkeep in turn: each hour two commits, and a look that does what is due."""
    events = new_table(
        catalog, {"k": "INT", "day": "STRING", "t": "STRING"}, name="db.events", partitions=["day"]
    )
    keyed = new_table(
        catalog, {"k": "INT", "t": "STRING"}, name="db.keyed", keys=["k"], options={"bucket": "2"}
    )
    chance = Random(7)

    def text() -> str:
        # Random text, so that data outweighs metadata.
        return chance.randbytes(60).hex()

    watch = TableWatch(tables)
    for hour in range(hours):
        env.clock.now_ms = START_MS + hour * HOUR_MS
        day = dt.datetime.fromtimestamp(env.now_ms() / 1000, dt.UTC).date().isoformat()
        events.write(rows(events, [{"k": each, "day": day, "t": text()} for each in range(300)]))
        keyed.write(rows(keyed, [{"k": hour * 300 + each, "t": text()} for each in range(300)]))
        for _ in range(looks):
            env.clock.advance(30_000)
            now_ms = env.now_ms()
            clock = Clock.at(now_ms)
            past = watch.recorded(catalog).past(day_begins_ms=day_of(now_ms, "UTC")[0])
            look = watch.look(catalog, past, clock)
            watch.record(catalog, look, now_ms=now_ms)
            for intent in look.choice.chosen:
                carry_out(catalog, tables, intent)
    env.clock.advance(HOUR_MS // 2)


@dataclass
class LongRuns:
    """Live upkeep whose verbs take their time: the looks in between are told what runs."""

    catalog: Catalog
    env: FixedEnv
    tables: KeptTables
    minutes: Mapping[str, int]
    running: dict[tuple[str, str], tuple[int, Intent]] = field(default_factory=dict)
    beside: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.watch = TableWatch(self.tables)

    def look(self) -> None:
        """End what is over by now, decide, and begin what is due."""
        now_ms = self.env.now_ms()
        for key, (began_ms, intent) in tuple(self.running.items()):
            if now_ms >= began_ms + self.minutes[intent.verb] * MINUTE_MS:
                carry_out(self.catalog, self.tables, intent, began_ms=began_ms)
                del self.running[key]
        in_flight: dict[str, list[Running]] = {}
        for table, verb in self.running:
            in_flight.setdefault(table, []).append(Running(verb, f"a run of {verb}"))
        past = self.watch.recorded(self.catalog).past(day_begins_ms=day_of(now_ms, "UTC")[0])
        clock = Clock.at(now_ms)
        look = self.watch.look(self.catalog, replace(past, in_flight=in_flight), clock)
        self.watch.record(self.catalog, look, now_ms=now_ms)
        for intent in look.choice.chosen:
            self.beside |= {
                (intent.verb, verb) for table, verb in self.running if table == intent.table
            }
            self.running[intent.table, intent.verb] = (now_ms, intent)


def live_with_long_runs(
    policy: KeptTables, minutes: Mapping[str, int], commits: Sequence[int]
) -> tuple[Catalog, LongRuns]:
    """Each hour some commits, and a look each quarter."""
    env = FixedEnv()
    catalog = Catalog.open(memory_uri(), env=env)
    events = new_table(catalog, {"k": "INT", "t": "STRING"}, name="db.events")
    runs = LongRuns(catalog, env, policy, minutes)
    chance = Random(7)
    for hour, count in enumerate(commits):
        env.clock.now_ms = START_MS + hour * HOUR_MS
        for _ in range(count):
            texts = [{"k": each, "t": chance.randbytes(60).hex()} for each in range(300)]
            events.write(rows(events, texts))
        for minute in range(1, 60, 15):
            env.clock.now_ms = START_MS + hour * HOUR_MS + minute * MINUTE_MS
            runs.look()
    return catalog, runs


def replayed(catalog: Catalog, tables: KeptTables) -> Replay:
    names = [each for each in ("db.events", "db.keyed") if catalog.table_exists(each)]
    history = read_history(catalog, names, since_ms=START_MS)
    policies = tables.files.current().policies
    return replay(
        history,
        lambda name: policies.of(name).policy,
        policies.budgets_of,
        timezone=policies.warehouse.budget.timezone,
    )


@dataclass(frozen=True)
class Recorded:
    """A warehouse that a policy has kept for some hours."""

    catalog: Catalog
    tables: KeptTables
    folder: Path

    def replayed(self, text: str) -> Replay:
        return replayed(self.catalog, kept(self.folder, text))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder, env = tmp_path_factory.mktemp("policies"), FixedEnv()
    catalog = Catalog.open(memory_uri(), env=env)
    tables = kept(folder, THEN)
    live(catalog, env, tables)
    return Recorded(catalog, tables, folder)


def error(then: float, now: float) -> float:
    return abs(now - then) / max(abs(then), 1)


def test_a_replay_of_the_policy_that_ran_comes_near_what_was_done(recorded: Recorded) -> None:
    same = recorded.replayed(THEN)
    # Runs whose sizes no merge suits find nothing to do; a replay does not foresee this.
    idle = Counter(
        table
        for step in same.then
        if step.verb == "compact" and not step.cost.files
        for table in (step.table, "all")
    )
    for each in (*same.rows(), same.total()):
        in_vain = idle[each.table] if each.verb in ("compact", "") else 0
        pairs = {
            "runs": (each.runs_then - in_vain, each.runs_now),
            "read": (each.cost_then.bytes, each.cost_now.bytes),
            "written": (each.cost_then.bytes_written, each.cost_now.bytes_written),
            "files": (each.benefit_then.files_fewer, each.benefit_now.files_fewer),
            "snapshots": (each.benefit_then.snapshots_fewer, each.benefit_now.snapshots_fewer),
            "freed": (each.benefit_then.bytes_freed, each.benefit_now.bytes_freed),
        }
        told = (f"{name} {a:,}/{b:,} {error(a, b):.0%}" for name, (a, b) in pairs.items())
        sys.stdout.write(f"{each.table} {each.verb}: {', '.join(told)}\n")
        # A keyed compaction takes only the buckets that are due, which no survey names.
        bound = 0.1 if each.table == "db.events" else 0.25
        if each.verb in ("compact", ""):
            assert max(error(*pairs[name]) for name in ("runs", "read", "written", "files")) < bound
        if each.verb == "expire_snapshots":
            assert pairs["snapshots"][0] > 10
            assert error(*pairs["runs"]) == 0
            assert error(*pairs["snapshots"]) < 0.2
    by_table = {each.table: each for each in same.open_files}
    assert error(by_table["db.events"].then, by_table["db.events"].now) < 0.15
    assert error(by_table["db.keyed"].then, by_table["db.keyed"].now) < 0.5


def test_another_policy_costs_and_gains_otherwise_and_each_decision_says_why(
    recorded: Recorded,
) -> None:
    lazy = recorded.replayed(
        THEN.replace("small_files: 6", "small_files: 12") + "tables:\n  db.keyed: {freeze: true}\n"
    )
    rows = {(each.table, each.verb): each for each in lazy.rows()}
    compaction = rows["db.events", "compact"]
    assert 0 < compaction.runs_now < compaction.runs_then
    assert compaction.cost_now.bytes < compaction.cost_then.bytes
    assert {each.table: each.now > each.then for each in lazy.open_files} == {
        "db.events": True,
        "db.keyed": True,
    }
    assert rows["db.keyed", "compact"].runs_now == 0
    assert lazy.total().cost_now.milliseconds < lazy.total().cost_then.milliseconds
    told = [(each.table, each.then, each.now) for each in lazy.differences]
    assert any(
        table == "db.events"
        and "6 small files ≥ 6: compact" in then
        and "6 small files < 12" in now
        for table, then, now in told
    )
    assert any("is frozen by its policy" in now for table, _, now in told if table == "db.keyed")


def test_a_budget_holds_in_a_replay_and_shadow_mode_does_not_count(recorded: Recorded) -> None:
    free = recorded.replayed(THEN)
    shadow = recorded.replayed(THEN + "  mode: shadow\n")
    assert shadow.now == free.now
    tight = recorded.replayed(THEN + "  budget: {bytes: 200 kB}\n")
    assert 0 < tight.total().cost_now.bytes < free.total().cost_now.bytes / 2
    assert any("left of the day's budget" in each.now for each in tight.differences)


def test_a_budget_of_one_table_holds_in_a_replay_for_that_table_alone(recorded: Recorded) -> None:
    free = recorded.replayed(THEN)
    tight = recorded.replayed(THEN + "tables:\n  db.events: {budget: {bytes: 200 kB}}\n")
    was, now = ({(row.table, row.verb): row for row in each.rows()} for each in (free, tight))
    of_events, of_keyed = ("db.events", "compact"), ("db.keyed", "compact")
    assert now[of_events].cost_now.bytes < was[of_events].cost_now.bytes / 2
    assert now[of_keyed].cost_now == was[of_keyed].cost_now
    budget = "day's budget of table db.events (200.0 KiB"
    assert any(budget in each.now for each in tight.differences)


def test_without_recorded_surveys_the_snapshots_that_are_kept_give_the_history(
    recorded: Recorded,
) -> None:
    env = FixedEnv()
    catalog = Catalog.open(memory_uri(), env=env)
    tables = kept(recorded.folder, "warehouse: {mode: shadow}\n")
    live(catalog, env, tables, hours=8, looks=0)
    history = read_history(catalog, ["db.events", "db.keyed"], since_ms=START_MS)
    assert history.rebuilt == {"db.events": 8, "db.keyed": 8}
    found = replayed(catalog, kept(recorded.folder, THEN))
    (compaction,) = [each for each in found.now if each.table == "db.events" and each.cost.bytes]
    assert compaction.reason == "partition day=2024-01-01: 6 small files ≥ 6: compact"
    assert found.then == ()
    assert all(each.now < each.then for each in found.open_files)
    # What was neglected before the span is there when it begins.
    late = read_history(catalog, ["db.events"], since_ms=START_MS + 7 * HOUR_MS + HOUR_MS // 4)
    (begun, _) = late.states["db.events"]
    assert (begun.survey.taken_ms, begun.survey.files.files) == (late.begins_ms, 8)


def test_the_command_tells_both_sides(
    catalog: Catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = new_table(catalog, {"k": "INT"}, name="db.a")
    for number in range(6):
        table.write(rows(table, [{"k": number}]))
    (tmp_path / "p.yaml").write_text("warehouse: {compaction: {min_bytes: 0 b, small_files: 5}}")
    policy = ["--policy", str(tmp_path / "p.yaml")]
    # The tables are of 2024, by the clock of these tests.
    call = ["--warehouse", catalog.uri, "replay", *policy, "--since", "9999d"]
    assert main([*call, "--only", "db.*"]) == 0
    told = capsys.readouterr().out
    assert "db.a" in told
    assert "0 / 1" in told
    assert "5 small files ≥ 5: compact" in told
    assert main([*call, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"]["runs_now"] >= 1
    assert main(["--warehouse", catalog.uri, "replay"]) == 2
    assert "no policy to replay" in capsys.readouterr().err


LONG = """
warehouse:
  compaction: {small_files: 5, min_bytes: 0 b}
  snapshots: {time_retained: 5h, retain_min: 2, schedule: 0 */6 * * *}
  manifests: {enabled: false}
  orphans: {enabled: false}
"""


@pytest.mark.deep
def test_what_comes_due_beside_a_long_run_is_done_as_it_was_live(tmp_path: Path) -> None:
    tables = kept(tmp_path, LONG)
    minutes = {"compact": 5, "expire_snapshots": 160}
    catalog, live = live_with_long_runs(tables, minutes, [2] * 23)
    assert ("compact", "expire_snapshots") in live.beside
    found = replayed(catalog, tables)
    assert [each.runs_then for each in found.rows()] == [11, 3]
    assert [each.runs_now for each in found.rows()] == [11, 3]
    assert found.differences == ()


# Each example is a day of a warehouse: shrinking one would take minutes.
@settings(
    max_examples=max(1, settings().max_examples // 50), phases=(Phase.explicit, Phase.generate)
)
@given(
    # A compaction ends before the next write: a longer one would join here what its plan lacked.
    st.fixed_dictionaries({"compact": st.integers(1, 45), "expire_snapshots": st.integers(1, 500)}),
    st.lists(st.integers(0, 3), min_size=16, max_size=16),
    st.integers(3, 6),
)
@example({"compact": 4, "expire_snapshots": 47}, [0, 2, 1, 2, 2, 1, 0, 1], 5)
@example({"compact": 1, "expire_snapshots": 1}, [0] * 14 + [3, 0], 3)
def test_the_policy_that_was_live_decides_again_what_was_decided_live(
    minutes: dict[str, int], commits: list[int], small_files: int
) -> None:
    with TemporaryDirectory() as folder:
        tables = kept(Path(folder), LONG.replace("small_files: 5", f"small_files: {small_files}"))
        catalog, live = live_with_long_runs(tables, minutes, commits)
        differences = replayed(catalog, tables).differences
    # The ledger has a run only when it has ended.
    assert [each for each in differences if (each.table, each.verb) not in live.running] == []


def test_a_compaction_of_few_buckets_leaves_fewer_runs_however_few_it_takes() -> None:
    bucketed = PartitionHealth(
        key="",
        spec={},
        row_count=900,
        file_count=64,
        size_bytes=6400,
        small_files=0,
        sorted_runs=6,
        worst_bucket=3,
        last_file_creation_ms=START_MS,
        small_bytes=6400,
        joined_files=64,
        buckets=32,
    )
    left = compacted(bucketed, keyed=True, target_bytes=1, shrinks=1.0, share=1 / 32, at_ms=1)
    assert left.sorted_runs < bucketed.sorted_runs


def test_a_replay_changes_partition_keys_once_and_only_where_a_policy_may(tmp_path: Path) -> None:
    env = FixedEnv()
    catalog = Catalog.open(memory_uri(), env=env)
    for name in ("db.events", "db.keyed"):
        table = new_table(catalog, {"k": "INT", "t": "STRING"}, name=name)
        for at in range(3):
            env.clock.now_ms = START_MS + at * HOUR_MS
            table.write(rows(table, [{"k": at, "t": "x"}]))

    def steps_with(keys: str) -> Replay:
        text = f"{QUIET}, respec: {{keys: [{keys}]}}}}"
        policies = kept(tmp_path, text).files.current().policies
        history = read_history(
            catalog,
            ["db.events", "db.keyed"],
            since_ms=START_MS,
            respec_of=lambda name: policies.of(name).policy.respec,
        )
        return replay(
            history,
            lambda name: policies.of(name).policy,
            policies.budgets_of,
            timezone=policies.warehouse.budget.timezone,
            declared_keys={"db.keyed": ()},
        )

    (step,) = steps_with("t").now
    assert (step.table, step.verb) == ("db.events", "respec")
    assert step.cost.bytes > 0
    assert steps_with("u").now == ()
