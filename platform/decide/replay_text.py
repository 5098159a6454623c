"""A replay in words: rows of tables, as the command and the job show them."""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.platform.decide.replay import Compared, OpenFiles, Replay, ReplayDifference
from lakewright.platform.upkeep.words import counted, duration_text, size_text, time_text

COMPARED = (
    "table",
    "verb",
    "runs",
    "took",
    "read",
    "wrote",
    "files fewer",
    "snapshots fewer",
    "freed",
)
OPEN_FILES = ("table", "then", "now")
DIFFERENCES = ("at", "table", "verb", "then", "now")


def compared_cells(each: Compared) -> list[str]:
    """A row of `COMPARED`: what was, and what would have been."""
    then, now, gained, gains = each.cost_then, each.cost_now, each.benefit_then, each.benefit_now
    return [
        each.table,
        each.verb.replace("_", " "),
        f"{each.runs_then:,} / {each.runs_now:,}",
        f"{duration_text(then.milliseconds)} / {duration_text(now.milliseconds)}",
        f"{size_text(then.bytes)} / {size_text(now.bytes)}",
        f"{size_text(then.bytes_written)} / {size_text(now.bytes_written)}",
        f"{gained.files_fewer:,} / {gains.files_fewer:,}",
        f"{gained.snapshots_fewer:,} / {gains.snapshots_fewer:,}",
        f"{size_text(gained.bytes_freed)} / {size_text(gains.bytes_freed)}",
    ]


def changed_files(found: Replay) -> list[OpenFiles]:
    """The tables whose files differ."""
    return [each for each in found.open_files if round(each.then, 1) != round(each.now, 1)]


def file_cells(each: OpenFiles) -> list[str]:
    """A row of `OPEN_FILES`."""
    return [each.table, f"{each.then:,.1f}", f"{each.now:,.1f}"]


def difference_cells(each: ReplayDifference) -> list[str]:
    """A row of `DIFFERENCES`."""
    at = time_text(each.at_ms)
    return [at, each.table, each.verb.replace("_", " "), each.then, each.now]


def span_text(found: Replay) -> str:
    """The time that is replayed."""
    return f"{time_text(found.begins_ms)} to {time_text(found.ends_ms)}: then / now"


def notes(found: Replay, *, rebuilt: int) -> Iterator[str]:
    """What a reader of the figures must know; `rebuilt` states are of snapshots."""
    if found.shadows:
        yield (f"then: {counted(found.shadows, 'decision')} in shadow mode, not carried out")
    if rebuilt:
        yield f"{counted(rebuilt, 'state')} from snapshots, since none were recorded"
    if found.without_history:
        yield f"only the present state is known of {', '.join(found.without_history[:5])}"
    yield "now: by what past runs let expect; nothing was written"
