"""Recorded surveys: what they keep of a state, when a row is written, and when none is."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from lakewright.platform.decide.clock import Clock
from lakewright.platform.decide.decide import decide, intents
from lakewright.platform.decide.survey_rows import state_of_row, survey_row
from lakewright.platform.decide.surveys import SURVEYS, SurveyLog, Surveys
from lakewright.platform.decide.upkeep_state import UpkeepState, read_state
from lakewright.platform.ledger.known_work import Past
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.tables.upkeep_policies import RespecPolicy, UpkeepPolicy
from lakewright.storage import Catalog, Table
from lakewright.storage.errors import InvalidRequestError
from tests.support.tables.builders import EVENTS, events, new_table, rows
from tests.support.tables.environment import FixedEnv

MINUTE_MS = 60_000


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = new_table(catalog, EVENTS, partitions=["day"])
    commit(made, 6)
    return made


def commit(table: Table, times: int = 1) -> None:
    for at in range(times):
        table.write(rows(table, events(at, at + 1, day="a")))


def seen(catalog: Catalog, at_ms: int = 0) -> UpkeepState:
    return read_state(catalog, "db.t", now_ms=at_ms)


def test_a_recorded_state_decides_as_the_state_itself(catalog: Catalog, table: Table) -> None:
    state = seen(catalog)
    Surveys(catalog).record([state])
    (again,) = Surveys(catalog).states(table="db.t")
    now_ms = state.survey.taken_ms + 400 * 86_400_000
    clock = Clock(now_ms=now_ms, last_tick_ms=lambda *_: now_ms - 1)
    policy = UpkeepPolicy()
    assert decide(again, policy, Past(), clock) == decide(state, policy, Past(), clock)
    assert again.health.partitions[0].small_files == 6
    (figures,) = Surveys(catalog).figures()
    assert (figures.files, figures.small_files, figures.debt_files) == (6, 6, 6)


def test_a_recorded_state_knows_its_keys_and_why_those_of_a_policy_are_not_possible(
    catalog: Catalog, table: Table
) -> None:
    clock = Clock(now_ms=0, last_tick_ms=lambda *_: 0)
    policies = {
        keys: UpkeepPolicy(respec=RespecPolicy(keys=keys)) for keys in (("day", "v"), ("no",))
    }
    states = {
        keys: read_state(catalog, "db.t", now_ms=0, respec=policy.respec)
        for keys, policy in policies.items()
    }
    decided = {keys: decide(each, policies[keys], Past(), clock) for keys, each in states.items()}
    assert [each.verb for each in intents(decided["day", "v"])] == ["respec"]
    assert intents(decided[("no",)]) == ()
    for keys, state in states.items():
        again = state_of_row(survey_row(state))
        assert again is not None
        assert decide(again, policies[keys], Past(), clock) == decided[keys]


def test_a_state_is_recorded_once_and_not_more_often_than_all_ten_minutes(
    catalog: Catalog, env: FixedEnv, table: Table
) -> None:
    log, begin_ms = SurveyLog(Surveys(catalog)), env.now_ms()

    def look(minute: int, *acting: str) -> int:
        env.clock.now_ms = begin_ms + minute * MINUTE_MS
        return log.record({"db.t": seen(catalog)}, acting=acting, now_ms=env.now_ms())

    assert look(0) == 1
    assert look(20) == 0
    commit(table)
    assert look(21) == 1
    commit(table)
    assert look(22) == 0
    # The state that upkeep acts on, and the one that it leaves behind.
    assert look(23, "db.t") == 1
    assert look(24) == 0
    commit(table)
    assert look(25) == 1
    commit(table)
    assert look(26) == 0
    # Another process goes on where this one ended.
    log = SurveyLog(Surveys(catalog))
    assert look(27) == 0
    assert look(60) == 1
    assert look(61 + 23 * 60) == 0
    # A state that holds is recorded once a day, so that no reader looks back for longer.
    assert look(61 + 24 * 60) == 1
    assert len(Surveys(catalog).figures(table="db.t")) == 6
    first, *_, last = Surveys(catalog).states(table="db.t")
    thinned = Surveys(catalog).states(most=2)
    assert (len(thinned), thinned[0], thinned[-1]) == (3, first, last)


def test_the_records_themselves_are_not_recorded_and_another_table_is_left_alone(
    catalog: Catalog, table: Table
) -> None:
    state = seen(catalog)
    own = replace(state, survey=replace(state.survey, table=SURVEYS))
    assert SurveyLog(Surveys(catalog)).record({SURVEYS: own}, acting=(), now_ms=10**12) == 0
    assert not Surveys(catalog).exists()
    new_table(catalog, {"k": "INT"}, name=SURVEYS)
    with pytest.raises(InvalidRequestError, match=r"is not a table of Lakewright's surveys"):
        Surveys(catalog).record([state])


def test_rows_of_other_clients_that_are_no_records_stop_neither_a_look_nor_the_figures(
    catalog: Catalog, table: Table
) -> None:
    surveys, ledger = Surveys(catalog), Ledger(catalog)
    surveys.record([seen(catalog)])
    at_ms = seen(catalog).survey.taken_ms
    for made, moment in ((surveys.create(), "taken_ms"), (ledger.create(), "started_ms")):
        known = {"table_name": "db.t", "table_uuid": "u", "verb": "compact", "verdict": "done"}
        for wrong in ({"table_name": None}, {moment: None}, {moment: 1 << 60}, {"options": "{"}):
            row = {**known, "id": "i", "run": "r", "ended_ms": 1, "state": "{", moment: at_ms}
            found = {each: {**row, **wrong}.get(each) for each in made.arrow_schema.names}
            told = {**found, "month": "2026-11"}
            made.write(pa.Table.from_pylist([told], schema=made.arrow_schema))
    assert [each.survey.table for each in surveys.states()] == ["db.t"]
    assert {each.table for each in surveys.figures(most=9)} == {"db.t"}
    assert set(surveys.last(since_ms=0)) == {"db.t"}
    assert {each.table for each in ledger.actions()} <= {"db.t"}
    assert {table for table, _, _ in ledger.last().started_ms} == {"db.t"}
