"""Finds the fields of all records of an Avro container file at once.

An Avro record does not state its length, so its fields are found one after the other. Blocks are
independent: one step finds the next field in every block of the file, by operations on arrays. What
is found is where the wanted fields begin; values are decoded on use, for the records asked for.

1. Decompress the blocks into one buffer.
2. Step through the records of all blocks, record by record, field by field.
3. Check that every block ends with its last record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.avro_container import Header, packed_blocks, unpack_blocks
from lakewright.storage.codec.byte_slices import sliced

# Bytes after the last block, so that eight bytes can be read wherever a field begins.
_PADDING = bytes(16)
_INTEGERS = ("int", "long")
_TEXTS = ("string", "bytes")
_FIXED_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
# Offsets take four bytes each.
_MOST_BYTES = (1 << 32) - 1 - len(_PADDING)

# The second branch of a union, as a number is encoded.
_BRANCH_1 = 2

_STOP_BITS = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)
# Four present numbers of one byte each: the branch 1 of a union, and a byte without a stop bit.
_FOUR_MASK, _FOUR_PRESENT = np.uint64(0x80FF80FF80FF80FF), np.uint64(0x0002000200020002)
# Groups of seven bits move together: pairs, then pairs of pairs, then the two halves.
_GATHERING = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)

Positions: TypeAlias = np.ndarray
# From the positions of a value, and the numbers of its records, to the positions after it.
_Skip: TypeAlias = Callable[[Positions, Positions], Positions]


class UnknownLayout(ValueError):
    """The file needs another decoder: it is damaged, or its schema has a form not known here."""


@dataclass(frozen=True)
class RecordPositions:
    """Where the records of a file and their wanted fields begin, in the decompressed `data`.

    `bounds` has one more element than there are records. `fields` are by dotted name; a field that
    the writer does not know is not there. `types` are the fields' Avro types.
    """

    schema: Any
    data: np.ndarray
    bounds: np.ndarray
    fields: Mapping[str, np.ndarray]
    types: Mapping[str, Any]

    @cached_property
    def words(self) -> np.ndarray:
        """At each position the eight bytes from there, as a little-endian number."""
        return np.ndarray(len(self.data) - 7, "<u8", self.data, strides=(1,))

    def numbers(self, at: Positions) -> np.ndarray:
        """The numbers that begin at some positions."""
        return self._numbers(at)[0]

    def present(self, at: Positions) -> np.ndarray:
        """Whether unions hold a value, which then begins at the next byte."""
        found: np.ndarray = self.data.take(at) == _BRANCH_1
        return found

    def after(self, kind: Any, at: Positions) -> Positions:
        """The positions after values of an Avro type."""
        return _Walk(self.data, {}).of_value(kind)(at, at) if len(at) else at

    def after_items(self, items: Any, at: Positions, count: int) -> Positions:
        """The positions after so many elements of arrays of an Avro type."""
        return _Walk(self.data, {}).of_items(items)(at, at, count) if len(at) else at

    def texts(self, at: Positions) -> tuple[np.ndarray, np.ndarray]:
        """Where texts begin and end whose lengths begin at some positions."""
        lengths, begins = self._numbers(at)
        ends = begins + lengths
        if len(ends) and (lengths.min() < 0 or ends.max() > len(self.data)):
            raise UnknownLayout("a length leads out of the file")
        return begins, ends

    def _numbers(self, at: Positions) -> tuple[np.ndarray, Positions]:
        return _numbers(self.data, self.words, at)

    def take(self, rows: np.ndarray) -> RecordPositions:
        """Some of the records, with a buffer of their own."""
        begins, ends = self.bounds[rows].astype(np.int64), self.bounds[rows + 1].astype(np.int64)
        held = sliced(self.data, begins, ends)
        bounds = np.concatenate([[0], np.cumsum(ends - begins)])
        data = np.frombuffer(_bytes_of(held) + _PADDING, np.uint8)
        moved = bounds[:-1] - begins
        fields = {
            name: (at[rows].astype(np.int64) + moved).astype(np.uint32)
            for name, at in self.fields.items()
        }
        return RecordPositions(self.schema, data, bounds.astype(np.uint32), fields, self.types)

    @property
    def size_bytes(self) -> int:
        """The memory of the records and their positions."""
        return sum(each.nbytes for each in (self.data, self.bounds, *self.fields.values()))

    def record_bytes(self, row: int) -> bytes:
        """One encoded record."""
        found: bytes = self.data[self.bounds[row] : self.bounds[row + 1]].tobytes()
        return found


def _bytes_of(array: pa.LargeBinaryArray) -> bytes:
    data = array.buffers()[2]
    return b"" if data is None else bytes(data)


def find_records(
    data: bytes, wanted: Sequence[str], *, least_blocks: int
) -> RecordPositions | None:
    """The records of a container file; None if it has fewer blocks, for which this does not pay.

    Raises:
        UnknownLayout: the file is damaged, or not of a form that this decoder knows.
    """
    header, blocks, counts = packed_blocks(data, path="")
    if len(blocks) < least_blocks:
        return None
    return find_in_blocks(blocks, counts, header, wanted)


def find_in_blocks(
    blocks: Sequence[bytes], counts: Sequence[int], header: Header, wanted: Sequence[str]
) -> RecordPositions:
    """The records of compressed blocks, of which each has so many; they may be of several files.

    Raises:
        UnknownLayout: as for `find_records`.
    """
    unpacked, sizes = unpack_blocks(blocks, header, padding=_PADDING, path="")
    return _found(header.schema, unpacked, sizes, np.array(counts, np.int64), wanted)


def _found(
    schema: Any, data: np.ndarray, sizes: np.ndarray, counts: np.ndarray, wanted: Sequence[str]
) -> RecordPositions:
    if sizes.sum() > _MOST_BYTES:
        raise UnknownLayout("the file is too large")
    total = int(counts.sum())
    found = {name: np.zeros(total, np.uint32) for name in wanted}
    walk = _Walk(data, found)
    skip = walk.of_record(schema, "")
    bounds = np.zeros(total + 1, np.uint32)
    # Blocks with the most records come first, so that those with a next record are a prefix.
    order = np.argsort(-counts, kind="stable")
    ends = np.cumsum(sizes)
    at = (ends - sizes)[order]
    first = (np.cumsum(counts) - counts)[order]
    negative = -counts[order]
    for step in range(int(counts.max(initial=0))):
        active = int(np.searchsorted(negative, -step, side="left"))
        rows = first[:active] + step
        at[:active] = skip(at[:active], rows)
        bounds[rows + 1] = at[:active]
    if not np.array_equal(at, ends[order]):
        raise UnknownLayout("a block does not end with its last record")
    held = {name: found[name] for name in walk.types}
    return RecordPositions(schema, data, bounds, held, walk.types)


class _Walk:
    """Makes the functions that step over values, by their Avro types."""

    def __init__(self, data: np.ndarray, found: Mapping[str, np.ndarray]) -> None:
        self._data = data
        self._words = np.ndarray(len(data) - 7, "<u8", data, strides=(1,))
        self._found = found
        self.types: dict[str, Any] = {}

    def of_record(self, schema: Any, prefix: str) -> _Skip:
        if _holds_record(schema):
            # Java declares records as if they could be null.
            return self._present(self.of_record(schema[1], prefix))
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise UnknownLayout("it holds no records")
        steps = [
            self._field(f"{prefix}{field['name']}", field["type"]) for field in schema["fields"]
        ]

        def skip(at: Positions, rows: Positions) -> Positions:
            for step in steps:
                at = step(at, rows)
            return at

        return skip

    def _field(self, name: str, kind: Any) -> _Skip:
        if _holds_record(kind) or (isinstance(kind, dict) and kind.get("type") == "record"):
            return self.of_record(kind, f"{name}.")
        skip = self.of_value(kind)
        if name not in self._found:
            return skip
        self.types[name] = kind
        target = self._found[name]

        def kept(at: Positions, rows: Positions) -> Positions:
            target[rows] = at
            return skip(at, rows)

        return kept

    def of_value(self, kind: Any) -> _Skip:
        if isinstance(kind, list):
            return self._optional(kind)
        if isinstance(kind, dict):
            match kind.get("type"):
                case "array":
                    return self._array(kind["items"])
                case "record":
                    return self.of_record(kind, ".")
                case inner:
                    return self.of_value(inner)
        if kind in _INTEGERS:
            return lambda at, _: _after_numbers(self._data, self._words, at)
        if kind in _TEXTS:
            return lambda at, _: self._after_texts(at)
        if kind in _FIXED_BYTES:
            width = _FIXED_BYTES[kind]
            return lambda at, _: at + width
        raise UnknownLayout(f"it has the type {kind!r}")

    def _after_texts(self, at: Positions) -> Positions:
        lengths, after = _numbers(self._data, self._words, at)
        if lengths.min() < 0:
            raise UnknownLayout("a length is negative")
        ends: Positions = after + lengths
        return ends

    def _present(self, inner: _Skip) -> _Skip:
        def skip(at: Positions, rows: Positions) -> Positions:
            if not (self._data.take(at) == _BRANCH_1).all():
                raise UnknownLayout("a record is null")
            return inner(at + 1, rows)

        return skip

    def _optional(self, kind: list[Any]) -> _Skip:
        if len(kind) != 2 or kind[0] != "null":
            raise UnknownLayout(f"it has the union {kind!r}")
        inner = self.of_value(kind[1])

        def skip(at: Positions, rows: Positions) -> Positions:
            branch = self._data.take(at)
            after = at + 1
            least, most = branch.min(), branch.max()
            if most == 0:
                return after
            if least == most == _BRANCH_1:
                return inner(after, rows)
            present = np.flatnonzero(branch)
            if not (branch[present] == _BRANCH_1).all():
                raise UnknownLayout("a union has an unknown branch")
            after[present] = inner(after[present], rows[present])
            return after

        return skip

    def _array(self, items: Any) -> _Skip:
        several = self.of_items(items)

        def skip(at: Positions, rows: Positions) -> Positions:
            counts, after = _numbers(self._data, self._words, at)
            least, most = int(counts.min()), int(counts.max())
            if least < 0:
                raise UnknownLayout("an array tells its size in bytes")
            if least == most:
                if least == 0:
                    return after
                return skip(several(after, rows, least), rows)
            # Of arrays that differ, the shortest go on together.
            filled = np.flatnonzero(counts)
            there, left, some = after[filled], counts[filled], rows[filled]
            while len(there):
                shortest = int(left.min())
                there = several(there, some, shortest)
                left = left - shortest
                ended = left == 0
                after[filled[ended]] = skip(there[ended], some[ended])
                filled, there, left, some = (each[~ended] for each in (filled, there, left, some))
            return after

        return skip

    def of_items(self, items: Any) -> Callable[[Positions, Positions, int], Positions]:
        inner = self.of_value(items)
        numbers = items in (["null", "int"], ["null", "long"])

        def skip(at: Positions, rows: Positions, count: int) -> Positions:
            while numbers and count >= 4 and self._are_four(at):
                at, count = at + 8, count - 4
            for _ in range(count):
                at = inner(at, rows)
            return at

        return skip

    def _are_four(self, at: Positions) -> bool:
        return bool(((self._words[at] & _FOUR_MASK) == _FOUR_PRESENT).all())


def _holds_record(kind: Any) -> bool:
    """Whether a type is the union of null and a record."""
    return (
        isinstance(kind, list)
        and len(kind) == 2
        and kind[0] == "null"
        and isinstance(kind[1], dict)
        and kind[1].get("type") == "record"
    )


def _after_numbers(data: np.ndarray, words: np.ndarray, at: Positions) -> Positions:
    if not len(at) or data.take(at).max() < 0x80:
        return at + 1
    after: Positions = at + _lengths(_last_bytes(words[at]))
    return after


def _numbers(data: np.ndarray, words: np.ndarray, at: Positions) -> tuple[np.ndarray, Positions]:
    """Numbers that begin at some positions, and the positions after them."""
    byte = data.take(at).astype(np.int64)
    if not len(at) or byte.max() < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    encoded = words[at]
    last = _last_bytes(encoded)
    value = encoded & ((last << _ONE) - _ONE)
    for low, high, shift in _GATHERING:
        value = (value & low) | ((value & high) >> shift)
    signed = (value >> _ONE).astype(np.int64) ^ -(value & _ONE).astype(np.int64)
    return signed, at + _lengths(last)


def _last_bytes(encoded: np.ndarray) -> np.ndarray:
    """The highest bit of the byte that ends each number."""
    stops = ~encoded & _STOP_BITS
    if not stops.all():
        # Nine bytes hold numbers that no file has: 2^55 and more.
        raise UnknownLayout("a number takes more than eight bytes")
    return stops & (~stops + _ONE)


def _lengths(last: np.ndarray) -> np.ndarray:
    return (np.bitwise_count(last - _ONE).astype(np.int64) + 1) >> 3
