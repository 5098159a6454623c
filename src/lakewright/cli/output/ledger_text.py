"""Figures of actions for people, alike in the ledger and in savings."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lakewright.cli.grammar.call import Call
from lakewright.platform.ledger.action import Action
from lakewright.platform.ledger.ledger import Ledger
from lakewright.storage import Catalog
from lakewright.storage.errors import NotFoundError


def actions_since(
    call: Call, *, table: str | None, verb: str | None, since_ms: int | None
) -> Sequence[Action]:
    """The actions of an age and younger, oldest first.

    Raises:
        NotFoundError: the warehouse has no ledger.
    """
    catalog = call.catalog()
    ledger = Ledger(catalog)
    if not ledger.exists():
        raise NotFoundError(no_ledger(catalog))
    begins_ms = None if since_ms is None else max(0, catalog.env.now_ms() - since_ms)
    return ledger.actions(table=table, verb=verb, since_ms=begins_ms)


def no_ledger(catalog: Catalog) -> str:
    """What is said of a warehouse of which nothing is recorded."""
    return (
        f"{catalog.uri} has no ledger: the first `lakewright upkeep`, or upkeep in Dagster, begins "
        "one, or `lakewright ledger --create`"
    )


def short_run(run: str) -> str:
    """What `lakewright undo` takes for a run: 8 digits of a command, or of a Dagster run."""
    found = re.search(r"\((\w{8})\)$", run) or re.match(r"dagster-(\w{8})-", run)
    return run if found is None else found[1]
