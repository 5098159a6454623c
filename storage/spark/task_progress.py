"""Tells how many tasks of a Spark job are done, while the job runs.

A classic session is asked now and then. Spark Connect reports to handlers of its session, in the
thread that waits for the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread, get_ident
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no stubs
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakewright.storage.operations.running.engine import TaskCounts
from lakewright.storage.spark.running_tasks import context_of, stages_of

_LOOK_EVERY_SECONDS = 0.25
_LOG = logging.getLogger(__name__)


@contextmanager
def tasks_told(spark: SparkSession, tag: str, count: int, counts: TaskCounts) -> Iterator[None]:
    """Count the tasks of the block's only job, of one stage with `count` tasks, under the tag.

    If the block ends well, all are told. What cannot be told does not end the work.
    """
    counts.begin(count)
    told = _Told(tag, count, counts)
    context = context_of(spark)
    with _by_handler(spark, told) if context is None else _by_looks(context, tag, told):
        yield
    told.note(lambda: count)


@dataclass(slots=True)
class _Told:
    """How many were told: a stage that is tried again begins at 0, which is not told."""

    tag: str
    count: int
    counts: TaskCounts
    done: int = 0
    _telling: Lock = field(default_factory=Lock)

    def note(self, read: Callable[[], int]) -> bool:
        """Tell how many are done by now, if that can be read and told."""
        try:
            done = min(read(), self.count)
            with self._telling:
                while self.done < done:
                    self.done += 1
                    self.counts.advance()
        except Exception as error:  # noqa: BLE001  # the work is worth more than its progress
            _LOG.warning("%s: the number of finished tasks is unknown: %r", self.tag, error)
            return False
        return True


@contextmanager
def _by_looks(context: SparkContext, tag: str, told: _Told) -> Iterator[None]:
    ended = Event()

    def look() -> None:
        while not ended.wait(_LOOK_EVERY_SECONDS):
            if not told.note(lambda: sum(e.numCompletedTasks for e in stages_of(context, tag))):
                return

    beside = Thread(target=look, name="tasks of Spark", daemon=True)
    context.addJobTag(tag)
    beside.start()
    try:
        yield
    finally:
        ended.set()
        beside.join()
        with suppress(Py4JError, PySparkException):
            context.removeJobTag(tag)


@contextmanager
def _by_handler(spark: SparkSession, told: _Told) -> Iterator[None]:
    # Queries of other threads on the same session are told to every handler, each in its thread.
    mine = get_ident()

    def handle(stages: Any, **_: Any) -> None:
        if get_ident() == mine:
            told.note(lambda: sum(each.num_completed_tasks for each in stages or ()))

    # Its type is a class, and any callable serves.
    session: Any = spark
    session.registerProgressHandler(handle)
    try:
        yield
    finally:
        session.removeProgressHandler(handle)
