"""The format `json`: an object with a member for each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewright.connectors.formats import json_columns
from lakewright.connectors.formats.json_columns import JsonForm, encoded_rows, type_problem
from lakewright.connectors.formats.messages import (
    MessageDecoder,
    Numbered,
    batch_of,
    check_nulls,
    check_types,
)
from lakewright.connectors.formats.model import (
    Decoder,
    DecodingFormat,
    Encoder,
    EncodingFormat,
    FormatFactory,
)
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import Option, OptionKind, ReadOptions
from lakewright.storage.codec.arrow_json import arrow_columns
from lakewright.storage.file_reader.file_form import FileForm
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.extra_columns import ExtraColumns

_NAME = "json"


class JsonFormat(FormatFactory):
    """Makes the format of an object per message."""

    identifier = _NAME
    description = "objects of JSON"
    optional_options = (
        json_columns.FAIL_ON_MISSING_FIELD,
        *json_columns.DECODE_OPTIONS,
        *json_columns.ENCODE_OPTIONS,
        Option(
            name="decode.json-parser.enabled",
            kind=OptionKind.BOOLEAN,
            default=True,
            description="accepted, and without effect: there is one parser",
        ),
    )

    def decoding_format(self, options: ReadOptions) -> DecodingFormat:
        return _Json(JsonForm.of(options))

    def encoding_format(self, options: ReadOptions) -> EncodingFormat:
        return _Json(JsonForm.of(options))


@dataclass(frozen=True)
class _Json(DecodingFormat, EncodingFormat):
    form: JsonForm

    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.insert_only()

    def file_form(self) -> FileForm:
        return FileForm(
            format=_NAME,
            json=self.form.layout,
            may_lack=True,
            extra_columns=ExtraColumns.IGNORE,
            skips_broken=self.form.ignores_errors,
        )

    def decoder(self, fields: Sequence[DataField]) -> Decoder:
        check_types(fields, _NAME, type_problem)
        return _JsonDecoder(tuple(fields), self.form)

    def encoder(self, fields: Sequence[DataField]) -> Encoder:
        check_types(fields, _NAME, type_problem)
        return _JsonEncoder(tuple(fields), self.form)


@dataclass(frozen=True)
class _JsonDecoder(MessageDecoder):
    fields: tuple[DataField, ...]
    form: JsonForm
    format_name = _NAME

    def rows(self, messages: Sequence[Numbered]) -> pa.RecordBatch:
        numbers = [number for number, _ in messages]
        columns = None
        if not self.form.requires_members:
            columns = arrow_columns([message for _, message in messages], self.fields)
        if columns is None:
            objects, numbers = self.form.objects(messages)
            columns = self.form.columns(objects, self.fields, numbers)
        check_nulls(columns, self.fields, numbers)
        return batch_of(columns, self.fields, None)


@dataclass(frozen=True)
class _JsonEncoder:
    fields: tuple[DataField, ...]
    form: JsonForm

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        return [text.encode() for text in encoded_rows(rows, self.fields, self.form)]
