"""Deletion vectors: positions of a data file's deleted rows ↔ bytes of an index file.

An index file is a version byte, then for every data file the vector's length, the vector
and its checksum, all big-endian. A vector is a magic number and a Roaring bitmap in its
portable form. Source: Paimon specification, chapter Table Index; `BitmapDeletionVector`,
`Bitmap64DeletionVector`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

import numpy as np
from pyroaring import BitMap, BitMap64

from lakewright.storage.errors import CorruptionError
from lakewright.storage.spec.index import DeletionVectorRange

_VERSION = b"\x01"
_MAGIC = 1581511376
_MAGIC_64 = 1681511377
# Length field before a vector and checksum behind it, in bytes.
_FRAME_BYTES = 8


def encode_deletion_vectors(
    positions: Mapping[str, np.ndarray], *, bitmap64: bool = False
) -> tuple[bytes, tuple[DeletionVectorRange, ...]]:
    """An index file of deleted positions by data file, and the range of each vector in it.

    With `bitmap64` the bitmaps have the form that Iceberg's readers know too.
    """
    parts = [_VERSION]
    ranges = []
    offset = len(_VERSION)
    for data_file, gone in positions.items():
        bitmap, vector = _vector_64(gone) if bitmap64 else _vector(gone)
        parts += [struct.pack(">i", len(vector)), vector, struct.pack(">I", zlib.crc32(vector))]
        ranges.append(
            DeletionVectorRange(
                data_file=data_file,
                offset=offset,
                # The range of a 64-bit vector includes its frame; that of a 32-bit vector does not.
                length=len(vector) + (_FRAME_BYTES if bitmap64 else 0),
                cardinality=len(bitmap),
            )
        )
        offset += len(vector) + _FRAME_BYTES
    return b"".join(parts), tuple(ranges)


def _vector(gone: np.ndarray) -> tuple[BitMap, bytes]:
    bitmap = BitMap(np.ascontiguousarray(gone, dtype=np.uint32))
    return bitmap, struct.pack(">i", _MAGIC) + bitmap.serialize()


def _vector_64(gone: np.ndarray) -> tuple[BitMap64, bytes]:
    bitmap = BitMap64(np.ascontiguousarray(gone, dtype=np.uint64))
    return bitmap, struct.pack("<i", _MAGIC_64) + bitmap.serialize()


def deletion_vector_bytes(where: DeletionVectorRange) -> int:
    """How many bytes of an index file, from the range's offset on, hold a vector and its frame."""
    return where.length + _FRAME_BYTES


def decode_deletion_vector(
    data: bytes, where: DeletionVectorRange, *, name: str, start: int = 0
) -> np.ndarray:
    """Positions of the deleted rows, ascending, as int64.

    `data` is the index file, or a part that begins at `start`; error messages call it `name`.

    Raises:
        CorruptionError: no such vector lies at that place, or its checksum is wrong.
    """
    try:
        (length,) = struct.unpack_from(">i", data, where.offset - start)
        first = where.offset - start + 4
        vector = data[first : first + length]
        (checksum,) = struct.unpack_from(">I", data, first + length)
        (magic,) = struct.unpack_from(">i", vector)
        (magic_64,) = struct.unpack_from("<i", vector)
        expected = where.length if magic == _MAGIC else where.length - _FRAME_BYTES
        if length != expected:
            raise ValueError(f"its length is {length}, the manifest says {expected}")
        if zlib.crc32(vector) != checksum:
            raise ValueError("its checksum is wrong")
        if magic == _MAGIC:
            bitmap: BitMap | BitMap64 = BitMap.deserialize(vector[4:])
        elif magic_64 == _MAGIC_64:
            bitmap = BitMap64.deserialize(vector[4:])
        else:
            raise ValueError(f"{vector[:4].hex()} is not the beginning of a known kind of bitmap")
    except (struct.error, ValueError) as error:
        raise CorruptionError(
            f"the deletion vector of {where.data_file} in {name} at byte {where.offset} cannot "
            f"be read: {error}",
            path=name,
        ) from error
    return np.fromiter(bitmap, dtype=np.int64, count=len(bitmap))
