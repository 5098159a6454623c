"""Values read from JSON as columns: numbers keep their digits, and no name counts twice."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from lakewright.storage.codec.python_columns import ReadAtom, Reading, UnfitValueError
from lakewright.storage.spec.data_types import AtomicType, TypeRoot

_BLANKS = " \t\r\n"
_MOST_SHOWN = 80


class Number(str):
    """A number of JSON that has a fraction or an exponent, with all its digits."""

    __slots__ = ()


class RepeatedName:
    """What stands for the value of a name that an object has twice: no type takes it."""

    def __repr__(self) -> str:
        return "a name that its object has twice"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        made |= {name: RepeatedName() for name in made if names.count(name) > 1}
    return made


JSON_DECODER = json.JSONDecoder(parse_float=Number, object_pairs_hook=_object)


def json_object(message: bytes) -> dict[str, Any]:
    """The one object that a message holds.

    Raises:
        ValueError: it is not JSON, or another value.
    """
    try:
        text = message.decode().strip(_BLANKS)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not text in UTF-8: {error}") from None
    try:
        value, end = JSON_DECODER.raw_decode(text)
        if end != len(text):
            raise ValueError(f"more follows the value, from character {end + 1}")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}: {_cut(text)!r}") from None
    if not isinstance(value, dict):
        raise ValueError(f"it is not an object: {_cut(text)!r}")  # noqa: TRY004 # of the message
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLayout:
    """How values are written in JSON; layouts of dates and timestamps are those of `strptime`.

    Bytes are in hexadecimal, or in `base64`. With `texts_of_values`, a column of text takes any
    value as its JSON. With `requires_members`, a column that an object lacks is an error; else it
    is null. With `unfit_is_null`, a value that does not fit its type is null instead of an error.
    With `ignores_unknown`, members of a ROW that its type lacks are left out.
    """

    date_format: str | None = None
    timestamp_format: str | None = None
    base64: bool = False
    texts_of_values: bool = False
    requires_members: bool = False
    unfit_is_null: bool = False
    ignores_unknown: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether values are written as JSON and ISO say, so that a library may read them."""
        return not (self.date_format or self.timestamp_format or self.requires_members)

    @property
    def reading(self) -> Reading:
        """How the values become columns."""
        return Reading(
            self._reader,
            ignores_unknown=self.ignores_unknown,
            requires_members=self.requires_members,
            on_unfit=_left_null if self.unfit_is_null else None,
        )

    def _reader(self, data_type: AtomicType) -> ReadAtom | None:
        root = data_type.root
        if root.is_text:
            return _text if self.texts_of_values else _exact
        if root.is_bytes:
            return _base64 if self.base64 else _exact
        if root.is_floating:
            return _floating
        if root is TypeRoot.DATE:
            return _moment_reader(self.date_format, dates=True)
        if root.is_timestamp:
            return _moment_reader(self.timestamp_format, dates=False)
        return _exact


def _left_null(error: UnfitValueError) -> None:
    """What is done about a value that does not fit, where errors are ignored: nothing."""


def _exact(value: object) -> object:
    return Decimal(value) if type(value) is Number else value


def _floating(value: object) -> object:
    """The nearest floating number: JSON has numbers of one kind, whole ones or not."""
    if type(value) is not Number and type(value) is not int:
        return value
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise ValueError(f"{_cut(str(value))} is too large")
    return number


def _text(value: object) -> object:
    return value if type(value) is str else json_text(value)


def _base64(value: object) -> object:
    try:
        return base64.b64decode(value if type(value) is str else "?", validate=True)
    except ValueError:
        raise ValueError(f"{_cut(repr(value))} is no text in base64") from None


def _moment_reader(layout: str | None, *, dates: bool) -> ReadAtom:
    def read(value: object) -> object:
        value = _exact(value)
        if layout is None or not isinstance(value, str):
            return value
        try:
            # The column's type decides whether a zone is required.
            moment = dt.datetime.strptime(value, layout)  # noqa: DTZ007
        except ValueError:
            raise ValueError(f"{_cut(repr(value))} does not have the layout {layout}") from None
        return moment.date() if dates else moment

    return read


def json_text(value: object) -> str:
    """A value that was read from JSON as JSON again, a number with the digits that it had."""
    match value:
        case Number():
            return str(value)
        case dict():
            members = (f"{encode_basestring(key)}:{_inner(each)}" for key, each in value.items())
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(map(_inner, value)) + "]"
        case RepeatedName():
            raise ValueError(f"it holds {value!r}")
        case _:
            return json.dumps(value, ensure_ascii=False)


def _inner(value: object) -> str:
    return encode_basestring(value) if type(value) is str else json_text(value)


def plain_numbers(value: object) -> object:
    """The value with the nearest floating numbers in place of numbers that keep their digits."""
    match value:
        case Number():
            return float(value)
        case dict():
            return {name: plain_numbers(each) for name, each in value.items()}
        case list():
            return [plain_numbers(each) for each in value]
        case _:
            return value


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
