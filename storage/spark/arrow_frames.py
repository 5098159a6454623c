"""Arrow tables as DataFrames, with nothing lost and nothing moved."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from lakewright.storage.codec.arrow_timestamps import holds_timestamps
from lakewright.storage.spark.read import spark_arrow_type


def dataframe_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The rows as a DataFrame, which `fits_spark` allows.

    Timestamps without a zone stay so, whatever the session takes them for when it is not told.
    """
    return spark.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))


def fits_spark(rows: pa.Table) -> bool:
    """Whether no timestamp is finer than the microseconds of Spark."""
    fine = [column for column in rows.columns if holds_timestamps(column.type, unit="ns")]
    try:
        for column in fine:
            column.cast(spark_arrow_type(column.type))
    except pa.ArrowInvalid:
        return False
    return True
