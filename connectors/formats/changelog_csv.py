"""The format `changelog-csv`: the kind of a change, then the values of its row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewright.connectors.formats.csv_values import TextForm, joined, type_problem
from lakewright.connectors.formats.messages import (
    BadMessages,
    MessageDecoder,
    Numbered,
    batch_of,
    check_nulls,
    check_types,
    cut,
    kinds_of,
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
from lakewright.storage.errors import InvalidOption, InvalidRows
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.rows import RowKind

_NAME = "changelog-csv"
_DELIMITER = Option(
    name="column-delimiter", default="|", description="stands between the kind and the values"
)
_NULL = Option(name="null-literal", description="a value with this text is null")
_KINDS = {"INSERT": RowKind.INSERT, "DELETE": RowKind.DELETE}
_MODE = ChangelogMode.of(*_KINDS.values())


class ChangelogCsvFormat(FormatFactory):
    """Makes the format of a kind and a row of values per message."""

    identifier = _NAME
    description = "rows between delimiters, behind INSERT or DELETE"
    optional_options = (_DELIMITER, _NULL)

    def decoding_format(self, options: ReadOptions) -> DecodingFormat:
        return _changelog_csv(options)

    def encoding_format(self, options: ReadOptions) -> EncodingFormat:
        return _changelog_csv(options)


def _changelog_csv(options: ReadOptions) -> _ChangelogCsv:
    delimiter = options[_DELIMITER.name]
    if not delimiter or "\n" in delimiter:
        raise InvalidOption(
            f"option {_DELIMITER.name} of format {_NAME} is empty or a line break",
            option=_DELIMITER.name,
        )
    return _ChangelogCsv(delimiter, TextForm(options.get(_NULL.name)))


@dataclass(frozen=True)
class _ChangelogCsv(DecodingFormat, EncodingFormat):
    delimiter: str
    form: TextForm

    def changelog_mode(self) -> ChangelogMode:
        return _MODE

    def decoder(self, fields: Sequence[DataField]) -> Decoder:
        check_types(fields, _NAME, type_problem)
        return _ChangelogDecoder(tuple(fields), self.delimiter, self.form)

    def encoder(self, fields: Sequence[DataField]) -> Encoder:
        check_types(fields, _NAME, type_problem)
        return _ChangelogEncoder(tuple(fields), self.delimiter, self.form)


@dataclass(frozen=True)
class _ChangelogDecoder(MessageDecoder):
    fields: tuple[DataField, ...]
    delimiter: str
    form: TextForm
    format_name = _NAME

    def rows(self, messages: Sequence[Numbered]) -> pa.RecordBatch:
        bad = BadMessages()
        split: list[list[str]] = []
        for number, message in messages:
            try:
                split.append(self._split(message))
            except ValueError as error:
                bad.add(number, str(error))
        bad.check()
        numbers = [number for number, _ in messages]
        texts = [
            pa.array([self._value(row[at]) for row in split], pa.string())
            for at in range(1, len(self.fields) + 1)
        ]
        columns = self.form.columns(texts, self.fields, numbers)
        check_nulls(columns, self.fields, numbers)
        return batch_of(columns, self.fields, [_KINDS[row[0]] for row in split])

    def _value(self, text: str) -> str | None:
        return None if text == self.form.null_literal else text

    def _split(self, message: bytes) -> list[str]:
        parts = message.decode().split(self.delimiter)
        if parts[0] not in _KINDS:
            known = " and ".join(_KINDS)
            raise ValueError(f"its first column is {cut(repr(parts[0]))}; the kinds are {known}")
        if len(parts) != len(self.fields) + 1:
            raise ValueError(
                f"it has {len(parts) - 1} values, and the table {len(self.fields)} columns"
            )
        return parts


@dataclass(frozen=True)
class _ChangelogEncoder:
    fields: tuple[DataField, ...]
    delimiter: str
    form: TextForm

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        names = {kind: name for name, kind in _KINDS.items()}
        kinds: list[str | None] = [names[each] for each in kinds_of(rows, _MODE.kinds, _NAME)]
        columns = [self.form.texts(rows.column(field.name), field) for field in self.fields]
        quotes = dict.fromkeys(range(1, len(columns) + 1), self._checked)
        return joined([kinds, *columns], self.delimiter, self.form.null_literal or "", quotes)

    def _checked(self, text: str) -> str:
        if self.delimiter in text or "\n" in text:
            raise InvalidRows(
                f"{_NAME}: {cut(repr(text))} holds the column-delimiter {self.delimiter!r} or a "
                "line break; set another delimiter"
            )
        return text
