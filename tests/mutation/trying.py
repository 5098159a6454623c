"""Whether the tests notice a mutant: each is tried in a fork of one process that holds them all.

Nothing on disk is changed. The tests are collected once, and run once as the code is, which says
which lines each goes through and how long it takes. For a mutant only those are run that go
through what is changed: the module's own first, then the quickest, until one fails.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol

from tests.mutation.graft import graft
from tests.mutation.mutant import Mutant
from tests.support.tables.fixtures import empty_memory

# A test that takes so much longer with a mutant goes round in circles.
_TIMES_AS_LONG, _SECONDS_AT_LEAST = 10, 5
_SECONDS_UNKNOWN = 10.0
_MOST_MEMORY_BYTES = 8 << 30

Line = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant: the test that noticed it, None if none did, of how many."""

    mutant: Mutant
    killer: str | None
    tests: int
    seconds: float


@dataclass
class Trials:
    """A plugin of pytest that tries mutants where the tests would be run.

    With `at_once` the tests are not run as the code is, and every mutant is put to all of them in
    their order: for few tests of which it is known that they pass.
    """

    mutants: Sequence[Mutant]
    seconds_each: float
    at_once: bool
    heard: Callable[[Verdict], None]
    _took: dict[pytest.Item, float] = field(default_factory=dict)
    _lines: dict[pytest.Item, set[Line]] = field(default_factory=dict)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if self.at_once:
            self._took = dict.fromkeys(session.items, _SECONDS_UNKNOWN)
        else:
            self._look(session.items)
        folder = Path(str(session.config.option.basetemp))
        folder.mkdir(exist_ok=True)
        for mutant in self.mutants:
            self.heard(self._try(mutant))
            for left in folder.iterdir():
                shutil.rmtree(left, ignore_errors=True)
        return True

    def _look(self, items: Sequence[pytest.Item]) -> None:
        """Run the tests as the code is."""
        watched = {_path(mutant) for mutant in self.mutants}
        for item, following in _in_order(items):
            started = time.monotonic()
            with _noted_lines(watched) as lines:
                passed = _passes(item, following)
            if passed:
                self._took[item], self._lines[item] = time.monotonic() - started, lines
            else:
                sys.stdout.write(f"left out, as it fails without a mutant: {item.nodeid}\n")
        _forget_what_was_run()

    def _try(self, mutant: Mutant) -> Verdict:
        items = self._items_for(mutant)
        started = time.monotonic()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            self._ask(mutant, items, writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            asked = pipe.read().splitlines()
        _, status = os.waitpid(child, 0)
        killer = None if status == 0 else asked[-1] if asked else "loading it"
        return Verdict(mutant, killer, len(asked), time.monotonic() - started)

    def _items_for(self, mutant: Mutant) -> list[pytest.Item]:
        if self.at_once:
            return list(self._took)
        path = _path(mutant)
        places = {(path, line) for line in mutant.lines}
        found = [
            item
            for item, lines in self._lines.items()
            if (lines & places if places else any(each == path for each, _ in lines))
        ]
        own = f"test_{Path(path).name}"
        return sorted(found, key=lambda item: (item.path.name != own, self._took[item]))

    def _ask(self, mutant: Mutant, items: Sequence[pytest.Item], answers: int) -> NoReturn:
        """Run the tests until one fails; which are run goes to the pipe, the end is the status."""
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
            graft(import_module(mutant.module), mutant.source)
            begun = time.process_time()
            for item, following in _in_order(items):
                os.write(answers, f"{item.nodeid}\n".encode())
                # The signal ends the process, whatever it is at.
                signal.setitimer(
                    signal.ITIMER_REAL, max(_SECONDS_AT_LEAST, _TIMES_AS_LONG * self._took[item])
                )
                if not _passes(item, following):
                    os._exit(1)
                if time.process_time() - begun > self.seconds_each:
                    break
            os._exit(0)
        finally:
            os._exit(1)


def _path(mutant: Mutant) -> str:
    return str(import_module(mutant.module).__file__)


def _in_order(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None], strict=True) if items else iter(())


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    reports = runtestprotocol(item, log=False, nextitem=following)
    return not any(report.failed for report in reports)


@contextmanager
def _noted_lines(watched: set[str]) -> Iterator[set[Line]]:
    """The lines of these files that are run meanwhile, in any thread."""
    lines: set[Line] = set()

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return on_line

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        return on_line if frame.f_code.co_filename in watched else None

    threading.settrace(on_call)
    sys.settrace(on_call)
    try:
        yield lines
    finally:
        sys.settrace(None)
        threading.settrace(None)


def _forget_what_was_run() -> None:
    """What a test kept for the next was made by code without a mutant."""
    empty_memory()
    for name, module in list(sys.modules.items()):
        if name.startswith(("tests.", "lakewright.")):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
