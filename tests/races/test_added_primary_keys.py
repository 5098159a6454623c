"""A primary key that a table gets beside other verbs, whatever comes between their calls."""

from __future__ import annotations

import pytest

from tests.races.outcomes import Race
from tests.races.pairs import Finding, actor, arena
from tests.races.test_races import check
from tests.races.verbs import actor_of, add_key

ADD_KEY = actor_of(arena("append"), "key", 1, seed=96, verb=add_key)
QUICK = ("append", "expire", "alter")
OTHERS = (
    *QUICK, "overwrite", "compact", "drop", "manifests", "read", "delete", "update", "rescale",
    "orphans", "rollback",
)  # fmt: skip


@pytest.mark.mission("MT14", "SQ18")
@pytest.mark.parametrize(
    "other",
    [pytest.param(each, marks=[] if each in QUICK else [pytest.mark.deep]) for each in OTHERS],
)
@pytest.mark.sampled(4)
def test_a_primary_key_and_a_verb_end_as_if_one_came_after_the_other(other: str) -> None:
    race = Race(arena("append"), [ADD_KEY, actor(other, kind="append")], 1)
    check(Finding(race, race.run()))
