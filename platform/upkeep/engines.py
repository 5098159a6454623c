"""Chooses the engine: this process, or a Spark session.

Small work runs in this process, because starting a session costs more than the work. A declared
`spark` or `local` is obeyed. Modules import Spark only where work goes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

from lakewright.platform.tables.upkeep_policies import EngineChoice
from lakewright.storage import Engine, LocalEngine
from lakewright.storage.operations.running.engine import TaskCounts

Task = TypeVar("Task")
Result = TypeVar("Result")

MIB = 1024 * 1024
# Above these sizes, parallel tasks save more than a session costs.
SPARK_FROM_BYTES = 512 * MIB
SPARK_FROM_ROWS = 5_000_000


def prefers_spark(choice: EngineChoice, *, size_bytes: int = 0, row_count: int = 0) -> bool:
    """Whether work of that size goes to Spark."""
    match choice:
        case EngineChoice.SPARK:
            return True
        case EngineChoice.LOCAL:
            return False
        case EngineChoice.AUTO:
            is_large = size_bytes >= SPARK_FROM_BYTES or row_count >= SPARK_FROM_ROWS
            return is_large and find_spec("pyspark") is not None


def compaction_engine(
    choice: EngineChoice,
    *,
    size_bytes: int,
    session: Callable[[], Any],
    counts: TaskCounts | None = None,
) -> Engine:
    """The engine for rewriting that many bytes; `session` is called only for Spark.

    It tells `counts` each finished task.
    """
    if prefers_spark(choice, size_bytes=size_bytes):
        from lakewright.storage.spark import SparkEngine

        return SparkEngine(session(), counts=counts)
    engine = LocalEngine()
    return engine if counts is None else CountedEngine(engine, counts)


class Counts(TaskCounts, Protocol):
    """The receiver of the number of tasks that are done, and of what a plan has looked at."""

    def reach(self, done: int, of: str, total: int | None = None) -> None:
        """So many things are done, which `of` names; without a total it is not known."""
        ...


@dataclass(frozen=True, slots=True)
class CountedEngine:
    """An engine of this process that tells each finished task."""

    engine: Engine
    counts: TaskCounts

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def may_repeat(self) -> bool:
        return self.engine.may_repeat

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        self.counts.begin(len(tasks))

        def counted(task: Task) -> Result:
            result = function(task)
            self.counts.advance()
            return result

        return self.engine.map(counted, tasks)
