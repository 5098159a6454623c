"""A source that says when it is asked, and then takes its time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa

from lakewright.platform.ingest.sources import SourceRequest

NOTES_VARIABLE = "LAKEWRIGHT_TEST_NOTES"
ROWS = 1000


def rows(request: SourceRequest) -> pa.Table:
    """As many rows for every partition asked for."""
    Path(os.environ[NOTES_VARIABLE], f"asked-{os.getpid()}").touch()
    time.sleep(3)
    days = [str(day) for day in request.values("dt")]
    return pa.table(
        {
            "dt": [day for day in days for _ in range(ROWS)],
            "id": pa.array([*range(ROWS)] * len(days), pa.int64()),
        }
    )
