"""Joins Parquet files by copying their row groups, which are neither decoded nor encoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zlib import crc32

import pyarrow.parquet as pq

from lakewright.storage.codec.parquet_footer import (
    MAGIC,
    TAIL_BYTES,
    FileFooter,
    NotCopied,
    joined_footer,
    read_file_footer,
)
from lakewright.storage.env import FileSystem
from lakewright.storage.files.data_file import let_go, writing
from lakewright.storage.files.data_files import translated_reads

_PIECE_BYTES = 8 << 20
# Most footers end within the last bytes of this number; longer ones take a second read.
_LIKELY_TAIL_BYTES = 1 << 16
# What moves with a row group, or is left behind.
_PLACES = (
    "file_offset",
    "data_page_offset",
    "index_page_offset",
    "dictionary_page_offset",
    "bloom_filter_offset",
    "bloom_filter_length",
)


def read_footer_to_copy(fs: FileSystem, path: str, file_size: int) -> FileFooter:
    """The footer of a file of which the size is known.

    Raises:
        NotCopied: the file is not of this size or no Parquet file, or it cannot be copied.
        FileMissing, UnavailableError: as `read_rows`.
    """
    with translated_reads(path), fs.open_input(path) as source:
        begin = max(0, file_size - _LIKELY_TAIL_BYTES)
        source.seek(begin)
        tail = source.read(_LIKELY_TAIL_BYTES + 1)
        length = int.from_bytes(tail[-TAIL_BYTES : -len(MAGIC)], "little")
        start = file_size - TAIL_BYTES - length
        if begin + len(tail) != file_size or not tail.endswith(MAGIC) or start < len(MAGIC):
            raise NotCopied("the file is not what its metadata says")
        if start < begin:
            source.seek(start)
            data = source.read(length)
        else:
            data = tail[start - begin : -TAIL_BYTES]
    return read_file_footer(data, ends_at=start)


def copy_row_groups(
    fs: FileSystem, sources: Sequence[tuple[str, FileFooter]], path: str
) -> tuple[int, int]:
    """Write a file with the row groups of others, in order; its size, and the CRC-32 of its groups.

    Raises:
        FileMissing, UnavailableError: as `read_rows`; the file is abandoned, and not deleted.
    """
    checksum = 0
    sink = fs.open_output(path)
    try:
        with writing(path):
            sink.write(MAGIC)
        for source, footer in sources:
            for piece in _row_groups(fs, source, footer.end):
                checksum = crc32(piece, checksum)
                with writing(path):
                    sink.write(piece)
        footer_bytes = joined_footer([footer for _, footer in sources])
        with writing(path):
            sink.write(footer_bytes + len(footer_bytes).to_bytes(4, "little") + MAGIC)
            size = int(sink.tell())
            sink.close()
    except BaseException:
        let_go(sink)
        raise
    return size, checksum


def checksum_of_groups(fs: FileSystem, path: str, size: int) -> int:
    """The CRC-32 of the bytes between the magic and the footer, read back from the store."""
    checksum = 0
    for piece in _row_groups(fs, path, read_footer_to_copy(fs, path, size).end):
        checksum = crc32(piece, checksum)
    return checksum


def first_difference(fs: FileSystem, sources: Sequence[str], path: str) -> str | None:
    """What a reader of Parquet finds different in a joined file's footer, beside the places."""
    with translated_reads(path), fs.open_input(path) as joined:
        made = pq.read_metadata(joined)
    number = 0
    for source in sources:
        with translated_reads(source), fs.open_input(source) as file:
            metadata = pq.read_metadata(file)
        if metadata.schema != made.schema:
            return f"the schema of {source}"
        for group in range(metadata.num_row_groups):
            if number == made.num_row_groups:
                return f"row group {group} of {source} is missing"
            if _without_places(metadata, group) != _without_places(made, number):
                return f"row group {group} of {source}"
            number += 1
    return None if number == made.num_row_groups else f"{made.num_row_groups - number} row groups"


def _without_places(metadata: pq.FileMetaData, group: int) -> dict[str, object]:
    found: dict[str, object] = metadata.row_group(group).to_dict()
    columns = found["columns"]
    assert isinstance(columns, list)
    for column in columns:
        for name in _PLACES:
            column.pop(name, None)
    return found


def _row_groups(fs: FileSystem, path: str, end: int) -> Iterator[bytes]:
    """The bytes of a file from the magic to an offset, in pieces."""
    with translated_reads(path), fs.open_input(path) as source:
        at = len(MAGIC)
        source.seek(at)
        while at < end:
            piece = source.read(min(_PIECE_BYTES, end - at))
            if not piece:
                raise OSError(f"the file ends at {at}, and its footer says {end}")
            at += len(piece)
            yield piece
