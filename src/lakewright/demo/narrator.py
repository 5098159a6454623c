"""What the demos print."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from lakewright.storage.env import SystemEnv


@dataclass
class Narrator:
    """Prints what happens, with the seconds since the start."""

    env: SystemEnv
    started_ms: int
    _count: int = 0
    _last: str = ""

    def step(self, text: str) -> None:
        """The next thing that is done."""
        self._count += 1
        self.line("")
        self.line(f"[{self._count}] {text}")

    def note(self, text: str) -> None:
        """Print progress; a repeated text is printed once."""
        if text != self._last:
            seconds = (self.env.now_ms() - self.started_ms) / 1000
            self.line(f"    {seconds:5.0f} s  {text}")
            self._last = text

    def line(self, text: str) -> None:
        """A line as it is."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
