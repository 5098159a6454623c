"""Arrow tables as DataFrames, without loss and without shifted times."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from lakewright.storage.codec.arrow_timestamps import holds_timestamps
from lakewright.storage.spark.read import spark_arrow_type


def dataframe_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows as a DataFrame; call it only if `fits_spark`.

    Timestamps without a zone keep that type, independent of the session's default.
    """
    return spark.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))


def fits_spark(rows: pa.Table) -> bool:
    """Whether all timestamps fit Spark's microseconds."""
    fine = [column for column in rows.columns if holds_timestamps(column.type, unit="ns")]
    try:
        for column in fine:
            column.cast(spark_arrow_type(column.type))
    except pa.ArrowInvalid:
        return False
    return True
