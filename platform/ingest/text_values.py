"""Text columns of files as columns of declared types.

The default forms are those that the format prints: ISO dates and times, numbers with a point, true
and false, bytes in hexadecimal. Dates and timestamps may have a declared layout.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.arrow_values import scalar_of
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.values import from_python

_INFINITIES = ["inf", "infinity"]
_WORDS = [*_INFINITIES, "nan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """How a file writes values; layouts of dates and timestamps are those of `strptime`."""

    nulls: tuple[str, ...] = ("",)
    date_format: str | None = None
    timestamp_format: str | None = None
    decimal: str = "."
    thousands: str = ""


def from_text(texts: pa.Array, field: DataField, layout: TextLayout, *, first_row: int) -> pa.Array:
    """Texts as values of a column's type; `first_row` is the number of rows before them.

    Raises:
        InvalidRows: a text is not a value of the type; the message says which, and in which row.
    """
    assert isinstance(field.type, AtomicType)
    if field.type.root.is_text:
        return texts
    # A quoted text is never null, and only text types have an empty value.
    blank = pc.is_in(texts, pa.array(layout.nulls, pa.string()))
    texts = pc.if_else(blank, pa.scalar(None, pa.string()), texts)
    convert = _converter(field.type, layout)
    try:
        return convert(texts)
    except (pa.ArrowException, ValueError):
        at = _first_failure(texts, convert)
        raise InvalidRows(
            f"column {field.name} is {field.type}, and row {first_row + at + 1} holds "
            f"{texts[at].as_py()!r}{_expected(field.type, layout)}",
            column=field.name,
        ) from None


def _converter(data_type: AtomicType, layout: TextLayout) -> Callable[[pa.Array], pa.Array]:
    target = to_arrow_type(data_type)
    root = data_type.root
    if root is TypeRoot.DATE and layout.date_format is not None:
        return _each_once(data_type, _moment_reader(layout.date_format, dates=True))
    if root.is_timestamp and layout.timestamp_format is not None:
        return _each_once(data_type, _moment_reader(layout.timestamp_format, dates=False))
    if root is TypeRoot.TIME or root.is_bytes:
        return _each_once(data_type, lambda text: text)
    if root.is_floating:
        return lambda texts: _finite(_digits(texts, layout), target)
    if root.is_integer or root is TypeRoot.DECIMAL:
        return lambda texts: _digits(texts, layout).cast(target)
    return lambda texts: pc.utf8_trim_whitespace(texts).cast(target)


def _digits(texts: pa.Array, layout: TextLayout) -> pa.Array:
    """Texts without surrounding blanks and a leading plus; Arrow would read `0x10` as 16."""
    trimmed = pc.utf8_trim_whitespace(texts)
    if layout.decimal != "." or layout.thousands:
        trimmed = _with_points(trimmed, layout)
    if pc.any(pc.match_substring(trimmed, "x", ignore_case=True)).as_py():
        raise ValueError("hexadecimal digits are no number")
    signed = pc.match_substring_regex(trimmed, r"^\+[0-9.]")
    return pc.if_else(signed, pc.utf8_slice_codeunits(trimmed, 1), trimmed)


def _with_points(texts: pa.Array, layout: TextLayout) -> pa.Array:
    """Numbers of a layout with a point before decimals; groups have three digits, or none are."""
    point, mark = re.escape(layout.decimal), re.escape(layout.thousands)
    groups = rf"[0-9]{{1,3}}({mark}[0-9]{{3}})+|" if mark else ""
    number = rf"^[+-]?({groups}[0-9]*)({point}[0-9]*)?([eE][+-]?[0-9]+)?$"
    word = rf"^[+-]?({'|'.join(_WORDS)})$"
    is_number = pc.match_substring_regex(texts, number)
    is_word = pc.match_substring_regex(texts, word, ignore_case=True)
    if not pc.all(pc.or_(is_number, is_word)).as_py() and len(texts.drop_null()):
        raise ValueError("it is not written so")
    if mark:
        texts = pc.replace_substring(texts, layout.thousands, "")
    return pc.replace_substring(texts, layout.decimal, ".")


def _finite(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Refuse numbers that are too large for the type, instead of reading them as infinite."""
    numbers = texts.cast(target)
    infinite = pc.fill_null(pc.is_inf(numbers), False)
    words = pc.utf8_lower(pc.utf8_ltrim(texts.filter(infinite), "+-"))
    if not pc.all(pc.is_in(words, pa.array(_INFINITIES))).as_py() and len(words):
        raise ValueError("it is too large")
    return numbers


def _each_once(
    data_type: AtomicType, read: Callable[[str], object]
) -> Callable[[pa.Array], pa.Array]:
    """A conversion in Python that converts each distinct text once."""

    def convert(texts: pa.Array) -> pa.Array:
        encoded = texts.dictionary_encode()
        distinct = [
            scalar_of(from_python(read(text.strip()), data_type), data_type)
            for text in encoded.dictionary.to_pylist()
        ]
        return pa.array(distinct, to_arrow_type(data_type)).take(encoded.indices)

    return convert


def _moment_reader(layout: str, *, dates: bool) -> Callable[[str], object]:
    def read(text: str) -> object:
        # The column type decides whether a zone is required.
        moment = dt.datetime.strptime(text, layout)  # noqa: DTZ007
        return moment.date() if dates else moment

    return read


def _first_failure(texts: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> int:
    """The position of the first text that cannot be converted; at least one cannot."""
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(texts.slice(low, middle - low))
            low = middle
        except (pa.ArrowException, ValueError):
            high = middle
    return low


def _expected(data_type: AtomicType, layout: TextLayout) -> str:
    """The expected form, as the end of a message about a wrong value."""
    root = data_type.root
    nulls = "; if the text stands for null, name it in `nulls`"
    if root is TypeRoot.DATE:
        if layout.date_format is None:
            return (
                "; write 2024-01-31, or give the layout in `date_format`, such as '%d.%m.%Y', or "
                "the unit of numbers in the column (`from: epoch_days`)"
            )
        return f", which does not have the layout {layout.date_format}"
    if root.is_timestamp:
        if layout.timestamp_format is not None:
            return f", which does not have the layout {layout.timestamp_format}"
        zone = "+01:00" if root is TypeRoot.TIMESTAMP_LTZ else ""
        with_zone = "with its zone" if zone else "without a zone"
        return (
            f"; write it {with_zone}, 2024-01-31T13:45:00{zone}, or use `timestamp_format`, or "
            "give the unit of numbers in the column (`from: epoch_ms`)"
        )
    if root is TypeRoot.BOOLEAN:
        return f"; write true or false{nulls}"
    if root is TypeRoot.TIME:
        return f"; write 13:45:00{nulls}"
    if root.is_bytes:
        return f"; write hexadecimal digits{nulls}"
    if root.is_text:
        return nulls
    point = "a point" if layout.decimal == "." else repr(layout.decimal)
    grouped = f", in groups of three parted by {layout.thousands!r}" if layout.thousands else ""
    return (
        f"; write digits{grouped}, with {point} before decimals, that the type can hold, or "
        f"declare a wider type{nulls}; `decimal` and `thousands` name other marks"
    )
