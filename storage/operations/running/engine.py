"""Where tasks run: an engine maps a picklable function over picklable tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from lakewright.storage.env import Env, SystemEnv
from lakewright.storage.operations.running.concurrency import map_concurrently

Task = TypeVar("Task")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs the function for every task, anywhere, in any order.

    Of a task that is run again, because a machine went or was slow, one result counts.
    """

    @property
    def name(self) -> str: ...

    @property
    def may_repeat(self) -> bool:
        """Whether a task may be run more than once."""
        ...

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Results in the order of the tasks.

        Raises:
            StorageError: what a task raised, the first one of them.
        """
        ...


@dataclass(frozen=True)
class LocalEngine:
    """This process, as many tasks at once as it has cores: right for small work."""

    name: str = "local"
    may_repeat: bool = False
    env: Env = field(default_factory=SystemEnv)

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        return map_concurrently(self.env, function, tasks)
