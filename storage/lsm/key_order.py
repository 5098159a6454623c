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

# If more than one in this many rows is less than its predecessor, rows count as unordered.
_FEW_RUNS = 32
# Flipping the sign bit makes signed numbers order as unsigned ones.
_SIGN = np.uint64(1 << 63)
# Masks of a word's first bytes, by their number.
_LEADING_BYTES = np.array([2**64 - 2 ** (64 - 8 * count) for count in range(9)], dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """`order` permutes rows into merge order; `starts` holds each key's first position in it."""

    order: np.ndarray
    starts: np.ndarray

    @property
    def ends(self) -> np.ndarray:
        """The position after each key's last row."""
        return np.append(self.starts[1:], len(self.order))


@dataclass(frozen=True, slots=True)
class _Word:
    """Numbers that order like a column, or a part of it, and their width in bits."""

    values: np.ndarray
    bits: int


def merge_order(
    keys: Sequence[pa.ChunkedArray],
    sequences: Sequence[pa.ChunkedArray],
    sequence_numbers: pa.ChunkedArray | None,
    *,
    descending: bool = False,
) -> MergeOrder:
    """Order rows by key, user sequence and sequence number; ties keep their order.

    `descending` reverses the user sequence, with nulls still first. Without sequence numbers, the
    rows of one key must come in the order of their numbers.
    """
    if len(keys[0]) == 0:
        return MergeOrder(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    words = _packed([word for key in keys for word in _words_with_nulls(key)])
    order = _sorted_by(words)
    repeats = _repeats(words, order)
    starts = np.flatnonzero(~repeats)
    if len(starts) < len(order) and (sequences or sequence_numbers is not None):
        _order_within_keys(order, repeats, sequences, sequence_numbers, descending=descending)
    return MergeOrder(order, starts)


def _sorted_by(words: Sequence[_Word]) -> np.ndarray:
    """A stable order by several words, the first most significant."""
    order = _argsort(words[0])
    if len(words) > 1:
        # Few rows share their first word, so the further words sort only these rows.
        repeats = _repeats(words[:1], order)
        shared = _in_larger_groups(repeats)
        rows = order[shared]
        groups = np.cumsum(~repeats)[shared]
        later = [word.values[rows] for word in reversed(words[1:])]
        order[shared] = rows[np.lexsort((*later, groups))]
    return order


def _argsort(word: _Word) -> np.ndarray:
    values = word.values
    falls = int(np.count_nonzero(values[1:] < values[:-1]))
    if falls == 0:
        return np.arange(len(values))
    index_bits = len(values).bit_length()
    if falls * _FEW_RUNS > len(values) and word.bits + index_bits <= 64:
        # For unordered rows, sorting numbers is faster than sorting positions, so the position is
        # packed into the number.
        shift = np.uint64(index_bits)
        placed = (values << shift) | np.arange(len(values), dtype=np.uint64)
        placed.sort()
        placed &= (np.uint64(1) << shift) - np.uint64(1)
        return placed.view(np.int64)
    return np.argsort(values, kind="stable")


def _repeats(words: Sequence[_Word], order: np.ndarray) -> np.ndarray:
    """Marks positions of the order whose words equal those of the position before."""
    repeats = np.ones(len(order), dtype=bool)
    repeats[0] = False
    for word in words:
        ordered = word.values[order]
        repeats[1:] &= ordered[1:] == ordered[:-1]
    return repeats


def _in_larger_groups(repeats: np.ndarray) -> np.ndarray:
    """Positions in groups of more than one."""
    shared = repeats.copy()
    shared[:-1] |= repeats[1:]
    return np.flatnonzero(shared)


def _order_within_keys(
    order: np.ndarray,
    repeats: np.ndarray,
    sequences: Sequence[pa.ChunkedArray],
    sequence_numbers: pa.ChunkedArray | None,
    *,
    descending: bool,
) -> None:
    numbers = None if sequence_numbers is None else sequence_numbers.to_numpy()
    if not sequences and numbers is not None:
        ordered = numbers[order]
        # If newer runs have only higher numbers, the rows are in order.
        if not np.any((ordered[1:] < ordered[:-1]) & repeats[1:]):
            return
    shared = _in_larger_groups(repeats)
    rows = order[shared]
    words = [
        word
        for column in sequences
        for word in _words_with_nulls(column.take(pa.array(rows)), descending=descending)
    ]
    if numbers is not None:
        words.append(_from_signed(numbers[rows]))
    # The rows of most keys are in order, so only the others are sorted.
    repeated = repeats[shared]
    words = _packed(words)
    falls = _falls(words) & repeated
    groups = np.cumsum(~repeated)
    unordered = np.zeros(groups[-1] + 1, dtype=bool)
    unordered[groups[falls]] = True
    chosen = np.flatnonzero(unordered[groups])
    if len(chosen):
        by_group = _narrowed(groups[chosen].astype(np.uint64))
        by_sequence = [_Word(word.values[chosen], word.bits) for word in words]
        sorted_rows = rows[chosen][_sorted_by(_packed([by_group, *by_sequence]))]
        order[shared[chosen]] = sorted_rows


def _falls(words: Sequence[_Word]) -> np.ndarray:
    """Marks rows less than their predecessor by several words, the first most significant."""
    falls = np.zeros(len(words[0].values), dtype=bool)
    alike = np.ones(len(falls) - 1, dtype=bool)
    for word in words:
        falls[1:] |= alike & (word.values[1:] < word.values[:-1])
        alike &= word.values[1:] == word.values[:-1]
    return falls


def _words_with_nulls(column: pa.ChunkedArray, *, descending: bool = False) -> list[_Word]:
    """Words of a column that may hold nulls, which come first in both directions."""
    words = _words(_without_nulls(column))
    if descending:
        words = [_Word(word.values ^ np.uint64(2**word.bits - 1), word.bits) for word in words]
    if column.null_count == 0:
        return words
    valid = column.is_valid().to_numpy().astype(np.uint64)
    return [_Word(valid, 1), *(_Word(word.values * valid, word.bits) for word in words)]


def _without_nulls(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.null_count == 0:
        return column
    filler = column.drop_null()
    if len(filler) == 0:
        return pa.chunked_array([pa.array(np.zeros(len(column), dtype=np.int64))])
    return column.fill_null(filler[0])


def _packed(words: Sequence[_Word]) -> list[_Word]:
    """Pack neighbouring words into one integer where their bits fit."""
    packed: list[_Word] = []
    for word in words:
        if packed and packed[-1].bits + word.bits <= 64:
            above = packed.pop()
            # A shift by 64 bits is undefined; it only occurs without higher bits.
            values = above.values << np.uint64(word.bits) if above.bits else 0
            packed.append(_Word(values | word.values, above.bits + word.bits))
        else:
            packed.append(word)
    return packed


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
    return _narrowed(values.astype(np.int64).view(np.uint64) ^ _SIGN)


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
    return [_from_signed(high), _narrowed(low.copy().view(np.uint64))]


def _byte_words(column: pa.ChunkedArray) -> list[_Word]:
    """Words of eight bytes each, padded with zeros, then the length.

    The length tells a value from the same value with trailing zero bytes.
    """
    chunks = [_Bytes.of(chunk) for chunk in column.chunks if len(chunk)]
    longest = max(int(chunk.lengths.max()) for chunk in chunks)
    shortest = min(int(chunk.lengths.min()) for chunk in chunks)
    words = []
    for first in range(0, longest, 8):
        even = longest == shortest and longest >= 8
        loaded = [
            chunk.strided(first, longest) if even else chunk.gathered(first, shortest, longest)
            for chunk in chunks
        ]
        words.append(_narrowed(np.concatenate(loaded)))
    if longest > shortest:
        words.append(_from_signed(np.concatenate([chunk.lengths for chunk in chunks])))
    return words or [_Word(np.zeros(len(column), dtype=np.uint64), 0)]


@dataclass(frozen=True, slots=True)
class _Bytes:
    """Values of any length in one buffer."""

    buffer: pa.Buffer
    offsets: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, array: pa.Array) -> _Bytes:
        _, offset_buffer, buffer = array.buffers()
        offsets = np.frombuffer(offset_buffer, dtype=np.int64)
        offsets = offsets[array.offset : array.offset + len(array) + 1]
        return cls(buffer, offsets, np.diff(offsets))

    def strided(self, first: int, length: int) -> np.ndarray:
        """The next eight bytes of each value, for values of one length."""
        # The last word is loaded from within the value.
        over = max(0, first + 8 - length)
        start = int(self.offsets[0]) + first - over
        stored = np.ndarray(
            (len(self.lengths),), dtype=">u8", buffer=self.buffer, offset=start, strides=(length,)
        )
        values = stored.astype(np.uint64)
        if over:
            values &= np.uint64(2 ** (64 - 8 * over) - 1)
        return values

    def gathered(self, first: int, shortest: int, longest: int) -> np.ndarray:
        """The same for values of different lengths, padded with zeros."""
        values = _loaded(self.buffer, self.offsets[:-1] + first)
        if shortest < min(first + 8, longest):
            values &= _LEADING_BYTES[np.clip(self.lengths - first, 0, 8)]
        # Bytes beyond the longest value take no bits.
        values >>= np.uint64(8 * max(0, first + 8 - longest))
        return values


def _loaded(buffer: pa.Buffer, starts: np.ndarray) -> np.ndarray:
    """The eight bytes from each start as a big-endian number; starts must ascend."""
    last = buffer.size - 8
    if last < 0 or starts[-1] > last:
        inside = int(np.searchsorted(starts, max(last, -1), side="right"))
        # Bytes beyond the end of the buffer count as zeros.
        tail = buffer.slice(int(starts[inside]) if starts[inside] < buffer.size else buffer.size)
        padded = pa.py_buffer(tail.to_pybytes() + bytes(8))
        behind = np.minimum(starts[inside:] - (buffer.size - tail.size), tail.size)
        values = np.empty(len(starts), dtype=np.uint64)
        values[:inside] = _gathered(buffer, starts[:inside])
        values[inside:] = _gathered(padded, behind)
    else:
        values = _gathered(buffer, starts)
    return values.byteswap(inplace=True)


def _gathered(buffer: pa.Buffer, starts: np.ndarray) -> np.ndarray:
    if len(starts) == 0:
        return np.empty(0, dtype=np.uint64)
    everywhere = np.ndarray(shape=(buffer.size - 7,), dtype="<u8", buffer=buffer, strides=(1,))
    gathered: np.ndarray = everywhere[starts]
    return gathered


def _narrowed(values: np.ndarray) -> _Word:
    """Subtract the least number, so that a common offset takes no bits."""
    low = values.min()
    values -= low
    return _Word(values, int(values.max()).bit_length())
