"""Reads of tables on S3 in a Spark session of its own: `python -m tests.stores.spark_on_s3 JARS`.

Each line of its input is a request, `{"table", "warehouse", "where"}`; each line of its output says
what was read: the sum, the count, the files that Spark reads itself, an error, and what was logged.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as f

from lakewright.storage import Catalog
from lakewright.storage.errors import StorageError
from lakewright.storage.spark import build_session


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def main() -> None:
    """Answer until the input ends."""
    jars = ",".join(str(path) for path in sorted(Path(sys.argv[1]).glob("*.jar")))
    settings = json.loads(os.environ.get("SPARK_SETTINGS", "{}"))
    spark = build_session("s3", master="local[2]", conf={"spark.jars": jars, **settings})
    logged = Lines()
    logging.getLogger("lakewright").addHandler(logged)
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            table = Catalog.open(request["warehouse"]).table(request["table"])
            frame = table.to_spark(spark, request.get("where"))
            own = frame.inputFiles()
            count, total = frame.agg(f.count(f.lit(1)), f.sum("id")).collect()[0]
            answer = {"files": own, "count": count, "sum": total}
        except StorageError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        sys.stdout.write(json.dumps({**answer, "logged": logged.lines}) + "\n")
        sys.stdout.flush()
        logged.lines = []


if __name__ == "__main__":
    main()
