"""`datagen`: makes rows of random values or of sequences, the same ones for the same seed.

The columns of a table are described by options of their own: `fields.<column>.kind` is random or
sequence, and `start`, `end`, `min`, `max`, `length`, `null-rate` say what it holds.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lakewright.connectors.factories import Context, DynamicTableFactory
from lakewright.connectors.options import Option, OptionKind
from lakewright.connectors.runtime import Offset, Scan, Split
from lakewright.connectors.sources import ScanTableSource
from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.codec.python_columns import python_column
from lakewright.storage.env import Env
from lakewright.storage.errors import InvalidOption, UnsupportedError
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot

_FIELDS = "fields."
_ROWS_OF_SPLIT = 1 << 16
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_LAST_FOUR = np.uint64(15)
_STEP, _DRAW = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_NULLS = 1 << 20
_MOMENT = dt.datetime(2020, 1, 1)  # columns decide about zones
_KEYS = ("kind", "start", "end", "min", "max", "length", "null-rate")
_INTEGERS = {
    TypeRoot.TINYINT: 7,
    TypeRoot.SMALLINT: 15,
    TypeRoot.INT: 31,
    TypeRoot.BIGINT: 63,
}


class Datagen(DynamicTableFactory):
    """Makes the source."""

    identifier = "datagen"
    description = "makes rows of random values or sequences"
    optional_options = (
        Option(
            name="number-of-rows",
            kind=OptionKind.INTEGER,
            description="how many rows there are; without it and without a sequence, no end",
            minimum=0,
        ),
        Option(
            name="rows-per-second",
            kind=OptionKind.INTEGER,
            description="how many rows a stream gives in a second",
            default=10_000,
            minimum=1,
        ),
        Option(
            name="seed", kind=OptionKind.INTEGER, description="another seed, other rows", default=0
        ),
    )
    option_prefixes = (_FIELDS,)

    def create_source(self, context: Context) -> ScanTableSource:
        columns = tuple(_column(context, field) for field in context.table.fields)
        _check_names(context, {field.name for field in context.table.fields})
        options = context.options
        ends = [column.count for column in columns if column.count is not None]
        count = options["number-of-rows"]
        if ends:
            count = min([*ends, *([] if count is None else [count])])
        names = tuple(field.name for field in context.table.fields)
        rows = _Rows(columns, count, options["rows-per-second"], options["seed"], names)
        return _DatagenSource(rows, context.env)


@dataclass(frozen=True, slots=True)
class _Column:
    field: DataField
    is_sequence: bool
    low: float | int | None
    high: float | int | None
    length: int
    null_rate: float

    @property
    def count(self) -> int | None:
        """How many values a sequence has."""
        if not self.is_sequence:
            return None
        assert self.low is not None
        assert self.high is not None
        return int(self.high) - int(self.low) + 1

    def values(self, first: int, count: int, seed: int) -> list[Any]:
        """The values of rows by their numbers, the same in every process."""
        if self.is_sequence:
            begin = int(self.low or 0) + first
            return list(range(begin, begin + count))
        drawn = _Drawn(np.arange(first, first + count, dtype=np.uint64), seed)
        found = self._random(drawn)
        if self.null_rate:
            nulls = drawn.fractions(_NULLS) < self.null_rate
            found = [None if null else value for value, null in zip(found, nulls, strict=True)]
        return found

    def _random(self, drawn: _Drawn) -> list[Any]:
        assert isinstance(self.field.type, AtomicType)
        root = self.field.type.root
        if root in _INTEGERS:
            most = (1 << _INTEGERS[root]) - 1
            least = 0 if self.low is None else int(self.low)
            return drawn.whole(least, most if self.high is None else int(self.high))
        if root is TypeRoot.BOOLEAN:
            return list((drawn.fractions() < 0.5).tolist())
        if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL):
            begin, end = self.low or 0.0, 1.0 if self.high is None else self.high
            numbers = begin + drawn.fractions() * (end - begin)
            if root is not TypeRoot.DECIMAL:
                return list(numbers.tolist())
            digits = Decimal(1).scaleb(-(self.field.type.scale or 0))
            return [Decimal(repr(each)).quantize(digits) for each in numbers.tolist()]
        if root is TypeRoot.DATE:
            return [_MOMENT.date() + dt.timedelta(days=each) for each in drawn.whole(0, 3650)]
        if root.is_timestamp:
            zone = dt.UTC if root is TypeRoot.TIMESTAMP_LTZ else None
            offsets = drawn.whole(0, 3650 * 86_400_000)
            moments = [_MOMENT + dt.timedelta(milliseconds=offset) for offset in offsets]
            return [moment.replace(tzinfo=zone) for moment in moments]
        letters = np.stack([_HEX[drawn.bits(at) & _LAST_FOUR] for at in range(self.length)], axis=1)
        texts = [bytes(row) for row in letters]
        return texts if root.is_bytes else [text.decode() for text in texts]


class _Drawn:
    """Numbers that look like chance and are of the seed and the row alone, so splits may be any.

    Source: the mixing function of SplitMix64.
    """

    def __init__(self, rows: np.ndarray, seed: int) -> None:
        self._rows, self._seed = rows, np.uint64(seed & 0xFFFFFFFFFFFFFFFF)

    def bits(self, draw: int = 0) -> np.ndarray:
        """64 bits for each row; other draws are others."""
        with np.errstate(over="ignore"):
            start = (self._rows + np.uint64(1)) * _STEP + self._seed + np.uint64(draw) * _DRAW
            mixed = (start ^ (start >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            found: np.ndarray = mixed ^ (mixed >> np.uint64(31))
        return found

    def fractions(self, draw: int = 0) -> np.ndarray:
        """Numbers from 0 to below 1."""
        found: np.ndarray = (self.bits(draw) >> np.uint64(11)) / float(1 << 53)
        return found

    def whole(self, least: int, most: int) -> list[int]:
        """Whole numbers in a range, both ends too."""
        return [least + each % (most - least + 1) for each in self.bits().tolist()]


@dataclass(frozen=True)
class _Rows:
    """What is made: columns, how many rows, at which pace, with which seed."""

    columns: tuple[_Column, ...]
    count: int | None
    rate: int
    seed: int
    names: tuple[str, ...]


class _DatagenSource(ScanTableSource):
    def __init__(self, rows: _Rows, env: Env) -> None:
        self._rows, self._env = rows, env

    @property
    def summary(self) -> str:
        return f"datagen of {'endless' if self._rows.count is None else self._rows.count} rows"

    def apply_projection(self, columns: Sequence[str]) -> None:
        self._rows = replace(self._rows, names=tuple(columns))

    def apply_limit(self, limit: int) -> None:
        count = self._rows.count
        self._rows = replace(self._rows, count=limit if count is None else min(count, limit))

    def scan(self) -> Scan:
        return _Generating(self._rows, self._env)


class _Generating(Scan):
    """Rows by their numbers: an offset is how many were given."""

    def __init__(self, rows: _Rows, env: Env) -> None:
        self._rows, self._env = rows, env
        self._begun_ms: int | None = None
        self.is_bounded = rows.count is not None

    def earliest(self) -> Offset:
        return {"rows": 0}

    def latest(self, start: Offset, limit: int | None = None) -> Offset:
        given: int = start["rows"]
        if self._rows.count is not None:
            return {
                "rows": self._rows.count if limit is None else min(self._rows.count, given + limit)
            }
        now = self._env.now_ms()
        if self._begun_ms is None:
            # A stream that is started again goes on at its pace.
            self._begun_ms = now - 1000 * given // self._rows.rate
        due = self._rows.rate * (now - self._begun_ms) // 1000
        return {"rows": max(given, due if limit is None else min(due, given + limit))}

    def plan(self, start: Offset, end: Offset) -> Sequence[Split]:
        first, last = start["rows"], end["rows"]
        return [(at, min(last, at + _ROWS_OF_SPLIT)) for at in range(first, last, _ROWS_OF_SPLIT)]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        first, last = split
        arrays, fields = {}, {}
        for number, each in enumerate(self._rows.columns):
            name = each.field.name
            if name in self._rows.names:
                values = each.values(first, last - first, self._rows.seed + (number << 32))
                arrays[name] = python_column(values, each.field)
                fields[name] = each.field
        schema = to_arrow_schema([fields[name] for name in self._rows.names])
        if not self._rows.names:
            none = pa.array([{}] * (last - first), pa.struct([]))
            yield pa.RecordBatch.from_struct_array(none)
            return
        yield pa.record_batch([arrays[name] for name in self._rows.names], schema=schema)


def _column(context: Context, field: DataField) -> _Column:
    """What the options say of a column.

    Raises:
        UnsupportedError: there are no values of its type.
        InvalidOption: an option is none of it, or says nothing that it can hold.
    """
    place = f"{_FIELDS}{field.name}."
    texts = {
        name.removeprefix(place): text
        for name, text in context.table.options.items()
        if name.startswith(place)
    }
    if not isinstance(field.type, AtomicType):
        raise UnsupportedError(
            f"datagen makes no values of {field.type}, the type of {field.name} in {context.name}"
        )
    kinds = dict.fromkeys(("min", "max", "null-rate"), OptionKind.NUMBER)
    kinds |= dict.fromkeys(("start", "end", "length"), OptionKind.INTEGER)
    given: dict[str, Any] = {}
    for name, text in texts.items():
        if name not in _KEYS:
            raise InvalidOption(
                f"{place}{name} of {context.name} is no option; there are {', '.join(_KEYS)}"
            )
        choices = ("random", "sequence") if name == "kind" else ()
        kind = kinds.get(name, OptionKind.TEXT)
        given[name] = Option(name=place + name, kind=kind, choices=choices).read(text, context.name)
    is_sequence = given.get("kind", "sequence" if "start" in given else "random") == "sequence"
    if is_sequence and not ("start" in given and "end" in given):
        raise InvalidOption(
            f"column {field.name} of {context.name} is a sequence; say {place}start and {place}end"
        )
    if is_sequence and field.type.root not in _INTEGERS:
        raise InvalidOption(
            f"column {field.name} of {context.name} is {field.type}; sequences are whole numbers"
        )
    low, high = ("start", "end") if is_sequence else ("min", "max")
    least, most = given.get(low), given.get(high)
    if least is not None and most is not None and least > most:
        raise InvalidOption(
            f"column {field.name} of {context.name} goes from {least} to {most}; swap {place}{low} "
            f"and {place}{high}"
        )
    return _Column(
        field,
        is_sequence,
        given.get(low),
        given.get(high),
        given.get("length", _length(field.type)),
        given.get("null-rate", 0.0),
    )


def _length(data_type: AtomicType) -> int:
    longest = data_type.length or 100
    return min(longest, 100)


def _check_names(context: Context, names: set[str]) -> None:
    for option in context.table.options:
        if option.startswith(_FIELDS):
            name = option.removeprefix(_FIELDS).rpartition(".")[0]
            if name not in names:
                raise InvalidOption(
                    f"{option} of {context.name} names no column; there are "
                    f"{', '.join(sorted(names))}",
                    option=option,
                )
