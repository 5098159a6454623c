"""Leases in jobs: what a run takes, how long it waits, and that no writer fails for one."""

from __future__ import annotations

import threading
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from lakewright.platform.orchestration.failures import reaction_to
from lakewright.platform.tables.declarations import WriteKind
from lakewright.platform.upkeep.leases import (
    INDEX_WRITER_WAITS_MS,
    WRITER_WAITS_MS,
    here,
    maintaining,
    partitions_scope,
    plan_scope,
    renewed,
    writing,
)
from lakewright.storage import Catalog, LeaseKind, Table
from lakewright.storage.errors import LeaseHeld
from lakewright.storage.operations.leases.leases import LeaseRequest, acquire_lease, whole_table
from lakewright.storage.spec.lease import Lease
from tests.support.stores.watched_files import interrupted, watched
from tests.support.tables.builders import events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.fixtures import memory_uri

KEYED: dict[str, Any] = {"keys": ("id", "day"), "partitions": ("day",)}


@pytest.fixture
def env() -> FixedEnv:
    return FixedEnv()


@pytest.fixture
def catalog(env: FixedEnv) -> Catalog:
    return Catalog.open(memory_uri(), env=env)


def keyed(catalog: Catalog, bucket: str = "2") -> Table:
    return new_table(catalog, options={"bucket": bucket}, **KEYED)


def hold(table: Table, kind: LeaseKind = LeaseKind.UPSERT) -> str:
    request = LeaseRequest(
        kind=kind, scope=whole_table(table.table_files), holder="the first", duration_ms=86_400_000
    )
    return acquire_lease(table.table_files, request).id


@pytest.mark.parametrize(
    ("settings", "kind", "expected"),
    [
        ({**KEYED, "options": {"bucket": "2"}}, WriteKind.UPSERT, LeaseKind.UPSERT),
        ({**KEYED, "options": {"bucket": "-1"}}, WriteKind.UPSERT, LeaseKind.UPSERT),
        ({**KEYED, "options": {"bucket": "-2"}}, WriteKind.UPSERT, LeaseKind.APPEND),
        ({"partitions": ("day",)}, WriteKind.APPEND, LeaseKind.APPEND),
        ({**KEYED, "options": {"bucket": "2"}}, WriteKind.OVERWRITE, LeaseKind.OVERWRITE),
    ],
)
def test_a_write_takes_what_it_needs_of_the_partitions_it_is_for(
    catalog: Catalog, settings: dict[str, Any], kind: WriteKind, expected: LeaseKind
) -> None:
    table = new_table(catalog, **settings)
    with writing(table, kind, [{"day": "a"}], commit_user="dagster-17-events") as lease:
        assert lease is not None
        assert (lease.kind, str(lease.scope)) == (expected, "day=a")
        assert lease.holder.startswith("dagster-17-events on ")
        assert table.upkeep.leases() == (lease,)
    assert not table.upkeep.leases()
    with writing(table, kind, None, commit_user="dagster-17-events") as lease:
        assert lease is not None
        assert lease.scope == whole_table(table.table_files)


@pytest.mark.parametrize(
    ("bucket", "waits"), [("2", WRITER_WAITS_MS), ("-1", INDEX_WRITER_WAITS_MS)]
)
def test_a_writer_waits_for_another_as_long_as_that_is_worth_and_goes_on(
    catalog: Catalog, env: FixedEnv, bucket: str, waits: int
) -> None:
    table, said = keyed(catalog, bucket), []
    hold(table)
    with writing(table, WriteKind.UPSERT, None, commit_user="second", warn=said.append) as lease:
        assert lease is None
        assert sum(env.slept_ms) == waits
        table.write(rows(table, events(0, 1)))
    (warning,) = said
    assert warning.startswith("db.t is written without a lease: db.t cannot be leased to upsert: ")
    assert "the first has all of the table to upsert until" in warning


def test_a_writer_does_not_wait_for_maintenance(catalog: Catalog, env: FixedEnv) -> None:
    table = keyed(catalog)
    hold(table, LeaseKind.COMPACT)
    with writing(table, WriteKind.OVERWRITE, [{"day": "a"}], commit_user="second") as lease:
        assert lease is not None
        assert not env.slept_ms


def test_a_second_try_of_a_run_does_not_wait_for_the_first(catalog: Catalog, env: FixedEnv) -> None:
    table = keyed(catalog)
    first = writing(table, WriteKind.UPSERT, None, commit_user="run 17")
    with first, writing(table, WriteKind.UPSERT, None, commit_user="run 17") as lease:
        assert lease is not None
        assert not env.slept_ms


@pytest.mark.parametrize("call", range(1, 7))
def test_a_writer_goes_on_whatever_the_store_does_to_its_lease(catalog: Catalog, call: int) -> None:
    table, said = keyed(catalog), []
    broken, fs = watched(table, fail_at=call, counts=lambda each: "/leases" in each.path)
    written = 0
    with writing(broken, WriteKind.UPSERT, None, commit_user="run", warn=said.append):
        written += 1
    assert written == 1
    assert len(said) <= 1
    assert fs.counted >= call


def test_what_fails_in_the_work_is_not_taken_for_a_lease_that_cannot_be_had(
    catalog: Catalog,
) -> None:
    table, said = keyed(catalog), []

    def work() -> None:
        with writing(table, WriteKind.UPSERT, None, commit_user="run", warn=said.append):
            raise LeaseHeld("of something else")

    with pytest.raises(LeaseHeld, match="of something else"):
        work()
    assert not said
    assert not table.upkeep.leases()


def test_maintenance_that_finds_nothing_free_is_tried_again_later(catalog: Catalog) -> None:
    table = keyed(catalog)
    hold(table, LeaseKind.OVERWRITE)

    def maintain() -> None:
        with maintaining(table, LeaseKind.COMPACT, partitions_scope(table, None), run="upkeep"):
            pytest.fail("it has a lease")

    with pytest.raises(LeaseHeld) as held:
        maintain()
    assert reaction_to(held.value).retries > 0


def test_a_plan_is_leased_by_partitions(catalog: Catalog) -> None:
    table = keyed(catalog)
    for _ in range(2):
        table.write(rows(table, [*events(0, 9, day="a"), *events(0, 9, day="b")]))
    scope = plan_scope(table, table.upkeep.plan_compact([{"day": "b"}], [1], full=True))
    assert str(scope) == "day=b"
    assert str(plan_scope(table, table.upkeep.plan_rescale(3))) == "day=a; day=b"


@pytest.mark.parametrize("work", ["writing", "maintaining"])
def test_what_holds_a_lease_in_a_run_has_it_renewed_until_it_is_done(
    catalog: Catalog, work: str
) -> None:
    table = keyed(catalog)
    holding = (
        writing(table, WriteKind.UPSERT, None, commit_user="run")
        if work == "writing"
        else maintaining(table, LeaseKind.COMPACT, whole_table(table.table_files), run="run")
    )
    with holding as lease:
        assert lease is not None
        assert f"lease {lease.id}" in {each.name for each in threading.enumerate()}
    assert f"lease {lease.id}" not in {each.name for each in threading.enumerate()}


def renewed_beside(table: Table, seen: Table) -> tuple[Lease, Lease]:
    """A lease of a moment as it was taken, and once it is past its end beside work on `seen`."""
    request = LeaseRequest(
        kind=LeaseKind.COMPACT,
        scope=whole_table(table.table_files),
        holder=here("upkeep"),
        duration_ms=200,
    )
    lease = acquire_lease(table.table_files, request)
    with renewed(seen.table_files, lease):
        for _ in range(200):
            Event().wait(0.05)
            if table.upkeep.leases()[0].renewed_ms > lease.expires_ms:
                break
    (held,) = table.upkeep.leases()
    return lease, held


def test_a_lease_is_renewed_beside_work_that_does_nothing_else() -> None:
    table = keyed(Catalog.open(memory_uri()))
    lease, held = renewed_beside(table, table)
    assert held.renewed_ms > lease.expires_ms
    assert held == replace(lease, renewed_ms=held.renewed_ms, expires_ms=held.expires_ms)


def test_a_lease_is_renewed_after_a_failure_that_nobody_foresaw() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    table = keyed(Catalog.open(memory_uri()))
    broken, fs = interrupted(table, when=lambda call: "/leases" in call.path, meanwhile=fail)
    lease, held = renewed_beside(table, broken)
    assert fs.has_happened
    assert held.renewed_ms > lease.expires_ms
