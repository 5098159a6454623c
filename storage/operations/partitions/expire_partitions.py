"""Expires partitions: those past their time are dropped, a batch in each commit.

1. Plan from metadata alone. A partition is due if the time of its values, or the creation of its
   newest file, lies further back than the expiration time. A partition whose values give no time
   stays, and the plan says so.
2. Find the tags that still need files of a due partition: these files outlive the drop until the
   tag is deleted. On request such a partition stays.
3. The oldest partitions go first, up to a number for each run.
4. Run: plan again, and drop the partitions that are still due and hold the planned files. A
   partition that another commit changes meanwhile is left out, and the next run takes it.

Sources: Paimon `PartitionExpire`, `PartitionValuesTimeExpireStrategy`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from lakewright.storage.errors import InvalidOption, StalePlan
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.replace_partitions import commit_partitions
from lakewright.storage.operations.partitions.held_partitions import (
    check_partitioned,
    held_files,
    held_now,
    planned_rows,
)
from lakewright.storage.operations.partitions.select_partitions import Selection, selected_entries
from lakewright.storage.operations.running.local_clock import local_now, local_time
from lakewright.storage.operations.running.plan import Plan
from lakewright.storage.operations.running.verb_options import (
    COUNT,
    DURATION,
    FLAG,
    TEXT,
    option,
)
from lakewright.storage.operations.state.latest import read_latest
from lakewright.storage.operations.state.live_files import live_entries
from lakewright.storage.operations.state.store_clock import check_machine_clock, check_not_ahead
from lakewright.storage.spec.arguments import whole_or_none
from lakewright.storage.spec.manifest import ManifestEntry
from lakewright.storage.spec.partition import Partition
from lakewright.storage.spec.partition_expiry import (
    TIME_OPTION,
    ExpiryStrategy,
    PartitionExpiry,
    expiry_strategy,
)
from lakewright.storage.spec.partition_time import PartitionTimes
from lakewright.storage.spec.shown import Shown
from lakewright.storage.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class DuePartition:
    """A partition past its time, which is `since`.

    `tags` still need `tagged_bytes` of its files.
    """

    partition: dict[str, object]
    files: tuple[str, ...]
    rows: int
    bytes: int
    since: str
    tags: tuple[str, ...]
    tagged_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StayingPartition:
    """A partition that stays although it may be past its time, and why."""

    partition: dict[str, object]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePartitionsPlan(Plan["ExpirePartitionsResult"]):
    """The partitions to drop, as of one snapshot; `waiting` more are due in later runs."""

    table: str
    snapshot_id: int | None
    expiration_ms: int
    strategy: ExpiryStrategy
    pattern: str | None
    formatter: str | None
    spare_tagged: bool
    batch_size: int | None
    partitions: tuple[DuePartition, ...]
    staying: tuple[StayingPartition, ...]
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpirePartitionsResult(Shown):
    """What was dropped, in one snapshot for each batch; `left_out` changed meanwhile."""

    snapshots: tuple[Snapshot, ...]
    partitions: tuple[DuePartition, ...]
    left_out: tuple[dict[str, object], ...]
    duration_ms: int


# --- planning ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExpirePartitionsOptions:
    """Which partitions go; the table's options say the rest."""

    older_than_ms: int | None = option(DURATION, None, "Drop partitions older than that: 12h, 90d.")
    strategy: str | ExpiryStrategy | None = option(
        TEXT,
        None,
        "What the age is counted from: values-time, the time of the partition's values, or "
        "update-time, the creation of its newest file.",
    )
    pattern: str | None = option(
        TEXT,
        None,
        "The text that holds the time, with $key for the value of a key: '$day $hour:00:00'.",
    )
    formatter: str | None = option(TEXT, None, "The layout of that text, such as yyyyMMdd.")
    max_partitions: int | None = option(COUNT, None, "Partitions that one run drops at most.")
    spare_tagged: bool = option(
        FLAG, default=False, text="Leave partitions alone as long as a tag needs files of theirs."
    )


def plan_expire_partitions(
    files: TableFiles, options: ExpirePartitionsOptions
) -> ExpirePartitionsPlan:
    """Plan the expiry of partitions; the table's options give what is not given here.

    With `spare_tagged`, partitions stay as long as a tag needs files of theirs.

    Raises:
        InvalidOption: neither the call nor the table gives an expiration time; or the strategy,
            the pattern or the formatter is invalid.
        InvalidRequestError: the table has no partition keys.
        ClockJumped: the latest snapshot is dated in the future, so ages are unknown.
    """
    check_partitioned(files)
    of_table = PartitionExpiry(files.schema, files.name)
    expiration_ms = whole_or_none(options.older_than_ms, "older_than_ms", minimum=0)
    expiration_ms = of_table.expiration_ms if expiration_ms is None else expiration_ms
    if expiration_ms is None:
        raise InvalidOption(
            f"{files.name} has no {TIME_OPTION}; set it, or say how old partitions may become "
            "(--older-than, older_than_ms)",
            option=TIME_OPTION,
        )
    most = whole_or_none(options.max_partitions, "max_partitions", minimum=1)
    asked = _Asked(
        files,
        expiration_ms,
        of_table.strategy if options.strategy is None else expiry_strategy(options.strategy),
        PartitionTimes(
            options.pattern or of_table.times.pattern,
            options.formatter or of_table.times.formatter,
        ),
        options.spare_tagged,
    )
    return _plan(asked, of_table, of_table.max_num if most is None else most)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What decides which partitions are due."""

    files: TableFiles
    expiration_ms: int
    strategy: ExpiryStrategy
    times: PartitionTimes
    spare_tagged: bool


def _plan(asked: _Asked, options: PartitionExpiry, most: int | None) -> ExpirePartitionsPlan:
    files = asked.files
    asked.times.check()
    if asked.strategy is ExpiryStrategy.VALUES_TIME:
        asked.times.check_names(files.schema.partition_keys, table=files.name)
    snapshot, found = read_latest(
        files, lambda latest: selected_entries(files, latest, Selection())
    )
    times = {each: _time_of(asked, each, entries) for each, entries in found.items()}
    check_machine_clock(files, snapshot)
    limit = local_now(files) - dt.timedelta(milliseconds=asked.expiration_ms)
    due = [each for each, time in times.items() if time is not None and time < limit]
    staying = [_without_time(asked, each) for each, time in times.items() if time is None]
    tagged = _tagged_names(files, due)
    described = [_due(each, found[each], times[each], tagged) for each in due]
    if asked.spare_tagged:
        staying += [_tagged(each) for each in described if each.tags]
        described = [each for each in described if not each.tags]
    described.sort(key=lambda each: each.since)
    return ExpirePartitionsPlan(
        table=files.name,
        snapshot_id=None if snapshot is None else snapshot.id,
        expiration_ms=asked.expiration_ms,
        strategy=asked.strategy,
        pattern=asked.times.pattern,
        formatter=asked.times.formatter,
        spare_tagged=asked.spare_tagged,
        batch_size=options.batch_size,
        partitions=tuple(described[:most]),
        staying=tuple(staying),
        waiting=len(described) - len(described[:most]),
    )


def _time_of(
    asked: _Asked, partition: Partition, entries: Sequence[ManifestEntry]
) -> dt.datetime | None:
    if asked.strategy is ExpiryStrategy.VALUES_TIME:
        return asked.times.of(partition)
    created = [entry.file.creation_time for entry in entries]
    known = [each for each in created if each is not None]
    # A file without a creation time may be the newest.
    return local_time(max(known), None) if len(known) == len(created) else None


def _without_time(asked: _Asked, partition: Partition) -> StayingPartition:
    if asked.strategy is ExpiryStrategy.UPDATE_TIME:
        reason = "a file of it has no creation time"
    else:
        text = asked.times.text_of(partition)
        what = "a key that gives the time is null" if text is None else f"{text!r} is no time"
        reason = f"{what}; drop it by its values, or expire by {ExpiryStrategy.UPDATE_TIME.value}"
    return StayingPartition(partition=partition.spec, reason=reason)


def _tagged(due: DuePartition) -> StayingPartition:
    return StayingPartition(partition=due.partition, reason=f"needed by {', '.join(due.tags)}")


def _tagged_names(files: TableFiles, due: Collection[Partition]) -> dict[str, frozenset[str]]:
    """Names of the files that tags need of some partitions, by tag."""
    rows = frozenset(each.row for each in due)
    if not rows:
        return {}
    return {
        name: frozenset(
            entry.file.file_name for entry in live_entries(files, tag.snapshot, partitions=rows)
        )
        for name, tag in files.references.tags().items()
    }


def _due(
    partition: Partition,
    entries: Sequence[ManifestEntry],
    since: dt.datetime | None,
    tagged: Mapping[str, frozenset[str]],
) -> DuePartition:
    assert since is not None
    held = held_files(partition, entries)
    names = frozenset(held.files)
    needed = {tag: names & of_tag for tag, of_tag in tagged.items() if names & of_tag}
    kept = frozenset(chain.from_iterable(needed.values()))
    return DuePartition(
        partition=held.partition,
        files=held.files,
        rows=held.rows,
        bytes=held.bytes,
        since=since.isoformat(sep=" "),
        tags=tuple(sorted(needed)),
        tagged_bytes=sum(e.file.file_size for e in entries if e.file.file_name in kept),
    )


# --- running ----------------------------------------------------------------------------------


def run_expire_partitions(files: TableFiles, plan: ExpirePartitionsPlan) -> ExpirePartitionsResult:
    """Drop the planned partitions that are still due and as planned, a batch in each commit.

    On failure the batches before it stay dropped, and another run continues.

    Raises:
        StalePlan: no planned partition is due any more and as planned; nothing is dropped.
        ClockJumped: the clock of this machine is ahead of the store's; nothing is dropped.
        SchemaMoved: the table's schema changed since it was opened.
        RetriesExhausted: other processes committed too often.
    """
    started = files.env.now_ms()
    check_partitioned(files)
    planned = planned_rows(files, plan.partitions)
    asked = _Asked(
        files,
        plan.expiration_ms,
        plan.strategy,
        PartitionTimes(plan.pattern, plan.formatter),
        plan.spare_tagged,
    )
    options = PartitionExpiry(files.schema, files.name)
    due = planned_rows(files, _plan(asked, options, None).partitions)
    now = held_now(files, planned)
    going = [row for row in planned if row in due and row not in now.unlike(planned)]
    if planned and not going:
        raise StalePlan(
            f"none of the {len(planned)} partitions of {files.name} to expire is due by now with "
            "the files that it was planned with; plan again"
        )
    if going:
        check_not_ahead(files)
    held, user = now.names(going), files.env.new_id()
    snapshots, dropped = list[Snapshot](), set[bytes]()
    size = max(plan.batch_size or len(going), 1)
    for batch in (going[at : at + size] for at in range(0, len(going), size)):
        snapshot, changed = commit_partitions(
            files,
            {row: held[row] for row in batch},
            user=f"{user}-{len(snapshots)}",
            base=snapshots[-1] if snapshots else now.snapshot,
            leave_out_changed=True,
        )
        dropped.update(set(batch) - changed)
        snapshots += [] if snapshot is None else [snapshot]
    by_row = dict(zip(planned, plan.partitions, strict=True))
    return ExpirePartitionsResult(
        snapshots=tuple(snapshots),
        partitions=tuple(each for row, each in by_row.items() if row in dropped),
        left_out=tuple(each.partition for row, each in by_row.items() if row not in dropped),
        duration_ms=files.env.now_ms() - started,
    )
