"""Texts between delimiters as columns, and columns as such texts: for `csv` and `changelog-csv`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewright.connectors.formats.json_columns import atom_texts
from lakewright.connectors.formats.messages import BadMessages, conformed, cut, parts_of
from lakewright.storage.codec.conform import ValueForm
from lakewright.storage.codec.text_values import TextLayout
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)


def type_problem(data_type: DataType) -> str | None:
    """Why a type has no form between delimiters; None if it has one."""
    match data_type:
        case AtomicType():
            return None
        case ArrayType(element=element):
            parts = [element]
        case RowType(fields=fields):
            parts = [field.type for field in fields]
        case _:
            return "texts have no form for maps; use the format json"
    if all(isinstance(part, AtomicType) for part in parts):
        return None
    return "its parts are parted by one delimiter, so they have no parts; use the format json"


@dataclass(frozen=True, slots=True)
class TextForm:
    """How values are written between delimiters."""

    null_literal: str | None = None
    element_delimiter: str = ";"
    ignores_errors: bool = False
    plain_decimals: bool = False

    @property
    def layout(self) -> TextLayout:
        """How the texts are read."""
        nulls = ("",) if self.null_literal is None else (self.null_literal,)
        return TextLayout(
            nulls=nulls,
            base64=True,
            elements=self.element_delimiter,
            null_element=self.null_literal,
            unfit_is_null=self.ignores_errors,
            is_declared=False,
        )

    def columns(
        self, texts: Sequence[pa.Array], fields: Sequence[DataField], numbers: Sequence[int]
    ) -> list[pa.Array]:
        """Texts as the values of columns; `numbers` has the message of each.

        Raises:
            BadMessagesError: texts are no values of their columns' types.
        """
        bad = BadMessages()
        form = ValueForm(texts=self.layout)
        columns = [
            conformed(column, field, form, numbers, bad)
            for column, field in zip(texts, fields, strict=True)
        ]
        bad.check()
        return columns

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
        texts = [self.null_literal or "" if part is None else part for part in parts]
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


Quote = Callable[[str], str]


def joined(
    columns: Sequence[Sequence[str | None]], delimiter: str, null: str, quotes: Mapping[int, Quote]
) -> list[bytes | None]:
    """Texts of columns as messages; `quotes` has what a column's texts go through."""
    parts = []
    for at, texts in enumerate(columns):
        quote = quotes.get(at)
        if quote is None:
            parts.append([null if text is None else text for text in texts])
        else:
            parts.append([null if text is None else quote(text) for text in texts])
    return [delimiter.join(row).encode() for row in zip(*parts, strict=True)]
