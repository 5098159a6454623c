"""Hash index files: the key hashes of one dynamic bucket, big-endian 32-bit integers and no more.

The order of the hashes has no meaning, and each hash occurs once. Source: Paimon
specification, chapter Table Index; `IntFileUtils`.
"""

from __future__ import annotations

import numpy as np

from lakewright.storage.errors import CorruptionError

_ON_DISK = np.dtype(">i4")


def encode_hash_index(hashes: np.ndarray) -> bytes:
    """The file of these int32 hashes, in order."""
    return hashes.astype(_ON_DISK).tobytes()


def decode_hash_index(data: bytes, *, name: str, expected: int) -> np.ndarray:
    """The hashes of a file as int32, in order.

    Raises:
        CorruptionError: the file does not hold as many hashes as the index manifest says.
    """
    if len(data) != expected * _ON_DISK.itemsize:
        raise CorruptionError(
            f"hash index {name} is {len(data)} bytes long, and {expected} hashes take "
            f"{expected * _ON_DISK.itemsize}; rewrite the partition to index its keys again"
        )
    return np.frombuffer(data, dtype=_ON_DISK).astype(np.int32)
