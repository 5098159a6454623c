"""Hands Spark the files of a plan, so that it lists none.

`spark.read.parquet` asks the store about each path, in jobs of its own, which takes a millisecond
of CPU time for each file. A file index takes microseconds. PySpark has no way to it, so
`PlannedFiles.java` is compiled in the JVM of the driver, against Spark's own classes, by the
compiler that Spark has there for its queries.
"""

from __future__ import annotations

import logging
import os
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.resources import files as resources
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]  # no stubs
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no stubs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakewright.storage.env import Env, SystemEnv
from lakewright.storage.errors import CorruptionError, FileMissing
from lakewright.storage.files.local_files import LocalFiles, sizes_and_times
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.operations.read.expired_reads import told_if_expired
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.split_columns import FilesOfFolder
from lakewright.storage.operations.running.concurrency import map_ahead
from lakewright.storage.spark.hadoop_stores import hadoop_base
from lakewright.storage.spark.running_tasks import context_of
from lakewright.storage.spec.values import NANOS_PER_MILLI

_LOG = logging.getLogger(__name__)
_SOURCE = "PlannedFiles.java"
_PACKAGE = "lakewright"
_READER = "PlannedFiles$Reader"
# The mark at both ends, and the length of the footer.
_LEAST_BYTES = 12
_END = "\0"
# So many files a disk tells in a fraction of a millisecond.
_BATCH = 250
_QUICK_MS = 10
# Batches that threads ask for before it is seen whether that is still worth it.
_ASKED_AT_ONCE = 16
_MOST_TOGETHER = 8 * _ASKED_AT_ONCE
# More folders of a store than this are listed together, by the folder above them.
_MOST_LISTED = 64


def handed_base(spark: SparkSession, files: TableFiles) -> str | None:
    """The start of the URIs of a table's files, if a session can be handed them; else None."""
    base = hadoop_base(spark, files)
    return base if base is not None and _reader_of(spark) is not None else None


def planned_dataframe(
    spark: SparkSession,
    reader: SplitReader,
    schema: StructType,
    found: Sequence[FilesOfFolder],
    base: str,
) -> DataFrame:
    """All rows of a table's Parquet files; see `handed_base`.

    Raises:
        CorruptionError, FileMissing, SnapshotNotFound: as `look_at`.
    """
    files = reader.files
    # Manifests have sizes, but Spark would silently skip rows beyond a size that is too small.
    numbers = look_at(reader, found)
    java = _reader_of(spark).read(
        spark._jsparkSession,  # noqa: SLF001 - not public
        schema.json(),
        base,
        files.paths.root,
        (2 * _END).join(_END.join([each.folder, *each.names]) for each in found).encode(),
        (numbers // (1, NANOS_PER_MILLI)).astype("<i8").tobytes(),
    )
    return DataFrame(java, spark)


def look_at(reader: SplitReader, found: Sequence[FilesOfFolder]) -> npt.NDArray[np.int64]:
    """Size and time of change, in nanoseconds, of each file.

    Raises:
        FileMissing: one of them does not exist.
        SnapshotNotFound: one of them does not exist, since the reader's snapshot expired.
        CorruptionError: one of them is too short for a Parquet file.
    """
    files = reader.files
    with told_if_expired(files, reader.snapshot_id):
        if files.fs.scheme == LocalFiles.scheme:
            numbers = np.frombuffer(_asked(files.env, found), np.int64).reshape(-1, 2)
        else:
            numbers = _listed(files, found)
    _check_sizes(found, numbers[:, 0])
    return numbers


def _listed(files: TableFiles, found: Sequence[FilesOfFolder]) -> npt.NDArray[np.int64]:
    """The same from listings, which tell a thousand files of a store at once."""
    folders = sorted({each.folder for each in found})
    above = os.path.commonpath(folders) if len(folders) > _MOST_LISTED else ""
    if above:
        listed = files.fs.list_tree(above)
    else:
        each_folder = map_ahead(files.env, files.fs.list_dir, folders, at_once=_ASKED_AT_ONCE)
        listed = [status for statuses in each_folder for status in statuses]
    known = {status.path: status for status in listed}
    numbers = array("q")
    for path in (path for each in found for path in each.paths):
        if path not in known:
            raise FileMissing(f"{path} does not exist", path=path)
        numbers.append(known[path].size)
        numbers.append(known[path].modified_ms * NANOS_PER_MILLI)
    return np.frombuffer(numbers, np.int64).reshape(-1, 2)


def _check_sizes(found: Sequence[FilesOfFolder], sizes: npt.NDArray[np.int64]) -> None:
    """Refuse files without content, which Spark would leave out without a word."""
    short = np.flatnonzero(sizes < _LEAST_BYTES)
    if len(short):
        at = int(short[0])
        paths = (f"{each.folder}/{name}" for each in found for name in each.names)
        path = next(islice(paths, at, None))
        raise CorruptionError(
            f"data file {path} has {sizes[at]} bytes, which no Parquet file has; restore it from "
            "a copy, or roll back to a snapshot or tag that does not name it",
            path=path,
        )


def _asked(env: Env, found: Sequence[FilesOfFolder]) -> array[int]:
    """Size and time of change, in nanoseconds, of each file.

    A disk answers before another thread could begin. A mounted store is asked by many threads, as
    long as it lets each of them wait.
    """
    batches = list(_batches(found))
    numbers = array("q")
    asked, next_together = 0, _ASKED_AT_ONCE
    while asked < len(batches):
        began = env.now_ms()
        numbers += _sizes_and_times(batches[asked])
        asked += 1
        if env.now_ms() - began <= _QUICK_MS:
            next_together = _ASKED_AT_ONCE
            continue
        # A busy machine also looks slow for a moment, and threads cost it more than they save.
        together = batches[asked : asked + next_together]
        for part in map_ahead(env, _sizes_and_times, together, at_once=_ASKED_AT_ONCE):
            numbers += part
        asked += len(together)
        next_together = min(2 * next_together, _MOST_TOGETHER)
    return numbers


def _batches(found: Sequence[FilesOfFolder]) -> Iterator[list[FilesOfFolder]]:
    """The same files in lists of so many, or a few more."""
    batch: list[FilesOfFolder] = []
    room = _BATCH
    for folder, names in found:
        for begin in range(0, len(names), _BATCH):
            some = names[begin : begin + _BATCH]
            batch.append(FilesOfFolder(folder, some))
            room -= len(some)
            if room <= 0:
                yield batch
                batch, room = [], _BATCH
    if batch:
        yield batch


def _sizes_and_times(batch: Sequence[FilesOfFolder]) -> array[int]:
    numbers = array("q")
    for folder, names in batch:
        numbers += sizes_and_times(folder, names)
    return numbers


def _reader_of(spark: SparkSession) -> Any:
    context = context_of(spark)
    return None if context is None else _compiled(context._gateway)  # noqa: SLF001 - not public


@lru_cache(maxsize=1)
def _compiled(gateway: JavaGateway) -> Any:
    """The reader in a JVM, None if that JVM has other classes than the source is written for."""
    source = resources(__package__).joinpath(_SOURCE).read_text(encoding="utf-8")
    # Py4J knows methods by the names of their classes, so a second class of a name would fail.
    package = f"{_PACKAGE}_{SystemEnv().new_id().replace('-', '')}"
    try:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(gateway.jvm.Thread.currentThread().getContextClassLoader())
        compiler.cook(source.replace(f"package {_PACKAGE};", f"package {package};"))
        return compiler.getClassLoader().loadClass(f"{package}.{_READER}").newInstance()
    except (Py4JError, PySparkException, TypeError) as error:
        # What is not on the class path is a package to Py4J, and a package cannot be called.
        _LOG.warning(
            "Spark does not take a list of files, so it lists each file that it reads itself, "
            "which takes longer: %s",
            error,
        )
        return None
