"""Queries of statements on Spark, over views of their tables."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakewright.storage.errors import InvalidStatement


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
