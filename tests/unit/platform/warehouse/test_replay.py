"""Replays: the policy that ran comes near what the ledger has; another one says why it differs."""

from __future__ import annotations

import datetime as dt
import json
import sys
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakewright.cli import main
from lakewright.platform.declare.partition_keys import decode_partition
from lakewright.platform.declare.policy_watch import PolicyFiles
from lakewright.platform.orchestration.cron import last_tick_ms, ticks_back
from lakewright.platform.upkeep.health import partition_columns
from lakewright.platform.upkeep.measures import Measures
from lakewright.platform.upkeep.verb import Work
from lakewright.platform.warehouse.clock import Clock
from lakewright.platform.warehouse.intents import Intent
from lakewright.platform.warehouse.keepers import KEEPERS
from lakewright.platform.warehouse.kept_tables import KeptTables
from lakewright.platform.warehouse.look import Watch
from lakewright.platform.warehouse.past import day_of
from lakewright.platform.warehouse.recorded_history import read_history
from lakewright.platform.warehouse.recording import Recorder
from lakewright.platform.warehouse.replay import Replay, replay
from lakewright.storage import Catalog
from tests.support.tables.builders import new_table, rows
from tests.support.tables.environment import START_MS, FixedEnv
from tests.support.tables.fixtures import memory_uri

HOUR_MS = 3_600_000
HOURS = 18
THEN = """
warehouse:
  compaction: {min_bytes: 0 b, small_files: 6}
  snapshots: {time_retained: 5h, retain_min: 2, schedule: 0 */8 * * *}
  manifests: {min_count: 12}
  orphans: {enabled: false}
"""


def kept(folder: Path, text: str) -> KeptTables:
    (folder / "policy.yaml").write_text(text)
    return KeptTables(files=PolicyFiles([folder / "policy.yaml"]), adopted=("db.*",))


def carry_out(catalog: Catalog, tables: KeptTables, intent: Intent) -> None:
    """What `lakewright upkeep` does with an intent."""
    table, keeper = catalog.table(intent.table), KEEPERS[intent.verb]
    options: Any = keeper.options(tables.table(intent.table).policy)
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
    for verb in keeper.verbs(table):
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

    watch = Watch(tables)
    for hour in range(hours):
        env.clock.now_ms = START_MS + hour * HOUR_MS
        day = dt.datetime.fromtimestamp(env.now_ms() / 1000, dt.UTC).date().isoformat()
        events.write(rows(events, [{"k": each, "day": day, "t": text()} for each in range(300)]))
        keyed.write(rows(keyed, [{"k": hour * 300 + each, "t": text()} for each in range(300)]))
        for _ in range(looks):
            env.clock.advance(30_000)
            now_ms = env.now_ms()
            clock = Clock(now_ms=now_ms, last_tick_ms=cache(partial(last_tick_ms, now_ms)))
            past = watch.recorded(catalog).past(day_begins_ms=day_of(now_ms, "UTC")[0])
            look = watch.look(catalog, past, clock)
            watch.record(catalog, look, now_ms=now_ms)
            for intent in look.choice.chosen:
                carry_out(catalog, tables, intent)
    env.clock.advance(HOUR_MS // 2)


def replayed(catalog: Catalog, tables: KeptTables) -> Replay:
    history = read_history(catalog, ["db.events", "db.keyed"], since_ms=START_MS)
    policies = tables.files.current().policies
    return replay(
        history,
        lambda name: policies.of(name).policy,
        policies.warehouse.budget,
        ticks_back=ticks_back,
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
    for each in (*same.rows(), same.total()):
        pairs = {
            "runs": (each.runs_then, each.runs_now),
            "read": (each.cost_then.bytes, each.cost_now.bytes),
            "written": (each.cost_then.bytes_written, each.cost_now.bytes_written),
            "files": (each.benefit_then.files_fewer, each.benefit_now.files_fewer),
            "snapshots": (each.benefit_then.snapshots_fewer, each.benefit_now.snapshots_fewer),
            "freed": (each.benefit_then.bytes_freed, each.benefit_now.bytes_freed),
        }
        told = (f"{name} {a:,}/{b:,} {error(a, b):.0%}" for name, (a, b) in pairs.items())
        sys.stdout.write(f"{each.table} {each.verb}: {', '.join(told)}\n")
        # A keyed compaction takes only the buckets that are due, which no survey names.
        bound = 0.1 if each.table == "db.events" else 0.35
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
