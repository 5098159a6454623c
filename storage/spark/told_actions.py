"""What Spark's pages and listeners see of an action of ours: its name, and what its tasks wrote.

The name is the description of the jobs, or over Spark Connect a tag of them. The caller's job group
stays: by it callers cancel jobs, and Spark ends those of a stream. What tasks wrote is observed, so
listeners of queries get it, and the page of the stage shows it among the accumulators.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no stubs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from lakewright.storage.spark.running_tasks import context_of
from lakewright.storage.spec.commit import CommitMessage

_DESCRIPTION = "spark.job.description"
# Columns of the results of tasks.
WRITTEN_SCHEMA = "rows long, bytes long"


@contextmanager
def named(spark: SparkSession, name: str) -> Iterator[None]:
    """Jobs of a block have a name, beside what the caller's session says of them."""
    context = context_of(spark)
    if context is None:
        # Spark takes commas for the ends of tags.
        tag = name.replace(",", " ")
        is_new = tag not in spark.getTags()
        spark.addTag(tag)
        try:
            yield
        finally:
            if is_new:
                spark.removeTag(tag)
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, "\n".join(filter(None, (name, before))))
    try:
        yield
    finally:
        # How the block ended matters more than a driver that does not answer any more.
        with suppress(Py4JError, PySparkException):
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # or None


def observed(results: DataFrame, name: str) -> DataFrame:
    """Results of tasks, with the sums of what they wrote for those who listen."""
    sums = [f.sum(column).alias(f"{column}_written") for column in ("rows", "bytes")]
    return results.observe(name, *sums)


def written_by(result: object) -> tuple[int, int]:
    """The rows and the bytes that a task wrote, if its result is messages of a commit."""
    listed = result if isinstance(result, (tuple, list)) else ()
    messages = [each for each in listed if isinstance(each, CommitMessage)]
    files = [file for each in messages for file in each.written_files]
    logs = [file for each in messages for file in (*each.changelog_files, *each.compact_changelog)]
    rows = sum(file.row_count for file in files) - sum(file.row_count for file in logs)
    return rows, sum(file.file_size for file in files)
