"""The policy, and the table that Dagster ingests by partitions with its source."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from lakewright.platform.ingest.sources import SourceRequest

ROUNDS_VARIABLE = "LAKEWRIGHT_SOAK_ROUNDS"
ROWS = 5_000
DATES = tuple(f"2026-01-0{day}" for day in range(1, 5))
SMALL_FILES = 5
POLICY = f"""
warehouse:
  interval: 10s
  compaction: {{min_bytes: 0 b, small_files: {SMALL_FILES}}}
  snapshots: {{retain_min: 5, time_retained: 2min, schedule: "* * * * *"}}
  changelogs: {{schedule: "* * * * *"}}
  manifests: {{min_count: 30}}
  orphans: {{older_than: 1h, schedule: "*/5 * * * *"}}
  collect: {{grace: 1min, orphans: 1h, schedule: "* * * * *"}}
tables:
  soak.pypaimon: {{iceberg: {{lag: 1m}}}}
  soak.append:
    sort: {{enabled: true, columns: [id], schedule: "*/10 * * * *"}}
"""
INGESTED = """
table: soak.ingested
columns:
  - {name: dt, type: STRING NOT NULL}
  - {name: id, type: BIGINT NOT NULL}
  - {name: round, type: BIGINT NOT NULL}
partition_keys: [dt]
partitions:
  daily: {column: dt, start: 2026-01-01, end: 2026-01-05}
source: {python: "tests.soak.source:rows"}
"""


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
