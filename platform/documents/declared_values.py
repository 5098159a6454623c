"""What every declaration is made of: its base, and values as people write them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from typing import Annotated, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema
from pydantic.fields import FieldInfo

from lakewright.platform.documents.day_hours import DayHours
from lakewright.storage.errors import InvalidOption, InvalidRequestError
from lakewright.storage.spec.durations import duration_ms
from lakewright.storage.spec.option_values import SIZE_UNITS, TIME_UNITS_MS, parse_size


def _as_text(value: object) -> object:
    """Numbers, dates and booleans of Python callers and of explicit YAML tags, as words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, dt.date)):
        return str(value)
    return value


def _as_moment(value: object) -> object:
    moment = value
    if isinstance(value, str):
        # A month alone means its first day.
        whole = f"{value}-01" if len(value) == len("2013-01") else value
        with suppress(ValueError):
            moment = dt.datetime.fromisoformat(whole)
    match moment:
        case dt.datetime(tzinfo=None):
            return moment
        case dt.datetime():
            raise ValueError(f"{value} has a time zone; give the zone as `timezone` instead")
        case dt.date():
            return dt.datetime(moment.year, moment.month, moment.day)
    raise ValueError(f"{value!r} is not a date; write for example 2013-01-01 or 2013-01-01T06:00")


def _as_duration_ms(value: object) -> object:
    try:
        return duration_ms(value)
    except InvalidRequestError as err:
        raise ValueError(err.message) from None


def _as_size_bytes(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    # A person who writes 500 does not mean bytes.
    if isinstance(value, str) and value.strip().isdigit():
        bare = value.strip()
        raise ValueError(f"{value!r} has no unit; write {bare} MB or {bare} GB (b, kb, mb, gb, tb)")
    try:
        return parse_size(value if isinstance(value, str) else "")
    except InvalidOption:
        raise ValueError(f"{value!r} is not a size; write for example 64 MB or 1 GB") from None


def _as_hours(value: object) -> object:
    if isinstance(value, DayHours):
        return value
    try:
        return DayHours.parse(str(value))
    except InvalidRequestError as err:
        raise ValueError(err.message) from None


def _as_day(value: object) -> object:
    try:
        return dt.date.fromisoformat(str(value)).isoformat()
    except ValueError:
        raise ValueError(f"{value!r} is not a day; write for example 2027-01-31") from None


class Quantity(Enum):
    """What a number measures, for those who show it."""

    DURATION_MS = "duration"
    SIZE_BYTES = "size"


def any_case(word: str) -> str:
    """The pattern of a word in any case; patterns of JSON Schema have no flag for that."""
    return "".join(f"[{each.upper()}{each.lower()}]" if each.isalpha() else each for each in word)


def _pattern(units: Iterable[str]) -> str:
    return rf"^\s*[0-9]+\s*({'|'.join(any_case(unit) for unit in units if unit)})\s*$"


# What editors check of values whose readers are the functions above.
DURATION_PATTERN = _pattern(TIME_UNITS_MS)
SIZE_PATTERN = _pattern(SIZE_UNITS)
_HOURS_PATTERN = r"^\s*[0-9]{1,2}:[0-9]{2}\s*-\s*[0-9]{1,2}:[0-9]{2}\s*$"

Text = Annotated[str, BeforeValidator(_as_text)]
Day = Annotated[str, BeforeValidator(_as_day)]
Moment = Annotated[
    dt.datetime,
    BeforeValidator(_as_moment),
    WithJsonSchema({"type": ["string", "integer"], "pattern": "^[0-9]{4}"}),
]
DurationMs = Annotated[
    int,
    BeforeValidator(_as_duration_ms),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN}),
    Quantity.DURATION_MS,
]
SizeBytes = Annotated[
    int,
    BeforeValidator(_as_size_bytes),
    WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN}),
    Quantity.SIZE_BYTES,
]
HoursOfDay = Annotated[
    DayHours,
    BeforeValidator(_as_hours),
    WithJsonSchema({"type": "string", "pattern": _HOURS_PATTERN}),
]


class Declared(BaseModel):
    """The base of all parts of a declaration: unknown keys are errors, and values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


def quantity_of(field: FieldInfo) -> Quantity | None:
    """What the number of a field measures; None if it is no number, or a count."""
    every = (*field.metadata, *_metadata(field.annotation))
    return next((each for each in every if isinstance(each, Quantity)), None)


def _metadata(annotation: object) -> Iterator[object]:
    yield from getattr(annotation, "__metadata__", ())
    for each in get_args(annotation):
        yield from _metadata(each)


def plain(value: object) -> object:
    """A declared value as JSON holds it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Enum():
            return value.value
        case tuple():
            return [plain(each) for each in value]
        case _:
            return str(value)
