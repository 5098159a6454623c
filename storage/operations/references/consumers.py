"""Consumers: how far readers of a table's changes have come, which holds expiry back.

1. A consumer is a file with the next snapshot its reader wants; whoever reads moves it on.
2. Set one to let a reader begin elsewhere; delete one that nobody reads for any more.
3. Expire: one that has not moved for longer than `consumer.expiration-time`, by the store's
   clock, holds nothing and goes.

Source: Paimon specification, chapter Consumer ID; `ConsumerManager`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakewright.storage.errors import ConsumerNotFound, InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.spec.reference_names import check_reference_name
from lakewright.storage.spec.snapshot import FIRST_SNAPSHOT_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A reader's place; `modified_ms` is when it moved last, by the store's clock."""

    name: str
    next_snapshot_id: int
    modified_ms: int


def list_consumers(files: TableFiles) -> tuple[Consumer, ...]:
    """Consumers by name."""
    modified = files.references.consumer_modified_ms()
    return tuple(
        Consumer(name=name, next_snapshot_id=position, modified_ms=modified.get(name, 0))
        for name, position in sorted(files.references.consumers().items())
    )


def set_consumer(files: TableFiles, name: str, next_snapshot_id: int) -> None:
    """Let a consumer read on from a snapshot, which need not be there yet.

    Raises:
        InvalidRequestError: the name cannot be, or the snapshot is expired or beyond the next one.
    """
    check_reference_name(name, "consumer")
    latest = files.snapshots.latest_id() or FIRST_SNAPSHOT_ID - 1
    # The changes of snapshots that expired are there while their changelogs are.
    changes = [each.id for each in files.references.changelogs()]
    earliest = min([files.snapshots.earliest_id() or FIRST_SNAPSHOT_ID, *changes])
    if not earliest <= next_snapshot_id <= latest + 1:
        raise InvalidRequestError(
            f"consumer {name} of {files.name} cannot read on from snapshot {next_snapshot_id}; "
            f"name one from {earliest} to {latest + 1}, which comes next"
        )
    files.references.set_consumer(name, next_snapshot_id)


def delete_consumer(files: TableFiles, name: str) -> None:
    """Forget a consumer; what it held back may expire.

    Raises:
        ConsumerNotFound: there is none of that name; the message lists those there are.
    """
    if name not in files.references.consumer_modified_ms():
        there = ", ".join(sorted(files.references.consumer_modified_ms()))
        raise ConsumerNotFound(
            f"no consumer {name} of {files.name}; "
            + (f"there are {there}" if there else "there are none"),
            table=files.name,
        )
    delete_files(files.fs, [files.paths.consumer(name)])


def plan_expire_consumers(
    files: TableFiles, *, older_than_ms: int | None = None
) -> tuple[Consumer, ...]:
    """Consumers that have not moved since a time; for as long as the options allow by default."""
    limit = files.options.consumer_expiration_ms
    if older_than_ms is None and limit is None:
        return ()
    oldest = older_than_ms if older_than_ms is not None else files.env.now_ms() - (limit or 0)
    return tuple(each for each in list_consumers(files) if each.modified_ms < oldest)


def run_expire_consumers(files: TableFiles, plan: Collection[Consumer]) -> int:
    """Delete consumers that are given up, unless they moved since; how many there were."""
    modified = files.references.consumer_modified_ms()
    still = [each.name for each in plan if modified.get(each.name) == each.modified_ms]
    return delete_files(files.fs, [files.paths.consumer(name) for name in still])
