"""Rows that compactions drop by the time in a column (`record-level.expire-time`).

As in Paimon, each version of a key is dropped for itself, before versions are merged, and rows
without a time stay. Source: Paimon `RecordLevelExpire`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.spec.data_types import AtomicType, DataField
from lakewright.storage.spec.values import NANOS_PER_MILLI, Value

# From this number on, a BIGINT counts milliseconds.
_LEAST_MILLIS = 10**12


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """Which rows are past at a time; `before_s` is the first second that is not."""

    field: DataField
    before_s: int

    def kept(self, rows: pa.Table) -> pa.Table:
        """The rows that are not past."""
        times = rows.column(self.field.name)
        if pa.types.is_timestamp(times.type):
            millis = times.cast(pa.timestamp("ms", times.type.tz), safe=False)
            seconds = pc.divide(millis.cast(pa.int64()), 1000)
        else:
            plain = times.cast(pa.int64())
            seconds = pc.if_else(
                pc.greater_equal(plain, _LEAST_MILLIS), pc.divide(plain, 1000), plain
            )
        return rows.filter(pc.fill_null(pc.greater_equal(seconds, self.before_s), True))

    def is_past(self, time: Value) -> bool:
        """Whether a value of the column, such as the lower bound of a file, is past."""
        if not isinstance(time, int):
            return False
        assert isinstance(self.field.type, AtomicType)
        if self.field.type.root.is_timestamp:
            return time // NANOS_PER_MILLI // 1000 < self.before_s
        return (time // 1000 if time >= _LEAST_MILLIS else time) < self.before_s
