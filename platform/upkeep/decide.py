"""Deciding: from a table's health and its policy to what is to be done, and why.

Pure: the same health, policy, runs and past give the same answer. Every
partition gets one, with the numbers that led to it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewright.platform.declare.declarations import CompactionPolicy
from lakewright.platform.upkeep.health import PartitionHealth, TableHealth

# A compaction that came to nothing is asked for again so much later, each time twice as late.
_ASKED_AGAIN_AFTER_MS = 600_000
_MOST_TIMES_ASKED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """That a partition's compaction was asked for, in which state, and when it may be again.

    A run that does it changes the state. None at `again_ms`: asking again would do the same.
    """

    fingerprint: str
    times: int = 1
    again_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A partition that is to be compacted."""

    partition: PartitionHealth
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """A partition that is left alone; `waits` says that it is due and only the moment is not.

    It is worth another look at `again_ms`, though nothing happens until then.
    """

    partition: PartitionHealth
    reason: str
    waits: bool = False
    again_ms: int | None = None


Decision = Intent | Declined


def decide(
    health: TableHealth,
    policy: CompactionPolicy,
    *,
    in_flight: Sequence[str] = (),
    acted: Mapping[str, Asked] | None = None,
    now_ms: int,
) -> tuple[Decision, ...]:
    """What to do with each partition.

    One is due when a bucket has enough to join, and as soon as any of its rows wait:
    readers do not see those before they are compacted, however few they are.
    `in_flight` describes runs that work on the table; while there is one,
    nothing is begun. `acted` holds what was asked for: while the state is the same, a run
    failed or left the partition to others, and that is asked for again later.
    """
    decisions: list[Decision] = []
    chosen = 0
    for partition in health.partitions:
        reason, due = _judge(partition, policy, keyed=health.keyed)
        if not due:
            decisions.append(Declined(partition=partition, reason=f"{reason}: leave"))
            continue
        asked = (acted or {}).get(partition.key)
        if asked is not None and _stands(asked, partition, now_ms):
            told = f"{reason}: was asked for already in this state"
            if asked.again_ms is not None:
                told += f", and is again from {_time(asked.again_ms)} on"
            declined = Declined(partition=partition, reason=told, again_ms=asked.again_ms)
            decisions.append(declined)
            continue
        obstacle = _obstacle(partition, policy, in_flight, now_ms)
        if obstacle is None and chosen >= policy.max_partitions:
            obstacle = f"waits, {policy.max_partitions} partitions are compacted at once"
        if obstacle is not None:
            told = f"{reason}: {obstacle}"
            decisions.append(Declined(partition=partition, reason=told, waits=True))
            continue
        chosen += 1
        decisions.append(Intent(partition=partition, reason=f"{reason}: compact"))
    return tuple(decisions)


def asked_now(partition: PartitionHealth, asked: Asked | None, now_ms: int) -> Asked:
    """What to remember of a partition whose compaction is asked for, perhaps once more."""
    known = asked is not None and asked.fingerprint == partition.fingerprint
    times = asked.times + 1 if asked is not None and known else 1
    again_ms = now_ms + (_ASKED_AGAIN_AFTER_MS << (times - 1))
    return Asked(
        fingerprint=partition.fingerprint,
        times=times,
        again_ms=again_ms if times < _MOST_TIMES_ASKED else None,
    )


def intents(decisions: Sequence[Decision]) -> tuple[Intent, ...]:
    """What is to be done."""
    return tuple(each for each in decisions if isinstance(each, Intent))


def summarize(decisions: Sequence[Decision], *, shown: int = 5) -> str:
    """The reasons in one text: some of them, those with the most files first."""
    if not decisions:
        return "the table has no data"
    ordered = sorted(decisions, key=lambda each: -_weight(each.partition))
    lines = [each.reason for each in ordered[:shown]]
    if len(ordered) > shown:
        lines.append(f"and {len(ordered) - shown} other partitions, none with more")
    return "; ".join(lines)


def _stands(asked: Asked, partition: PartitionHealth, now_ms: int) -> bool:
    """Whether what was asked for need not be asked for again yet."""
    if asked.fingerprint != partition.fingerprint:
        return False
    return asked.again_ms is None or now_ms < asked.again_ms


def _time(time_ms: int) -> str:
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).strftime("%H:%M UTC")


def _weight(partition: PartitionHealth) -> int:
    return max(partition.small_files, partition.sorted_runs, partition.waiting_files)


def _judge(
    partition: PartitionHealth, policy: CompactionPolicy, *, keyed: bool
) -> tuple[str, bool]:
    if partition.waiting_files:
        files = _counted(partition.waiting_files, "file")
        rows = _counted(partition.waiting_rows, "row")
        verb = "waits" if partition.waiting_files == 1 else "wait"
        return f"{partition.name}: {files} with {rows} {verb} for a compaction", True
    if keyed:
        count, what = partition.sorted_runs, "sorted runs"
    else:
        count, what = partition.small_files, "small files"
    due = count >= policy.small_files
    sign = "≥" if due else "<"
    where = f"{partition.name}: {count} {what}"
    if partition.worst_bucket > 0:
        where += f" in bucket {partition.worst_bucket}"
    return f"{where} {sign} {policy.small_files}", due


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _obstacle(
    partition: PartitionHealth, policy: CompactionPolicy, in_flight: Sequence[str], now_ms: int
) -> str | None:
    """What stands in the way for the moment."""
    if in_flight:
        return f"waits for {', '.join(in_flight)}"
    written = partition.last_file_creation_ms
    if policy.quiet_for and written is not None and now_ms - written < policy.quiet_for:
        age = max(now_ms - written, 0) // 1000
        return f"waits, written {age} s ago, until it is quiet for {policy.quiet_for // 1000} s"
    return None
