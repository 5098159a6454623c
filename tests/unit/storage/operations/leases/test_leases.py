"""Leases: who may work beside whom, how long, and who gives way."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakewright.storage import Catalog, Lease, LeaseKind, Table
from lakewright.storage.errors import (
    CorruptionError,
    LeaseHeld,
    LeaseLost,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakewright.storage.operations.leases.leases import (
    CLOCKS_DIFFER_MS,
    LEASE_MS,
    LeaseRequest,
    acquire_lease,
    keep_lease,
    leased,
    release_lease,
    require_lease,
    scope_of,
    whole_table,
)
from lakewright.storage.operations.running import processes
from lakewright.storage.operations.running.processes import is_dead, this_process
from lakewright.storage.spec.lease import LeaseScope
from tests.support.processes.racing import hold_one_by_one, hold_until_killed, share
from tests.support.stores.watched_files import Fault, interrupted, watched
from tests.support.tables.builders import new_table
from tests.support.tables.environment import FixedClock, FixedEnv, SeededIds
from tests.support.tally import tally

WORKS_IN_VAIN = [
    (LeaseKind.UPSERT, LeaseKind.UPSERT),
    (LeaseKind.UPSERT, LeaseKind.OVERWRITE),
    (LeaseKind.APPEND, LeaseKind.OVERWRITE),
    (LeaseKind.OVERWRITE, LeaseKind.OVERWRITE),
    (LeaseKind.COMPACT, LeaseKind.COMPACT),
    (LeaseKind.COMPACT, LeaseKind.RESCALE),
    (LeaseKind.RESCALE, LeaseKind.RESCALE),
    (LeaseKind.EXPIRE, LeaseKind.EXPIRE),
]


@pytest.fixture
def table(any_catalog: Catalog) -> Table:
    return new_table(any_catalog, partitions=("day",), keys=("id", "day"), options={"bucket": "4"})


def part(table: Table, *days: str) -> LeaseScope:
    return scope_of(table.table_files, [{"day": day} for day in days])


def ask(
    table: Table, kind: LeaseKind, scope: LeaseScope | None = None, holder: str = "me", **more: Any
) -> LeaseRequest:
    scope = whole_table(table.table_files) if scope is None else scope
    return LeaseRequest(kind=kind, scope=scope, holder=holder, **more)


def take(table: Table, kind: LeaseKind, scope: LeaseScope | None = None, **more: Any) -> Lease:
    return acquire_lease(table.table_files, ask(table, kind, scope, **more))


def elsewhere(table: Table, *, ahead_ms: int = 0, seed: int = 7) -> Table:
    """The same table, seen from a machine whose clock differs."""
    assert isinstance(table.table_files.env, FixedEnv)
    here = table.table_files.env.clock
    env = FixedEnv(clock=FixedClock(here.now_ms + ahead_ms), ids=SeededIds(seed))
    return Table(replace(table.table_files, env=env))


def advance(table: Table, duration_ms: int) -> None:
    assert isinstance(table.table_files.env, FixedEnv)
    table.table_files.env.clock.advance(duration_ms)


# --- who goes with whom -----------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), WORKS_IN_VAIN)
def test_work_that_would_be_in_vain_waits_for_the_other(
    table: Table, first: LeaseKind, second: LeaseKind
) -> None:
    held = take(table, first, holder="the first")
    with pytest.raises(LeaseHeld, match=f"the first has all of the table to {first.value}"):
        take(table, second)
    release_lease(table.table_files, held.id)
    take(table, second)
    assert [each.kind for each in table.upkeep.leases()] == [second]


@pytest.mark.parametrize("other", [each for each in LeaseKind if each is not LeaseKind.EXPIRE])
def test_an_expiry_goes_beside_everything_else(table: Table, other: LeaseKind) -> None:
    take(table, LeaseKind.EXPIRE)
    take(table, other)
    assert len(table.upkeep.leases()) == 2


@pytest.mark.parametrize("write", [LeaseKind.APPEND, LeaseKind.UPSERT])
def test_rows_are_added_beside_a_compaction_and_neither_gives_way(
    table: Table, write: LeaseKind
) -> None:
    compaction = take(table, LeaseKind.COMPACT)
    take(table, write)
    assert keep_lease(table.table_files, compaction.id) == compaction


def test_the_refusal_says_who_has_what_until_when_and_what_to_do(table: Table) -> None:
    held = take(table, LeaseKind.UPSERT, part(table, "a", "b"), holder="run 17 on host h")
    with pytest.raises(LeaseHeld) as refused:
        take(table, LeaseKind.UPSERT, part(table, "a"))
    assert str(refused.value) == (
        "db.t cannot be leased to upsert: run 17 on host h has day=a; day=b to upsert "
        "until 2024-01-01 00:05:00 UTC by its clock (here it is 2024-01-01 00:00:00 UTC); it "
        "renews that while it lives, and ends in 360 s if it does not: try again then, or end it "
        f"with `lakewright lease break db.t {held.id[:8]}`"
    )
    assert refused.value.details == {"lease_id": held.id}


def test_partitions_of_their_own_are_leased_side_by_side(table: Table) -> None:
    take(table, LeaseKind.OVERWRITE, part(table, "a"))
    take(table, LeaseKind.OVERWRITE, part(table, "b", "c"))
    for overlapping in (part(table, "a"), part(table, "c", "d"), whole_table(table.table_files)):
        with pytest.raises(LeaseHeld):
            take(table, LeaseKind.OVERWRITE, overlapping)
    take(table, LeaseKind.OVERWRITE, part(table, "d"))
    assert len(table.upkeep.leases()) == 3


def test_a_partition_named_in_part_stands_for_the_whole_table(any_catalog: Catalog) -> None:
    columns = {"id": "INT", "day": "STRING", "hour": "INT"}
    table = new_table(any_catalog, columns, partitions=("day", "hour"))
    assert scope_of(table.table_files, [{"day": "a"}]) == whole_table(table.table_files)
    one = scope_of(table.table_files, [{"hour": 7, "day": "a"}])
    assert one.holds("day=a/hour=7")
    assert not one.holds("day=a/hour=8")


def test_very_many_partitions_are_leased_as_the_whole_table(table: Table) -> None:
    many = part(table, *map(str, range(1001)))
    assert many == whole_table(table.table_files)


def test_branches_are_leased_apart(table: Table) -> None:
    take(table, LeaseKind.OVERWRITE)
    take(table.history.create_branch("trial"), LeaseKind.OVERWRITE)
    assert [str(each.scope) for each in table.upkeep.leases()] == [
        "all of the table",
        "all of the table, on branch trial",
    ]


# --- waiting, running out, renewing -----------------------------------------------------------


def test_a_writer_waits_for_a_writer_until_that_is_done(table: Table) -> None:
    first = take(table, LeaseKind.UPSERT)
    second, fs = interrupted(
        table,
        # The third look of the one who waits.
        when=lambda call: call.name == "list_dir" and len(fs.calls) >= 4,
        meanwhile=lambda: release_lease(table.table_files, first.id),
    )
    lease = acquire_lease(second.table_files, ask(table, LeaseKind.UPSERT), wait_ms=60_000)
    assert [each.id for each in table.upkeep.leases()] == [lease.id]
    assert isinstance(table.table_files.env, FixedEnv)
    assert 0 < sum(table.table_files.env.slept_ms) < 1000


def test_waiting_ends_after_the_time_allowed_whatever_the_clock_does(table: Table) -> None:
    take(table, LeaseKind.UPSERT)
    other = elsewhere(table)
    assert isinstance(other.table_files.env, FixedEnv)
    other.table_files.env.clock.step_ms = -1500
    with pytest.raises(LeaseHeld):
        acquire_lease(other.table_files, ask(table, LeaseKind.UPSERT), wait_ms=30_000)
    assert sum(other.table_files.env.slept_ms) == 30_000


def test_a_lease_of_the_dead_is_ignored_after_its_end_and_a_margin_for_clocks(table: Table) -> None:
    take(table, LeaseKind.COMPACT)
    advance(table, LEASE_MS + CLOCKS_DIFFER_MS - 1000)
    assert len(table.upkeep.leases()) == 1
    with pytest.raises(LeaseHeld):
        take(table, LeaseKind.COMPACT)
    advance(table, 1001)
    assert not table.upkeep.leases()
    take(table, LeaseKind.COMPACT)
    assert len(table.upkeep.leases()) == 1


@pytest.mark.parametrize("ahead_ms", [-CLOCKS_DIFFER_MS + 100, 0, CLOCKS_DIFFER_MS - 100])
def test_clocks_that_differ_less_than_the_margin_never_make_two_holders(
    table: Table, ahead_ms: int
) -> None:
    held = take(table, LeaseKind.COMPACT)
    other = elsewhere(table, ahead_ms=ahead_ms)
    for _ in range(20):
        advance(table, LEASE_MS // 20)
        advance(other, LEASE_MS // 20)
        assert isinstance(table.table_files.env, FixedEnv)
        if table.table_files.env.clock.now_ms < held.expires_ms:
            with pytest.raises(LeaseHeld):
                take(other, LeaseKind.COMPACT)
    advance(other, 2 * CLOCKS_DIFFER_MS + 1000)
    take(other, LeaseKind.COMPACT)
    assert keep_lease(table.table_files, held.id) is None


def test_a_lease_is_renewed_when_half_of_it_is_gone_and_not_before(table: Table) -> None:
    held = take(table, LeaseKind.COMPACT)
    seen, fs = watched(table)
    assert keep_lease(seen.table_files, held.id) == held
    assert [call.name for call in fs.calls] == ["list_dir", "read_bytes"]
    advance(table, LEASE_MS // 2)
    renewed = keep_lease(seen.table_files, held.id)
    assert renewed is not None
    assert renewed.expires_ms > held.expires_ms + LEASE_MS // 2 - 1000
    advance(table, LEASE_MS)
    assert len(table.upkeep.leases()) == 1


def test_a_lease_that_ran_out_lives_on_if_nobody_came(table: Table) -> None:
    held = take(table, LeaseKind.COMPACT)
    advance(table, 10 * LEASE_MS)
    assert not table.upkeep.leases()
    kept = keep_lease(table.table_files, held.id)
    assert kept is not None
    assert table.upkeep.leases() == (kept,)


def test_a_lease_that_somebody_else_got_cannot_be_kept(table: Table) -> None:
    held = take(table, LeaseKind.COMPACT)
    advance(table, 10 * LEASE_MS)
    take(table, LeaseKind.COMPACT)
    assert keep_lease(table.table_files, held.id) is None
    with pytest.raises(LeaseLost, match="ran out and others came, or a person broke it"):
        require_lease(table.table_files, held)
    release_lease(table.table_files, held.id)
    assert len(table.upkeep.leases()) == 1


def test_a_second_try_takes_the_place_of_the_first(table: Table) -> None:
    first = take(table, LeaseKind.OVERWRITE, owner="run 1")
    second = take(table, LeaseKind.OVERWRITE, owner="run 1")
    assert [each.id for each in table.upkeep.leases()] == [second.id]
    assert keep_lease(table.table_files, first.id) is None


def test_a_lease_ends_with_the_work_also_when_that_fails(table: Table) -> None:
    def fail() -> None:
        with leased(table.table_files, ask(table, LeaseKind.COMPACT)):
            assert len(table.upkeep.leases()) == 1
            raise RuntimeError("the work failed")

    with pytest.raises(RuntimeError, match="the work failed"):
        fail()
    assert not table.upkeep.leases()


def test_a_person_can_break_a_lease_by_the_beginning_of_its_id(table: Table) -> None:
    first = take(table, LeaseKind.APPEND)
    second = take(table, LeaseKind.APPEND)
    with pytest.raises(NotFoundError, match=f"2 leases of db.t begin with '0000'.*{first.id}"):
        table.upkeep.break_lease("0000")
    assert table.upkeep.break_lease(first.id[:8]) == first
    assert [each.id for each in table.upkeep.leases()] == [second.id]
    with pytest.raises(NotFoundError, match=r"no lease of db\.t begins with"):
        table.upkeep.break_lease(first.id)


# --- writers before maintenance ---------------------------------------------------------------


@pytest.mark.parametrize("kind", [LeaseKind.COMPACT, LeaseKind.RESCALE])
def test_a_writer_takes_its_part_away_from_maintenance_without_waiting(
    table: Table, kind: LeaseKind
) -> None:
    maintenance = take(table, kind, holder="upkeep")
    for _ in range(2):
        take(table, LeaseKind.OVERWRITE, part(table, "a"), holder="run 17", owner="run 17")

    assert isinstance(table.table_files.env, FixedEnv)
    assert not table.table_files.env.slept_ms
    left = keep_lease(table.table_files, maintenance.id)
    assert left is not None
    assert not left.scope.holds("day=a")
    assert left.scope.holds("day=b")
    assert left.given_up_to == ("run 17",)
    assert str(left.scope) == "all of the table but day=a"


def test_what_maintenance_gave_up_it_does_not_get_back_by_renewing(table: Table) -> None:
    compaction = take(table, LeaseKind.COMPACT)
    with leased(table.table_files, ask(table, LeaseKind.OVERWRITE, part(table, "a"))):
        pass
    advance(table, LEASE_MS // 2)
    renewed = keep_lease(table.table_files, compaction.id)
    assert renewed is not None
    assert renewed.renewed_ms > compaction.renewed_ms
    assert not renewed.scope.holds("day=a")
    # Others may, once the writer is done.
    again = take(table, LeaseKind.COMPACT, part(table, "a", "b"))
    assert str(again.scope) == "day=a"


def test_what_one_writer_took_away_leaves_the_rest_with_its_holder(table: Table) -> None:
    take(table, LeaseKind.COMPACT, part(table, "a", "b"), holder="upkeep")
    with leased(table.table_files, ask(table, LeaseKind.OVERWRITE, part(table, "a"))):
        pass
    with pytest.raises(LeaseHeld, match="upkeep has day=b to compact"):
        take(table, LeaseKind.COMPACT, part(table, "b"))
    assert str(take(table, LeaseKind.COMPACT, part(table, "a", "b")).scope) == "day=a"


def test_maintenance_does_not_take_anything_away_from_writers(table: Table) -> None:
    take(table, LeaseKind.OVERWRITE, part(table, "a"), holder="run 17")
    with pytest.raises(LeaseHeld, match="run 17 has day=a to overwrite"):
        take(table, LeaseKind.COMPACT, part(table, "a"))
    assert not take(table, LeaseKind.COMPACT).scope.holds("day=a")


def test_maintenance_takes_what_is_free(table: Table) -> None:
    take(table, LeaseKind.OVERWRITE, part(table, "a"))
    take(table, LeaseKind.COMPACT, part(table, "b", "c"))
    wanted = part(table, "a", "b", "d", "e")
    lease = take(table, LeaseKind.COMPACT, wanted)
    assert str(lease.scope) == "day=d; day=e"
    with pytest.raises(LeaseHeld, match="and 2 more like it"):
        take(table, LeaseKind.COMPACT, wanted)


def test_maintenance_of_everything_leaves_out_what_others_have(table: Table) -> None:
    """Also of so many partitions that a lease does not name them."""
    take(table, LeaseKind.OVERWRITE, part(table, "7"))
    very_many = part(table, *map(str, range(1001)))
    lease = take(table, LeaseKind.COMPACT, very_many)
    assert not lease.scope.holds("day=7")
    assert lease.scope.holds("day=8")
    for busy in (very_many, part(table, "8")):
        with pytest.raises(LeaseHeld):
            take(table, LeaseKind.COMPACT, busy)


def test_of_what_a_compaction_gave_up_the_next_one_of_everything_has_its_share(
    table: Table,
) -> None:
    take(table, LeaseKind.COMPACT, part(table, "a", "b"))
    take(table, LeaseKind.COMPACT)
    with leased(table.table_files, ask(table, LeaseKind.OVERWRITE, part(table, "a", "c"))):
        pass
    lease = take(table, LeaseKind.COMPACT)
    assert str(lease.scope) == "day=a; day=c"


def test_what_was_taken_away_is_free_beside_other_partitions_too(table: Table) -> None:
    take(table, LeaseKind.COMPACT, part(table, "a"))
    with leased(table.table_files, ask(table, LeaseKind.OVERWRITE, part(table, "a"))):
        pass
    lease = take(table, LeaseKind.COMPACT, part(table, "a", "b"))
    assert lease.scope.holds("day=a")


def test_of_a_table_without_partitions_all_is_had_or_nothing(any_catalog: Catalog) -> None:
    table = new_table(any_catalog, keys=("id",), options={"bucket": "2"})
    everything = scope_of(table.table_files, [{}])
    assert everything == whole_table(table.table_files)
    held = take(table, LeaseKind.OVERWRITE, everything)
    with pytest.raises(LeaseHeld):
        take(table, LeaseKind.COMPACT)
    release_lease(table.table_files, held.id)
    assert take(table, LeaseKind.COMPACT).scope == everything


# --- the file ---------------------------------------------------------------------------------


@pytest.mark.parametrize("uses_store", ["acquire", "acquire what is free", "renew", "release"])
def test_a_change_takes_four_calls_of_the_store(table: Table, uses_store: str) -> None:
    held = take(table, LeaseKind.UPSERT)
    seen, fs = watched(table)
    match uses_store:
        case "acquire":
            take(seen, LeaseKind.UPSERT, owner=held.owner)
        case "acquire what is free":
            take(seen, LeaseKind.COMPACT)
        case "renew":
            advance(table, LEASE_MS // 2)
            keep_lease(seen.table_files, held.id)
        case _:
            release_lease(seen.table_files, held.id)
    expected = ["list_dir", "read_bytes", "put_if_absent", "list_dir"]
    assert [call.name for call in fs.calls] == expected


def test_books_do_not_pile_up(table: Table) -> None:
    for _ in range(30):
        with leased(table.table_files, ask(table, LeaseKind.COMPACT)):
            pass
    listing = table.table_files.fs.list_dir(table.table_files.paths.lease_dir)
    assert len(listing) <= 9
    assert "book-60" in {each.name for each in listing}
    assert table.inspect.file_count_on_disk() == 1


def test_what_a_dead_process_left_unfinished_goes_with_old_books(table: Table) -> None:
    unfinished = f"{table.table_files.paths.lease_dir}/.book-3.0000.tmp"
    table.table_files.fs.write_bytes(unfinished, b"{")
    status = table.table_files.fs.list_dir(table.table_files.paths.lease_dir)[0]
    later = elsewhere(table)
    assert isinstance(later.table_files.env, FixedEnv)
    later.table_files.env.clock.now_ms = status.modified_ms + 3_700_000
    for _ in range(10):
        with leased(later.table_files, ask(table, LeaseKind.COMPACT)):
            pass
    assert not table.table_files.fs.exists(unfinished)


def test_a_book_made_by_one_who_slept_through_many_others_is_not_believed(table: Table) -> None:
    """Its number was taken and deleted meanwhile, so that it could be created once more."""
    take(table, LeaseKind.COMPACT, part(table, "c"))

    def sleep_long() -> None:
        for _ in range(10):
            with leased(table.table_files, ask(table, LeaseKind.COMPACT, part(table, "b"))):
                pass
        take(table, LeaseKind.COMPACT, part(table, "a"), holder="the faster")

    sleeper, _ = interrupted(
        table, when=lambda call: call.name == "put_if_absent", meanwhile=sleep_long
    )
    with pytest.raises(LeaseHeld, match="the faster has day=a"):
        take(sleeper, LeaseKind.COMPACT, part(table, "a"))
    assert len(table.upkeep.leases()) == 2


@pytest.mark.parametrize("how", ["break", "release"])
def test_a_lease_that_was_given_back_by_one_who_slept_through_many_others_is_gone(
    table: Table, how: str
) -> None:
    """Breaking a lease does not report it as gone while it stands."""
    held = take(table, LeaseKind.COMPACT, part(table, "c"))

    def sleep_long() -> None:
        for _ in range(10):
            with leased(table.table_files, ask(table, LeaseKind.COMPACT, part(table, "b"))):
                pass

    sleeper, fs = interrupted(
        table, when=lambda call: call.name == "put_if_absent", meanwhile=sleep_long
    )
    if how == "break":
        assert sleeper.upkeep.break_lease(held.id).id == held.id
    else:
        release_lease(sleeper.table_files, held.id)
    assert fs.has_happened
    assert not table.upkeep.leases()


def test_of_all_who_find_a_lease_due_one_renews_it(table: Table) -> None:
    held = take(table, LeaseKind.COMPACT)
    advance(table, LEASE_MS // 2)
    slower, fs = interrupted(
        table,
        when=lambda call: call.name == "put_if_absent",
        meanwhile=lambda: keep_lease(table.table_files, held.id),
    )
    renewed = keep_lease(slower.table_files, held.id)
    assert fs.has_happened
    assert renewed is not None
    assert renewed.renewed_ms > held.renewed_ms
    books = table.table_files.fs.list_dir(table.table_files.paths.lease_dir)
    assert {each.name for each in books} == {"book-1", "book-2"}


def test_an_answer_that_is_lost_leaves_one_lease(table: Table) -> None:
    broken, _ = watched(
        table, fail_at=1, fault=Fault.FAILS_AFTER, counts=lambda call: call.name == "put_if_absent"
    )
    with pytest.raises(UnavailableError):
        take(broken, LeaseKind.OVERWRITE, owner="run 1")
    take(table, LeaseKind.OVERWRITE, owner="run 1")
    assert len(table.upkeep.leases()) == 1


def test_a_book_that_cannot_be_read_says_what_to_do(table: Table) -> None:
    put = table.table_files.fs.put_if_absent
    put(f"{table.table_files.paths.lease_dir}/book-1", b'{"version": 2, "leases": [{}]}')
    with pytest.raises(CorruptionError, match="delete its folder while no process works"):
        table.upkeep.leases()
    put(f"{table.table_files.paths.lease_dir}/book-2", b'{"version": 3}')
    with pytest.raises(UnsupportedError, match="upgrade lakewright"):
        table.upkeep.leases()


def test_a_book_of_an_earlier_version_holds_nobody_up(table: Table) -> None:
    old = b'{"version": 1, "leases": [{"scope": {"branch": "", "parts": [{"buckets": [1]}]}}]}'
    table.table_files.fs.put_if_absent(f"{table.table_files.paths.lease_dir}/book-1", old)
    lease = take(table, LeaseKind.COMPACT)
    assert table.upkeep.leases() == (lease,)


def test_a_book_is_text_that_people_can_read(table: Table) -> None:
    take(table, LeaseKind.COMPACT, part(table, "a"), holder="upkeep on host h")
    folder = table.table_files.paths.lease_dir
    book = json.loads(table.table_files.fs.read_bytes(f"{folder}/book-1"))
    (lease,) = book["leases"]
    assert lease["holder"] == "upkeep on host h"
    assert lease["scope"] == {"branch": "", "partitions": ["day=a"], "all_but": False}
    assert pickle.loads(pickle.dumps(table.upkeep.leases())) == table.upkeep.leases()


def test_the_lease_of_a_process_that_was_killed_here_ends_at_once(catalog: Catalog) -> None:
    table = new_table(catalog)
    holder = multiprocessing.get_context("spawn").Process(
        target=hold_until_killed, args=(catalog.root, table.name)
    )
    holder.start()
    try:
        while not table.upkeep.leases():
            assert holder.is_alive()
        (held,) = table.upkeep.leases()
        with pytest.raises(LeaseHeld):
            take(table, LeaseKind.UPSERT)
    finally:
        holder.kill()
        holder.join()
    assert table.upkeep.leases() == ()
    take(table, LeaseKind.UPSERT)
    # Nothing is known of processes of other machines, nor where a number was used again.
    assert not is_dead(held.process.replace(held.process[0], "-", 1))
    assert is_dead(f"{this_process()}0")
    assert not is_dead(this_process())


def test_a_process_that_the_system_hides_is_not_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = this_process()
    for file in ("sys/kernel/random/boot_id", "self/ns/pid"):
        (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text(other.partition(" ")[0])
    (tmp_path / "self/ns/pid").symlink_to(Path("/proc/self/ns/pid").readlink())
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    assert not is_dead(other)
    machine = other.rpartition(" ")[0].rpartition(" ")[0]
    assert is_dead(f"{machine} {2**22 + 1} 0")


@pytest.mark.deep
@pytest.mark.parametrize("times", [5, pytest.param(100, marks=pytest.mark.deep)])
def test_of_eight_processes_one_at_a_time_holds_a_lease(
    tmp_path: Path, catalog: Catalog, times: int
) -> None:
    processes = 8
    name = new_table(catalog).name
    (tmp_path / "held").mkdir()
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes)
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=share, initargs=(barrier,)
    ) as pool:
        runs = [
            pool.submit(hold_one_by_one, catalog.root, name, str(tmp_path / "held"), times)
            for _ in range(processes)
        ]
        held = [run.result(timeout=600) for run in runs]
    assert held == [times] * processes
    tally("leases raced for by processes", processes * times)
    assert not catalog.table(name).upkeep.leases()
