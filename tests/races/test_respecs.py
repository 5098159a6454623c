"""A change of partition keys beside every other verb, whatever comes between their calls."""

from __future__ import annotations

import pytest

from tests.races.outcomes import Race
from tests.races.pairs import Finding, actor, arena
from tests.races.test_races import check
from tests.races.verbs import VERBS, WRITERS, actor_of, respec, respec_keyed

RESPEC = {
    number: actor_of(arena("append"), "respec", number, seed=90 + number, verb=respec)
    for number in (1, 2)
}
# Of an append table, where an upsert is an append.
OTHERS = [*(each for each in VERBS if each != "upsert"), "respec"]
# Held up twice beside these, which change what a respec restates; each takes two minutes.
COMMITTING = ["append", "overwrite", "compact", "expire", "rollback", "respec"]


def explored(other: str, number: int, preemptions: int) -> Finding:
    beside = RESPEC[3 - number] if other == "respec" else actor(other, kind="append")
    race = Race(arena("append"), [RESPEC[number], beside], preemptions)
    return Finding(race, race.run())


@pytest.mark.mission("PT1")
@pytest.mark.parametrize("number", [1, 2], ids=["keys go", "keys come"])
@pytest.mark.parametrize(
    "other",
    # A rollback ends a change first: of all orders of their calls there are ten times as many.
    [pytest.param(each, marks=pytest.mark.deep if each == "rollback" else []) for each in OTHERS],
)
@pytest.mark.sampled(4)
def test_a_respec_and_a_verb_of_which_one_is_held_up_end_as_if_one_came_after_the_other(
    other: str, number: int
) -> None:
    found = explored(other, number, preemptions=1)
    check(found)
    if other in WRITERS:
        # The writer wins, or is told that the keys changed.
        assert {each for each, _ in found.race.outcomes} == {"done"}


@pytest.mark.deep
@pytest.mark.mission("PT1")
@pytest.mark.parametrize("other", COMMITTING)
def test_a_respec_and_a_verb_end_as_if_one_came_after_the_other(other: str) -> None:
    check(explored(other, 2, preemptions=2))


# Of a primary-key table: keys go, or others come after that, in two swaps.
KEYED = {
    number: actor_of(arena("keyed"), "respec", number, seed=92 + number, verb=respec_keyed)
    for number in (1, 2)
}
BESIDE_KEYED = [*VERBS, "respec"]
# The others are explored where it is deep.
QUICK = ("upsert", "expire", "alter")


@pytest.mark.mission("PT1")
@pytest.mark.parametrize(
    "other",
    [
        pytest.param(each, marks=[] if each in QUICK else [pytest.mark.deep])
        for each in BESIDE_KEYED
    ],
)
def test_a_respec_of_a_keyed_table_and_a_verb_end_as_if_one_came_after_the_other(
    other: str,
) -> None:
    check(keyed(other, 1))


@pytest.mark.deep
@pytest.mark.mission("PT1")
@pytest.mark.parametrize("other", BESIDE_KEYED)
def test_a_respec_of_a_keyed_table_in_two_steps_and_a_verb_end_as_if_one_came_after_the_other(
    other: str,
) -> None:
    check(keyed(other, 2))


def keyed(other: str, number: int) -> Finding:
    beside = KEYED[3 - number] if other == "respec" else actor(other, kind="keyed")
    race = Race(arena("keyed"), [KEYED[number], beside], 1)
    return Finding(race, race.run())
