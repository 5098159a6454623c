"""Chooses the snapshots that may expire, by number, age and the positions of consumers.

While the keys of a primary-key table change, the snapshot before the change stays, and all later
ones: the change may be taken back to it, and a later one says how it ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.commit.bridged_base import needed_from
from lakewright.storage.operations.state.store_clock import check_machine_clock
from lakewright.storage.spec.arguments import whole_or_none
from lakewright.storage.spec.option_values import duration_of_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much history to keep; `limit` bounds how many snapshots one step expires."""

    retain_min: int
    retain_max: int
    time_retained_ms: int
    limit: int

    @property
    def goes_by_age(self) -> bool:
        """Whether the age of a snapshot can decide."""
        return self.retain_min < self.retain_max


def retention_of(
    files: TableFiles,
    retain_min: int | None,
    retain_max: int | None,
    time_retained_ms: int | None,
    max_deletes: int | None,
) -> Retention:
    """The requested retention, completed from the table's options; refuses invalid values."""
    options = files.options
    retain_min = whole_or_none(retain_min, "retain_min")
    retain_max = whole_or_none(retain_max, "retain_max")
    time_retained_ms = whole_or_none(time_retained_ms, "time_retained_ms")
    max_deletes = whole_or_none(max_deletes, "max_deletes")
    retention = Retention(
        retain_min=options.snapshot_num_retained_min if retain_min is None else retain_min,
        retain_max=options.snapshot_num_retained_max if retain_max is None else retain_max,
        time_retained_ms=(
            options.snapshot_time_retained_ms if time_retained_ms is None else time_retained_ms
        ),
        limit=options.snapshot_expire_limit if max_deletes is None else max_deletes,
    )
    if retention.retain_min < 1:
        raise InvalidRequestError(
            f"retain_min is {retention.retain_min}; at least 1 snapshot of {files.name} must stay"
        )
    if retention.retain_max < retention.retain_min:
        raise InvalidRequestError(
            f"retain_max ({retention.retain_max}) is below retain_min ({retention.retain_min})"
        )
    if retention.time_retained_ms < 0 or retention.limit < 1:
        raise InvalidRequestError("time_retained_ms must be at least 0, and max_deletes at least 1")
    return retention


@dataclass(frozen=True, slots=True)
class ExpiryStep:
    """The snapshots that expire, why no others do, and how many wait for a later step."""

    expired: Sequence[int]
    reasons: Sequence[str]
    waiting: int


def expiry_step(
    files: TableFiles,
    ids: Sequence[int],
    retention: Retention,
    stale: Collection[str],
) -> ExpiryStep:
    """Choose the snapshots of one step; ids may have gaps, and stale consumers hold nothing.

    `ids` are all existing snapshots.
    """
    count = len(ids)
    allowed = max(0, count - retention.retain_min)
    reasons = [f"of {count} snapshots at least {retention.retain_min} are retained"]
    if count < retention.retain_min:
        reasons = [f"all {count} snapshots are retained, as at least {retention.retain_min} are"]
    for name, position in files.references.consumers().items():
        if name in stale:
            limit = duration_of_ms(files.options.consumer_expiration_ms or 0)
            reasons.append(f"consumer {name} has not moved for {limit}, and is deleted")
        elif not files.options.consumer_changelog_only:
            wanted = bisect_left(ids, position)
            if wanted < min(allowed, retention.limit):
                reasons.append(f"consumer {name} wants to read from snapshot {position}")
            allowed = min(allowed, wanted)
    latest = files.snapshots.read(ids[-1])
    needed = needed_from(files, latest)
    if needed is not None:
        reasons.append(
            f"a change of the partition keys, or rows that a client committed under former ones, "
            f"may need snapshot {needed}; the next commit ends that, or respec with the keys "
            f"{', '.join(files.schema.partition_keys) or 'none'}"
        )
        allowed = min(allowed, bisect_left(ids, needed))
    too_many = max(0, count - retention.retain_max)
    if allowed and retention.goes_by_age:
        check_machine_clock(files, latest)
    oldest_kept = files.env.now_ms() - retention.time_retained_ms

    def is_old(index: int) -> bool:
        # A snapshot is in use until its successor is older than the time to retain. One that was
        # committed under a clock that was ahead is not later than those that followed it.
        times = (files.snapshots.read(ids[each]).time_millis for each in range(index + 1, count))
        return next(time for time in times if time <= latest.time_millis) < oldest_kept

    end = min(allowed, retention.limit)
    for index in range(min(too_many, end), end):
        if not is_old(index):
            end = allowed = index
            reasons.append(
                f"snapshot {ids[index]} was current within the last "
                f"{duration_of_ms(retention.time_retained_ms)}"
            )
            break
    # The bisection assumes increasing times. The result is only reported; each step checks again.
    old = (
        bisect_left(
            range(allowed),
            True,
            lo=max(end, min(too_many, allowed)),
            key=lambda each: not is_old(each),
        )
        if end < allowed
        else end
    )
    return ExpiryStep(ids[:end], reasons, old - end)
