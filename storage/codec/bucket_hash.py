"""Buckets of many rows at once: the hash of their BinaryRows, vectorised.

The hash is the format's 32-bit murmur3 over the row bytes without arity, seed
42, in little-endian words (Paimon `MurmurHashUtils.hashBytesByWords`); the
bucket is `abs(hash % count)` with Java's remainder. Rows whose bytes have the
same length are laid out as one matrix and hashed column by column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.binary_row import (
    COMPACT_DECIMAL_PRECISION,
    COMPACT_TIMESTAMP_PRECISION,
    INLINE_BYTES,
    null_bits_size,
    unscaled_bytes,
)
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.options import BucketFunction
from lakewright.storage.spec.values import EXACT_DECIMALS

_SEED = 42
# Rows are hashed in chunks of about this many bytes, to bound memory with long strings.
_CHUNK_BYTES = 64 * 1024 * 1024

# Keeps the first bytes of a little-endian word, by how many of them.
_FIRST_BYTES = np.array([2 ** (8 * count) - 1 for count in range(9)], dtype=np.uint64)

_FIXED_WIDTH = {
    TypeRoot.TINYINT: np.int8,
    TypeRoot.SMALLINT: np.int16,
    TypeRoot.INT: np.int32,
    TypeRoot.DATE: np.int32,
    TypeRoot.TIME: np.int32,
    TypeRoot.BIGINT: np.int64,
    TypeRoot.FLOAT: np.float32,
    TypeRoot.DOUBLE: np.float64,
}


def buckets_of(
    rows: pa.Table,
    keys: Sequence[DataField],
    bucket_count: int | np.ndarray,
    function: BucketFunction = BucketFunction.DEFAULT,
) -> np.ndarray:
    """The bucket of every row, as int32, from its key columns; one count for all or for each.

    Null keys are hashed as the format does; the caller decides whether a key may be null.
    """
    if function is BucketFunction.MOD:
        return _buckets_by_value(rows, keys, bucket_count)
    return bucket_of_hashes(hashes_of(rows, keys), bucket_count)


def _buckets_by_value(
    rows: pa.Table, keys: Sequence[DataField], bucket_count: int | np.ndarray
) -> np.ndarray:
    """Buckets by the remainder of a single integer key; a null counts as 0."""
    (key,) = keys
    values = pc.fill_null(rows.column(key.name), 0).to_numpy()
    buckets: np.ndarray = np.mod(values.astype(np.int64), bucket_count).astype(np.int32)
    return buckets


def bucket_of_hashes(hashes: np.ndarray, bucket_count: int | np.ndarray) -> np.ndarray:
    """The bucket of each hash among `bucket_count`, one for all or one for each, as int32."""
    # Java's remainder has the sign of the dividend; the format takes its absolute value.
    return np.abs(np.fmod(hashes.astype(np.int64), bucket_count)).astype(np.int32)


def hashes_of(rows: pa.Table, keys: Sequence[DataField]) -> np.ndarray:
    """The hash of every row's key, as int32."""
    result = np.empty(rows.num_rows, dtype=np.int32)
    start = 0
    for chunk in rows.select([key.name for key in keys]).to_batches(max_chunksize=1 << 18):
        result[start : start + chunk.num_rows] = _hash_batch(chunk, keys)
        start += chunk.num_rows
    return result


class _Column:
    """One key column as slots, null flags, and the bytes of its variable part, if it has one."""

    def __init__(self, array: pa.Array, field: DataField) -> None:
        assert isinstance(field.type, AtomicType)
        self.type = field.type
        self.nulls = array.is_null().to_numpy(zero_copy_only=False)
        self.slots = np.zeros(len(array), dtype=np.uint64)
        # Padded length of every row's variable part; what lies there comes from `data`.
        self.padded = np.zeros(len(array), dtype=np.int64)
        self.lengths = np.zeros(len(array), dtype=np.int64)
        self.starts = np.zeros(len(array), dtype=np.int64)
        self.data = np.zeros(0, dtype=np.uint8)
        self.low_word = np.zeros(len(array), dtype=np.uint64)
        self._fill(array)

    def _fill(self, array: pa.Array) -> None:
        root = self.type.root
        if root is TypeRoot.BOOLEAN:
            self.slots = array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64)
        elif root in _FIXED_WIDTH:
            self._fill_fixed(array, _FIXED_WIDTH[root])
        elif root.is_text or root.is_bytes:
            self._fill_bytes(array)
        elif root is TypeRoot.DECIMAL:
            self._fill_decimal(array)
        else:
            self._fill_timestamp(array)

    def _fill_fixed(self, array: pa.Array, dtype: Any) -> None:
        if self.type.root in (TypeRoot.DATE, TypeRoot.TIME):
            array = array.cast(pa.int32())
        values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(dtype)
        raw = np.zeros((len(values), 8), dtype=np.uint8)
        width = values.dtype.itemsize
        raw[:, :width] = values.view(np.uint8).reshape(-1, width)
        self.slots = raw.view("<u8").reshape(-1)

    def _fill_bytes(self, array: pa.Array) -> None:
        array = array.cast(pa.large_binary())
        offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)
        offsets = offsets[array.offset : array.offset + len(array) + 1]
        buffer = array.buffers()[2]
        first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
        data = np.zeros(size + 8, np.uint8)
        if size:
            data[:size] = np.frombuffer(buffer, dtype=np.uint8)[first : first + size]
        self.starts = offsets[:-1] - first
        self.lengths = np.where(self.nulls, 0, np.diff(offsets))
        self.data = data
        inline = self.lengths <= INLINE_BYTES
        self.padded = np.where(inline, 0, (self.lengths + 7) // 8 * 8)
        raw = _gather(data, self.starts[inline], self.lengths[inline], 8)
        raw[:, 7] = 0x80 | self.lengths[inline]
        self.slots[inline] = raw.view("<u8").reshape(-1)
        self.slots[self.nulls] = 0
        self.low_word = self.lengths.astype(np.uint64)

    def _fill_decimal(self, array: pa.Array) -> None:
        if self.type.precision <= COMPACT_DECIMAL_PRECISION:
            # The unscaled number is the low half of the 128-bit value.
            words = np.frombuffer(array.cast(_decimal128(self.type)).buffers()[1], dtype="<u8")
            words = words[2 * array.offset : 2 * (array.offset + len(array))]
            self.slots = np.where(self.nulls, np.uint64(0), words[0::2])
            return
        scale = self.type.scale
        parts = [
            b"" if value is None else unscaled_bytes(int(value.scaleb(scale, EXACT_DECIMALS)))
            for value in array.to_pylist()
        ]
        self._fill_reserved([part.ljust(16, b"\0") for part in parts], 16)
        self.low_word = np.array([len(part) for part in parts], dtype=np.uint64)

    def _fill_timestamp(self, array: pa.Array) -> None:
        per_milli = {"s": 0, "ms": 1, "us": 1000, "ns": 1_000_000}[array.type.unit]
        ticks = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        millis = np.floor_divide(ticks, per_milli) if per_milli else ticks * 1000
        if self.type.precision <= COMPACT_TIMESTAMP_PRECISION:
            self.slots = np.where(self.nulls, 0, millis).astype(np.int64).view(np.uint64)
            return
        rest = ticks - millis * per_milli if per_milli else np.zeros_like(ticks)
        self._fill_reserved_array(np.where(self.nulls, 0, millis).astype("<i8"))
        self.low_word = np.where(self.nulls, 0, rest * (1_000_000 // max(per_milli, 1))).astype(
            np.uint64
        )

    def _fill_reserved(self, parts: list[bytes], width: int) -> None:
        self.data = np.frombuffer(b"".join(parts), dtype=np.uint8)
        self._reserve(len(parts), width)

    def _fill_reserved_array(self, values: np.ndarray) -> None:
        self.data = values.view(np.uint8)
        self._reserve(len(values), values.dtype.itemsize)

    def _reserve(self, count: int, width: int) -> None:
        # A null keeps its bytes in the variable part.
        self.starts = np.arange(count, dtype=np.int64) * width
        self.lengths = np.full(count, width, dtype=np.int64)
        self.padded = self.lengths

    @property
    def keeps_room_for_null(self) -> bool:
        root, precision = self.type.root, self.type.precision
        return (root is TypeRoot.DECIMAL and precision > COMPACT_DECIMAL_PRECISION) or (
            root.is_timestamp and precision > COMPACT_TIMESTAMP_PRECISION
        )


def _hash_batch(batch: pa.RecordBatch, keys: Sequence[DataField]) -> np.ndarray:
    columns = [_Column(batch.column(index), field) for index, field in enumerate(keys)]
    fixed_size = null_bits_size(len(keys)) + 8 * len(keys)
    result = np.empty(batch.num_rows, dtype=np.int32)
    order, counts = _group_by_layout(columns, batch.num_rows)
    start = 0
    for count in counts:
        chosen = order[start : start + count]
        start += count
        shape = np.array([column.padded[chosen[0]] for column in columns])
        step = max(1, _CHUNK_BYTES // (fixed_size + int(shape.sum())))
        for first in range(0, count, step):
            part = chosen[first : first + step]
            result[part] = _murmur(_row_bytes(columns, part, shape, fixed_size))
    return result


def _group_by_layout(columns: Sequence[_Column], row_count: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers grouped by layout, and the number of rows of each layout."""
    members = np.zeros(row_count, dtype=np.int64)
    for column in columns:
        if column.padded.any():
            _, ranks = np.unique(column.padded, return_inverse=True)
            members = members * (int(ranks.max()) + 1) + ranks
    counts = np.unique(members, return_counts=True)[1]
    order = np.argsort(members, kind="stable") if len(counts) > 1 else np.arange(row_count)
    return order, counts


def _row_bytes(
    columns: Sequence[_Column], chosen: np.ndarray, shape: np.ndarray, fixed_size: int
) -> np.ndarray:
    """The bytes of the chosen rows, which have one length, as one matrix row each."""
    rows = np.zeros((len(chosen), fixed_size + int(shape.sum())), dtype=np.uint8)
    bits = null_bits_size(len(columns))
    offset = fixed_size
    for index, (column, padded) in enumerate(zip(columns, shape, strict=True)):
        nulls = column.nulls[chosen]
        rows[:, (index + 8) // 8] |= nulls.astype(np.uint8) << ((index + 8) % 8)
        slots = column.slots[chosen]
        if padded:
            slots = np.uint64(offset << 32) | column.low_word[chosen]
            rows[:, offset : offset + padded] = _gather(
                column.data, column.starts[chosen], column.lengths[chosen], int(padded)
            )
            offset += int(padded)
        if not column.keeps_room_for_null:
            slots = np.where(nulls, np.uint64(0), slots)
        slot = bits + 8 * index
        rows[:, slot : slot + 8] = slots.astype("<u8").view(np.uint8).reshape(-1, 8)
    return rows


def _gather(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, width: int) -> np.ndarray:
    """`width` bytes for each row: those of `data` from its start, zeros after its length.

    The width is a multiple of eight, and eight bytes can be read from every start.
    """
    last = len(data) - 8
    everywhere = np.ndarray(shape=(last + 1,), dtype="<u8", buffer=data, strides=(1,))
    words = np.empty((len(starts), width // 8), dtype="<u8")
    for index in range(width // 8):
        loaded = everywhere[np.minimum(starts + 8 * index, last)]
        words[:, index] = loaded & _FIRST_BYTES[np.clip(lengths - 8 * index, 0, 8)]
    return words.view(np.uint8)


def _murmur(rows: np.ndarray) -> np.ndarray:
    words = rows.view("<u4")
    hashed = np.full(len(rows), _SEED, dtype=np.uint32)
    with np.errstate(over="ignore"):
        for index in range(words.shape[1]):
            word = words[:, index] * np.uint32(0xCC9E2D51)
            word = (word << np.uint32(15) | word >> np.uint32(17)) * np.uint32(0x1B873593)
            hashed = hashed ^ word
            hashed = hashed << np.uint32(13) | hashed >> np.uint32(19)
            hashed = hashed * np.uint32(5) + np.uint32(0xE6546B64)
        hashed = hashed ^ np.uint32(rows.shape[1])
        hashed = (hashed ^ hashed >> np.uint32(16)) * np.uint32(0x85EBCA6B)
        hashed = (hashed ^ hashed >> np.uint32(13)) * np.uint32(0xC2B2AE35)
        hashed = hashed ^ hashed >> np.uint32(16)
    return hashed.view(np.int32)


def _decimal128(data_type: AtomicType) -> pa.DataType:
    return pa.decimal128(data_type.precision, data_type.scale)
