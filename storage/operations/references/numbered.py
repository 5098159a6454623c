"""Paths as numbers of 64 bits: eight bytes for each, where a text takes a hundred."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Numbered:
    """A set of texts that can be asked for a text, and not listed.

    Two texts may have the same number, so a text that is not in the set may count as one that is.
    Another process numbers texts differently.
    """

    _numbers: array[int] = field(default_factory=lambda: array("q"))

    @classmethod
    def of(cls, texts: Iterable[str]) -> Numbered:
        return cls.of_numbers(_numbers(texts))

    @classmethod
    def of_numbers(cls, numbers: array[int] | np.ndarray) -> Numbered:
        """The texts of which `hash` made the numbers."""
        return cls(array("q", np.unique(np.asarray(numbers)).tobytes()))

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, text: object) -> bool:
        return self.place(text) is not None

    def place(self, text: object) -> int | None:
        """The place of a text among the numbers, None if it is not in the set."""
        number = hash(text)
        at = bisect_left(self._numbers, number)
        return at if at < len(self._numbers) and self._numbers[at] == number else None

    def places(self, texts: Iterable[str]) -> np.ndarray:
        """The places of those texts that are in the set."""
        at, there = self._found(texts)
        found: np.ndarray = at[there]
        return found

    def mark(self, texts: Iterable[str]) -> np.ndarray:
        """For each text, whether it is in the set."""
        there: np.ndarray = self._found(texts)[1]
        return there

    def mark_bytes(self, texts: pa.Array) -> np.ndarray:
        """The same for texts as their bytes."""
        return self.mark(each.decode(errors="replace") for each in texts.to_pylist())

    def _found(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        wanted, known = _numbers(texts), self.array()
        if not len(known):
            return wanted, np.zeros(len(wanted), bool)
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return at, known[at] == wanted

    @classmethod
    def all(cls, some: Sequence[Numbered]) -> Numbered:
        """What is in any of them."""
        return cls.of_numbers(np.concatenate([cls().array(), *(each.array() for each in some)]))

    def array(self) -> np.ndarray:
        """The numbers in order."""
        return np.frombuffer(self._numbers, np.int64)


def _numbers(texts: Iterable[str]) -> np.ndarray:
    return np.fromiter(map(hash, texts), np.int64)


@dataclass(frozen=True)
class NumberedPaths:
    """Paths, and the names of their files."""

    paths: Numbered = field(default_factory=Numbered)
    names: Numbered = field(default_factory=Numbered)

    @classmethod
    def of(cls, paths: Iterable[str]) -> NumberedPaths:
        numbers, names = array("q"), array("q")
        for path in paths:
            numbers.append(hash(path))
            names.append(hash(path.rpartition("/")[2]))
        return cls(Numbered.of_numbers(numbers), Numbered.of_numbers(names))

    def __len__(self) -> int:
        return len(self.paths)

    @classmethod
    def all(cls, some: Iterable[NumberedPaths]) -> NumberedPaths:
        """What is in any of them."""
        given = list(some)
        return cls(
            Numbered.all([each.paths for each in given]),
            Numbered.all([each.names for each in given]),
        )
