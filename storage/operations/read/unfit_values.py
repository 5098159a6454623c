"""Values of older files that do not fit the type that their column has now.

The reader marks the rows that hold such values. A merge may drop a marked row, since a newer row
replaces it. Of the rows that remain, the reader refuses the values or counts them as null, by the
table's cast mode.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from lakewright.storage.codec.fitted_values import LostValues, shown_value
from lakewright.storage.lsm.merge import retracting
from lakewright.storage.spec.cast_mode import CAST_MODE, CastMode
from lakewright.storage.spec.schema import VALUE_KIND

_LOG = logging.getLogger(__name__)

# A column of marks: for each row its values that do not fit. `file` is an index in the split.
# `value` is a text where an error may name it, and null else.
UNFIT = "_UNFIT"
_MARK = pa.struct(
    [
        pa.field("file", pa.int32()),
        pa.field("column", pa.string()),
        pa.field("path", pa.string()),
        pa.field("value", pa.string()),
    ]
)
_MARKS = pa.list_(_MARK)


class NulledValues:
    """Counts the values that were read as null because they do not fit, by the paths of columns.

    Several threads may add to it.
    """

    def __init__(self) -> None:
        # To append is atomic; a sum would not be.
        self._found: list[tuple[str, int]] = []

    def add(self, path: str, count: int) -> None:
        self._found.append((path, count))

    def __len__(self) -> int:
        """How many entries there are, to name a moment for `since`."""
        return len(self._found)

    @property
    def total(self) -> int:
        return sum(count for _, count in self._found)

    def since(self, moment: int = 0) -> dict[str, int]:
        """The counts that were added since a moment, by path."""
        counts: Counter[str] = Counter()
        for path, count in self._found[moment:]:
            counts[path] += count
        return dict(sorted(counts.items()))


@contextmanager
def logged(nulled: NulledValues, table: str) -> Iterator[None]:
    """Log a warning after a read with the values that it made null, if there are any."""
    before = len(nulled)
    try:
        yield
    finally:
        counts = nulled.since(before)
        if counts:
            told = ", ".join(f"{count} of column {path}" for path, count in counts.items())
            _LOG.warning(
                "%s: values that do not fit the types of their columns were read as null: %s "
                "(%s=%s)",
                table,
                told,
                CAST_MODE,
                CastMode.EXPLICIT_NULL.value,
            )


def marked(
    rows: pa.Table, lost: Sequence[tuple[str, LostValues]], file: int, *, named: bool
) -> pa.Table:
    """The rows with marks for lost values, each under the name of its column.

    With `named` the marks hold the values as texts.
    """
    if not lost:
        return rows.append_column(UNFIT, pa.nulls(rows.num_rows, _MARKS))
    places = np.concatenate([each.rows for _, each in lost])
    order = np.argsort(places, kind="stable")
    counts = [len(each.rows) for _, each in lost]
    texts = [
        [shown_value(value) for value in each.values] if named else [None] * len(each.rows)
        for _, each in lost
    ]
    marks = pa.StructArray.from_arrays(
        [
            pa.array(np.full(len(places), file, dtype=np.int32)),
            pa.array(np.repeat([name for name, _ in lost], counts).tolist(), pa.string()),
            pa.array(np.repeat([each.path for _, each in lost], counts).tolist(), pa.string()),
            pa.array([text for part in texts for text in part], pa.string()),
        ],
        fields=list(_MARK),
    ).take(pa.array(order))
    lengths = np.bincount(places, minlength=rows.num_rows)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return rows.append_column(UNFIT, pa.ListArray.from_arrays(offsets, marks, type=_MARKS))


def with_marks(rows: pa.Table) -> pa.Table:
    """The rows with a column of marks, also if none is marked."""
    return rows if UNFIT in rows.column_names else marked(rows, (), 0, named=False)


def without_marks(rows: pa.Table, *, deletions: bool) -> tuple[pa.Table, pa.Table]:
    """The rows without their marks, and the marks; those of deletions only if asked for."""
    kept = rows
    if not deletions and VALUE_KIND in rows.column_names:
        kept = rows.filter(pa.array(~retracting(rows)))
    marks = kept.column(UNFIT).combine_chunks().flatten()
    table = pa.table(marks.flatten(), names=[field.name for field in _MARK])
    return rows.drop_columns([UNFIT]), table
