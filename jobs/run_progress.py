"""Progress of a run of upkeep: its log says now and then how far it is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock, Thread

from lakewright.platform.upkeep.words import counted, duration_text
from lakewright.storage.env import Env, SystemEnv

_EVERY_MS = 10_000
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class RunProgress:
    """Tells what a run works at and how far it is, at most every `every_ms`; counts tasks, too."""

    tell: Callable[[str], object]
    env: Env = field(default_factory=SystemEnv)
    every_ms: int = _EVERY_MS
    _work: str = "the run"
    _began_ms: int = 0
    _news: str = ""
    _done: int = 0
    _total: int = 0
    _counting: Lock = field(default_factory=Lock)

    def work_at(self, work: str) -> None:
        """Name the work that is at hand."""
        self._work, self._began_ms, self._news = work, self.env.now_ms(), ""

    def begin(self, total: int) -> None:
        """Begin with so many tasks."""
        with self._counting:
            self._done, self._total = 0, total

    def advance(self) -> None:
        """One more task is done."""
        with self._counting:
            self._done += 1
            self.far(f"{self._done:,} of {counted(self._total, 'task')}")

    def reach(self, done: int, of: str, total: int | None = None) -> None:
        """So many things are done, of a total if it is known."""
        self.far(f"{done:,} {of}" if total is None else f"{done:,} of {total:,} {of}")

    def far(self, text: str) -> None:
        """Note how far the work is; any thread may call it."""
        self._news = text

    @contextmanager
    def told(self) -> Iterator[None]:
        """Tell while the block runs."""
        done = Event()
        self.work_at(self._work)
        beside = Thread(target=self._tell_until, args=(done,), name="progress", daemon=True)
        beside.start()
        try:
            yield
        finally:
            done.set()
            beside.join()

    def _tell_until(self, done: Event) -> None:
        while not done.wait(self.every_ms / 1000):
            news, self._news = self._news, ""
            if not news:
                continue
            at_work = duration_text(max(0, self.env.now_ms() - self._began_ms))
            try:
                self.tell(f"{self._work}: {news}, {at_work} by now")
            except Exception as error:  # noqa: BLE001  # an error that ends a thread is not told
                _LOG.warning("%s: its progress was not reported: %r", self._work, error)
