"""A few of many, the same ones in every run: what `make test` tries of an exhaustive suite."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def sampled(
    things: Sequence[T], most: int, *, seed: str, always: Callable[[T], bool] = lambda thing: False
) -> list[T]:
    """At most so many by chance, and those that `always` chooses besides, in their order."""
    picked = set(random.Random(seed).sample(range(len(things)), min(most, len(things))))
    return [each for at, each in enumerate(things) if at in picked or always(each)]
