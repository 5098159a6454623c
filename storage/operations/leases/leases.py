"""Leases: who works on which part of a table, so that nobody works in vain.

1. Acquire: enter a lease in the table's book (`lease_book.py`) unless another stands against it. A
   writer never waits for maintenance: it marks its part as wanted and goes on. Maintenance takes
   what is free.
2. Renew at safe points: before each task and before the commit, wherever that runs. What was
   given up by then is left out, its files deleted, and the rest is published.
3. Release. Whoever dies leaves a lease that runs out, and is ignored a margin later.

Leases save work, they protect nothing: between the last look and the commit a lease may be lost,
and writers that are not ours take none. Commits check for conflicts whatever leases say.
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

# How long a lease runs that nobody renews.
LEASE_MS = 300_000
# By how much the clocks of two holders may differ; a lease is ignored that much after its end.
CLOCKS_DIFFER_MS = 60_000
_SHORTEST_WAIT_MS, _LONGEST_WAIT_MS = 50, 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """What somebody asks for; `holder` is for people to read, and holds no secrets.

    `owner` is the same at every try of one piece of work; without one this is the only try.
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
    """Hold a lease while something is done; with `free_only` for what nobody else has.

    Raises:
        LeaseHeld: somebody else has it, or with `free_only` all of it.
        ClockJumped: somebody else has it, by a clock that is far ahead of ours.
    """
    if free_only:
        lease = acquire_free(files, request)
    else:
        lease = acquire_lease(files, request, wait_ms=wait_ms)
    try:
        yield lease
    finally:
        # It runs out anyway, and what was done under it counts.
        with suppress(StorageError):
            release_lease(files, lease.id)


def acquire_lease(files: TableFiles, request: LeaseRequest, *, wait_ms: int = 0) -> Lease:
    """Enter a lease; writers take their part away from maintenance, and wait for writers.

    Raises:
        LeaseHeld: somebody else still has some of the scope after that wait.
        ClockJumped: somebody else has it, by a clock that is far ahead of ours.
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
        # What was slept is counted, not what a clock says, which may jump.
        step = min(pause * (0.5 + files.env.jitter()), wait_ms - waited)
        files.env.sleep_ms(step)
        waited += step
        pause = min(2 * pause, _LONGEST_WAIT_MS)


def acquire_free(files: TableFiles, request: LeaseRequest) -> Lease:
    """Enter a lease for those parts of the scope that nobody else works on.

    Raises:
        LeaseHeld: there is none.
        ClockJumped: somebody else has a part, by a clock that is far ahead of ours.
    """
    return _enter(files, request, files.env.new_id(), free_only=True)


def renew_lease(files: TableFiles, lease_id: str) -> Lease:
    """Let a lease run its time once more; one that ran out too, while nobody else came.

    Raises:
        LeaseLost: it is in the book no more.
    """
    return _renew(files, lease_id, lambda held, now_ms: True)


def look_at_lease(files: TableFiles, lease_id: str) -> Lease | None:
    """A lease as it stands, renewed if that is due; None once it is lost."""
    book = latest_book(files)
    held = next((each for each in book.leases if each.id == lease_id), None)
    if held is None or not held.is_due(files.env.now_ms()):
        return held
    try:
        # Of all who look at once one renews it.
        return _renew(files, lease_id, Lease.is_due)
    except LeaseLost:
        return None


def check_held(files: TableFiles, lease: Lease | None) -> None:
    """Whether a lease, if there is one, still stands, for work that can stop between two steps.

    Raises:
        LeaseLost: it does not; what was done stays done.
    """
    if lease is not None and look_at_lease(files, lease.id) is None:
        raise _lost(files, lease.id)


def release_lease(files: TableFiles, lease_id: str) -> None:
    """Give a lease back; one that is lost already is none to give back."""

    def without(leases: Sequence[Lease], _: int) -> tuple[Lease, ...]:
        return tuple(each for each in leases if each.id != lease_id)

    change_book(files, without, lambda leases: all(each.id != lease_id for each in leases))


def break_lease(files: TableFiles, lease_id: str) -> Lease:
    """Take a lease from whoever holds it, for a person who knows better; it may begin alike.

    Raises:
        NotFoundError: no lease, or more than one, begins like that.
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
    """Leases that have not run out, those entered first at the beginning."""
    book = latest_book(files)
    return _running(book.leases, files.env.now_ms())


# --- scopes, and work under a lease -----------------------------------------------------------


def whole_table(files: TableFiles) -> LeaseScope:
    """Every bucket there is or may come."""
    return LeaseScope(branch=files.paths.branch)


def scope_of(
    files: TableFiles, places: Iterable[tuple[Mapping[str, object], int | None]]
) -> LeaseScope:
    """The scope of partitions by their values, with a bucket each, or with all of them.

    One that is named by some of its columns only stands for all of the table, and so does all of
    one that has no partitions.
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
    """Buckets that work under a lease must not touch any more; without a lease there are none."""
    if lease is None:
        return set()
    held = look_at_lease(files, lease.id)
    return {place for place in places if held is None or not held.covers(*_scoped(files, place))}


def _scoped(files: TableFiles, place: Place) -> tuple[str, int]:
    """A bucket as scopes name it."""
    return files.partitions.of_row(place.partition).path, place.bucket


def check_not_all_given_up(
    files: TableFiles, lease: Lease | None, places: Collection[Place]
) -> None:
    """Whether it was for a lease alone that nothing of some work was published.

    What the lease was not for, or what somebody without one changed, is left out without a word.

    Raises:
        LeaseLost: all buckets that the lease was for were given up; the message says to whom.
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
        # An earlier try of the same work is dead, or is to lose.
        others = [each for each in _running(leases, now_ms) if each.owner != owner]
        standing = [each for each in others if each.stands_against(request.kind, request.scope)]
        scope, yielding, taken = request.scope, list[Lease](), tuple[Want, ...]()
        if free_only and standing and scope.parts is not None:
            scope = _free_part(request, standing)
            standing = standing if scope.is_empty else []
        elif free_only and all(each.left.parts is not None for each in standing):
            # All that there is but for what others have.
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
    """Renew a lease if that is due to the one that is found."""
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
    """What of a request none of the leases is for; maybe nothing."""
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
    """A time of day as people compare it."""
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
