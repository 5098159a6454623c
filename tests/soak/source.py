"""The source of the table that Dagster ingests by partitions."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from lakewright.platform.ingest.sources import SourceRequest

ROUNDS_VARIABLE = "LAKEWRIGHT_SOAK_ROUNDS"
ROWS = 5_000


def rows(request: SourceRequest) -> pa.Table:
    """As many rows for each day, all of the day's latest round."""
    days = [str(day) for day in request.values("dt")]
    rounds = [int(Path(os.environ[ROUNDS_VARIABLE], day).read_text()) for day in days]
    return pa.table(
        {
            "dt": [day for day in days for _ in range(ROWS)],
            "id": pa.array([*range(ROWS)] * len(days), pa.int64()),
            "round": pa.array([each for each in rounds for _ in range(ROWS)], pa.int64()),
        }
    )
