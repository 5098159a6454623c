"""A change of partition keys beside every other verb, whatever comes between their calls."""

from __future__ import annotations

import pytest

from tests.races.outcomes import Race
from tests.races.pairs import Finding, actor, arena
from tests.races.test_races import check
from tests.races.verbs import VERBS, WRITERS, actor_of, respec

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
@pytest.mark.parametrize("other", OTHERS)
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


@pytest.mark.mission("PT1")
@pytest.mark.parametrize("other", ["compact"])
def test_a_respec_of_a_keyed_table_and_a_verb_end_as_if_one_came_after_the_other(
    other: str,
) -> None:
    keys_go = actor_of(arena("keyed"), "respec", 1, seed=93, verb=respec)
    race = Race(arena("keyed"), [keys_go, actor(other, kind="keyed")], 1)
    check(Finding(race, race.run()))
