"""What decoders of messages share: their numbers, the bad ones left out, and rows with kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from lakewright.connectors.formats.model import OnBadRecord
from lakewright.storage.codec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.storage.codec.conform import ValueForm, conform
from lakewright.storage.codec.python_columns import Reading, UnfitValueError, python_column
from lakewright.storage.errors import InvalidRows, UnsupportedError
from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)
from lakewright.storage.spec.rows import ROW_KIND_COLUMN, RowKind

Part = TypeVar("Part")

_MOST_SHOWN = 80
_KINDS = pa.array([kind.short for kind in RowKind], pa.string())
KIND_OF = {kind.short: kind for kind in RowKind}
# A message, and its number among those given, from 0.
Numbered = tuple[int, Any]


class BadMessagesError(ValueError):
    """Messages that cannot be decoded: why, by their numbers, which count from 0."""

    def __init__(self, found: Mapping[int, str]) -> None:
        super().__init__(f"{len(found)} messages cannot be decoded")
        self.found = found


class LostChangeError(ValueError):
    """A message is whole, and does not say all of a change: without it an old row would stay.

    So it is refused also where broken messages are passed over.
    """


class BadMessages:
    """Collects the bad messages of one step, of all that it was given."""

    def __init__(self) -> None:
        self._found: dict[int, str] = {}

    def add(self, number: int, why: str) -> None:
        """Note a message; of several reasons, the first counts."""
        self._found.setdefault(int(number), why)

    def check(self) -> None:
        """Raises `BadMessagesError` if there are any."""
        if self._found:
            raise BadMessagesError(self._found)


class MessageDecoder(ABC):
    """Decodes messages together, and again without those that are bad."""

    format_name: str
    # Whether a message without a value, or without bytes, is handed on; else it is no row.
    takes_none = False

    def decode(
        self, messages: Sequence[bytes | None], on_bad: OnBadRecord | None = None
    ) -> pa.RecordBatch:
        numbered = [
            (number, each) for number, each in enumerate(messages) if each or self.takes_none
        ]
        told: dict[int, str] = {}
        while True:
            try:
                rows = self.rows(numbered)
            except BadMessagesError as bad:
                if on_bad is None:
                    first = min(bad.found)
                    raise InvalidRows(
                        f"{self.format_name}: message {first + 1} of {len(messages)}: "
                        f"{bad.found[first]}"
                    ) from bad
                told |= bad.found
                numbered = [each for each in numbered if each[0] not in bad.found]
            else:
                for number in sorted(told):
                    assert on_bad is not None
                    on_bad(number, told[number])
                return rows

    @abstractmethod
    def rows(self, messages: Sequence[Numbered]) -> pa.RecordBatch:
        """The rows of some messages.

        Raises:
            BadMessagesError: a step found messages that are bad, all that it can find.
        """


def batch_of(
    columns: Sequence[pa.Array],
    fields: Sequence[DataField],
    kinds: Sequence[int] | np.ndarray | None,
) -> pa.RecordBatch:
    """Columns as rows, with their kinds behind them if there are any."""
    schema = to_arrow_schema(fields)
    if kinds is None:
        return pa.RecordBatch.from_arrays(list(columns), schema=schema)
    named = _KINDS.take(pa.array(kinds, pa.int8()))
    with_kinds = schema.append(pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False))
    return pa.RecordBatch.from_arrays([*columns, named], schema=with_kinds)


def kinds_of(rows: pa.RecordBatch, allowed: frozenset[RowKind], name: str) -> list[RowKind]:
    """The kind of each row; rows without the column are insertions.

    Raises:
        InvalidRows: the format has no place for a kind.
    """
    if ROW_KIND_COLUMN not in rows.schema.names:
        return [RowKind.INSERT] * rows.num_rows
    kinds = [KIND_OF.get(each) for each in rows.column(ROW_KIND_COLUMN).to_pylist()]
    found: list[RowKind] = []
    for at, kind in enumerate(kinds):
        if kind is None or kind not in allowed:
            told = rows.column(ROW_KIND_COLUMN)[at].as_py()
            takes = " ".join(each.short for each in sorted(allowed))
            raise InvalidRows(f"{name}: row {at + 1} has the kind {told}, and {name} takes {takes}")
        found.append(kind)
    return found


def check_types(
    fields: Sequence[DataField], name: str, problem: Callable[[DataType], str | None]
) -> None:
    """Refuse columns of a type that a format has no form for, at any depth.

    Raises:
        UnsupportedError: names the column, its type and the way out that `problem` says.
    """
    for field in fields:
        _check_type(field.type, field.name, name, problem)


def _check_type(
    data_type: DataType, path: str, name: str, problem: Callable[[DataType], str | None]
) -> None:
    why = problem(data_type)
    if why is not None:
        raise UnsupportedError(
            f"format {name} has no form for column {path} of type {data_type}: {why}"
        )
    match data_type:
        case ArrayType(element=inner) | MultisetType(element=inner):
            _check_type(inner, f"{path}[]", name, problem)
        case MapType(key=key, value=value):
            _check_type(key, f"{path}.key", name, problem)
            _check_type(value, f"{path}.value", name, problem)
        case RowType(fields=members):
            for member in members:
                _check_type(member.type, f"{path}.{member.name}", name, problem)
        case AtomicType():
            return


def check_nulls(
    columns: Sequence[pa.Array], fields: Sequence[DataField], numbers: Sequence[int] | np.ndarray
) -> None:
    """Refuse messages with null in a column that is NOT NULL; `numbers` has that of each row.

    Raises:
        BadMessagesError: there are such messages.
    """
    bad = BadMessages()
    for column, field in zip(columns, fields, strict=True):
        if not field.type.nullable and column.null_count:
            for at in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
                bad.add(numbers[at], f"column {field.name} is NOT NULL, and null")
    bad.check()


def python_columns(
    rows: Sequence[Sequence[object]],
    fields: Sequence[DataField],
    reading: Reading,
    numbers: Sequence[int],
) -> list[pa.Array]:
    """Python values of each field as columns; `numbers` has the message of each row.

    Raises:
        BadMessagesError: values do not fit, and the reading does not say what they are.
    """
    bad = BadMessages()

    def refuse(error: UnfitValueError) -> None:
        bad.add(numbers[error.at], f"field {error.path} {error.why}")

    if reading.on_unfit is None:
        reading = replace(reading, on_unfit=refuse)
    made = [python_column(each, field, reading) for each, field in zip(rows, fields, strict=True)]
    bad.check()
    return made


def conformed(
    column: pa.Array,
    field: DataField,
    form: ValueForm,
    numbers: Sequence[int],
    bad: BadMessages,
) -> pa.Array:
    """A column in its type; `bad` gets the messages whose values do not fit, which are null."""
    nullable = replace(field, type=replace(field.type, nullable=True))
    found: list[pa.Array] = []
    waiting = [(0, len(column))]
    while waiting:
        start, length = waiting.pop()
        part = pa.table([column.slice(start, length)], names=[field.name])
        try:
            rows = conform(part, [nullable], table="", form=form)
        except InvalidRows as error:
            if length == 1:
                bad.add(numbers[start], _of_one_row(error))
                found.append(pa.nulls(1, to_arrow_type(field.type)))
                continue
            half = length // 2
            waiting += [(start + half, length - half), (start, half)]
        else:
            found.append(rows.column(0).combine_chunks())
    return pa.concat_arrays(found)


def _of_one_row(error: InvalidRows) -> str:
    message = error.message.removeprefix(": ").partition("; the first such row: ")[0]
    return message.replace("and row 1 holds", "and it holds")


def parts_of(array: pa.Array, inner: Sequence[Part]) -> list[Sequence[Part] | None]:
    """The elements of each list or map; `inner` has those of all that are not null."""
    bounds = array.offsets.to_pylist()
    parts: list[Sequence[Part] | None] = []
    at = 0
    for (start, end), is_valid in zip(pairwise(bounds), array.is_valid().to_pylist(), strict=True):
        size = end - start if is_valid else 0
        parts.append(inner[at : at + size] if is_valid else None)
        at += size
    return parts


def cut(text: str) -> str:
    """A text as a message shows it."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
