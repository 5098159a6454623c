"""How files of a format are read and written: columns at once, or records on lines.

Parquet, ORC and Avro files describe themselves, and are read by the names of columns; CSV and JSON
are read as the files of a source are. Files of the other formats hold a message on each line.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa

from lakewright.connectors.factories import FORMAT, Context
from lakewright.connectors.filesystem.place import Place
from lakewright.connectors.formats.csv_format import CsvRows
from lakewright.connectors.formats.model import Decoder, DecodingFormat, Encoder
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import read_options
from lakewright.connectors.registry import FORMAT_GROUP
from lakewright.connectors.runtime import ReportBad
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.env import FileSystem
from lakewright.storage.errors import InvalidRows, StorageError
from lakewright.storage.file_reader.bad_rows import BadRow, BadRows
from lakewright.storage.file_reader.file_form import COLUMNAR, TEXT, FileForm
from lakewright.storage.file_reader.location import FoundFile
from lakewright.storage.file_reader.pieces import read_lines
from lakewright.storage.file_reader.reader import FileReader
from lakewright.storage.files.data_file import DataFileWriter
from lakewright.storage.files.data_files import open_data_file_writer
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.extra_columns import ExtraColumns
from lakewright.storage.spec.file_format import COMPRESSIONS, FileEncoding
from lakewright.storage.spec.options import TableOptions


class FileFormat(ABC):
    """A format of files, with its options. It pickles."""

    @abstractmethod
    def read(
        self, file: FoundFile, fields: Sequence[DataField], report: ReportBad | None
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
    fields, name = place.data_fields, place.format
    if name in COLUMNAR:
        form = FileForm(format=name, may_lack=True, own_avro=True, extra_columns=_IGNORE)
        return Columnar(name, fields, form, place.files.options)
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
    # A quoted text may hold the end of a line.
    quotes = isinstance(encoding, CsvRows) and bool(encoding.dialect.quote)
    return Lines(name, decoding, encoder, either.changelog_mode(), fields, quotes)


_IGNORE = ExtraColumns.IGNORE


def _rows_of_file(
    found: FoundFile, form: FileForm, fields: Sequence[DataField], report: ReportBad | None
) -> Iterator[pa.Table]:
    reader = FileReader(file=found, form=form, fields=tuple(fields))
    yield from reader.read(bad=None if report is None else _Reported(report))


class _Reported(BadRows):
    """Bad rows that go on to what a connector reports them to, without a limit of its own."""

    def __init__(self, report: ReportBad) -> None:
        super().__init__(most=sys.maxsize, keeps=True)
        self._report = report

    def keep(self, row: BadRow) -> None:
        line = "" if row.line is None else f", line {row.line}"
        self._report(f"{row.source}{line}", row.text.encode(), row.reason)


# --- columns --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columnar(FileFormat):
    """Parquet, ORC or Avro."""

    name: str
    fields: tuple[DataField, ...]
    form: FileForm
    options: TableOptions

    @property
    def extension(self) -> str:
        return f".{self.name}"

    def read(
        self, file: FoundFile, fields: Sequence[DataField], report: ReportBad | None
    ) -> Iterator[pa.Table]:
        yield from _rows_of_file(file, self.form, fields, report)

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
    """A record on each line; with `quotes`, a record may hold the end of a line."""

    name: str
    decoding: DecodingFormat | None
    encoder: Encoder | None
    mode: ChangelogMode
    fields: tuple[DataField, ...]
    quotes: bool

    @property
    def extension(self) -> str:
        return f".{self.name}"

    def changelog_mode(self) -> ChangelogMode:
        return self.mode

    def read(
        self, file: FoundFile, fields: Sequence[DataField], report: ReportBad | None
    ) -> Iterator[pa.Table]:
        assert self.decoding is not None
        form = self.decoding.file_form()
        if self.name == TEXT:
            form = FileForm(format=TEXT)
        if form is None:
            yield from self._messages(file, fields, report)
            return
        # Of a file without names, the place of a column tells what it is.
        every = fields if form.names_columns else self.fields
        names = [field.name for field in fields]
        for rows in _rows_of_file(file, form, every, report):
            yield rows.select(names) if names else rows

    def _messages(
        self, file: FoundFile, fields: Sequence[DataField], report: ReportBad | None
    ) -> Iterator[pa.Table]:
        """The rows of a format of messages, one on each line."""
        assert self.decoding is not None
        decoder = self.decoding.decoder(self.fields)
        others = {field.name for field in self.fields} - {field.name for field in fields}
        line = 0
        for records in read_lines(file):
            rows = _decoded(decoder, records, report, line, file.path)
            kept = [name for name in rows.schema.names if name not in others]
            yield pa.Table.from_batches([rows]).select(kept)
            line += len(records)

    def open_writer(self, fs: FileSystem, path: str) -> RecordWriter:
        assert self.encoder is not None
        return _LineWriter(fs, path, self.encoder, quotes=self.quotes)


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
            for record in records:
                if b"\n" in record or record.endswith(b"\r"):
                    raise InvalidRows(
                        f"{record!r:.80} has an end of a line, and each line of {self._path} is a "
                        "row; write another format"
                    )
        data = b"".join(record + b"\n" for record in records)
        self._stream.write(data)
        self.size_bytes += len(data)

    def close(self) -> None:
        self._stream.close()

    def abandon(self) -> None:
        with suppress(StorageError, OSError):
            self._stream.close()
