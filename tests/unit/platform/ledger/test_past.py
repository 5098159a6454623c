"""What the ledger tells the next decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakewright.platform.ledger.action import Action, Verdict
from lakewright.platform.ledger.calibrate import Calibration
from lakewright.platform.ledger.kept_verbs import ENDS_CHANGE
from lakewright.platform.ledger.known_work import Past, Try
from lakewright.platform.ledger.ledger import Ledger
from lakewright.platform.ledger.past import LedgerPast
from lakewright.platform.ledger.taken_back import TakenBack, taken_back
from lakewright.platform.upkeep.measures import Cost
from lakewright.storage import Catalog


def test_predictions_learn_from_each_action_once_however_often_the_ledger_is_read(
    catalog: Catalog,
) -> None:
    ledger, past = Ledger(catalog), LedgerPast(Ledger(catalog))
    assert past.add_to(Past(), day_begins_ms=0).learned == Calibration()
    now_ms = catalog.env.now_ms()
    made: list[Action] = []
    for batch in range(4):
        new = [an_action(now_ms + 10 * batch + at, table=f"db.t{at}") for at in range(3)]
        if batch == 2:
            # It took long, and is recorded after what began later.
            new[0] = replace(new[0], started_ms=now_ms - 60_000)
        ledger.record(new)
        made += new
        for _ in range(2):
            found = past.add_to(Past(), day_begins_ms=0).learned
    ratios = found.ratios_of("expire_snapshots", "db.other")
    assert ratios.runs == len(made)
    assert ratios.milliseconds == 400
    # A process that reads the whole ledger at once knows the same.
    assert LedgerPast(ledger).add_to(Past(), day_begins_ms=0).learned == found


def an_action(at_ms: int, *, table: str) -> Action:
    return Action(
        id=f"action-{at_ms}",
        run="a run",
        table=table,
        table_uuid=table,
        # As the ledger calls the expiry that decisions ask for.
        verb="expire_snapshots",
        started_ms=at_ms,
        ended_ms=at_ms + 400,
        verdict=Verdict.DONE,
        cost=Cost(files=20, milliseconds=400),
    )


@pytest.mark.parametrize(
    ("verb", "after", "options", "held"),
    [
        ("rollback", 1, {}, True),
        # The first snapshots of a change have the keys of before.
        ("rollback", 3, {}, True),
        ("rollback", 4, {}, False),
        ("respec", 6, {"keys": ["dt"]}, True),
        ("respec", 6, {"keys": ["dt", "hh"]}, False),
        ("respec", 6, {"moved_from": "/elsewhere"}, False),
        ("compact", 5, {}, False),
    ],
)
def test_a_person_who_undoes_a_change_of_keys_by_a_policy_is_left_alone(
    verb: str, after: int, options: dict[str, object], held: bool
) -> None:
    base = replace(an_action(0, table="db.t"), verb="respec")
    asked = replace(
        base, state="s", policy="p", options={"keys": ["dt", "hh"]}, snapshots=(2, 3, 4)
    )
    done = replace(
        base, id="2", started_ms=9, verb=verb, run="mine", options=options, snapshot_after=after
    )
    found = taken_back([asked, done])
    assert (("db.t", "respec") in found) is held
    if held:
        assert found["db.t", "respec"].by == "mine"
    # What only ended a stopped change was no wish of the policy.
    ended = replace(asked, state=f"{ENDS_CHANGE} 3")
    assert ("db.t", "respec") not in taken_back([ended, done])


def test_what_is_taken_back_is_held_until_a_person_does_it_again(catalog: Catalog) -> None:
    ledger, past = Ledger(catalog), LedgerPast(Ledger(catalog))
    now_ms = catalog.env.now_ms()

    def record(at: int, verb: str, **more: Any) -> Mapping[tuple[str, str], TakenBack]:
        action = replace(an_action(now_ms + at, table="db.t"), verb=verb, id=str(at), **more)
        ledger.record([replace(action, run=f"run {at}")])
        return past.past(day_begins_ms=0).taken_back

    upkeep = {"state": "s", "policy": "p"}
    assert not record(1, "compact", snapshots=(7,), **upkeep)
    assert not record(2, "revert", options={"snapshots": [5]}, snapshots=(8,))
    held = record(3, "revert", options={"snapshots": [6, 7]}, snapshots=(9,))
    assert set(held) == {("db.t", "compact")}
    assert (held["db.t", "compact"].run, held["db.t", "compact"].by) == ("run 1", "run 3")
    assert held["db.t", "compact"].at_ms == now_ms + 3 + 400
    # The same policy, where rows came since; a person; the undo undone.
    assert record(4, "compact", **upkeep) == held
    assert record(5, "expire_snapshots") == held
    assert not record(6, "postpone_compact")
    assert record(7, "revert", options={"snapshots": [7]}, snapshots=(10,))
    assert not record(8, "revert", options={"snapshots": [10]}, snapshots=(11,))
    assert not record(9, "remove_orphans", condemned=("q1",), **upkeep)
    assert set(record(10, "put_back", options={"record": "q1"})) == {("db.t", "remove_orphans")}
    # Of another table of the same name nothing is held.
    assert set(record(11, "compact", table_uuid="other", snapshots=(3,))) == {
        ("db.t", "remove_orphans")
    }


def test_an_action_and_its_run_are_one_try(catalog: Catalog) -> None:
    ledger = Ledger(catalog)
    now_ms = catalog.env.now_ms()
    key = ("db.t", "expire_snapshots")
    ledger.record(
        [
            replace(an_action(now_ms + at, table="db.t"), id=str(at), run=f"run {at}", state="s")
            for at in (1, 2)
        ]
    )
    own = LedgerPast(ledger).past(day_begins_ms=0).tries[key]
    assert own == Try(state="s", ended_ms=now_ms + 402, times=2)
    runs = Past(tries={key: Try(state="s", ended_ms=now_ms + 500, times=3)})
    assert LedgerPast(ledger).add_to(runs, day_begins_ms=0).tries == runs.tries
    earlier = Past(tries={key: Try(state="r", ended_ms=now_ms, times=1)})
    assert LedgerPast(ledger).add_to(earlier, day_begins_ms=0).tries[key] == own


@pytest.mark.parametrize("at_once", [True, False])
def test_the_actions_of_one_run_are_one_try(catalog: Catalog, *, at_once: bool) -> None:
    ledger, past = Ledger(catalog), LedgerPast(Ledger(catalog))
    now_ms = catalog.env.now_ms()
    # A step that was retried five times, and one run of two verbs that are decided as one.
    failed = [("a run", "compact", Verdict.FAILED)] * 6
    done = [("b run", "postpone_compact", Verdict.DONE), ("b run", "compact", Verdict.BEATEN)]
    seen = []
    for at, (run, verb, verdict) in enumerate([*failed, *done]):
        action = an_action(now_ms + at, table="db.t")
        ledger.record([replace(action, run=run, verb=verb, verdict=verdict, state="s")])
        if not at_once:
            seen.append(past.past(day_begins_ms=0).tries["db.t", "compact"].times)
    assert past.past(day_begins_ms=0).tries["db.t", "compact"].times == 2
    assert seen == ([] if at_once else [1, 1, 1, 1, 1, 1, 2, 2])


def test_a_try_by_another_policy_is_the_first_one_of_it(catalog: Catalog) -> None:
    ledger = Ledger(catalog)
    now_ms = catalog.env.now_ms()
    key = ("db.t", "expire_snapshots")
    for at, policy in enumerate(["old", "old", "new"]):
        action = an_action(now_ms + at, table="db.t")
        ledger.record([replace(action, run=f"run {at}", state="s", policy=policy)])
    own = LedgerPast(ledger).past(day_begins_ms=0).tries[key]
    assert own == Try(state="s", ended_ms=now_ms + 402, policy="new", times=1)
    runs = Past(tries={key: Try(state="s", ended_ms=now_ms, policy="old", times=5)})
    assert LedgerPast(ledger).add_to(runs, day_begins_ms=0).tries[key] == own
