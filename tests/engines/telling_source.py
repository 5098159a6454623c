"""A source whose rows say where Spark made them: declared by tests, read in runs of Dagster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakewright.platform.ingest.sources import SourceRequest

_COLUMNS = "dt string, id long, session string, place string"
ROWS_A_DAY = 40


def rows(request: SourceRequest) -> Any:
    """Rows of the days that are asked for, with the kind of session and the folder of the task."""
    session = type(request.spark).__module__
    days = sorted(request.values("dt"))

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = batch.column("id").to_pylist()
            yield pa.RecordBatch.from_pydict(
                {
                    "dt": [days[each % len(days)] for each in ids],
                    "id": ids,
                    "session": [session] * len(ids),
                    "place": [str(Path.cwd())] * len(ids),
                }
            )

    numbers = request.spark.range(0, ROWS_A_DAY * len(days), 1, 4)
    return numbers.mapInArrow(made, _COLUMNS)
