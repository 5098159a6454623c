"""How files of a format are read and written: columns at once, or records on lines.

Parquet, ORC and Avro files describe themselves, and are read by the names of columns. Files of the
other formats hold a record on each line, which a message format decodes.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa

from lakewright.connectors.factories import FORMAT, Context
from lakewright.connectors.filesystem.place import Place
from lakewright.connectors.formats.model import Decoder, DecodingFormat, Encoder
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import read_options
from lakewright.connectors.registry import FORMAT_GROUP
from lakewright.connectors.runtime import ReportBad
from lakewright.storage.codec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import CorruptionError, InvalidRows, StorageError
from lakewright.storage.files.data_file import DataFileWriter
from lakewright.storage.files.data_files import open_data_file_writer, read_rows
from lakewright.storage.operations.format_tables.read_folders import cast_file_column
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.file_format import COMPRESSIONS, FileEncoding
from lakewright.storage.spec.options import TableOptions

TEXT = "text"
# Formats of files that this connector reads without a message format.
COLUMNAR = tuple(COMPRESSIONS)
_PACKED = (".gz", ".bz2", ".zst")
_BLOCK_BYTES = 1 << 22
_ROWS_AT_ONCE = 1 << 16
# A record of more lines than this holds is damage.
_MOST_BYTES = 1 << 20


class FileFormat(ABC):
    """A format of files, with its options. It pickles."""

    @abstractmethod
    def read(
        self, fs: FileSystem, path: str, fields: Sequence[DataField], report: ReportBad | None
    ) -> Iterator[pa.Table]:
        """The rows of a file in some columns; columns that it lacks are null."""

    @abstractmethod
    def open_writer(self, fs: FileSystem, path: str) -> RecordWriter:
        """A new file."""

    @property
    def extension(self) -> str:
        """The end of the names of new files."""
        return ""

    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.insert_only()


class RecordWriter(ABC):
    """A file that is being written."""

    size_bytes: int = 0

    @abstractmethod
    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows."""

    @abstractmethod
    def close(self) -> None:
        """End the file; its bytes are in the store then."""

    @abstractmethod
    def abandon(self) -> None:
        """Leave it, without an error of its own."""


def file_format(context: Context, place: Place, *, writes: bool) -> FileFormat:
    """The format that the options of a table name.

    Raises:
        InvalidOption, NotFoundError: there is no such format, or its options are wrong.
    """
    if place.format in COLUMNAR:
        return Columnar(place.format, place.data_fields, place.files.options)
    fields, name = place.data_fields, place.format
    if name == TEXT:
        # Lines are one column of text, which messages call raw.
        factory: Any = context.registry.factory(FORMAT_GROUP, "raw")
        options = read_options({}, required=(), optional=factory.optional_options, owner=TEXT)
        encoding = factory.encoding_format(options) if writes else None
        decoding = None if writes else factory.decoding_format(options)
    else:
        encoding = context.encoding_format(FORMAT) if writes else None
        decoding = None if writes else context.decoding_format(FORMAT)
    encoder = None if encoding is None else encoding.encoder(fields)
    either: Any = encoding or decoding
    return Lines(name, decoding, encoder, either.changelog_mode(), fields, _quote(context, name))


def _quote(context: Context, name: str) -> str | None:
    """The character within which a line may end without ending its record."""
    options = context.table.options
    if name != "csv" or options.get("csv.disable-quote-character") == "true":
        return None
    return options.get("csv.quote-character", '"')


# --- columns --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columnar(FileFormat):
    """Parquet, ORC or Avro."""

    name: str
    fields: tuple[DataField, ...]
    options: TableOptions

    @property
    def extension(self) -> str:
        return f".{self.name}"

    def read(
        self, fs: FileSystem, path: str, fields: Sequence[DataField], report: ReportBad | None
    ) -> Iterator[pa.Table]:
        names = [each.name for each in fields]
        kinds = {each.name: to_arrow_type(each.type) for each in fields}
        for held in read_rows(
            fs, path, names, may_lack=names, format_name=self.name, batch_rows=_ROWS_AT_ONCE
        ):
            columns = {
                name: cast_file_column(held.column(name), kind, name, path)
                if name in held.column_names
                else pa.nulls(held.num_rows, kind)
                for name, kind in kinds.items()
            }
            yield pa.table(columns) if columns else held

    def open_writer(self, fs: FileSystem, path: str) -> RecordWriter:
        encoding = FileEncoding(self.name, COMPRESSIONS[self.name][0], f".{self.name}")
        schema = to_arrow_schema(self.fields)
        return _ColumnWriter(
            open_data_file_writer(fs, path, schema, self.options, encoding), schema
        )


class _ColumnWriter(RecordWriter):
    def __init__(self, writer: DataFileWriter, schema: pa.Schema) -> None:
        self._writer, self._schema = writer, schema

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write(pa.Table.from_batches([rows]).cast(self._schema))
        # About; a columnar file is smaller.
        self.size_bytes += rows.nbytes // 2

    def close(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        with suppress(StorageError, OSError):
            self._writer.abandon()


# --- lines ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lines(FileFormat):
    """A record on each line; with `quote`, a line may end within quotes and the record goes on."""

    name: str
    decoding: DecodingFormat | None
    encoder: Encoder | None
    mode: ChangelogMode
    fields: tuple[DataField, ...]
    quote: str | None

    @property
    def extension(self) -> str:
        return f".{self.name}"

    def changelog_mode(self) -> ChangelogMode:
        return self.mode

    def read(
        self, fs: FileSystem, path: str, fields: Sequence[DataField], report: ReportBad | None
    ) -> Iterator[pa.Table]:
        assert self.decoding is not None
        # Records are decoded whole: of CSV, the place of a column tells what it is.
        decoder = self.decoding.decoder(self.fields)
        names = {each.name for each in fields}
        line = 0
        for records in _records(fs, path, self.quote):
            rows = _decoded(decoder, records, report, line, path)
            kept = [
                name
                for name in rows.schema.names
                if name in names or name not in {each.name for each in self.fields}
            ]
            yield pa.Table.from_batches([rows]).select(kept)
            line += len(records)

    def open_writer(self, fs: FileSystem, path: str) -> RecordWriter:
        assert self.encoder is not None
        return _LineWriter(fs, path, self.encoder, quotes=self.quote is not None)


def _decoded(
    decoder: Decoder, records: list[bytes], report: ReportBad | None, first: int, path: str
) -> pa.RecordBatch:
    if report is not None:

        def on_bad(at: int, why: str) -> None:
            report(f"{path}, line {first + at + 1}", records[at], why)

        return decoder.decode(records, on_bad)
    try:
        return decoder.decode(records)
    except StorageError as error:
        raise type(error)(
            f"file {path}, behind line {first}: {error.message}", path=path
        ) from error


class _LineWriter(RecordWriter):
    def __init__(self, fs: FileSystem, path: str, encoder: Encoder, *, quotes: bool) -> None:
        self._stream: IO[bytes] = fs.open_output(path)
        self._path, self._encoder, self._quotes = path, encoder, quotes

    def write(self, rows: pa.RecordBatch) -> None:
        records = [each for each in self._encoder.encode(rows) if each is not None]
        if not self._quotes:
            for each in records:
                if b"\n" in each or each.endswith(b"\r"):
                    raise InvalidRows(
                        f"{each!r:.80} has an end of a line, and each line of {self._path} is a "
                        "row; write another format"
                    )
        data = b"".join(each + b"\n" for each in records)
        self._stream.write(data)
        self.size_bytes += len(data)

    def close(self) -> None:
        self._stream.close()

    def abandon(self) -> None:
        with suppress(StorageError, OSError):
            self._stream.close()


def _records(fs: FileSystem, path: str, quote: str | None) -> Iterator[list[bytes]]:
    """Records of a file, some at a time."""
    mark = None if quote is None else quote.encode()
    rest, open_record = b"", b""
    with _unpacked(fs, path) as stream:
        first = True
        while True:
            block = stream.read(_BLOCK_BYTES)
            if first:
                block, first = block.removeprefix(codecs.BOM_UTF8), False
            lines = (rest + block).split(b"\n")
            rest = lines.pop() if block else b""
            records = []
            for line in lines:
                whole = open_record + b"\n" + line if open_record else line
                if mark is not None and whole.count(mark) % 2:
                    if len(whole) > _MOST_BYTES:
                        raise CorruptionError(
                            f"file {path} has a quote that does not end within {len(whole)} "
                            "bytes; set csv.disable-quote-character if quotes are as other "
                            "characters",
                            path=path,
                        )
                    open_record = whole
                    continue
                open_record = b""
                records.append(whole.removesuffix(b"\r"))
            if not block:
                if open_record:
                    records.append(open_record)
                if records and not records[-1]:
                    records.pop()
                if records:
                    yield records
                return
            if records:
                yield records


@contextmanager
def _unpacked(fs: FileSystem, path: str) -> Iterator[Any]:
    with fs.open_input(path) as source:
        if not path.lower().endswith(_PACKED):
            yield source
            return
        codec = pa.Codec.detect(path.lower()).name
        try:
            with pa.CompressedInputStream(source, codec) as unpacked:
                yield unpacked
        except OSError as error:
            raise CorruptionError(f"file {path} cannot be unpacked: {error}", path=path) from error
