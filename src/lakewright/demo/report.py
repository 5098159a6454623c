"""The demo's reports on tables: their health, and what each step changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewright.storage import PartitionStats, Table

_WORST = 3


@dataclass(frozen=True, slots=True)
class ShownState:
    """A table at one moment: its live data files, and everything it has on disk."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    snapshots: int = 0
    files_on_disk: int = 0


@dataclass(frozen=True, slots=True)
class ShownChange:
    """What a step did to a table, and how long the step took."""

    step: str
    table: str
    before: ShownState
    after: ShownState
    seconds: float


def state_of(table: Table) -> ShownState:
    """A table as it is now."""
    partitions = table.at().partitions()
    return ShownState(
        rows=sum(partition.row_count for partition in partitions),
        files=sum(partition.file_count for partition in partitions),
        bytes=sum(partition.size_bytes for partition in partitions),
        snapshots=len(table.history.snapshots()),
        files_on_disk=table.inspect.file_count_on_disk(),
    )


def render_health(table: Table) -> str:
    """A line on the table as a whole, and one for each of its worst partitions."""
    partitions = table.at().partitions()
    state = state_of(table)
    whole = (
        f"    {table.name}: {state.rows:,} rows in {state.files:,} files of {_size(state.bytes)}, "
        f"{len(partitions)} partitions, snapshots: {state.snapshots}"
    )
    plan = table.upkeep.plan_compact()
    if not plan.tasks:
        return f"{whole}: healthy"
    lines = [whole]
    crowded = sorted(partitions, key=lambda each: -each.file_count)[:_WORST]
    lines += [f"        {_partition(each)}" for each in crowded]
    lines.append(
        f"        {plan.files_before:,} files in {len(plan.tasks)} buckets are worth compacting"
    )
    return "\n".join(lines)


def _partition(stats: PartitionStats) -> str:
    name = ", ".join(f"{key}={value}" for key, value in stats.spec.items()) or "(whole table)"
    return f"{name}: {stats.file_count} files, {stats.small_file_count} of them small"


def render_changes(changes: Sequence[ShownChange]) -> str:
    """All changes as a table; empty when there are none."""
    if not changes:
        return ""
    header = ("step", "table", "rows", "data files", "bytes", "snapshots", "files on disk", "s")
    rows = [
        (
            change.step,
            change.table,
            _arrow(f"{change.before.rows:,}", f"{change.after.rows:,}"),
            _arrow(f"{change.before.files:,}", f"{change.after.files:,}"),
            _arrow(_size(change.before.bytes), _size(change.after.bytes)),
            _arrow(str(change.before.snapshots), str(change.after.snapshots)),
            _arrow(f"{change.before.files_on_disk:,}", f"{change.after.files_on_disk:,}"),
            f"{change.seconds:.0f}",
        )
        for change in changes
    ]
    widths = [max(len(row[at]) for row in [header, *rows]) for at in range(len(header))]
    lines = [_aligned(header, widths), "  ".join("-" * width for width in widths)]
    lines += [_aligned(row, widths) for row in rows]
    return "\n".join(lines)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    texts = [
        text.ljust(width) if at < 2 else text.rjust(width)
        for at, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(texts).rstrip()


def _arrow(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
