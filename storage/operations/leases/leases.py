"""Leases: which process works on which part of a table, so that no process does work in vain.

1. Acquire: enter a lease in the table's book (`lease_book.py`) unless another lease conflicts
   with it. A writer never waits for maintenance: it marks its part as wanted, and maintenance
   gives that part up. Maintenance takes only free parts.
2. Renew before each task and before the commit. The process deletes its files of parts that it
   gave up, and publishes the others.
3. Release. The lease of a dead process runs out, and is ignored a margin later.

Leases save work; they do not protect data. A process may lose its lease between the last check
and the commit, and other writers of the format take no leases. Every commit checks for conflicts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from lakewright.storage.errors import ClockJumped, LeaseHeld, LeaseLost, NotFoundError, StorageError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.leases.lease_book import change_book, latest_book
from lakewright.storage.spec.lease import (
    Lease,
    LeaseKind,
    LeaseScope,
    Want,
    joined_pieces,
    joined_scope,
)
from lakewright.storage.spec.partition import Place

# How long a lease runs without a renewal.
LEASE_MS = 300_000
# The allowed clock difference between two holders; a lease is ignored this long after its end.
CLOCKS_DIFFER_MS = 60_000
_SHORTEST_WAIT_MS, _LONGEST_WAIT_MS = 50, 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A request for a lease; `holder` is a text for operators, without secrets.

    `owner` is the same for every attempt of one job: a new attempt replaces the lease of the one
    before. Without an owner each request stands alone.
    """

    kind: LeaseKind
    scope: LeaseScope
    holder: str
    owner: str = ""
    duration_ms: int = LEASE_MS


# --- holding ----------------------------------------------------------------------------------


@contextmanager
def leased(
    files: TableFiles, request: LeaseRequest, *, wait_ms: int = 0, free_only: bool = False
) -> Iterator[Lease]:
    """Hold a lease during the `with` block; with `free_only` only for the free parts of the scope.

    Raises:
        LeaseHeld: another process holds some of the scope, or with `free_only` all of it.
        ClockJumped: another process holds it, and its clock is far ahead of ours.
    """
    if free_only:
        lease = acquire_free(files, request)
    else:
        lease = acquire_lease(files, request, wait_ms=wait_ms)
    try:
        yield lease
    finally:
        # The lease runs out anyway, and the work under it is valid.
        with suppress(StorageError):
            release_lease(files, lease.id)


def acquire_lease(files: TableFiles, request: LeaseRequest, *, wait_ms: int = 0) -> Lease:
    """Enter a lease; a writer takes its part from maintenance, but waits for other writers.

    Raises:
        LeaseHeld: another process still holds some of the scope after the wait.
        ClockJumped: another process holds it, and its clock is far ahead of ours.
    """
    lease_id = files.env.new_id()
    waited: float = 0
    pause: float = _SHORTEST_WAIT_MS
    while True:
        try:
            return _enter(files, request, lease_id)
        except LeaseHeld:
            if waited >= wait_ms:
                raise
        # The wait adds up the time slept, since the clock may jump.
        step = min(pause * (0.5 + files.env.jitter()), wait_ms - waited)
        files.env.sleep_ms(step)
        waited += step
        pause = min(2 * pause, _LONGEST_WAIT_MS)


def acquire_free(files: TableFiles, request: LeaseRequest) -> Lease:
    """Enter a lease for the parts of the scope that no other process holds.

    Raises:
        LeaseHeld: no part is free.
        ClockJumped: another process holds the scope, and its clock is far ahead of ours.
    """
    return _enter(files, request, files.env.new_id(), free_only=True)


def renew_lease(files: TableFiles, lease_id: str) -> Lease:
    """Extend a lease by its duration; a lease that ran out too, while it is still in the book.

    Raises:
        LeaseLost: the lease is no longer in the book.
    """
    return _renew(files, lease_id, lambda held, now_ms: True)


def look_at_lease(files: TableFiles, lease_id: str) -> Lease | None:
    """The present state of a lease, renewed if a renewal is due; None if the lease is lost."""
    book = latest_book(files)
    held = next((each for each in book.leases if each.id == lease_id), None)
    if held is None or not held.is_due(files.env.now_ms()):
        return held
    try:
        # If several tasks look at the same time, one of them renews the lease.
        return _renew(files, lease_id, Lease.is_due)
    except LeaseLost:
        return None


def check_held(files: TableFiles, lease: Lease | None) -> None:
    """Check that a lease, if given, still stands; for work that can stop between two steps.

    Raises:
        LeaseLost: the lease is lost; finished steps remain.
    """
    if lease is not None and look_at_lease(files, lease.id) is None:
        raise _lost(files, lease.id)


def release_lease(files: TableFiles, lease_id: str) -> None:
    """Remove a lease from the book; does nothing if the lease is already lost."""

    def without(leases: Sequence[Lease], _: int) -> tuple[Lease, ...]:
        return tuple(each for each in leases if each.id != lease_id)

    change_book(files, without, lambda leases: all(each.id != lease_id for each in leases))


def break_lease(files: TableFiles, lease_id: str) -> Lease:
    """Remove the lease of another process at an operator's request; `lease_id` may be a prefix.

    Raises:
        NotFoundError: no lease, or more than one, begins with that prefix.
    """
    there = list_leases(files)
    chosen = [each for each in there if each.id.startswith(lease_id)]
    if len(chosen) != 1:
        ids = ", ".join(each.id for each in there)
        many = f"{len(chosen)} leases" if chosen else "no lease"
        raise NotFoundError(
            f"{many} of {files.name} begin{'' if chosen else 's'} with {lease_id!r}; "
            + (f"there are {ids}" if ids else "there are none"),
            table=files.name,
        )
    release_lease(files, chosen[0].id)
    return chosen[0]


def list_leases(files: TableFiles) -> tuple[Lease, ...]:
    """Leases that have not run out, in the order of their entry."""
    book = latest_book(files)
    return _running(book.leases, files.env.now_ms())


# --- scopes, and work under a lease -----------------------------------------------------------


def whole_table(files: TableFiles) -> LeaseScope:
    """The scope of all present and future buckets."""
    return LeaseScope(branch=files.paths.branch)


def scope_of(
    files: TableFiles, places: Iterable[tuple[Mapping[str, object], int | None]]
) -> LeaseScope:
    """The scope of partitions by their values, each with one bucket or with all buckets (None).

    A partition named by only some of its columns means the whole table. So do all buckets of an
    unpartitioned table.
    """
    pieces = []
    partition_keys = files.schema.partition_keys
    for spec, bucket in places:
        values = files.partitions.stored(spec)
        if len(values) < len(partition_keys) or (bucket is None and not partition_keys):
            return whole_table(files)
        pieces.append((files.partitions.of_values(tuple(values.values())).path, bucket))
    return joined_scope(files.paths.branch, pieces)


def given_up(files: TableFiles, lease: Lease | None, places: Collection[Place]) -> set[Place]:
    """Buckets that the holder of a lease has given up; empty without a lease."""
    if lease is None:
        return set()
    held = look_at_lease(files, lease.id)
    return {place for place in places if held is None or not held.covers(*_scoped(files, place))}


def _scoped(files: TableFiles, place: Place) -> tuple[str, int]:
    """The path and bucket by which a scope names a bucket."""
    return files.partitions.of_row(place.partition).path, place.bucket


def check_not_all_given_up(
    files: TableFiles, lease: Lease | None, places: Collection[Place]
) -> None:
    """Check that the lease still covers some of the buckets that were left out of a commit.

    Buckets outside the original lease do not count: other causes left them out.

    Raises:
        LeaseLost: the lease is lost, or the holder gave up all those buckets; the message names
            the processes that wanted them.
    """
    if lease is None:
        return
    scoped = {_scoped(files, place) for place in places}
    ours = {each for each in scoped if lease.covers(*each)}
    held = look_at_lease(files, lease.id)
    if held is None:
        raise _lost(files, lease.id, f"nothing was published of {len(places)} buckets; ")
    if not ours or any(held.covers(*place) for place in ours):
        return
    wanted_by = [
        each.holder for each in held.wanted if any(each.scope.holds(*place) for place in ours)
    ]
    who = ", ".join(dict.fromkeys(wanted_by))
    raise LeaseLost(
        f"nothing was published of {len(ours)} buckets of {files.name} that were worked on under "
        f"a lease: they were given up to {who}; plan again when that is done",
        table=files.name,
        lease_id=lease.id,
        wanted_by=who,
    )


# --- entries ----------------------------------------------------------------------------------


def _enter(
    files: TableFiles, request: LeaseRequest, lease_id: str, *, free_only: bool = False
) -> Lease:
    owner = request.owner or lease_id

    def edit(leases: Sequence[Lease], now_ms: int) -> tuple[Lease, ...]:
        # An earlier attempt of the same job is dead, or has to lose its lease.
        others = [each for each in _running(leases, now_ms) if each.owner != owner]
        standing = [each for each in others if each.stands_against(request.kind, request.scope)]
        scope, yielding, taken = request.scope, list[Lease](), tuple[Want, ...]()
        if free_only and standing and scope.parts is not None:
            scope = _free_part(request, standing)
            standing = standing if scope.is_empty else []
        elif free_only and all(each.left.parts is not None for each in standing):
            # The whole table except the parts that others hold.
            taken = tuple(
                Want(holder=each.holder, scope=each.left)
                for each in standing
                if not each.left.is_empty
            )
            standing = []
        elif request.kind.is_write:
            yielding = [each for each in standing if each.kind.gives_way]
        _check_free(files, request.kind, [each for each in standing if each not in yielding])
        want = Want(holder=request.holder, scope=scope)
        lease = Lease(
            id=lease_id,
            owner=owner,
            holder=request.holder,
            kind=request.kind,
            scope=scope,
            acquired_ms=now_ms,
            renewed_ms=now_ms,
            expires_ms=now_ms + request.duration_ms,
            wanted=taken,
        )
        told = (
            replace(each, wanted=(*each.wanted, want)) if each in yielding else each
            for each in others
        )
        return (*told, lease)

    book = change_book(files, edit, lambda leases: any(each.id == lease_id for each in leases))
    return _found(files, book.leases, lease_id)


def _renew(files: TableFiles, lease_id: str, is_due: Callable[[Lease, int], bool]) -> Lease:
    """Renew a lease if `is_due` says so of its entry in the book."""
    renewed_ms = 0

    def edit(leases: Sequence[Lease], now_ms: int) -> tuple[Lease, ...]:
        nonlocal renewed_ms
        held = _found(files, leases, lease_id)
        if not is_due(held, now_ms):
            return tuple(leases)
        renewed_ms = now_ms
        renewed = replace(held, renewed_ms=now_ms, expires_ms=now_ms + held.duration_ms)
        return tuple(renewed if each is held else each for each in leases)

    def stands(leases: Sequence[Lease]) -> bool:
        return any(each.id == lease_id and each.renewed_ms >= renewed_ms for each in leases)

    return _found(files, change_book(files, edit, stands).leases, lease_id)


def _free_part(request: LeaseRequest, standing: Sequence[Lease]) -> LeaseScope:
    """The part of a request that conflicts with no lease; may be empty."""
    free = (
        piece
        for piece in request.scope.pieces()
        if not any(each.stands_against(request.kind, piece) for each in standing)
    )
    return joined_pieces(request.scope.branch, free)


def _check_free(files: TableFiles, kind: LeaseKind, standing: Sequence[Lease]) -> None:
    if not standing:
        return
    now_ms = files.env.now_ms()
    for each in standing:
        if each.renewed_ms > now_ms + CLOCKS_DIFFER_MS:
            raise ClockJumped(
                f"lease {each.id} of {files.name} was taken by {each.holder} at "
                f"{_time(each.renewed_ms)} by its clock, and here it is {_time(now_ms)}; set the "
                f"clocks, or end it with `lakewright lease break {files.name} {each.id[:8]}`",
                table=files.name,
                lease_id=each.id,
            )
    first = standing[0]
    more = f", and {len(standing) - 1} more like it" if len(standing) > 1 else ""
    raise LeaseHeld(
        f"{files.name} cannot be leased to {kind.value}: {first.holder} has {first.scope} to "
        f"{first.kind.value} until {_time(first.expires_ms)} by its clock (here it is "
        f"{_time(now_ms)}){more}; try again later, or, if that is dead, end it with "
        f"`lakewright lease break {files.name} {first.id[:8]}`",
        table=files.name,
        lease_id=first.id,
    )


def _running(leases: Sequence[Lease], now_ms: int) -> tuple[Lease, ...]:
    return tuple(each for each in leases if not each.is_over(now_ms, CLOCKS_DIFFER_MS))


def _found(files: TableFiles, leases: Sequence[Lease], lease_id: str) -> Lease:
    for each in leases:
        if each.id == lease_id:
            return each
    raise _lost(files, lease_id)


def _lost(files: TableFiles, lease_id: str, what: str = "") -> LeaseLost:
    return LeaseLost(
        f"{what}lease {lease_id} of {files.name} ran out and others came, or somebody broke it; "
        "look who works there with `lakewright lease list`, and begin anew",
        table=files.name,
        lease_id=lease_id,
    )


def _time(time_ms: int) -> str:
    """A time as text, in UTC, for error messages."""
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
