"""Columns as texts that Java's and Arrow's readers read back as the same values."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc


def texts_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values as texts, null for null: times in ISO form, floats as Java writes NaN."""
    texts = column.cast(pa.large_string())
    if not pa.types.is_floating(column.type):
        return texts
    for text, is_such in (
        ("NaN", pc.is_nan(column)),
        ("Infinity", pc.equal(column, math.inf)),
        ("-Infinity", pc.equal(column, -math.inf)),
    ):
        texts = pc.if_else(is_such, pa.scalar(text, texts.type), texts)
    return texts
