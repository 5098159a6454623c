"""A simulated table: what others did is added, and what other decisions do is taken away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakewright.platform.decide.simulate import SimulatedTable
from lakewright.platform.decide.survey import HistoryFigures, TableSurvey
from lakewright.platform.decide.table_state import UpkeepState
from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.calibrate import Calibration
from lakewright.platform.ledger.intents import Benefit, Intent, Why
from lakewright.platform.tables.upkeep_policies import UpkeepPolicy
from lakewright.platform.upkeep.health import TableHealth

DAY_MS = 86_400_000
START_MS = 20_000 * DAY_MS


def state(day: int, tags: Mapping[str, int], changelogs: int = 0) -> UpkeepState:
    """The state at a day, with the days on which its tags were made."""
    survey = TableSurvey(
        table="db.t",
        uuid="u",
        taken_ms=START_MS + day * DAY_MS,
        history=HistoryFigures(snapshots=1, tags=len(tags), changelogs=changelogs),
    )
    health = TableHealth(table="db.t", keyed=False, snapshot_id=1, partitions=())
    made = {name: START_MS + each * DAY_MS for name, each in tags.items()}
    return UpkeepState(survey=survey, health=health, tags_made_ms=made)


def acted(day: int, verb: str, benefit: Benefit) -> Action:
    at_ms = START_MS + day * DAY_MS
    return Action(
        id=f"{verb}-{day}",
        table="db.t",
        table_uuid="u",
        verb=verb,
        run="r",
        started_ms=at_ms,
        ended_ms=at_ms,
        verdict=Verdict.DONE,
        benefit=benefit,
    )


def asked(verb: str, benefit: Benefit) -> Intent:
    return Intent(table="db.t", verb=verb, why=Why.SCHEDULED, told="due", benefit=benefit)


def test_a_policy_takes_old_tags_in_a_replay_and_what_others_made_and_deleted_counts() -> None:
    table = SimulatedTable(
        [
            state(0, {"old": -90, "release": -90, "young": -1}),
            # Another client deleted `young`, and a job made `new`.
            state(1, {"old": -90, "release": -90, "new": 1}),
        ],
        (),
        Calibration(),
    )
    policy = UpkeepPolicy.model_validate({"tags": {"older_than": "30d", "spare": ["rel*"]}})

    done = table.carry_out(asked("expire_tags", Benefit()), policy, START_MS + 1)

    assert done.benefit.tags_fewer == 1
    assert set(table.state().tags_made_ms) == {"release", "young"}
    table.advance(START_MS + DAY_MS)
    assert set(table.state().tags_made_ms) == {"release", "new"}
    assert table.state().survey.history.tags == 2


def test_tags_and_changelogs_that_upkeep_really_took_stay_where_the_replay_keeps_them() -> None:
    acts = (
        acted(1, "expire_tags", Benefit(tags_fewer=1)),
        acted(1, "expire_changelogs", Benefit(changelogs_fewer=5)),
    )
    table = SimulatedTable([state(0, {"old": -90}, 9), state(1, {}, 6)], acts, Calibration())

    table.advance(START_MS + DAY_MS)

    assert set(table.state().tags_made_ms) == {"old"}
    assert table.state().survey.history.tags == 1
    # Two came meanwhile.
    assert table.state().survey.history.changelogs == 11
    table.carry_out(
        asked("expire_changelogs", Benefit(changelogs_fewer=4)), UpkeepPolicy(), START_MS + DAY_MS
    )
    assert table.state().survey.history.changelogs == 7


def test_a_simulated_change_of_partition_keys_stands_until_they_really_change() -> None:
    def of_keys(day: int, *keys: str) -> UpkeepState:
        found = state(day, {})
        return replace(found, survey=replace(found.survey, partition_keys=keys))

    seen = [of_keys(0, "dt"), of_keys(1, "dt"), of_keys(2, "origin"), of_keys(3, "origin")]
    table = SimulatedTable(seen, (), Calibration())
    policy = UpkeepPolicy.model_validate({"respec": {"keys": ["dt", "hh"]}})
    table.carry_out(asked("respec", Benefit()), policy, START_MS + 1)
    for day, keys in enumerate((("dt", "hh"), ("dt", "hh"), ("origin",), ("origin",))):
        table.advance(START_MS + day * DAY_MS)
        assert table.state().survey.partition_keys == keys
