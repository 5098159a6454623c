"""Decides from a table's health and policy which partitions to compact, and why.

A pure function: the same health, policy, runs and earlier requests give the same decisions. Every
partition gets a decision with the numbers behind it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewright.platform.declare.upkeep_policies import CompactionPolicy
from lakewright.platform.upkeep.health import PartitionHealth, TableHealth
from lakewright.platform.upkeep.words import counted

# The first delay before an unfulfilled request is repeated; it doubles each time.
_ASKED_AGAIN_AFTER_MS = 600_000
_MOST_TIMES_ASKED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The last request for a partition: its state then, and the time of the next request.

    A successful run changes the state. `again_ms` None means that a repetition would not help.
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
    """A partition without a compaction; `waits` means that it is due and must wait.

    The sensor should look again at `again_ms`, even if the partition does not change.
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
    """Decide on each partition.

    A partition is due if a bucket has enough files or runs to join, or if any of its rows wait for
    a compaction, because readers do not see these. `in_flight` describes runs on the table; while a
    run is in flight, no partition is compacted. `acted` holds earlier requests: if the state is
    unchanged, the run failed or skipped the partition, and the request is repeated later.
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
    """The record of a first or repeated request for a partition."""
    known = asked is not None and asked.fingerprint == partition.fingerprint
    times = asked.times + 1 if asked is not None and known else 1
    again_ms = now_ms + (_ASKED_AGAIN_AFTER_MS << (times - 1))
    return Asked(
        fingerprint=partition.fingerprint,
        times=times,
        again_ms=again_ms if times < _MOST_TIMES_ASKED else None,
    )


def intents(decisions: Sequence[Decision]) -> tuple[Intent, ...]:
    """The partitions to compact."""
    return tuple(each for each in decisions if isinstance(each, Intent))


def summarize(decisions: Sequence[Decision], *, shown: int = 5) -> str:
    """The first reasons in one text, partitions with the most files first."""
    if not decisions:
        return "the table has no data"
    ordered = sorted(decisions, key=lambda each: -_weight(each.partition))
    lines = [each.reason for each in ordered[:shown]]
    if len(ordered) > shown:
        lines.append(f"and {len(ordered) - shown} other partitions, none with more")
    return "; ".join(lines)


def _stands(asked: Asked, partition: PartitionHealth, now_ms: int) -> bool:
    """Whether an earlier request still stands and need not be repeated."""
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
        files = counted(partition.waiting_files, "file")
        rows = counted(partition.waiting_rows, "row")
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


def _obstacle(
    partition: PartitionHealth, policy: CompactionPolicy, in_flight: Sequence[str], now_ms: int
) -> str | None:
    """The reason why a due partition must wait, if any."""
    if in_flight:
        return f"waits for {', '.join(in_flight)}"
    written = partition.last_file_creation_ms
    if policy.quiet_for and written is not None and now_ms - written < policy.quiet_for:
        age = max(now_ms - written, 0) // 1000
        return f"waits, written {age} s ago, until it is quiet for {policy.quiet_for // 1000} s"
    return None
