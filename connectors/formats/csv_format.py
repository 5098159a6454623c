"""The format `csv`: the values of a row between delimiters, in the order of the columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewright.connectors.formats.csv_values import TextForm, joined, type_problem
from lakewright.connectors.formats.json_columns import IGNORE_PARSE_ERRORS
from lakewright.connectors.formats.messages import (
    BadMessages,
    MessageDecoder,
    Numbered,
    batch_of,
    check_nulls,
    check_types,
    cut,
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
from lakewright.storage.errors import InvalidOption, InvalidRows
from lakewright.storage.file_reader.csv_rows import split_messages
from lakewright.storage.file_reader.file_form import FileForm
from lakewright.storage.spec.csv_dialect import CsvDialect
from lakewright.storage.spec.data_types import AtomicType, DataField

_NAME = "csv"
_DELIMITER = Option(
    name="field-delimiter",
    default=",",
    description=r"one character between fields; \t is a tab, \u0001 the character with that number",
)
_NO_QUOTES = Option(
    name="disable-quote-character",
    kind=OptionKind.BOOLEAN,
    default=False,
    description="a quote is a character as others",
)
_QUOTE = Option(name="quote-character", default='"', description="encloses fields")
_COMMENTS = Option(
    name="allow-comments",
    kind=OptionKind.BOOLEAN,
    default=False,
    description="a message that begins with # gives no row",
)
_ELEMENTS = Option(
    name="array-element-delimiter",
    default=";",
    description="stands between the elements of an ARRAY and the members of a ROW",
)
_ESCAPE = Option(name="escape-character", description="takes the meaning of the next character")
_NULL = Option(name="null-literal", description="a field with this text is null")
_SCIENTIFIC = Option(
    name="write-bigdecimal-in-scientific-notation",
    kind=OptionKind.BOOLEAN,
    default=True,
    description="small decimals are written as 2.7E-8, not as 0.000000027",
)
_UNICODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


class CsvFormat(FormatFactory):
    """Makes the format of a row of values per message."""

    identifier = _NAME
    description = "rows between delimiters"
    optional_options = (
        _DELIMITER,
        _NO_QUOTES,
        _QUOTE,
        _COMMENTS,
        IGNORE_PARSE_ERRORS,
        _ELEMENTS,
        _ESCAPE,
        _NULL,
        _SCIENTIFIC,
    )

    def decoding_format(self, options: ReadOptions) -> DecodingFormat:
        return csv_rows(options)

    def encoding_format(self, options: ReadOptions) -> EncodingFormat:
        return csv_rows(options)


def csv_rows(options: ReadOptions) -> CsvRows:
    """The format with its options.

    Raises:
        InvalidOption: an option is no character, or contradicts another one.
    """
    if options[_NO_QUOTES.name] and _QUOTE.name in options.given:
        raise InvalidOption(
            f"{_NO_QUOTES.name} and {_QUOTE.name} contradict each other; leave one out",
            option=_QUOTE.name,
        )
    delimiter = _UNICODE.sub(lambda found: chr(int(found[1], 16)), options[_DELIMITER.name])
    escape = _one(options[_ESCAPE.name], _ESCAPE) if options.get(_ESCAPE.name) else ""
    null = options.get(_NULL.name)
    dialect = csv_dialect(
        delimiter=_one("\t" if delimiter == r"\t" else delimiter, _DELIMITER),
        quote="" if options[_NO_QUOTES.name] else _one(options[_QUOTE.name], _QUOTE),
        escape=escape,
        null=null,
        comments=options[_COMMENTS.name],
        fills=options[IGNORE_PARSE_ERRORS.name],
    )
    form = TextForm(
        null_literal=null,
        element_delimiter=options[_ELEMENTS.name],
        ignores_errors=options[IGNORE_PARSE_ERRORS.name],
        plain_decimals=not options[_SCIENTIFIC.name],
    )
    return CsvRows(dialect, form)


def csv_dialect(
    *,
    delimiter: str,
    quote: str,
    escape: str,
    null: str | None,
    comments: bool = False,
    fills: bool = False,
) -> CsvDialect:
    """The dialect of Flink: an escape counts anywhere, and a null literal in quotes too."""
    return CsvDialect(
        delimiter=delimiter,
        quote=quote,
        escape=escape,
        escapes_all=bool(escape),
        escaped=_ESCAPED,
        header=False,
        nulls=() if null is None else (null,),
        # A literal with an escape is null as it is written.
        quoted_nulls=not (escape and null and escape in null),
        comments=comments,
        fills=fills,
        ends_with_delimiter=True,
    )


def _one(text: str, option: Option) -> str:
    if len(text) != 1:
        raise InvalidOption(
            f"option {option.name} of format {_NAME}: {text[:20]!r} is not one character",
            option=option.name,
        )
    return text


@dataclass(frozen=True)
class CsvRows(DecodingFormat, EncodingFormat):
    """Rows between delimiters: for `csv` and `hive-text`, which differ in their dialect."""

    dialect: CsvDialect
    form: TextForm

    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.insert_only()

    def file_form(self) -> FileForm:
        return FileForm(
            format=_NAME,
            csv=self.dialect,
            texts=self.form.layout,
            skips_broken=self.form.ignores_errors,
        )

    def decoder(self, fields: Sequence[DataField]) -> Decoder:
        check_types(fields, _NAME, type_problem)
        return _CsvDecoder(tuple(fields), self.dialect, self.form)

    def encoder(self, fields: Sequence[DataField]) -> Encoder:
        check_types(fields, _NAME, type_problem)
        return _CsvEncoder(tuple(fields), self.dialect, self.form)


@dataclass(frozen=True)
class _CsvDecoder(MessageDecoder):
    fields: tuple[DataField, ...]
    dialect: CsvDialect
    form: TextForm
    format_name = _NAME

    def rows(self, messages: Sequence[Numbered]) -> pa.RecordBatch:
        bad = BadMessages()

        def on_bad(place: int, why: str) -> None:
            if not self.form.ignores_errors:
                bad.add(messages[place][0], why)

        held = [message for _, message in messages]
        texts, places = split_messages(held, self.dialect, len(self.fields), on_bad)
        bad.check()
        numbers = [messages[place][0] for place in places]
        columns = self.form.columns(texts, self.fields, numbers)
        check_nulls(columns, self.fields, numbers)
        return batch_of(columns, self.fields, None)


@dataclass(frozen=True)
class _CsvEncoder:
    fields: tuple[DataField, ...]
    dialect: CsvDialect
    form: TextForm

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        columns = [self.form.texts(rows.column(field.name), field) for field in self.fields]
        null = self.form.null_literal or ""
        if len(self.fields) == 1 and not null:
            # A message without bytes is no row.
            null = 2 * self.dialect.quote
        quotes = {at: self._quoted for at, each in enumerate(self.fields) if _may_need(each)}
        return joined(columns, self.dialect.delimiter, null, quotes)

    def _quoted(self, text: str) -> str:
        """A text as a field."""
        dialect = self.dialect
        if not text and len(self.fields) > 1:
            return text
        if dialect.escape:
            text = text.replace(dialect.escape, 2 * dialect.escape)
        if text and not self._special.search(text) and not text.startswith("#"):
            return text
        if not dialect.quote:
            return self._escaped(text)
        return f"{dialect.quote}{text.replace(dialect.quote, 2 * dialect.quote)}{dialect.quote}"

    @property
    def _special(self) -> re.Pattern[str]:
        return re.compile(f"[{re.escape(self.dialect.delimiter + self.dialect.quote)}\r\n]")

    def _escaped(self, text: str) -> str:
        escape, delimiter = self.dialect.escape, self.dialect.delimiter
        if escape:
            for mark, name in ((delimiter, delimiter), ("\n", "n"), ("\r", "r")):
                text = text.replace(mark, escape + name)
            return text
        if self._special.search(text):
            raise InvalidRows(
                f"{_NAME}: {cut(repr(text))} holds a delimiter or a line break, and there are no "
                f"quotes; leave out {_NO_QUOTES.name}"
            )
        return text


def _may_need(field: DataField) -> bool:
    """Whether a column may hold characters with a meaning, beside those of numbers and dates."""
    return not isinstance(field.type, AtomicType) or field.type.root.is_text
