"""Plans of other tables over the same files, in the same JVM as Spark.

Jars of theirs are on the session's class path: `settings` says how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

_ICEBERG = "peer"


def settings(jars: Sequence[Path], folder: str) -> dict[str, str]:
    """What a session needs to plan tables of the others; Iceberg's lie in the folder."""
    if not jars:
        return {}
    found = {"spark.jars": ",".join(map(str, jars))}
    if not any("iceberg" in each.name for each in jars):
        return found
    catalog = f"spark.sql.catalog.{_ICEBERG}"
    return found | {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": folder,
        # Each plan opens the table, as a new query of another session would.
        f"{catalog}.cache-enabled": "false",
    }


def java_paimon_splits(spark: SparkSession, warehouse: str, name: str) -> int:
    """Splits of a plan by Java Paimon, without what its connector and Spark do with them."""
    paimon = spark._jvm.org.apache.paimon  # noqa: SLF001 - PySpark has no other way to a class
    context = paimon.catalog.CatalogContext.create(paimon.fs.Path(warehouse))
    catalog = paimon.catalog.CatalogFactory.createCatalog(context)
    table = catalog.getTable(paimon.catalog.Identifier.fromString(name))
    # Py4J does not find `newReadBuilder`, a default method of a class that is not public.
    return int(paimon.table.source.ReadBuilderImpl(table).newScan().plan().splits().size())


def make_iceberg_table(
    spark: SparkSession, folder: str, name: str, files: Mapping[str, Sequence[str]], size: int
) -> None:
    """A table of files that exist, by the folder of their partition."""
    spark.sql(
        f"CREATE TABLE {_ICEBERG}.{name} (day INT, id BIGINT, note STRING) USING iceberg "
        "PARTITIONED BY (day)"
    )
    iceberg = spark._jvm.org.apache.iceberg  # noqa: SLF001 - as above
    tables = iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    table = tables.load(f"{folder}/{name.replace('.', '/')}")
    append = table.newFastAppend()
    for partition, paths in files.items():
        made = iceberg.DataFiles.builder(table.spec()).withFormat("parquet").withRecordCount(1)
        made.withFileSizeInBytes(size).withPartitionPath(partition)
        for path in paths:
            append.appendFile(made.withPath(path).build())
    append.commit()


def iceberg_frame(spark: SparkSession, name: str) -> DataFrame:
    """All rows of an Iceberg table."""
    return spark.table(f"{_ICEBERG}.{name}")
