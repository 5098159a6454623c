"""Hands rows to Python without asking for their size after each of them.

With a limit of bytes for a batch, Spark adds up all column buffers after each row, which is a
quarter of what its JVM does for a load. Without it, the number of rows alone bounds a batch.

Spark gives the settings that a session has set to the tasks as properties of the calling thread. A
property of this thread therefore reaches the tasks of its own jobs alone, and only if the session
does not set it. Spark Connect has no such properties, so its limit stays.

Source: Spark `BasicPythonArrowInput`, `BatchedPythonArrowInput`, `SQLExecution`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no stubs
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from lakewright.storage.operations.running.task_memory import BATCH_BYTES
from lakewright.storage.spark.running_tasks import context_of

_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
# The one value by which Spark does not ask.
_NO_LIMIT = str(2**31 - 1)
# With texts of the greatest length a column of a batch has 128 MiB.
_MOST_ROWS = 8_192
_LONGEST_TEXT = 16_384
_MARK = "lakewright: a text is too long for a batch of rows"
# Nodes and expressions of a plan that run Python, by their names.
_PYTHON = re.compile(r"python|pandas|inarrow", re.IGNORECASE)
_FLAT = (t.NumericType, t.BooleanType, t.StringType, t.DatetimeType, t.TimestampNTZType, t.NullType)
_STREAM = "sql.streaming.queryId"
_GATHERED_ROWS = 65_536


class LongTexts(Exception):
    """A text is longer than batches that rows bound may hold."""


def may_go_by_rows(rows: DataFrame) -> bool:
    """Whether rows can go to Python in batches that their number bounds.

    Not where the session sets a limit of rows that is higher. Bytes and nested values have no
    length that a check would see, functions of the caller in Python would get such batches of rows
    of any width, and a stream cannot give its rows again after a text that is too long.
    """
    context = context_of(rows.sparkSession)
    if context is None or context.getLocalProperty(_STREAM) is not None:
        return False
    records = rows.sparkSession.conf.get(_RECORDS, None)
    if records is not None and not 0 < int(records) <= _MOST_ROWS:
        return False
    names = {name.casefold() for name in rows.columns}
    if len(names) < len(rows.columns) or not all(
        isinstance(field.dataType, _FLAT) for field in rows.schema.fields
    ):
        return False
    plan = rows._jdf.queryExecution().optimizedPlan().toString()  # noqa: SLF001 - not public
    return _PYTHON.search(plan) is None


def with_short_texts(rows: DataFrame) -> DataFrame:
    """The same rows, of which a text that is too long for such batches fails the job."""
    return rows.select(
        *[
            _short(field.name) if isinstance(field.dataType, t.StringType) else _column(field.name)
            for field in rows.schema.fields
        ]
    )


def _short(name: str) -> Column:
    is_long = f.octet_length(_column(name)) > _LONGEST_TEXT
    return f.when(is_long, f.raise_error(f.lit(_MARK))).otherwise(_column(name)).alias(name)


def _column(name: str) -> Column:
    return f.col("`" + name.replace("`", "``") + "`")


@contextmanager
def batches_by_rows(spark: SparkSession) -> Iterator[None]:
    """Jobs of this thread go to Python in batches of few rows; see `may_go_by_rows`.

    Raises:
        LongTexts: a text is too long for that; see `with_short_texts`.
    """
    context = context_of(spark)
    assert context is not None
    wanted = {_BYTES: _NO_LIMIT, _RECORDS: str(_MOST_ROWS)}
    before: dict[str, str | None] = {name: context.getLocalProperty(name) for name in wanted}
    for name, value in wanted.items():
        context.setLocalProperty(name, value)
    try:
        yield
    except PySparkException as error:
        if _MARK in str(error):
            raise LongTexts from error
        raise
    finally:
        # How the block ended matters more than a driver that does not answer any more.
        with suppress(Py4JError, PySparkException, OSError):
            for name, earlier in before.items():
                # None removes it, which the type does not say.
                context.setLocalProperty(name, earlier)  # type: ignore[arg-type]


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in tables of more rows, since each table costs the writer its checks."""
    held: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows >= _GATHERED_ROWS or size_bytes >= BATCH_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size_bytes = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)
