"""What the ledger tells the next decisions."""

from __future__ import annotations

from dataclasses import replace

from lakewright.platform.upkeep.measures import Cost
from lakewright.platform.warehouse.action import Action, Verdict
from lakewright.platform.warehouse.calibrate import Calibration
from lakewright.platform.warehouse.decide import Past
from lakewright.platform.warehouse.ledger import Ledger
from lakewright.platform.warehouse.past import LedgerPast, past_of_ledger
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
    assert past_of_ledger(ledger.actions()).learned == found
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
