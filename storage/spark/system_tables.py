"""System tables and changes as DataFrames.

The driver reads metadata. Spark tasks read rows (`audit_log`, and changes between two states), one
task for each split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from lakewright.storage.codec.arrow_values import keep_matching
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.changes.change_plan import ChangePlan
from lakewright.storage.operations.changes.change_read import ChangeReader
from lakewright.storage.operations.changes.incremental import plan_audit_log
from lakewright.storage.operations.inspection.system_tables import (
    AUDIT_LOG,
    ROW_KIND_NAME,
    read_system_table,
    system_table_schema,
)
from lakewright.storage.operations.read.unfit_values import logged
from lakewright.storage.spark.nulled_counts import counting
from lakewright.storage.spark.read import check_reachable, for_spark
from lakewright.storage.spark.spark_types import to_spark_schema
from lakewright.storage.spec.predicate import Predicate
from lakewright.storage.spec.rows import ROW_KIND_COLUMN
from lakewright.storage.spec.snapshot import Snapshot


def system_table_dataframe(
    spark: SparkSession,
    files: TableFiles,
    name: str,
    snapshot: Snapshot | None,
    predicate: Predicate | None = None,
) -> DataFrame:
    """A system table, such as `snapshots`, as of a snapshot.

    Raises:
        InvalidRequestError: the system table does not exist.
        UnsupportedError: `audit_log` of a table that executors cannot reach, or with a column
            that has no Spark type.
    """
    schema = system_table_schema(files, name)
    if name != AUDIT_LOG:
        rows = read_system_table(files, name, snapshot, predicate)
        # Spark cannot make a DataFrame from an Arrow table without rows.
        local = for_spark(rows) if rows.num_rows else []
        return spark.createDataFrame(local, to_spark_schema(schema.fields))

    def kept(rows: pa.Table) -> pa.Table:
        names = [ROW_KIND_NAME, *rows.column_names[1:]]
        return keep_matching(rows.rename_columns(names), predicate, schema)

    plan = plan_audit_log(files, snapshot)
    reader = ChangeReader(files, columns=None, predicate=None, snapshot_ids=plan.snapshot_ids)
    return changes_dataframe(spark, reader, plan, keep=kept, kind_name=ROW_KIND_NAME)


def changes_dataframe(
    spark: SparkSession,
    reader: ChangeReader,
    plan: ChangePlan,
    *,
    keep: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    kind_name: str = ROW_KIND_COLUMN,
) -> DataFrame:
    """Changes that match the reader's filter; `keep` then filters each piece.

    Raises:
        UnsupportedError: the table lies where executors cannot reach it, or a column has no
            Spark type.
    """
    files, columns, predicate = reader.files, reader.columns, reader.predicate
    check_reachable(files)
    kind = t.StructField(kind_name, t.StringType(), True)
    schema = t.StructType([kind, *to_spark_schema(files.schema.fields_of(columns)).fields])
    splits, snapshot_ids = plan.splits, plan.snapshot_ids
    if not splits:
        return spark.createDataFrame([], schema)
    count = counting(spark, files, reader.nulled)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task_reader = ChangeReader(
            files, columns=columns, predicate=predicate, snapshot_ids=snapshot_ids
        )
        try:
            with logged(task_reader.nulled, files.name):
                for batch in batches:
                    for index in batch.column(0).to_pylist():
                        for rows in task_reader.read(splits[index]):
                            yield from for_spark(keep(rows)).to_batches()
        finally:
            count(task_reader.nulled)

    return spark.range(0, len(splits), 1, len(splits)).mapInArrow(run, schema)
