"""The values of a part of a column in rows as they are stored, and its nulls."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakewright.storage.codec.arrow_cast import map_entries
from lakewright.storage.spec.changed_parts import ChangedPart
from lakewright.storage.spec.schema_change import KEY


def values_of(rows: pa.Table, part: ChangedPart) -> Iterator[pa.Array]:
    """The values at the end of a part's path, of the rows, arrays and maps that are there."""
    for chunk in rows.column(part.steps[0]).chunks:
        array = chunk
        for step in part.steps[1:]:
            array = array.drop_null()
            if pa.types.is_struct(array.type):
                array = array.field(step)
            elif pa.types.is_map(array.type):
                keys, values = map_entries(array)
                array = keys if step == KEY else values
            else:
                array = array.flatten()
        yield array


def null_count(values: pa.Array, part: ChangedPart) -> int:
    """The nulls among values of `values_of`.

    A member that the file lacks is null in each row that is there.
    """
    nulls: int = values.null_count
    return len(values) - nulls if part.stored is None else nulls
