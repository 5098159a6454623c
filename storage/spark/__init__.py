"""The only room that imports pyspark: DataFrames in and out, and tasks on executors."""

from lakewright.storage.extras import needed_for

with needed_for("Spark"):
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

from lakewright.storage.spark.arrow_frames import dataframe_of, fits_spark
from lakewright.storage.spark.engine import SparkEngine
from lakewright.storage.spark.pickling import error_of
from lakewright.storage.spark.read import dataframe_of_tasks
from lakewright.storage.spark.session import build_session

__all__ = [
    "DataFrame",
    "SparkEngine",
    "SparkSession",
    "StreamingQuery",
    "build_session",
    "dataframe_of",
    "dataframe_of_tasks",
    "error_of",
    "fits_spark",
]
