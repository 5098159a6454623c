"""INSERT from a source without an end by Spark: what needs several rows, as aggregates in windows.

The statement is one query of Structured Streaming. A table with a primary key takes rows that are
updated; one without takes those that are final by the watermark of the source. Other tables of the
query are as they were when it began.
"""

from __future__ import annotations

import queue
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from lakewright.connectors.external_tables import ExternalTables
from lakewright.connectors.planning.plan_source import ScanRequest, plan_scan
from lakewright.session.insert_columns import filled_columns
from lakewright.session.results import StatementResult, counted, done
from lakewright.session.run_query import FullName, names_of, view_name
from lakewright.session.settings import Settings
from lakewright.storage.errors import UnsupportedError
from lakewright.storage.operations.streams.batches import Watch
from lakewright.storage.spec.data_types import AtomicType, TypeRoot
from lakewright.storage.spec.stream import CommittedBatch
from lakewright.storage.sql.grammar.spark_query import spark_query
from lakewright.storage.sql.grammar.statements import Insert

if TYPE_CHECKING:
    from lakewright.storage.spark import DataFrame, SparkSession

_TO_LOCAL = "SET 'query.engine' = 'local' carries such rows, one by one"
# How often it is looked whether the query still runs.
_LOOK_SECONDS = 0.2


def follow_into_by_spark(
    externals: ExternalTables,
    insert: Insert,
    settings: Settings,
    full_name: FullName,
    endless: str,
) -> Iterator[StatementResult]:
    """Carry the rows of a query into a managed table, and tell each batch.

    Raises:
        InvalidStatement: Spark does not understand the query.
        UnsupportedError: the source gives changes, or the target is an external table.
        InvalidRequestError: the target does not take what the query gives.
    """
    from lakewright.storage.spark import build_session
    from lakewright.storage.spark.statements import query_dataframe, with_clock_times
    from lakewright.storage.spark.streaming import make_sink, start_query

    target, catalog = full_name(insert.table), externals.catalog
    if externals.has(target):
        raise UnsupportedError(
            f"{target} is an external table, and Spark's streams go into tables of the warehouse; "
            f"{_TO_LOCAL}"
        )
    table, parsed = catalog.table(target), spark_query(insert.query)
    spark = build_session("lakewright-sql")
    names = names_of(parsed, full_name)
    frames = {
        view_name(name): _frame(spark, externals, name, follows=name == endless)
        for name in names.values()
    }
    views = {said: view_name(name) for said, name in names.items()}
    rows = query_dataframe(spark, parsed.over(views), frames)
    filled = filled_columns(insert, table.schema, target, len(rows.columns), rows.columns)
    # The column of a watermark became an instant.
    fields = table.schema.fields_of(filled)
    times = [
        field.name
        for field in fields
        if isinstance(field.type, AtomicType) and field.type.root is TypeRoot.TIMESTAMP
    ]
    rows = with_clock_times(rows.toDF(*filled), times)
    output = "update" if table.schema.has_primary_key else "append"
    told: queue.Queue[CommittedBatch] = queue.Queue()
    with ExitStack() as stack:
        checkpoint = settings.checkpoint or stack.enter_context(tempfile.TemporaryDirectory())
        sink = make_sink(
            table.table_files,
            rows,
            checkpoint=checkpoint,
            partition=dict(insert.static) or None,
            output=output,
            watch=Watch(tell=told.put),
        )
        query = start_query(sink, rows, trigger=None, output=output)
        stack.callback(query.stop)
        while query.isActive or not told.empty():
            try:
                each = told.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            yield done(
                f"{counted(each.row_count, 'row')} written into {target}, batch {each.number}",
                table=target,
                rows=each.row_count,
                batch=each.number,
            )
        if sink.failures:
            raise sink.failures[-1]
        query.awaitTermination()


def _frame(
    spark: SparkSession, externals: ExternalTables, name: str, *, follows: bool
) -> DataFrame:
    """A table of the query; the one that is followed as a stream."""
    from lakewright.connectors.on_spark import read_frame, read_stream_frame  # noqa: PLC0415

    is_external = externals.has(name)
    if not follows:
        if not is_external:
            return externals.catalog.table(name).to_spark(spark)
        return read_frame(spark, plan_scan(externals.context(name), ScanRequest()))
    context = externals.context(name) if is_external else externals.managed_context(name)
    mark = context.table.definition.watermark
    planned = plan_scan(context, ScanRequest(watermark=mark))
    if not planned.mode.is_insert_only:
        raise UnsupportedError(
            f"{name} gives changes, and Spark takes back nothing that it has counted; {_TO_LOCAL}, "
            "or INSERT them INTO a table and query that one"
        )
    return read_stream_frame(spark, planned)
