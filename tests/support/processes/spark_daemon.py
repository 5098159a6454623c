"""Starts the Python processes of Spark's tasks from one that has imported what they need.

Spark ends the process of a task that failed, or that left rows unread; the next one would
import pandas, Arrow and the storage layer again, which takes longer than most tests.
The demo, the command line's tests and `tests/kills` run on Spark's own daemon.
"""

from __future__ import annotations

import importlib

from pyspark.daemon import manager

if __name__ == "__main__":
    for name in ("pandas", "pyspark.worker", "lakewright.storage.spark"):
        importlib.import_module(name)
    manager()
