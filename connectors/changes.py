"""Changes as rows: what is left when insertions, updates and deletions are carried out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors.model.catalog_table import ResolvedCatalogTable
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.rows import ROW_KIND_COLUMN, RowKind

RETRACTIONS = [kind.short for kind in RowKind if kind.retracts]


def net_rows(
    changes: Sequence[pa.Table], schema: pa.Schema, table: ResolvedCatalogTable
) -> pa.Table:
    """The rows after all changes, in the order of their last one, with kind `+I`.

    With a primary key, the last change of each key counts. Without, a retraction takes one row
    whose physical columns are equal: metadata, such as an offset, is of the change.

    Raises:
        InvalidRows: without a key, a retraction has no row to take.
    """
    rows = pa.concat_tables([schema.empty_table(), *changes]).combine_chunks()
    retracts = pc.is_in(rows.column(ROW_KIND_COLUMN), pa.array(RETRACTIONS)).to_numpy(
        zero_copy_only=False
    )
    kept = (
        _last_of_keys(rows, table.primary_keys, retracts)
        if table.primary_keys
        else _not_taken(rows.select(table.schema.field_names), retracts)
    )
    found = rows.take(pa.array(kept, pa.int64()))
    at = found.column_names.index(ROW_KIND_COLUMN)
    kinds = pa.array([RowKind.INSERT.short] * len(kept), pa.string())
    return found.set_column(at, ROW_KIND_COLUMN, kinds)


def _last_of_keys(rows: pa.Table, keys: Sequence[str], retracts: np.ndarray) -> list[int]:
    numbered = rows.select(list(keys)).append_column("at", pa.array(np.arange(rows.num_rows)))
    last = numbered.group_by(list(keys)).aggregate([("at", "max")]).column("at_max").to_numpy()
    kept = np.sort(last)
    return [int(at) for at in kept if not retracts[at]]


def _not_taken(rows: pa.Table, retracts: np.ndarray) -> list[int]:
    """The rows that no later retraction takes."""
    if not retracts.any():
        return list(range(rows.num_rows))
    held: dict[str, list[int]] = {}
    columns = [column.to_pylist() for column in rows.columns]
    for at, values in enumerate(zip(*columns, strict=True)):
        # Nested values are lists, which have no hash; NaN has the text of each NaN.
        same = held.setdefault(repr(values), [])
        if not retracts[at]:
            same.append(at)
        elif same:
            same.pop()
        else:
            raise InvalidRows(
                f"change {at} takes back ({', '.join(map(repr, values)):.200}), which is not "
                "there; give the table a primary key if its rows have one"
            )
    return sorted(at for each in held.values() for at in each)
