"""System tables and changes as DataFrames.

Metadata is read here and handed over; rows (`audit_log`, and what changed between two
states) are read inside Spark tasks, a task a split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from lakewright.storage.codec.arrow_values import keep_matching
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.changes.change_plan import ChangePlan
from lakewright.storage.operations.changes.change_read import ChangeReader
from lakewright.storage.operations.changes.incremental import Bound, plan_audit_log
from lakewright.storage.operations.inspection.system_tables import AUDIT_LOG, ROW_KIND_NAME
from lakewright.storage.operations.read.row_kinds import ROW_KIND_COLUMN
from lakewright.storage.operations.state.time_travel import When, choose_snapshot, is_historic
from lakewright.storage.spark.read import check_reachable, for_spark
from lakewright.storage.spark.spark_types import to_spark_schema
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.table import Table


def system_table_dataframe(
    spark: SparkSession,
    table: Table,
    name: str,
    where: Predicate | None = None,
    **when: Unpack[When],
) -> DataFrame:
    """A system table, such as `snapshots`, as it is when this is called.

    Raises:
        InvalidRequestError: there is no system table of that name.
        UnsupportedError: `audit_log` of a table that executors cannot reach, or with a column
            that has no Spark type.
    """
    schema = table.system_table_schema(name)
    if name != AUDIT_LOG:
        rows = table.system_table(name, where, **when)
        # Spark makes no DataFrame of an Arrow table without rows.
        local = for_spark(rows) if rows.num_rows else []
        return spark.createDataFrame(local, to_spark_schema(schema.fields))
    snapshot = choose_snapshot(table.files, **when)
    files = table.files
    if snapshot is not None and is_historic(when):
        files = files.at_schema(snapshot.schema_id)
        schema = Table(files).system_table_schema(name)

    def kept(rows: pa.Table) -> pa.Table:
        names = [ROW_KIND_NAME, *rows.column_names[1:]]
        return keep_matching(rows.rename_columns(names), where, schema)

    names = files.schema.field_names
    plan = plan_audit_log(files, snapshot)
    return _changes(spark, files, plan, names, keep=kept, kind_name=ROW_KIND_NAME)


def read_incremental_dataframe(
    spark: SparkSession,
    table: Table,
    start: Bound,
    end: Bound,
    *,
    mode: str = "auto",
    where: Predicate | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """Rows that changed after `start` up to and with `end`; see `Table.read_incremental`.

    Raises:
        UnsupportedError: the table lies where executors cannot reach it, or a column has no
            Spark type.
    """
    plan = table.plan_incremental(start, end, mode=mode, where=where)
    names = table.schema.field_names if columns is None else tuple(columns)
    return _changes(spark, table.files, plan, names, where)


def _changes(
    spark: SparkSession,
    files: TableFiles,
    plan: ChangePlan,
    columns: Sequence[str],
    predicate: Predicate | None = None,
    *,
    keep: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    kind_name: str = ROW_KIND_COLUMN,
) -> DataFrame:
    """Changes that match `predicate`, and of whose pieces `keep` then leaves something."""
    check_reachable(files)
    kind = t.StructField(kind_name, t.StringType(), True)
    schema = t.StructType([kind, *to_spark_schema(files.schema.fields_of(columns)).fields])
    splits, snapshot_ids = plan.splits, plan.snapshot_ids
    if not splits:
        return spark.createDataFrame([], schema)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = ChangeReader(
            files, columns=columns, predicate=predicate, snapshot_ids=snapshot_ids
        )
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for rows in reader.read(splits[index]):
                    yield from for_spark(keep(rows)).to_batches()

    return spark.range(0, len(splits), 1, len(splits)).mapInArrow(run, schema)
