"""Entries as they are stored: whole blocks are copied, others are made anew, sizes are met."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from lakewright.storage.codec import manifest_blocks
from lakewright.storage.codec.avro_container import packed_blocks
from lakewright.storage.codec.manifest_avro import decode_manifest, encode_manifest
from lakewright.storage.codec.manifest_blocks import StoredEntries, pack_manifest, store_entries
from lakewright.storage.spec.manifest import DataFileMeta, FileKind, ManifestEntry


def entry(number: int) -> ManifestEntry:
    """An entry of about 100 bytes that are hard to compress."""
    name = f"data-{random.Random(number).getrandbits(256):064x}.parquet"
    file = DataFileMeta(
        file_name=name,
        file_size=number,
        row_count=1,
        min_sequence_number=0,
        max_sequence_number=0,
        schema_id=0,
    )
    return ManifestEntry(
        kind=FileKind.ADD, partition=bytes(12), bucket=0, total_buckets=-1, file=file
    )


def stored(*manifests: list[ManifestEntry]) -> StoredEntries:
    packed = [
        pack_manifest(encode_manifest(each, compression="zstandard"), codec="zstandard", name="m")
        for each in manifests
    ]
    found = store_entries(packed, codec="zstandard")
    assert found is not None
    return found


def blocks(data: bytes) -> list[bytes]:
    return packed_blocks(data, path="m")[1]


def test_blocks_of_which_every_entry_stays_are_copied_as_they_are_compressed() -> None:
    manifests = [[entry(number) for number in range(begin, begin + 1000)] for begin in (0, 1000)]
    held = [blocks(encode_manifest(each, compression="zstandard")) for each in manifests]
    found = stored(*manifests)
    # The last block of a manifest is a small one.
    (copied,) = found.copied(np.arange(2000), target_bytes=1 << 30)
    assert blocks(copied.data)[: len(held[0]) - 1] == held[0][:-1]
    assert list(decode_manifest(copied.data, name="m")) == [*manifests[0], *manifests[1]]

    rows = np.delete(np.arange(2000), 500)
    (copied,) = found.copied(rows, target_bytes=1 << 30)
    new = set(blocks(copied.data)) - set(held[0]) - set(held[1])
    # In place of the block of the entry that is gone, and of the small ones.
    assert len(new) <= 5
    assert list(decode_manifest(copied.data, name="m")) == [
        each for each in [*manifests[0], *manifests[1]] if each != entry(500)
    ]


def test_small_blocks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [[entry(number)] for number in range(300)]
    found = stored(*many)
    (copied,) = found.copied(np.arange(300), target_bytes=1 << 30)
    (at_once,) = (encode_manifest([entry(number) for number in range(300)], compression="null"),)
    assert len(blocks(copied.data)) == len(blocks(at_once))
    monkeypatch.setattr(manifest_blocks, "_LEAST_COPIED_BYTES", 0)
    (each_kept,) = found.copied(np.arange(300), target_bytes=1 << 30)
    assert len(copied.data) < 0.8 * len(each_kept.data)


def test_entries_may_come_in_another_order() -> None:
    entries = [entry(number) for number in range(2000)]
    found = stored(entries)
    swapped = [*range(1000, 2000), *range(1000)]
    (copied,) = found.copied(np.array(swapped), target_bytes=1 << 30)
    assert list(decode_manifest(copied.data, name="m")) == [entries[each] for each in swapped]
    # Most of them are in blocks that moved as a whole.
    held = set(blocks(encode_manifest(entries, compression="zstandard")))
    assert len(held & set(blocks(copied.data))) >= len(held) - 3


@pytest.mark.parametrize("joins_rest", [False, True])
def test_manifests_have_the_target_size(joins_rest: bool) -> None:
    target = 40_000
    found = stored([entry(number) for number in range(5000)])
    made = list(found.copied(np.arange(5000), target_bytes=target, joins_rest=joins_rest))
    assert len(made) > 3
    assert np.concatenate([each.rows for each in made]).tolist() == list(range(5000))
    sizes = [len(each.data) for each in made]
    assert all(target <= size < target + 16_000 for size in sizes[:-1])
    assert (sizes[-1] >= target) is joins_rest
    assert sizes[-1] < 2 * target + 16_000


def test_it_is_told_whether_a_manifest_holds_the_entries() -> None:
    entries = [entry(number) for number in range(1000)]
    found = stored(entries)
    (copied,) = found.copied(np.arange(1000), target_bytes=1 << 30)
    assert found.are_all_of(copied.data, copied.rows)
    assert not found.are_all_of(copied.data, copied.rows[:-1])
    assert not found.are_all_of(copied.data, copied.rows[::-1])
    assert not found.are_all_of(copied.data[:-20], copied.rows)
    assert not found.are_all_of(copied.data[:900] + bytes(40) + copied.data[940:], copied.rows)
    assert not found.are_all_of(encode_manifest([], compression="null"), copied.rows)


def test_few_entries_of_large_blocks_are_left_to_the_other_decoder() -> None:
    packed = pack_manifest(
        encode_manifest([entry(1), entry(2)], compression="null"), codec="null", name="m"
    )
    assert store_entries([packed], codec="null") is None
    assert store_entries([packed] * 4, codec="null") is not None


def test_a_number_that_columns_do_not_know_is_left_to_the_other_decoder() -> None:
    large = entry(1)
    large = replace(large, file=replace(large.file, max_sequence_number=2**62))
    packed = pack_manifest(encode_manifest([large], compression="null"), codec="null", name="m")
    with pytest.raises(manifest_blocks.NOT_COPIED):
        store_entries([packed] * 8, codec="null")
