"""Compares two states of a primary-key table whose files have different partition keys.

A file of one state has no counterpart in the other: rows lie in other partitions and buckets, in
another order. So both states are read as any reader reads them, and their rows meet by the columns
that both primary keys have.

1. Plan each state under its own schema. Rows with equal values of the partition keys that both
   states have make one split, since these columns are part of both primary keys.
2. Rows of a split that exceed the memory go to heaps on disk by the hash of the key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.storage.codec.arrow_types import to_arrow_field
from lakewright.storage.codec.bucket_hash import buckets_of
from lakewright.storage.errors import SchemaMoved, UnsupportedError
from lakewright.storage.files.spill import Spill
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.lsm.row_difference import difference_by_key
from lakewright.storage.operations.changes.change_plan import ChangeSource, ChangeSplit
from lakewright.storage.operations.read.file_rows import FileRows
from lakewright.storage.operations.read.read import SplitReader
from lakewright.storage.operations.read.scan import DataSplit, plan_scan
from lakewright.storage.operations.read.unfit_values import NulledValues
from lakewright.storage.operations.state.table_state import ANY_KEYS, state_at
from lakewright.storage.spec.data_types import AtomicType, DataField, TypeRoot
from lakewright.storage.spec.partition_text import partition_text
from lakewright.storage.spec.predicate import Predicate, only_on
from lakewright.storage.spec.rows import RowKind
from lakewright.storage.spec.schema import VALUE_KIND, TableSchema
from lakewright.storage.spec.snapshot import Snapshot
from lakewright.storage.spec.values import Value

# Rows of a heap are spilled batch by batch; small heaps would make too many small batches.
MOST_HEAPS = 256
_Values = dict[int, tuple[DataField, Value]]


def have_other_keys(files: TableFiles, before: Snapshot | None, after: Snapshot) -> bool:
    """Whether two states of a primary-key table cannot be compared bucket by bucket.

    In the midst of a change of the keys files lie as the later keys want it, under the former ones.
    """
    states = [each for each in (before, after) if each is not None]
    tables = [files.at_schema(state.schema_id) for state in states]
    return len({_key_ids(table.schema) for table in tables}) > 1 or any(
        state_at(then, each, takes=ANY_KEYS).is_bridged
        for then, each in zip(tables, states, strict=True)
    )


@contextmanager
def told_if_mixed(files: TableFiles, snapshot: Snapshot) -> Iterator[None]:
    """Tell that a snapshot has files of several partition keys, where its own schema has others.

    Raises:
        UnsupportedError: names the snapshot.
    """
    try:
        yield
    except SchemaMoved as error:
        raise UnsupportedError(
            f"snapshot {snapshot.id} of {files.name} has files of several partition keys, as a "
            "client committed it that opened the table before the keys changed; it is unknown "
            "which of its rows replace others: compare a snapshot before it, or one after its rows "
            "were moved to the present keys (lakewright respec)"
        ) from error


def with_keys_of(files: TableFiles, schema_id: int) -> TableFiles:
    """The table with its own columns and options, and the keys of another schema.

    Raises:
        UnsupportedError: a column of these keys is no column of the table any more.
    """
    then, own = files.at_schema(schema_id).schema, files.schema
    if _key_ids(then) == _key_ids(own):
        return files
    names = {field.id: field.name for field in own.fields}
    for key in (*then.partition_keys, *then.primary_keys):
        if then.field(key).id not in names:
            raise UnsupportedError(
                f"column {key!r} of {files.name} was in its keys (schema {schema_id}) and was "
                "dropped since, so rows of then cannot be merged as rows of today; read the state "
                "of then by itself, or changes after it"
            )
    partition, primary = (
        tuple(names[then.field(key).id] for key in keys)
        for keys in (then.partition_keys, then.primary_keys)
    )
    return replace(files, schema=replace(own, partition_keys=partition, primary_keys=primary))


def splits_across_keys(
    files: TableFiles, before: Snapshot | None, after: Snapshot, predicate: Predicate | None
) -> Iterator[ChangeSplit]:
    """A split for each value of the partition keys that both states have.

    Raises:
        UnsupportedError: the primary keys have no column in common, or a client wrote rows under
            former partition keys.
    """
    ids = ((before or after).schema_id, after.schema_id)
    compared = _Compared.of(files, ids)
    # A condition on these columns leaves a key out of both states, or of none.
    on_keys = only_on(predicate, frozenset(compared.unrenamed))
    states: list[list[tuple[_Values, DataSplit]]] = []
    for snapshot, schema_id in zip((before, after), ids, strict=True):
        then = files.at_schema(schema_id)
        with told_if_mixed(files, snapshot or after):
            planned = plan_scan(then, snapshot, on_keys)
        states.append([(_partition_values(then, each), each) for each in planned.splits])
    # In the midst of a change of the keys, files tell those alone that stay.
    shared = [
        each
        for each in compared.shared
        if all(each in values for found in states for values, _ in found)
    ]
    parts: dict[str, tuple[list[DataSplit], list[DataSplit]]] = {}
    for number, found in enumerate(states):
        for values, split in found:
            there = [values[each] for each in shared]
            text = partition_text([value for _, value in there], [field for field, _ in there])
            parts.setdefault(text, ([], []))[number].append(split)
    for text in sorted(parts):
        old, new = parts[text]
        yield ChangeSplit(
            source=ChangeSource.DIFFERENCE, before=tuple(old), after=tuple(new), keys_of=ids
        )


def differences_across_keys(
    files: TableFiles, split: ChangeSplit, most_bytes: int, nulled: NulledValues
) -> Iterator[pa.Table]:
    """The changes of a split as key-value rows of all columns, heap by heap.

    Raises:
        UnsupportedError: the primary key changed, and rows of a state share what both have of it.
    """
    compared = _Compared.of(files, split.keys_of)
    sides = [
        _Side(SplitReader(with_keys_of(files, each), columns=None, predicate=None, nulled=nulled))
        for each in split.keys_of
    ]
    parts = (split.before, split.after)
    hashed = [each for each in files.schema.fields_of(compared.keys) if hashes_alike(each)]
    weight = sum(side.bytes_of(parts, most_bytes) for side, parts in zip(sides, parts, strict=True))
    count = min(MOST_HEAPS, math.ceil(weight / most_bytes)) if hashed else 1
    fields = [to_arrow_field(field).with_nullable(True) for field in files.schema.fields]
    nothing = pa.schema(fields).empty_table()
    with Spill() as spill:
        whole: list[pa.Table] = []
        for number, (side, splits) in enumerate(zip(sides, parts, strict=True)):
            if count <= 1:
                whole.append(pa.concat_tables([nothing, *side.rows(splits, nothing.schema)]))
                continue
            for rows in side.rows(splits, nothing.schema):
                heaps = buckets_of(rows, hashed, count)
                for heap in np.unique(heaps).tolist():
                    spill.put(2 * heap + number, rows.filter(pa.array(heaps == heap)))
        for heap in range(max(1, count)):
            pair = whole or [spill.take(2 * heap + number) or nothing for number in range(2)]
            for number, rows in enumerate(pair):
                compared.check_unique(files, rows, split.keys_of[number])
            old, new = (_inserted(rows) for rows in pair)
            yield difference_by_key(old, new, compared.keys, files.schema.field_names)


@dataclass(frozen=True, slots=True)
class _Compared:
    """What rows of two states are compared by.

    `keys` are the columns of both primary keys by their present names, `shared` the ids of columns
    that are partition keys in both, and `unrenamed` those keys whose names stayed.
    """

    keys: tuple[str, ...]
    shared: tuple[int, ...]
    unrenamed: tuple[str, ...]

    @classmethod
    def of(cls, files: TableFiles, schema_ids: Sequence[int]) -> _Compared:
        """Compare states of two schemas.

        Raises:
            UnsupportedError: their primary keys have no column in common.
        """
        first, second = (files.at_schema(schema_id).schema for schema_id in schema_ids)
        common = [
            (first.field(key).id, key)
            for key in first.primary_keys
            if first.field(key).id
            in {second.field(primary_key).id for primary_key in second.primary_keys}
        ]
        own = {field.id: field.name for field in files.schema.fields}
        if not common or any(number not in own for number, _ in common):
            raise UnsupportedError(
                f"the primary keys of {files.name} were {', '.join(first.primary_keys)} (schema "
                f"{first.id}) and {', '.join(second.primary_keys)} (schema {second.id}), which "
                "have no column in common that the table still has; read both states by themselves"
            )
        keys = {number for number, _ in common}
        partition = [
            {partition_field.id for partition_field in schema.partition_fields}
            for schema in (first, second)
        ]
        named = [{field.id: field.name for field in schema.fields} for schema in (first, second)]
        return cls(
            keys=tuple(own[number] for number, _ in common),
            shared=tuple(sorted(partition[0] & partition[1] & keys)),
            unrenamed=tuple(
                name for number, name in common if own[number] == name and named[1][number] == name
            ),
        )

    def check_unique(self, files: TableFiles, rows: pa.Table, schema_id: int) -> None:
        """Check that the columns tell the rows of a heap apart.

        Raises:
            UnsupportedError: names some that they do not.
        """
        names = list(self.keys)
        groups = rows.select(names).group_by(names).aggregate([([], "count_all")])
        if groups.num_rows == rows.num_rows:
            return
        several = groups.filter(pc.greater(groups.column("count_all"), 1))
        first = several.slice(0, 1).to_pylist()[0]
        told = ", ".join(f"{name}={first[name]}" for name in names)
        schema = files.at_schema(schema_id).schema
        raise UnsupportedError(
            f"the primary key of {files.name} changed between the two states, so their rows are "
            f"compared by the columns of both keys, {', '.join(names)}; of the state with the "
            f"primary key {', '.join(schema.primary_keys)}, {first['count_all']} rows have {told}, "
            f"and {several.num_rows} such values were found so far; compare states on one side of "
            "the change, or read both by themselves"
        )


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two states, as readers see it."""

    reader: SplitReader

    def rows(self, splits: Iterable[DataSplit], schema: pa.Schema) -> Iterator[pa.Table]:
        for split in splits:
            for rows in self.reader.read(split):
                yield rows.cast(schema)

    def bytes_of(self, splits: Iterable[DataSplit], most_bytes: int) -> int:
        """About the memory of all rows."""
        source = FileRows(self.reader.files, self.reader.files.schema.fields)
        return sum(
            sum(file.row_count for file in split.files)
            * source.row_bytes(split, split.files, most_bytes)
            for split in splits
        )


def _key_ids(schema: TableSchema) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(each.id for each in schema.fields_of(keys))
        for keys in (schema.partition_keys, schema.primary_keys)
    )


def _partition_values(files: TableFiles, split: DataSplit) -> _Values:
    """The partition of a split, by the ids of its keys."""
    partition = files.partitions.of_row(split.partition, split.files[0].schema_id)
    return {
        field.id: (field, value)
        for field, value in zip(partition.keys.fields, partition.values, strict=True)
    }


def _inserted(rows: pa.Table) -> pa.Table:
    kinds = np.full(rows.num_rows, int(RowKind.INSERT), dtype=np.int8)
    return rows.append_column(VALUE_KIND, pa.array(kinds))


def hashes_alike(field: DataField) -> bool:
    """Whether equal values of a column have equal hashes; NaNs need not."""
    kind = field.type
    return isinstance(kind, AtomicType) and kind.root not in (TypeRoot.FLOAT, TypeRoot.DOUBLE)
