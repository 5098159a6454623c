"""Leases in jobs: how a run takes and renews a lease, and which work continues without one.

A writer never fails for lack of a lease and never waits for maintenance: commits are safe without
a lease. Maintenance leases the free partitions, yields to writers, and does not begin work that it
could not publish.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from typing import Any

from lakewright.platform.tables.declarations import WriteKind
from lakewright.storage import Lease, LeaseKind, StorageError, Table
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.leases.leases import (
    LeaseRequest,
    keep_lease,
    leased,
    scope_of,
    whole_table,
)
from lakewright.storage.operations.running.plan import RewritePlan
from lakewright.storage.spec.lease import LeaseScope
from lakewright.storage.spec.options import BucketMode

# How long a writer waits for another writer on its buckets. A conflict costs it only a rewrite of
# its rows with new sequence numbers, so a long wait does not pay.
WRITER_WAITS_MS = 30_000
# With dynamic buckets the second writer would get a conflict instead.
INDEX_WRITER_WAITS_MS = 600_000

Warn = Callable[[str], object]
_LOG = logging.getLogger(__name__)


@contextmanager
def writing(
    table: Table,
    kind: WriteKind,
    partitions: Sequence[Mapping[str, object]] | None,
    *,
    commit_user: str,
    warn: Warn = _LOG.warning,
    required: bool = False,
) -> Iterator[Lease | None]:
    """Lease the partitions of a write.

    Yields None if no lease could be taken; the write goes on, unless the lease is `required`.

    Raises:
        LeaseHeld: another writer holds the partitions of a write that requires its lease.
    """
    lease_kind = _kind_of_write(table, kind)
    request = LeaseRequest(
        kind=lease_kind,
        scope=partitions_scope(table, partitions),
        holder=here(commit_user),
        owner=f"{commit_user} {lease_kind.value}",
    )
    indexed = table.options.bucket_mode is BucketMode.DYNAMIC
    wait_ms = INDEX_WRITER_WAITS_MS if indexed else WRITER_WAITS_MS
    with ExitStack() as held:
        lease = None
        try:
            lease = held.enter_context(leased(table.table_files, request, wait_ms=wait_ms))
            held.enter_context(renewed(table.table_files, lease))
        except StorageError as error:
            if required:
                raise
            warn(f"{table.name} is written without a lease: {error}")
        yield lease


@contextmanager
def maintaining(
    table: Table,
    kind: LeaseKind,
    scope: LeaseScope,
    *,
    run: str,
) -> Iterator[Lease]:
    """Lease the partitions of a scope that no other living process holds.

    Raises:
        LeaseHeld: other processes hold all of them; try again later.
    """
    request = LeaseRequest(
        kind=kind,
        scope=scope,
        holder=here(run),
        owner=f"{run} {kind.value}",
    )
    with (
        leased(table.table_files, request) as lease,
        renewed(table.table_files, lease),
    ):
        yield lease


@contextmanager
def renewed(files: TableFiles, lease: Lease) -> Iterator[None]:
    """Renew a lease in a thread while the work runs, which may take hours."""
    done = Event()

    def renew() -> None:
        while not done.wait(lease.duration_ms / 3000):
            try:
                if keep_lease(files, lease.id) is None:
                    return
            except Exception as error:  # noqa: BLE001  # an error that ends a thread is not told
                # The work checks the lease before it publishes; the store may recover until then.
                _LOG.warning("lease %s of %s was not renewed: %r", lease.id, files.name, error)

    beside = Thread(target=renew, name=f"lease {lease.id}", daemon=True)
    beside.start()
    try:
        yield
    finally:
        done.set()
        beside.join()


def partitions_scope(table: Table, partitions: Sequence[Mapping[str, object]] | None) -> LeaseScope:
    """The named partitions; without names the whole table."""
    return (
        whole_table(table.table_files)
        if partitions is None
        else scope_of(table.table_files, partitions)
    )


def plan_scope(table: Table, plan: RewritePlan[Any]) -> LeaseScope:
    """The partitions that a plan rewrites."""
    return scope_of(table.table_files, [task.partition for task in plan.tasks])


def here(work: str) -> str:
    """The holder's name for some work in this process."""
    return f"{work} on {socket.gethostname()}, process {os.getpid()}"


def _kind_of_write(table: Table, kind: WriteKind) -> LeaseKind:
    if kind is WriteKind.OVERWRITE:
        return LeaseKind.OVERWRITE
    numbered = (BucketMode.FIXED, BucketMode.DYNAMIC)
    if table.schema.is_keyed and table.options.bucket_mode in numbered:
        return LeaseKind.UPSERT
    return LeaseKind.APPEND
