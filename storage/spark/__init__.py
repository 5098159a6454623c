"""The only room that imports pyspark: DataFrames in and out, and tasks on executors."""

from lakewright.storage.spark.arrow_frames import dataframe_of, fits_spark
from lakewright.storage.spark.engine import SparkEngine
from lakewright.storage.spark.read import dataframe_of_tasks, read_dataframe, read_staged_dataframe
from lakewright.storage.spark.session import build_session
from lakewright.storage.spark.system_tables import (
    read_incremental_dataframe,
    system_table_dataframe,
)
from lakewright.storage.spark.write import stage_dataframe

__all__ = [
    "SparkEngine",
    "build_session",
    "dataframe_of",
    "dataframe_of_tasks",
    "fits_spark",
    "read_dataframe",
    "read_incremental_dataframe",
    "read_staged_dataframe",
    "stage_dataframe",
    "system_table_dataframe",
]
