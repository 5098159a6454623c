"""Sort layouts: the order in which rows of an append table lie, so that filters skip files.

A layout is derived from a sample of the rows. It maps each row to words: unsigned integers, the
first most significant, that order rows by the layout and mean the same in every batch. Words may be
coarser than the layout's order; `sorted_rows` then sorts rows with equal words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Bytes of a text in its words, after the common prefix of the column's texts.
_TEXT_WORDS = 4
_WORD_BYTES = 8
_SIGN = np.uint64(1 << 63)


class SortOrder(Enum):
    """How several columns make one order; the value is the text that users write.

    ORDER: by the first column, then the next. ZORDER, HILBERT: along a curve, so that rows
    near each other in every column lie near each other.
    """

    ORDER = "order"
    ZORDER = "zorder"
    HILBERT = "hilbert"


class SortLayout(ABC):
    """The order of rows; see the module."""

    @abstractmethod
    def words(self, rows: pa.Table) -> np.ndarray:
        """A matrix row of words for each row; rows with lesser words come first."""

    @abstractmethod
    def sorted_rows(self, rows: pa.Table) -> pa.Table:
        """Rows in the order of the layout; ties keep their order."""


def sort_layout(order: SortOrder, by: Sequence[str], sample: pa.Table) -> SortLayout:
    """The layout of a table by some columns; `sample` includes each column's extremes."""
    columns = [_column(name, sample.column(name)) for name in by]
    if order is SortOrder.ORDER or len(by) == 1:
        return _Lexical(tuple(columns))
    bits = 64 // len(by)
    sampled = [column.one_word(sample.column(column.name)) for column in columns]
    ranks = tuple(_distinct(words, bits) for words in sampled)
    return _Curve(tuple(columns), ranks, bits, hilbert=order is SortOrder.HILBERT)


def split_points(words: np.ndarray, parts: int) -> np.ndarray:
    """Words that split sampled rows into about equal parts; fewer if many rows have equal words."""
    ordered = words[np.lexsort(words.T[::-1])]
    at = np.arange(1, parts) * len(ordered) // parts
    return np.unique(ordered[at], axis=0) if len(ordered) else ordered


def part_of(words: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The part of each row: the number of split points that do not exceed its words."""
    low = np.zeros(len(words), dtype=np.int64)
    if not len(points):
        return low
    high = np.full(len(words), len(points), dtype=np.int64)
    # A binary search for all rows at once.
    for _ in range(len(points).bit_length()):
        middle = (low + high) // 2
        reached = _reaches(words, points[np.minimum(middle, len(points) - 1)])
        undecided = low < high
        low = np.where(undecided & reached, middle + 1, low)
        high = np.where(undecided & ~reached, middle, high)
    return low


def _reaches(words: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Marks rows whose words are not less than their bound."""
    reached = np.ones(len(words), dtype=bool)
    # From the last word to the first, since an earlier word decides over later ones.
    for column in reversed(range(words.shape[1])):
        value, bound = words[:, column], bounds[:, column]
        reached = (value > bound) | ((value == bound) & reached)
    return reached


# --- one column ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """Maps values of a column to words, nulls first."""

    name: str
    exact: bool
    prefix_bytes: int = 0
    word_count: int = 1

    def words(self, column: pa.ChunkedArray) -> list[np.ndarray]:
        """A flag for a non-null value, then the value; 0 for null."""
        valid = column.is_valid().to_numpy().astype(np.uint64)
        values = self._text_words(column) if self.word_count > 1 else [_number_word(column)]
        return [valid, *(value * valid for value in values)]

    def one_word(self, column: pa.ChunkedArray) -> np.ndarray:
        """A single word, in which only null is 0."""
        valid, value, *_ = self.words(column)
        word: np.ndarray = np.maximum(value, valid)
        return word

    def comparable(self, column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
        """An array that Arrow sorts in the layout's order of the column."""
        if not self.exact:
            return column
        # Arrow sorts NaN like a null.
        valid, value = self.words(column)
        return pa.array(value, mask=valid == 0)

    def _text_words(self, column: pa.ChunkedArray) -> list[np.ndarray]:
        array = pa.concat_arrays(
            column.cast(pa.large_binary()).chunks or [pa.array([], pa.large_binary())]
        )
        offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)
        offsets = offsets[array.offset : array.offset + len(array) + 1]
        data = np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8)
        starts = offsets[:-1] + self.prefix_bytes
        left = offsets[1:] - starts
        words = []
        for first in range(0, self.word_count * _WORD_BYTES, _WORD_BYTES):
            word = np.zeros(len(array), dtype=np.uint64)
            for index in range(first, first + _WORD_BYTES):
                word <<= np.uint64(8)
                inside = left > index
                word[inside] |= data[starts[inside] + index].astype(np.uint64)
            words.append(word)
        return words


def _column(name: str, sample: pa.ChunkedArray) -> _Column:
    if not _is_text(sample.type):
        return _Column(name, exact=not pa.types.is_decimal(sample.type))
    bounds = pc.min_max(sample.cast(pa.large_binary())).as_py()
    low, high = bounds["min"] or b"", bounds["max"] or b""
    prefix = 0
    while prefix < min(len(low), len(high)) and low[prefix] == high[prefix]:
        prefix += 1
    # Texts that differ only beyond their words, or by trailing zero bytes, have equal words.
    return _Column(name, exact=False, prefix_bytes=prefix, word_count=_TEXT_WORDS)


def _is_text(kind: pa.DataType) -> bool:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    more = (pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in (*texts, *more))


def _number_word(column: pa.ChunkedArray) -> np.ndarray:
    kind = column.type
    if pa.types.is_floating(kind):
        values = column.cast(pa.float64()).fill_null(0.0).to_numpy()
        raw = np.where(np.isnan(values), np.nan, values).view(np.int64)
        signed = np.where(raw < 0, raw ^ np.iinfo(np.int64).max, raw)
    elif pa.types.is_decimal(kind):
        # The nearest double keeps the order, but gives close values equal words.
        values = column.cast(pa.float64()).fill_null(0.0).to_numpy()
        raw = values.view(np.int64)
        signed = np.where(raw < 0, raw ^ np.iinfo(np.int64).max, raw)
    elif pa.types.is_boolean(kind):
        signed = column.cast(pa.int64()).fill_null(0).to_numpy()
    elif pa.types.is_temporal(kind):
        width = pa.int64() if kind.bit_width == 64 else pa.int32()
        signed = column.cast(width).cast(pa.int64()).fill_null(0).to_numpy()
    else:
        signed = column.cast(pa.int64()).fill_null(0).to_numpy()
    unsigned: np.ndarray = signed.astype(np.int64).view(np.uint64) ^ _SIGN
    return unsigned


# --- by one column after the other --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Lexical(SortLayout):
    columns: tuple[_Column, ...]

    def words(self, rows: pa.Table) -> np.ndarray:
        words: list[np.ndarray] = []
        for column in self.columns:
            words += column.words(rows.column(column.name))
            # After words that may be equal for different values, a further column must not decide.
            if not column.exact:
                break
        return np.column_stack(words)

    def sorted_rows(self, rows: pa.Table) -> pa.Table:
        place = pa.array(np.arange(rows.num_rows))
        named = {
            str(index): each.comparable(rows.column(each.name))
            for index, each in enumerate(self.columns)
        }
        keys = [(name, "ascending", "at_start") for name in (*named, "place")]
        order = pc.sort_indices(pa.table({**named, "place": place}), sort_keys=keys)
        return rows.combine_chunks().take(order)


# --- along a curve ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Curve(SortLayout):
    """Uses ranks among sampled values, so that columns of any spread weigh the same."""

    columns: tuple[_Column, ...]
    sampled: tuple[np.ndarray, ...]
    bits: int
    hilbert: bool

    def words(self, rows: pa.Table) -> np.ndarray:
        ranks = []
        for column, sampled in zip(self.columns, self.sampled, strict=True):
            values = column.one_word(rows.column(column.name))
            rank = np.searchsorted(sampled, values, side="right").astype(np.uint64)
            # Ranks are scaled to fill their bits for any sample size.
            spread = max(0, self.bits - len(sampled).bit_length())
            ranks.append(rank << np.uint64(spread))
        axes = hilbert_axes(ranks, self.bits) if self.hilbert else ranks
        return interleaved(axes, self.bits)[:, np.newaxis]

    def sorted_rows(self, rows: pa.Table) -> pa.Table:
        order = np.argsort(self.words(rows)[:, 0], kind="stable")
        return rows.combine_chunks().take(pa.array(order))


def _distinct(words: np.ndarray, bits: int) -> np.ndarray:
    """Distinct sampled values, at most as many as ranks of that many bits."""
    values = np.unique(words)
    most = (1 << min(bits, 30)) - 1
    if len(values) > most:
        values = values[np.linspace(0, len(values) - 1, most).astype(np.int64)]
    return values


def interleaved(ranks: Sequence[np.ndarray], bits: int) -> np.ndarray:
    """Interleave the bits of all ranks, the highest bits first."""
    count = len(ranks)
    spread = np.array([_spread(byte, count, bits) for byte in range(256)], dtype=np.uint64)
    curve = np.zeros(len(ranks[0]), dtype=np.uint64)
    for index, rank in enumerate(ranks):
        for first in range(0, bits, 8):
            byte = (rank >> np.uint64(first)) & np.uint64(255)
            curve |= spread[byte] << np.uint64(first * count + count - 1 - index)
    return curve


def _spread(byte: int, distance: int, bits: int) -> int:
    """A table that spreads a byte's bits by that many places; bits beyond `bits` are never set."""
    return sum(((byte >> bit) & 1) << (bit * distance) for bit in range(min(8, bits)))


def hilbert_axes(ranks: Sequence[np.ndarray], bits: int) -> list[np.ndarray]:
    """Transform ranks so that interleaving their bits numbers points along the Hilbert curve.

    Source: J. Skilling, Programming the Hilbert curve, AIP Conference Proceedings 707, 2004.
    """
    axes = [rank.copy() for rank in ranks]
    for bit in reversed(range(1, bits)):
        top = np.uint64(1 << bit)
        below = top - np.uint64(1)
        for index in range(len(axes)):
            is_set = (axes[index] & top) != 0
            # Where the bit is set, the first axis is inverted; elsewhere both axes are exchanged.
            exchanged = np.where(is_set, np.uint64(0), (axes[0] ^ axes[index]) & below)
            axes[0] ^= np.where(is_set, below, exchanged)
            axes[index] ^= exchanged
    for index in range(1, len(axes)):
        axes[index] ^= axes[index - 1]
    turned = np.zeros(len(axes[0]), dtype=np.uint64)
    for bit in reversed(range(1, bits)):
        is_set = (axes[-1] & np.uint64(1 << bit)) != 0
        turned ^= np.where(is_set, np.uint64((1 << bit) - 1), np.uint64(0))
    return [axis ^ turned for axis in axes]
