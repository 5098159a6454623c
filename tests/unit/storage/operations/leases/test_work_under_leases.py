"""Maintenance under a lease: what a writer takes away is left out, and the rest is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from lakewright.storage import Catalog, Lease, LeaseKind, Table
from lakewright.storage.errors import BucketCountChanged, LeaseLost, StorageError
from lakewright.storage.operations.leases.leases import (
    LEASE_MS,
    LeaseRequest,
    leased,
    scope_of,
    whole_table,
)
from tests.support.stores.watched_files import Call, interrupted
from tests.support.tables.builders import content, events, new_table, rows
from tests.support.tables.environment import FixedEnv
from tests.support.tables.invariants import assert_sound

DAYS = ("a", "b", "c")
# What is written where is the same on disk.
pytestmark = pytest.mark.parametrize("any_catalog", ["memory"], indirect=True)


@pytest.fixture(params=["append", "keyed"])
def table(request: pytest.FixtureRequest, any_catalog: Catalog) -> Table:
    """Three days of two commits each, in two buckets where there is a key."""
    keyed: dict[str, Any] = {"keys": ("id", "day"), "options": {"bucket": "2"}}
    created = new_table(
        any_catalog, partitions=("day",), **(keyed if request.param == "keyed" else {})
    )
    for version in ("one", "two"):
        for day in DAYS:
            created.write(rows(created, events(0, 20, day=day, v=version)))
    return created


@contextmanager
def compacting(table: Table) -> Iterator[Lease]:
    request = LeaseRequest(
        kind=LeaseKind.COMPACT, scope=whole_table(table.table_files), holder="upkeep"
    )
    with leased(table.table_files, request) as lease:
        yield lease


def overwrite(table: Table, day: str, *, fails: bool = False) -> None:
    """A writer that takes its day away, and may come to nothing after that."""
    scope = scope_of(table.table_files, [{"day": day}])
    request = LeaseRequest(kind=LeaseKind.OVERWRITE, scope=scope, holder="the writer")
    with leased(table.table_files, request):
        if not fails:
            new = rows(table, events(50, 53, day=day, v="new"))
            table.write(new, mode="overwrite", partition={"day": day})


def files_of(table: Table) -> dict[str, int]:
    return {str(each.spec["day"]): each.file_count for each in table.at().partitions()}


def first_new_file(call: Call) -> bool:
    return call.name == "open_output" and "bucket-" in call.path


def before_the_commit(table: Table) -> Callable[[Call], bool]:
    """The look at the lease that a commit takes: the first after the last new file."""
    buckets = len(table.upkeep.plan_compact(full=True).tasks)
    seen = {"looks": 0}

    def when(call: Call) -> bool:
        seen["looks"] += call.name == "list_dir" and call.path.endswith("/leases")
        return seen["looks"] == buckets + 1

    return when


@pytest.mark.parametrize("moment", ["while files are written", "before the commit"])
@pytest.mark.parametrize("fails", [False, True], ids=["and commits", "and fails"])
@pytest.mark.sampled(1)
def test_a_compaction_leaves_to_a_writer_what_that_wants_and_publishes_the_rest(
    table: Table, moment: str, fails: bool
) -> None:
    plan = table.upkeep.plan_compact(full=True)
    when = first_new_file if moment == "while files are written" else before_the_commit(table)
    expected = None
    if fails:
        expected = content(table)
    slower, fs = interrupted(table, when=when, meanwhile=lambda: overwrite(table, "b", fails=fails))
    with compacting(slower) as lease:
        result = slower.upkeep.run(plan, lease=lease)

    assert fs.has_happened
    assert result.snapshot is not None
    buckets = len(plan.tasks) // len(DAYS)
    assert result.dropped_tasks == buckets
    after = files_of(table)
    assert (after["a"], after["c"]) == (buckets, buckets)
    if fails:
        # What the writer wanted stays as it was, for the next compaction.
        assert after["b"] == 2 * buckets
        assert content(table) == expected
    else:
        kept = table.read().to_pylist()
        assert sorted(row["v"] for row in kept if row["day"] == "b") == ["new50", "new51", "new52"]
    assert not table.upkeep.leases()
    assert_sound(table)


def test_a_bucket_that_was_given_up_before_its_turn_is_not_even_read(table: Table) -> None:
    plan = table.upkeep.plan_compact(full=True)
    slower, fs = interrupted(
        table, when=first_new_file, meanwhile=lambda: overwrite(table, "c", fails=True)
    )
    with compacting(slower) as lease:
        slower.upkeep.run(plan, lease=lease)
    assert [call for call in fs.calls if "day=a" in call.path]
    assert not [call for call in fs.calls if "day=c" in call.path]


def test_writers_that_only_add_take_nothing_away_and_both_are_published(table: Table) -> None:
    kind = LeaseKind.UPSERT if table.schema.is_keyed else LeaseKind.APPEND

    def add() -> None:
        request = LeaseRequest(kind=kind, scope=whole_table(table.table_files), holder="the writer")
        with leased(table.table_files, request):
            table.write(rows(table, events(90, 91, day="b", v="new")))

    plan = table.upkeep.plan_compact(full=True)
    slower, fs = interrupted(table, when=first_new_file, meanwhile=add)
    with compacting(slower) as lease:
        result = slower.upkeep.run(plan, lease=lease)
    assert fs.has_happened
    assert result.dropped_tasks == 0
    assert "new90" in {row["v"] for row in table.read().to_pylist()}


@pytest.mark.parametrize("how", ["a writer", "a person", "time"])
def test_a_compaction_that_lost_all_says_to_whom_and_leaves_nothing(table: Table, how: str) -> None:
    plan, before = table.upkeep.plan_compact(full=True), content(table)

    def lose() -> None:
        match how:
            case "a writer":
                for day in DAYS:
                    overwrite(table, day, fails=True)
            case "a person":
                table.upkeep.break_lease(table.upkeep.leases()[0].id)
            case _:
                assert isinstance(table.table_files.env, FixedEnv)
                table.table_files.env.clock.advance(3 * LEASE_MS)
                with compacting(table):
                    pass

    slower, _ = interrupted(table, when=first_new_file, meanwhile=lose)
    said = (
        "given up to the writer"
        if how == "a writer"
        else "ran out and others came, or a person broke it"
    )

    def run() -> None:
        with compacting(slower) as lease:
            slower.upkeep.run(plan, lease=lease)

    with pytest.raises(LeaseLost, match=said):
        run()
    assert content(table) == before
    assert len(table.history.snapshots()) == 2 * len(DAYS)
    assert_sound(table)


def test_a_compaction_that_takes_long_keeps_its_lease(table: Table) -> None:
    def wait() -> None:
        assert isinstance(table.table_files.env, FixedEnv)
        table.table_files.env.clock.advance(2 * LEASE_MS)

    slower, fs = interrupted(table, when=first_new_file, meanwhile=wait)
    with compacting(slower) as lease:
        result = slower.upkeep.run(table.upkeep.plan_compact(full=True), lease=lease)
        assert fs.has_happened
        assert result.dropped_tasks == 0
        (held,) = table.upkeep.leases()
        assert held.renewed_ms >= lease.expires_ms


def test_a_lease_for_less_than_the_plan_does_less(table: Table) -> None:
    scope = scope_of(table.table_files, [{"day": "a"}, {"day": "b"}])
    request = LeaseRequest(kind=LeaseKind.COMPACT, scope=scope, holder="upkeep")
    plan = table.upkeep.plan_compact(full=True)
    with leased(table.table_files, request) as lease:
        result = table.upkeep.run(plan, lease=lease)
    assert result.dropped_tasks == len(plan.tasks) // len(DAYS)
    assert files_of(table)["c"] > files_of(table)["a"]


def test_what_one_without_a_lease_changed_is_dropped_and_no_lease_is_blamed(table: Table) -> None:
    """The plan is for three days, the lease for one of them, and that one is written over."""
    scope = scope_of(table.table_files, [{"day": "a"}])
    request = LeaseRequest(kind=LeaseKind.COMPACT, scope=scope, holder="upkeep")
    plan = table.upkeep.plan_compact(full=True)
    new = rows(table, events(50, 53, v="new"))
    slower, fs = interrupted(
        table,
        when=first_new_file,
        meanwhile=lambda: table.write(new, mode="overwrite", partition={"day": "a"}),
    )
    with leased(table.table_files, request) as lease:
        result = slower.upkeep.run(plan, lease=lease)
    assert fs.has_happened
    assert result.snapshot is None
    assert result.dropped_tasks == len(plan.tasks)
    assert_sound(table)


def test_a_lease_is_to_blame_only_for_what_it_was_for(table: Table) -> None:
    """The plan is for three days, the lease for one of them, and a writer wants that one."""
    scope = scope_of(table.table_files, [{"day": "a"}])
    request = LeaseRequest(kind=LeaseKind.COMPACT, scope=scope, holder="upkeep")
    slower, _ = interrupted(
        table, when=first_new_file, meanwhile=lambda: overwrite(table, "a", fails=True)
    )
    buckets = len(table.upkeep.plan_compact([{"day": "a"}], full=True).tasks)
    said = f"of {buckets} buckets.*given up to the writer;"
    with leased(table.table_files, request) as lease, pytest.raises(LeaseLost, match=said) as lost:
        slower.upkeep.run(table.upkeep.plan_compact(full=True), lease=lease)
    assert lost.value.details["given_up_to"] == "the writer"


def test_a_writer_that_compacts_gives_way_too_and_tells(table: Table) -> None:
    slower, _ = interrupted(
        table, when=first_new_file, meanwhile=lambda: overwrite(table, "b", fails=True)
    )
    scope = scope_of(table.table_files, [{"day": "b"}])
    request = LeaseRequest(kind=LeaseKind.COMPACT, scope=scope, holder="upkeep")
    with leased(table.table_files, request) as lease:
        came = slower.upkeep.compact_written([{"day": "b"}], min_files=2, lease=lease)
    assert isinstance(came.failure, LeaseLost)


@pytest.mark.parametrize("verb", ["rescale", "give buckets"])
def test_what_moves_rows_between_buckets_gives_way_by_partition(
    any_catalog: Catalog, verb: str
) -> None:
    bucket = "2" if verb == "rescale" else "-2"
    table = new_table(
        any_catalog, partitions=("day",), keys=("id", "day"), options={"bucket": bucket}
    )
    for day in DAYS:
        table.write(rows(table, events(0, 20, day=day)))

    def run(on: Table, meanwhile: Callable[[], object], when: Callable[[Call], bool]) -> list[Any]:
        slower, fs = interrupted(on, when=when, meanwhile=meanwhile)
        kind = LeaseKind.RESCALE if verb == "rescale" else LeaseKind.COMPACT
        request = LeaseRequest(kind=kind, scope=whole_table(on.table_files), holder="upkeep")
        with leased(on.table_files, request) as lease:
            if verb == "rescale":
                dropped = slower.upkeep.run(on.upkeep.plan_rescale(3), lease=lease).dropped
            else:
                plan = on.upkeep.plan_postpone_compact()
                dropped = slower.upkeep.run(plan, lease=lease).dropped
        assert fs.has_happened
        return list(dropped)

    left = run(table, lambda: overwrite(table, "b", fails=True), first_new_file)

    assert left == [{"day": "b"}]
    table = any_catalog.table(table.name)
    assert_sound(table)
    with pytest.raises(LeaseLost, match="given up to the writer") as lost:
        run(table, lambda: overwrite(table, "b", fails=True), first_new_file)
    assert isinstance(lost.value, StorageError)


@pytest.mark.parametrize("leases", [True, False], ids=["under leases", "without"])
def test_rows_staged_beside_a_rescale_are_published_since_that_gives_up_their_day(
    any_catalog: Catalog, leases: bool
) -> None:
    """Rows staged for two buckets cannot join three: without a lease the write is beaten."""
    table = new_table(any_catalog, partitions=("day",), keys=("id", "day"), options={"bucket": "2"})
    for day in DAYS:
        table.write(rows(table, events(0, 20, day=day)))
    plan = table.upkeep.plan_rescale(3)
    upsert = LeaseRequest(
        kind=LeaseKind.UPSERT,
        scope=scope_of(table.table_files, [{"day": "b"}]),
        holder="the writer",
    )
    rescale = LeaseRequest(
        kind=LeaseKind.RESCALE, scope=whole_table(table.table_files), holder="upkeep"
    )
    with ExitStack() as held:
        lease = held.enter_context(leased(table.table_files, rescale)) if leases else None
        if leases:
            held.enter_context(leased(table.table_files, upsert))
        staged = table.stage(rows(table, events(90, 91, day="b", v="new")))
        dropped = table.upkeep.run(plan, lease=lease).dropped
        if leases:
            assert list(dropped) == [{"day": "b"}]
            table.commit(staged)
        else:
            assert not dropped
            with pytest.raises(BucketCountChanged):
                table.commit(staged)
            table.abort(staged)
    table = any_catalog.table(table.name)
    assert ("new90" in {row["v"] for row in table.read().to_pylist()}) is leases
    assert_sound(table)
