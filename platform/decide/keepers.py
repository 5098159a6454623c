"""The verbs that policies ask for, and whether the policy of a table lets one work."""

from __future__ import annotations

from typing import Any

from lakewright.platform.decide.kept_tables import KeptTable
from lakewright.platform.ledger.intents import Why
from lakewright.platform.tables.upkeep_policies import UpkeepMode, UpkeepPolicy
from lakewright.platform.upkeep.procedure import AnyProcedure, Keeping
from lakewright.platform.upkeep.procedures import PROCEDURES
from lakewright.platform.upkeep.respec import RESPEC
from lakewright.storage import Table

KEPT_VERBS = {name: verb for name, verb in PROCEDURES.items() if verb.keeping is not None}


def keeping_of(verb: str) -> Keeping:
    """What policies say of a kept verb."""
    keeping = KEPT_VERBS[verb].keeping
    assert keeping is not None
    return keeping


def options_by(policy: UpkeepPolicy, verb: str) -> Any:
    """The options that a policy gives a verb."""
    return keeping_of(verb).options(policy)


def in_turn(verb: str, table: Table) -> tuple[AnyProcedure, ...]:
    """What a kept verb carries out on a table, one after the other."""
    return (*keeping_of(verb).first(table), KEPT_VERBS[verb])


def may_be_done(verb: str, kept: KeptTable, why: str = "") -> bool:
    """Whether the policy of a table lets a verb work; it may have changed since the request.

    A change of keys that was stopped is ended whether or not the policy names keys.
    """
    policy = kept.policy
    if policy.freeze or policy.mode is UpkeepMode.SHADOW:
        return False
    names_keys = policy.respec.keys is not None and kept.declared_keys is None
    if verb == RESPEC.name and not names_keys and why != Why.STOPPED_CHANGE.value:
        return False
    return keeping_of(verb).section(policy).enabled
