"""Health over time: recorded figures of a table at even distances, and as a line of blocks."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakewright.platform.decide.survey_rows import HealthFigures

_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The figures that were recorded of one table, oldest first."""

    table: str
    points: tuple[HealthFigures, ...]

    @property
    def first(self) -> HealthFigures:
        return self.points[0]

    @property
    def last(self) -> HealthFigures:
        return self.points[-1]

    def debt(self, steps: int) -> list[int]:
        """The debt in files at so many moments at even distances; a state holds until the next."""
        begin_ms, end_ms = self.first.taken_ms, self.last.taken_ms
        found = []
        at = 0
        for step in range(steps):
            now_ms = begin_ms + (end_ms - begin_ms) * step // max(steps - 1, 1)
            while at + 1 < len(self.points) and self.points[at + 1].taken_ms <= now_ms:
                at += 1
            found.append(self.points[at].debt_files)
        return found


def trends(figures: Iterable[HealthFigures]) -> dict[str, Trend]:
    """The trends of tables, by name."""
    found: dict[str, list[HealthFigures]] = defaultdict(list)
    for each in figures:
        found[each.table].append(each)
    return {
        name: Trend(table=name, points=tuple(sorted(these, key=lambda each: each.taken_ms)))
        for name, these in sorted(found.items())
    }


def sparkline(values: Sequence[int]) -> str:
    """Values as blocks between nothing and the largest: `▁▂▅█▁`."""
    most = max(values, default=0)
    if most <= 0:
        return _BLOCKS[0] * len(values)
    return "".join(_BLOCKS[min(each * len(_BLOCKS) // (most + 1), 7)] for each in values)


def debt_by_table(
    found: Iterable[Trend], steps: int, *, until_ms: int
) -> dict[int, dict[str, int]]:
    """By moment, at even distances from the first record until then, the debt of tables in files.

    A state holds until the next one; before its first, a table has no debt that is known.
    """
    several = tuple(found)
    if not several:
        return {}
    begin_ms = min(each.first.taken_ms for each in several)
    end_ms = max(until_ms, begin_ms)
    moments = [begin_ms + (end_ms - begin_ms) * at // max(steps - 1, 1) for at in range(steps)]
    debts: dict[int, dict[str, int]] = {moment: {} for moment in moments}
    for trend in several:
        taken = [point.taken_ms for point in trend.points]
        for moment_ms, found_then in debts.items():
            if at := bisect_right(taken, moment_ms):
                found_then[trend.table] = trend.points[at - 1].debt_files
    return debts
