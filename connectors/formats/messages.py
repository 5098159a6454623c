"""What decoders of messages share: their numbers, the bad ones left out, and rows with kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from lakewright.connectors.formats.model import OnBadRecord
from lakewright.connectors.model.changelog_mode import ROW_KIND_COLUMN
from lakewright.storage.codec.arrow_types import to_arrow_schema
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
from lakewright.storage.spec.rows import RowKind

Part = TypeVar("Part")

_MOST_SHOWN = 80
_KINDS = pa.array([kind.short for kind in RowKind], pa.string())
KIND_OF = {kind.short: kind for kind in RowKind}
# A message, and its number among those given, from 0.
Numbered = tuple[int, Any]


class BadMessageError(ValueError):
    """A message that cannot be decoded; `number` counts from 0."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number
        self.why = why


class MessageDecoder(ABC):
    """Decodes messages together, and searches for bad ones only if there are any."""

    format_name: str
    # Whether a message without a value, or without bytes, is handed on; else it is no row.
    takes_none = False

    def decode(
        self, messages: Sequence[bytes | None], on_bad: OnBadRecord | None = None
    ) -> pa.RecordBatch:
        numbered = [
            (number, each) for number, each in enumerate(messages) if each or self.takes_none
        ]
        if on_bad is not None:
            return pa.concat_batches([self.rows(()), *self._good(numbered, on_bad)])
        try:
            return self.rows(numbered)
        except BadMessageError as bad:
            raise InvalidRows(
                f"{self.format_name}: message {bad.number + 1} of {len(messages)}: {bad.why}"
            ) from bad

    @abstractmethod
    def rows(self, messages: Sequence[Numbered]) -> pa.RecordBatch:
        """The rows of some messages; raises `BadMessageError`."""

    def _good(self, messages: Sequence[Numbered], on_bad: OnBadRecord) -> list[pa.RecordBatch]:
        try:
            return [self.rows(messages)]
        except BadMessageError as bad:
            if len(messages) == 1:
                on_bad(bad.number, bad.why)
                return []
        middle = len(messages) // 2
        return self._good(messages[:middle], on_bad) + self._good(messages[middle:], on_bad)


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
            for each in members:
                _check_type(each.type, f"{path}.{each.name}", name, problem)
        case AtomicType():
            return


def null_problem(
    columns: Sequence[pa.Array], fields: Sequence[DataField]
) -> tuple[int, str] | None:
    """The first row with null in a column that is NOT NULL, and which column it is."""
    for column, field in zip(columns, fields, strict=True):
        if not field.type.nullable and column.null_count:
            return column.is_null().index(
                True
            ).as_py(), f"column {field.name} is NOT NULL, and null"
    return None


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
