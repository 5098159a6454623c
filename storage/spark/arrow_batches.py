"""Hands rows to Python without asking for their size after each of them.

With a limit of bytes for a batch, Spark adds up all column buffers after each row, which is a
quarter of what its JVM does for a load. Without it, the number of rows alone bounds a batch.

Spark gives the settings that a session has set to the tasks as properties of the calling thread. A
property of this thread therefore reaches the tasks of its own jobs alone, and only if the session
does not set it. Spark Connect has no such properties, so its limit stays.

Source: Spark `BasicPythonArrowInput`, `BatchedPythonArrowInput`, `SQLExecution`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import SparkSession

from lakewright.storage.operations.running.task_memory import BATCH_BYTES
from lakewright.storage.spark.running_tasks import context_of
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)

_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
# The one value by which Spark does not ask.
_NO_LIMIT = str(2**31 - 1)
# Arrow has 2 GiB for a column of a batch: 200 kB a value, or 1 MB where values have no bound.
_MOST_ROWS = 10_000
_MOST_UNBOUNDED_ROWS = 2_048
_GATHERED_ROWS = 65_536
# Characters up to which a text of its greatest length fits.
_BOUNDED_LENGTH = 50_000


@contextmanager
def batches_by_rows(spark: SparkSession, fields: Sequence[DataField]) -> Iterator[None]:
    """Jobs of this thread, whose rows have these columns, go to Python in batches of few rows.

    Columns of bytes keep the limit, as do sessions that set one, or that set more rows a batch.
    """
    context = context_of(spark)
    rows = _rows_of(fields)
    if context is None or rows is None or int(spark.conf.get(_RECORDS, None) or 0) > rows:
        yield
        return
    wanted = {_BYTES: _NO_LIMIT, _RECORDS: str(rows)}
    before: dict[str, str | None] = {name: context.getLocalProperty(name) for name in wanted}
    for name, value in wanted.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
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


def _rows_of(fields: Sequence[DataField]) -> int | None:
    """How many rows of these columns fit a batch; None if that depends on their values."""
    found = [_rows_of_type(field.type) for field in fields]
    return (
        min((rows for rows in found if rows is not None), default=_MOST_ROWS)
        if all(found)
        else None
    )


def _rows_of_type(data_type: DataType) -> int | None:
    parts: list[DataType] = []
    match data_type:
        case AtomicType(root=root, length=length) if root.is_bytes or root.is_text:
            if length <= _BOUNDED_LENGTH:
                return _MOST_ROWS
            return None if root.is_bytes else _MOST_UNBOUNDED_ROWS
        case AtomicType():
            return _MOST_ROWS
        case ArrayType(element=element) | MultisetType(element=element):
            parts = [element]
        case MapType(key=key, value=value):
            parts = [key, value]
        case RowType(fields=members):
            parts = [member.type for member in members]
    return _MOST_UNBOUNDED_ROWS if all(map(_rows_of_type, parts)) else None
