"""SIGKILL of real processes under load: what was committed stays, and is there once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakewright.storage import Catalog
from tests.support.processes.killing import MORTAL, Place, survives, write_numbered
from tests.support.processes.ordeals import COLUMNS, KINDS, besiege, counted, expected_of, sweep
from tests.support.tables.builders import new_table
from tests.support.tables.invariants import assert_nothing_missing, assert_sound
from tests.support.tally import tally


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "kills", [pytest.param(8, id="some"), pytest.param(100, id="many", marks=pytest.mark.deep)]
)
@pytest.mark.mission("FS9", "FS10", "PT50", "PT54")
@pytest.mark.sampled(1)
def test_processes_killed_at_random_lose_no_commit_and_make_none_twice(
    warehouse: str, tmp_path: Path, kind: str, kills: int
) -> None:
    made = besiege(
        warehouse, kind, tmp_path / "notes", kills=kills, least_seconds=0.02, most_seconds=0.8
    )
    sys.stdout.write(made + "\n")


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
    sweep(table)
    assert counted(table) == expected_of(table, made)
    assert_sound(table)
