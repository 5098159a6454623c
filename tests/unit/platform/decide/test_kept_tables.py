"""Kept tables: the policies of the tables that Lakewright itself writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.keepers import in_turn, options_by
from lakewright.platform.decide.kept_tables import KeptTables
from lakewright.platform.decide.look import Look, TableWatch
from lakewright.platform.decide.surveys import OWN_TABLES, SURVEYS
from lakewright.platform.ledger.intents import Intent
from lakewright.platform.ledger.ledger import LEDGER
from lakewright.platform.ledger.recording import Recorder
from lakewright.platform.policies.policy_watch import PolicyFiles
from lakewright.platform.tables.partition_keys import decode_partition
from lakewright.platform.tables.upkeep_policies import CompactionPolicy, ManifestPolicy, SortPolicy
from lakewright.platform.upkeep.health import partition_columns
from lakewright.platform.upkeep.procedure import Work
from lakewright.storage import Catalog
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri

STEP_MS = 300_000
# For longer than a compaction waits at most.
LONGEST = 15
# These are looked for at each tick of their schedule, whether there are any or not.
ALWAYS = "orphans: {enabled: false}\n  partitions: {enabled: false}"
EAGER = {
    "small files": "compaction: {small_files: 2, min_bytes: 0 b, at_latest: 0s}",
    "manifests": "manifests: {min_count: 2}",
    "snapshots by number": "snapshots: {retain_min: 1, retain_max: 1, schedule: '* * * * *'}",
    "snapshots by age": "snapshots: {retain_min: 1, time_retained: 0s, schedule: '* * * * *'}",
    "one snapshot a run": (
        "snapshots: {retain_min: 1, retain_max: 1, max_deletes: 1, schedule: '* * * * *'}"
    ),
    "sorted": "sort: {enabled: true, columns: [month], schedule: '* * * * *'}",
    "all": (
        "compaction: {small_files: 2, min_bytes: 0 b, at_latest: 0s, full: true}\n"
        "  manifests: {min_count: 2}\n"
        "  sort: {enabled: true, columns: [month], schedule: '* * * * *'}\n"
        "  snapshots: {retain_min: 1, retain_max: 1, max_deletes: 1, time_retained: 0s,"
        " schedule: '* * * * *'}"
    ),
}


class Keeping:
    """Looks at a warehouse again and again, and carries out all that is due."""

    def __init__(self, folder: Path, policy: str) -> None:
        file = folder / "policy.yaml"
        file.write_text(f"warehouse:\n  {ALWAYS}\n  {policy}\n")
        self.env = FixedEnv()
        self.catalog = Catalog.open(memory_uri(), env=self.env)
        self.kept = KeptTables(files=PolicyFiles([file]), adopted=("*",))
        self.watch = TableWatch(self.kept)

    def step(self) -> list[tuple[str, str]]:
        """What was due by now, by table and verb; all of it is carried out."""
        self.env.clock.advance(STEP_MS)
        look = self.look()
        self.watch.record(self.catalog, look, now_ms=self.env.now_ms())
        for intent in look.choice.chosen:
            self._carry_out(intent)
            self.watch.read_again(intent.table)
        return [(each.table, each.verb) for each in look.choice.chosen]

    def look(self) -> Look:
        now_ms = self.env.now_ms()
        clock = Clock.at(now_ms)
        past = self.watch.recorded(self.catalog).past(day_begins_ms=0)
        return self.watch.look(self.catalog, past, clock)

    def _carry_out(self, intent: Intent) -> None:
        table = self.catalog.table(intent.table)
        options = options_by(self.kept.table(intent.table).policy, intent.verb)
        if intent.partitions is not None:
            columns = partition_columns(table)
            specs = tuple(decode_partition(key, columns) for key in intent.partitions)
            options = replace(options, partitions=specs)
        recorder = replace(
            Recorder.of(self.catalog, warn=pytest.fail, make=True),
            reason=intent.reason,
            state=intent.state,
            policy=intent.policy,
        )
        for verb in in_turn(intent.verb, table):
            recorder.carry_out(verb, table, options, Work(run="run", session=pytest.fail))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("policy", EAGER.values(), ids=EAGER.keys())
def test_upkeep_comes_to_rest_whatever_a_policy_says_although_its_own_rows_are_files(
    tmp_path: Path, policy: str
) -> None:
    keeping = Keeping(tmp_path, policy)
    table = new_table(keeping.catalog, {"month": "STRING", "v": "INT"}, name="db.t")
    for at in range(6):
        table.write(rows(table, [{"month": "2026-11", "v": at}]))
    first = keeping.step()
    assert first, "the policy asks for nothing"

    quiet, steps = 0, 0
    while quiet < LONGEST and steps < 80:
        quiet, steps = 0 if keeping.step() else quiet + 1, steps + 1
    assert quiet == LONGEST, "upkeep finds work for itself"


def test_the_ledger_is_compacted_once_it_has_as_many_files_as_the_default_says(
    tmp_path: Path,
) -> None:
    keeping = Keeping(tmp_path, EAGER["small files"])
    for number in range(6):
        table = new_table(keeping.catalog, name=f"db.t{number}")
        for at in range(3):
            table.write(rows(table, events(at, at + 1)))
    assert (LEDGER, "compact") not in keeping.step()
    steps = 0
    while (LEDGER, "compact") not in keeping.step():
        steps += 1
        assert steps < 20
    assert len(keeping.catalog.table(LEDGER).at().files()) < 5


def test_own_tables_have_the_defaults_at_least_and_more_if_a_policy_says_more(
    tmp_path: Path,
) -> None:
    text = (
        "warehouse:\n  compaction: {small_files: 2, min_bytes: 0 b, at_latest: 0s}\n"
        "  manifests: {min_count: 2}\n  sort: {enabled: true, columns: [id]}\n"
        f"tables:\n  {SURVEYS}: {{compaction: {{small_files: 9}}, manifests: {{min_count: 400}}}}\n"
    )
    (tmp_path / "policy.yaml").write_text(text)
    kept = KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("*",))
    assert kept.table("db.t").policy.compaction.small_files == 2
    own = {name: kept.table(name).policy for name in OWN_TABLES}
    assert own[LEDGER].compaction == CompactionPolicy()
    assert own[LEDGER].manifests == ManifestPolicy()
    assert {each.sort for each in own.values()} == {SortPolicy()}
    assert own[SURVEYS].compaction == CompactionPolicy(small_files=9)
    assert own[SURVEYS].manifests.min_count == 400
