"""Waits for the tasks of a failed Spark job, which may still write files after the job has failed.

Spark reports a failed job at once, and kills its other tasks after that. Spark Connect tells
nothing about tasks, so there the work of a killed task may end after its clean-up; the removal of
orphans finds such files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no stubs
from pyspark import SparkContext, SparkStageInfo
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakewright.storage.env import Env

_LOOK_EVERY_MS = 50
# A killed task ends within seconds; an executor that was lost never tells that its tasks ended.
_LONGEST_WAIT_MS = 60_000


@contextmanager
def ended_if_it_fails(spark: SparkSession, tag: str, env: Env) -> Iterator[None]:
    """Jobs of a block, under a tag of their own: if it fails, none of their tasks runs afterwards.

    A job that the failure left at work is cancelled, as after an interrupt on the driver.
    """
    context = context_of(spark)
    if context is None:
        yield
        return
    context.addJobTag(tag)
    try:
        yield
    except BaseException:
        # Why the block failed matters more than a driver that does not answer any more.
        with suppress(Py4JError, PySparkException):
            context.cancelJobsWithTag(tag)
            _wait_for_tasks(context, tag, env)
        raise
    finally:
        with suppress(Py4JError, PySparkException):
            context.removeJobTag(tag)


def context_of(spark: SparkSession) -> SparkContext | None:
    """The context of a session; one of Spark Connect has none."""
    try:
        return spark.sparkContext
    except PySparkException:
        return None


def stages_of(context: SparkContext, tag: str) -> Iterator[SparkStageInfo]:
    """The stages of the jobs under a tag, as far as Spark still knows them."""
    tracker = context.statusTracker()
    java = context._jsc.sc()  # noqa: SLF001 - Python's tracker knows groups, which are the caller's
    for job in java.statusTracker().getJobIdsForTag(tag):
        if (found := tracker.getJobInfo(job)) is not None:
            for stage in found.stageIds:
                if (info := tracker.getStageInfo(stage)) is not None:
                    yield info


def stage_repeated(spark: SparkSession, tag: str) -> bool:
    """Whether a stage of the jobs under a tag began anew, or may have as Spark does not tell."""
    context = context_of(spark)
    return context is None or any(stage.currentAttemptId for stage in stages_of(context, tag))


def _wait_for_tasks(context: SparkContext, tag: str, env: Env) -> None:
    until_ms = env.now_ms() + _LONGEST_WAIT_MS
    while env.now_ms() < until_ms:
        if not any(stage.numActiveTasks for stage in stages_of(context, tag)):
            return
        env.sleep_ms(_LOOK_EVERY_MS)
