"""Brings the counts of values that tasks read as null to the driver, by an accumulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession

from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.unfit_values import NulledValues
from lakewright.storage.spark.running_tasks import context_of
from lakewright.storage.spec.cast_mode import CAST_MODE, CastMode
from lakewright.storage.spec.options import trimmed


class _IntoDriver(AccumulatorParam[Any]):
    """Adds the counts of a task to those of the driver; both ends hold a `NulledValues`."""

    def zero(self, value: NulledValues) -> NulledValues:
        return NulledValues()

    def addInPlace(self, value1: NulledValues, value2: NulledValues) -> NulledValues:  # noqa: N802
        for path, count in value2.since().items():
            value1.add(path, count)
        return value1


def counting(
    spark: SparkSession, files: TableFiles, nulled: NulledValues
) -> Callable[[NulledValues], None]:
    """A function by which each task adds its counts to those of the driver, when the task ends.

    Spark Connect has no accumulators, so there the counts are only in the logs of the executors.
    """
    context = context_of(spark)
    mode = trimmed(files.schema.options).get(CAST_MODE)
    if context is None or mode != CastMode.EXPLICIT_NULL.value:
        return _uncounted
    return context.accumulator(nulled, _IntoDriver()).add


def _uncounted(_: NulledValues) -> None:
    return None
