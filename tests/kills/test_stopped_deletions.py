"""A deletion that was killed halfway: its repetition ends it, and all of it can be undone."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError, NotFoundError, NotRevertible, StalePlan
from tests.support.processes.killing import DELETIONS, Place, survives
from tests.support.tables.builders import content, events, new_table, rows
from tests.support.tables.invariants import assert_sound
from tests.support.tally import tally

# Of a rollback that has begun to take snapshots, the next step is its end.
ENDED_FIRST = {"rollback"}


def made(warehouse: str) -> Table:
    """A table with a history, tags, a branch and changelogs that outlived their snapshots."""
    options = {
        "bucket": "1",
        "changelog-producer": "input",
        "changelog.num-retained.min": "90",
        "changelog.num-retained.max": "100",
    }
    table = new_table(Catalog.open(warehouse), keys=("id",), options=options)
    for first in range(8):
        table.write(rows(table, events(first, first + 3)))
    plan = table.upkeep.plan_expire_snapshots(retain_min=1, retain_max=6, grace_ms=0)
    table.upkeep.run(plan)
    for number in (4, 5, 6):
        table.history.create_tag(f"t{number}", snapshot=number)
    table.history.create_branch("b", tag="t4")
    return table


def state(table: Table) -> object:
    """What a person sees of the table."""
    history = table.refresh().history
    return (
        [each.id for each in history.snapshots()],
        [each.id for each in history.changelogs()],
        [(each.name, each.snapshot.id) for each in history.tags()],
        [each.name for each in history.branches()],
        content(table),
        [content(table.at(tag=each.name)) for each in history.tags()],
    )


def undone(table: Table) -> Iterator[str]:
    """Undo every record, the last one first."""
    for each in reversed(table.upkeep.condemned()):
        table.upkeep.run(table.upkeep.plan_put_back(each.id))
        yield each.verb


def killed_at(place: Place, verb: str, call: int, *, ends: bool) -> bool:
    """Kill a verb at a call and undo it, after its repetition if it `ends`; whether it died."""
    table = place.open()
    before = state(table)
    if survives(place, verb, call):
        assert state(table) != before
        list(undone(table))
        assert state(table) == before
        assert_sound(table)
        return False
    if ends or verb in ENDED_FIRST:
        # There may be nothing left to delete.
        with suppress(NotFoundError, StalePlan, NotRevertible, InvalidRequestError):
            DELETIONS[verb](table.refresh())
    list(undone(table))
    assert state(table) == before
    assert not table.upkeep.condemned()
    assert_sound(table)
    return True


@pytest.mark.parametrize("verb", DELETIONS)
@pytest.mark.parametrize(
    "calls", [pytest.param(2, id="some"), pytest.param(None, id="all", marks=pytest.mark.deep)]
)
@pytest.mark.mission("FS9", "FS10")
def test_a_deletion_killed_at_any_of_its_calls_is_ended_or_undone_at_once(
    tmp_path: Path, verb: str, calls: int | None
) -> None:
    origin = str(tmp_path / "origin")
    name = made(origin).name
    chosen = random.Random(f"{verb} {calls}")
    number, most, deaths = 0, 8, 0
    while calls is None or deaths < calls:
        number = number + 1 if calls is None else chosen.randint(1, most)
        died = True
        for ends in (False, True) if calls is None else (chosen.random() < 0.5,):
            copy = str(tmp_path / f"copy-{number}-{ends}")
            shutil.copytree(origin, copy)
            died &= killed_at(Place(copy, name, str(tmp_path)), verb, number, ends=ends)
            shutil.rmtree(copy)
        deaths += died
        most = most if died else number - 1
        if calls is None and not died:
            break
    tally("deletions killed halfway and undone", deaths)
    assert deaths > 0


@pytest.mark.parametrize(
    "calls", [pytest.param(3, id="some"), pytest.param(None, id="all", marks=pytest.mark.deep)]
)
@pytest.mark.mission("FS10")
def test_a_drop_killed_at_any_of_its_calls_is_ended_and_undone_or_undone_at_once(
    tmp_path: Path, calls: int | None
) -> None:
    origin = str(tmp_path / "origin")
    table = made(origin)
    name, before = table.name, state(table)
    chosen = random.Random(calls)
    number, deaths = 0, 0
    while calls is None or deaths < calls:
        number = number + 1 if calls is None else chosen.randint(2, 40)
        for ends in (False, True) if calls is None else (deaths % 2 == 0,):
            copy = str(tmp_path / f"copy-{number}-{ends}")
            shutil.copytree(origin, copy)
            died = not survives(Place(copy, name, str(tmp_path)), "drop table", number)
            catalog = Catalog.open(copy)
            if ends:
                with suppress(NotFoundError):
                    catalog.drop_table(name)
                assert not catalog.table_exists(name)
            if catalog.dropped_tables():
                catalog.undrop_table(name)
            assert state(catalog.table(name)) == before
            assert_sound(catalog.table(name))
            shutil.rmtree(copy)
        deaths += died
        if not died:
            break
    tally("drops killed halfway and undone", deaths)
    assert deaths > 0
