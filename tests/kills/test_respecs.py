"""SIGKILL of a process that changes partition keys: the next run goes on, and no row is lost."""

from __future__ import annotations

import random
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, Table
from tests.support.processes.killing import Place, change_keys, killed_as_it_stages, killed_while
from tests.support.processes.ordeals import sweep
from tests.support.tables.builders import content, new_table, rows
from tests.support.tables.invariants import assert_nothing_missing, assert_sound
from tests.support.tally import tally

COLUMNS = {"dt": "STRING NOT NULL", "hh": "INT NOT NULL", "id": "BIGINT NOT NULL", "v": "STRING"}
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "keyed": {"keys": ["dt", "hh", "id"], "options": {"bucket": "2"}},
    "in dynamic buckets": {
        "keys": ["dt", "hh", "id"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "8"},
    },
}
# Each of them splits files or writes rows anew; the last two go in two steps.
WAYS = (("dt", "hh"), ("dt",), (), ("hh",), ("dt",))


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(each, marks=[] if "dynamic" not in each else [pytest.mark.deep])
        for each in KINDS
    ],
)
@pytest.mark.parametrize(
    "kills", [pytest.param(2, id="some"), pytest.param(80, id="many", marks=pytest.mark.deep)]
)
@pytest.mark.mission("PT1", "PT50", "FS9")
def test_a_change_of_keys_that_is_killed_at_any_moment_is_resumed_without_loss(
    warehouse: str, tmp_path: Path, kind: str, kills: int
) -> None:
    table = new_table(Catalog.open(warehouse), COLUMNS, partitions=["dt"], **KINDS[kind])
    for number in range(3):
        given = [
            {"dt": day, "hh": hour, "id": 10 * number + each, "v": f"{number}"}
            for day in "abcd"
            for hour in range(3)
            for each in range(4)
        ]
        table.write(rows(table, given))
    place = Place(warehouse, table.name, str(tmp_path))
    due, chance = content(table), random.Random(kind)
    done, seconds = 0, 0.5
    for number, keys in enumerate(cycle(WAYS)):
        was_killed = killed_while(place, change_keys, keys, seconds=chance.uniform(0, seconds))
        done += was_killed
        now = place.open()
        assert content(now) == due, f"what readers see after kill {done}, towards {keys}"
        assert_nothing_missing(now)
        began = time.monotonic()
        now.upkeep.respec(keys)
        # Most kills come while there is something left to do.
        seconds = max(0.05, 0.7 * seconds) if not was_killed else time.monotonic() - began + 0.05
        due = check_and_write(place, keys, due, number)
        if done == kills:
            break
    tally("kills survived by changes of partition keys", done)
    sweep(place.open())
    assert content(place.open()) == due
    assert_sound(place.open())


@pytest.mark.parametrize("keys", [("dt", "hh"), ()], ids=["finer", "coarser"])
@pytest.mark.parametrize("kind", ["keyed", "in dynamic buckets"])
@pytest.mark.sampled(1)
@pytest.mark.mission("PT1", "PT50")
def test_what_a_killed_process_had_staged_is_not_written_again(
    warehouse: str, tmp_path: Path, kind: str, keys: tuple[str, ...]
) -> None:
    table = new_table(Catalog.open(warehouse), COLUMNS, partitions=["dt"], **KINDS[kind])
    days = "abcdefgh"
    given = [
        {"dt": day, "hh": hour, "id": each, "v": day}
        for day in days
        for hour in range(3)
        for each in range(4)
    ]
    table.write(rows(table, given))
    due = content(table)
    place = Place(warehouse, table.name, str(tmp_path))
    killed_as_it_stages(place, keys, 3)
    assert content(place.open()) == due
    assert_nothing_missing(place.open())
    # Files of partitions that were being written are orphans, and those of records are not.
    sweep(place.open())
    plan = place.open().upkeep.plan_respec(keys)
    # Several tasks may have been at work.
    assert 3 * 12 <= plan.staged.rows < plan.split.rows == len(due)
    result = place.open().upkeep.respec(keys)
    assert result.files_continued > 0
    assert result.rows_written == len(due) - plan.staged.rows
    now = place.open()
    assert now.schema.partition_keys == keys
    assert content(now) == due
    sweep(now)
    assert_sound(now)


def check_and_write(place: Place, keys: tuple[str, ...], due: list[str], number: int) -> list[str]:
    """What the table holds after one more row, which it finds in the right partition."""
    now: Table = place.open()
    assert now.schema.partition_keys == keys
    assert content(now) == due
    now.write(rows(now, [{"dt": "a", "hh": 1, "id": 1000 + number, "v": "new"}]))
    assert len(content(now)) == len(due) + 1
    return content(now)
