"""Checksums of rows, which agree only if two sides added the same rows.

`OrderedChecksum` depends on the order of rows and names the differing column; it is cheap.
`UnorderedChecksum` is for rows that change places: it sums a hash of each whole row. Neither
depends on batch boundaries or on bytes beneath nulls, and neither samples: every byte of every
value counts.

Floating numbers count by their bits: -0.0 differs from 0.0, and NaNs differ by payload.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64, xxh3_64_intdigest

# Rows hashed at once, so few that the intermediate results fit into a core's cache.
_BLOCK_ROWS = 1 << 14
# Rows with longer texts are hashed one by one.
_MOST_WORDS = 32


@dataclass(frozen=True, slots=True)
class Sums:
    """The checksum of some rows: their number, and a sum for each named part."""

    rows: int
    parts: tuple[tuple[str, int], ...]

    def differences(self, other: Sums) -> tuple[str, ...]:
        """Names of the parts that differ."""
        mine, others = dict(self.parts), dict(other.parts)
        names = dict.fromkeys((*mine, *others))
        return tuple(name for name in names if mine.get(name, 0) != others.get(name, 0))

    def plus(self, other: Sums) -> Sums:
        """The sums that one `UnorderedChecksum` of both row sets would have."""
        mine, others = dict(self.parts), dict(other.parts)
        names = dict.fromkeys((*mine, *others))
        parts = ((name, (mine.get(name, 0) + others.get(name, 0)) % 2**64) for name in names)
        return Sums(self.rows + other.rows, tuple(parts))


class Checksum(Protocol):
    """A checksum that accumulates rows."""

    def add(self, rows: pa.Table) -> None:
        """Add rows; every call passes the same columns."""
        ...

    def sums(self) -> Sums:
        """The sums of the rows added so far."""
        ...


# --- in order ---------------------------------------------------------------------------------


class OrderedChecksum:
    """A checksum for each column over its values in the order of addition."""

    def __init__(self) -> None:
        self._rows = 0
        self._columns: dict[str, _Values] = {}

    def add(self, rows: pa.Table) -> None:
        self._rows += rows.num_rows
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            values = self._columns.setdefault(name, _Values())
            for chunk in column.chunks:
                values.add(chunk)

    def sums(self) -> Sums:
        parts = ((name, values.digest()) for name, values in self._columns.items() if self._rows)
        return Sums(self._rows, tuple(parts))


class _Values:
    """Accumulates one column: bytes, lengths, nulls and nested values."""

    def __init__(self) -> None:
        self._count = 0
        self._bytes = xxh3_64()
        self._lengths = xxh3_64()
        self._nulls = xxh3_64()
        self._children: list[_Values] = []

    def add(self, values: pa.Array) -> None:
        if len(values) == 0:
            return
        values = _plain(values)
        nulls = _nulls(values)
        if len(nulls):
            self._nulls.update((nulls + self._count).data)
        self._count += len(values)
        if _is_text(values.type):
            offsets, data = _text(values)
            self._lengths.update((offsets[1:] - offsets[:-1]).data)
            self._bytes.update(data[offsets[0] : offsets[-1]].data)
        elif _is_nested(values.type):
            lengths, children = _nested(values)
            if lengths is not None:
                self._lengths.update(lengths.data)
            self._children = self._children or [_Values() for _ in children]
            for mine, child in zip(self._children, children, strict=True):
                mine.add(child)
        elif not pa.types.is_null(values.type):
            self._bytes.update(_fixed(values, nulls).data)

    def digest(self) -> int:
        parts = [self._count, *(stream.intdigest() for stream in self._streams)]
        parts += [child.digest() for child in self._children]
        return xxh3_64_intdigest(np.array(parts, dtype=np.uint64).data)

    @property
    def _streams(self) -> tuple[xxh3_64, ...]:
        return self._bytes, self._lengths, self._nulls


# --- in any order -----------------------------------------------------------------------------


class UnorderedChecksum:
    """Sums over the hashes of rows in any order, with a separate sum for each group of columns.

    `parts` lists the columns of each sum.
    """

    def __init__(self, parts: Sequence[tuple[str, Sequence[str]]]) -> None:
        self._parts = tuple(parts)
        self._rows = 0
        self._totals = [np.uint64(0)] * len(self._parts)

    def add(self, rows: pa.Table) -> None:
        self._rows += rows.num_rows
        for number, (_, columns) in enumerate(self._parts):
            for hashes in row_hashes(rows.select(list(columns))):
                # Numpy warns about overflow of scalars, but not of arrays.
                pair = np.array([self._totals[number], hashes.sum(dtype=np.uint64)])
                self._totals[number] = pair.sum(dtype=np.uint64)

    def sums(self) -> Sums:
        totals = zip(self._parts, self._totals, strict=True)
        return Sums(self._rows, tuple((name, int(total)) for (name, _), total in totals))


def row_hashes(rows: pa.Table) -> Iterator[np.ndarray]:
    """A 64-bit hash for each row, block by block; equal rows have equal hashes."""
    weights = [_seed(name) for name in rows.column_names]
    for batch in rows.to_batches(max_chunksize=_BLOCK_ROWS):
        if batch.num_rows == 0:
            continue
        total = np.zeros(batch.num_rows, dtype=np.uint64)
        for weight, values in zip(weights, batch.columns, strict=True):
            total += _words_of(values) * weight
        yield _mixed(total)


def _words_of(values: pa.Array) -> np.ndarray:
    """A 64-bit hash for each value."""
    values = _plain(values)
    nulls = _nulls(values)
    if _is_text(values.type):
        words = _text_words(*_text(values))
    elif _is_nested(values.type):
        words = _nested_words(*_nested(values), len(values))
    elif pa.types.is_null(values.type):
        words = np.zeros(len(values), dtype=np.uint64)
    else:
        words = _fixed_words(_fixed(values, nulls).reshape(len(values), -1))
    if len(nulls):
        words[nulls] = _NULL
    return words


def _fixed_words(data: np.ndarray) -> np.ndarray:
    width = data.shape[1]
    if width in (1, 2, 4):
        return data.view(f"<u{width}")[:, 0].astype(np.uint64)
    if width == 8:
        return _folded(data.view("<u8")[:, 0])
    padded = np.zeros((len(data), -(-width // 8) * 8), dtype=np.uint8)
    padded[:, :width] = data
    total = np.zeros(len(data), dtype=np.uint64)
    for number, words in enumerate(padded.view("<u8").T):
        total += _mixed(words + _place(number))
    return total


def _text_words(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    offsets = offsets.astype(np.int64)
    first, starts, lengths = offsets[0], offsets[:-1] - offsets[0], np.diff(offsets)
    padded = np.zeros((int(offsets[-1] - first) // 8 + 2) * 8, dtype=np.uint8)
    padded[: offsets[-1] - first] = data[first : offsets[-1]]
    words = padded.view("<u8")
    total = lengths.astype(np.uint64) * _LENGTH
    longest = int(lengths.max())
    for number in range(min(_MOST_WORDS, -(-longest // 8))):
        rest = lengths - 8 * number
        chosen = slice(None) if rest.min() > 0 else np.flatnonzero(rest > 0)
        rest = rest[chosen]
        found = _word_at(words, starts[chosen] + 8 * number)
        if rest.min() < 8:
            found &= _MASKS.take(np.minimum(rest, 8))
        total[chosen] += _folded(found) * _PLACES[number]
    if longest > 8 * _MOST_WORDS:
        for row in np.flatnonzero(lengths > 8 * _MOST_WORDS).tolist():
            begin = int(starts[row]) + 8 * _MOST_WORDS
            tail = xxh3_64_intdigest(padded[begin : int(starts[row] + lengths[row])].data)
            total[row : row + 1] += np.uint64(tail)
    return _mixed(total)


def _word_at(words: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The eight bytes at any offset of an array of 64-bit words."""
    places = starts >> 3
    shifts = ((starts & 7) << 3).astype(np.uint64)
    low = words.take(places) >> shifts
    # A shift by all 64 bits must give zero.
    low |= words.take(places + 1) << (np.uint64(64) - shifts)
    return low


def _nested_words(
    lengths: np.ndarray | None, children: Sequence[pa.Array], count: int
) -> np.ndarray:
    size = count if lengths is None else int(lengths.sum())
    total = np.zeros(size, dtype=np.uint64)
    for number, child in enumerate(children):
        if size:
            total += _words_of(child) * _place(number)
    if lengths is None:
        return _mixed(total)
    ends = np.cumsum(lengths)
    # An element's hash includes its place in its list.
    places = np.arange(size) - np.repeat(ends - lengths, lengths)
    # The place enters before the mixing, so that swapped elements change the hash.
    sums = np.append(np.uint64(0), np.cumsum(_mixed(total + _mixed(places.astype(np.uint64)))))
    found: np.ndarray = sums[ends] - sums[ends - lengths] + lengths.astype(np.uint64) * _LENGTH
    return found


# --- what values are made of --------------------------------------------------------------------


def _plain(values: pa.Array) -> pa.Array:
    """The values as bytes, text, lists, maps or structs, without other Arrow types."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return values.cast(pa.uint8())
    if pa.types.is_dictionary(kind):
        return _plain(values.dictionary_decode())
    if isinstance(values, pa.ExtensionArray):
        return _plain(values.storage)
    if pa.types.is_string_view(kind):
        return values.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return values.cast(pa.large_binary())
    return values


def _nulls(values: pa.Array) -> np.ndarray:
    """Positions of nulls."""
    if values.null_count == 0:
        return np.empty(0, dtype=np.int64)
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    return np.flatnonzero(missing).astype(np.int64)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def _is_nested(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_struct(kind)
        or pa.types.is_map(kind)
        or pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
    )


def _fixed(values: pa.Array, nulls: np.ndarray) -> np.ndarray:
    """The bytes of fixed-width values, with zeros for nulls."""
    width = values.type.bit_width // 8
    stored = np.frombuffer(values.buffers()[1], dtype=np.uint8)
    data = stored[values.offset * width : (values.offset + len(values)) * width]
    if len(nulls) == 0:
        return data
    cleared = data.reshape(-1, width).copy()
    cleared[nulls] = 0
    return cleared.reshape(-1)


def _text(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The offsets and bytes of texts; nulls are empty."""
    _, offsets, data = values.buffers()
    large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    every = np.frombuffer(offsets, dtype=np.int64 if large else np.int32)
    found = every[values.offset : values.offset + len(values) + 1]
    if values.null_count and np.diff(found)[_nulls(values)].any():
        return _text(_rebuilt(values))
    return found, np.frombuffer(data or b"", dtype=np.uint8)


def _nested(values: pa.Array) -> tuple[np.ndarray | None, list[pa.Array]]:
    """The number of elements of each value and the elements; for a struct, its fields."""
    if pa.types.is_struct(values.type):
        return None, values.flatten()
    offsets = values.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    if values.null_count and lengths[_nulls(values)].any():
        return _nested(_rebuilt(values))
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    children = [values.values]
    if pa.types.is_map(values.type):
        children = [values.keys, values.items]
    return lengths, [child.slice(first, count) for child in children]


def _rebuilt(values: pa.Array) -> pa.Array:
    """The same values, without values beneath nulls."""
    return values.take(pa.array(np.arange(len(values))))


# --- numbers ------------------------------------------------------------------------------------


def _folded(words: np.ndarray) -> np.ndarray:
    """Fold the upper half of each number into the lower half.

    A product carries bits upwards only: a number with trailing zero bits, such as a round floating
    number, would lose most of its factor.
    """
    folded: np.ndarray = words ^ (words >> np.uint64(32))
    return folded


def _mixed(words: np.ndarray) -> np.ndarray:
    """Mix numbers so that each bit depends on all bits (the finalizer of MurmurHash3)."""
    mixed: np.ndarray = words ^ (words >> np.uint64(33))
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    mixed ^= mixed >> np.uint64(33)
    mixed *= np.uint64(0xC4CEB9FE1A85EC53)
    mixed ^= mixed >> np.uint64(33)
    return mixed


def _seed(name: str) -> np.uint64:
    """An odd number that differs by name."""
    return np.uint64(xxh3_64_intdigest(name.encode()) | 1)


def _place(number: int) -> np.uint64:
    return _seed(f"place {number}")


_NULL = _seed("null")
_LENGTH = _seed("length")
_PLACES: Any = np.array([_place(number) for number in range(_MOST_WORDS)])
# Masks of a word's bytes that belong to a text with that many bytes left.
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)
