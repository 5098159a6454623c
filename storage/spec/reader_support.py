"""Which clients cannot read what a change of a schema brings in, each gap as a test measures it.

`tests/interop/test_reader_support.py` shows each gap, and that the other clients have none there.
Spark reads through our own readers, and no change locks them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lakewright.storage.spec.data_types import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
)
from lakewright.storage.spec.file_format import PARQUET
from lakewright.storage.spec.options import trimmed
from lakewright.storage.spec.schema import TableSchema
from lakewright.storage.spec.schema_change import path_text
from lakewright.storage.spec.schema_mapping import CastValues, SameValues, schema_mapping

JAVA_0_9, JAVA_1_4 = "java-0.9.0", "java-1.4.2"
PYPAIMON, PYPAIMON_RUST = "pypaimon-2.1.0", "pypaimon-rust-0.4.0"
READERS = (JAVA_0_9, JAVA_1_4, PYPAIMON, PYPAIMON_RUST)

# Finer timestamps than this are stored in another way.
_MICROSECONDS = 6

# Of the schemas before and after a change: the columns that bring a gap in, as paths.
_Brings = Callable[[TableSchema, TableSchema], Iterator[str]]


@dataclass(frozen=True, slots=True)
class ReaderGap:
    """Something that a client cannot read.

    With `of_older_rows` only rows that are there before the change are concerned.
    """

    reader: str
    told: str
    brought_by: _Brings
    of_older_rows: bool = False


def _changed_inside(old: TableSchema, new: TableSchema) -> Iterator[str]:
    """Columns whose members, elements or values other rows hold in another form."""
    for column in schema_mapping(old.fields, new.fields).columns.values():
        if column.stored is not None and not isinstance(column.values, (SameValues, CastValues)):
            yield path_text((column.stored.name,))


def _multisets(old: TableSchema, new: TableSchema) -> Iterator[str]:
    return _with_new(old, new, lambda data_type: isinstance(data_type, MultisetType))


def _nanoseconds_of_keyed_rows(old: TableSchema, new: TableSchema) -> Iterator[str]:
    return _with_new(old, new, _is_finest) if new.has_primary_key else iter(())


def _nanoseconds_beside_coarser(old: TableSchema, new: TableSchema) -> Iterator[str]:
    if not _writes_parquet(new) or _mixes_timestamps(old) or not _mixes_timestamps(new):
        return iter(())
    return _with_new(old, new, _is_timestamp)


def _with_new(
    old: TableSchema, new: TableSchema, concerns: Callable[[DataType], bool]
) -> Iterator[str]:
    """Columns that hold such a type after the change and not before."""
    before = {field.id: field.type for field in old.fields}
    for field in new.fields:
        known = before.get(field.id)
        held = set() if known is None else {part for part in _parts(known) if concerns(part)}
        if any(concerns(part) and part not in held for part in _parts(field.type)):
            yield path_text((field.name,))


def _parts(data_type: DataType) -> Iterator[DataType]:
    """A type and all types inside of it."""
    yield data_type
    match data_type:
        case RowType(fields=fields):
            for field in fields:
                yield from _parts(field.type)
        case ArrayType(element=element) | MultisetType(element=element):
            yield from _parts(element)
        case MapType(key=key, value=value):
            yield from _parts(key)
            yield from _parts(value)


def _is_timestamp(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root.is_timestamp


def _is_finest(data_type: DataType) -> bool:
    return (
        isinstance(data_type, AtomicType)
        and data_type.root.is_timestamp
        and data_type.precision > _MICROSECONDS
    )


def _mixes_timestamps(schema: TableSchema) -> bool:
    parts = [part for field in schema.fields for part in _parts(field.type)]
    finest = {_is_finest(part) for part in parts if _is_timestamp(part)}
    return len(finest) == 2


def _writes_parquet(schema: TableSchema) -> bool:
    return trimmed(schema.options).get("file.format", PARQUET).lower() == PARQUET


GAPS = (
    ReaderGap(
        reader=JAVA_0_9,
        told="fails on rows of before if members inside of a column have changed",
        brought_by=_changed_inside,
        of_older_rows=True,
    ),
    ReaderGap(
        reader=JAVA_0_9,
        told="fails on Parquet files with timestamps of nanoseconds beside coarser ones",
        brought_by=_nanoseconds_beside_coarser,
    ),
    ReaderGap(
        reader=PYPAIMON,
        told="cuts timestamps of tables with a primary key to microseconds",
        brought_by=_nanoseconds_of_keyed_rows,
    ),
    ReaderGap(
        reader=PYPAIMON,
        told="does not open a table with a multiset",
        brought_by=_multisets,
    ),
)
