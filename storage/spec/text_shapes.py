"""Shapes of texts: which characters may follow each other, and whether two shapes share a text."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

DIGITS = frozenset(string.digits)


@dataclass(frozen=True, slots=True)
class Run:
    """So many characters of a set, or of all; `most` None is any number."""

    among: frozenset[str] | None
    least: int = 1
    most: int | None = 1


Shape = Sequence[Run]
ANY_TEXT = Run(None, 0, None)


def literal(text: str) -> list[Run]:
    """The shape of one text."""
    return [Run(frozenset(each)) for each in text]


def digits(least: int, most: int | None) -> Run:
    """So many digits."""
    return Run(DIGITS, least, most)


def share_a_text(one: Shape, other: Shape) -> bool:
    """Whether some text has both shapes."""
    left, right = tuple(_steps(one)), tuple(_steps(other))

    @cache
    def meet(i: int, j: int) -> bool:
        if i == len(left) and j == len(right):
            return True
        if i < len(left) and left[i].may_end and meet(i + 1, j):
            return True
        if j < len(right) and right[j].may_end and meet(i, j + 1):
            return True
        if i == len(left) or j == len(right) or not left[i].shares(right[j]):
            return False
        after = {i + 1, i if left[i].loops else i + 1}
        then = {j + 1, j if right[j].loops else j + 1}
        return any(meet(a, b) for a in after for b in then if (a, b) != (i, j))

    return meet(0, 0)


@dataclass(frozen=True, slots=True)
class _Step:
    """One character, which may be left out, and may come again."""

    among: frozenset[str] | None
    may_end: bool = False
    loops: bool = False

    def shares(self, other: _Step) -> bool:
        return self.among is None or other.among is None or bool(self.among & other.among)


def _steps(shape: Shape) -> Iterator[_Step]:
    for run in shape:
        yield from [_Step(run.among)] * run.least
        if run.most is None:
            yield _Step(run.among, may_end=True, loops=True)
        else:
            yield from [_Step(run.among, may_end=True)] * (run.most - run.least)
