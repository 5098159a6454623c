"""A settable clock and consecutive ids: an `Env` for tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

# 2024-01-01T00:00:00Z.
START_MS = 1_704_067_200_000


@dataclass
class FixedClock:
    """A clock that only moves by `step_ms` at each reading."""

    now_ms: int = START_MS
    step_ms: int = 1

    def read(self) -> int:
        self.now_ms += self.step_ms
        return self.now_ms

    def advance(self, duration_ms: float) -> None:
        self.now_ms += int(duration_ms)


@dataclass
class SeededIds:
    """Ids that look like UUIDs; two seeds share none."""

    seed: int = 0
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def next(self) -> str:
        # The varying digits stand first: names made of a few leading ones must differ too.
        return f"{next(self._numbers):08x}-0000-4000-8000-{self.seed:012x}"


@dataclass
class FixedEnv:
    """Implements `storage.env.Env`; waiting moves the clock and takes no time."""

    clock: FixedClock = field(default_factory=FixedClock)
    ids: SeededIds = field(default_factory=SeededIds)
    slept_ms: list[float] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.clock.read()

    def new_id(self) -> str:
        return self.ids.next()

    def sleep_ms(self, duration_ms: float) -> None:
        self.slept_ms.append(duration_ms)
        self.clock.advance(duration_ms)

    def jitter(self) -> float:
        return 0.5

    def cores(self) -> int:
        return 1
