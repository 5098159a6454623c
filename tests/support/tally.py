"""Counts the trials of reliability tests, for a summary at the end of the run.

The figures of `docs/why/reliability.md` are those that a run prints.
"""

from __future__ import annotations

from collections import Counter

TRIED: Counter[str] = Counter()


def tally(what: str, count: int = 1) -> None:
    """Add to a count, for example the points of failure of a verb."""
    TRIED[what] += count
