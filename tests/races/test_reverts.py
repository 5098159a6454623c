"""A revert of a compaction beside other verbs, whatever comes between their calls."""

from __future__ import annotations

import pytest

from lakewright.storage import Table
from lakewright.storage.errors import NotRevertible, SnapshotNotFound, StalePlan
from tests.races.outcomes import Race
from tests.races.pairs import Finding, actor, arena
from tests.races.test_races import check
from tests.races.verbs import WRITERS, actor_of


def _revert(table: Table, number: int) -> str:
    """The third snapshot of each arena is a compaction."""
    try:
        table.history.revert(3)
    except (StalePlan, NotRevertible, SnapshotNotFound):
        # The other verb came first.
        return "refused"
    return ""


REVERT = {
    kind: actor_of(arena(kind), "revert", 1, seed=70 + number, verb=_revert)
    for number, kind in enumerate(("keyed", "append"))
}
# Of the others the harness does not know yet which errors a revert makes them end with.
OTHERS = ["append", "upsert", "overwrite", "expire"]


def explored(other: str, kind: str, preemptions: int) -> Finding:
    race = Race(arena(kind), [REVERT[kind], actor(other, kind=kind)], preemptions)
    return Finding(race, race.run())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("other", OTHERS)
def test_a_revert_and_a_verb_of_which_one_is_held_up_end_as_if_one_came_after_the_other(
    other: str,
) -> None:
    found = explored(other, "keyed", preemptions=1)
    check(found)
    outcomes = {each for _, each in found.race.outcomes}
    if other in WRITERS:
        assert outcomes == {"done"}


@pytest.mark.deep
@pytest.mark.parametrize("kind", REVERT)
@pytest.mark.parametrize("other", OTHERS)
def test_a_revert_and_a_verb_end_as_if_one_came_after_the_other(other: str, kind: str) -> None:
    check(explored(other, kind, preemptions=2))
