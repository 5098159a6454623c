"""Leases: which process works on which part of a table, so that no process does work in vain.

1. Acquire: enter a lease in the table's book, a register of all leases, unless another lease
   conflicts with it. A writer never waits for maintenance: it takes its partitions out of that
   lease. Maintenance takes only free partitions.
2. Keep: renew before each task and before the commit. The process deletes its files of partitions
   that it gave up, and publishes the others.
3. Release. The lease of a dead process ends at once for others on its machine; elsewhere it runs
   out, and is ignored a margin later.

Leases save work; they do not protect data. A process may lose its lease between the last check
and the commit, and other writers of the format take no leases. Every commit checks for conflicts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from lakewright.storage.codec.lease_json import decode_leases, encode_leases
from lakewright.storage.errors import LeaseHeld, LeaseLost, NotFoundError, StorageError
from lakewright.storage.files.numbered_files import NumberedFiles
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.processes import is_dead, this_process
from lakewright.storage.operations.running.register import Register
from lakewright.storage.spec.lease import Lease, LeaseKind, LeaseScope
from lakewright.storage.spec.partition import Place

Leases = tuple[Lease, ...]

# How long a lease runs without a renewal.
LEASE_MS = 300_000
# The allowed clock difference between two holders; a lease is ignored this long after its end.
CLOCKS_DIFFER_MS = 60_000
# A book is read and written whole, so a scope of more partitions becomes the whole table.
_MOST_PARTITIONS = 1000
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
def leased(files: TableFiles, request: LeaseRequest, *, wait_ms: int = 0) -> Iterator[Lease]:
    """Hold a lease during the `with` block; see `acquire_lease`."""
    lease = acquire_lease(files, request, wait_ms=wait_ms)
    try:
        yield lease
    finally:
        # The lease runs out anyway, and the work under it is valid.
        with suppress(StorageError):
            release_lease(files, lease.id)


def acquire_lease(files: TableFiles, request: LeaseRequest, *, wait_ms: int = 0) -> Lease:
    """Enter a lease; a writer takes its partitions from maintenance, but waits for other writers.

    Maintenance gets the free part of its scope.

    Raises:
        LeaseHeld: after the wait, another process still holds some of a writer's scope, or all of
            that of maintenance.
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


def keep_lease(files: TableFiles, lease_id: str) -> Lease | None:
    """Renew a lease if half of its duration is gone, and return it; None if the lease is lost.

    A lease that ran out lives on if no other process took its place.
    """

    def renewed(leases: Leases) -> Leases:
        # If several tasks find the lease due at the same time, one of them renews it.
        now_ms = files.env.now_ms()
        return tuple(
            replace(lease, renewed_ms=now_ms, expires_ms=now_ms + lease.duration_ms)
            if lease.id == lease_id and lease.is_due(now_ms)
            else lease
            for lease in leases
        )

    return _entry(_book(files).change(renewed), lease_id)


def require_lease(files: TableFiles, lease: Lease | None) -> None:
    """Keep a lease, if one is given; for work that can stop between two steps.

    Raises:
        LeaseLost: the lease is lost; finished steps remain.
    """
    if lease is not None and keep_lease(files, lease.id) is None:
        raise _lost(files, lease.id)


def release_lease(files: TableFiles, lease_id: str) -> None:
    """Remove a lease from the book; does nothing if the lease is already lost."""
    _book(files).change(lambda leases: tuple(lease for lease in leases if lease.id != lease_id))


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
            + (f"there are {ids}" if ids else "there are none")
        )
    release_lease(files, chosen[0].id)
    return chosen[0]


def list_leases(files: TableFiles) -> tuple[Lease, ...]:
    """Leases that have not run out, of processes that may live, in the order of their entry."""
    return _running(_book(files).latest(), files.env.now_ms())


# --- scopes, and work under a lease -----------------------------------------------------------


def whole_table(files: TableFiles) -> LeaseScope:
    """The scope of all present and future buckets."""
    return LeaseScope(branch=files.paths.branch)


def scope_of(files: TableFiles, specs: Iterable[Mapping[str, object]]) -> LeaseScope:
    """The scope of partitions by their values.

    A partition named by only some of its columns means the whole table.
    """
    partition_keys = files.schema.partition_keys
    if not partition_keys:
        return whole_table(files)
    paths = set()
    for spec in specs:
        values = files.partitions.stored(spec)
        if len(values) < len(partition_keys):
            return whole_table(files)
        paths.add(files.partitions.of_values(tuple(values.values())).path)
    if len(paths) > _MOST_PARTITIONS:
        return whole_table(files)
    return LeaseScope(branch=files.paths.branch, partitions=tuple(sorted(paths)), all_but=False)


def given_up(files: TableFiles, lease: Lease | None, places: Collection[Place]) -> set[Place]:
    """Buckets that a lease no longer covers, after it was kept; empty without a lease."""
    if lease is None:
        return set()
    held = keep_lease(files, lease.id)
    return {place for place in places if held is None or not _covers(files, held, place)}


def _covers(files: TableFiles, lease: Lease, place: Place) -> bool:
    return lease.scope.holds(files.partitions.of_row(place.partition).path)


def check_not_all_given_up(
    files: TableFiles, lease: Lease | None, places: Collection[Place]
) -> None:
    """Check that the lease still covers some of the buckets that were left out of a commit.

    Buckets outside the original lease do not count: other causes left them out.

    Raises:
        LeaseLost: the lease is lost, or the holder gave up all those buckets; the message names
            the writers that took them.
    """
    if lease is None:
        return
    held = _entry(_book(files).latest(), lease.id)
    if held is None:
        raise _lost(files, lease.id, f"nothing was published of {len(places)} buckets; ")
    ours = [place for place in places if _covers(files, lease, place)]
    if not ours or any(_covers(files, held, place) for place in ours):
        return
    who = ", ".join(held.given_up_to)
    raise LeaseLost(
        f"nothing was published of {len(ours)} buckets of {files.name} that were worked on under "
        f"a lease: they were given up to {who}; plan again when that is done",
        lease_id=lease.id,
        given_up_to=who,
    )


# --- entries ----------------------------------------------------------------------------------


def _book(files: TableFiles) -> Register[Leases]:
    return Register(
        files=files,
        what="leases",
        store=NumberedFiles(files.fs, files.paths.lease_dir, "book-"),
        empty=(),
        encode=encode_leases,
        decode=decode_leases,
    )


def _enter(files: TableFiles, request: LeaseRequest, lease_id: str) -> Lease:
    owner = request.owner or lease_id

    def entered(leases: Leases) -> Leases:
        if _entry(leases, lease_id) is not None:
            return leases
        now_ms = files.env.now_ms()
        # An earlier attempt of the same job is dead, or has to lose its lease.
        others = [each for each in _running(leases, now_ms) if each.owner != owner]
        standing = [each for each in others if each.stands_against(request.kind, request.scope)]
        scope, yielding = request.scope, list[Lease]()
        if request.kind.is_write:
            yielding = [each for each in standing if each.kind.gives_way]
            in_the_way = [each for each in standing if each not in yielding]
        else:
            for each in standing:
                scope = scope.without(each.scope)
            in_the_way = standing if scope.is_empty else []
        if in_the_way:
            raise _held(files, request.kind, in_the_way, now_ms)
        lease = Lease(
            id=lease_id,
            owner=owner,
            holder=request.holder,
            kind=request.kind,
            scope=scope,
            acquired_ms=now_ms,
            renewed_ms=now_ms,
            expires_ms=now_ms + request.duration_ms,
            process=this_process(),
        )
        told = (
            each.given_up(scope, request.holder) if each in yielding else each for each in others
        )
        return (*told, lease)

    lease = _entry(_book(files).change(entered), lease_id)
    assert lease is not None
    return lease


def _held(files: TableFiles, kind: LeaseKind, standing: Sequence[Lease], now_ms: int) -> LeaseHeld:
    first = standing[0]
    left = -(min(now_ms - first.expires_ms - CLOCKS_DIFFER_MS, 0) // 1000)
    more = f", and {len(standing) - 1} more like it" if len(standing) > 1 else ""
    return LeaseHeld(
        f"{files.name} cannot be leased to {kind.value}: {first.holder} has {first.scope} to "
        f"{first.kind.value} until {_time(first.expires_ms)} by its clock (here it is "
        f"{_time(now_ms)}){more}; it renews that while it lives, and ends in {left} s if it does "
        f"not: try again then, or end it with `lakewright lease break {files.name} {first.id[:8]}`",
        lease_id=first.id,
    )


def _running(leases: Sequence[Lease], now_ms: int) -> tuple[Lease, ...]:
    return tuple(
        lease
        for lease in leases
        if now_ms <= lease.expires_ms + CLOCKS_DIFFER_MS and not is_dead(lease.process)
    )


def _entry(leases: Sequence[Lease], lease_id: str) -> Lease | None:
    return next((lease for lease in leases if lease.id == lease_id), None)


def _lost(files: TableFiles, lease_id: str, what: str = "") -> LeaseLost:
    return LeaseLost(
        f"{what}lease {lease_id} of {files.name} ran out and others came, or a person broke it; "
        "see who works there with `lakewright lease list`, and start again",
        lease_id=lease_id,
    )


def _time(time_ms: int) -> str:
    """A time as text, in UTC, for error messages."""
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
