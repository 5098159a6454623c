"""Leases against a plain list of who holds what, whoever comes, goes and looks, and when."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from lakewright.storage import Catalog, LeaseKind
from lakewright.storage.errors import LeaseHeld, LeaseLost
from lakewright.storage.operations.leases.leases import (
    CLOCKS_DIFFER_MS,
    LEASE_MS,
    LeaseRequest,
    acquire_free,
    acquire_lease,
    look_at_lease,
    release_lease,
    renew_lease,
    scope_of,
    whole_table,
)
from tests.support.tables.builders import new_table
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri
from tests.support.tally import tally

DAYS, BUCKETS = ("a", "b"), (0, 1)
ALL = frozenset(itertools.product(DAYS, BUCKETS))
APART = {
    (LeaseKind.APPEND, LeaseKind.APPEND),
    (LeaseKind.APPEND, LeaseKind.UPSERT),
    (LeaseKind.APPEND, LeaseKind.COMPACT),
    (LeaseKind.UPSERT, LeaseKind.COMPACT),
}
WRITES = (LeaseKind.APPEND, LeaseKind.UPSERT, LeaseKind.OVERWRITE)
GIVE_WAY = (LeaseKind.COMPACT, LeaseKind.RESCALE)


def in_vain(one: LeaseKind, other: LeaseKind) -> bool:
    """Whether two kinds must not share a bucket, said once more and otherwise."""
    if LeaseKind.EXPIRE in (one, other):
        return one is other
    return (one, other) not in APART and (other, one) not in APART


@dataclass
class Held:
    """What the model knows of a lease: the buckets left of it, and when it ends."""

    kind: LeaseKind
    places: set[tuple[str, int]]
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

    def _request(self, kind: LeaseKind, places: frozenset[tuple[str, int]]) -> LeaseRequest:
        scope = whole_table(self.files)
        if places != ALL:
            scope = scope_of(self.files, [({"day": day}, bucket) for day, bucket in places])
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
        places=st.frozensets(st.sampled_from(sorted(ALL)), min_size=1),
    )
    def acquire(self, kind: LeaseKind, places: frozenset[tuple[str, int]]) -> str:
        self._forget_the_dead()
        blocking = [
            each
            for each in self._others(kind)
            if each.places & places and not (kind in WRITES and each.kind in GIVE_WAY)
        ]
        try:
            lease = acquire_lease(self.files, self._request(kind, places))
        except LeaseHeld:
            # What is left of a lease for all there is the book does not know.
            whole = any(each.whole for each in self._others(kind))
            assert blocking or (places == ALL and whole)
            return ""
        assert not blocking
        for each in self._others(kind):
            if kind in WRITES and each.kind in GIVE_WAY and each.places & places:
                each.places -= places
        self.held[lease.id] = Held(kind, set(places), lease.expires_ms, places == ALL)
        return lease.id

    @rule(target=leases, places=st.frozensets(st.sampled_from(sorted(ALL)), min_size=1))
    def compact_what_is_free(self, places: frozenset[tuple[str, int]]) -> str:
        self._forget_the_dead()
        kind = LeaseKind.COMPACT
        taken = {place for each in self._others(kind) for place in each.places}
        free = places - taken
        try:
            lease = acquire_free(self.files, self._request(kind, places))
        except LeaseHeld:
            assert taken & places
            # What is left of a lease for all there is the book does not know.
            whole = any(each.whole for each in self._others(kind))
            assert not free or (places == ALL and whole)
            return ""
        got = {place for place in ALL if lease.covers(f"day={place[0]}", place[1])}
        assert got == free
        self.held[lease.id] = Held(kind, got, lease.expires_ms, places == ALL)
        return lease.id

    @rule(lease_id=leases)
    def renew(self, lease_id: str) -> None:
        known = lease_id in self.held
        try:
            lease = renew_lease(self.files, lease_id)
        except LeaseLost:
            self._forget_the_dead()
            assert lease_id not in self.held
            return
        if known:
            self.held[lease_id].ends_ms = lease.expires_ms
        else:
            # It ran out for everybody else, and nobody came: it is as it was.
            release_lease(self.files, lease_id)

    @rule(lease_id=leases)
    def release(self, lease_id: str) -> None:
        release_lease(self.files, lease_id)
        self.held.pop(lease_id, None)

    @rule(share=st.sampled_from([1, 4, 13]))
    def time_goes_by(self, share: int) -> None:
        self.env.clock.advance(LEASE_MS * share / 10)

    @invariant()
    def holders_see_what_is_theirs_and_no_two_have_one_bucket(self) -> None:
        self._forget_the_dead()
        for lease_id, held in self.held.items():
            lease = look_at_lease(self.files, lease_id)
            assert lease is not None
            held.ends_ms = lease.expires_ms
            seen = {place for place in ALL if lease.covers(f"day={place[0]}", place[1])}
            assert seen == held.places
        for one, other in itertools.combinations(self.held.values(), 2):
            assert not (in_vain(one.kind, other.kind) and one.places & other.places)
        tally("states of lease books compared with a model")


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=60, stateful_step_count=20)


@pytest.mark.deep
def test_many_more_steps() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Leases, settings=settings(max_examples=300, stateful_step_count=50))
