"""What is measured: the same rows and the same steps for everybody.

Written so that an environment with nothing but pyarrow and numpy can import it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("day", pa.string()),
    ]
)
COMMITS = 5


def batches(row_count: int) -> Iterator[pa.Table]:
    """One full load, then upserts of a tenth of the keys each."""
    generator = np.random.default_rng(7)
    keys = np.arange(row_count, dtype=np.int64)
    yield _rows(keys, "first")
    for number in range(1, COMMITS):
        chosen = np.sort(generator.choice(keys, size=row_count // 10, replace=False))
        yield _rows(chosen, f"commit-{number}")


def _rows(keys: np.ndarray, label: str) -> pa.Table:
    names = pa.array([f"{label}-{key % 1000}" for key in keys.tolist()])
    days = pa.array([f"2024-01-{key % 28 + 1:02d}" for key in keys.tolist()])
    return pa.table([pa.array(keys), names, pa.array(keys * 0.5), days], schema=SCHEMA)
