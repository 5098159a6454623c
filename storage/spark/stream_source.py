"""The streaming source: the changes of a table, snapshot after snapshot, as a streaming DataFrame.

1. An offset is a snapshot that was read. A query begins with all rows of the table, or with the
   changes after a snapshot, or where its consumer stands.
2. A batch has the changes after one offset, up to the latest snapshot. Spark's tasks read them,
   each a few buckets.
3. A consumer keeps the snapshots that the query still needs, and moves when Spark says that a batch
   is done. Until its first move it says that all rows come first, since its position does not.
4. If the snapshot of an offset is not the one that was read, a rollback came in between, or the
   table is another one of that name: the query fails, since it has told rows that are gone.

Source: Spark `PythonMicroBatchStream`; Paimon specification, chapter Consumer ID.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from lakewright.storage.errors import (
    InvalidRequestError,
    SnapshotNotFound,
    StalePlan,
    UnsupportedError,
)
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.changes.change_plan import ChangeSplit
from lakewright.storage.operations.changes.change_read import CHANGE_ORDER_COLUMN, ChangeReader
from lakewright.storage.operations.changes.stream_plan import (
    check_streamable,
    first_needed,
    plan_stream,
)
from lakewright.storage.operations.read.row_kinds import ROW_KIND_COLUMN
from lakewright.storage.operations.references.consumers import set_consumer
from lakewright.storage.spark.pickling import dumps, loads
from lakewright.storage.spark.read import check_reachable, for_spark
from lakewright.storage.spark.spark_types import to_spark_schema
from lakewright.storage.spec.arguments import whole_or_none
from lakewright.storage.spec.snapshot import FIRST_SNAPSHOT_ID

_FORMAT, _OPTION = "lakewright-changes", "asked"
_SNAPSHOT, _COMMIT, _TABLE = "snapshot", "commit", "table"
# A batch of more buckets has several in a task.
_MOST_TASKS = 64


@dataclass(frozen=True)
class Asked:
    """What a query reads: columns of a table, after a snapshot (None: all rows first)."""

    files: TableFiles
    columns: tuple[str, ...]
    after: int | None
    consumer: str | None

    @property
    def schema(self) -> t.StructType:
        kind = t.StructField(ROW_KIND_COLUMN, t.StringType(), True)
        fields = to_spark_schema(self.files.schema.fields_of(self.columns)).fields
        order = t.StructField(CHANGE_ORDER_COLUMN, t.LongType(), True)
        return t.StructType([kind, *fields, order])


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
    asked = ask(files, after=after, consumer=consumer, columns=columns)
    spark.dataSource.register(ChangesSource)
    text = base64.b64encode(dumps(asked)).decode()
    return spark.readStream.format(_FORMAT).option(_OPTION, text).load()


def ask(
    files: TableFiles,
    *,
    after: int | None = None,
    consumer: str | None = None,
    columns: Sequence[str] | None = None,
) -> Asked:
    """What a stream reads, and from where; a new consumer holds its snapshots from now on."""
    check_streamable(files)
    names = tuple(files.schema.names_of(columns))
    if CHANGE_ORDER_COLUMN in names:
        raise UnsupportedError(
            f"{files.name} has a column {CHANGE_ORDER_COLUMN}, and a stream of it a column of that "
            "name with the order of the changes; name the columns to read without it, or rename it",
            table=files.name,
        )
    after, latest = whole_or_none(after, "after", minimum=0), files.snapshots.latest_id() or 0
    if after is not None and after > latest:
        raise InvalidRequestError(
            f"a stream of {files.name} cannot begin after snapshot {after}; the latest is {latest}",
            table=files.name,
        )
    if consumer is not None:
        position = files.references.consumers().get(consumer)
        if position is None:
            earliest = files.snapshots.earliest_id() or FIRST_SNAPSHOT_ID
            begins = earliest if after is None else first_needed(files, after)
            set_consumer(files, consumer, begins, without_rows=after is None)
        elif after is None and consumer not in files.references.consumers_without_rows():
            after = position - 1
    return Asked(files, names, after, consumer)


class ChangesSource(DataSource):
    """What Spark makes readers of, in processes of its own."""

    @classmethod
    def name(cls) -> str:
        return _FORMAT

    @property
    def asked(self) -> Asked:
        found: Asked = loads(base64.b64decode(self.options[_OPTION]))
        return found

    def schema(self) -> t.StructType:
        return self.asked.schema

    def streamReader(self, schema: t.StructType) -> ChangesReader:  # noqa: N802  # Spark's name
        return ChangesReader(self.asked)


@dataclass(frozen=True, slots=True)
class Share(InputPartition):
    """What one task reads."""

    splits: tuple[ChangeSplit, ...]
    snapshot_ids: tuple[int, ...]


class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets, shares of tasks and rows; tasks get a copy of it."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._last: int | None = None

    def initialOffset(self) -> dict[str, object]:  # noqa: N802  # Spark's name
        after = self._asked.after or 0
        try:
            if after > 0:
                return self._offset(after)
        except SnapshotNotFound:
            # A consumer keeps the snapshot after this one.
            pass
        return {_SNAPSHOT: after, _COMMIT: "", _TABLE: self._table_id()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        self._last = self._asked.files.snapshots.latest_id() or 0

    def latestOffset(  # noqa: N802  # Spark's name
        self, start: dict[str, object], limit: ReadLimit
    ) -> dict[str, object]:
        read, latest = _snapshot_of(start), self._asked.files.snapshots.latest_id() or 0
        self._check_not_rolled_back(start, latest)
        latest = latest if self._last is None else min(latest, self._last)
        return self._offset(latest) if latest > read else start

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[Share]:
        first, last = _snapshot_of(start), _snapshot_of(end)
        if first == last:
            return []
        plan = plan_stream(self._asked.files, first, last)
        shares = min(_MOST_TASKS, len(plan.splits))
        return [Share(plan.splits[each::shares], plan.snapshot_ids) for each in range(shares)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        asked = self._asked
        reader = ChangeReader(
            asked.files,
            columns=asked.columns,
            predicate=None,
            snapshot_ids=partition.snapshot_ids,
            ordered=True,
        )
        schema = to_arrow_schema(asked.schema, timezone="UTC")
        for split in partition.splits:
            for rows in reader.read(split):
                yield from for_spark(rows).cast(schema).to_batches()

    def commit(self, end: dict[str, object]) -> None:
        asked = self._asked
        if asked.consumer is not None:
            needed = first_needed(asked.files, _snapshot_of(end))
            asked.files.references.set_consumer(asked.consumer, needed)

    def _offset(self, snapshot_id: int) -> dict[str, object]:
        snapshot = self._asked.files.snapshots.read(snapshot_id)
        commit = snapshot.delta_manifest_list
        return {_SNAPSHOT: snapshot.id, _COMMIT: commit, _TABLE: self._table_id()}

    def _table_id(self) -> int:
        """When the table was created: one that is dropped and created again has another time."""
        schemas = self._asked.files.schemas
        return schemas.read(schemas.ids()[0]).time_millis

    def _check_not_rolled_back(self, start: dict[str, object], latest: int) -> None:
        files, read = self._asked.files, _snapshot_of(start)
        table = self._table_id()
        # Checkpoints of earlier releases do not tell the table.
        if start.get(_TABLE, table) != table:
            raise StalePlan(
                f"{files.name} was dropped and created again since the stream began, so rows that "
                "it delivered are gone, and the first rows of the table would be skipped; begin "
                "a new stream, with a new checkpoint",
                table=files.name,
            )
        try:
            is_same = (
                not start[_COMMIT]
                or files.snapshots.read(read).delta_manifest_list == start[_COMMIT]
            )
        except SnapshotNotFound:
            # An expired snapshot was read, and later ones follow it.
            is_same = latest >= read
        if not is_same:
            raise StalePlan(
                f"{files.name} was rolled back behind snapshot {read}, which the stream has read; "
                "begin a new stream, with a new checkpoint",
                table=files.name,
            )


def _snapshot_of(offset: dict[str, object]) -> int:
    found = offset[_SNAPSHOT]
    assert isinstance(found, int)
    return found
