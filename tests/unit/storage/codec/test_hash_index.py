"""Hash index files, byte for byte as Java writes them."""

from __future__ import annotations

import numpy as np
import pytest

from lakewright.storage.codec.hash_index import decode_hash_index, encode_hash_index
from lakewright.storage.errors import CorruptionError

# What Java Paimon 0.9 wrote for the keys 2 and 1: their hashes are in the vectors of the format.
JAVA_BYTES = bytes.fromhex("4fe4bbf05759f99e")
HASHES = [1340390384, 1465514398]


def test_hashes_are_the_bytes_that_java_writes() -> None:
    assert encode_hash_index(np.array(HASHES, dtype=np.int32)) == JAVA_BYTES
    assert decode_hash_index(JAVA_BYTES, name="index-1", expected=2).tolist() == HASHES


def test_negative_hashes_keep_their_sign() -> None:
    data = encode_hash_index(np.array([-1, -(2**31)], dtype=np.int32))
    assert data == bytes.fromhex("ffffffff80000000")
    assert decode_hash_index(data, name="i", expected=2).tolist() == [-1, -(2**31)]


@pytest.mark.parametrize("length", [0, 7, 12])
def test_a_file_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(CorruptionError, match=f"index-1 is {length} bytes long, and 2 hashes"):
        decode_hash_index(bytes(length), name="index-1", expected=2)
