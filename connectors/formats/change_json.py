"""What formats of change events over JSON share: an event gives changes, a change is an event.

A format says which changes an event has, how an event encloses a row, and which metadata it holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lakewright.connectors.formats import json_columns
from lakewright.connectors.formats.json_columns import JsonForm, encoded_rows, type_problem
from lakewright.connectors.formats.messages import (
    BadMessages,
    LostChangeError,
    MessageDecoder,
    Numbered,
    batch_of,
    check_nulls,
    check_types,
    cut,
    kinds_of,
    python_columns,
)
from lakewright.connectors.formats.model import (
    Decoder,
    DecodingFormat,
    Encoder,
    EncodingFormat,
    FormatFactory,
)
from lakewright.connectors.model.changelog_mode import ChangelogMode
from lakewright.connectors.options import Option, ReadOptions
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.codec.python_columns import Reading
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import (
    STRING,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    TypeRoot,
)
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.values import NANOS_PER_MILLI, StoredNumber

Event = dict[str, Any]
Row = Mapping[str, Any]
Change = tuple[RowKind, Row]
# A type, and where the value is in an event; raises a ValueError if it is not of that type.
Metadata = tuple[DataType, Callable[[Event], object]]

METADATA_PREFIX = "metadata."
MOMENT = AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=3)
TEXTS = ArrayType(STRING)
TEXT_BY_TEXT = MapType(STRING, STRING)


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows as columns, with the kind and the message of each."""

    columns: Sequence[pa.Array]
    kinds: np.ndarray
    numbers: np.ndarray


@dataclass(frozen=True)
class ChangeJson(DecodingFormat, EncodingFormat):
    """A format of change events with its options."""

    name: ClassVar[str]
    metadata: ClassVar[Mapping[str, Metadata]] = {}
    options: ReadOptions

    def changelog_mode(self) -> ChangelogMode:
        return ChangelogMode.all()

    def readable_metadata(self) -> dict[str, DataType]:
        return {key: data_type for key, (data_type, _) in self.metadata.items()}

    def decoder(self, fields: Sequence[DataField]) -> Decoder:
        check_types(fields, self.name, type_problem)
        return _ChangeDecoder(tuple(fields), self)

    def encoder(self, fields: Sequence[DataField]) -> Encoder:
        check_types(fields, self.name, type_problem)
        return _ChangeEncoder(tuple(fields), self)

    @abstractmethod
    def changes(self, event: Event, fields: Sequence[DataField]) -> Iterable[Change]:
        """The rows of an event; raises a ValueError if it is none."""

    def quick_changes(
        self, messages: Sequence[Numbered], fields: Sequence[DataField], form: JsonForm
    ) -> Changes | None:
        """The changes of messages by Arrow; None if `changes` decides."""
        return None

    @abstractmethod
    def event(self, *, is_removed: bool) -> tuple[str, str]:
        """What stands before and behind the JSON of a row that comes, or is removed."""


class ChangeJsonFactory(FormatFactory):
    """Makes a format of change events."""

    made: ClassVar[type[ChangeJson]]
    optional_options: Sequence[Option] = (
        *json_columns.DECODE_OPTIONS,
        *json_columns.ENCODE_OPTIONS,
    )

    def decoding_format(self, options: ReadOptions) -> DecodingFormat:
        return self.made(options)

    def encoding_format(self, options: ReadOptions) -> EncodingFormat:
        return self.made(options)


@dataclass(frozen=True)
class _ChangeDecoder(MessageDecoder):
    fields: tuple[DataField, ...]
    format: ChangeJson

    @property
    def format_name(self) -> str:  # type: ignore[override] # read-only here
        return self.format.name

    def rows(self, messages: Sequence[Numbered]) -> pa.RecordBatch:
        form = JsonForm.of(self.format.options)
        physical = [field for field in self.fields if not self._is_metadata(field)]
        found = None
        if len(physical) == len(self.fields):
            found = self.format.quick_changes(messages, physical, form)
        if found is None:
            return self._slow_rows(messages, physical, form)
        self._check_nulls(found, physical)
        return batch_of(found.columns, physical, found.kinds)

    def _slow_rows(
        self, messages: Sequence[Numbered], physical: Sequence[DataField], form: JsonForm
    ) -> pa.RecordBatch:
        events, event_numbers = form.objects(messages)
        kinds: list[RowKind] = []
        rows: list[Row] = []
        owners: list[Event] = []
        numbers: list[int] = []
        bad = BadMessages()
        for event, number in zip(events, event_numbers, strict=True):
            try:
                found = list(self.format.changes(event, physical))
            except ValueError as error:
                if not form.ignores_errors or isinstance(error, LostChangeError):
                    bad.add(number, str(error))
                continue
            for kind, row in found:
                kinds.append(kind)
                rows.append(row)
                owners.append(event)
                numbers.append(number)
        bad.check()
        columns = form.columns(rows, physical, numbers)
        self._check_nulls(Changes(columns, np.array(kinds, int), np.array(numbers)), physical)
        made = dict(zip([each.name for each in physical], columns, strict=True))
        for field in self.fields:
            if field.name not in made:
                made[field.name] = self._metadata(field, owners, numbers)
        return batch_of([made[each.name] for each in self.fields], self.fields, kinds)

    def _is_metadata(self, field: DataField) -> bool:
        return field.name.removeprefix(METADATA_PREFIX) in self.format.metadata and (
            field.name.startswith(METADATA_PREFIX)
        )

    def _metadata(
        self, field: DataField, events: Sequence[Event], numbers: Sequence[int]
    ) -> pa.Array:
        kind, read = self.format.metadata[field.name.removeprefix(METADATA_PREFIX)]
        values: list[object] = []
        bad = BadMessages()
        for event, number in zip(events, numbers, strict=True):
            try:
                values.append(read(event))
            except (ValueError, TypeError, AttributeError) as error:
                bad.add(number, f"{field.name} cannot be read: {error}")
        bad.check()
        typed = DataField(field.id, field.name, kind)
        (made,) = python_columns([values], [typed], Reading(), numbers)
        try:
            return made.cast(to_arrow_type(field.type))
        except pa.ArrowException as error:
            raise InvalidRows(f"{self.format_name}: {field.name} is {kind}: {error}") from None

    def _check_nulls(self, found: Changes, fields: Sequence[DataField]) -> None:
        """Refuse nulls in columns that are NOT NULL, but for what a row was before.

        A database that logs keys alone leaves the others out of it.
        """
        if all(field.type.nullable for field in fields):
            return
        at = np.flatnonzero(~np.isin(found.kinds, [each for each in RowKind if each.retracts]))
        present = [column.take(pa.array(at)) for column in found.columns]
        check_nulls(present, fields, found.numbers[at])


@dataclass(frozen=True)
class _ChangeEncoder:
    fields: tuple[DataField, ...]
    format: ChangeJson

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        kinds = kinds_of(rows, frozenset(RowKind), self.format.name)
        texts = encoded_rows(rows, self.fields, JsonForm.of(self.format.options))
        around = [self.format.event(is_removed=each.retracts) for each in RowKind]
        return [
            f"{around[kind][0]}{text}{around[kind][1]}".encode()
            for kind, text in zip(kinds, texts, strict=True)
        ]


def row_of(event: Event, name: str, *, what: str) -> Row:
    """The member of an event that is a row; raises a ValueError if it has none."""
    row = event.get(name)
    if isinstance(row, dict):
        return row
    problem = "null or missing" if row is None else f"no object: {cut(repr(row))}"
    raise ValueError(f"the event is {what}, and {name} is {problem}")


def changed_back(after: Row, old: Row) -> Row:
    """The row as it was, of which an event has the members alone that changed."""
    return {**after, **old}


def kind_error(name: str, kind: object, known: str) -> ValueError:
    """Says that an event is of another kind than those of its format."""
    return ValueError(f"{name} is {cut(repr(kind))}; the format has {known}")


def member(name: str) -> Callable[[Event], object]:
    """The reader of a member of events."""
    return lambda event: event.get(name)


def moment(name: str, *, unit_ms: int = 1) -> Callable[[Event], object]:
    """The reader of a number of milliseconds since 1970, or of another unit."""
    return lambda event: moment_of(event.get(name), unit_ms)


def moment_of(number: object, unit_ms: int = 1) -> object:
    """A number of a unit since 1970 as a moment."""
    if number is None:
        return None
    return StoredNumber(int(str(number)) * unit_ms * NANOS_PER_MILLI)


def each_row(rows: object, name: str, what: str) -> Iterator[Row]:
    """The rows of an array; raises a ValueError if it is none."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"the event is {what}, and {name} is no array of rows: {cut(repr(rows))}")
    yield from rows
