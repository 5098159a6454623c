"""Queries of statements on Spark, over views of their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from lakewright.storage.errors import InvalidStatement


def with_clock_times(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Rows whose instants in some columns are times without a zone, by the clock of the session."""
    instants = {
        field.name for field in rows.schema.fields if isinstance(field.dataType, t.TimestampType)
    }
    return rows.withColumns(
        {name: rows[name].cast("timestamp_ntz") for name in columns if name in instants}
    )


def query_dataframe(spark: SparkSession, text: str, views: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of a query; `views` are the tables that its text names.

    Raises:
        InvalidStatement: Spark does not understand the query.
    """
    for name, frame in views.items():
        frame.createOrReplaceTempView(name)
    try:
        found = spark.sql(text)
        # Spark Connect understands a query only when it is asked for its columns.
        _ = found.columns
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidStatement(f"Spark does not understand the query: {first}") from error
    return found
