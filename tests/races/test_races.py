"""No verb loses or doubles what another commits, whatever comes between their calls.

Every race ends in the outcome of some serial order of the verbs that did well, and a verb that did
not left nothing; see `outcomes.py` for all that is looked at.
"""

from __future__ import annotations

import pytest

from tests.races.outcomes import allowed_errors
from tests.races.pairs import PAIRS, TRIPLES, Finding, deep_bound, explore
from tests.races.verbs import VERBS, WRITERS
from tests.support.tally import tally

_MAINTENANCE = {"compact", "expire", "orphans"}


def check(found: Finding) -> None:
    """Count a race, and tell what was wrong with it."""
    tally("interleavings explored", found.explored.ends)
    tally("distinct states of interleavings", found.explored.states)
    assert found.explored.ends > 0
    # The problems hold states, whose own words would bury these.
    if found.race.problems:
        pytest.fail(found.race.told(), pytrace=False)


@pytest.mark.mission("FS10")
@pytest.mark.sampled(80)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.sampled(12)
def test_two_verbs_one_of_which_is_held_up_once_end_as_if_one_came_after_the_other(
    pair: tuple[str, str],
) -> None:
    check(explore(*pair, preemptions=1))


@pytest.mark.deep
@pytest.mark.mission("FS10")
@pytest.mark.parametrize("kind", ["keyed", "append"])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_verbs_end_as_if_one_came_after_the_other(pair: tuple[str, str], kind: str) -> None:
    check(explore(*pair, kind=kind, preemptions=deep_bound(pair, kind)))


@pytest.mark.deep
@pytest.mark.mission("FS10")
@pytest.mark.parametrize("triple", TRIPLES, ids="-".join)
def test_three_verbs_one_of_which_is_held_up_end_as_if_one_came_after_the_other(
    triple: tuple[str, str, str],
) -> None:
    check(explore(*triple, preemptions=1))


@pytest.mark.mission("FS10")
@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_may_fail_because_of_maintenance(writer: str) -> None:
    assert allowed_errors(writer, _MAINTENANCE) == set()
    beside = [explore(writer, each, preemptions=1).race.outcomes for each in _MAINTENANCE]
    assert {outcome[0] for outcomes in beside for outcome in outcomes} == {"done"}


@pytest.mark.mission("FS10")
def test_a_compaction_that_loses_leaves_out_the_bucket_and_publishes_the_rest() -> None:
    outcomes = explore("overwrite", "compact", preemptions=1).race.outcomes
    assert {each for _, each in outcomes} == {"done", "1 left out"}


def test_every_verb_races() -> None:
    assert {name for pair in PAIRS for name in pair} == set(VERBS)
