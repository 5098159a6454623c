"""Avro data files: blocks of rows, written and read one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import IO, Any

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.avro_container import (
    SYNC_BYTES,
    check_sync,
    encode_block,
    encode_header,
    make_header,
    read_block,
    read_block_head,
    read_header,
)
from lakewright.storage.codec.avro_rows import RowDecoder, avro_schema, encode_rows
from lakewright.storage.codec.hybrid_calendar import avro_calendar
from lakewright.storage.env import FileSystem
from lakewright.storage.files.data_file import (
    FOREIGN,
    Reading,
    as_declared,
    columns_of_moments,
    in_calendar_of_format,
    let_go,
    writing,
)
from lakewright.storage.spec.file_format import FileEncoding, FormatTuning

# Encoded bytes of a block, of the order that other writers of the format use.
_BLOCK_BYTES = 64 * 1024
# Rows encoded at once; encoding takes about ten times their bytes in memory.
_ENCODED_ROWS = 1 << 15


class AvroFileWriter:
    """One Avro file being written."""

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        schema: pa.Schema,
        encoding: FileEncoding,
        tuning: FormatTuning,
    ) -> None:
        self.path = path
        self.row_count = 0
        self._level = tuning.zstd_level
        # The mark must differ between files; it need not be unpredictable.
        sync = blake2b(path.encode(), digest_size=SYNC_BYTES).digest()
        self._header = make_header(avro_schema(schema), compression=encoding.compression, sync=sync)
        self._sink: IO[bytes] = fs.open_output(path)
        with writing(path):
            self._sink.write(encode_header(self._header))

    def write(self, rows: pa.Table) -> None:
        for start in range(0, rows.num_rows, _ENCODED_ROWS):
            self._write_blocks(rows.slice(start, _ENCODED_ROWS))
        self.row_count += rows.num_rows

    def _write_blocks(self, rows: pa.Table) -> None:
        lengths, data = encode_rows(rows)
        ends = np.cumsum(lengths)
        # A new block begins at the first row past each multiple of the block size.
        number = (ends - lengths) // _BLOCK_BYTES
        firsts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), rows.num_rows]
        offsets = [0, *ends.tolist()]
        with writing(self.path):
            for first, last in pairwise(firsts):
                block = data[offsets[first] : offsets[last]].tobytes()
                self._sink.write(encode_block(block, last - first, self._header, level=self._level))

    @property
    def written_bytes(self) -> int:
        return int(self._sink.tell())

    def close(self) -> int:
        with writing(self.path):
            size = int(self._sink.tell())
            self._sink.close()
        return size

    def abandon(self) -> None:
        let_go(self._sink)


class AvroFileReader:
    """One open Avro file, whose blocks are counted; opening fails if the file is cut short."""

    piece_count = 1

    def __init__(self, source: Any, *, path: str, reading: Reading = FOREIGN) -> None:
        self._source = source
        self._path = path
        self._reading = reading
        self._header = read_header(source, path=path)
        self._calendar = reading.calendar(avro_calendar(self._header.marks, as_paimon=True))
        self._first_block = source.tell()
        self.column_names: Sequence[str] = RowDecoder(
            self._header.schema, path=path, columns=[]
        ).column_names
        self.row_count = self._count_rows()
        self.uncertain: Sequence[str] = (
            () if self._calendar is None else columns_of_moments(self.schema)
        )

    def _count_rows(self) -> int:
        # Avro files have no footer: the heads of the blocks give the row count.
        count = 0
        while head := read_block_head(self._source, path=self._path):
            self._source.seek(head.size, 1)
            check_sync(self._source, self._header, path=self._path)
            count += head.row_count
        return count

    @property
    def schema(self) -> pa.Schema:
        decoder = RowDecoder(self._header.schema, path=self._path, columns=self.column_names)
        return self._as_read(decoder.no_rows()).schema

    def tables(
        self, columns: Sequence[str], batch_rows: int | None, pieces: Sequence[int] | None = None
    ) -> Iterator[pa.Table]:
        yield from map(self._as_read, self._tables(columns, batch_rows))

    def _as_read(self, rows: pa.Table) -> pa.Table:
        found = self._calendar
        if found is not None:
            rows = in_calendar_of_format(rows, lambda: found, path=self._path)
        return as_declared(rows, self._reading, path=self._path)

    def _tables(self, columns: Sequence[str], batch_rows: int | None) -> Iterator[pa.Table]:
        decoder = RowDecoder(self._header.schema, path=self._path, columns=columns)
        blocks = self._blocks(decoder)
        if batch_rows is None:
            yield pa.concat_tables([decoder.no_rows(), *blocks])
            return
        yield from _gathered(blocks, batch_rows)

    def _blocks(self, decoder: RowDecoder) -> Iterator[pa.Table]:
        self._source.seek(self._first_block)
        while head := read_block_head(self._source, path=self._path):
            data = read_block(self._source, head, self._header, path=self._path)
            yield decoder.decode(data, head.row_count)


def _gathered(blocks: Iterator[pa.Table], batch_rows: int) -> Iterator[pa.Table]:
    """The rows of small blocks, regrouped into batches of `batch_rows`."""
    waiting: list[pa.Table] = []
    count = 0
    for block in blocks:
        waiting.append(block)
        count += block.num_rows
        if count >= batch_rows:
            rows = pa.concat_tables(waiting)
            full = count - count % batch_rows
            for start in range(0, full, batch_rows):
                yield rows.slice(start, batch_rows)
            waiting, count = [rows.slice(full)], count - full
    if count:
        yield pa.concat_tables(waiting)
