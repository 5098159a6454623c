"""Texts between delimiters as columns, and columns as such texts: for `csv` and `changelog-csv`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors.formats.json_values import atom_texts
from lakewright.connectors.formats.messages import (
    BadMessages,
    cut,
    parts_of,
    passed_over,
    python_columns,
)
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.python_columns import ReadAtom, Reading, within_years
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import (
    INTEGER_BITS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)

# Texts that Arrow converts as they are meant; those of types without one are converted one by one.
_USUAL: Mapping[TypeRoot, str] = {
    TypeRoot.BOOLEAN: r"^\s*(?i:true|false)\s*$",
    TypeRoot.DATE: r"^\d{4}-\d\d-\d\d$",
    TypeRoot.DECIMAL: r"^-?[0-9]+(\.[0-9]+)?$",
    **dict.fromkeys(INTEGER_BITS, r"^\s*-?[0-9]{1,18}\s*$"),
    **dict.fromkeys(
        (TypeRoot.FLOAT, TypeRoot.DOUBLE), r"^\s*-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\s*$"
    ),
    **dict.fromkeys((TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ), r"^\d{4}-\d\d-\d\d \S+$"),
}


def type_problem(data_type: DataType) -> str | None:
    """Why a type has no form between delimiters; None if it has one."""
    match data_type:
        case AtomicType():
            return None
        case ArrayType(element=element):
            parts = [element]
        case RowType(fields=fields):
            parts = [each.type for each in fields]
        case _:
            return "texts have no form for maps; use the format json"
    if all(isinstance(each, AtomicType) for each in parts):
        return None
    return "its parts are parted by one delimiter, so they have no parts; use the format json"


def _may_be_empty(data_type: DataType) -> bool:
    """Whether a value of the type may have no text."""
    if not isinstance(data_type, AtomicType):
        return True
    return data_type.root.is_text or data_type.root.is_bytes


@dataclass(frozen=True, slots=True)
class TextForm:
    """How values are written between delimiters."""

    null_literal: str | None = None
    # The literal holds an escape: it is null as it is written, and was found before.
    null_is_raw: bool = False
    element_delimiter: str = ";"
    ignores_errors: bool = False
    plain_decimals: bool = False

    def column(self, texts: pa.Array, field: DataField, numbers: Sequence[int]) -> pa.Array:
        """Texts as the values of a column; `numbers` has the message of each.

        Raises:
            BadMessagesError: texts are no values of the column's type.
        """
        null = None if self.null_is_raw else self.null_literal
        if self.null_literal is None and not _may_be_empty(field.type):
            # Null is written so, and nothing else can be.
            null = ""
        if null is not None:
            texts = pc.if_else(pc.equal(texts, null), pa.scalar(None, pa.string()), texts)
        made = converted(texts, field.type) if isinstance(field.type, AtomicType) else None
        if made is not None:
            return made
        values: list[object] = texts.to_pylist()
        reading = Reading(_reader, on_unfit=passed_over if self.ignores_errors else None)
        split = self._split(values, field, numbers)
        (made,) = python_columns([split], [field], reading, numbers)
        return made

    def _split(
        self, values: list[object], field: DataField, numbers: Sequence[int]
    ) -> list[object]:
        """Arrays and rows as lists and mappings of the texts of their parts."""
        match field.type:
            case ArrayType():
                return [each if each is None else self._parts(each) for each in values]
            case RowType(fields=fields):
                names = [each.name for each in fields]
                bad = BadMessages()
                rows: list[object] = []
                for value, number in zip(values, numbers, strict=True):
                    # A row without any text is how null is written.
                    parts = self._parts(value or "")
                    is_fitting = len(parts) == len(names)
                    rows.append(dict(zip(names, parts, strict=True)) if is_fitting else None)
                    if parts and not is_fitting and not self.ignores_errors:
                        why = f"is {field.type}, and has {len(parts)} parts: {cut(repr(value))}"
                        bad.add(number, f"field {field.name} {why}")
                bad.check()
                return rows
            case _:
                return values

    def _parts(self, text: object) -> list[str | None]:
        if text == "":
            return []
        parts = str(text).split(self.element_delimiter)
        return [None if each == self.null_literal else each for each in parts]

    def texts(self, array: pa.Array, field: DataField) -> list[str | None]:
        """The text of each value; None is null.

        Raises:
            InvalidRows: a part of an array or a row holds the delimiter of parts.
        """
        match field.type:
            case AtomicType() as atom:
                return self._atoms(array, atom)
            case ArrayType(element=AtomicType() as element):
                lists = parts_of(array, self._atoms(array.flatten(), element))
            case RowType(fields=fields):
                members = [
                    self.texts(part, each)
                    for part, each in zip(array.flatten(), fields, strict=True)
                ]
                valid = array.is_valid().to_pylist()
                rows = zip(*members, strict=True)
                lists = [row if there else None for row, there in zip(rows, valid, strict=True)]
            case _:
                raise AssertionError(field.type)
        return [None if each is None else self._joined(each, field) for each in lists]

    def _joined(self, parts: Sequence[str | None], field: DataField) -> str:
        texts = [self.null_literal or "" if each is None else each for each in parts]
        for text in texts:
            if self.element_delimiter in text:
                raise InvalidRows(
                    f"column {field.name}: {cut(repr(text))} holds {self.element_delimiter!r}, "
                    "which parts elements; set another array-element-delimiter",
                    column=field.name,
                )
        text = self.element_delimiter.join(texts)
        if texts and text in ("", self.null_literal):
            raise InvalidRows(
                f"column {field.name}: one element that is {text or 'empty'!r} is read as no "
                "element, or null; use the format json",
                column=field.name,
            )
        return text

    def _atoms(self, array: pa.Array, data_type: AtomicType) -> list[str | None]:
        root = data_type.root
        values: list[str | None]
        if root.is_text:
            values = array.to_pylist()
        elif root.is_bytes:
            values = [
                each if each is None else base64.b64encode(each).decode()
                for each in array.to_pylist()
            ]
        elif root is TypeRoot.DECIMAL and self.plain_decimals:
            values = [each if each is None else f"{each:f}" for each in array.to_pylist()]
        else:
            values = atom_texts(array, data_type, " ").to_pylist()
        return values


def _reader(data_type: AtomicType) -> ReadAtom | None:
    if data_type.root.is_bytes:
        return _base64
    if data_type.root is TypeRoot.BOOLEAN:
        return _trimmed
    return _moment if data_type.root.is_timestamp else None


def _trimmed(value: object) -> object:
    return str(value).strip()


def _base64(value: object) -> object:
    try:
        return base64.b64decode(str(value), validate=True)
    except ValueError:
        raise ValueError(f"{cut(repr(value))} is no text in base64") from None


def _moment(value: object) -> object:
    if str(value)[10:11] != " ":
        raise ValueError(f"{cut(repr(value))} has no blank between date and time")
    return value


def converted(texts: pa.Array, data_type: AtomicType) -> pa.Array | None:
    """Texts as values, if all are written in the usual form; None if another way must decide."""
    root = data_type.root
    if root.is_text:
        return texts
    usual = _USUAL.get(root)
    if usual is None or pc.all(pc.match_substring_regex(texts, usual)).as_py() is False:
        return None
    try:
        values = pc.utf8_trim_whitespace(texts).cast(to_arrow_type(data_type))
    except pa.ArrowException:
        return None
    if root.is_floating and pc.any(pc.is_inf(values)).as_py():
        return None
    is_moment = root is TypeRoot.DATE or root.is_timestamp
    return None if is_moment and not within_years(values) else values


Quote = Callable[[str], str]


def joined(
    columns: Sequence[Sequence[str | None]], delimiter: str, null: str, quotes: Mapping[int, Quote]
) -> list[bytes | None]:
    """Texts of columns as messages; `quotes` has what a column's texts go through."""
    parts = []
    for at, texts in enumerate(columns):
        quote = quotes.get(at)
        if quote is None:
            parts.append([null if each is None else each for each in texts])
        else:
            parts.append([null if each is None else quote(each) for each in texts])
    return [delimiter.join(row).encode() for row in zip(*parts, strict=True)]
