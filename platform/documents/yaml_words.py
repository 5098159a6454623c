"""Plain words of YAML: the place of an unquoted word decides its type.

YAML 1.1 turns words such as `01`, `no`, `1_000` and `12:30` into numbers, booleans, dates and
minutes. A declaration keeps a word as typed wherever it wants text, such as names, options and
values of partitions. A place for a number, a boolean or a date parses the word. Arguments of
expectations take any type; there the type of the compared column decides.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence

from lakewright.platform.documents.expectation_catalog import COLUMN_ARGUMENTS, snake_name
from lakewright.storage.errors import StorageError
from lakewright.storage.spec.data_types import AtomicType, parse_data_type

# Numbers as YAML 1.2 and JSON write them; a word with a leading zero or an underscore is not a
# number.
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*")
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NOT_FINITE = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}

# Arguments that are text for every column type.
_TEXTS = frozenset(
    {
        *COLUMN_ARGUMENTS,
        *("regex", "regex_list", "like_pattern", "like_pattern_list", "strftime_format"),
        *("escape", "match_on", "type_", "type_list", "row_condition", "condition_parser"),
        *("json_schema", "ignore_row_if", "method"),
    }
)
# Arguments that values of the column are compared with, all of them or for some expectations.
_VALUES = frozenset({"value_set", "value_pairs_set"})
_BOUNDS = frozenset({"min_value", "max_value"})
_BOUNDS_ARE_VALUES = frozenset(
    {
        "expect_column_values_to_be_between",
        "expect_column_min_to_be_between",
        "expect_column_max_to_be_between",
    }
)
# Keys that describe an expectation and are not arguments of it.
_OWN = frozenset({"expect", "sql", "name", "severity", "show"})


class Word(str):
    """A plain word as typed; messages quote it unless it looks like a number."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str.__repr__(self) if isinstance(plain_value(self), str) else str(self)


def plain_value(word: str) -> bool | int | float | dt.date | str:
    """The value of a word where any type may stand: a number, a boolean, a date, or the word."""
    if word in _TRUTHS:
        return _TRUTHS[word]
    if word.lower() in _NOT_FINITE:
        return float(_NOT_FINITE[word.lower()])
    try:
        if _INTEGER.fullmatch(word):
            return int(word)
        if _DECIMAL.fullmatch(word):
            return float(word)
        if _DATE.fullmatch(word):
            return dt.date.fromisoformat(word)
        if _MOMENT.fullmatch(word):
            return dt.datetime.fromisoformat(word)
    except ValueError:
        pass
    return str(word)


def with_arguments_read(declared: object) -> object:
    """The declaration with the words of arguments converted to values."""
    if not isinstance(declared, Mapping) or not isinstance(declared.get("expectations"), list):
        return declared
    texts = _text_columns(declared.get("columns"))
    read = [
        {name: _read(name, value, each, texts) for name, value in each.items()}
        if isinstance(each, Mapping)
        else each
        for each in declared["expectations"]
    ]
    return {**declared, "expectations": read}


def _text_columns(columns: object) -> frozenset[str]:
    found = set()
    for column in columns if isinstance(columns, Sequence) else ():
        if not isinstance(column, Mapping):
            continue
        try:
            data_type = parse_data_type(str(column.get("type")))
        except StorageError:
            continue
        if isinstance(data_type, AtomicType) and data_type.root.is_text:
            found.add(str(column.get("name")))
    return frozenset(found)


def _read(
    name: str, value: object, expectation: Mapping[str, object], texts: frozenset[str]
) -> object:
    if name in _OWN or name in _TEXTS:
        return _read_with(str, value)
    kind = snake_name(str(expectation.get("expect")))
    of_column = name in _VALUES or (name in _BOUNDS and kind in _BOUNDS_ARE_VALUES)
    columns = {str(expectation[each]) for each in COLUMN_ARGUMENTS[:3] if each in expectation}
    if of_column and columns and columns <= texts:
        return _read_with(str, value)
    return _read_with(plain_value, value)


def _read_with(read: Callable[[Word], object], value: object) -> object:
    match value:
        case Word():
            return read(value)
        case list():
            return [_read_with(read, each) for each in value]
        case dict():
            return {name: _read_with(read, each) for name, each in value.items()}
        case _:
            return value
