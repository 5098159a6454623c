"""Words for what other retention times would free, alike in the terminal and in Dagster."""

from __future__ import annotations

from lakewright.platform.upkeep.words import counted, size_text
from lakewright.storage import Table
from lakewright.storage.errors import StorageError
from lakewright.storage.operations.retention.retention_outlook import (
    Holder,
    RetentionOutlook,
    retention_outlook,
)

_DAY_MS = 86_400_000
_UNITS = ((_DAY_MS, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
DEFAULT_AGES_MS = (_DAY_MS, 3 * _DAY_MS, 7 * _DAY_MS, 30 * _DAY_MS)


def read_outlook(table: Table, *, most_snapshots: int) -> tuple[RetentionOutlook, ...]:
    """What the usual retention times would free; empty for a long history, or if it is unreadable.

    Each snapshot costs the read of what its commit changed.
    """
    try:
        if table.history.span().snapshots > most_snapshots:
            return ()
        return retention_outlook(table.table_files, DEFAULT_AGES_MS)
    except StorageError:
        return ()


def age_text(age_ms: int) -> str:
    """`7d`, `12h`, as options have it."""
    for unit_ms, name in _UNITS:
        if age_ms and age_ms % unit_ms == 0:
            return f"{age_ms // unit_ms}{name}"
    return f"{age_ms}ms" if age_ms else "0s"


def holder_text(holder: Holder) -> str:
    """`tag q3 (1.2 GiB)`, `consumer c (4 snapshots)`."""
    if holder.snapshots:
        return f"{holder.kind} {holder.name} ({counted(holder.snapshots, 'snapshot')})"
    size = "" if holder.bytes is None else f" ({size_text(holder.bytes)})"
    return f"{holder.kind} {holder.name}{size}"
