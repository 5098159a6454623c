"""What the tests of reliability have tried: counted while they run, told at the end.

The figures of `docs/reliability.md` are those that a run prints.
"""

from __future__ import annotations

from collections import Counter

TRIED: Counter[str] = Counter()


def tally(what: str, count: int = 1) -> None:
    """Add to what was tried, for example points of failure of a verb."""
    TRIED[what] += count
