"""Columns of many serialised rows at once, of the types whose order Arrow and numpy share.

The rows are those of `binary_row`, which decodes one at a time and every type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.binary_row import (
    COMPACT_DECIMAL_PRECISION,
    COMPACT_TIMESTAMP_PRECISION,
    INLINE_BYTES,
    null_bits_size,
)
from lakewright.storage.codec.byte_slices import array_spans, sliced
from lakewright.storage.spec.data_types import AtomicType, DataType, TypeRoot
from lakewright.storage.spec.values import NANOS_PER_MILLI

_ARITY_BYTES = 4
_NUMBERS = {
    TypeRoot.BOOLEAN: "u1",
    TypeRoot.TINYINT: "i1",
    TypeRoot.SMALLINT: "<i2",
    TypeRoot.INT: "<i4",
    TypeRoot.DATE: "<i4",
    TypeRoot.TIME: "<i4",
    TypeRoot.BIGINT: "<i8",
    TypeRoot.FLOAT: "<f4",
    TypeRoot.DOUBLE: "<f8",
}
# Milliseconds whose nanoseconds fit into 64 bits.
_MOST_MILLIS = (2**63 - 1) // NANOS_PER_MILLI - 1


@dataclass(frozen=True, slots=True)
class RowValues:
    """The values of one column: numbers, or texts as their bytes; some are null.

    Timestamps are nanoseconds, decimals are unscaled.
    """

    type: AtomicType
    valid: np.ndarray
    values: np.ndarray | pa.LargeBinaryArray


@dataclass(frozen=True)
class SerialisedRows:
    """Rows in a buffer, with a field of each type; `whole` tells which rows really have them."""

    data: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    types: tuple[DataType, ...]

    @classmethod
    def of_array(cls, rows: pa.LargeBinaryArray, types: Sequence[DataType]) -> Self:
        """The rows of a column."""
        return cls(*array_spans(rows), tuple(types))

    def __len__(self) -> int:
        return len(self.begins)

    @cached_property
    def whole(self) -> np.ndarray:
        """Whether each row has all fields; of the others no values are meant."""
        arity = len(self.types)
        least = _ARITY_BYTES + null_bits_size(arity) + 8 * arity
        long_enough = (self.ends - self.begins) >= least
        if not long_enough.any():
            return np.zeros(len(self), bool)
        begins = np.where(long_enough, self.begins, self._safe(long_enough))
        expected = np.frombuffer(arity.to_bytes(_ARITY_BYTES, "big"), np.uint8)
        told = self.data[begins[:, None] + np.arange(_ARITY_BYTES)]
        found: np.ndarray = long_enough & (told == expected).all(axis=1)
        return found

    def column(self, index: int) -> RowValues | None:
        """The values of a field; None if they are not of a type that is understood here.

        Rows that are not whole have some other row's value.
        """
        data_type = self.types[index]
        if not isinstance(data_type, AtomicType) or not self.whole.any():
            return None
        root = data_type.root
        slots = self._begins + null_bits_size(len(self.types)) + 8 * index
        nulls = self.data[self._begins + (index + 8) // 8] & (1 << ((index + 8) % 8))
        valid = nulls == 0
        if root in _NUMBERS:
            return RowValues(data_type, valid, self._numbers(slots, _NUMBERS[root]))
        if root.is_text:
            return self._texts(slots, valid, data_type)
        if root is TypeRoot.DECIMAL and data_type.precision <= COMPACT_DECIMAL_PRECISION:
            return RowValues(data_type, valid, self._numbers(slots, "<i8"))
        if root.is_timestamp:
            return self._timestamps(slots, valid, data_type)
        return None

    @cached_property
    def _begins(self) -> np.ndarray:
        """Where each row begins, after its arity; another row in place of one that is not whole."""
        begins = np.where(self.whole, self.begins, self._safe(self.whole))
        found: np.ndarray = begins + _ARITY_BYTES
        return found

    def _safe(self, usable: np.ndarray) -> int:
        return int(self.begins[int(np.argmax(usable))])

    def _numbers(self, at: np.ndarray, kind: str) -> np.ndarray:
        width = np.dtype(kind).itemsize
        found: np.ndarray = self.data[at[:, None] + np.arange(width)].view(kind)[:, 0]
        return found.astype(np.float64 if found.dtype.kind == "f" else np.int64)

    def _texts(
        self, slots: np.ndarray, valid: np.ndarray, data_type: AtomicType
    ) -> RowValues | None:
        mark = self.data[slots + 7].astype(np.int64)
        inline = mark >= 0x80
        words = self._numbers(slots, "<i8")
        lengths = np.where(inline, mark & 0x7F, words & 0xFFFFFFFF)
        begins = np.where(inline, slots, self._begins + (words >> 32))
        lengths = np.where(valid, lengths, 0)
        begins = np.where(valid, begins, 0)
        ends = begins + lengths
        # Where a row is not whole, its place is taken by one that is.
        limit = np.where(self.whole, self.ends, len(self.data))
        if (
            (inline & valid & (lengths > INLINE_BYTES)).any()
            or (begins < 0).any()
            or (valid & (ends > limit)).any()
        ):
            return None
        return RowValues(data_type, valid, sliced(self.data, begins, ends))

    def _timestamps(
        self, slots: np.ndarray, valid: np.ndarray, data_type: AtomicType
    ) -> RowValues | None:
        words = self._numbers(slots, "<i8")
        if data_type.precision <= COMPACT_TIMESTAMP_PRECISION:
            millis, nanos = words, np.zeros(len(words), np.int64)
        else:
            at = np.where(valid, self._begins + (words >> 32), 0)
            if (at < 0).any() or (at + 8 > len(self.data)).any():
                return None
            millis, nanos = self._numbers(at, "<i8"), words & 0xFFFFFFFF
        if (valid & (np.abs(millis) > _MOST_MILLIS)).any():
            return None
        return RowValues(data_type, valid, np.where(valid, millis, 0) * NANOS_PER_MILLI + nanos)
