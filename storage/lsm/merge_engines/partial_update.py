"""The engine that fills a record from several rows, each with some of its columns.

Source: Paimon `PartialUpdateMergeFunction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa

from lakewright.storage.errors import InvalidRows
from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.lsm.merge_engines.changes import Changes, Keys, Op
from lakewright.storage.lsm.merge_engines.columns import ColumnMerge, KeyMerge, merge_columns
from lakewright.storage.lsm.merge_engines.contract import FoldingMerge, retracts
from lakewright.storage.lsm.merge_engines.ranks import sequence_ranks
from lakewright.storage.spec.merge_spec import (
    AggregateFunction,
    FieldAggregate,
    MergeSpec,
    SequenceGroup,
)
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import SEQUENCE_NUMBER, VALUE_KIND

_NEWEST = FieldAggregate(function=AggregateFunction.LAST_VALUE)
_NEWEST_NOT_NULL = FieldAggregate(function=AggregateFunction.LAST_NON_NULL_VALUE)


@dataclass(frozen=True, slots=True)
class PartialUpdate(FoldingMerge):
    """Merges columns of sequence groups by their groups, all others by their newest non-null value.

    A group's columns take the values, nulls included, of each row whose sequence is not below the
    highest so far; a row with a null sequence does not change them. A deletion empties the columns
    of the groups that accept it, or removes the record if the options say so. A key without any
    insert becomes a deletion.
    """

    spec: MergeSpec
    columns: Sequence[str]

    def fold(self, groups: KeyGroups) -> pa.Table:
        rows = groups.rows
        keys = Keys(groups.starts, rows.num_rows)
        events = _Events(self.spec, keys, rows.column(VALUE_KIND).to_numpy())
        sequences = [_Sequence(group, rows) for group in self.spec.sequence_groups]
        removes = _removing(self.spec, events, sequences)
        plain = Changes(keys, events.plain_ops(removes))
        columns = {name: ColumnMerge(plain, _NEWEST_NOT_NULL) for name in self.columns}
        for sequence in sequences:
            columns |= _group_columns(self.spec, sequence, events, removes)
        merge = KeyMerge(
            keys,
            events.result_kinds(removes),
            events.result_sequence_numbers(rows.column(SEQUENCE_NUMBER).to_numpy()),
            {name: merge for name, merge in columns.items() if name in rows.column_names},
        )
        return merge_columns(rows, merge, table=self.spec.table)


class _Events:
    """The rows by role: inserts, effective retractions, and first rows of keys."""

    def __init__(self, spec: MergeSpec, keys: Keys, kinds: np.ndarray) -> None:
        self.keys = keys
        self.kinds = kinds
        self.alone = keys.spread(keys.alone)
        retracting = retracts(kinds)
        self.inserts = ~retracting & ~self.alone
        # A record whose first row is a retraction starts with that row's values.
        self.begins = retracting & ~self.alone & keys.is_start
        self.ignored = retracting & ~self.alone & spec.ignore_delete
        self.retractions = retracting & ~self.alone & ~self.ignored
        if self.retractions.any() and not (spec.remove_record_on_delete or spec.sequence_groups):
            _refuse(spec, int(np.count_nonzero(self.retractions)))

    def plain_ops(self, removes: np.ndarray) -> np.ndarray:
        ops = np.where(self.inserts, Op.ADD, Op.SKIP)
        ops[self.begins | removes | self.alone] = Op.SET
        return ops

    def result_kinds(self, removes: np.ndarray) -> np.ndarray:
        keys = self.keys
        deleted = removes[keys.lasts] | ~keys.any(self.inserts)
        merged = np.where(deleted, RowKind.DELETE, RowKind.INSERT)
        return np.where(keys.alone, self.kinds[keys.lasts], merged)

    def result_sequence_numbers(self, sequence_numbers: np.ndarray) -> np.ndarray:
        # Ignored rows do not change it; a key with only ignored rows has 0.
        lasts = self.keys.last(~self.ignored)
        return np.where(lasts < 0, 0, sequence_numbers[lasts])


class _Sequence:
    """The sequence of a group in every row, as numbers of the same order; 0 for null."""

    def __init__(self, group: SequenceGroup, rows: pa.Table) -> None:
        self.group = group
        self.columns = [name for name in group.members if name in rows.column_names]
        self.ranks = np.zeros(rows.num_rows, dtype=np.int64)
        if self.columns or group.removes_record:
            self.ranks = sequence_ranks(
                [rows.column(name).combine_chunks() for name in group.sequence_fields]
            )


def _group_columns(
    spec: MergeSpec, sequence: _Sequence, events: _Events, removes: np.ndarray
) -> dict[str, ColumnMerge]:
    keys = events.keys
    ranks = sequence.ranks
    given = ranks > 0
    begins = events.begins & ~removes
    sets = removes | events.alone | (begins & (~given | events.ignored))
    takes_part = sets | begins | (given & (events.inserts | events.retractions))
    accepted = takes_part & (ranks >= _highest_before(keys, ranks, takes_part, removes))

    inserted, retracted = events.inserts & given, events.retractions & given & ~removes
    newest = np.full(len(ranks), Op.SKIP)
    newest[accepted & (inserted | retracted)] = Op.ADD
    newest[sets] = Op.SET

    emptied = newest.copy()
    emptied[accepted & retracted] = Op.RETRACT

    added = np.full(len(ranks), Op.SKIP)
    added[inserted] = np.where(accepted[inserted], Op.ADD, Op.ADD_BEFORE)
    added[retracted] = Op.RETRACT
    added[retracted & begins] = Op.SET_AND_RETRACT
    added[sets] = Op.SET

    follows, empties, adds = (Changes(keys, ops) for ops in (newest, emptied, added))
    columns = {}
    for name in sequence.columns:
        if name in sequence.group.sequence_fields:
            columns[name] = ColumnMerge(follows, _NEWEST)
        elif name in spec.aggregates:
            columns[name] = ColumnMerge(adds, spec.aggregates[name])
        else:
            columns[name] = ColumnMerge(empties, _NEWEST)
    return columns


def _highest_before(
    keys: Keys, ranks: np.ndarray, takes_part: np.ndarray, removes: np.ndarray
) -> np.ndarray:
    """The highest rank among the rows of the key before each, since the record was last removed.

    Rows outside of the group are skipped; 0 before the first row.
    """
    stretch = np.cumsum(keys.is_start | removes)
    # Each stretch is shifted above the one before, so that one running maximum serves all.
    step = int(ranks.max()) + 1
    lifted = stretch * step + np.where(takes_part, ranks, 0)
    highest = np.maximum.accumulate(lifted)
    before = np.empty_like(highest)
    before[0] = step
    before[1:] = highest[:-1]
    result: np.ndarray = np.maximum(before - stretch * step, 0)
    return result


def _removing(spec: MergeSpec, events: _Events, sequences: Sequence[_Sequence]) -> np.ndarray:
    """Marks deletions that remove the whole record."""
    deletes: np.ndarray = (events.kinds == RowKind.DELETE) & events.retractions
    if spec.remove_record_on_delete:
        return deletes
    removing = [sequence for sequence in sequences if sequence.group.removes_record]
    none = np.zeros(len(deletes), dtype=bool)
    if not removing or not deletes.any():
        return none
    if len(removing) == 1:
        # A removal by a group never lowers that group's highest sequence.
        ranks = removing[0].ranks
        highest = _highest_before(events.keys, ranks, ranks > 0, none)
        removes: np.ndarray = deletes & (ranks > 0) & (ranks >= highest)
        return removes
    return _removing_by_several(events, deletes, [sequence.ranks for sequence in removing])


def _removing_by_several(
    events: _Events, deletes: np.ndarray, ranks: Sequence[np.ndarray]
) -> np.ndarray:
    keys = events.keys
    removes = np.zeros(len(deletes), dtype=bool)
    for key in np.flatnonzero(keys.any(deletes)).tolist():
        highest = [0] * len(ranks)
        start = int(keys.starts[key])
        for row in range(start, start + int(keys.sizes[key])):
            given = [int(each[row]) for each in ranks]
            if deletes[row] and any(
                rank and rank >= top for rank, top in zip(given, highest, strict=True)
            ):
                removes[row] = True
                highest = given
            else:
                highest = [max(pair) for pair in zip(given, highest, strict=True)]
    return removes


def _refuse(spec: MergeSpec, count: int) -> NoReturn:
    raise InvalidRows(
        f"{spec.table} has merge-engine=partial-update, which takes no deletions by default, and "
        f"{count} of its rows are deletions; set ignore-delete=true to leave them out, "
        "partial-update.remove-record-on-delete=true to remove the record, or sequence groups to "
        "empty their columns"
    )
