"""Parts of a buffer: copied into an Arrow column, or told apart by a number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

_WORD_BYTES = 8
# The bits of the golden ratio, which spread those of what they are multiplied with.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


def joined(parts: Sequence[bytes]) -> pa.LargeBinaryArray:
    """Parts as a column; Arrow would load pandas to look at a list."""
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(pa.large_binary(), len(parts), buffers)


def sliced(data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> pa.LargeBinaryArray:
    """The bytes of a buffer between some positions, copied; the positions may be in any order."""
    # Arrow copies every second value of an array in which the gaps and the values between them take
    # turns. A gap may have a negative length: Arrow looks at the first and the last offset only.
    bounds = np.empty(2 * len(begins) + 2, np.int64)
    bounds[0], bounds[-1] = 0, len(data)
    bounds[1:-1:2], bounds[2:-1:2] = begins, ends
    array: pa.LargeBinaryArray = pa.Array.from_buffers(
        pa.large_binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return array.take(pa.array(np.arange(1, len(bounds) - 1, 2)))


def array_spans(array: pa.LargeBinaryArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The buffer of a column, and where in it the values begin and end."""
    _, offsets, held = array.buffers()
    if not len(array):
        # Such an array may have no buffers.
        nowhere = np.zeros(0, np.int64)
        return np.zeros(0, np.uint8), nowhere, nowhere
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    data = np.zeros(0, np.uint8) if held is None else np.frombuffer(held, np.uint8)
    return data, bounds[:-1], bounds[1:]


def end_with(data: np.ndarray, begins: np.ndarray, ends: np.ndarray, ending: bytes) -> np.ndarray:
    """Whether parts of a buffer end with eight bytes."""
    found: np.ndarray = ends - begins >= _WORD_BYTES
    found[found] = _words(data, ends[found] - _WORD_BYTES) == int.from_bytes(ending, "little")
    return found


def keys_of(data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """A number for each part of a buffer: parts with different numbers are different."""
    lengths = ends - begins
    keys: np.ndarray = lengths.astype(np.uint64) * _FACTOR
    if not len(keys):
        return keys
    for index in range(int(lengths.max()) // _WORD_BYTES):
        there = np.flatnonzero(lengths >= (index + 1) * _WORD_BYTES)
        _mix(keys, there, _words(data, begins[there] + index * _WORD_BYTES))
    # The last bytes once more, since a word may begin among them; short parts byte by byte.
    long_enough = np.flatnonzero(lengths >= _WORD_BYTES)
    _mix(keys, long_enough, _words(data, ends[long_enough] - _WORD_BYTES))
    for index in range(min(int(lengths.max()), _WORD_BYTES - 1)):
        there = np.flatnonzero((lengths > index) & (lengths < _WORD_BYTES))
        if len(there):
            _mix(keys, there, data[begins[there] + index].astype(np.uint64))
    return keys


def _words(data: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The eight bytes from each position, as a number."""
    if len(data) < _WORD_BYTES:
        return np.zeros(0, np.uint64)
    words = np.ndarray(len(data) - _WORD_BYTES + 1, "<u8", data, strides=(1,))
    found: np.ndarray = words[at]
    return found


def _mix(keys: np.ndarray, there: np.ndarray, words: np.ndarray) -> None:
    mixed = (keys[there] ^ words) * _FACTOR
    keys[there] = mixed ^ (mixed >> _HALF)
