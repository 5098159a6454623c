"""Aggregate functions over arrays and maps: each key's elements collected, merged or replaced.

Elements are row numbers of the flattened column, and are compared by the numbers of
`equality_codes`, so no value is converted. Where other clients of the format return elements in the
order of a hash table, this module keeps their order of arrival.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from lakewright.storage.lsm.merge_engines.changes import Changes, Op
from lakewright.storage.lsm.merge_engines.ranks import equality_codes, sequence_ranks
from lakewright.storage.spec.merge_spec import (
    AggregateFunction,
    FieldAggregate,
    NestedKeyNulls,
)


class NullInNestedKey(Exception):
    """A nested row's key holds a null, and the options ask for an error."""


# The elements of a value, by number; None where the value is null.
Elements = list[int] | None


def merge_nested(column: pa.ChunkedArray, changes: Changes, aggregate: FieldAggregate) -> pa.Array:
    """Merge each key's arrays or maps into one.

    Raises:
        NullInNestedKey: a nested key holds a null where that is an error.
    """
    array = column.combine_chunks()
    collects = aggregate.function is AggregateFunction.COLLECT and not aggregate.distinct
    if collects and not changes.retracting_keys.any():
        return _concatenated(array, changes)
    keys = changes.keys
    # A value that was only set stays unchanged.
    untouched = ~keys.any((changes.live != Op.SKIP) & (changes.live != Op.SET))
    numbers = np.flatnonzero(~untouched)
    picks = np.where(untouched, changes.sets, -1)
    whole = array.take(pa.array(picks, mask=picks < 0))
    if not len(numbers):
        return whole
    if aggregate.function is AggregateFunction.NESTED_PARTIAL_UPDATE:
        merged = _merge_members(array, changes, aggregate, numbers)
    else:
        merged = _merge_elements(array, changes, aggregate, numbers)
    order = np.arange(len(keys))
    order[numbers] = len(keys) + np.arange(len(numbers))
    return pa.concat_arrays([whole, merged]).take(pa.array(order))


# --- arrays one after the other --------------------------------------------------------------


def _concatenated(array: pa.ListArray, changes: Changes) -> pa.Array:
    keys = changes.keys
    counts = changes.live != Op.SKIP
    if array.null_count:
        counts &= array.is_valid().to_numpy(zero_copy_only=False)
    offsets = array.offsets.to_numpy()
    lengths = np.where(counts, np.diff(offsets), 0)
    elements = np.repeat(offsets[:-1] - (np.cumsum(lengths) - lengths), lengths)
    elements += np.arange(len(elements))
    values = array.values.take(pa.array(elements))
    return _listed(array, np.add.reduceat(lengths, keys.starts), keys.any(counts), values)


def _listed(
    array: pa.Array, lengths: np.ndarray, present: np.ndarray, elements: pa.Array
) -> pa.Array:
    """Arrays or maps of `array`'s type from their concatenated elements."""
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    validity = pa.array(present).buffers()[1]
    return pa.Array.from_buffers(
        array.type, len(lengths), [validity, pa.py_buffer(offsets.tobytes())], children=[elements]
    )


# --- functions over elements -----------------------------------------------------------------


class _Flattened:
    """The elements of a column, by number."""

    def __init__(self, array: pa.Array, aggregate: FieldAggregate) -> None:
        self.array = array
        self.aggregate = aggregate
        self.offsets: list[int] = array.offsets.to_pylist()
        self.nulls: list[bool] = array.is_null().to_pylist()

    @cached_property
    def entries(self) -> pa.Array:
        """The child that holds the elements: for a map, pairs of a key and a value."""
        if pa.types.is_map(self.array.type):
            members = [self.array.type.key_field, self.array.type.item_field]
            children = [self.array.keys, self.array.items]
            return pa.StructArray.from_arrays(children, fields=members)
        return self.array.values

    def of(self, row: int) -> Elements:
        if self.nulls[row]:
            return None
        return list(range(self.offsets[row], self.offsets[row + 1]))

    @cached_property
    def codes(self) -> list[int]:
        """Numbers that are equal for equal elements; for a map, for equal keys."""
        is_map = pa.types.is_map(self.array.type)
        values: list[int] = equality_codes(self.array.keys if is_map else self.entries).tolist()
        return values

    @cached_property
    def is_null(self) -> list[bool]:
        values: list[bool] = self.entries.is_null().to_pylist()
        return values

    # Of nested rows.

    @cached_property
    def nested_keys(self) -> list[int]:
        names = self.aggregate.nested_key
        children = [_member(self.entries, name) for name in names]
        struct = pa.StructArray.from_arrays(children, names=list(names))
        codes: list[int] = equality_codes(struct).tolist()
        return codes

    @cached_property
    def key_has_null(self) -> list[bool]:
        nulls = [
            _member(self.entries, name).is_null().to_numpy(zero_copy_only=False)
            for name in self.aggregate.nested_key
        ]
        has: list[bool] = np.logical_or.reduce(nulls).tolist()
        return has

    @cached_property
    def sequence(self) -> list[int]:
        children = [_member(self.entries, name) for name in self.aggregate.nested_sequence]
        ranks: list[int] = sequence_ranks(children).tolist()
        return ranks

    def has_key(self, element: int) -> bool:
        """Whether a nested row is kept, judged by its key.

        Raises:
            NullInNestedKey: its key holds a null where that is an error.
        """
        if not self.key_has_null[element]:
            return True
        if self.aggregate.nested_key_nulls is NestedKeyNulls.ERROR:
            raise NullInNestedKey
        return self.aggregate.nested_key_nulls is NestedKeyNulls.MERGE

    # Of maps whose entries have a time.

    @cached_property
    def map_value_is_null(self) -> list[bool]:
        nulls: list[bool] = self.array.items.is_null().to_pylist()
        return nulls

    @cached_property
    def times(self) -> list[bytes | None]:
        name = self.aggregate.time_field
        assert name is not None
        texts = _member(self.array.items, name).to_pylist()
        # Times are compared as Java compares texts: by 16-bit units.
        return [None if text is None else text.encode("utf-16-be") for text in texts]


def _member(struct: pa.StructArray, name: str) -> pa.Array:
    return struct.flatten()[struct.type.get_field_index(name)]


class _Function(ABC):
    """Adds the elements of a row to those of its key, or retracts them."""

    def __init__(self, flattened: _Flattened) -> None:
        self.flattened = flattened
        self.aggregate = flattened.aggregate

    @abstractmethod
    def add(self, there: Elements, given: Elements) -> Elements: ...

    def add_before(self, there: Elements, given: Elements) -> Elements:
        return self.add(given, there)

    def retract(self, there: Elements, given: Elements) -> Elements:
        # Unsupported retractions raise an error before this.
        raise AssertionError(f"{self.aggregate.function.value} cannot retract")


class _Collect(_Function):
    def add(self, there: Elements, given: Elements) -> Elements:
        if not self.aggregate.distinct:
            return there if given is None else [*(there or ()), *given]
        if there is None and given is None:
            return None
        codes = self.flattened.codes
        first: dict[int, int] = {}
        for element in [*(there or ()), *(given or ())]:
            first.setdefault(codes[element], element)
        return list(first.values())

    def add_before(self, there: Elements, given: Elements) -> Elements:
        return self.add(there, given)

    def retract(self, there: Elements, given: Elements) -> Elements:
        if not there or not given:
            return there
        codes = self.flattened.codes
        gone = Counter(codes[element] for element in given)
        left = []
        for element in there:
            if gone[codes[element]]:
                gone[codes[element]] -= 1
            else:
                left.append(element)
        return left


class _MergeMap(_Function):
    def add(self, there: Elements, given: Elements) -> Elements:
        if there is None or given is None:
            return given if there is None else there
        codes = self.flattened.codes
        latest: dict[int, int] = {}
        for element in [*there, *given]:
            latest[codes[element]] = element
        return list(latest.values())

    def retract(self, there: Elements, given: Elements) -> Elements:
        if there is None or not given:
            return there
        codes = self.flattened.codes
        gone = {codes[element] for element in given}
        return [element for element in there if codes[element] not in gone]


class _MergeMapWithKeytime(_Function):
    def add(self, there: Elements, given: Elements) -> Elements:
        if there is None or given is None:
            return given if there is None else there
        codes, times = self.flattened.codes, self.flattened.times
        latest = {codes[element]: element for element in there}
        for element in given:
            code, time = codes[element], times[element]
            if self.flattened.map_value_is_null[element]:
                latest.pop(code, None)
            elif time is not None:
                known = times[latest[code]] if code in latest else None
                if known is None or time > known:
                    latest[code] = element
        return list(latest.values())


class _NestedAppend(_Function):
    """`nested_update` without a key: rows are appended up to a limit."""

    def add(self, there: Elements, given: Elements) -> Elements:
        if given is None:
            return there
        limit = self.aggregate.count_limit
        if there is None:
            return self._rows(given)[:limit]
        if len(there) >= limit:
            return there
        return self._rows(there) + self._rows(given)[: limit - len(there)]

    def retract(self, there: Elements, given: Elements) -> Elements:
        if there is None or given is None:
            return there
        codes = self.flattened.codes
        gone = {codes[element] for element in self._rows(given)}
        return [element for element in self._rows(there) if codes[element] not in gone]

    def _rows(self, elements: Iterable[int]) -> list[int]:
        return [element for element in elements if not self.flattened.is_null[element]]


class _NestedUpdate(_Function):
    """`nested_update` with a key: keeps the newest nested row of each key."""

    def add(self, there: Elements, given: Elements) -> Elements:
        if given is None:
            return there
        rows: dict[int, int] = {}
        self._put(rows, there or (), limit=None)
        self._put(rows, given, limit=self.aggregate.count_limit)
        return list(rows.values())

    def retract(self, there: Elements, given: Elements) -> Elements:
        if there is None or given is None:
            return there
        rows = {self.flattened.nested_keys[row]: row for row in self._keyed(there)}
        for row in self._keyed(given):
            rows.pop(self.flattened.nested_keys[row], None)
        return list(rows.values())

    def _put(self, rows: dict[int, int], elements: Iterable[int], *, limit: int | None) -> None:
        keys = self.flattened.nested_keys
        for row in self._keyed(elements):
            known = rows.get(keys[row])
            if known is None:
                if limit is None or len(rows) < limit:
                    rows[keys[row]] = row
            elif not self._older(row, known):
                rows[keys[row]] = row

    def _older(self, row: int, known: int) -> bool:
        if not self.aggregate.nested_sequence:
            return False
        return self.flattened.sequence[row] < self.flattened.sequence[known]

    def _keyed(self, elements: Iterable[int]) -> list[int]:
        return [
            element
            for element in elements
            if not self.flattened.is_null[element] and self.flattened.has_key(element)
        ]


def _function(flattened: _Flattened) -> _Function:
    aggregate = flattened.aggregate
    match aggregate.function:
        case AggregateFunction.COLLECT:
            return _Collect(flattened)
        case AggregateFunction.MERGE_MAP:
            return _MergeMap(flattened)
        case AggregateFunction.MERGE_MAP_WITH_KEYTIME:
            return _MergeMapWithKeytime(flattened)
        case AggregateFunction.NESTED_UPDATE if aggregate.nested_key:
            return _NestedUpdate(flattened)
        case _:
            return _NestedAppend(flattened)


def _merge_elements(
    array: pa.Array, changes: Changes, aggregate: FieldAggregate, numbers: np.ndarray
) -> pa.Array:
    """The merged values of the keys with those numbers."""
    flattened = _Flattened(array, aggregate)
    function = _function(flattened)
    merged = [_merge_one(function, changes, key) for key in numbers.tolist()]
    elements = np.array([each for value in merged for each in value or ()], dtype=np.int64)
    lengths = np.array([len(value or ()) for value in merged], dtype=np.int64)
    present = np.array([value is not None for value in merged], dtype=bool)
    return _listed(array, lengths, present, flattened.entries.take(pa.array(elements)))


def _merge_one(function: _Function, changes: Changes, key: int) -> Elements:
    value: Elements = None
    for row, op in _rows_of(changes, key):
        given = function.flattened.of(row)
        match op:
            case Op.ADD:
                value = function.add(value, given)
            case Op.ADD_BEFORE:
                value = function.add_before(value, given)
            case Op.RETRACT:
                value = function.retract(value, given)
            case Op.SET:
                value = given
            case Op.SET_AND_RETRACT:
                value = function.retract(given, given)
    return value


def _rows_of(changes: Changes, key: int) -> list[tuple[int, int]]:
    start, size = int(changes.keys.starts[key]), int(changes.keys.sizes[key])
    ops = changes.live[start : start + size].tolist()
    return [(row, op) for row, op in enumerate(ops, start) if op != Op.SKIP]


# --- nested rows made of several -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Nested:
    """A nested row: its first element, and the element that each member comes from.

    A member that is null has -1; a nested row that is null has no members.
    """

    element: int
    members: tuple[int, ...]

    def overlaid(self, newer: _Nested) -> _Nested:
        pairs = zip(self.members, newer.members, strict=True)
        return _Nested(self.element, tuple(old if new < 0 else new for old, new in pairs))


def _merge_members(
    array: pa.Array, changes: Changes, aggregate: FieldAggregate, numbers: np.ndarray
) -> pa.Array:
    """`nested_partial_update`: rows of equal keys become one, of their newest non-null members."""
    flattened = _Flattened(array, aggregate)
    children = flattened.entries.flatten()
    valid = [child.is_valid().to_pylist() for child in children]
    merged = [_merge_members_of(flattened, valid, changes, key) for key in numbers.tolist()]
    rows = [row.members for value in merged for row in value or ()]
    members = []
    for index, child in enumerate(children):
        sources = np.array([row[index] if row else -1 for row in rows], dtype=np.int64)
        members.append(child.take(pa.array(sources, mask=sources < 0)))
    nulls = pa.array([not row for row in rows], pa.bool_())
    fields = list(flattened.entries.type)
    struct = pa.StructArray.from_arrays(members, fields=fields, mask=nulls)
    lengths = np.array([len(value or ()) for value in merged], dtype=np.int64)
    present = np.array([value is not None for value in merged], dtype=bool)
    return _listed(array, lengths, present, struct)


def _merge_members_of(
    flattened: _Flattened, valid: Sequence[list[bool]], changes: Changes, key: int
) -> list[_Nested] | None:
    value: list[_Nested] | None = None
    for row, op in _rows_of(changes, key):
        given = _as_nested(flattened, valid, flattened.of(row))
        match op:
            case Op.ADD:
                value = _updated(flattened, value, given)
            case Op.ADD_BEFORE:
                value = _updated(flattened, given, value)
            case Op.SET:
                value = given
    return value


def _as_nested(
    flattened: _Flattened, valid: Sequence[list[bool]], elements: Elements
) -> list[_Nested] | None:
    if elements is None:
        return None
    rows = []
    for element in elements:
        members = tuple(element if known[element] else -1 for known in valid)
        rows.append(_Nested(element, () if flattened.is_null[element] else members))
    return rows


def _updated(
    flattened: _Flattened, there: list[_Nested] | None, given: list[_Nested] | None
) -> list[_Nested] | None:
    if given is None:
        return there
    rows: dict[int, _Nested] = {}
    for row in [*(there or ()), *given]:
        if row.members and flattened.has_key(row.element):
            code = flattened.nested_keys[row.element]
            known = rows.get(code)
            rows[code] = row if known is None else known.overlaid(row)
    return list(rows.values())
