"""Where tasks run: an engine maps a picklable function over picklable tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs the function once for every task, anywhere, in any order."""

    @property
    def name(self) -> str: ...

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Results in the order of the tasks.

        Raises:
            StorageError: what a task raised, the first one of them.
        """
        ...


@dataclass(frozen=True)
class LocalEngine:
    """This process, one task after the other: right for small work and for tests."""

    name: str = "local"

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        return [function(task) for task in tasks]
