"""Where tasks run: an engine maps a picklable function over picklable tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

from lakewright.storage.env import Env, SystemEnv
from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.operations.running.concurrency import map_concurrently

Task = TypeVar("Task")
Result = TypeVar("Result")


@runtime_checkable
class Engine(Protocol):
    """Runs the function for every task, anywhere, in any order.

    If an engine repeats a task after a failure or a delay, it returns only one result.
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
            StorageError: the first error of a task.
        """
        ...


class TaskCounts(Protocol):
    """The receiver of the number of tasks that are done."""

    def begin(self, total: int) -> None:
        """Begin with so many tasks."""
        ...

    def advance(self) -> None:
        """One more task is done; called in any thread."""
        ...


@dataclass(frozen=True)
class LocalEngine:
    """Runs tasks in this process, one on each core; suits small work."""

    name: str = "local"
    may_repeat: bool = False
    env: Env = field(default_factory=SystemEnv)

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        return map_concurrently(self.env, function, tasks)


def engine_or_local(engine: object, env: Env) -> Engine:
    """The engine of a call; this process if the call names none.

    Raises:
        InvalidRequestError: it is no engine.
    """
    if engine is None:
        return LocalEngine(env=env)
    if isinstance(engine, type) or not isinstance(engine, Engine):
        raise InvalidRequestError(
            f"engine is {engine!r:.60}, which runs no tasks; give an engine, such as "
            "SparkEngine(session), or leave it out to work in this process"
        )
    return engine
