"""Figures and names in words, alike on the terminal, in logs and in Dagster."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

# Beyond this, a share is no help, and a wide column.
_MOST_ERROR = 9.99
# So many snapshots with others between them are named one by one.
_MOST_LISTED = 5


def size_text(size_bytes: int) -> str:
    """`1.4 MiB`."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        # What rounds to 1024 of a unit is one of the next.
        if round(size, 1) < 1024 or unit == "TiB":
            return f"{size_bytes} B" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError(size_bytes)


def signed_size(size_bytes: int) -> str:
    """A size that may be less than nothing: `-1.4 MiB`."""
    return size_text(size_bytes) if size_bytes >= 0 else f"-{size_text(-size_bytes)}"


def duration_text(duration_ms: int) -> str:
    """`850 ms`, `12.3 s`, `4 min 5 s`, `1 h`, `7 d`."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.1f} s"
    left, told = round(duration_ms / 1000), []
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, seconds)
        if count:
            told.append(f"{count} {unit}")
    return " ".join(told[:2])


def predicted_time(predicted_ms: int, took_ms: int) -> str:
    """`predicted 50 ms, took 26 ms`."""
    return f"predicted {duration_text(predicted_ms)}, took {duration_text(took_ms)}"


def time_text(time_ms: int) -> str:
    """`2026-01-31 04:05 UTC`."""
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


def counted(count: int, noun: str) -> str:
    """`1 file`, `1,200 files`."""
    return f"{count:,} {noun if count == 1 else noun + 's'}"


def error_text(error: float | None) -> str:
    """The error of predictions: `12 %`, `> 999 %`, or `-` where nothing was predicted."""
    if error is None:
        return "-"
    return "> 999 %" if error > _MOST_ERROR else f"{error:.0%}".replace("%", " %")


def small_text(files: int, small: int) -> str:
    """How many of some files are small: `2 small`, `all small`; of one, `small`."""
    if small != files or not files:
        return f"{small:,} small"
    return "small" if files == 1 else "all small"


def failing_rows(count: int) -> str:
    """`1 failing row`, `3 failing rows`."""
    return counted(count, "failing row")


def named(noun: str, names: Sequence[str]) -> str:
    """`tag a`, `tags a, b`."""
    return f"{noun if len(names) == 1 else noun + 's'} {', '.join(names)}"


def snapshots_text(ids: Sequence[int]) -> str:
    """`snapshot 1`, `3 snapshots (1 to 3)`, `2 snapshots (1, 4)`."""
    if not ids:
        return "no snapshot"
    if len(ids) == 1:
        return f"snapshot {ids[0]}"
    first, last = min(ids), max(ids)
    span = f"{first} to {last}"
    if last - first + 1 != len(ids):
        few = ", ".join(map(str, sorted(ids)))
        span = few if len(ids) <= _MOST_LISTED else f"between {first} and {last}"
    return f"{len(ids)} snapshots ({span})"


def nulled_text(count: int) -> str:
    """What a rewrite did to values beyond the types of their columns, by the table's cast mode."""
    fit = "does not fit the type of its column" if count == 1 else "do not fit their types"
    return f"{counted(count, 'value')} that {fit} became null permanently"
