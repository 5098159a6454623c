"""Plans of Iceberg and Delta tables in their own Spark, over files that exist.

Their connectors are for an older Spark than ours, so they have an environment, a process and a JVM
of their own; `benchmarks/spark-lakehouses.lock` and the jars beside it say which.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.contestants.serving import Outcome, Request, Work, nothing_to_check, serve

_CATALOG = "peer"
_COLUMNS = {"day": "integer", "id": "long", "note": "string"}
_PARTITION = "day"


class OnSpark:
    """The operations; a plan opens its table anew, as a query of another session would."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = folder
        self._frame: DataFrame | None = None

    def make(self, request: Request) -> Work:
        """Write metadata of a table whose files are given by the folder of their partition."""
        make = {"iceberg": self._make_iceberg, "delta": self._make_delta}[request["form"]]

        def work() -> Callable[[], Outcome]:
            make(request["name"], request["files"], request["size"])
            return nothing_to_check

        return work

    def plan(self, request: Request) -> Work:
        """From the call to a DataFrame."""
        spark, name = self._spark, request["name"]

        def work() -> Callable[[], Outcome]:
            if request["form"] == "delta":
                spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # noqa: SLF001 - not public
                self._frame = spark.read.format("delta").load(f"{self._folder}/{name}")
            else:
                self._frame = spark.table(f"{_CATALOG}.{name}.t")
            return nothing_to_check

        return work

    def tasks(self, _: Request) -> Work:
        """From the DataFrame of the last plan to its tasks, and how many files these read."""
        frame = self._frame
        assert frame is not None

        def work() -> Callable[[], Outcome]:
            rdd = frame._jdf.queryExecution().toRdd()  # noqa: SLF001 - not public
            count = int(rdd.getNumPartitions())
            return lambda: (count, None)

        return work

    def _make_iceberg(self, name: str, files: Mapping[str, Sequence[str]], size: int) -> None:
        spark = self._spark
        columns = ", ".join(f"{column} {kind}" for column, kind in _COLUMNS.items())
        spark.sql(
            f"CREATE TABLE {_CATALOG}.{name}.t ({columns.replace('integer', 'int')}) "
            f"USING iceberg PARTITIONED BY ({_PARTITION})".replace("long", "bigint")
        )
        iceberg = spark._jvm.org.apache.iceberg  # noqa: SLF001 - not public
        tables = iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())  # noqa: SLF001
        table = tables.load(f"{self._folder}/{name}/t")
        append = table.newFastAppend()
        for partition, paths in files.items():
            made = iceberg.DataFiles.builder(table.spec()).withFormat("parquet").withRecordCount(1)
            made.withFileSizeInBytes(size).withPartitionPath(partition)
            for path in paths:
                append.appendFile(made.withPath(path).build())
        append.commit()

    def _make_delta(self, name: str, files: Mapping[str, Sequence[str]], size: int) -> None:
        log = Path(self._folder, name, "_delta_log")
        log.mkdir(parents=True)
        schema = {
            "type": "struct",
            "fields": [
                {"name": column, "type": kind, "nullable": True, "metadata": {}}
                for column, kind in _COLUMNS.items()
            ],
        }
        about = {
            "id": name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": [_PARTITION],
            "configuration": {},
        }
        actions: list[dict[str, object]] = [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": about},
        ]
        for partition, paths in files.items():
            values = {_PARTITION: partition.partition("=")[2]}
            for path in paths:
                added = {"path": f"file://{path}", "partitionValues": values, "size": size}
                actions.append({"add": {**added, "modificationTime": 0, "dataChange": True}})
        (log / f"{0:020}.json").write_text("".join(json.dumps(each) + "\n" for each in actions))
        java = self._spark._jvm.org.apache.spark.sql.delta.DeltaLog  # noqa: SLF001 - not public
        # A table in use has a checkpoint, which is read faster than the text of its commits.
        java.forTable(self._spark._jsparkSession, f"{self._folder}/{name}").checkpoint()  # noqa: SLF001


def main() -> None:
    """Serve."""
    jars = sorted((Path(sys.prefix) / "jars").glob("*.jar"))
    catalog = f"spark.sql.catalog.{_CATALOG}"
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "spark.jars": ",".join(map(str, jars)),
            # As in our session, for two cores; Delta's own 50 tasks would take longer.
            "spark.sql.shuffle.partitions": "8",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.ui.enabled": "false",
            "spark.driver.memory": "2g",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
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
        peer = OnSpark(spark, folder)
        serve({"make": peer.make, "plan": peer.plan, "tasks": peer.tasks})
        spark.stop()


if __name__ == "__main__":
    main()
