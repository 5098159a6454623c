"""Avro container files: a header, then blocks of records, each compressed and closed by a mark.

Chapter "Object Container Files" of the Avro specification.
"""

from __future__ import annotations

import bz2
import json
import lzma
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import IO, Any

import numpy as np
import pyarrow as pa

from lakewright.storage.errors import CorruptionError, UnsupportedError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SYNC_BYTES = 16
_MAGIC = b"Obj\x01"
_RAW_DEFLATE = -15
_CHECKSUM_BYTES = 4
# A damaged frame may state any size.
_MOST_AT_ONCE = 1 << 30
_ZSTD_LEVEL = zstd.CompressionParameter.compression_level
_HIGHEST = _ZSTD_LEVEL.bounds()[1]
_ZSTD_CHECKSUM = zstd.CompressionParameter.checksum_flag
_DECOMPRESSION_ERRORS = (
    ValueError,
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zstd.ZstdError,
    pa.ArrowException,
)
# The codec that a file's header names, by the compression that table options name.
_CODECS = {
    "zstd": "zstandard",
    "none": "null",
    "snappy": "snappy",
    "deflate": "deflate",
    "bzip2": "bzip2",
    "xz": "xz",
}


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file, which describes the blocks after it; `marks` are its writer's own."""

    schema: Any
    codec: str
    sync: bytes
    marks: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BlockHead:
    """How many rows a block has, and how many bytes before its mark."""

    row_count: int
    size: int


def make_header(schema: Any, *, compression: str, sync: bytes) -> Header:
    """A header of a new file; `sync` is the mark that each block will end with."""
    return Header(schema, _CODECS[compression], sync)


def encode_header(header: Header) -> bytes:
    """The beginning of a file."""
    metadata = {"avro.schema": json.dumps(header.schema), "avro.codec": header.codec}
    encoded = b"".join(
        _counted(key.encode()) + _counted(value.encode()) for key, value in metadata.items()
    )
    return _MAGIC + _long(len(metadata)) + encoded + _long(0) + header.sync


def encode_block(data: bytes, row_count: int, header: Header, *, level: int) -> bytes:
    """A block of encoded rows; `level` counts for zstd."""
    return enclosed_block(compress_block(data, header.codec, level=level), row_count, header)


def compress_block(data: bytes, codec: str, *, level: int) -> bytes:
    """The encoded rows of a block as a codec of headers compresses them."""
    return _compress(data, codec, level)


def enclosed_block(packed: bytes, row_count: int, header: Header) -> bytes:
    """A block of rows that are compressed already."""
    return _long(row_count) + _long(len(packed)) + packed + header.sync


def block_size(packed: bytes, row_count: int) -> int:
    """What an enclosed block takes."""
    return len(_long(row_count)) + len(_long(len(packed))) + len(packed) + SYNC_BYTES


def read_header(source: IO[bytes], *, path: str) -> Header:
    """The header, after which the source stands before the first block.

    Raises:
        CorruptionError: this is not an Avro file, or ends within its header.
    """
    if source.read(len(_MAGIC)) != _MAGIC:
        raise CorruptionError(f"data file {path} is not an Avro file", path=path)
    metadata = _read_map(source, path)
    try:
        schema = json.loads(metadata["avro.schema"])
    except (KeyError, ValueError) as error:
        raise CorruptionError(f"data file {path} has no Avro schema: {error!r}", path=path) from (
            error
        )
    codec = metadata.get("avro.codec", b"null").decode(errors="replace")
    if codec not in _CODECS.values():
        raise UnsupportedError(
            f"data file {path} is compressed with Avro codec {codec}; implemented are "
            f"{', '.join(_CODECS.values())}"
        )
    marks = {key: value for key, value in metadata.items() if not key.startswith("avro.")}
    return Header(schema, codec, _exactly(source, SYNC_BYTES, path), marks)


def read_block_head(source: IO[bytes], *, path: str) -> BlockHead | None:
    """The head of the next block; None at the end of the file.

    Raises:
        CorruptionError: the file ends within the head, or its numbers are impossible.
    """
    first = source.read(1)
    if not first:
        return None
    head = BlockHead(_read_long(source, path, first), _read_long(source, path))
    if head.row_count < 0 or head.size < 0:
        raise CorruptionError(
            f"data file {path} has a block of {head.row_count} rows and {head.size} bytes",
            path=path,
        )
    return head


def read_block(source: IO[bytes], head: BlockHead, header: Header, *, path: str) -> bytes:
    """The encoded rows of the block that `head` begins.

    Raises:
        CorruptionError: the block is cut short, its mark is missing, or it cannot be decompressed.
    """
    return _unpacked(read_packed_block(source, head, header, path=path), header, path)


def read_packed_block(source: IO[bytes], head: BlockHead, header: Header, *, path: str) -> bytes:
    """The rows of a block as they are compressed.

    Raises:
        CorruptionError: the block is cut short, or its mark is missing.
    """
    packed = _exactly(source, head.size, path)
    check_sync(source, header, path=path)
    return packed


def packed_blocks(data: bytes, *, path: str) -> tuple[Header, list[bytes], list[int]]:
    """The header of a whole file, its blocks as they are compressed, and how many rows each has.

    Raises:
        CorruptionError: the file is no Avro file, or is cut short.
    """
    source = BytesIO(data)
    header = read_header(source, path=path)
    blocks: list[bytes] = []
    counts: list[int] = []
    while (head := read_block_head(source, path=path)) is not None:
        blocks.append(read_packed_block(source, head, header, path=path))
        counts.append(head.row_count)
    return header, blocks, counts


def unpack_blocks(
    blocks: Sequence[bytes], header: Header, *, padding: bytes, path: str
) -> tuple[np.ndarray, np.ndarray]:
    """The encoded rows of all blocks in one buffer, `padding` after them, and the blocks' sizes.

    Raises:
        CorruptionError: a block cannot be decompressed.
    """
    if header.codec == "zstandard" and (found := _frames_at_once(blocks, padding)) is not None:
        return found
    parts = [_unpacked(block, header, path) for block in blocks]
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    return np.frombuffer(b"".join([*parts, padding]), np.uint8), sizes


def _frames_at_once(
    blocks: Sequence[bytes], padding: bytes
) -> tuple[np.ndarray, np.ndarray] | None:
    """The same of zstd frames that state their sizes, by one decoder; None for all others.

    A decoder for each of many small blocks takes longer than decompressing them.
    """
    try:
        stated = [zstd.get_frame_info(block).decompressed_size for block in blocks]
        if None in stated:
            return None
        sizes = np.array(stated, np.int64)
        total = int(sizes.sum())
        if total > _MOST_AT_ONCE:
            return None
        data = np.empty(total + len(padding), np.uint8)
        with pa.CompressedInputStream(pa.BufferReader(b"".join(blocks)), "zstd") as stream:
            if stream.readinto(data[:total]) != total or stream.read(1):
                return None
    except _DECOMPRESSION_ERRORS:
        # Decompressed one by one, they tell which of them is damaged.
        return None
    data[total:] = np.frombuffer(padding, np.uint8)
    return data, sizes


def _unpacked(packed: bytes, header: Header, path: str) -> bytes:
    try:
        return _decompress(packed, header.codec)
    except _DECOMPRESSION_ERRORS as error:
        raise CorruptionError(
            f"data file {path} has a block that cannot be decompressed: {error}", path=path
        ) from error


def check_sync(source: IO[bytes], header: Header, *, path: str) -> None:
    """Read the mark after a block.

    Raises:
        CorruptionError: other bytes follow the block.
    """
    if source.read(SYNC_BYTES) != header.sync:
        raise CorruptionError(
            f"data file {path} is cut short or damaged: a block has no end marker",
            path=path,
        )


def _read_map(source: IO[bytes], path: str) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    while count := _read_long(source, path):
        if count < 0:
            # A negative count is followed by the size of the block, for readers that skip it.
            _read_long(source, path)
        for _ in range(abs(count)):
            key = _exactly(source, _read_long(source, path), path)
            found[key.decode(errors="replace")] = _exactly(source, _read_long(source, path), path)
    return found


def _read_long(source: IO[bytes], path: str, first: bytes = b"") -> int:
    value, shift = 0, 0
    while True:
        byte = (first or _exactly(source, 1, path))[0]
        first = b""
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        if shift > 63:
            raise CorruptionError(
                f"data file {path} is damaged: a number has no last byte", path=path
            )


def _exactly(source: IO[bytes], size: int, path: str) -> bytes:
    data = source.read(size) if size >= 0 else b""
    if size < 0 or len(data) != size:
        raise CorruptionError(f"data file {path} is cut short or damaged", path=path)
    return data


def _long(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while zigzag >= 0x80:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def _counted(data: bytes) -> bytes:
    return _long(len(data)) + data


def _compress(data: bytes, codec: str, level: int) -> bytes:
    match codec:
        case "zstandard":
            # Without the checksum, damage inside of a block would decode to other values, without
            # an error.
            return zstd.compress(
                data, options={_ZSTD_LEVEL: min(level, _HIGHEST), _ZSTD_CHECKSUM: 1}
            )
        case "snappy":
            packed: bytes = pa.Codec("snappy").compress(pa.py_buffer(data), asbytes=True)
            return packed + zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "big")
        case "deflate":
            deflate = zlib.compressobj(wbits=_RAW_DEFLATE)
            return deflate.compress(data) + deflate.flush()
        case "bzip2":
            return bz2.compress(data)
        case "xz":
            return lzma.compress(data)
        case _:
            return data


def _decompress(packed: bytes, codec: str) -> bytes:
    match codec:
        case "zstandard":
            return zstd.decompress(packed)
        case "snappy":
            body, checksum = packed[:-_CHECKSUM_BYTES], packed[-_CHECKSUM_BYTES:]
            data: bytes = pa.Codec("snappy").decompress(body, _snappy_size(body), asbytes=True)
            if zlib.crc32(data) != int.from_bytes(checksum, "big"):
                raise ValueError("its checksum does not match")
            return data
        case "deflate":
            return zlib.decompress(packed, wbits=_RAW_DEFLATE)
        case "bzip2":
            return bz2.decompress(packed)
        case "xz":
            return lzma.decompress(packed)
        case _:
            return packed


def _snappy_size(body: bytes) -> int:
    """The decompressed size of a snappy block, which stands at its beginning."""
    size = 0
    for index, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise ValueError("it does not begin with its size")
