"""Row kinds of a write: where they come from, and which kinds the table accepts.

1. Take kinds from the column `_rowkind` or from the table's `rowkind.field`; rows without a
   kind are insertions.
2. Leave out rows of kinds that the table ignores.
3. Refuse retractions that the merge engine cannot apply, before they are written. Otherwise
   every later read would fail.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakewright.storage.errors import InvalidRows
from lakewright.storage.files.table_files import TableFiles
from lakewright.storage.spec.merge_spec import MergeEngine, MergeSpec
from lakewright.storage.spec.rows import ROW_KIND_COLUMN, RowKind
from lakewright.storage.spec.schema import VALUE_KIND

_CODES: dict[object, int] = {kind.short: int(kind) for kind in RowKind}
_CODES |= {int(kind): int(kind) for kind in RowKind}


def with_row_kinds(files: TableFiles, rows: pa.Table, given: pa.ChunkedArray | None) -> pa.Table:
    """The table's columns followed by `_VALUE_KIND`, without rows of ignored kinds.

    Append tables get no such column. `given` is the column `_rowkind` of the rows.

    Raises:
        InvalidRows: a kind is unknown or not accepted by the table; names the column and the count.
    """
    spec = files.merge_spec
    kinds = _kinds(spec, rows, given)
    if kinds is None:
        if files.schema.is_keyed:
            inserts = pa.array(np.zeros(rows.num_rows, dtype=np.int8))
            return rows.append_column(VALUE_KIND, inserts)
        return rows
    ignored = np.isin(kinds, [int(kind) for kind in spec.dropped_kinds])
    if ignored.any():
        rows, kinds = rows.filter(pa.array(~ignored)), kinds[~ignored]
    if not files.schema.is_keyed:
        _check_inserts(files.name, kinds)
        return rows
    _check_accepted(spec, kinds)
    return rows.append_column(VALUE_KIND, pa.array(kinds))


def _kinds(spec: MergeSpec, rows: pa.Table, given: pa.ChunkedArray | None) -> np.ndarray | None:
    """The number of each row's kind; None if no row has a kind."""
    if spec.rowkind_field is None:
        return None if given is None else _codes(given, ROW_KIND_COLUMN, spec.table)
    if given is not None:
        raise InvalidRows(
            f"{spec.table} takes row kinds from its column {spec.rowkind_field}, and the rows "
            f"have a column {ROW_KIND_COLUMN} too; leave {ROW_KIND_COLUMN} out",
            column=ROW_KIND_COLUMN,
        )
    return _codes(rows.column(spec.rowkind_field), spec.rowkind_field, spec.table)


def _codes(kinds: pa.ChunkedArray, column: str, table: str) -> np.ndarray:
    encoded = kinds.combine_chunks().dictionary_encode(null_encoding="encode")
    codes = np.array(
        [_CODES.get(value, -1) for value in encoded.dictionary.to_pylist()], dtype=np.int8
    )
    found: np.ndarray = codes[encoded.indices.to_numpy()] if len(kinds) else codes
    unknown = np.flatnonzero(found < 0)
    if len(unknown):
        raise InvalidRows(
            f"{table}: column {column} holds {kinds[int(unknown[0])].as_py()!r} in row "
            f"{unknown[0]}, and {len(unknown)} of {len(found)} rows hold no row kind; "
            "write +I, -U, +U or -D",
            column=column,
        )
    return found


def _check_inserts(table: str, kinds: np.ndarray) -> None:
    others = int(np.count_nonzero(kinds))
    if others:
        raise InvalidRows(
            f"{table} has no primary key and takes +I rows only, and {others} of {len(kinds)} "
            f"rows are of another kind; leave {ROW_KIND_COLUMN} out, or give the table a primary "
            "key"
        )


def _check_accepted(spec: MergeSpec, kinds: np.ndarray) -> None:
    for kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE):
        count = int(np.count_nonzero(kinds == kind))
        problem = _problem_with(spec, kind) if count else None
        if problem is not None:
            raise InvalidRows(
                f"{spec.table} has merge-engine={spec.engine.value}, and {count} of {len(kinds)} "
                f"rows are {kind.short}: {problem}"
            )


def _problem_with(spec: MergeSpec, kind: RowKind) -> str | None:
    """Why the merge engine cannot apply retractions of a kind; None if it can."""
    leave_out = "set ignore-delete=true to leave them out"
    if spec.engine is MergeEngine.FIRST_ROW:
        return f"a first row cannot be retracted; {leave_out}"
    if spec.engine is MergeEngine.PARTIAL_UPDATE:
        # Sequence groups decide row by row.
        if spec.sequence_groups or spec.remove_record_on_delete:
            return None
        return (
            f"a partial update cannot be retracted; {leave_out}, or "
            "partial-update.remove-record-on-delete=true to delete whole rows"
        )
    if spec.engine is MergeEngine.AGGREGATION:
        if kind is RowKind.DELETE and spec.remove_record_on_delete:
            return None
        for column, aggregate in spec.aggregates.items():
            if not (aggregate.function.retractable or aggregate.ignore_retract):
                return (
                    f"column {column} aggregates by {aggregate.function.value}, which cannot be "
                    f"retracted; {leave_out}, or fields.{column}.ignore-retract=true to leave "
                    "the column as it is"
                )
    return None
