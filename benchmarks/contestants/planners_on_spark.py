"""Plans of Java Paimon over the same files, in the same JVM as Spark.

Its jar is on the session's class path: `settings` says how.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession


def settings(jars: Sequence[Path]) -> dict[str, str]:
    """What a session needs to plan tables by these jars."""
    return {"spark.jars": ",".join(map(str, jars))} if jars else {}


def java_paimon_splits(spark: SparkSession, warehouse: str, name: str) -> int:
    """Splits of a plan by Java Paimon, without what its connector and Spark do with them."""
    paimon = spark._jvm.org.apache.paimon  # noqa: SLF001 - PySpark has no other way to a class
    context = paimon.catalog.CatalogContext.create(paimon.fs.Path(warehouse))
    catalog = paimon.catalog.CatalogFactory.createCatalog(context)
    table = catalog.getTable(paimon.catalog.Identifier.fromString(name))
    # Py4J does not find `newReadBuilder`, a default method of a class that is not public.
    return int(paimon.table.source.ReadBuilderImpl(table).newScan().plan().splits().size())
