"""Trials of tables under many processes, with checks of the final rows.

`race_through`: writers beside upkeep. `besiege`: the same while processes are killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakewright.storage import Catalog, Table
from tests.support.processes.killing import WRITERS, Place, Siege
from tests.support.processes.racing import Race, race, rows_of
from tests.support.tables.builders import compact, expire, new_table, remove_orphans
from tests.support.tables.invariants import assert_sound
from tests.support.tally import tally

COLUMNS = {"writer": "INT", "number": "BIGINT", "times": "BIGINT"}
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "partitioned": {"partitions": ("writer",)},
    # Rows that all writers share count their writes, which shows a commit that is made twice, and a
    # row that a compaction merges twice.
    "keyed": {
        "keys": ("writer", "number"),
        "options": {
            "bucket": "2",
            "bucket-key": "number",
            "merge-engine": "aggregation",
            "fields.times.aggregate-function": "sum",
        },
    },
}

Counts = dict[tuple[int, int], int]


def race_through(warehouse: str, kind: str, *, writers: int, commits: int) -> Race:
    """Run writers with a number of commits each, beside compaction, expiry and orphan removal."""
    table = new_table(Catalog.open(warehouse), COLUMNS, **KINDS[kind])

    found = race(warehouse, table.name, writers=writers, commits=commits)

    expected = expected_of(table, dict.fromkeys(range(writers), commits))
    assert found.commits == writers * commits
    assert counted(table) == expected
    assert found.upkeep["compact"].runs > 0
    assert found.upkeep["expire"].done > 0
    assert found.upkeep["remove orphans"].done == 0
    # Nor has what upkeep did meanwhile left anything that stands in the way of more of it.
    compact(table, full=True)
    expire(table)
    assert counted(table) == expected
    assert_sound(table)
    return found


def besiege(
    warehouse: str, kind: str, notes: Path, *, kills: int, least_seconds: float, most_seconds: float
) -> str:
    """Run writers, maintenance and a reader with a number of kills; returns their counts.

    A kill comes after a time between the two. `notes` is the folder of the processes' notes.
    """
    table = new_table(Catalog.open(warehouse), COLUMNS, **KINDS[kind])
    notes.mkdir()
    place = Place(warehouse, table.name, str(notes))
    for writer in WRITERS:
        # From the first snapshot on, so that the first commit is recognised too.
        table.history.set_consumer(writer, 1)
    siege = Siege(place, seed=list(KINDS).index(kind))

    siege.run(kills, least_seconds=least_seconds, most_seconds=most_seconds)

    made = {number: place.noted(writer) for number, writer in enumerate(WRITERS)}
    recognised = sum(len(place.told(writer)) for writer in WRITERS)
    tally("kills survived", siege.kills)
    tally("commits made between kills", sum(made.values()))
    tally("commits recognised by who was killed over them", recognised)
    assert counted(table) == expected_of(table, made)
    for writer in WRITERS:
        table.history.delete_consumer(writer)
    sweep(table)
    assert counted(table) == expected_of(table, made)
    assert_sound(table)
    return (
        f"{kind}: {siege.kills} kills, {sum(made.values())} commits, {recognised} recognised, "
        f"{len(place.told('reader'))} reads, {len(place.told('compact'))} compactions, "
        f"{len(place.told('expire'))} expiries"
    )


def sweep(table: Table) -> None:
    """Remove the leftovers of killed processes, as maintenance does later."""
    remove_orphans(table)
    expire(table)
    remove_orphans(table)


def counted(table: Table) -> Counts:
    """The number of writes of each row, as read."""
    found: Counts = {}
    for row in table.read().to_pylist():
        place = (row["writer"], row["number"])
        found[place] = found.get(place, 0) + row["times"]
    return found


def expected_of(table: Table, made: Mapping[int, int]) -> Counts:
    """The same, computed from the number of each writer's commits."""
    found: Counts = {}
    for writer, commits in made.items():
        for number in range(commits):
            for row in rows_of(table, writer, number):
                place = (row["writer"], row["number"])
                found[place] = found.get(place, 0) + row["times"]
    return found
