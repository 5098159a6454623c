"""The format `csv`: the values of a row between delimiters, in the order of the columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv

from lakewright.connectors.formats.csv_values import TextForm, joined, type_problem
from lakewright.connectors.formats.json_values import IGNORE_PARSE_ERRORS
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
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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
        return _csv(options)

    def encoding_format(self, options: ReadOptions) -> EncodingFormat:
        return _csv(options)


def _csv(options: ReadOptions) -> CsvRows:
    if options[_NO_QUOTES.name] and _QUOTE.name in options.given:
        raise InvalidOption(
            f"{_NO_QUOTES.name} and {_QUOTE.name} contradict each other; leave one out",
            option=_QUOTE.name,
        )
    delimiter = _UNICODE.sub(lambda found: chr(int(found[1], 16)), options[_DELIMITER.name])
    escape = _one(options[_ESCAPE.name], _ESCAPE) if options.get(_ESCAPE.name) else ""
    null = options.get(_NULL.name)
    null_is_raw = bool(escape and null and escape in null)
    layout = CsvLayout(
        delimiter=_one("\t" if delimiter == r"\t" else delimiter, _DELIMITER),
        quote="" if options[_NO_QUOTES.name] else _one(options[_QUOTE.name], _QUOTE),
        escape=escape,
        has_comments=options[_COMMENTS.name],
        raw_null=null if null_is_raw else None,
    )
    form = TextForm(
        null_literal=null,
        null_is_raw=null_is_raw,
        element_delimiter=options[_ELEMENTS.name],
        ignores_errors=options[IGNORE_PARSE_ERRORS.name],
        plain_decimals=not options[_SCIENTIFIC.name],
    )
    return CsvRows(layout, form)


def _one(text: str, option: Option) -> str:
    if len(text) != 1:
        raise InvalidOption(
            f"option {option.name} of format {_NAME}: {text[:20]!r} is not one character",
            option=option.name,
        )
    return text


@dataclass(frozen=True)
class CsvLayout:
    """The characters with a meaning; an empty text is none."""

    delimiter: str
    quote: str
    escape: str
    has_comments: bool = False
    # The text of null, if it holds an escape.
    raw_null: str | None = None

    def split(self, text: str) -> list[str | None]:
        """The fields of a row; raises a ValueError."""
        found: list[str | None] = []
        pattern = self._pattern
        at = 0
        while True:
            field = pattern.match(text, at)
            if field is None:
                raise ValueError(self._problem(text, at))
            quoted, plain = field.group("quoted"), field.group("plain")
            found.append(self._plain(plain) if quoted is None else self._unquoted(quoted))
            at = field.end()
            if at == len(text):
                return found
            if text[at] != self.delimiter:
                raise ValueError(self._problem(text, at))
            at += 1

    @property
    def _pattern(self) -> re.Pattern[str]:
        # Python caches what it compiles.
        delimiter, quote, escape = map(re.escape, (self.delimiter, self.quote, self.escape))
        escaped = f"|{escape}." if escape else ""
        plain = rf"(?P<plain>(?:[^{delimiter}{escape}\r\n]{escaped})*)"
        if not quote:
            return re.compile(rf"(?P<quoted>(?!))|{plain}", re.DOTALL)
        quoted = rf"{quote}(?P<quoted>(?:[^{quote}{escape}]|{quote}{quote}{escaped})*){quote}"
        return re.compile(rf"{quoted}|(?!{quote}){plain}", re.DOTALL)

    def _unquoted(self, text: str) -> str:
        if self.escape:
            either = re.escape(self.escape) + r"(.)|" + re.escape(2 * self.quote)
            return re.sub(either, self._meant, text, flags=re.DOTALL)
        return text.replace(2 * self.quote, self.quote)

    def _plain(self, text: str) -> str | None:
        if text == self.raw_null:
            return None
        if not self.escape or self.escape not in text:
            return text
        return re.sub(re.escape(self.escape) + r"(.)", self._meant, text, flags=re.DOTALL)

    def _meant(self, found: re.Match[str]) -> str:
        escaped = found.group(1)
        return self.quote if escaped is None else _ESCAPED.get(escaped, escaped)

    def _problem(self, text: str, at: int) -> str:
        near = cut(repr(text[at:]))
        if at < len(text) and text[at] in "\r\n":
            return f"it holds more than one line, and a message is one row: {near}"
        return f"its quotes do not end a field, or its last character is an escape: {near}"

    def quoted(self, text: str) -> str:
        """A text as a field."""
        if self.escape:
            text = text.replace(self.escape, 2 * self.escape)
        if text and not self._special.search(text) and not text.startswith("#"):
            return text
        if not self.quote:
            return self._escaped(text)
        return f"{self.quote}{text.replace(self.quote, 2 * self.quote)}{self.quote}"

    @property
    def _special(self) -> re.Pattern[str]:
        return re.compile(f"[{re.escape(self.delimiter + self.quote)}\r\n]")

    def _escaped(self, text: str) -> str:
        if self.escape:
            for mark, name in ((self.delimiter, self.delimiter), ("\n", "n"), ("\r", "r")):
                text = text.replace(mark, self.escape + name)
            return text
        if self._special.search(text):
            raise InvalidRows(
                f"{_NAME}: {cut(repr(text))} holds a delimiter or a line break, and there are no "
                f"quotes; leave out {_NO_QUOTES.name}"
            )
        return text


@dataclass(frozen=True)
class CsvRows(DecodingFormat, EncodingFormat):
    """Rows of values, in a layout."""

    layout: CsvLayout
    form: TextForm

    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.insert_only()

    def decoder(self, fields: Sequence[DataField]) -> Decoder:
        check_types(fields, _NAME, type_problem)
        return _CsvDecoder(tuple(fields), self.layout, self.form)

    def encoder(self, fields: Sequence[DataField]) -> Encoder:
        check_types(fields, _NAME, type_problem)
        return _CsvEncoder(tuple(fields), self.layout, self.form)


@dataclass(frozen=True)
class _CsvDecoder(MessageDecoder):
    fields: tuple[DataField, ...]
    layout: CsvLayout
    form: TextForm
    format_name = _NAME

    def rows(self, messages: Sequence[Numbered]) -> pa.RecordBatch:
        if self.layout.has_comments:
            messages = [each for each in messages if not each[1].lstrip().startswith(b"#")]
        texts = self._plain_columns(messages)
        numbers: Sequence[int] = [number for number, _ in messages]
        if texts is None:
            texts, numbers = self._split_columns(messages)
        columns = [
            self.form.column(each, field, numbers)
            for each, field in zip(texts, self.fields, strict=True)
        ]
        check_nulls(columns, self.fields, numbers)
        return batch_of(columns, self.fields, None)

    def _plain_columns(self, messages: Sequence[Numbered]) -> list[pa.Array] | None:
        """The fields of messages in which nothing but delimiters has a meaning, read by Arrow.

        None if a message has a quote, an escape, another line, or another number of fields.
        """
        text = b"\n".join([message for _, message in messages])
        layout = self.layout
        marks = (layout.quote, layout.escape, "\r", "\0")
        if (
            not messages
            or not layout.delimiter.isascii()
            or text.count(b"\n") != len(messages) - 1
            or any(mark and mark.encode() in text for mark in marks)
            or text.startswith(_BYTE_ORDER_MARK)
        ):
            return None
        names = [str(at) for at in range(len(self.fields))]
        try:
            rows = pyarrow.csv.read_csv(
                pa.BufferReader(text),
                pyarrow.csv.ReadOptions(
                    column_names=names, use_threads=False, block_size=len(text) + 1
                ),
                pyarrow.csv.ParseOptions(
                    delimiter=layout.delimiter,
                    quote_char=False,
                    escape_char=False,
                    ignore_empty_lines=False,
                ),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowException:
            return None
        return [rows.column(name).combine_chunks() for name in names]

    def _split_columns(self, messages: Sequence[Numbered]) -> tuple[list[pa.Array], list[int]]:
        rows: list[list[str | None]] = []
        numbers: list[int] = []
        bad = BadMessages()
        for number, message in messages:
            try:
                rows.append(self._fields(message))
                numbers.append(number)
            except ValueError as error:
                if not self.form.ignores_errors:
                    bad.add(number, str(error))
        bad.check()
        count = len(self.fields)
        return [pa.array([row[at] for row in rows], pa.string()) for at in range(count)], numbers

    def _fields(self, message: bytes) -> list[str | None]:
        text = message.decode()
        # A message that was cut out of a file may hold the end of its line.
        end = text.removesuffix("\n").removesuffix("\r")
        found = self.layout.split(end)
        count = len(self.fields)
        if len(found) == count + 1 and not found[-1]:
            # A delimiter may end a row.
            del found[-1]
        if len(found) < count and self.form.ignores_errors:
            found += [None] * (count - len(found))
        if len(found) != count:
            raise ValueError(f"it has {len(found)} fields, and the table {count}: {cut(repr(end))}")
        return found


@dataclass(frozen=True)
class _CsvEncoder:
    fields: tuple[DataField, ...]
    layout: CsvLayout
    form: TextForm

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        columns = [self.form.texts(rows.column(each.name), each) for each in self.fields]
        null = self.form.null_literal or ""
        if len(self.fields) == 1 and not null:
            # A message without bytes is no row.
            null = 2 * self.layout.quote
        quotes = {at: self._quoted for at, each in enumerate(self.fields) if _may_need(each)}
        return joined(columns, self.layout.delimiter, null, quotes)

    def _quoted(self, text: str) -> str:
        if not text and len(self.fields) > 1:
            return text
        return self.layout.quoted(text)


def _may_need(field: DataField) -> bool:
    """Whether a column may hold characters with a meaning, beside those of numbers and dates."""
    return not isinstance(field.type, AtomicType) or field.type.root.is_text
