"""Files that come home beside every other verb, whatever comes between their calls."""

from __future__ import annotations

from functools import cache

import pytest

from tests.races.outcomes import Race
from tests.races.pairs import Finding
from tests.races.test_races import check
from tests.races.verbs import VERBS, WRITERS, Arena, actor_of, away_arena, respec, settle

OTHERS = {each: verb for each, verb in VERBS.items() if each != "upsert"}
OTHERS |= {"settle": settle, "respec": respec}


@cache
def arena() -> Arena:
    return away_arena()


@pytest.mark.mission("PT1")
@pytest.mark.parametrize(
    "other",
    [pytest.param(each, marks=pytest.mark.deep if each == "rollback" else []) for each in OTHERS],
)
@pytest.mark.sampled(4)
def test_a_settling_and_a_verb_end_as_if_one_came_after_the_other(other: str) -> None:
    race = raced(other, preemptions=1)
    if other in WRITERS:
        assert {each for _, each in race.outcomes} == {"done"}


@pytest.mark.deep
@pytest.mark.mission("PT1")
@pytest.mark.parametrize("other", ["append", "overwrite", "compact", "expire", "orphans", "settle"])
def test_a_settling_and_a_verb_that_are_both_held_up_end_so_too(other: str) -> None:
    raced(other, preemptions=2)


def raced(other: str, *, preemptions: int) -> Race:
    # The keys go in the first respec.
    number = 1 if other == "respec" else 2
    actors = [
        actor_of(arena(), "settle", 1, seed=91, verb=settle),
        actor_of(arena(), other, number, seed=92, verb=OTHERS[other]),
    ]
    race = Race(arena(), actors, preemptions)
    check(Finding(race, race.run()))
    return race
