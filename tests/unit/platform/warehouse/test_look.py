"""Looks: what they tell, and when."""

from __future__ import annotations

from pathlib import Path

from lakewright.platform.declare.policy_watch import PolicyFiles
from lakewright.platform.warehouse.clock import Clock
from lakewright.platform.warehouse.kept_tables import KeptTables
from lakewright.platform.warehouse.look import Watch
from lakewright.storage import Catalog
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri

POLICY = """
warehouse:
  compaction: {min_bytes: 0 b, small_files: 3}
  manifests: {enabled: false}
  snapshots: {enabled: false}
  orphans: {enabled: false}
"""


def test_what_stays_due_is_told_once_although_its_numbers_grow(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    env = FixedEnv()
    catalog = Catalog.open(memory_uri(), env=env)
    table = new_table(catalog, name="db.events")
    watch = Watch(KeptTables(files=PolicyFiles([tmp_path / "policy.yaml"]), adopted=("db.*",)))

    def told() -> tuple[str, ...]:
        env.clock.advance(60_000)
        clock = Clock(now_ms=env.now_ms(), last_tick_ms=lambda cron, zone: 0)
        past = watch.recorded(catalog).past(day_begins_ms=0)
        return watch.look(catalog, past, clock).news

    assert told() == ()
    for at in range(4):
        table.write(rows(table, events(at, at + 1)))
    assert [news for news in told() if "4 small files" in news]
    table.write(rows(table, events(9, 10)))
    assert told() == ()
    table.upkeep.compact(full=True)
    assert told() == ()
    for at in range(3):
        table.write(rows(table, events(at, at + 1)))
    assert len(told()) == 1
