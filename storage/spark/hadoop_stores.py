"""Where a session's own reader finds the files of a store: by the Hadoop file system of its scheme.

Our tasks read a store by the settings of its Python client, which Spark does not know. Spark reads
it itself only if the session has settings of a Hadoop file system for it
(`spark.hadoop.fs.s3a.*`), and if that file system sees the first file of the plan with its size.
"""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no stubs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakewright.storage.files.local_files import LocalFiles
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spark.running_tasks import context_of

_LOG = logging.getLogger(__name__)
# Of our schemes those of Hadoop, whose URIs also begin with a bucket.
_SCHEMES = {"s3": ("s3a", "s3"), "gs": ("gs",)}
# The roots of tables, and why a process does not hand them to Spark.
_SAID: set[tuple[str, str]] = set()


def hadoop_base(spark: SparkSession, files: TableFiles) -> str | None:
    """The start of the URIs by which a session's JVM finds a table's files; None if it does not.

    Spark Connect does not show its JVM. On HDFS, Spark's own listing also tells on which machines
    the blocks of a file lie.
    """
    scheme = files.fs.scheme
    context = context_of(spark)
    if context is None:
        return None
    if scheme == LocalFiles.scheme:
        return "file:"
    if scheme not in _SCHEMES:
        return None
    settings = [name for name, _ in context.getConf().getAll()]
    for name in _SCHEMES[scheme]:
        if any(setting.startswith(f"spark.hadoop.fs.{name}.") for setting in settings):
            return f"{name}://"
    wanted = f"spark.hadoop.fs.{_SCHEMES[scheme][0]}.*"
    _say_once(files, "the session has no setting %s, with which Spark reads such files", wanted)
    return None


def sees(spark: SparkSession, files: TableFiles, base: str, path: str, size: int) -> bool:
    """Whether the session's file system sees a file as we do: the same store, and a right to it."""
    jvm: Any = spark._jvm  # noqa: SLF001 - not public
    try:
        settings = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - not public
        at = jvm.org.apache.hadoop.fs.Path(base + path)
        found = at.getFileSystem(settings).getFileStatus(at).getLen()
    except (Py4JError, PySparkException) as error:
        reason = str(getattr(error, "java_exception", error)).splitlines()[0]
        _say_once(files, "the session's file system cannot read %s: %s", base + path, reason)
        return False
    if found != size:
        why = "the session's file system sees %s with %s bytes instead of %s"
        _say_once(files, why, base + path, found, size)
    return bool(found == size)


def _say_once(files: TableFiles, why: str, *values: object) -> None:
    if (files.paths.root, why) not in _SAID:
        _SAID.add((files.paths.root, why))
        _LOG.warning("Python tasks read the files of %s: " + why, files.name, *values)
