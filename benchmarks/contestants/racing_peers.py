"""Iceberg (version 3) and Delta, both with deletion vectors, in the race on their own Spark."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.contestants.racing import Race, operations_of
from benchmarks.contestants.serving import serve

_CATALOG = "peer"
_OF_ICEBERG = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.parquet.compression-codec": "zstd",
}


class Peer:
    """Implements `Form` for what both say in SQL."""

    def __init__(self, spark: SparkSession, folder: str, form: str) -> None:
        self._spark = spark
        self._folder = folder
        self._form = form

    def create(
        self, name: str, rows: DataFrame, *, key: str | None, partition: str | None, spread: bool
    ) -> None:
        if self._form == "iceberg":
            made = rows.writeTo(self._named(name)).using("iceberg")
            for option, value in _OF_ICEBERG.items():
                made = made.tableProperty(option, value)
            if spread:
                # Otherwise rows are shuffled by partition, into a file for each.
                made = made.tableProperty("write.distribution-mode", "none")
                made = made.option("fanout-enabled", "true")
            if partition:
                made = made.partitionedBy(rows[partition])
            made.create()
            return
        writer = rows.write.format("delta").option("delta.enableDeletionVectors", "true")
        if partition:
            writer = writer.partitionBy(partition)
        writer.save(f"{self._folder}/{name}")

    def upsert(self, name: str, rows: DataFrame, key: str) -> None:
        rows.createOrReplaceTempView("changes")
        self._spark.sql(
            f"MERGE INTO {self._named(name)} t USING changes c ON t.{key} = c.{key} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def frame(self, name: str, where: str | None = None) -> DataFrame:
        if self._form == "delta":
            jvm = self._spark._jvm  # noqa: SLF001 - not public
            assert jvm is not None
            jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
            rows = self._spark.read.format("delta").load(f"{self._folder}/{name}")
        else:
            rows = self._spark.table(self._named(name))
        return rows.where(where) if where else rows

    def compact(self, name: str) -> None:
        if self._form == "delta":
            self._spark.sql(f"OPTIMIZE {self._named(name)}").collect()
            return
        self._spark.sql(
            f"CALL {_CATALOG}.system.rewrite_data_files(table => 'race.{name}', "
            "options => map('rewrite-all', 'true'))"
        ).collect()

    def parquet(self, path: str) -> DataFrame:
        return self._spark.read.parquet(path)

    def _named(self, name: str) -> str:
        return (
            f"delta.`{self._folder}/{name}`" if self._form == "delta" else f"{_CATALOG}.race.{name}"
        )


def main() -> None:
    """Serve: FOLDER iceberg|delta."""
    folder, form = sys.argv[1:]
    jars = sorted((Path(sys.prefix) / "jars").glob("*.jar"))
    catalog = f"spark.sql.catalog.{_CATALOG}"
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.shuffle.partitions": "8",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.extensions": (
            "io.delta.sql.DeltaSparkSessionExtension,"
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": folder,
        f"{catalog}.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    serve(operations_of(Race(Peer(spark, folder, form))))


if __name__ == "__main__":
    main()
