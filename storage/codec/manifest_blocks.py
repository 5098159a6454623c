"""Entries of manifests as they are stored, from which other manifests are made without decoding.

Blocks of a container file are compressed one by one, and say nothing of the file that they are in.
So a block of which every entry stays, in its order, is copied as it is compressed. Entries of other
blocks are copied as they are encoded, into new blocks.

Only files of this release's schema and of the wanted codec are copied: a manifest has one schema
and one codec for all of its blocks. Others are decoded and encoded first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.avro_columns import find_in_blocks
from lakewright.storage.codec.avro_container import (
    SYNC_BYTES,
    Header,
    block_size,
    compress_block,
    enclosed_block,
    encode_header,
    packed_blocks,
    unpack_blocks,
)
from lakewright.storage.codec.byte_slices import array_spans, sliced
from lakewright.storage.codec.manifest_avro import decode_manifest, encode_manifest
from lakewright.storage.codec.manifest_columns import COLUMNS, PackedEntries
from lakewright.storage.errors import StorageError

# Encoded bytes of a new block, as the encoder of single entries makes them.
_BLOCK_BYTES = 16_000
# Smaller blocks compress badly, so their entries join others. A merge leaves few of them.
_LEAST_COPIED_BYTES = _BLOCK_BYTES // 2
_ZSTD_LEVEL = 3
# A step finds the next entry of every block, in the time that four entries take as objects.
_LEAST_ENTRIES_A_STEP = 4

# What the decoder of single entries is for.
NOT_COPIED = (StorageError, ValueError, LookupError, TypeError, ArithmeticError)

# A block as it is compressed, and how many entries it has.
_Block: TypeAlias = tuple[bytes, int]

_SCHEMA = packed_blocks(encode_manifest((), compression="null"), path="")[0].schema


@dataclass(frozen=True, slots=True)
class PackedManifest:
    """The blocks of one manifest as they are compressed, and how many entries each has."""

    header: Header
    blocks: Sequence[bytes]
    counts: Sequence[int]

    def __len__(self) -> int:
        """How many entries it says it has."""
        return sum(self.counts)


def pack_manifest(data: bytes, *, codec: str, name: str) -> PackedManifest:
    """The blocks of a manifest in this release's schema, with this codec.

    Raises:
        CorruptionError: the file is no manifest, or is cut short.
        UnreadableManifest: the same of a file of another schema or codec.
        UnsupportedError: it is of another version.
    """
    header, blocks, counts = packed_blocks(data, path=name)
    if (header.schema, header.codec) != (_SCHEMA, codec):
        encoded = encode_manifest(decode_manifest(data, name=name), compression=codec)
        header, blocks, counts = packed_blocks(encoded, path=name)
    return PackedManifest(header, blocks, counts)


@dataclass(frozen=True)
class StoredEntries:
    """The entries of several manifests in order, and the blocks that hold them."""

    entries: PackedEntries
    codec: str
    blocks: Sequence[bytes]
    # The first row of each block, and the number of rows.
    bounds: np.ndarray
    # The same of each manifest.
    manifest_bounds: np.ndarray

    def __len__(self) -> int:
        return len(self.entries)

    def copied(
        self, rows: np.ndarray, *, target_bytes: int, joins_rest: bool = False
    ) -> Iterator[CopiedEntries]:
        """Manifests of some rows, in their order; all but the last have the target size.

        With `joins_rest`, what is left over joins the one before.
        """
        header = encode_header(Header(_SCHEMA, self.codec, bytes(SYNC_BYTES)))
        whole: list[list[_Block]] = []
        rest: list[_Block] = []
        size = len(header)
        for block in self._blocks(rows, min(_BLOCK_BYTES, target_bytes)):
            rest.append(block)
            size += block_size(*block)
            if size >= target_bytes:
                whole.append(rest)
                rest, size = [], len(header)
        if rest and whole and joins_rest:
            whole[-1] += rest
        elif rest:
            whole.append(rest)
        end = 0
        for blocks in whole:
            begin, end = end, end + sum(count for _, count in blocks)
            yield CopiedEntries(_encoded(blocks, self.codec), rows[begin:end])

    def of_manifests(self, values: Sequence[int], rows: np.ndarray) -> np.ndarray:
        """For each row the value of its manifest."""
        found: np.ndarray = np.repeat(values, np.diff(self.manifest_bounds))[rows]
        return found

    def are_all_of(self, data: bytes, rows: np.ndarray) -> bool:
        """Whether a manifest holds these entries, in their order, and no others."""
        try:
            header, blocks, counts = packed_blocks(data, path="")
            encoded, _ = unpack_blocks(blocks, header, padding=b"", path="")
        except NOT_COPIED:
            return False
        if (header.schema, sum(counts)) != (_SCHEMA, len(rows)):
            return False
        held, begins, ends = array_spans(self._records(rows))
        return not len(rows) or np.array_equal(encoded, held[begins[0] : ends[-1]])

    def _blocks(self, rows: np.ndarray, block_bytes: int) -> Iterator[_Block]:
        """The rows in their order; a block of which every entry is there stays as it is."""
        after = 0
        for at, block in self._whole_blocks(rows):
            yield from self._new_blocks(rows[after:at], block_bytes)
            count = int(self.bounds[block + 1] - self.bounds[block])
            yield self.blocks[block], count
            after = at + count
        yield from self._new_blocks(rows[after:], block_bytes)

    def _whole_blocks(self, rows: np.ndarray) -> list[tuple[int, int]]:
        """Blocks whose entries follow each other among the rows, and where; in that order."""
        place = np.full(len(self) + 1, -1, np.int64)
        place[rows] = np.arange(len(rows))
        follows = place[1:] == place[:-1] + 1
        # A block's last row may be followed by anything.
        first, last = self.bounds[:-1], self.bounds[1:] - 1
        held = np.flatnonzero(self._encoded_sizes >= _LEAST_COPIED_BYTES)
        first, last = first[held], last[held]
        followed = np.append([0], np.cumsum(follows))
        whole = (place[first] >= 0) & (followed[last] - followed[first] == last - first)
        found = zip(place[first[whole]].tolist(), held[whole].tolist(), strict=True)
        return sorted(found)

    def _new_blocks(self, rows: np.ndarray, block_bytes: int) -> Iterator[_Block]:
        if not len(rows):
            return
        data, begins, ends = array_spans(self._records(rows))
        divided = np.flatnonzero(np.diff((begins - begins[0]) // block_bytes)) + 1
        for first, last in pairwise([0, *divided.tolist(), len(rows)]):
            encoded = data[begins[first] : ends[last - 1]].tobytes()
            yield compress_block(encoded, self.codec, level=_ZSTD_LEVEL), last - first

    def _records(self, rows: np.ndarray) -> pa.LargeBinaryArray:
        found = self.entries.records
        bounds = found.bounds.astype(np.int64)
        return sliced(found.data, bounds[rows], bounds[rows + 1])

    @cached_property
    def _encoded_sizes(self) -> np.ndarray:
        """The bytes of each block before it was compressed."""
        sizes: np.ndarray = np.diff(self.entries.records.bounds.astype(np.int64)[self.bounds])
        return sizes


@dataclass(frozen=True, slots=True)
class CopiedEntries:
    """A manifest to write, and which of the stored entries it holds."""

    data: bytes
    rows: np.ndarray


def _encoded(blocks: Sequence[_Block], codec: str) -> bytes:
    # The mark must differ between files; it need not be unpredictable.
    sync = blake2b(blocks[0][0], digest_size=SYNC_BYTES).digest()
    header = Header(_SCHEMA, codec, sync)
    return b"".join([encode_header(header), *(enclosed_block(*block, header) for block in blocks)])


def store_entries(
    manifests: Sequence[PackedManifest], *, codec: str, always: bool = False
) -> StoredEntries | None:
    """The entries of manifests in order; unless `always`, None if objects of them are faster.

    Raises:
        UnknownLayout: a manifest is damaged, or holds what only the other decoder knows.
        CorruptionError: a block cannot be decompressed.
    """
    blocks = [block for manifest in manifests for block in manifest.blocks]
    counts = [count for manifest in manifests for count in manifest.counts]
    total = sum(counts)
    if not always and total < _LEAST_ENTRIES_A_STEP * max(counts, default=1):
        return None
    records = find_in_blocks(blocks, counts, Header(_SCHEMA, codec, b""), COLUMNS)
    entries = PackedEntries(records, "a manifest")
    entries.check()
    return StoredEntries(
        entries=entries,
        codec=codec,
        blocks=blocks,
        bounds=np.append([0], np.cumsum(counts)),
        manifest_bounds=np.append([0], np.cumsum([len(manifest) for manifest in manifests])),
    )
