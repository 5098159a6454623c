"""A local session: nothing else on the machine may ask it for rows."""

from __future__ import annotations

from pyspark.sql import SparkSession


def test_ports_of_a_local_session_are_on_loopback_and_ask_for_a_secret(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert conf.get("spark.authenticate") == "true"
    # Blocks go between tasks all the same.
    assert (
        spark.range(100).repartition(7).selectExpr("id % 5 AS a").groupBy("a").count().count() == 5
    )
