"""What decides on a compaction of a partition: its numbers beside those of the policy."""

from __future__ import annotations

from collections.abc import Mapping

from lakewright.platform.ledger.intents import Why
from lakewright.platform.tables.upkeep_policies import CompactionPolicy
from lakewright.platform.upkeep.health import PartitionHealth
from lakewright.platform.upkeep.words import counted

# So many times the sorted runs, or files, from which a compaction is due.
_MANY_RUNS, _MANY_FILES = 2, 20
# Paimon's default of num-sorted-run.compaction-trigger.
_TRIGGER = 5


def judge_partition(
    partition: PartitionHealth,
    policy: CompactionPolicy,
    *,
    keyed: bool,
    stop_at: int | None = None,
) -> tuple[str, Why | None]:
    """The numbers that decide on a compaction of a partition, and why it is due, if it is.

    `stop_at` are the sorted runs of a bucket at which a stream into the table waits.
    """
    if partition.waiting_files:
        files = counted(partition.waiting_files, "file")
        rows = counted(partition.waiting_rows, "row")
        verb = "waits" if partition.waiting_files == 1 else "wait"
        return f"{files} with {rows} {verb} for a compaction", Why.ROWS_WAIT
    if stop_at is not None and partition.sorted_runs >= stop_at:
        runs = counted(partition.sorted_runs, "sorted run")
        return f"{runs} ≥ {stop_at}, at which its stream waits", Why.WRITERS_WAIT
    if keyed:
        count, what, why = partition.sorted_runs, "sorted run", Why.SORTED_RUNS
    else:
        count, what, why = partition.small_files, "small file", Why.SMALL_FILES
    due = count >= policy.small_files
    where = counted(count, what)
    if partition.worst_bucket > 0:
        where += f" in bucket {partition.worst_bucket}"
    return f"{where} {'≥' if due else '<'} {policy.small_files}", why if due else None


def makes_readers_wait(
    partition: PartitionHealth, policy: CompactionPolicy, *, keyed: bool
) -> bool:
    """Whether a compaction is worth its while however few bytes it joins.

    A reader opens each file, and merges the rows of all sorted runs of a bucket. Without this, a
    stream of tiny commits, whose last write is never old, would pile up files without end.
    """
    if keyed and partition.sorted_runs >= _MANY_RUNS * policy.small_files:
        return True
    return weight(partition) >= _MANY_FILES * policy.small_files


def stop_trigger(options: Mapping[str, str]) -> int:
    """The sorted runs of a bucket at which writers of a table wait for a compaction."""
    trigger = int(options.get("num-sorted-run.compaction-trigger", _TRIGGER))
    return max(trigger, int(options.get("num-sorted-run.stop-trigger", trigger + 3)))


def weight(partition: PartitionHealth) -> int:
    """What partitions are ordered by, the worst first."""
    return max(partition.small_files, partition.sorted_runs, partition.waiting_files)
