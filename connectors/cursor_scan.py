"""Scans by a cursor: rows behind the last value of a column, asked of what gives them in order.

An offset is the greatest value of the cursor so far. To know how far rows go they must be asked
for, so a batch is asked for when it is planned, and waits for its reader. If a batch is repeated
after a stop, it is asked for again, and rows behind its end are left to the next one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.connectors.runtime import Offset, Scan, Split
from lakewright.storage.codec.arrow_types import to_arrow_type
from lakewright.storage.errors import InvalidRows
from lakewright.storage.spec.data_types import DataField
from lakewright.storage.spec.values import from_python, to_python

_VALUE = "after"


class CursorScan(Scan):
    """A scan that an author writes by one function: the rows behind a value.

    Without a cursor, each scan gives all rows, once. Rows of the same value as the last one that
    come later are not seen: a cursor must grow with each row that is added, or be exact enough.
    """

    # Rows wait in this process, and a source that is asked again goes on.
    is_bounded = True

    def __init__(self, cursor: DataField | None, owner: str) -> None:
        self._cursor, self._owner = cursor, owner
        self._waiting: list[tuple[Any, Any, list[pa.RecordBatch]]] = []

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_waiting": []}

    @abstractmethod
    def fetch(self, after: Any) -> Iterator[pa.RecordBatch]:
        """The rows whose cursor is greater than a value, all without one, in any order."""

    def earliest(self) -> Offset:
        return {_VALUE: None} if self._cursor is not None else {"read": False}

    def latest(self, start: Offset, limit: int | None = None) -> Offset:
        if self._cursor is None:
            return {"read": True}
        after = start[_VALUE]
        held = next((each for each in self._waiting if each[0] == after), None)
        if held is None:
            batches = [each for each in self._fetched(after) if each.num_rows]
            last = max((self._greatest(batch) for batch in batches), default=after, key=self._order)
            held = after, last, batches
            self._waiting.append(held)
        return {_VALUE: held[1]}

    def plan(self, start: Offset, end: Offset) -> Sequence[Split]:
        if start == end:
            return []
        if self._cursor is None:
            return (None,)
        after, until = start[_VALUE], end[_VALUE]
        held = next((each for each in self._waiting if each[:2] == (after, until)), None)
        batches = self._fetched(after) if held is None else held[2]
        return [self._up_to(batch, until) for batch in batches]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        if split is None:
            yield from self.fetch(None)
        else:
            yield split

    def acknowledge(self, end: Offset) -> None:
        self._waiting = [each for each in self._waiting if each[0] == end.get(_VALUE)]

    def _fetched(self, after: Any) -> Iterator[pa.RecordBatch]:
        assert self._cursor is not None
        return self.fetch(None if after is None else self._typed(after))

    def _typed(self, text: str) -> Any:
        """The Python value of a cursor; offsets hold its text."""
        assert self._cursor is not None
        kind: Any = self._cursor.type
        return to_python(from_python(text, kind), kind)

    def _order(self, text: Any) -> Any:
        assert self._cursor is not None
        # The beginning is before all values.
        return (0, 0) if text is None else (1, from_python(text, self._cursor.type))

    def _greatest(self, batch: pa.RecordBatch) -> str | None:
        assert self._cursor is not None
        column = batch.column(self._cursor.name)
        if column.null_count:
            raise InvalidRows(
                f"{self._owner}: {column.null_count} of {batch.num_rows} rows have no "
                f"{self._cursor.name}, which tells what is new; leave such rows out",
                column=self._cursor.name,
            )
        return str(pc.max(column).as_py())

    def _up_to(self, batch: pa.RecordBatch, until: str) -> pa.RecordBatch:
        assert self._cursor is not None
        last = pa.scalar(self._typed(until), to_arrow_type(self._cursor.type))
        return batch.filter(pc.less_equal(batch.column(self._cursor.name), last))
