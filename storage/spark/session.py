"""A Spark session with the settings that storage needs.

By default a local one, on loopback. `LAKEWRIGHT_SPARK_MASTER` names a cluster and
`LAKEWRIGHT_SPARK_REMOTE` a Spark Connect server; the same code runs on all three.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from lakewright.storage.errors import UnavailableError

DEFAULT_MASTER = "local[*]"

_SESSION_CONF = {
    # Timestamps with a time zone are instants, shown in UTC.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Otherwise a scan over thousands of files would start a task per file to list them.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.sql.adaptive.enabled": "true",
}
_APPLICATION_CONF = {
    # Over TCP each task waits 40 ms for an acknowledgement that the system delays.
    "spark.python.unix.domain.socket.enabled": "true",
}
_LOCAL_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.memory": "2g",
    # Keeps an embedded metastore and its folders out of the working directory.
    "spark.sql.catalogImplementation": "in-memory",
}


def build_session(
    app_name: str = "lakewright",
    *,
    master: str | None = None,
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session; the running one if it exists.

    Raises:
        UnavailableError: Spark did not start; a Java older than 17 is the usual cause. Or others
            could read its temporary folder.
    """
    # By default workers take `python3` from the path, which may lack the packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    remote = remote or os.environ.get("LAKEWRIGHT_SPARK_REMOTE")
    master = master or os.environ.get("LAKEWRIGHT_SPARK_MASTER") or DEFAULT_MASTER
    builder = SparkSession.builder.appName(app_name)
    settings = dict(_SESSION_CONF)
    if remote:
        builder = builder.remote(remote)
    else:
        builder = builder.master(master)
        settings |= _APPLICATION_CONF
        if master.startswith("local"):
            settings |= _LOCAL_CONF
            # Else each user of the machine may ask ports on loopback for blocks, which are rows.
            # Where all is one process, Spark makes the secret.
            settings["spark.authenticate"] = str(not master.startswith("local-cluster")).lower()
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            if "SPARK_LOCAL_DIRS" not in os.environ:
                settings["spark.local.dir"] = _own_folder()
    for key, value in {**settings, **(conf or {})}.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise UnavailableError(
            f"spark did not start on {remote or master}: {error}; it needs a Java runtime of "
            "version 17 or newer (JAVA_HOME, or java on the path)"
        ) from error
    if not remote:
        session.sparkContext.setLogLevel("ERROR")
    return session


def _own_folder() -> str:
    """A folder for blocks, which are rows; Spark's own default is one that all users may list."""
    folder = f"{tempfile.gettempdir()}/lakewright-spark-{os.getuid()}"
    with suppress(FileExistsError):
        Path(folder).mkdir(0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UnavailableError(
            f"{folder} would hold blocks of rows, and is not a folder that this user alone can "
            "read; delete it, or set SPARK_LOCAL_DIRS"
        )
    return folder
