"""What the page of a table shows beside decisions is read within limits."""

from __future__ import annotations

from pathlib import Path

from lakewright.platform.decide.upkeep_state import read_state
from lakewright.platform.orchestration.health_background import read_at_a_look, read_background
from lakewright.storage import Catalog
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri

DAY_MS = 86_400_000


def filled(uri: str) -> Catalog:
    """A table of three snapshots; with a retention of a day the tagged one and the next go."""
    env = FixedEnv()
    catalog = Catalog.open(uri, env=env)
    table = new_table(catalog, name="db.t", options={"snapshot.num-retained.min": "1"})
    for number in range(3):
        table.write(rows(table, events(number, number + 1)))
        if number == 0:
            table.history.create_tag("q3")
        env.clock.advance(2 * DAY_MS)
    return catalog


def test_on_a_disk_the_sensor_reads_what_other_retention_times_would_free(tmp_path: Path) -> None:
    catalog = filled(str(tmp_path / "lake"))
    state = read_state(catalog, "db.t", now_ms=catalog.env.now_ms())
    found = read_at_a_look(catalog, state)
    day = found.outlook[0]
    assert (day.time_retained_ms, day.gone) == (DAY_MS, 2)
    assert [each.name for each in day.held_by] == ["q3"]


def test_on_other_stores_only_the_executed_check_reads_them() -> None:
    catalog = filled(memory_uri())
    state = read_state(catalog, "db.t", now_ms=catalog.env.now_ms())
    found = read_at_a_look(catalog, state)
    assert found.outlook == ()
    assert read_background(catalog, state).outlook[0].gone == 2


def test_a_table_that_is_dropped_meanwhile_is_still_reported(tmp_path: Path) -> None:
    catalog = filled(str(tmp_path / "lake"))
    state = read_state(catalog, "db.t", now_ms=catalog.env.now_ms())
    catalog.drop_table("db.t")
    found = read_at_a_look(catalog, state)
    assert found.outlook == ()
