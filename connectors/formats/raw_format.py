"""The format `raw`: the bytes of one value, for a table of one column."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewright.connectors.formats.messages import (
    BadMessages,
    MessageDecoder,
    Numbered,
    batch_of,
    check_nulls,
)
from lakewright.connectors.formats.model import (
    Decoder,
    DecodingFormat,
    Encoder,
    EncodingFormat,
    FormatFactory,
)
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import Option, ReadOptions
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.errors import InvalidOption, InvalidRows, UnsupportedError
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot

_NAME = "raw"
_CHARSET = Option(name="charset", default="UTF-8", description="the encoding of texts")
_ENDIANNESS = Option(
    name="endianness",
    default="big-endian",
    choices=("big-endian", "little-endian"),
    description="the order of the bytes of a number",
)
# The numbers that have a fixed number of bytes, as numpy names them.
_NUMBERS = {
    TypeRoot.BOOLEAN: "u1",
    TypeRoot.TINYINT: "i1",
    TypeRoot.SMALLINT: "i2",
    TypeRoot.INT: "i4",
    TypeRoot.BIGINT: "i8",
    TypeRoot.FLOAT: "f4",
    TypeRoot.DOUBLE: "f8",
}


class RawFormat(FormatFactory):
    """Makes the format of one value per message."""

    identifier = _NAME
    description = "bytes or texts as they are, one column"
    optional_options = (_CHARSET, _ENDIANNESS)

    def decoding_format(self, options: ReadOptions) -> DecodingFormat:
        return _raw(options)

    def encoding_format(self, options: ReadOptions) -> EncodingFormat:
        return _raw(options)


def _raw(options: ReadOptions) -> _Raw:
    charset = options[_CHARSET.name]
    try:
        codecs.lookup(charset)
    except LookupError:
        raise InvalidOption(
            f"option {_CHARSET.name} of format {_NAME}: {charset[:40]!r} is no encoding of Python",
            option=_CHARSET.name,
        ) from None
    return _Raw(charset, ">" if options[_ENDIANNESS.name] == "big-endian" else "<")


@dataclass(frozen=True)
class _Raw(DecodingFormat, EncodingFormat):
    charset: str
    order: str

    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.insert_only()

    def decoder(self, fields: Sequence[DataField]) -> Decoder:
        return _RawDecoder(*_only(fields), self.charset, self.order)

    def encoder(self, fields: Sequence[DataField]) -> Encoder:
        return _RawEncoder(*_only(fields), self.charset, self.order)


def _only(fields: Sequence[DataField]) -> tuple[DataField, AtomicType]:
    if len(fields) != 1:
        raise UnsupportedError(
            f"format {_NAME} is for a table of one column, and this one has {len(fields)}"
        )
    data_type = fields[0].type
    if isinstance(data_type, AtomicType) and (
        data_type.root in _NUMBERS or data_type.root.is_text or data_type.root.is_bytes
    ):
        return fields[0], data_type
    raise UnsupportedError(
        f"format {_NAME} has no form for column {fields[0].name} of type {data_type}: make it "
        "BYTES, STRING, BOOLEAN, or a whole or floating number"
    )


@dataclass(frozen=True)
class _RawDecoder(MessageDecoder):
    field: DataField
    data_type: AtomicType
    charset: str
    order: str
    format_name = _NAME
    takes_none = True

    def rows(self, messages: Sequence[Numbered]) -> pa.RecordBatch:
        root = self.data_type.root
        if root.is_bytes:
            column = pa.array([message for _, message in messages], pa.binary())
        elif root.is_text:
            column = self._texts(messages)
        else:
            column = self._numbers(messages)
        check_nulls([column], [self.field], [number for number, _ in messages])
        return batch_of([column], [self.field], None)

    def _texts(self, messages: Sequence[Numbered]) -> pa.Array:
        bad = BadMessages()
        texts: list[str | None] = []
        for number, message in messages:
            try:
                texts.append(None if message is None else message.decode(self.charset))
            except UnicodeDecodeError as error:
                bad.add(number, f"it is not text in {self.charset}: {error}")
        bad.check()
        return pa.array(texts, pa.string())

    def _numbers(self, messages: Sequence[Numbered]) -> pa.Array:
        kind = np.dtype(self.order + _NUMBERS[self.data_type.root])
        bad = BadMessages()
        for number, message in messages:
            if message is not None and len(message) != kind.itemsize:
                why = f"it has {len(message)} bytes, and {self.data_type} has {kind.itemsize}"
                bad.add(number, why)
        bad.check()
        zero = bytes(kind.itemsize)
        data = b"".join([zero if message is None else message for _, message in messages])
        numbers = np.frombuffer(data, kind).astype(kind.newbyteorder("="))
        if self.data_type.root is TypeRoot.BOOLEAN:
            numbers = numbers != 0
        missing = np.array([message is None for _, message in messages], bool)
        return pa.array(numbers, to_arrow_type(self.data_type), mask=missing)


@dataclass(frozen=True)
class _RawEncoder:
    field: DataField
    data_type: AtomicType
    charset: str
    order: str

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        column = rows.column(self.field.name)
        root = self.data_type.root
        if root.is_bytes:
            return list(column.to_pylist())
        if root.is_text:
            return [each if each is None else self._text(each) for each in column.to_pylist()]
        kind = np.dtype(self.order + _NUMBERS[root])
        numbers = column.fill_null(False if root is TypeRoot.BOOLEAN else 0)
        data = numbers.to_numpy(zero_copy_only=False).astype(kind).tobytes()
        size = kind.itemsize
        present = enumerate(column.is_valid().to_pylist())
        return [data[at * size : (at + 1) * size] if there else None for at, there in present]

    def _text(self, text: str) -> bytes:
        try:
            return text.encode(self.charset)
        except UnicodeEncodeError as error:
            raise InvalidRows(
                f"{_NAME}: column {self.field.name} has no form in {self.charset}: {error}",
                column=self.field.name,
            ) from None
