"""The streaming source: the changes of a table, snapshot after snapshot, as a streaming DataFrame.

A batch has the changes after one position of a `ChangeStream`, up to the latest snapshot. Spark's
tasks read them, each a few buckets, and Spark says when a batch is done.

Source: Spark `PythonMicroBatchStream`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from lakewright.storage.errors import InvalidRequestError
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.changes.change_plan import ChangeSplit
from lakewright.storage.operations.changes.change_read import CHANGE_ORDER_COLUMN
from lakewright.storage.operations.streams.change_stream import ChangeStream, open_stream
from lakewright.storage.spark.pickling import dumps, loads
from lakewright.storage.spark.read import check_reachable, for_spark
from lakewright.storage.spark.spark_types import to_spark_schema
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.rows import ROW_KIND_COLUMN, RowKind

_FORMAT, _OPTION = "lakewright-changes", "asked"
# A batch of more buckets has several in a task.
_MOST_TASKS = 64


def stream_changes(
    spark: SparkSession,
    files: TableFiles,
    *,
    after: int | None = None,
    consumer: str | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows of a table and their changes as a stream; see `Table.read_stream`."""
    check_reachable(files)
    asked = open_stream(files, after=after, consumer=consumer, columns=columns)
    spark.dataSource.register(ChangesSource)
    text = base64.b64encode(dumps(asked)).decode()
    return spark.readStream.format(_FORMAT).option(_OPTION, text).load()


def schema_of(fields: Iterable[DataField]) -> t.StructType:
    """The columns of a stream: the kind of a row first, its order last."""
    kind = t.StructField(ROW_KIND_COLUMN, t.StringType(), True)
    order = t.StructField(CHANGE_ORDER_COLUMN, t.LongType(), True)
    return t.StructType([kind, *to_spark_schema(fields).fields, order])


class ChangesSource(DataSource):
    """What Spark makes readers of, in processes of its own."""

    @classmethod
    def name(cls) -> str:
        return _FORMAT

    @property
    def asked(self) -> ChangeStream:
        found: ChangeStream = loads(base64.b64decode(self.options[_OPTION]))
        return found

    def schema(self) -> t.StructType:
        return schema_of(self.asked.files.schema.fields_of(self.asked.columns))

    def streamReader(self, schema: t.StructType) -> ChangesReader:  # noqa: N802  # Spark's name
        return ChangesReader(self.asked, schema)


@dataclass(frozen=True, slots=True)
class Share(InputPartition):
    """What one task reads."""

    splits: tuple[ChangeSplit, ...]
    snapshot_ids: tuple[int, ...]


class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets, shares of tasks and rows in the columns of a schema; tasks get a copy of it."""

    def __init__(self, asked: ChangeStream, schema: t.StructType) -> None:
        self._asked = asked
        self._schema = schema
        self._last: int | None = None

    def initialOffset(self) -> dict[str, object]:  # noqa: N802  # Spark's name
        return self._asked.beginning

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        self._last = self._asked.files.snapshots.latest_id() or 0

    def latestOffset(  # noqa: N802  # Spark's name
        self, start: dict[str, object], limit: ReadLimit
    ) -> dict[str, object]:
        return dict(self._asked.reached(start, self._last))

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[Share]:
        plan = self._asked.plan(start, end)
        if plan is None:
            return []
        shares = min(_MOST_TASKS, len(plan.splits))
        return [Share(plan.splits[each::shares], plan.snapshot_ids) for each in range(shares)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        reader = self._asked.reader(partition.snapshot_ids, ordered=True)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for split in partition.splits:
            for rows in reader.read(split):
                if ROW_KIND_COLUMN not in schema.names:
                    self._check_only_added(rows.column(ROW_KIND_COLUMN))
                yield from for_spark(rows.select(schema.names)).cast(schema).to_batches()

    def _check_only_added(self, kinds: pa.ChunkedArray) -> None:
        others = sorted({*kinds.unique().to_pylist()} - {RowKind.INSERT.short})
        if others:
            raise InvalidRequestError(
                f"the stream of {self._asked.files.name} has rows of the kind {others[0]}, and "
                "without their kinds they would count as added; set the option changes to true, "
                f"which adds the columns {ROW_KIND_COLUMN} and {CHANGE_ORDER_COLUMN}"
            )

    def commit(self, end: dict[str, object]) -> None:
        self._asked.move_consumer(end)
