"""Distributes rows to buckets by their hashes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.files.table_files import TableFiles


def deal_rows(
    files: TableFiles, rows: pa.Table, bucket_count: int
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each bucket, in their order."""
    if rows.num_rows == 0:
        return
    options = files.options
    keys = files.schema.fields_of(options.bucket_keys)
    buckets = buckets_of(rows, keys, bucket_count, options.bucket_function)
    for bucket in np.unique(buckets).tolist():
        yield bucket, rows.filter(pa.array(buckets == bucket))
