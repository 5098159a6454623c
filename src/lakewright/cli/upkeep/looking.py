"""One look at a warehouse with the ledger alone, where no orchestrator runs."""

from __future__ import annotations

from dataclasses import asdict
from enum import Enum

from lakewright.platform.warehouse.clock import Clock
from lakewright.platform.warehouse.intents import Declined, Intent, WhyNot
from lakewright.platform.warehouse.look import Look, Watch
from lakewright.platform.warehouse.past import day_of
from lakewright.storage import Catalog

_ALWAYS_TOLD = (
    WhyNot.UNREADABLE,
    WhyNot.READ_ONLY,
    WhyNot.FROZEN,
    WhyNot.HINT,
    WhyNot.UNDONE,
    WhyNot.CONTRADICTION,
    WhyNot.DECLARED,
    WhyNot.UNSUPPORTED,
)


def look_now(catalog: Catalog, watch: Watch) -> Look:
    """Decide on every kept table, with what the ledger knows."""
    now_ms = catalog.env.now_ms()
    day_begins_ms, day_ends_ms = day_of(now_ms, watch.tables.warehouse.budget.timezone)
    past = watch.recorded(catalog).past(day_begins_ms=day_begins_ms)
    clock = Clock.at(now_ms)
    return watch.look(catalog, past, clock, day_ends_ms=day_ends_ms)


def states_of(look: Look, *, everything: bool) -> list[tuple[str, Intent | Declined]]:
    """Each decision with its state: due, in shadow, waiting, or why it is declined.

    What is in order is left out, unless `everything` is asked for.
    """
    chosen = {(each.table, each.verb): each for each in look.choice.chosen}
    shadows = {(each.table, each.verb) for each in look.shadows}
    waits = {(each.table, each.verb): each for each in look.choice.declined}
    rows: list[tuple[str, Intent | Declined]] = []
    for decision in (each for found in look.decisions.values() for each in found):
        key = (decision.table, decision.verb)
        if isinstance(decision, Intent):
            state = "due" if key in chosen else "shadow" if key in shadows else "waits"
            rows.append((state, waits.get(key, chosen.get(key, decision))))
        elif decision.why_not.waits:
            rows.append(("waits", decision))
        elif everything or decision.why_not in _ALWAYS_TOLD:
            rows.append((decision.why_not.value.replace("_", " "), decision))
    return rows


def plain_decision(state: str, decision: Intent | Declined) -> dict[str, object]:
    """A decision as a JSON value; its `state` says what comes of it."""
    found = {
        name: value.value if isinstance(value, Enum) else value
        for name, value in asdict(decision).items()
    }
    # The state of the table in which it was decided is for runs, which are known again by it.
    found.pop("state", None)
    if found.get("score") == float("inf"):
        # JSON has no such number.
        found["score"] = None
    return {"state": state, **found}
