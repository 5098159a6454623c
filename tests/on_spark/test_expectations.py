"""Expectations that Spark evaluates have the results of those in pandas."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakewright.platform.ingest.expectations import validate_dataframe
from tests.unit.platform.ingest.test_expectations import AMOUNTS, OF_DECIMALS, expectation


def test_decimals_are_compared_with_what_is_written(spark: SparkSession) -> None:
    asked = [
        expectation(kind, column="v", name=f"n{at}", **arguments)
        for at, (kind, arguments, _) in enumerate(OF_DECIMALS[::3])
    ]
    outcomes = validate_dataframe(spark.createDataFrame(AMOUNTS), asked, row_count=2).outcomes
    assert [(each.met, each.error) for each in outcomes] == [
        (met, None) for _, _, met in OF_DECIMALS[::3]
    ]
