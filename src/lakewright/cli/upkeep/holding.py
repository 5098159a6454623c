"""Leases of commands: in whose name a call works, and what it holds meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakewright.cli.grammar.call import Call
from lakewright.platform.upkeep.leases import expiring, maintaining, plan_scope
from lakewright.storage import (
    CompactionPlan,
    Lease,
    LeaseKind,
    PostponePlan,
    RescalePlan,
    Table,
)


@contextmanager
def rewriting(
    call: Call,
    table: Table,
    plan: CompactionPlan | PostponePlan | RescalePlan,
    kind: LeaseKind = LeaseKind.COMPACT,
) -> Iterator[Lease | None]:
    """Hold what a plan rewrites, where there is anything."""
    if not plan.tasks:
        yield None
        return
    with maintaining(table, kind, plan_scope(table, plan), run=_name_of(call, table)) as lease:
        yield lease


@contextmanager
def holding_expiry(call: Call, table: Table) -> Iterator[Lease]:
    """Be the only process that expires anything of the table."""
    with expiring(table, run=_name_of(call, table)) as lease:
        yield lease


def _name_of(call: Call, table: Table) -> str:
    """In whose name a call works; each call is work of its own."""
    return f"lakewright {call.command} ({table.files.env.new_id()[:8]})"
