"""Timestamps of ORC files, decoded without the nanoseconds of Arrow's reader.

Arrow's reader fails on a column with a timestamp before 1677 or after 2262. This decoder reads the
two streams of such a column: seconds since 2015, and nanoseconds. It also reads what Arrow's reader
does not give: the statistics of whole numbers, the calendar, and the time zones of the writer.

Source: Apache ORC specification v1, chapters File Tail, Run Length Encoding, Column Encodings.
Rare encodings (run lengths of version 0, zones, members of rows) are not implemented.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_TIMESTAMPS = (9, 18)
_WHOLE_NUMBERS = (1, 2, 3, 4)
_PRESENT, _DATA, _SECONDARY = 0, 1, 5
_DIRECT_V2 = 2
_SECONDS_TO_2015 = 1_420_070_400
# The microseconds of this many seconds, before or after 2015, fit into 64 bits.
_MOST_SECONDS = 2**63 // 1_000_000 - 2 * _SECONDS_TO_2015
_TAIL_BYTES = 16 * 1024
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_ZONES = ("", "UTC", "GMT", "Etc/UTC", "Z")


# The errors that damaged bytes raise.
_DAMAGE = (LookupError, StopIteration, ValueError, ArithmeticError, zlib.error, zstd.ZstdError)


class NotDecoded(ValueError):
    """The file is damaged, or uses an encoding that is not implemented; the message says which."""


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except NotDecoded:
        raise
    except _DAMAGE as error:
        raise NotDecoded(f"damaged bytes ({error!r})") from error
    except OSError as error:
        # Errors of the operating system have a number; errors of decoders have none.
        if error.errno is not None:
            raise
        raise NotDecoded(f"damaged bytes ({error!r})") from error


@dataclass(frozen=True, slots=True)
class _Stripe:
    offset: int
    index_bytes: int
    data_bytes: int
    footer_bytes: int
    row_count: int


class OrcTimestamps:
    """Timestamp columns of one ORC file that is open."""

    def __init__(self, source: IO[bytes]) -> None:
        """Read the file's tail.

        Raises:
            NotDecoded: the tail is damaged, or uses an encoding that is not implemented.
        """
        self._source = source
        with _told():
            self._read_tail()

    def _read_tail(self) -> None:
        source = self._source
        size = source.seek(0, 2)
        tail = self._bytes(max(0, size - _TAIL_BYTES), min(size, _TAIL_BYTES))
        postscript = _fields(tail[-1 - tail[-1] : -1])
        footer_bytes = _number(postscript, 1)
        self._block_bytes = _number(postscript, 3)
        self._decompress = _codec(_number(postscript, 2))
        end = size - 1 - tail[-1]
        footer = _fields(self._plain(self._bytes(end - footer_bytes, footer_bytes)))
        self._metadata = (end - footer_bytes - _number(postscript, 5), _number(postscript, 5))
        self._stripes = [_stripe(each) for each in footer.get(3, [])]
        # 0 if the writer names none; values are in `hybrid_calendar`.
        self.calendar = _number(footer, 11)
        types = [_fields(_message(each)) for each in footer.get(4, [])]
        self._columns = _packed(types[0])
        self._kinds = [_number(each, 1) for each in types]

    @property
    def row_counts(self) -> list[int]:
        """The rows of each stripe."""
        return [stripe.row_count for stripe in self._stripes]

    def bounds(self, columns: Sequence[int]) -> list[dict[int, tuple[int, int]]]:
        """For each stripe the least and the greatest whole number of columns that have some.

        Raises:
            NotDecoded: the file is damaged.
        """
        with _told():
            data = self._plain(self._bytes(*self._metadata))
            stripes = [_fields(_message(each)).get(1, []) for each in _fields(data).get(1, [])]
            if len(stripes) != len(self._stripes):
                return [{} for _ in self._stripes]
            return [self._stripe_bounds(stripe, columns) for stripe in stripes]

    def _stripe_bounds(
        self, found: Sequence[int | bytes], columns: Sequence[int]
    ) -> dict[int, tuple[int, int]]:
        bounds = {}
        for column in columns:
            identity = self._columns[column]
            told = _fields(_message(found[identity])).get(2)
            if told is None or self._kinds[identity] not in _WHOLE_NUMBERS:
                continue
            numbers = _fields(_message(told[-1]))
            if 1 in numbers and 2 in numbers:
                bounds[column] = (_signed(_number(numbers, 1)), _signed(_number(numbers, 2)))
        return bounds

    def is_timestamp(self, column: int) -> bool:
        """Whether the column at that place is a timestamp that this decoder reads.

        Raises:
            NotDecoded: the file is damaged.
        """
        with _told():
            return self._kinds[self._columns[column]] in _TIMESTAMPS

    def read(self, stripe: int, column: int) -> pa.Array:
        """A column of a stripe in microseconds.

        Raises:
            NotDecoded: a value has nanoseconds or does not fit into 64-bit microseconds, or the
                stripe is damaged or uses an encoding that is not implemented.
        """
        with _told():
            return self._column(stripe, column)

    def zones(self) -> frozenset[str]:
        """The time zones in which the stripes were written.

        Raises:
            NotDecoded: a stripe is damaged.
        """
        with _told():
            found = (_zone(self._stripe_footer(stripe)) for stripe in self._stripes)
            return frozenset(zone for zone in found if zone)

    def _stripe_footer(self, where: _Stripe) -> _Fields:
        start = where.offset + where.index_bytes + where.data_bytes
        return _fields(self._plain(self._bytes(start, where.footer_bytes)))

    def _column(self, stripe: int, column: int) -> pa.Array:
        where, identity = self._stripes[stripe], self._columns[column]
        footer = self._stripe_footer(where)
        zone = _zone(footer)
        encodings = [_number(_fields(_message(each)), 1) for each in footer.get(2, [])]
        if zone not in _ZONES or encodings[identity] != _DIRECT_V2:
            raise NotDecoded(f"timestamps of the zone {zone!r} or of another encoding")
        streams = self._streams(footer, where.offset, identity)
        valid = np.ones(where.row_count, bool)
        if _PRESENT in streams:
            valid = _bits(streams[_PRESENT], where.row_count)
        count = int(valid.sum())
        seconds = np.array(_run_lengths(streams[_DATA], count, signed=True), np.int64)
        parts = np.array(_run_lengths(streams[_SECONDARY], count, signed=False), np.int64)
        micros = np.zeros(where.row_count, np.int64)
        micros[valid] = _micros(seconds, parts)
        return pa.array(micros, pa.int64(), mask=~valid).cast(pa.timestamp("us"))

    def _streams(self, footer: _Fields, offset: int, identity: int) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for part in footer.get(1, []):
            stream = _fields(_message(part))
            length = _number(stream, 3)
            if _number(stream, 2) == identity and _number(stream, 1) in (0, 1, 5):
                found[_number(stream, 1)] = self._plain(self._bytes(offset, length))
            offset += length
        return found

    def _bytes(self, start: int, length: int) -> bytes:
        self._source.seek(start)
        return self._source.read(length)

    def _plain(self, data: bytes) -> bytes:
        """The chunks of a stream, decompressed."""
        if self._decompress is None:
            return data
        parts, start = [], 0
        while start < len(data):
            head = int.from_bytes(data[start : start + 3], "little")
            chunk = data[start + 3 : start + 3 + (head >> 1)]
            parts.append(chunk if head & 1 else self._decompress(chunk, self._block_bytes))
            start += 3 + len(chunk)
        return b"".join(parts)


def _micros(since_2015: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Microseconds since 1970 of seconds since 2015 and what is beyond them."""
    # The last three bits count the decimal zeros removed, less one; 0 stands for none.
    zeros = parts & 7
    nanos = (parts >> 3) * np.where(zeros, 10 ** (zeros + 1), 1)
    if np.any((nanos < 0) | (nanos > 999_999_999)):
        raise NotDecoded("damaged fractions of seconds")
    if np.any(nanos % 1000):
        raise NotDecoded(
            "timestamps with nanoseconds in one column with timestamps outside of "
            "the years 1677 to 2262"
        )
    if np.any((since_2015 > _MOST_SECONDS) | (since_2015 < -_MOST_SECONDS)):
        raise NotDecoded("timestamps outside of the range of 64-bit microseconds")
    seconds = since_2015 + _SECONDS_TO_2015
    # Writers cut seconds toward 1970, but store a positive fraction, also before 1970.
    seconds = seconds - ((seconds < 0) & (nanos > 999_999))
    micros: np.ndarray = seconds * 1_000_000 + nanos // 1000
    return micros


# --- compression -------------------------------------------------------------------------------


def _codec(number: int) -> Callable[[bytes, int], bytes] | None:
    match number:
        case 0:
            return None
        case 1:
            return lambda chunk, _: zlib.decompress(chunk, -15)
        case 2:
            snappy = pa.Codec("snappy")
            return lambda chunk, _: bytes(snappy.decompress(chunk, _varint(chunk, 0)[0]))
        case 4:
            return _lz4
        case 5:
            return lambda chunk, _: zstd.decompress(chunk)
    raise NotDecoded(f"compression {number}")


def _lz4(chunk: bytes, most: int) -> bytes:
    """Decompress a raw LZ4 block, which lacks the length that Arrow's codec requires."""
    result = bytearray()
    at = 0
    while at < len(chunk) and len(result) <= most:
        token = chunk[at]
        literals, at = _lz4_length(chunk, at + 1, token >> 4)
        result += chunk[at : at + literals]
        at += literals
        if at >= len(chunk):
            break
        back = int.from_bytes(chunk[at : at + 2], "little")
        length, at = _lz4_length(chunk, at + 2, token & 15)
        length += 4
        start = len(result) - back
        if not 0 <= start < len(result):
            raise NotDecoded("a damaged block")
        pattern = bytes(result[start:])
        result += (pattern * (length // len(pattern) + 1))[:length]
    return bytes(result)


def _lz4_length(chunk: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while True:
            length += chunk[at]
            at += 1
            if chunk[at - 1] != 255:
                break
    return length, at


# --- protocol buffers --------------------------------------------------------------------------

_Fields = dict[int, list[int | bytes]]


def _fields(data: bytes) -> _Fields:
    """The fields of a protobuf message by number: integers, or bytes of length-delimited fields."""
    found: _Fields = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value: int | bytes
        match key & 7:
            case 0:
                value, at = _varint(data, at)
            case 1:
                value, at = data[at : at + 8], at + 8
            case 2:
                length, at = _varint(data, at)
                value, at = data[at : at + length], at + length
            case 5:
                value, at = data[at : at + 4], at + 4
            case _:
                raise NotDecoded("a damaged footer")
        found.setdefault(key >> 3, []).append(value)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _number(fields: _Fields, number: int) -> int:
    value = fields.get(number, [0])[-1]
    return value if isinstance(value, int) else 0


def _message(value: int | bytes) -> bytes:
    return value if isinstance(value, bytes) else b""


def _zone(stripe_footer: _Fields) -> str:
    """The time zone of a stripe's writer, empty if it does not matter."""
    return b"".join(map(_message, stripe_footer.get(3, []))).decode("utf-8", "replace")


def _stripe(value: int | bytes) -> _Stripe:
    fields = _fields(_message(value))
    return _Stripe(*(_number(fields, number) for number in range(1, 6)))


def _packed(root: _Fields) -> list[int]:
    """The type ids of the root row's columns."""
    found: list[int] = []
    for value in root.get(2, []):
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            found.append(number)
    return found


# --- run lengths -------------------------------------------------------------------------------


def _bits(data: bytes, count: int) -> np.ndarray:
    found = bytearray()
    at = 0
    while len(found) * 8 < count:
        control = data[at]
        if control < 128:
            found += data[at + 1 : at + 2] * (control + 3)
            at += 2
        else:
            found += data[at + 1 : at + 1 + 256 - control]
            at += 1 + 256 - control
    return np.unpackbits(np.frombuffer(found, np.uint8))[:count].astype(bool)


def _run_lengths(data: bytes, count: int, *, signed: bool) -> list[int]:
    """Integers decoded from run-length encoding version 2."""
    found: list[int] = []
    at = 0
    while len(found) < count:
        values, at = _run(data, at, signed=signed)
        found += values
    return found[:count]


def _run(data: bytes, at: int, *, signed: bool) -> tuple[list[int], int]:
    head = data[at]
    kind = head >> 6
    if kind == 0:
        width = (head >> 3 & 7) + 1
        value = int.from_bytes(data[at + 1 : at + 1 + width], "big")
        return [_signed(value) if signed else value] * ((head & 7) + 3), at + 1 + width
    width = _WIDTHS[head >> 1 & 31]
    length = ((head & 1) << 8 | data[at + 1]) + 1
    if kind == 1:
        values, at = _unpacked(data, at + 2, length, width)
        return list(map(_signed, values)) if signed else values, at
    if kind == 2:
        return _patched(data, at + 2, length, width)
    base, at = _varint(data, at + 2)
    step, at = _varint(data, at)
    base, step = (_signed(base) if signed else base), _signed(step)
    if head >> 1 & 31 == 0:
        return [base + step * number for number in range(length)], at
    steps, at = _unpacked(data, at, length - 2, width)
    values = [base, base + step]
    for each in steps:
        values.append(values[-1] + (-each if step < 0 else each))
    return values[:length], at


def _patched(data: bytes, at: int, length: int, width: int) -> tuple[list[int], int]:
    """Decode "patched base": offsets from a base, with extra high bits for a few large ones."""
    base_bytes, patch_width = (data[at] >> 5) + 1, _WIDTHS[data[at] & 31]
    gap_width, patches = (data[at + 1] >> 5) + 1, data[at + 1] & 31
    base = int.from_bytes(data[at + 2 : at + 2 + base_bytes], "big")
    sign = 1 << (base_bytes * 8 - 1)
    base = -(base - sign) if base & sign else base
    values, at = _unpacked(data, at + 2 + base_bytes, length, width)
    entry_width = next(each for each in _WIDTHS if each >= gap_width + patch_width)
    entries, at = _unpacked(data, at, patches, entry_width)
    place = 0
    for entry in entries:
        place += entry >> patch_width
        values[place] |= (entry & (1 << patch_width) - 1) << width
    return [base + value for value in values], at


def _unpacked(data: bytes, at: int, count: int, width: int) -> tuple[list[int], int]:
    size = (count * width + 7) // 8
    bits = int.from_bytes(data[at : at + size], "big") >> (size * 8 - count * width)
    mask = (1 << width) - 1
    return [bits >> (count - 1 - each) * width & mask for each in range(count)], at + size


def _signed(value: int) -> int:
    return (value >> 1) ^ -(value & 1)
