"""Columns of texts as columns of declared types.

The default forms are those that the format prints: ISO dates and times, numbers with a point, true
and false, bytes in hexadecimal. A `TextLayout` says what a file or a message does otherwise.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.arrow_values import scalar_of
from lakewright.storage.codec.value_limits import unfit_moment
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)
from lakewright.storage.spec.values import from_python

_INFINITIES = ["inf", "infinity"]
_WORDS = [*_INFINITIES, "nan"]
_MOST_SHOWN = 80
# The zone at the end of a moment.
_ZONE = r"(?:Z|[+-]\d\d(?::?\d\d)?)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """How values are written as text; layouts of dates and timestamps are those of `strptime`.

    `nulls` are the texts that are null in a column of another type than text. Bytes are in
    hexadecimal, or in `base64`. `elements` stands between the elements of an ARRAY and the members
    of a ROW, of which `null_element` is null; without it, such columns have no form. With
    `unfit_is_null`, a text that is no value of its type is null instead of an error. Messages name
    keys of declarations if it `is_declared`.
    """

    nulls: tuple[str, ...] = ("",)
    date_format: str | None = None
    timestamp_format: str | None = None
    decimal: str = "."
    thousands: str = ""
    base64: bool = False
    elements: str | None = None
    null_element: str | None = None
    unfit_is_null: bool = False
    is_declared: bool = True


class UnfitTextError(ValueError):
    """A text that is no value of its type: its place in the column, and what is expected."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


def from_text(
    texts: pa.Array, field: DataField, layout: TextLayout, *, first_row: int = 0
) -> pa.Array:
    """Texts as values of a column's type; `first_row` is the number of rows before them.

    Raises:
        InvalidRows: a text is not a value of the type; the message says which, and in which row.
    """
    try:
        return text_column(texts, field.type, layout)
    except UnfitTextError as error:
        raise InvalidRows(
            f"column {field.name} is {field.type}, and row {first_row + error.at + 1} holds "
            f"{error.why}",
            column=field.name,
        ) from None


def has_text_form(data_type: DataType, layout: TextLayout) -> bool:
    """Whether a text can be a value of a type."""
    match data_type:
        case AtomicType():
            return True
        case ArrayType(element=element):
            return layout.elements is not None and isinstance(element, AtomicType)
        case RowType(fields=fields):
            atomic = all(isinstance(field.type, AtomicType) for field in fields)
            return layout.elements is not None and atomic
        case _:
            return False


def text_column(texts: pa.Array, data_type: DataType, layout: TextLayout) -> pa.Array:
    """Texts as values of a type.

    Raises:
        UnfitTextError: the first text that is no value of the type.
    """
    match data_type:
        case ArrayType(element=AtomicType() as element):
            return _arrays(texts, data_type, element, layout)
        case RowType():
            return _rows(texts, data_type, layout)
        case AtomicType():
            return _atoms(texts, data_type, layout)
        case _:
            raise AssertionError(data_type)


def _atoms(texts: pa.Array, data_type: AtomicType, layout: TextLayout) -> pa.Array:
    if data_type.root.is_text:
        return texts
    if not (data_type.root.is_bytes and layout.base64):
        # A quoted text is never null, and only text types have an empty value.
        blank = pc.is_in(texts, pa.array(layout.nulls, pa.string()))
        texts = pc.if_else(blank, pa.scalar(None, pa.string()), texts)
    read = _converter(data_type, layout)

    def convert(some: pa.Array) -> pa.Array:
        values = read(some)
        unfit = unfit_moment(values, data_type)
        if unfit is not None:
            raise ValueError(unfit)
        return values

    try:
        return convert(texts)
    except (pa.ArrowException, ValueError):
        if layout.unfit_is_null:
            return _fitting(texts, convert)
        at = _first_failure(texts, convert)
        raise UnfitTextError(
            at, f"{quoted_text(texts[at].as_py())}{_expected(data_type, layout)}"
        ) from None


def _arrays(
    texts: pa.Array, data_type: DataType, element: AtomicType, layout: TextLayout
) -> pa.Array:
    parts = _split(texts, layout)
    # Null elements are known by their own text.
    layout = replace(layout, nulls=())
    owners = np.repeat(np.arange(len(texts)), np.diff(parts.offsets.to_numpy()))
    try:
        inner = _atoms(parts.flatten(), element, layout)
    except UnfitTextError as error:
        raise UnfitTextError(int(owners[error.at]), error.why) from None
    mask = parts.is_null() if parts.null_count else None
    return pa.ListArray.from_arrays(parts.offsets, inner, type=to_arrow_type(data_type), mask=mask)


def _rows(texts: pa.Array, data_type: RowType, layout: TextLayout) -> pa.Array:
    # A row without any text is how null is written.
    empty = pc.equal(texts, "")
    parts = _split(pc.if_else(empty, pa.scalar(None, pa.string()), texts), layout)
    count = len(data_type.fields)
    wrong = pc.fill_null(pc.not_equal(pc.list_value_length(parts), count), False)
    if pc.any(wrong).as_py():
        at = pc.index(wrong, True).as_py()
        if not layout.unfit_is_null:
            raise UnfitTextError(at, f"{len(parts[at])} parts: {quoted_text(texts[at].as_py())}")
        parts = pc.if_else(wrong, pa.scalar(None, parts.type), parts)
    members = []
    layout = replace(layout, nulls=())
    for number, member in enumerate(data_type.fields):
        assert isinstance(member.type, AtomicType)
        members.append(_atoms(pc.list_element(parts, number), member.type, layout))
    target = to_arrow_type(data_type)
    return pa.StructArray.from_arrays(members, fields=list(target), mask=parts.is_null())


def _split(texts: pa.Array, layout: TextLayout) -> pa.ListArray:
    """The texts of the parts; an empty text has none."""
    assert layout.elements is not None
    lists = pc.split_pattern(texts, layout.elements)
    lengths = np.diff(lists.offsets.to_numpy())
    empty = pc.fill_null(pc.equal(texts, ""), False).to_numpy(zero_copy_only=False)
    there = texts.is_valid().to_numpy(zero_copy_only=False)
    inner = lists.values.filter(pa.array(np.repeat(~empty & there, lengths)))
    if layout.null_element is not None:
        is_null = pc.equal(inner, layout.null_element)
        inner = pc.if_else(is_null, pa.scalar(None, pa.string()), inner)
    offsets = np.concatenate([[0], np.cumsum(np.where(empty | ~there, 0, lengths))])
    mask = None if there.all() else pa.array(~there)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, mask=mask)


def _converter(data_type: AtomicType, layout: TextLayout) -> Callable[[pa.Array], pa.Array]:
    target = to_arrow_type(data_type)
    root = data_type.root
    if root is TypeRoot.DATE and layout.date_format is not None:
        return _each_once(data_type, _moment_reader(layout.date_format, dates=True))
    if root.is_timestamp and layout.timestamp_format is not None:
        zoned = root is TypeRoot.TIMESTAMP_LTZ
        return _each_once(
            data_type, _moment_reader(layout.timestamp_format, dates=False, zoned=zoned)
        )
    if root.is_bytes and layout.base64:
        return _each_once(data_type, _of_base64)
    if root is TypeRoot.TIME or root.is_bytes:
        return _each_once(data_type, lambda text: text.strip())
    if root.is_floating:
        return lambda texts: _finite(_digits(texts, layout), target)
    if root.is_integer or root is TypeRoot.DECIMAL:
        return lambda texts: _digits(texts, layout).cast(target)
    if root.is_timestamp:
        return lambda texts: _moments(pc.utf8_trim_whitespace(texts), target)
    return lambda texts: pc.utf8_trim_whitespace(texts).cast(target)


def _moments(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Texts as timestamps; zeros at the end of a fraction are no digits."""
    try:
        return texts.cast(target)
    except pa.ArrowInvalid:
        shorter = pc.replace_substring_regex(texts, rf"(\.\d*?)0+({_ZONE})$", r"\1\2")
        return pc.replace_substring_regex(shorter, rf"\.({_ZONE})$", r"\1").cast(target)


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
            scalar_of(from_python(read(text), data_type), data_type)
            for text in encoded.dictionary.to_pylist()
        ]
        return pa.array(distinct, to_arrow_type(data_type)).take(encoded.indices)

    return convert


def _of_base64(text: str) -> object:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("it is no text in base64") from None


def _moment_reader(layout: str, *, dates: bool, zoned: bool = False) -> Callable[[str], object]:
    def read(text: str) -> object:
        moment = dt.datetime.strptime(text.strip(), layout)  # noqa: DTZ007 # checked below
        if zoned and moment.tzinfo is None:
            raise ValueError("it has no zone")
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


def _fitting(texts: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The values of the texts that can be converted; the others are null."""
    try:
        return convert(texts)
    except (pa.ArrowException, ValueError):
        if len(texts) == 1:
            return convert(pa.nulls(1, pa.string()))
        half = len(texts) // 2
        return pa.concat_arrays([_fitting(each, convert) for each in (texts[:half], texts[half:])])


def quoted_text(text: str) -> str:
    """A text as a message shows it."""
    return repr(text) if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]!r}…"


def _expected(data_type: AtomicType, layout: TextLayout) -> str:
    """The expected form, as the end of a message about a wrong value."""
    root = data_type.root
    says_keys = layout.is_declared
    nulls = "; if the text stands for null, name it in `nulls`" if says_keys else ""
    if root is TypeRoot.DATE:
        if layout.date_format is not None:
            return f", which does not have the layout {layout.date_format}"
        way_out = (
            ", or give the layout in `date_format`, such as '%d.%m.%Y', or the unit of numbers in "
            "the column (`from: epoch_days`)"
        )
        return f"; write 2024-01-31{way_out if says_keys else ''}"
    if root.is_timestamp:
        if layout.timestamp_format is not None:
            if root is TypeRoot.TIMESTAMP_LTZ and "%z" not in layout.timestamp_format:
                return (
                    f", and the layout {layout.timestamp_format} has no zone; add %z to it, or "
                    "declare the column TIMESTAMP"
                )
            return f", which does not have the layout {layout.timestamp_format}"
        zone = "+01:00" if root is TypeRoot.TIMESTAMP_LTZ else ""
        with_zone = "with its zone" if zone else "without a zone"
        way_out = (
            ", or use `timestamp_format`, or give the unit of numbers in the column "
            "(`from: epoch_ms`)"
        )
        return (
            f"; write it {with_zone}, 2024-01-31T13:45:00{zone}, with at most "
            f"{data_type.precision} digits below the second{way_out if says_keys else ''}"
        )
    if root is TypeRoot.BOOLEAN:
        return f"; write true or false{nulls}"
    if root is TypeRoot.TIME:
        return f"; write 13:45:00, with at most {data_type.precision} digits below it{nulls}"
    if root.is_bytes:
        form = "base64" if layout.base64 else "hexadecimal digits"
        return f"; write {form}{nulls}"
    point = "a point" if layout.decimal == "." else repr(layout.decimal)
    grouped = f", in groups of three parted by {layout.thousands!r}" if layout.thousands else ""
    marks = "; `decimal` and `thousands` name other marks" if says_keys else ""
    return (
        f"; write digits{grouped}, with {point} before decimals, that the type can hold, or "
        f"declare a wider type{nulls}{marks}"
    )
