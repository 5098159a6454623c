"""Consumers: the positions of readers of a table's changes; expiry keeps what they still need.

1. A consumer is a file with the id of the next snapshot that its reader needs. The reader moves
   it forward.
2. Set a consumer to let its reader start at another snapshot. Delete an unused consumer.
3. A reader that begins with all rows of the table marks its new consumer: it lacks these rows until
   it moves the consumer for the first time, and begins with them again if it starts anew.
4. Expire: a consumer that has not moved for longer than `consumer.expiration-time`, by the
   store's clock, holds no snapshot and is deleted.

Source: Paimon specification, chapter Consumer ID; `ConsumerManager`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.storage.errors import ConsumerNotFound, InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.running.delete_files import delete_files
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.verb_options import DURATION, option
from lakewright.storage.operations.state.store_clock import check_not_ahead
from lakewright.storage.spec.arguments import whole_number, whole_or_none
from lakewright.storage.spec.reference_names import check_reference_name
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import FIRST_SNAPSHOT_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A reader's position; `modified_ms` is its last move, by the store's clock."""

    name: str
    next_snapshot_id: int
    modified_ms: int


def list_consumers(files: TableFiles) -> tuple[Consumer, ...]:
    """Consumers, sorted by name."""
    modified = files.references.consumer_modified_ms()
    return tuple(
        Consumer(name=name, next_snapshot_id=position, modified_ms=modified.get(name, 0))
        for name, position in sorted(files.references.consumers().items())
    )


def set_consumer(
    files: TableFiles, name: str, next_snapshot_id: int, *, without_rows: bool = False
) -> None:
    """Set the next snapshot that a consumer reads; it may be the one that is committed next.

    `without_rows` marks a reader that needs all rows of the table first.

    Raises:
        InvalidRequestError: the name is invalid, or the snapshot is expired or beyond the next one.
    """
    check_reference_name(name, "consumer")
    next_snapshot_id = whole_number(next_snapshot_id, "next_snapshot_id")
    latest = files.snapshots.latest_id() or FIRST_SNAPSHOT_ID - 1
    # The changes of an expired snapshot remain readable while its changelog exists.
    changes = [changelog.id for changelog in files.references.changelogs()]
    earliest = min([files.snapshots.earliest_id() or FIRST_SNAPSHOT_ID, *changes])
    if not earliest <= next_snapshot_id <= latest + 1:
        raise InvalidRequestError(
            f"consumer {name} of {files.name} cannot continue at snapshot {next_snapshot_id}; "
            f"name a snapshot from {earliest} to {latest + 1}, the next one"
        )
    files.references.set_consumer(name, next_snapshot_id, without_rows=without_rows)


def delete_consumer(files: TableFiles, name: str) -> None:
    """Delete a consumer; the snapshots that only it held may expire.

    Raises:
        ConsumerNotFound: no consumer has that name; the message lists all consumers.
    """
    if name not in files.references.consumer_modified_ms():
        there = ", ".join(sorted(files.references.consumer_modified_ms()))
        raise ConsumerNotFound(
            f"no consumer {name} of {files.name}; "
            + (f"there are {there}" if there else "there are none")
        )
    delete_files(files.fs, [files.paths.consumer(name)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireConsumersPlan(Plan["ExpireConsumersResult"]):
    """The consumers that have not moved for so long."""

    table: str
    consumers: tuple[Consumer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireConsumersResult(Shown):
    """The names of the deleted consumers; those that moved since the plan stay."""

    consumers: tuple[str, ...]


@dataclass(frozen=True)
class ExpireConsumersOptions:
    """Which consumers go; the table's options say the rest."""

    older_than_ms: int | None = option(
        DURATION,
        None,
        "Delete consumers that have not moved for that long: 12h, 90d (default: the table's "
        "consumer.expiration-time).",
    )


def plan_expire_consumers(
    files: TableFiles, options: ExpireConsumersOptions
) -> ExpireConsumersPlan:
    """Delete consumers that have not moved for so long, by default as the table's option says.

    Raises:
        InvalidRequestError: the age is negative, or no whole number.
    """
    older_than_ms = whole_or_none(options.older_than_ms, "older_than_ms", minimum=0)
    limit = files.options.consumer_expiration_ms if older_than_ms is None else older_than_ms
    oldest = 0 if limit is None else files.env.now_ms() - limit
    stale = () if limit is None else list_consumers(files)
    return ExpireConsumersPlan(
        table=files.name, consumers=tuple(each for each in stale if each.modified_ms < oldest)
    )


def run_expire_consumers(files: TableFiles, plan: ExpireConsumersPlan) -> ExpireConsumersResult:
    """Delete planned consumers that have not moved since the plan.

    Raises:
        ClockJumped: the clock of this machine is ahead of the store's, so ages are unknown.
    """
    # A store may keep times by the second, in which a consumer moved.
    there = list_consumers(files) if plan.consumers else ()
    still = [consumer.name for consumer in plan.consumers if consumer in there]
    if still:
        check_not_ahead(files)
    delete_files(files.fs, [files.paths.consumer(name) for name in still])
    return ExpireConsumersResult(consumers=tuple(still))
