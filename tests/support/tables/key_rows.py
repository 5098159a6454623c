"""Tables with one key column and their rows by key, as merge engines take them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.arrow_types import to_arrow_schema
from lakewright.storage.lsm.key_groups import KeyGroups
from lakewright.storage.spec.data_types import parse_data_type
from lakewright.storage.spec.schema import Column, SchemaSpec, TableSchema, new_schema
from tests.support.models.merge_engines import Event


def schema_of(columns: dict[str, str], options: dict[str, str]) -> TableSchema:
    typed = tuple(Column(name, parse_data_type(text)) for name, text in columns.items())
    key = Column("k", parse_data_type("INT NOT NULL"))
    spec = SchemaSpec(columns=(key, *typed), primary_keys=("k",), options=options)
    return new_schema(spec, time_millis=0)


def groups_of(schema: TableSchema, keys: Sequence[Sequence[Event]]) -> KeyGroups:
    """The rows of each key side by side, keys numbered from 0."""
    events = [event for each in keys for event in each]
    numbers = [number for number, each in enumerate(keys) for _ in each]
    values = [{"k": number, **event.values} for number, event in zip(numbers, events, strict=True)]
    table = pa.Table.from_pylist(values, schema=to_arrow_schema(schema.fields))
    system = {
        "_KEY_k": pa.array(numbers, pa.int32()),
        "_SEQUENCE_NUMBER": pa.array([event.sequence for event in events], pa.int64()),
        "_VALUE_KIND": pa.array([int(event.kind) for event in events], pa.int8()),
    }
    for index, (name, column) in enumerate(system.items()):
        table = table.add_column(index, name, column)
    sizes = [len(each) for each in keys]
    return KeyGroups(table, np.cumsum([0, *sizes[:-1]]).astype(np.int64))
