"""How many distinct values a column holds, in bounded memory.

Exact up to `EXACT_LIMIT` values, told apart by 64-bit hashes; a HyperLogLog sketch of
2^14 registers beyond, whose standard error is 0.8 %. Counts of parts merge into the
count of the whole, whatever their order.

Source: Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017).
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pyarrow as pa

EXACT_LIMIT = 1 << 14
_PRECISION = 14
_REGISTERS = 1 << _PRECISION
_RANKS = 64 - _PRECISION
# Longer values are hashed one by one; shorter ones all at once, eight bytes at a time.
_LONG_BYTES = 256
_STEP = 1 << 16
_EMPTY = np.empty(0, dtype=np.uint64)


class DistinctCount:
    """The distinct values seen so far; nulls are not counted."""

    def __init__(self) -> None:
        self._hashes = _EMPTY
        self._registers: np.ndarray | None = None

    @property
    def exact(self) -> bool:
        """Whether `value` is exact rather than an estimate."""
        return self._registers is None

    def add(self, column: pa.ChunkedArray) -> None:
        for chunk in column.chunks:
            self._add_hashes(value_hashes(chunk))

    def merge(self, other: DistinctCount) -> None:
        """Add the values of another count."""
        if other._registers is not None:
            self._to_registers()
            assert self._registers is not None
            np.maximum(self._registers, other._registers, out=self._registers)
        else:
            self._add_hashes(other._hashes)

    @property
    def value(self) -> int:
        """The number of distinct values."""
        if self._registers is None:
            return len(self._hashes)
        return round(_estimate(self._registers))

    def _add_hashes(self, hashes: np.ndarray) -> None:
        # In steps: once the exact limit is passed, only one step has been sorted in vain.
        for start in range(0, len(hashes), _STEP):
            step = hashes[start : start + _STEP]
            if self._registers is not None:
                _register(self._registers, step)
                continue
            self._hashes = np.unique(np.concatenate([self._hashes, step]))
            if len(self._hashes) > EXACT_LIMIT:
                self._to_registers()

    def _to_registers(self) -> None:
        if self._registers is None:
            self._registers = np.zeros(_REGISTERS, dtype=np.uint8)
            _register(self._registers, self._hashes)
            self._hashes = _EMPTY


def value_hashes(array: pa.Array) -> np.ndarray:
    """A 64-bit hash of each value that is not null, the same on every machine."""
    array = array.drop_null()
    if len(array) == 0:
        return _EMPTY
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _bytes_hashes(array)
    if pa.types.is_decimal(kind):
        words = np.frombuffer(array.buffers()[1], dtype=np.uint64)
        pairs = words[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)
        return _mixed(_mixed(pairs[:, 0]) ^ pairs[:, 1])
    return _mixed(_bits(array))


def _bits(array: pa.Array) -> np.ndarray:
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        array = array.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
    numbers: np.ndarray = array.to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        # One NaN, and one zero, as SQL counts them.
        floats = np.where(np.isnan(numbers), np.nan, numbers).astype(np.float64) + 0.0
        return np.asarray(floats.view(np.uint64))
    return np.asarray(numbers.astype(np.int64).view(np.uint64))


def _mixed(words: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64: each bit of the input changes half of the output's."""
    mixed: np.ndarray = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: np.ndarray = mixed ^ (mixed >> np.uint64(31))
    return result


def _bytes_hashes(array: pa.Array) -> np.ndarray:
    _, offsets_buffer, data = array.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)
    offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    base = int(offsets[0])
    used = b"" if data is None else bytes(memoryview(data)[base : int(offsets[-1])])
    # Padded, so that the last value can be read as whole words too.
    padded = np.frombuffer(used + bytes(8), dtype=np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 8)
    starts = offsets[:-1] - base
    result = _mixed(lengths.astype(np.uint64))
    short = lengths <= _LONG_BYTES
    for step in range(0, int(lengths[short].max(initial=0)), 8):
        active = np.flatnonzero(short & (lengths > step))
        words = np.ascontiguousarray(windows[starts[active] + step]).view("<u8").reshape(-1)
        surplus = np.maximum(8 - (lengths[active] - step), 0).astype(np.uint64) * np.uint64(8)
        words = (words << surplus) >> surplus
        result[active] = _mixed(result[active] ^ words)
    for index in np.flatnonzero(~short):
        start = int(starts[index])
        value = used[start : start + int(lengths[index])]
        digest = hashlib.blake2b(value, digest_size=8).digest()
        result[index] = int.from_bytes(digest, "little")
    return result


def _register(registers: np.ndarray, hashes: np.ndarray) -> None:
    index = (hashes >> np.uint64(_RANKS)).astype(np.int64)
    rest = hashes << np.uint64(_PRECISION)
    high = (rest >> np.uint64(32)).astype(np.float64)
    low = (rest & np.uint64(0xFFFFFFFF)).astype(np.float64)
    # The exponent of a number below 2^32 is how many bits it takes.
    bits = np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1])
    ranks = np.minimum(65 - bits, _RANKS + 1).astype(np.uint8)
    np.maximum.at(registers, index, ranks)


def _estimate(registers: np.ndarray) -> float:
    counts = np.bincount(registers, minlength=_RANKS + 2)
    total = _REGISTERS * _tau(1 - counts[_RANKS + 1] / _REGISTERS)
    for rank in range(_RANKS, 0, -1):
        total = 0.5 * (total + float(counts[rank]))
    total += _REGISTERS * _sigma(counts[0] / _REGISTERS)
    return _REGISTERS * _REGISTERS / (2 * math.log(2) * total)


def _sigma(share: float) -> float:
    if share == 1:
        return math.inf
    total, factor, before = share, 1.0, -1.0
    while total != before:
        share *= share
        before = total
        total += share * factor
        factor += factor
    return total


def _tau(share: float) -> float:
    if share in (0, 1):
        return 0.0
    total, factor, before = 1 - share, 1.0, -1.0
    while total != before:
        share = math.sqrt(share)
        before = total
        factor *= 0.5
        total -= (1 - share) ** 2 * factor
    return total / 3
