"""A local session: nothing else on the machine may ask it for rows."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession


def test_ports_of_a_local_session_are_on_loopback_and_ask_for_a_secret(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert conf.get("spark.authenticate") == "true"
    # Blocks go between tasks all the same.
    assert (
        spark.range(100).repartition(7).selectExpr("id % 5 AS a").groupBy("a").count().count() == 5
    )


def test_its_blocks_lie_where_no_other_user_can_list_them(spark: SparkSession) -> None:
    folder = Path(spark.sparkContext.getConf().get("spark.local.dir") or "")
    assert folder.stat().st_mode & 0o077 == 0
    spark.range(1000).repartition(3).count()
    assert list(folder.glob("blockmgr-*"))
