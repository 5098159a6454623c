"""Leases against a plain list of holders, under any order of takes, releases and looks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from lakewright.storage import Catalog, LeaseKind
from lakewright.storage.errors import LeaseHeld
from lakewright.storage.operations.leases.leases import (
    CLOCKS_DIFFER_MS,
    LEASE_MS,
    LeaseRequest,
    acquire_lease,
    keep_lease,
    release_lease,
    scope_of,
    whole_table,
)
from tests.support.tables.builders import new_table
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri
from tests.support.tally import tally

ALL = frozenset(("a", "b", "c"))
APART = {
    (LeaseKind.APPEND, LeaseKind.APPEND),
    (LeaseKind.APPEND, LeaseKind.UPSERT),
    (LeaseKind.APPEND, LeaseKind.COMPACT),
    (LeaseKind.UPSERT, LeaseKind.COMPACT),
}
WRITES = (LeaseKind.APPEND, LeaseKind.UPSERT, LeaseKind.OVERWRITE)
GIVE_WAY = (LeaseKind.COMPACT, LeaseKind.RESCALE)


def in_vain(one: LeaseKind, other: LeaseKind) -> bool:
    """Whether two kinds must not share a day, said once more and otherwise."""
    if LeaseKind.EXPIRE in (one, other):
        return one is other
    return (one, other) not in APART and (other, one) not in APART


@dataclass
class Held:
    """What the model knows of a lease: the days left of it, and when it ends."""

    kind: LeaseKind
    days: set[str]
    ends_ms: int
    whole: bool = False


class Leases(RuleBasedStateMachine):
    """Anybody acquires, renews, releases, and time goes by."""

    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.env = FixedEnv()
        catalog = Catalog.open(memory_uri(), env=self.env)
        self.files = new_table(
            catalog, partitions=("day",), keys=("id", "day"), options={"bucket": "2"}
        ).table_files
        self.held: dict[str, Held] = {}

    def _request(self, kind: LeaseKind, days: frozenset[str]) -> LeaseRequest:
        scope = whole_table(self.files)
        if days != ALL:
            scope = scope_of(self.files, [{"day": day} for day in days])
        return LeaseRequest(kind=kind, scope=scope, holder="somebody")

    def _forget_the_dead(self) -> None:
        now = self.env.clock.now_ms + 10
        for lease_id in [
            each for each, held in self.held.items() if now > held.ends_ms + CLOCKS_DIFFER_MS
        ]:
            del self.held[lease_id]

    def _others(self, kind: LeaseKind) -> list[Held]:
        return [each for each in self.held.values() if in_vain(each.kind, kind)]

    @rule(
        target=leases,
        kind=st.sampled_from(LeaseKind),
        days=st.frozensets(st.sampled_from(sorted(ALL)), min_size=1),
    )
    def acquire(self, kind: LeaseKind, days: frozenset[str]) -> str:
        self._forget_the_dead()
        writes = kind in WRITES
        standing = [each for each in self._others(kind) if each.days & days]
        yielding = [each for each in standing if writes and each.kind in GIVE_WAY]
        taken = {day for each in standing if each not in yielding for day in each.days & days}
        try:
            lease = acquire_lease(self.files, self._request(kind, days))
        except LeaseHeld:
            # What is left of a lease for all there is the book does not know.
            whole = any(each.whole for each in self._others(kind))
            assert (taken if writes else not days - taken) or (days == ALL and whole)
            return ""
        got = {day for day in ALL if lease.scope.holds(f"day={day}")}
        assert got == days - taken
        assert not (writes and taken)
        for each in yielding:
            each.days -= days
        self.held[lease.id] = Held(kind, got, lease.expires_ms, days == ALL)
        return lease.id

    @rule(lease_id=leases)
    def renew(self, lease_id: str) -> None:
        known = lease_id in self.held
        lease = keep_lease(self.files, lease_id)
        if lease is None:
            self._forget_the_dead()
            assert lease_id not in self.held
            return
        if known:
            self.held[lease_id].ends_ms = lease.expires_ms
        else:
            # It ran out for others, and none took it: it is as it was.
            release_lease(self.files, lease_id)

    @rule(lease_id=leases)
    def release(self, lease_id: str) -> None:
        release_lease(self.files, lease_id)
        self.held.pop(lease_id, None)

    @rule(share=st.sampled_from([1, 4, 13]))
    def time_goes_by(self, share: int) -> None:
        self.env.clock.advance(LEASE_MS * share / 10)

    @invariant()
    def holders_see_what_is_theirs_and_no_two_have_one_day(self) -> None:
        self._forget_the_dead()
        for lease_id, held in self.held.items():
            lease = keep_lease(self.files, lease_id)
            assert lease is not None
            held.ends_ms = lease.expires_ms
            seen = {day for day in ALL if lease.scope.holds(f"day={day}")}
            assert seen == held.days
        for one, other in itertools.combinations(self.held.values(), 2):
            assert not (in_vain(one.kind, other.kind) and one.days & other.days)
        tally("states of lease books compared with a model")


TestLeases = Leases.TestCase
TestLeases.settings = settings(
    max_examples=max(20, settings().max_examples * 2 // 5), stateful_step_count=20
)


@pytest.mark.deep
def test_many_more_steps() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Leases, settings=settings(max_examples=300, stateful_step_count=50))
