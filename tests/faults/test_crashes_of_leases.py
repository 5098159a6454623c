"""A crash or failure at every call while leases change: the work goes on, no row is at stake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from lakewright.storage import Catalog, LeaseKind, Table
from lakewright.storage.errors import LeaseHeld, StorageError
from lakewright.storage.operations.leases.leases import (
    CLOCKS_DIFFER_MS,
    LEASE_MS,
    LeaseRequest,
    acquire_lease,
    break_lease,
    leased,
    require_lease,
    scope_of,
    whole_table,
)
from tests.support.stores.watched_files import Call, Crashed, Fault, watched
from tests.support.tables.builders import content, events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import empty_memory
from tests.support.tables.invariants import assert_nothing_missing
from tests.support.tables.remade import Remade
from tests.support.tally import tally

FAULTS = [Fault.DIES_BEFORE, Fault.DIES_AFTER, Fault.FAILS_BEFORE, Fault.FAILS_AFTER]
faults = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.value)


# Where else such work fails, tests of the verbs without a lease show too.
PLACES: dict[str, Callable[[Call], bool]] = {
    "of the book": lambda call: "/leases" in call.path,
    "of all": lambda call: True,
}
places = pytest.mark.parametrize(
    "calls", ["of the book", pytest.param("of all", marks=pytest.mark.deep)]
)


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    yield
    empty_memory()


def make_table(catalog: Catalog) -> Table:
    """Two days with something to compact, and so many books that old ones are deleted."""
    table = new_table(catalog, partitions=("day",), keys=("id", "day"), options={"bucket": "1"})
    for version in ("one", "two"):
        for day in ("a", "b"):
            table.write(rows(table, events(0, 4, day=day, v=version)))
    for _ in range(4):
        with leased(table.table_files, ask(table, LeaseKind.COMPACT)):
            pass
    return table


def ask(table: Table, kind: LeaseKind, **more: Any) -> LeaseRequest:
    return LeaseRequest(
        kind=kind,
        scope=more.pop("scope", whole_table(table.table_files)),
        holder="somebody",
        **more,
    )


def compact_leased(table: Table) -> None:
    with leased(table.table_files, ask(table, LeaseKind.COMPACT, owner="upkeep")) as lease:
        table.upkeep.run(table.upkeep.plan_compact(full=True), lease=lease)


def write_leased(table: Table) -> None:
    scope = scope_of(table.table_files, [{"day": "a"}])
    with leased(table.table_files, ask(table, LeaseKind.OVERWRITE, owner="run 1", scope=scope)):
        new = rows(table, events(0, 2, v="new"))
        table.write(
            new, mode="overwrite", partition={"day": "a"}, commit_user="run 1", commit_identifier=1
        )


def renew_and_break(table: Table) -> None:
    lease = acquire_lease(table.table_files, ask(table, LeaseKind.OVERWRITE, owner="run 1"))
    assert isinstance(table.table_files.env, FixedEnv)
    table.table_files.env.clock.advance(LEASE_MS // 2)
    require_lease(table.table_files, lease)
    break_lease(table.table_files, lease.id)


VERBS = {"compact": compact_leased, "write": write_leased, "renew and break": renew_and_break}


@faults
@places
@pytest.mark.parametrize("name", list(VERBS))
@pytest.mark.sampled(each="fault")
def test_work_under_a_lease_that_failed_anywhere_is_repeated_at_once(
    name: str, calls: str, fault: Fault
) -> None:
    """The second try is of the same owner; what others work on, it leaves in peace."""
    verb = VERBS[name]
    made = Remade(make_table)
    undisturbed = made.again()
    verb(undisturbed)
    expected = content(undisturbed)
    for number in range(1, 1000):
        table = made.again()
        broken, fs = watched(table, fail_at=number, fault=fault, counts=PLACES[calls])
        with suppress(Crashed, StorageError):
            verb(broken)
        if fs.counted < number:
            break
        place = f"{fault.value} at call {number} {calls}"
        with suppress(LeaseHeld):
            # Another process finds the lease in force, or none, and no damaged register.
            acquire_lease(table.table_files, ask(table, LeaseKind.EXPIRE))
        verb(table)
        assert content(table) == expected, place
        assert_nothing_missing(table)
        assert [each.kind for each in table.upkeep.leases()] == [LeaseKind.EXPIRE], place
    assert number > 6
    tally("points of failure tried", number - 1)


@faults
@places
def test_a_lease_of_one_who_failed_anywhere_stops_nobody_for_longer_than_it_runs(
    calls: str, fault: Fault
) -> None:
    made = Remade(make_table)
    for number in range(1, 1000):
        table = made.again()
        broken, fs = watched(table, fail_at=number, fault=fault, counts=PLACES[calls])
        with suppress(Crashed, StorageError):
            compact_leased(broken)
        if fs.counted < number:
            break
        assert isinstance(table.table_files.env, FixedEnv)
        table.table_files.env.clock.advance(LEASE_MS + CLOCKS_DIFFER_MS + 1000)
        lease = acquire_lease(table.table_files, ask(table, LeaseKind.COMPACT))
        assert lease.scope == whole_table(table.table_files)
        assert len(table.upkeep.leases()) == 1
    tally("points of failure tried", number - 1)
