"""Footers of Parquet files, as far as they are changed.

A footer is one structure of Thrift's compact protocol. Only the offsets in it say where the file's
bytes lie, so a copy of row groups from file to file keeps all other bytes of the footer. Indexes of
pages and Bloom filters lie outside of row groups; the copy names none.

Values of INT96 are stored as bytes of the fixed length 12 are, in the same encodings. A footer
that says so gives their bytes to readers that would decode them.

Source: Parquet format 2.11, `parquet.thrift`; Thrift compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

_Bytes: TypeAlias = bytes | bytearray

MAGIC = b"PAR1"
# The length of the footer, and the magic.
TAIL_BYTES = 8

# Types of the compact protocol.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_I64 = 6

_I32 = 5

# Fields of FileMetaData.
_SCHEMA, _ROWS, _GROUPS, _ENCRYPTION = 2, 3, 4, 8
# Fields of SchemaElement and of ColumnMetaData, and types of columns.
_TYPE, _TYPE_LENGTH = 1, 2
_INT96, _FIXED_BYTES, _INT96_BYTES = 3, 7, 12
# Fields of RowGroup.
_COLUMNS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7
# Fields of ColumnChunk; those from 4 to 7 are the places of page indexes, from 8 on of encryption.
_FILE_PATH, _CHUNK_OFFSET, _CHUNK_META, _FIRST_INDEX, _FIRST_CRYPTO = 1, 2, 3, 4, 8
# Fields of ColumnMetaData; 14 and 15 are the place of a Bloom filter.
_CODEC, _COMPRESSED, _DATA, _INDEX, _DICTIONARY, _BLOOM = 4, 7, 9, 10, 11, (14, 15)

CODECS = {"none": 0, "snappy": 1, "gzip": 2, "zstd": 6, "lz4": 7}


class NotCopied(Exception):
    """The row groups of a file cannot be copied as they are; says why."""


@dataclass(frozen=True, slots=True)
class FileFooter:
    """What a copy needs of a footer; `rest` are its other fields, which files must share."""

    rest: tuple[tuple[int, int, bytes], ...]
    row_count: int
    groups: tuple[bytes, ...]
    codecs: frozenset[int]
    # The row groups and nothing else lie from the magic to here.
    end: int


def read_file_footer(data: bytes, *, ends_at: int) -> FileFooter:
    """The footer of a file whose row groups end at most at an offset.

    Raises:
        NotCopied: the file is encrypted, or its row groups lie in other files or elsewhere.
    """
    try:
        return _read(data, ends_at)
    except IndexError:
        raise NotCopied("the footer ends early") from None


def _read(data: bytes, ends_at: int) -> FileFooter:
    rest: list[tuple[int, int, bytes]] = []
    groups: list[bytes] = []
    row_count = 0
    for number, kind, start, end in _fields(data, 0):
        if number == _ROWS:
            row_count = _number(data, start)
        elif number == _GROUPS:
            groups = [data[begin:stop] for begin, stop in _structs(data, start)]
        elif number >= _ENCRYPTION:
            raise NotCopied("the file is encrypted, or of a later format")
        else:
            rest.append((number, kind, data[start:end]))
    ends, codecs = [len(MAGIC)], set()
    for group in groups:
        for begin, _ in _structs(group, _field(group, _COLUMNS)):
            chunk_end, codec = _chunk(group, begin)
            ends.append(chunk_end)
            codecs.add(codec)
    if max(ends) > ends_at:
        raise NotCopied("a column chunk lies outside of the row groups")
    return FileFooter(tuple(rest), row_count, tuple(groups), frozenset(codecs), max(ends))


def _chunk(group: bytes, at: int) -> tuple[int, int]:
    """Where a column chunk ends in the file, and its codec."""
    for number, _, start, _ in _fields(group, at):
        if number == _FILE_PATH or number >= _FIRST_CRYPTO:
            raise NotCopied("a column chunk lies in another file, or is encrypted")
        if number == _CHUNK_META:
            meta = {
                each: _number(group, begin)
                for each, kind, begin, _ in _fields(group, start)
                if kind in _INTEGERS
            }
            begins = [meta[each] for each in (_DATA, _DICTIONARY) if meta.get(each)]
            if not begins or min(begins) < len(MAGIC):
                break
            return min(begins) + meta[_COMPRESSED], meta[_CODEC]
    raise NotCopied("a column chunk has no place")


def joined_footer(footers: Sequence[FileFooter]) -> bytes:
    """The footer of a file that holds the row groups of several files, one after the other.

    The files share `rest`. The bytes of a file from the magic to its `end` follow those of the file
    before.
    """
    groups: list[bytes] = []
    shift = 0
    for footer in footers:
        groups += [
            _moved_group(group, shift, len(groups) + place)
            for place, group in enumerate(footer.groups)
        ]
        shift += footer.end - len(MAGIC)
    fields = [*footers[0].rest]
    fields.append((_ROWS, _I64, _zigzag(sum(each.row_count for each in footers))))
    fields.append((_GROUPS, _LIST, _list(groups)))
    return _struct(sorted(fields))


def footer_with_raw_int96(data: bytes) -> bytes:
    """A footer that calls columns of INT96 bytes of their length."""
    start, end = next(
        (begin, stop) for number, _, begin, stop in _fields(data, 0) if number == _SCHEMA
    )
    elements = _list([_raw_element(data, begin) for begin, _ in _structs(data, start)])
    changed = bytearray(data[:start] + elements + data[end:])
    _call_int96_bytes(changed, 0, [_GROUPS, _COLUMNS, _CHUNK_META, _TYPE])
    return bytes(changed)


def _raw_element(data: bytes, at: int) -> bytes:
    fields = [(number, kind, data[start:end]) for number, kind, start, end in _fields(data, at)]
    if (_TYPE, _I32, _zigzag(_INT96)) not in fields:
        return _struct(fields)
    others = [field for field in fields if field[0] not in (_TYPE, _TYPE_LENGTH)]
    length = (_TYPE_LENGTH, _I32, _zigzag(_INT96_BYTES))
    return _struct([(_TYPE, _I32, _zigzag(_FIXED_BYTES)), length, *others])


def _call_int96_bytes(data: bytearray, at: int, path: Sequence[int]) -> int:
    """Change the type of columns below a structure, in one pass; returns where it ends."""
    wanted, *inside = path
    number = 0
    while head := data[at]:
        kind, number, at = _field_head(data, at, number, head)
        if number != wanted:
            at = _after(data, at, kind)
        elif kind == _LIST:
            count, _, at = _list_head(data, at)
            for _ in range(count):
                at = _call_int96_bytes(data, at, inside)
        elif kind == _STRUCT:
            at = _call_int96_bytes(data, at, inside)
        else:
            if _number(data, at) == _INT96:
                data[at : at + 1] = _zigzag(_FIXED_BYTES)
            at += 1
    return at + 1


def _moved_group(group: bytes, shift: int, place: int) -> bytes:
    fields = []
    for number, kind, start, end in _fields(group, 0):
        value = group[start:end]
        if number == _COLUMNS:
            value = _list(
                [_moved_chunk(group, begin, shift) for begin, _ in _structs(group, start)]
            )
        elif number == _GROUP_OFFSET:
            value = _moved(group, start, shift)
        elif number == _ORDINAL:
            value = _zigzag(place)
        fields.append((number, kind, value))
    return _struct(fields)


def _moved_chunk(group: bytes, at: int, shift: int) -> bytes:
    fields = []
    for number, kind, start, end in _fields(group, at):
        if number >= _FIRST_INDEX:
            continue
        value = group[start:end]
        if number == _CHUNK_OFFSET:
            value = _moved(group, start, shift)
        elif number == _CHUNK_META:
            value = _moved_meta(group, start, shift)
        fields.append((number, kind, value))
    return _struct(fields)


def _moved_meta(group: bytes, at: int, shift: int) -> bytes:
    return _struct(
        (
            number,
            kind,
            _moved(group, start, shift)
            if number in (_DATA, _INDEX, _DICTIONARY)
            else group[start:end],
        )
        for number, kind, start, end in _fields(group, at)
        if number not in _BLOOM
    )


def _moved(data: bytes, start: int, shift: int) -> bytes:
    """An offset of the copy; writers put 0 where there is none."""
    offset = _number(data, start)
    return _zigzag(offset + shift if offset else 0)


# --- the compact protocol -----------------------------------------------------------------------


def _fields(data: bytes, at: int) -> Iterator[tuple[int, int, int, int]]:
    """The number, type, and bounds of the value of each field of a structure."""
    number = 0
    while head := data[at]:
        kind, number, at = _field_head(data, at, number, head)
        end = _after(data, at, kind)
        yield number, kind, at, end
        at = end


def _field_head(data: _Bytes, at: int, before: int, head: int) -> tuple[int, int, int]:
    """The type and number of a field, and where its value begins."""
    if head >> 4:
        return head & 0x0F, before + (head >> 4), at + 1
    raw, at = _varint(data, at + 1)
    return head & 0x0F, (raw >> 1) ^ -(raw & 1), at


def _field(data: bytes, wanted: int) -> int:
    """Where the value of a field of a structure begins."""
    for number, _, start, _ in _fields(data, 0):
        if number == wanted:
            return start
    raise NotCopied(f"field {wanted} of a structure is missing")


def _structs(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    """The bounds of each structure of a list."""
    count, kind, at = _list_head(data, at)
    if count and kind != _STRUCT:
        raise NotCopied("a list is not of structures")
    for _ in range(count):
        end = _after(data, at, _STRUCT)
        yield at, end
        at = end


def _after(data: _Bytes, at: int, kind: int) -> int:
    """Where a value ends."""
    if kind in (_TRUE, _FALSE):
        return at
    if kind == _BYTE:
        return at + 1
    if kind in _INTEGERS:
        return _varint(data, at)[1]
    if kind == _DOUBLE:
        return at + 8
    if kind == _BINARY:
        length, at = _varint(data, at)
        return at + length
    if kind == _STRUCT:
        while head := data[at]:
            at += 1
            if not head >> 4:
                at = _varint(data, at)[1]
            at = _after(data, at, head & 0x0F)
        return at + 1
    if kind in (_LIST, _SET):
        count, inner, at = _list_head(data, at)
        for _ in range(count):
            # Truth in a list has a byte of its own.
            at = at + 1 if inner in (_TRUE, _FALSE) else _after(data, at, inner)
        return at
    raise NotCopied(f"a value of type {kind} is not in footers")


def _list_head(data: _Bytes, at: int) -> tuple[int, int, int]:
    head, at = data[at], at + 1
    count = head >> 4
    if count == 0x0F:
        count, at = _varint(data, at)
    return count, head & 0x0F, at


def _varint(data: _Bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    found, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
        shift += 7


def _number(data: _Bytes, at: int) -> int:
    raw, _ = _varint(data, at)
    return (raw >> 1) ^ -(raw & 1)


def _unsigned(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _zigzag(number: int) -> bytes:
    """A number that is not negative."""
    return _unsigned(number << 1)


def _list(structs: Sequence[bytes]) -> bytes:
    count = len(structs)
    head = bytes([count << 4 | _STRUCT]) if count < 0x0F else b"\xfc" + _unsigned(count)
    return head + b"".join(structs)


def _struct(fields: Iterator[tuple[int, int, bytes]] | Sequence[tuple[int, int, bytes]]) -> bytes:
    found, before = bytearray(), 0
    for number, kind, value in fields:
        step = number - before
        found += bytes([step << 4 | kind]) if 0 < step < 0x10 else bytes([kind]) + _zigzag(number)
        found += value
        before = number
    return bytes(found + b"\x00")
