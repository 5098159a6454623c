"""The order in which rows of a primary-key table are merged: by key, then by sequence.

Columns become words: unsigned 64-bit integers that order as the column's values do in the
format (strings by their bytes, -0.0 below 0.0 and NaN on top, nulls first). Words of few
bits share one integer, so that most keys sort as a single number. Rows come as sorted runs
laid end to end, which numpy's stable sort recognises and merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """`order` takes rows into merge order; `starts` are positions in it of each key's first."""

    order: np.ndarray
    starts: np.ndarray

    @property
    def ends(self) -> np.ndarray:
        """The position after each key's last row."""
        return np.append(self.starts[1:], len(self.order))


@dataclass(frozen=True, slots=True)
class _Word:
    """Values that order like a column, or a part of it, and the bits that they need."""

    values: np.ndarray
    bits: int


def merge_order(
    keys: Sequence[pa.ChunkedArray],
    sequences: Sequence[pa.ChunkedArray],
    sequence_numbers: pa.ChunkedArray,
    *,
    descending: bool = False,
) -> MergeOrder:
    """Order rows by key, then user sequence, then sequence number; rows alike keep their order.

    `descending` turns the user sequence around, nulls staying first.
    """
    if len(sequence_numbers) == 0:
        return MergeOrder(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    words = _packed([word for key in keys for word in _words(key)])
    order = _sorted_by(words)
    repeats = _repeats(words, order)
    starts = np.flatnonzero(~repeats)
    if len(starts) < len(order):
        _order_within_keys(order, repeats, sequences, sequence_numbers, descending=descending)
    return MergeOrder(order, starts)


def _sorted_by(words: Sequence[np.ndarray]) -> np.ndarray:
    """Stable order by several words, the first counting most."""
    order = np.argsort(words[0], kind="stable")
    if len(words) > 1:
        # Few rows share their first word, so the others sort only those.
        repeats = _repeats(words[:1], order)
        shared = _in_larger_groups(repeats)
        rows = order[shared]
        groups = np.cumsum(~repeats)[shared]
        order[shared] = rows[np.lexsort((*(word[rows] for word in reversed(words[1:])), groups))]
    return order


def _repeats(words: Sequence[np.ndarray], order: np.ndarray) -> np.ndarray:
    """Whether a position of the order has the words of the one before it."""
    repeats = np.ones(len(order), dtype=bool)
    repeats[0] = False
    for word in words:
        ordered = word[order]
        repeats[1:] &= ordered[1:] == ordered[:-1]
    return repeats


def _in_larger_groups(repeats: np.ndarray) -> np.ndarray:
    """Positions that share their group with another."""
    shared = repeats.copy()
    shared[:-1] |= repeats[1:]
    return np.flatnonzero(shared)


def _order_within_keys(
    order: np.ndarray,
    repeats: np.ndarray,
    sequences: Sequence[pa.ChunkedArray],
    sequence_numbers: pa.ChunkedArray,
    *,
    descending: bool,
) -> None:
    numbers = sequence_numbers.to_numpy()
    if not sequences:
        ordered = numbers[order]
        # Where a newer run has the higher numbers throughout, they are in order already.
        if not np.any((ordered[1:] < ordered[:-1]) & repeats[1:]):
            return
    shared = _in_larger_groups(repeats)
    rows = order[shared]
    groups = np.cumsum(~repeats)[shared]
    taken = [column.take(pa.array(rows)) for column in sequences]
    words = [word for column in taken for word in _sequence_words(column, descending=descending)]
    order[shared] = rows[np.lexsort((numbers[rows], *reversed(_packed(words)), groups))]


def _sequence_words(column: pa.ChunkedArray, *, descending: bool) -> list[_Word]:
    """Words of a column that may hold nulls, which come first either way."""
    valid = column.is_valid().to_numpy().astype(np.uint64)
    words = [
        _Word(~word.values if descending else word.values, 64)
        for word in _words(_without_nulls(column))
    ]
    return [_Word(valid, 1), *(_Word(word.values * valid, word.bits) for word in words)]


def _without_nulls(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.null_count == 0:
        return column
    filler = column.drop_null()
    if len(filler) == 0:
        return pa.chunked_array([pa.array(np.zeros(len(column), dtype=np.int64))])
    return column.fill_null(filler[0])


def _packed(words: Sequence[_Word]) -> list[np.ndarray]:
    """Neighbouring words in one integer where their bits fit."""
    packed: list[_Word] = []
    for word in words:
        if packed and packed[-1].bits + word.bits <= 64:
            above = packed.pop()
            values = (above.values << np.uint64(word.bits)) | word.values
            packed.append(_Word(values, above.bits + word.bits))
        else:
            packed.append(word)
    return [word.values for word in packed]


def _words(column: pa.ChunkedArray) -> list[_Word]:
    kind = column.type
    if pa.types.is_integer(kind):
        return [_from_signed(column.to_numpy())]
    if pa.types.is_temporal(kind):
        width = pa.int64() if kind.bit_width == 64 else pa.int32()
        return [_from_signed(column.cast(width).to_numpy())]
    if pa.types.is_boolean(kind):
        return [_from_signed(column.cast(pa.int8()).to_numpy())]
    if pa.types.is_floating(kind):
        # A float widened to a double keeps its value and order.
        values = column.to_numpy().astype(np.float64)
        raw = np.where(np.isnan(values), np.nan, values).view(np.int64)
        return [_from_signed(np.where(raw < 0, raw ^ np.iinfo(np.int64).max, raw))]
    if pa.types.is_decimal(kind):
        return _decimal_words(column)
    return _byte_words(column.cast(pa.large_binary()))


def _from_signed(values: np.ndarray) -> _Word:
    low = int(values.min())
    bits = (int(values.max()) - low).bit_length()
    return _Word((values.astype(np.int64) - np.int64(low)).view(np.uint64), bits)


def _decimal_words(column: pa.ChunkedArray) -> list[_Word]:
    halves = [
        np.frombuffer(chunk.buffers()[1], dtype=np.int64)[
            2 * chunk.offset : 2 * (chunk.offset + len(chunk))
        ].reshape(-1, 2)
        for chunk in column.cast(pa.decimal128(38, column.type.scale)).chunks
        if len(chunk)
    ]
    joined = np.concatenate(halves)
    low, high = joined[:, 0], joined[:, 1]
    if column.type.precision <= 18:
        return [_from_signed(low)]
    return [_from_signed(high), _Word(np.ascontiguousarray(low).view(np.uint64), 64)]


def _byte_words(column: pa.ChunkedArray) -> list[_Word]:
    """Eight bytes a word, without the prefix that all values share; then the length.

    The length tells a value from one with zero bytes behind it.
    """
    array = pa.concat_arrays(column.chunks)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[
        array.offset : array.offset + len(array) + 1
    ]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    lengths = np.diff(offsets)
    longest, shortest = int(lengths.max()), int(lengths.min())
    prefix = _shared_prefix(array, shortest)
    starts = offsets[:-1] + prefix
    words = []
    if longest == shortest and longest > prefix:
        rows = data[offsets[0] : offsets[-1]].reshape(len(array), longest)
        for first in range(prefix, longest, 8):
            part = rows[:, first : first + 8]
            words.append(_big_endian(part))
    else:
        for first in range(0, longest - prefix, 8):
            width = min(8, longest - prefix - first)
            part = np.zeros((len(array), width), dtype=np.uint8)
            for index in range(width):
                inside = lengths > prefix + first + index
                part[inside, index] = data[starts[inside] + first + index]
            words.append(_big_endian(part))
    if longest > shortest:
        words.append(_from_signed(lengths))
    return words or [_Word(np.zeros(len(array), dtype=np.uint64), 0)]


def _shared_prefix(array: pa.Array, shortest: int) -> int:
    """Bytes that all values begin with: those that the least and the greatest share."""
    bounds = pc.min_max(array).as_py()
    low, high = bounds["min"], bounds["max"]
    shared = 0
    while shared < shortest and low[shared] == high[shared]:
        shared += 1
    return shared


def _big_endian(part: np.ndarray) -> _Word:
    """Rows of up to eight bytes as numbers that order like them."""
    padded = np.zeros((len(part), 8), dtype=np.uint8)
    padded[:, 8 - part.shape[1] :] = part
    return _Word(padded.view(">u8").reshape(-1).astype(np.uint64), 8 * part.shape[1])
