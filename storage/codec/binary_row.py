"""BinaryRow: the row bytes of partitions, keys and statistics.

    serialised := arity (int32, big-endian) ++ row
    row        := row kind and null bits | one 8-byte slot per field | variable part

All other integers are little-endian. Source: Paimon `BinaryRow`,
`BinaryRowWriter` and `SerializationUtils`; golden vectors in `tests/golden`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal

from lakewright.storage.errors import CorruptionError
from lakewright.storage.spec.data_types import AtomicType, DataType, TypeRoot
from lakewright.storage.spec.values import EXACT_DECIMALS, NANOS_PER_MILLI, Value

# Decimals up to this precision and timestamps up to this one fit into their slot.
COMPACT_DECIMAL_PRECISION = 18
COMPACT_TIMESTAMP_PRECISION = 3
INLINE_BYTES = 7
_INLINE_MARK = 0x80
_DECIMAL_BYTES = 16

_SLOT_FORMATS = {
    TypeRoot.BOOLEAN: "<?",
    TypeRoot.TINYINT: "<b",
    TypeRoot.SMALLINT: "<h",
    TypeRoot.INT: "<i",
    TypeRoot.DATE: "<i",
    TypeRoot.TIME: "<i",
    TypeRoot.BIGINT: "<q",
    TypeRoot.FLOAT: "<f",
    TypeRoot.DOUBLE: "<d",
}


def null_bits_size(arity: int) -> int:
    """Bytes before the first slot: 8 bits of row kind, then a null bit per field, in words."""
    return (arity + 63 + 8) // 64 * 8


def encode_row(values: Sequence[Value], types: Sequence[DataType]) -> bytes:
    """The serialised row, its arity first; values of nested types are written as null."""
    arity = len(types)
    bits = null_bits_size(arity)
    fixed = bytearray(bits + 8 * arity)
    variable = bytearray()
    for index, (value, data_type) in enumerate(zip(values, types, strict=True)):
        slot = bits + 8 * index
        if value is None or not isinstance(data_type, AtomicType):
            fixed[(index + 8) // 8] |= 1 << ((index + 8) % 8)
            _encode_null(fixed, variable, slot, data_type)
        else:
            _encode_value(fixed, variable, slot, value, data_type)
    return struct.pack(">i", arity) + bytes(fixed) + bytes(variable)


def row_arity(data: bytes) -> int:
    """How many fields a serialised row has.

    Raises:
        CorruptionError: the bytes are too few to say it.
    """
    if len(data) < 4:
        raise CorruptionError(f"a row of {len(data)} bytes lacks the number of its fields")
    return int.from_bytes(data[:4], "big", signed=True)


def decode_row(data: bytes, types: Sequence[DataType], *, first: bool = False) -> tuple[Value, ...]:
    """Values of a serialised row; nested fields come back as None.

    With `first`, the row may have more fields than there are types, and its first are decoded.

    Raises:
        CorruptionError: the bytes hold another number of fields, or end too early.
    """
    arity = row_arity(data)
    if arity < len(types) or (arity > len(types) and not first):
        raise CorruptionError(f"a row has {arity} fields where the schema has {len(types)}")
    row = data[4:]
    if len(row) < null_bits_size(arity) + 8 * arity:
        raise CorruptionError(f"a row of {arity} fields ends after {len(row)} bytes")
    first_slot = null_bits_size(arity)
    return tuple(
        _decode_field(row, index, first_slot + 8 * index, data_type)
        for index, data_type in enumerate(types)
    )


def _encode_null(fixed: bytearray, variable: bytearray, slot: int, data_type: DataType) -> None:
    # A null of these types keeps its bytes in the variable part, since Java updates them in place.
    if not isinstance(data_type, AtomicType):
        return
    if data_type.root is TypeRoot.DECIMAL and data_type.precision > COMPACT_DECIMAL_PRECISION:
        offset = len(fixed) + len(variable)
        variable += bytes(_DECIMAL_BYTES)
        struct.pack_into("<q", fixed, slot, offset << 32)
    elif data_type.root.is_timestamp and data_type.precision > COMPACT_TIMESTAMP_PRECISION:
        offset = len(fixed) + len(variable)
        variable += bytes(8)
        struct.pack_into("<q", fixed, slot, offset << 32)


def _encode_value(
    fixed: bytearray, variable: bytearray, slot: int, value: Value, data_type: AtomicType
) -> None:
    root = data_type.root
    if root in _SLOT_FORMATS:
        struct.pack_into(_SLOT_FORMATS[root], fixed, slot, value)
    elif isinstance(value, str):
        _encode_bytes(fixed, variable, slot, value.encode("utf-8"))
    elif isinstance(value, bytes):
        _encode_bytes(fixed, variable, slot, value)
    elif root is TypeRoot.DECIMAL:
        assert isinstance(value, Decimal)
        unscaled = int(value.scaleb(data_type.scale, EXACT_DECIMALS))
        if data_type.precision <= COMPACT_DECIMAL_PRECISION:
            struct.pack_into("<q", fixed, slot, unscaled)
            return
        digits = unscaled_bytes(unscaled)
        offset = len(fixed) + len(variable)
        variable += digits.ljust(_DECIMAL_BYTES, b"\0")
        struct.pack_into("<q", fixed, slot, offset << 32 | len(digits))
    else:
        assert isinstance(value, int)
        millis, nanos = divmod(value, NANOS_PER_MILLI)
        if data_type.precision <= COMPACT_TIMESTAMP_PRECISION:
            struct.pack_into("<q", fixed, slot, millis)
            return
        offset = len(fixed) + len(variable)
        variable += struct.pack("<q", millis)
        struct.pack_into("<q", fixed, slot, offset << 32 | nanos)


def unscaled_bytes(unscaled: int) -> bytes:
    """Big-endian two's complement in the fewest bytes, as `BigInteger.toByteArray`."""
    length = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return unscaled.to_bytes(length, "big", signed=True)


def _encode_bytes(fixed: bytearray, variable: bytearray, slot: int, data: bytes) -> None:
    if len(data) <= INLINE_BYTES:
        fixed[slot : slot + len(data)] = data
        fixed[slot + 7] = _INLINE_MARK | len(data)
        return
    offset = len(fixed) + len(variable)
    variable += data + bytes(-len(data) % 8)
    struct.pack_into("<q", fixed, slot, offset << 32 | len(data))


def _decode_field(row: bytes, index: int, slot: int, data_type: DataType) -> Value:
    is_null = row[(index + 8) // 8] & (1 << ((index + 8) % 8))
    if is_null or not isinstance(data_type, AtomicType):
        return None
    root = data_type.root
    if root in _SLOT_FORMATS:
        value: Value = struct.unpack_from(_SLOT_FORMATS[root], row, slot)[0]
        return value
    if root.is_text:
        return _decode_text(_decode_bytes(row, slot))
    if root.is_bytes:
        return _decode_bytes(row, slot)
    word: int = struct.unpack_from("<q", row, slot)[0]
    if root is TypeRoot.DECIMAL:
        if data_type.precision <= COMPACT_DECIMAL_PRECISION:
            unscaled = word
        else:
            unscaled = int.from_bytes(
                _slice(row, word >> 32, word & 0xFFFFFFFF), "big", signed=True
            )
        if abs(unscaled) >= 10**data_type.precision:
            raise CorruptionError(f"a row holds a number that does not fit {data_type}")
        return Decimal(unscaled).scaleb(-data_type.scale, EXACT_DECIMALS)
    if data_type.precision <= COMPACT_TIMESTAMP_PRECISION:
        return word * NANOS_PER_MILLI
    (millis,) = struct.unpack("<q", _slice(row, word >> 32, 8))
    return int(millis) * NANOS_PER_MILLI + (word & 0xFFFFFFFF)


def _decode_bytes(row: bytes, slot: int) -> bytes:
    mark = row[slot + 7]
    if mark & _INLINE_MARK:
        length = mark & ~_INLINE_MARK
        if length > INLINE_BYTES:
            raise CorruptionError(f"a row has {length} bytes in a slot that holds {INLINE_BYTES}")
        return row[slot : slot + length]
    (word,) = struct.unpack_from("<q", row, slot)
    return _slice(row, word >> 32, word & 0xFFFFFFFF)


def _decode_text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptionError(f"a row holds {data!r} where text should be") from error


def _slice(row: bytes, offset: int, length: int) -> bytes:
    if offset < 0 or offset + length > len(row):
        raise CorruptionError(
            f"a row of {len(row)} bytes points at {length} bytes from {offset}, past its end"
        )
    return row[offset : offset + length]
