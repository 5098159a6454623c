"""Merge engines in plain Python, row by row, as models for the fast engines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from lakewright.storage.spec.merge_spec import (
    AggregateFunction,
    FieldAggregate,
    MergeEngine,
    MergeSpec,
    NestedKeyNulls,
    SequenceGroup,
)
from lakewright.storage.spec.rows import RowKind

Values = dict[str, Any]
EXACT = Context(prec=120)


class Refused(Exception):
    """The engine refuses these rows."""


@dataclass(frozen=True)
class Event:
    """A row: its kind, its sequence number, its columns by name."""

    kind: RowKind
    sequence: int
    values: Values


def merge_events(
    spec: MergeSpec, events: Sequence[Event], *, decimals: dict[str, tuple[int, int]] | None = None
) -> Event | None:
    """Merge the rows of a key, oldest first, into one row.

    `decimals` has precision and scale of the decimal columns.

    Raises:
        Refused: the engine refuses these rows.
    """
    if len(events) == 1:
        return events[0]
    match spec.engine:
        case MergeEngine.DEDUPLICATE:
            kept = [each for each in events if not (spec.ignore_delete and each.kind.retracts)]
            return kept[-1] if kept else None
        case MergeEngine.FIRST_ROW:
            return _first_row(spec, events)
        case MergeEngine.AGGREGATION:
            return _aggregated(spec, events, decimals or {})
        case MergeEngine.PARTIAL_UPDATE:
            return _PartialUpdate(spec, decimals or {}).merge(events)
        case MergeEngine.VALUE_COUNT:
            raise ValueError("tables that count rows have no rows of one key")


def _first_row(spec: MergeSpec, events: Sequence[Event]) -> Event | None:
    first = None
    for event in events:
        if event.kind.retracts:
            if spec.ignore_delete:
                continue
            raise Refused
        first = first or event
    return first


def _aggregated(
    spec: MergeSpec, events: Sequence[Event], decimals: dict[str, tuple[int, int]]
) -> Event:
    states = {name: Accumulator(each, decimals.get(name)) for name, each in spec.aggregates.items()}
    removed = False
    for event in events:
        removed = spec.remove_record_on_delete and event.kind is RowKind.DELETE
        for name, state in states.items():
            if removed:
                state.value = event.values[name]
            elif event.kind.retracts:
                state.retract(event.values[name])
            else:
                state.add(event.values[name])
    last = events[-1]
    values = last.values | {name: state.value for name, state in states.items()}
    return Event(RowKind.DELETE if removed else RowKind.INSERT, last.sequence, values)


@dataclass
class _PartialUpdate:
    spec: MergeSpec
    decimals: dict[str, tuple[int, int]]
    row: dict[str, Accumulator] = field(default_factory=dict)
    removed: bool = False
    filled: bool = False
    inserted: bool = False
    sequence: int = 0

    def merge(self, events: Sequence[Event]) -> Event:
        for name in events[0].values:
            aggregate = self.spec.aggregates.get(
                name, FieldAggregate(function=AggregateFunction.LAST_VALUE)
            )
            self.row[name] = Accumulator(aggregate, self.decimals.get(name))
        for event in events:
            self.take(event)
        deleted = self.removed or not self.inserted
        kind = RowKind.DELETE if deleted else RowKind.INSERT
        return Event(kind, self.sequence, {name: each.value for name, each in self.row.items()})

    def take(self, event: Event) -> None:
        self.removed = False
        if not event.kind.retracts:
            self.insert(event)
            return
        if not self.filled:
            self.fill(event)
        if self.spec.ignore_delete:
            return
        self.sequence = event.sequence
        if self.spec.sequence_groups:
            self.retract(event)
        elif not self.spec.remove_record_on_delete:
            raise Refused
        elif event.kind is RowKind.DELETE:
            self.removed = True
            self.fill(event)

    def fill(self, event: Event) -> None:
        self.filled = True
        for name, value in event.values.items():
            self.row[name].value = value

    def insert(self, event: Event) -> None:
        self.sequence = event.sequence
        self.inserted = self.filled = True
        grouped = {name for group in self.spec.sequence_groups for name in group.members}
        for name, value in event.values.items():
            if name not in grouped and value is not None:
                self.row[name].value = value
        for group in self.spec.sequence_groups:
            if self.given(group, event) is None:
                continue
            newer = self.is_newer(group, event)
            for name in group.protected:
                value = event.values[name]
                if name in self.spec.aggregates:
                    state = self.row[name]
                    state.add(value) if newer else state.add_before(value)
                elif newer:
                    self.row[name].value = value
            if newer:
                self.advance(group, event)

    def retract(self, event: Event) -> None:
        for group in self.spec.sequence_groups:
            deletes = event.kind is RowKind.DELETE and group.removes_record
            if deletes and self.given(group, event) and self.is_newer(group, event):
                self.removed = True
                self.fill(event)
                return
        for group in self.spec.sequence_groups:
            if self.given(group, event) is None:
                continue
            newer = self.is_newer(group, event)
            for name in group.protected:
                if name in self.spec.aggregates:
                    self.row[name].retract(event.values[name])
                elif newer:
                    self.row[name].value = None
            if newer:
                self.advance(group, event)

    def advance(self, group: SequenceGroup, event: Event) -> None:
        for name in group.sequence_fields:
            self.row[name].value = event.values[name]

    def given(self, group: SequenceGroup, event: Event) -> tuple[Any, ...] | None:
        sequence = tuple(event.values[name] for name in group.sequence_fields)
        return None if all(value is None for value in sequence) else sequence

    def is_newer(self, group: SequenceGroup, event: Event) -> bool:
        current = [self.row[name].value for name in group.sequence_fields]
        given = [event.values[name] for name in group.sequence_fields]
        return [_nulls_first(value) for value in given] >= [
            _nulls_first(value) for value in current
        ]


def _nulls_first(value: Any) -> tuple[bool, Any]:
    return (value is not None, 0 if value is None else value)


class Accumulator:
    """The running value of one column of one key."""

    def __init__(self, aggregate: FieldAggregate, digits: tuple[int, int] | None = None) -> None:
        self.aggregate = aggregate
        self.digits = digits
        self.value: Any = None
        self.started = False

    def add(self, given: Any) -> None:
        self.value = self._joined(self.value, given)

    def add_before(self, given: Any) -> None:
        if self.aggregate.function is AggregateFunction.COLLECT:
            self.add(given)
        else:
            self.value = self._joined(given, self.value)

    def retract(self, given: Any) -> None:
        if not self.aggregate.ignore_retract:
            self.value = self._without(self.value, given)

    def _joined(self, old: Any, new: Any) -> Any:
        function = self.aggregate.function
        match function:
            case AggregateFunction.LAST_VALUE:
                return new
            case AggregateFunction.LAST_NON_NULL_VALUE:
                return old if new is None else new
            case AggregateFunction.FIRST_VALUE:
                first, self.started = not self.started, True
                return new if first else old
            case AggregateFunction.FIRST_NON_NULL_VALUE:
                if self.started or new is None:
                    return old
                self.started = True
                return new
            case AggregateFunction.LISTAGG:
                return self._listed(old, new)
            case AggregateFunction.COLLECT:
                return self._collected(old, new)
            case AggregateFunction.NESTED_UPDATE | AggregateFunction.NESTED_PARTIAL_UPDATE:
                return self._nested(old, new)
        if old is None or new is None:
            return new if old is None else old
        match function:
            case AggregateFunction.SUM:
                return self._fitting(EXACT.add(old, new) if self.digits else old + new)
            case AggregateFunction.PRODUCT:
                return self._fitting(EXACT.multiply(old, new) if self.digits else old * new)
            case AggregateFunction.MAX | AggregateFunction.BOOL_OR:
                return max(old, new)
            case AggregateFunction.MIN | AggregateFunction.BOOL_AND:
                return min(old, new)
            case AggregateFunction.MERGE_MAP:
                return list((dict(old) | dict(new)).items())
            case _:
                return self._timed(old, new)

    def _without(self, old: Any, gone: Any) -> Any:
        match self.aggregate.function:
            case AggregateFunction.LAST_VALUE:
                return None
            case AggregateFunction.LAST_NON_NULL_VALUE:
                return old if gone is None else None
            case AggregateFunction.SUM:
                negative = None if gone is None else EXACT.minus(gone) if self.digits else -gone
                return self._joined(old, negative)
            case AggregateFunction.PRODUCT:
                if old is None or gone is None:
                    return old
                return self._divided(old, gone)
            case AggregateFunction.COLLECT:
                return self._filtered(old, gone)
            case AggregateFunction.MERGE_MAP:
                if old is None or not gone:
                    return old
                return [entry for entry in old if entry[0] not in dict(gone)]
            case AggregateFunction.NESTED_UPDATE:
                return self._nested_without(old, gone)
            case _:
                raise Refused

    def _fitting(self, value: Any) -> Any:
        if self.digits is None:
            return value
        precision, scale = self.digits
        value = EXACT.plus(value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, context=EXACT))
        compact_sum = precision <= 18 and self.aggregate.function is AggregateFunction.SUM
        too_long = value.copy_abs() >= Decimal(10) ** (precision - scale)
        return None if too_long and not compact_sum else value

    def _divided(self, old: Any, gone: Any) -> Any:
        if isinstance(old, float):
            return old / gone if gone else _float_by_zero(old, gone)
        if self.digits is not None:
            return self._fitting(_exact_quotient(old, gone))
        if not gone:
            raise Refused
        quotient = abs(old) // abs(gone)
        return quotient if (old < 0) == (gone < 0) else -quotient

    def _listed(self, old: str | None, new: str | None) -> str | None:
        if new is None or not new.strip():
            return old
        if old is None or not old.strip():
            return new
        delimiter = self.aggregate.delimiter
        parts = new.split(delimiter)
        if self.aggregate.distinct:
            there = set(old.split(delimiter))
            fresh = [each for each in dict.fromkeys(parts) if each.strip() and each not in there]
            return delimiter.join([old, *fresh])
        return old + delimiter + new

    def _collected(self, old: list[Any] | None, new: list[Any] | None) -> list[Any] | None:
        if old is None and new is None:
            return None
        both = [*(old or []), *(new or [])]
        if not self.aggregate.distinct:
            return both
        return [each for index, each in enumerate(both) if each not in both[:index]]

    def _filtered(self, old: list[Any] | None, gone: list[Any] | None) -> list[Any] | None:
        if old is None or not gone:
            return old
        left, kept = list(gone), []
        for each in old:
            if each in left:
                left.remove(each)
            else:
                kept.append(each)
        return kept

    def _timed(self, old: list[Any], new: list[Any]) -> list[Any]:
        name = self.aggregate.time_field
        merged = dict(old)
        for key, value in new:
            if value is None:
                merged.pop(key, None)
            elif value[name] is not None:
                known = merged.get(key)
                if known is None or known[name] is None or value[name] > known[name]:
                    merged[key] = value
        return list(merged.items())

    # --- nested rows -------------------------------------------------------------------------

    def _nested(self, old: list[Any] | None, new: list[Any] | None) -> list[Any] | None:
        if new is None:
            return old
        if self.aggregate.function is AggregateFunction.NESTED_PARTIAL_UPDATE:
            return self._overlaid([*(old or []), *new])
        limit = self.aggregate.count_limit
        given = [row for row in new if row is not None]
        if not self.aggregate.nested_key:
            there = [row for row in old or [] if row is not None]
            if old is not None and len(old) >= limit:
                return old
            return there + given[: limit - len(old or [])]
        rows: dict[Any, Any] = {}
        for source, bound in ((old or [], None), (new, limit)):
            for row in self._keyed(source):
                key = self._key(row)
                if key not in rows:
                    if bound is None or len(rows) < bound:
                        rows[key] = row
                elif not self._older(row, rows[key]):
                    rows[key] = row
        return list(rows.values())

    def _overlaid(self, given: list[Any]) -> list[Any]:
        rows: dict[Any, Any] = {}
        for row in self._keyed(given):
            known = rows.setdefault(self._key(row), dict.fromkeys(row))
            known.update({name: value for name, value in row.items() if value is not None})
        return list(rows.values())

    def _nested_without(self, old: list[Any] | None, gone: list[Any] | None) -> list[Any] | None:
        if old is None or gone is None:
            return old
        if not self.aggregate.nested_key:
            return [row for row in old if row is not None and row not in gone]
        rows = {self._key(row): row for row in self._keyed(old)}
        for row in self._keyed(gone):
            rows.pop(self._key(row), None)
        return list(rows.values())

    def _keyed(self, rows: list[Any]) -> list[Any]:
        kept = []
        for row in rows:
            if row is None:
                continue
            if None in self._key(row):
                if self.aggregate.nested_key_nulls is NestedKeyNulls.ERROR:
                    raise Refused
                if self.aggregate.nested_key_nulls is NestedKeyNulls.IGNORE:
                    continue
            kept.append(row)
        return kept

    def _key(self, row: Any) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.aggregate.nested_key)

    def _older(self, row: Any, known: Any) -> bool:
        names = self.aggregate.nested_sequence
        given, there = ([_nulls_first(each[name]) for name in names] for each in (row, known))
        return given < there


def _exact_quotient(old: Decimal, gone: Decimal) -> Decimal:
    if not gone:
        raise Refused
    quotient = EXACT.divide(old, gone)
    if Fraction(quotient) * Fraction(gone) != Fraction(old):
        raise Refused
    return quotient


def _float_by_zero(old: float, zero: float) -> float:
    if not old or math.isnan(old):
        return float("nan")
    negative = (old < 0) != (str(zero) == "-0.0")
    return float("-inf") if negative else float("inf")
