"""SIGKILL of real processes under load: what was committed stays, and is there once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from tests.kills.kinds import COLUMNS, KINDS, counted, expected_of
from tests.support.builders import expire, new_table, remove_orphans
from tests.support.invariants import assert_nothing_missing, assert_sound
from tests.support.killing import MORTAL, WRITERS, Place, Siege, survives, write_numbered
from tests.support.tally import tally


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "kills", [pytest.param(12, id="some"), pytest.param(100, id="many", marks=pytest.mark.deep)]
)
@pytest.mark.mission("FS9", "FS10", "PT50", "PT54")
def test_processes_killed_at_random_lose_no_commit_and_make_none_twice(
    warehouse: str, tmp_path: Path, kind: str, kills: int
) -> None:
    table = new_table(Catalog.open(warehouse), COLUMNS, **KINDS[kind])
    notes = tmp_path / "notes"
    notes.mkdir()
    place = Place(warehouse, table.name, str(notes))
    for writer in WRITERS:
        # From the first snapshot on, so that a first commit is recognised too.
        table.set_consumer(writer, 1)
    siege = Siege(place, seed=list(KINDS).index(kind))

    siege.run(kills, least_seconds=0.02, most_seconds=0.8)

    made = {number: place.noted(writer) for number, writer in enumerate(WRITERS)}
    recognised = sum(len(place.told(writer)) for writer in WRITERS)
    tally("kills survived", siege.kills)
    tally("commits made between kills", sum(made.values()))
    tally("commits recognised by who was killed over them", recognised)
    sys.stdout.write(
        f"{kind}: {siege.kills} kills, {sum(made.values())} commits, {recognised} recognised, "
        f"{len(place.told('reader'))} reads, {len(place.told('compact'))} compactions, "
        f"{len(place.told('expire'))} expiries\n"
    )
    assert counted(table) == expected_of(table, made)
    for writer in WRITERS:
        table.delete_consumer(writer)
    swept(table)
    assert counted(table) == expected_of(table, made)
    assert_sound(table)


@pytest.mark.parametrize(
    "verb",
    ["write", *(pytest.param(each, marks=pytest.mark.deep) for each in ("compact", "expire"))],
)
@pytest.mark.mission("FS9", "FS10", "PT50", "PT54")
def test_a_process_killed_at_any_of_its_calls_is_made_up_for_by_the_next(
    warehouse: str, tmp_path: Path, verb: str
) -> None:
    table = new_table(Catalog.open(warehouse), COLUMNS, **KINDS["keyed"])
    place = Place(warehouse, table.name, str(tmp_path))
    recognised, number, written = 0, 0, 0
    while True:
        number += 1
        if verb != "write":
            for _ in range(2):
                write_numbered(table, written)
                written += 1
        if survives(place, verb, number):
            break
        if verb != "expire":
            # What an expiry has begun to take may lack files until the next one finishes it.
            assert_nothing_missing(table)
        if verb == "write":
            recognised += write_numbered(table, number)
        else:
            assert counted(table) == expected_of(table, {0: written})
            MORTAL[verb](table, 0)
    made = {0: number + 1} if verb == "write" else {0: written}
    tally("kills survived", number - 1)
    assert number > 5
    if verb == "write":
        tally("commits recognised by who was killed over them", recognised)
        assert recognised > 0
        write_numbered(table, 0)
    assert counted(table) == expected_of(table, made)
    swept(table)
    assert counted(table) == expected_of(table, made)
    assert_sound(table)


def swept(table: Table) -> None:
    """Let go what the dead left behind, as upkeep does once it is old enough."""
    remove_orphans(table)
    expire(table)
    remove_orphans(table)
